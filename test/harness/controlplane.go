package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// ControlPlane is a running dev control plane (see test/devcluster).
type ControlPlane struct {
	bin string // the directory of devcluster and kubectl
	dir string

	granting sync.Mutex
}

// startWait is how long a start that is broken off may take to end what it has begun.
const startWait = 20 * time.Second

// StartControlPlane starts one in dir and leaves it running. The flags are those of
// "devcluster up".
func StartControlPlane(ctx context.Context, bin, dir string, progress io.Writer, flags ...string) (*ControlPlane, error) {
	c := &ControlPlane{bin: bin, dir: dir}
	cmd := c.command(ctx, "devcluster", append([]string{"up", "--dir", dir, "--detach"}, flags...)...)
	cmd.Stderr = progress
	// Asked, it ends what it has begun; killed, it would leave that behind.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = startWait
	if err := cmd.Run(); err != nil {
		err = fmt.Errorf("starting the control plane: %w", err)
		if ctx.Err() != nil {
			err = errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
		}
		return nil, err
	}
	return c, nil
}

// command is one of its programs. It has a session of its own, so that a Ctrl-C, and the next
// one, is for this program alone, which then ends all in order.
func (c *ControlPlane) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// Stop ends it. Doing so twice does no harm.
func (c *ControlPlane) Stop(ctx context.Context) error {
	out, err := c.command(ctx, "devcluster", "down", "--dir", c.dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ending the control plane: %w: %s", err, out)
	}
	return nil
}

// Kill ends it as a power cut would. To go on with what it had, start it again with
// --fresh=false and its port.
func (c *ControlPlane) Kill() error {
	state, err := c.state()
	if err == nil {
		err = syscall.Kill(state.Supervisor.PID, syscall.SIGKILL)
	}
	if err != nil {
		return fmt.Errorf("killing the control plane: %w", err)
	}
	return nil // its components die with it
}

// Signal sends a signal to one of its components: "kube-apiserver", "etcd". One that is
// killed ends the whole, unless it was started with --respawn.
func (c *ControlPlane) Signal(component string, signal syscall.Signal) error {
	state, err := c.state()
	if err != nil {
		return fmt.Errorf("finding %s: %w", component, err)
	}
	for _, p := range state.Components {
		if p.Name != component {
			continue
		}
		if err := syscall.Kill(p.PID, signal); err != nil {
			return fmt.Errorf("sending %s to %s: %w", signal, component, err)
		}
		return nil
	}
	return fmt.Errorf("the control plane has no %s now", component)
}

// controlPlaneState is the part of devcluster.json that is read here.
type controlPlaneState struct {
	Supervisor struct {
		PID int `json:"pid"`
	} `json:"supervisor"`
	Components []struct {
		Name string `json:"name"`
		PID  int    `json:"pid"`
	} `json:"components"`
}

func (c *ControlPlane) state() (s controlPlaneState, err error) {
	data, err := os.ReadFile(filepath.Join(c.dir, "devcluster.json"))
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	return s, err
}

// Kubeconfig is the administrator's.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// AuditLogs are the files of the requests of those whom the flag --audit-users named.
func (c *ControlPlane) AuditLogs() ([]string, error) {
	return filepath.Glob(filepath.Join(c.dir, "logs", "audit*.log"))
}

// Kubectl runs kubectl as the administrator and returns what it prints. The
// error of a failed command carries its words.
func (c *ControlPlane) Kubectl(ctx context.Context, stdin string, args ...string) (string, error) {
	cmd := c.command(ctx, "kubectl", args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig())
	cmd.Stdin = strings.NewReader(stdin)
	var out, words strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &words
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(words.String()))
	}
	return out.String(), nil
}

// grant gives the virtual nodes their rights. Two kubectl apply at once would
// find the same objects missing and both create them.
func (c *ControlPlane) grant(ctx context.Context, root string) error {
	c.granting.Lock()
	defer c.granting.Unlock()
	_, err := c.Kubectl(ctx, "", "apply", "-k", filepath.Join(root, "charts", "manifests", "node"))
	return err
}

// credentials makes what a virtual node needs, and the controller some of: a
// kubeconfig of a user whose rights are its roles' alone, and a serving
// certificate, for 127.0.0.1 and the given address unless it is empty.
func (c *ControlPlane) credentials(ctx context.Context, name, user, out string, uid, gid int, address string) error {
	args := []string{
		"node-credentials", "--dir", c.dir, "--name", name, "--user", user, "--out", out,
		"--owner", strconv.Itoa(uid) + ":" + strconv.Itoa(gid),
	}
	if address != "" {
		args = append(args, "--ip", address)
	}
	cmd := c.command(ctx, "devcluster", args...)
	if words, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the credentials of %s: %w: %s", name, err, words)
	}
	return nil
}
