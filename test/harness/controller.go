package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
)

// Controller is a gangline-controller process.
type Controller struct {
	process
	control *ControlPlane
	root    string
	config  configv1alpha1.Configuration
}

// Whom the programs are to the API server: the subjects of their roles.
const (
	ControllerUser = "system:serviceaccount:" + controllerNamespace + ":kubeflow-trainer-controller-manager"
	NodeUser       = "gangline-node"
)

// The controller's name and namespace.
const (
	controllerName      = "gangline-controller"
	controllerNamespace = "kubeflow-system"
)

// StartController installs the TrainJob API and its runtimes, and starts a
// gangline-controller with exactly its own rights. It is ready when admission
// answers. It dies with this program unless it is detached.
func StartController(ctx context.Context, control *ControlPlane, root, dir string, detached bool) (*Controller, error) {
	c := &Controller{process: process{dir: dir, name: controllerName, detached: detached}, control: control, root: root}
	if err := c.prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing gangline-controller: %w", err)
	}
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	// Runtimes are admitted by the controller itself.
	runtimes := filepath.Join("gangline", "files", "runtimes")
	if err := c.install(ctx, runtimes, filepath.Join(runtimes, "hpc")); err != nil {
		_ = c.Stop()
		return nil, err
	}
	return c, nil
}

// install applies manifests of charts, files or directories.
func (c *Controller) install(ctx context.Context, paths ...string) error {
	args := []string{"apply", "--server-side", "--force-conflicts"}
	for _, path := range paths {
		args = append(args, "-f", filepath.Join(c.root, "charts", path))
	}
	if _, err := c.control.Kubectl(ctx, "", args...); err != nil {
		return fmt.Errorf("installing %s: %w", strings.Join(paths, ", "), err)
	}
	return nil
}

func (c *Controller) prepare(ctx context.Context) error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	if err := install(filepath.Join(c.root, "bin", controllerName), c.binary()); err != nil {
		return err
	}
	manifests := filepath.Join("manifests", "controller")
	err := c.install(ctx, filepath.Join("gangline", "crds"), filepath.Join(manifests, "namespace.yaml"),
		filepath.Join(manifests, "rbac.yaml"), filepath.Join(manifests, "users.yaml"))
	if err != nil {
		return err
	}
	err = c.control.credentials(ctx, controllerName, ControllerUser, filepath.Join(c.dir, "credentials"), os.Getuid(), os.Getgid(), "")
	if err != nil {
		return err
	}
	if err := c.writeConfig(); err != nil {
		return err
	}
	// The API server has no cluster network to find a Service in.
	manifest, err := exec.CommandContext(ctx, c.binary(), "webhooks", "--config", c.configFile(),
		"--url", fmt.Sprintf("https://localhost:%d", *c.config.Webhook.Port)).Output()
	if err != nil {
		return fmt.Errorf("printing the webhook configurations: %w", err)
	}
	_, err = c.control.Kubectl(ctx, string(manifest), "apply", "-f", "-")
	return err
}

func (c *Controller) writeConfig() error {
	var ports [3]int32
	for i := range ports {
		port, err := freePort()
		if err != nil {
			return err
		}
		ports[i] = port
	}
	c.config.APIVersion, c.config.Kind = configv1alpha1.GroupVersion.String(), configv1alpha1.Kind
	c.config.Webhook.Host, c.config.Webhook.Port = "127.0.0.1", &ports[0]
	c.config.Health.HealthProbeBindAddress = fmt.Sprintf("127.0.0.1:%d", ports[1])
	c.config.Metrics.BindAddress = fmt.Sprintf("127.0.0.1:%d", ports[2])
	c.config.Metrics.SecureServing = ptr.To(false)
	c.config.ClientConnection.QPS, c.config.ClientConnection.Burst = ptr.To[float32](500), ptr.To[int32](1000)
	c.config.Controller.GroupKindConcurrency = map[string]int32{"TrainJob.trainer.kubeflow.org": 5}
	data, err := yaml.Marshal(c.config)
	if err != nil {
		return err
	}
	return os.WriteFile(c.configFile(), data, 0o644)
}

func (c *Controller) binary() string     { return filepath.Join(c.dir, controllerName) }
func (c *Controller) configFile() string { return filepath.Join(c.dir, "controller.yaml") }

// MetricsURL is where its metrics are, without authentication.
func (c *Controller) MetricsURL() string {
	return "http://" + c.config.Metrics.BindAddress + "/metrics"
}

// Start runs gangline-controller and waits until it is ready.
func (c *Controller) Start(ctx context.Context) error {
	cmd := exec.Command(c.binary(), "run", "--config", c.configFile(),
		"--kubeconfig", filepath.Join(c.dir, "credentials", "kubeconfig"), "--namespace", controllerNamespace,
		"--cert-dir", filepath.Join(c.dir, "certs"), "--cert-dns-name", "localhost")
	if err := c.start(cmd); err != nil {
		return err
	}
	if err := c.waitReady(ctx, "http://"+c.config.Health.HealthProbeBindAddress+"/readyz"); err != nil {
		return errors.Join(err, c.Stop())
	}
	return nil
}
