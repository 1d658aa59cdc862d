package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/preflight"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
)

// TestPreflight runs gangline-node preflight on a site that is well, and on one with
// faults made on purpose. It makes faults one after the other.
func TestPreflight(t *testing.T) {
	t.Parallel()
	env := environment(t, "preflight", "slurm", 2, nil)
	hpc1, hpc2 := "preflight-hpc1", "preflight-hpc2"
	t.Run("all is well", func(t *testing.T) {
		p := newFlight(t, env, nil)
		lines := p.run(0)
		for _, l := range lines {
			assert.Contains(t, []doctor.Status{doctor.OK, doctor.Info}, l.Status, "%+v", l)
		}
		for _, what := range []string{"rights", "version", "reachability", "partition", "user namespaces", "GPUs", "MPI", "clock", "SSH between nodes", "SSH from here", "claims", "locks between nodes", "agent"} {
			assert.Contains(t, checks(lines), what)
		}
		p.find(lines, doctor.OK, "all its 2 nodes have reported", "")
		p.find(lines, doctor.OK, "CUDA_VISIBLE_DEVICES=", "")
	})
	t.Run("a wrong partition, a path without an agent and no API server", func(t *testing.T) {
		p := newFlight(t, env, func(c *provider.Config) { c.Agent, c.Partitions = "/nowhere/gangline-agent", []string{"nope"} })
		p.kubeconfig = filepath.Join(t.TempDir(), "none")
		lines := p.run(1)
		p.find(lines, doctor.Fail, `there is no "nope", which partitions names`, "name one of: batch, high")
		p.find(lines, doctor.Fail, "/nowhere/gangline-agent cannot be run there", "set agent in the node's configuration")
		p.find(lines, doctor.Fail, "reading the kubeconfig", "--kubeconfig")
		p.find(p.run(1, "--partition", "nope"), doctor.Info, "the partition is not there", "")
	})
	for _, node := range []string{hpc1, hpc2} {
		t.Run("the spool is not there on "+node, func(t *testing.T) {
			must := func(command ...string) {
				t.Helper()
				_, err := env.Slurm.Output(context.WithoutCancel(t.Context()), node, command...)
				require.NoError(t, err)
			}
			must("mount", "-t", "tmpfs", "none", env.Node.Spool())
			defer must("umount", env.Node.Spool())
			p := newFlight(t, env, nil)
			lines := p.run(1)
			if node == hpc1 { // where the job's script starts
				p.find(lines, doctor.Fail, "without a word", "mount the spool's filesystem on all HPC nodes")
				return
			}
			line := p.find(lines, doctor.Fail, "is not there on this node", "mount the spool's filesystem on this node")
			assert.Equal(t, node, line.Where)
			p.find(lines, doctor.Fail, "nothing was heard in the spool of tasks 1", "")
		})
	}
	t.Run("the job has to wait, and preflight is interrupted", func(t *testing.T) {
		busy, err := env.Slurm.Submit(t.Context(), "#!/bin/sh\nsleep 600\n", "-N2", "--exclusive", "--output=/dev/null")
		require.NoError(t, err)
		defer func() {
			_, err := env.Slurm.Run(context.WithoutCancel(t.Context()), "scancel", busy)
			assert.NoError(t, err)
		}()
		_, err = env.Slurm.WaitJob(t.Context(), busy, "RUNNING")
		require.NoError(t, err)
		p := newFlight(t, env, nil)
		p.find(p.run(1, "--timeout=1s"), doctor.Fail, "has not started in time: it is PENDING", "--nodes")
		p.interrupt("is PENDING")
	})
	t.Run("a directory for certificates that cannot be made, and a slurm.conf that is not there", func(t *testing.T) {
		p := newFlight(t, env, func(c *provider.Config) {
			c.Kubelet.CertFile, c.Kubelet.KeyFile, c.Kubelet.CertDir = "", "", "/pki"
			c.Slurm.Conf = "/nowhere/slurm.conf"
		})
		lines := p.run(1)
		p.find(lines, doctor.Fail, "kubelet.certDir /pki cannot be written as", "install -d -m 700")
		p.find(lines, doctor.Fail, "slurm.conf names /nowhere/slurm.conf, which is not there on", "")
		p.root = true
		p.find(p.run(1, "--no-job"), doctor.Fail, "preflight runs as root", "runuser -u USER")
	})
	t.Run("slurmctld is down", func(t *testing.T) {
		require.NoError(t, env.Slurm.StopController(t.Context()))
		defer func() { assert.NoError(t, env.Slurm.StartController(context.WithoutCancel(t.Context()))) }()
		p := newFlight(t, env, nil)
		p.down = true
		p.find(p.run(1), doctor.Fail, "sinfo failed", "that its controller runs")
	})
}

// preflightIsWell is about a node to which Slurm's tools mean nothing.
func preflightIsWell(w *world) {
	p := newFlight(w.T, w.env, nil)
	lines := p.run(0)
	for _, l := range lines {
		assert.Contains(w, []doctor.Status{doctor.OK, doctor.Info}, l.Status, "%+v", l)
	}
	p.find(lines, doctor.OK, "nodes have reported", "")
	p.find(lines, doctor.OK, "its SSH service answers", "")
}

// preflightNamesUserNamespaces is about nodes whose kernel forbids them.
func preflightNamesUserNamespaces(w *world) {
	p := newFlight(w.T, w.env, nil)
	p.find(p.run(1), doctor.Fail, "pods can have no private root", "user.max_user_namespaces")
}

