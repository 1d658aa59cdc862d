package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/faults"
)

// NodeOptions is one virtual node to run.
type NodeOptions struct {
	ControlPlane *ControlPlane
	// Root is the repository, Dir where the node's own files go.
	Root, Dir string
	Name      string
	// Shared is the filesystem that all HPC nodes see.
	Shared string
	// Spool is the node's spool, which may hold {user}; a directory of Shared if empty.
	Spool string
	// UID and GID are the ordinary user that the node and its jobs run as.
	UID, GID int
	Home     string
	// Address is where the node's port is; 127.0.0.1 if empty.
	Address string
	// Programs is the directory of the programs; Root's bin if empty.
	Programs string
	// Fault is the point at which the first process dies (see package faults); the
	// programs must know of such points.
	Fault string
	// Env are variables of the node's environment, besides its own.
	Env []string
	// Detach lets the process outlive this program.
	Detach bool
	// Configure fills in the workload manager and what else differs.
	Configure func(*provider.Config)
}

// Node is a gangline-node process.
type Node struct {
	process
	options NodeOptions
	config  string
}

// StartNode prepares and starts a virtual node, and waits until it is Ready.
func StartNode(ctx context.Context, o NodeOptions) (*Node, error) {
	n := &Node{process: process{dir: o.Dir, name: "gangline-node", detached: o.Detach}, options: o, config: filepath.Join(o.Dir, "node.yaml")}
	if err := n.prepare(ctx); err != nil {
		return nil, fmt.Errorf("preparing the virtual node %s: %w", o.Name, err)
	}
	if err := n.Start(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Node) prepare(ctx context.Context) error {
	o := n.options
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return err
	}
	if err := os.Chown(o.Dir, o.UID, o.GID); err != nil {
		return err
	}
	if err := o.ControlPlane.credentials(ctx, o.Name, NodeUser, filepath.Join(o.Dir, "credentials"), o.UID, o.GID, o.Address); err != nil {
		return err
	}
	if err := o.ControlPlane.grant(ctx, o.Root); err != nil {
		return err
	}
	agent := filepath.Join(o.Shared, "bin", "gangline-agent")
	programs := cmp.Or(o.Programs, filepath.Join(o.Root, "bin"))
	if err := install(filepath.Join(programs, "gangline-agent"), agent); err != nil {
		return err
	}
	if err := install(filepath.Join(programs, "gangline-node"), n.binary()); err != nil {
		return err
	}
	return n.writeConfig(agent)
}

func (n *Node) binary() string { return filepath.Join(n.options.Dir, "gangline-node") }

func (n *Node) writeConfig(agent string) error {
	o := n.options
	port, err := freePort()
	if err != nil {
		return err
	}
	credentials := filepath.Join(o.Dir, "credentials")
	c := provider.Config{
		NodeName: o.Name,
		Spool:    cmp.Or(o.Spool, filepath.Join(o.Shared, "spool", o.Name)),
		Agent:    agent,
		Kubelet: provider.KubeletConfig{
			Address: cmp.Or(o.Address, "127.0.0.1"), Port: port,
			CertFile:     filepath.Join(credentials, "serving.crt"),
			KeyFile:      filepath.Join(credentials, "serving.key"),
			ClientCAFile: filepath.Join(credentials, "client-ca.crt"),
		},
	}
	c.APIVersion, c.Kind = provider.ConfigAPIVersion, provider.ConfigKind
	o.Configure(&c)
	data, err := yaml.Marshal(c)
	if err != nil {
		return err
	}
	return os.WriteFile(n.config, data, 0o644)
}

// Reconfigure changes the configuration file, for the next start.
func (n *Node) Reconfigure(change func(*provider.Config)) error {
	data, err := os.ReadFile(n.config)
	if err != nil {
		return fmt.Errorf("reading the node's configuration: %w", err)
	}
	var c provider.Config
	if err := yaml.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("reading the node's configuration: %w", err)
	}
	change(&c)
	if data, err = yaml.Marshal(c); err != nil {
		return err
	}
	return os.WriteFile(n.config, data, 0o644)
}

// Standby runs another process of the same virtual node, which is to stand by. Its log has
// the given name.
func (n *Node) Standby(name string) (*Node, error) {
	second := &Node{process: process{dir: n.dir, name: name}, options: n.options, config: n.config}
	if err := second.start(second.command()); err != nil {
		return nil, err
	}
	return second, nil
}

// Start runs gangline-node and waits until the node is Ready.
func (n *Node) Start(ctx context.Context) error {
	if err := n.start(n.command()); err != nil {
		return err
	}
	if err := n.waitReady(ctx); err != nil {
		return errors.Join(err, n.Stop())
	}
	return nil
}

// Launch runs gangline-node and does not wait, as an init system would.
func (n *Node) Launch() error { return n.start(n.command()) }

func (n *Node) command() *exec.Cmd {
	o := n.options
	cmd := exec.Command(n.binary(), "run", "--config", n.config, "--kubeconfig", filepath.Join(o.Dir, "credentials", "kubeconfig"))
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.Home}, o.Env...)
	if o.Fault != "" {
		cmd.Env = append(cmd.Env, faults.Variable+"="+o.Fault)
		n.options.Fault = "" // the next process lives
	}
	if os.Geteuid() == 0 && o.UID != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}}
	}
	return cmd
}

func (n *Node) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		out, err := n.options.ControlPlane.Kubectl(ctx, "", "get", "node", n.options.Name,
			"-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status} {.spec.taints[*].key}`)
		// The control plane's own taint goes once it believes the node.
		if err == nil && strings.HasPrefix(out, "True") && !strings.Contains(out, corev1.TaintNodeNotReady) && !strings.Contains(out, corev1.TaintNodeUnreachable) {
			return nil
		}
		select {
		case <-n.exited:
			return fmt.Errorf("gangline-node ended; its log says: %s", n.LogTail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for node %s to be Ready: %w; its log says: %s", n.options.Name, ctx.Err(), n.LogTail())
		case <-ticker.C:
		}
	}
}

// Dir is where the node's own files are, its credentials among them.
func (n *Node) Dir() string { return n.options.Dir }

// Spool is the node's spool, that of the first of Users where each has his own.
func (n *Node) Spool() string { return n.SpoolOf(jobUser) }

// SpoolOf is the node's spool of a user.
func (n *Node) SpoolOf(user string) string {
	spool := cmp.Or(n.options.Spool, filepath.Join(n.options.Shared, "spool", n.options.Name))
	return strings.ReplaceAll(spool, "{user}", user)
}
