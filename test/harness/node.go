package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/provider"
)

// NodeOptions is one virtual node to run.
type NodeOptions struct {
	ControlPlane *ControlPlane
	// Root is the repository, Dir where the node's own files go.
	Root, Dir string
	Name      string
	// Shared is the filesystem that all HPC nodes see.
	Shared string
	// UID and GID are the ordinary user that the node and its jobs run as.
	UID, GID int
	Home     string
	// Configure fills in the workload manager and what else differs.
	Configure func(*provider.Config)
	// Detach lets the node outlive this program.
	Detach bool
}

// Node is a gangline-node process.
type Node struct {
	options NodeOptions
	config  string
	cmd     *exec.Cmd
	exited  chan struct{}
}

// StartNode prepares and starts a virtual node, and waits until it is Ready.
func StartNode(ctx context.Context, o NodeOptions) (*Node, error) {
	n := &Node{options: o, config: filepath.Join(o.Dir, "node.yaml")}
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
	if err := o.ControlPlane.nodeCredentials(ctx, o.Name, filepath.Join(o.Dir, "credentials"), o.UID, o.GID); err != nil {
		return err
	}
	if err := o.ControlPlane.grant(ctx, o.Root); err != nil {
		return err
	}
	agent := filepath.Join(o.Shared, "bin", "gangline-agent")
	if err := install(filepath.Join(o.Root, "bin", "gangline-agent"), agent); err != nil {
		return err
	}
	if err := install(filepath.Join(o.Root, "bin", "gangline-node"), n.binary()); err != nil {
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
		Spool:    filepath.Join(o.Shared, "spool", o.Name),
		Agent:    agent,
		Kubelet: provider.KubeletConfig{
			Address: "127.0.0.1", Port: port,
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

// Start runs gangline-node and waits until the node is Ready.
func (n *Node) Start(ctx context.Context) error {
	o := n.options
	log, err := os.OpenFile(n.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the virtual node's log: %w", err)
	}
	defer log.Close() //nolint:errcheck // the child has its own
	cmd := exec.Command(n.binary(), "run", "--config", n.config, "--kubeconfig", filepath.Join(o.Dir, "credentials", "kubeconfig"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.Home}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Geteuid() == 0 && o.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting gangline-node: %w", err)
	}
	n.cmd, n.exited = cmd, make(chan struct{})
	go func() { _ = cmd.Wait(); close(n.exited) }()
	if o.Detach {
		if err := os.WriteFile(n.pidFile(), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
			return err
		}
	}
	return n.waitReady(ctx)
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
		if err == nil && strings.HasPrefix(out, "True") && !strings.Contains(out, "not-ready") && !strings.Contains(out, "unreachable") {
			return nil
		}
		select {
		case <-n.exited:
			return fmt.Errorf("gangline-node ended; its log says: %s", n.logTail())
		case <-ctx.Done():
			return fmt.Errorf("waiting for node %s to be Ready: %w; its log says: %s", n.options.Name, ctx.Err(), n.logTail())
		case <-ticker.C:
		}
	}
}

// Kill ends the process at once, as a crash would.
func (n *Node) Kill() error {
	err := n.cmd.Process.Kill()
	<-n.exited
	return err
}

// Stop ends the process kindly.
func (n *Node) Stop() error {
	if err := n.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending gangline-node: %w", err)
	}
	select {
	case <-n.exited:
		return nil
	case <-time.After(15 * time.Second):
		return n.Kill()
	}
}

// LogFile is where gangline-node writes.
func (n *Node) LogFile() string { return filepath.Join(n.options.Dir, "gangline-node.log") }

// Spool is the node's spool.
func (n *Node) Spool() string { return filepath.Join(n.options.Shared, "spool", n.options.Name) }

func (n *Node) pidFile() string { return filepath.Join(n.options.Dir, "gangline-node.pid") }

func (n *Node) logTail() string {
	data, err := os.ReadFile(n.LogFile())
	if err != nil {
		return err.Error()
	}
	const tail = 3000
	return string(data[max(0, len(data)-tail):])
}

// StopDetached ends the node that another run of this program left in dir.
func StopDetached(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "gangline-node.pid"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return endAgents(dir) // a file cut short: its program is there to find it by
	}
	// The number may be another process's by now.
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil || !strings.HasPrefix(exe, filepath.Join(dir, "gangline-node")) {
		return nil
	}
	return syscall.Kill(pid, syscall.SIGTERM)
}

// endAgents ends what runs from programs below a directory: the agents that the
// local workload manager has left, and with them their pods. Jobs outlive the
// provider on purpose.
func endAgents(shared string) error {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		return fmt.Errorf("looking for agents: %w", err)
	}
	for _, link := range links {
		exe, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(exe, shared+"/") {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err != nil {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("ending agent %d: %w", pid, err)
		}
	}
	return nil
}

// install copies a program to where others can run it, as a whole.
func install(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("installing %s (make build makes it): %w", filepath.Base(from), err)
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.CreateTemp(filepath.Dir(to), ".install.*")
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Chmod(0o755), out.Close(), os.Rename(out.Name(), to))
}

func freePort() (int32, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close() //nolint:errcheck // it only showed the number
	return int32(l.Addr().(*net.TCPAddr).Port), nil
}