// preflightFromAfar is about a node that reaches its site by a login node, as two users.
func preflightFromAfar(w *world) {
	p := newFlight(w.T, w.env, nil)
	lines := p.run(0)
	for _, user := range harness.Users() {
		found := false
		for _, l := range lines {
			found = found || strings.Contains(l.Where, "user "+user) && strings.Contains(l.Message, "all its 2 nodes have reported")
		}
		assert.True(w, found, user)
	}
	p.find(lines, doctor.OK, "its SSH service answers", "")
}

// flight runs gangline-node preflight as the node's user.
type flight struct {
	*testing.T
	env                *harness.Environment
	config, kubeconfig string
	down               bool // Slurm cannot be asked
	root               bool // it is run as root
}

// newFlight has a copy of the node's configuration, with changes.
func newFlight(t *testing.T, env *harness.Environment, change func(*provider.Config)) *flight {
	t.Helper()
	p := &flight{T: t, env: env, kubeconfig: filepath.Join(env.Node.Dir(), "credentials", "kubeconfig")}
	data, err := os.ReadFile(filepath.Join(env.Node.Dir(), "node.yaml"))
	require.NoError(t, err)
	var c provider.Config
	require.NoError(t, yaml.Unmarshal(data, &c))
	if change != nil {
		change(&c)
	}
	data, err = yaml.Marshal(c)
	require.NoError(t, err)
	file, err := os.CreateTemp(env.Node.Dir(), "preflight-*.yaml")
	require.NoError(t, err)
	_, err = file.Write(data)
	require.NoError(t, err)
	require.NoError(t, file.Chmod(0o644))
	require.NoError(t, file.Close())
	p.config = file.Name()
	return p
}

func (p *flight) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.Context(), filepath.Join(p.env.Node.Dir(), "gangline-node"),
		append([]string{"preflight", "--config", p.config, "--kubeconfig", p.kubeconfig, "-o", "json"}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	cmd.Dir = "/"
	info, err := os.Stat(p.env.Node.Dir()) // the node's user's
	require.NoError(p, err)
	owner := info.Sys().(*syscall.Stat_t)
	if p.root {
		return cmd
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	return cmd
}

// run runs it, and makes sure that nothing is left.
func (p *flight) run(code int, args ...string) []preflight.Line {
	p.Helper()
	cmd := p.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if code == 0 {
		require.NoError(p, err, "%s\n%s", out, stderr.String())
	} else {
		require.Equal(p, code, cmd.ProcessState.ExitCode(), "%s\n%s", out, stderr.String())
	}
	var report preflight.Report
	require.NoError(p, json.Unmarshal(out, &report), "%s\n%s", out, stderr.String())
	for _, l := range report.Lines {
		p.Logf("%s %s, %s: %s [%s]", l.Status, l.Where, l.Check, l.Message, l.Cure)
		if l.Status == doctor.Warn || l.Status == doctor.Fail {
			assert.NotEmpty(p, l.Cure, "%+v", l)
		}
	}
	p.Log(stderr.String())
	p.clean()
	return report.Lines
}

// interrupt sends a Ctrl-C once it has said something.
func (p *flight) interrupt(said string) {
	p.Helper()
	cmd := p.command()
	stderr, err := cmd.StderrPipe()
	require.NoError(p, err)
	require.NoError(p, cmd.Start())
	var text strings.Builder
	piece := make([]byte, 4096)
	for interrupted := false; err == nil; {
		var n int
		n, err = stderr.Read(piece)
		text.Write(piece[:n])
		if !interrupted && strings.Contains(text.String(), said) {
			interrupted = true
			require.NoError(p, cmd.Process.Signal(os.Interrupt))
		}
	}
	assert.Error(p, cmd.Wait())
	assert.Contains(p, text.String(), said)
	p.clean()
}

// clean makes sure that no job and no file is left.
func (p *flight) clean() {
	p.Helper()
	entries, err := os.ReadDir(filepath.Join(p.env.Node.Spool(), "gangs"))
	if !os.IsNotExist(err) {
		require.NoError(p, err)
	}
	for _, e := range entries {
		assert.NotContains(p, e.Name(), doctor.Prefix)
	}
	if p.down || p.env.Slurm == nil {
		return
	}
	jobs, err := p.env.Slurm.Squeue(p.Context())
	require.NoError(p, err)
	for _, j := range jobs {
		if strings.HasPrefix(j.Name, doctor.Prefix) {
			assert.True(p, jobOver(j), "%+v", j)
		}
	}
}

func jobOver(j slurm.Job) bool {
	return j.State != "PENDING" && j.State != "RUNNING" && j.State != "CONFIGURING"
}

// find is the line of a status that says something, with the cure.
func (p *flight) find(lines []preflight.Line, status doctor.Status, message, cure string) preflight.Line {
	p.Helper()
	for _, l := range lines {
		if l.Status == status && strings.Contains(l.Message, message) && strings.Contains(l.Cure, cure) {
			return l
		}
	}
	assert.Failf(p, "no such line", "%s: %s [%s]", status, message, cure)
	return preflight.Line{}
}

func checks(lines []preflight.Line) []string {
	var names []string
	for _, l := range lines {
		names = append(names, l.Check)
	}
	return names
}
