package login_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/login"
	"github.com/gangline/gangline/provider/site/login/logintest"
	"github.com/gangline/gangline/provider/site/sitetest"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate"
)

// far is a provider's way to a real Slurm, in short: everything goes through the
// login node.
type far struct {
	*testing.T
	site  site.Site
	login *login.Login
	wire  *logintest.Wire
	dir   spool.Dir
	env   []string
}

// newFar builds the real agent and logs in.
func newFar(t *testing.T, c *slurm.Cluster) *far {
	t.Helper()
	dir := sitetest.PublicDir(t)
	agent := filepath.Join(dir, "gangline-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", agent, "github.com/gangline/gangline/cmd/gangline-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	user, err := sitetest.NewAccount(t.Context(), c.User())
	require.NoError(t, err)
	node, err := logintest.Start(t.Context(), dir, io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Stop()) })
	key, err := logintest.NewKey(filepath.Join(dir, "key"))
	require.NoError(t, err)
	require.NoError(t, node.Authorize(user.Name, logintest.Line(key)))
	wire, err := logintest.NewWire(node.Address)
	require.NoError(t, err)
	t.Cleanup(wire.Close)

	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	l, err := login.New(login.Config{
		Address: wire.Address, User: user.Name, KnownHosts: node.KnownHosts(), KeyFile: filepath.Join(dir, "key"),
		Agents: map[string]string{runtime.GOARCH: agent}, AgentDir: filepath.Join(c.SharedDir(), "agents"),
		Pace: sshclient.Pace{Every: 200 * time.Millisecond, Patience: 2 * time.Second}, ConnectTimeout: 5 * time.Second, Log: log,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	k := gateway.Keep(l.Start, gateway.KeepOptions{
		Options: gateway.Options{
			Lock: filepath.Join(c.SharedDir(), "lock"), Dialer: l,
			Pace: gateway.Pace{Every: 200 * time.Millisecond, Patience: 2 * time.Second},
		},
		First: 100 * time.Millisecond, Most: 500 * time.Millisecond, Log: log,
	})
	t.Cleanup(func() { assert.NoError(t, k.Close()) })
	require.NoError(t, k.Ready(t.Context()))
	return &far{T: t, site: k, login: l, wire: wire, env: []string{"PATH=/usr/bin:/bin", "SLURM_CONF=" + c.SlurmConf()}}
}

// slurm runs one of Slurm's tools on the login node.
func (f *far) slurm(tool string, args ...string) string {
	f.Helper()
	found, err := f.site.Find(f.Context(), tool)
	require.NoError(f, err)
	r, err := f.site.Run(f.Context(), site.Command{
		Argv: append([]string{found[tool]}, args...), Env: f.env, Timeout: patience, Locked: tool == "sbatch",
	})
	require.NoError(f, err)
	require.Zero(f, r.Exit, "%s: %s", tool, r.Stderr)
	return strings.TrimSpace(string(r.Stdout))
}

// status waits until the agent's status is as wanted. What cannot be reached is asked
// again.
func (f *far) status(want func(spool.Status) bool) spool.Status {
	f.Helper()
	watched := []site.Watched{{Path: f.dir.Status(0)}}
	var s spool.Status
	require.Eventually(f, func() bool {
		changes, err := f.site.Changed(f.Context(), watched)
		if err != nil {
			assert.ErrorIs(f, err, site.ErrUnreachable)
			return false
		}
		for _, c := range changes {
			watched[0].Stamp = c.Stamp
			s = spool.Status{}
			if !assert.NoError(f, c.Err) || !assert.NoError(f, json.Unmarshal(c.Data, &s)) {
				return false
			}
		}
		return want(s)
	}, time.Minute, 50*time.Millisecond)
	return s
}

func TestAPodByWayOfTheLoginNode(t *testing.T) {
	c := slurm.ForTest(t, slurm.Config{Nodes: 1})
	f := newFar(t, c)
	root := spool.Root(filepath.Join(c.SharedDir(), "spool"))
	gang := spool.Gang{
		Version: spool.Version, Allocation: "pi-1", Node: "hpc", Key: "pi", Generation: 1, Groups: 1,
		Slots: []spool.Slot{{Hostname: "pi", Hosts: []string{"pi"}}}, Tasks: [][]int{{0}},
	}
	f.dir = root.Dir(gang.Allocation)
	t.Cleanup(f.showOnFailure)
	require.NoError(t, f.site.CreateAllocation(t.Context(), root, gang))

	// Submission.
	agent, err := f.login.Agent(t.Context())
	require.NoError(t, err)
	script := filepath.Join(string(f.dir), "launch.sh")
	const program = 0o700
	require.NoError(t, f.site.Write(t.Context(), script, []byte("#!/bin/sh\nexec \"$1\" launch \"$2\"\n"), program))
	args, err := translate.SbatchArgs(translate.Request{
		Name: gang.Allocation, Agent: agent, Dir: string(f.dir),
		Groups: []translate.TaskGroup{{Tasks: 1, Resources: translate.Resources{CPUs: 1, MemoryMiB: 256}}},
	}, script)
	require.NoError(t, err)
	job := f.slurm("sbatch", args...)
	assert.Contains(t, f.slurm("squeue", "--noheader", "--format=%i %u %j"), job+" "+c.User()+" pi-1")

	// The agent reports, and gets a pod.
	agentOf := f.status(func(s spool.Status) bool { return s.Agent.Address != "" }).Agent
	gang.Names = []spool.Name{{Slot: 0, Hosts: []string{"pi"}, Address: agentOf.Address, SSHPort: agentOf.SSHPort, Node: agentOf.Node}}
	require.NoError(t, site.WriteJSON(t.Context(), f.site, f.dir.Gang(), gang))
	keys, err := mpi.DeriveKeys(bytes.Repeat([]byte("k"), mpi.MinSecret), gang.Allocation)
	require.NoError(t, err)
	sealed, err := spool.Seal(agentOf.Recipient, spool.PodOrders{
		UID: "u", Namespace: "default", Name: "pi", Hostname: "pi", RestartPolicy: corev1.RestartPolicyNever, GraceSeconds: 5,
		Containers: []spool.ContainerOrders{{Name: "main", Argv: []string{"/bin/sh", "-c",
			"i=0; trap 'echo bye; exit 7' TERM; while :; do echo line $i; i=$((i+1)); sleep 0.1; done"}}},
		SSH: spool.SSH{HostKey: keys.HostPrivate, ClientKey: keys.ClientPrivate, HostPublicKey: keys.HostPublic, ClientPublicKey: keys.ClientPublic},
	})
	require.NoError(t, err)
	desired := spool.Desired{Version: spool.Version, PodUID: "u", Pod: "default/pi", Action: spool.ActionRun, Recipient: agentOf.Recipient, Orders: sealed}
	require.NoError(t, site.WriteJSON(t.Context(), f.site, f.dir.Desired(0), desired))
	running := func(s spool.Status) bool {
		return s.Pod != nil && len(s.Pod.Containers) == 1 && s.Pod.Containers[0].State.Running != nil
	}
	before := f.status(running).Pod.Containers[0].ContainerID

	// Its log is followed, its SSH service reached.
	text := &bytes.Buffer{}
	f.followLog(text, func() bool { return strings.Contains(text.String(), " F line 9\n") })
	assert.Equal(t, "pi\n", f.exec(agentOf, keys, "cat /proc/sys/kernel/hostname"))

	// The wire is cut for longer than either side has patience.
	f.wire.Cut()
	_, err = f.site.List(t.Context(), string(f.dir))
	assert.ErrorIs(t, err, site.ErrUnreachable)
	f.wire.Mend()
	assert.Equal(t, before, f.status(running).Pod.Containers[0].ContainerID, "the pod has run on")
	text.Reset()
	f.followLog(text, func() bool { return strings.Contains(text.String(), " F line 40\n") })
	var lines []string
	for line := range strings.Lines(text.String()) {
		_, said, _ := strings.Cut(line, " F ")
		lines = append(lines, strings.TrimSpace(said))
	}
	for i, line := range lines {
		assert.Equal(t, "line "+strconv.Itoa(i), line)
	}
	assert.Contains(t, f.slurm("squeue", "--noheader", "--format=%i %T"), job+" RUNNING")

	// The end.
	desired.Action, desired.GraceSeconds, desired.Orders = spool.ActionStop, 5, nil
	require.NoError(t, site.WriteJSON(t.Context(), f.site, f.dir.Desired(0), desired))
	end := f.status(func(s spool.Status) bool { return s.Pod != nil && s.Pod.Done }).Pod
	assert.EqualValues(t, 7, end.Containers[0].State.Terminated.ExitCode)
	gang.Release = true
	require.NoError(t, site.WriteJSON(t.Context(), f.site, f.dir.Gang(), gang))
	_, err = c.WaitJob(t.Context(), job, "COMPLETED", "FAILED")
	require.NoError(t, err)
	require.NoError(t, f.site.RemoveAllocation(t.Context(), f.dir))
	assert.NoDirExists(t, string(f.dir))
}

// showOnFailure shows what a failed test has left in the spool.
func (f *far) showOnFailure() {
	if !f.Failed() {
		return
	}
	for _, path := range []string{filepath.Join(string(f.dir), "job.log"), f.dir.Status(0), f.dir.Desired(0)} {
		text, err := os.ReadFile(path)
		f.Logf("%s: %v\n%s", path, err, text)
	}
}

// followLog reads the pod's log until it has what is waited for.
func (f *far) followLog(to *bytes.Buffer, enough func() bool) {
	f.Helper()
	inside, err := filepath.Rel(string(f.dir), filepath.Dir(f.dir.Log(0, "u", "main", 0)))
	require.NoError(f, err)
	logs := site.Dir{Files: f.site, Root: string(f.dir), Path: inside}
	require.Eventually(f, func() bool {
		names, err := logs.Names(f.Context())
		if err != nil || len(names) == 0 {
			return false
		}
		file, err := logs.Open(f.Context(), names[0])
		if !assert.NoError(f, err) {
			return false
		}
		_, err = io.Copy(to, io.NewSectionReader(file, int64(to.Len()), 1<<40))
		return assert.NoError(f, err) && enough()
	}, time.Minute, 50*time.Millisecond)
}

// exec runs a command on the slot's node through its SSH service and the login node.
func (f *far) exec(a spool.Agent, keys mpi.Keys, command string) string {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	conn, err := f.site.DialContext(ctx, "tcp", net.JoinHostPort(a.Address, strconv.Itoa(a.SSHPort)))
	require.NoError(f, err)
	client, err := sshclient.New(ctx, conn, sshclient.Credentials{HostPublicKey: keys.HostPublic, ClientKey: keys.ClientPrivate})
	require.NoError(f, err)
	defer client.Close() //nolint:errcheck // it has done its work
	var stdout bytes.Buffer
	exit, err := client.Run(ctx, sshclient.Session{Request: "exec", Argument: command, Stdout: &stdout})
	require.NoError(f, err)
	assert.Zero(f, exit)
	return stdout.String()
}
