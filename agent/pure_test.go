package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/device"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/golden"
)

func TestHostsFile(t *testing.T) {
	names := []spool.Name{
		{Slot: 0, Address: "10.0.0.1", SSHPort: 2200, Hosts: []string{"pi-worker-0", "pi-worker-0.pi.default.svc.cluster.local"}},
		{Slot: 1, Address: "10.0.0.2", SSHPort: 2201, Hosts: []string{"pi-worker-1", "pi-worker-1.pi.default.svc.cluster.local"}},
		{Slot: 2, Address: "10.0.0.1", SSHPort: 2202, Hosts: []string{"pi-launcher-0"}},
	}
	aliases := []corev1.HostAlias{{IP: "10.9.9.9", Hostnames: []string{"db", "db.example.org"}}}
	golden.Equal(t, "testdata/hosts", hostsFile(1, names, aliases, []byte("127.0.1.1 hpc1\n192.168.1.5 license-server\n")))
	golden.Equal(t, "testdata/hosts-alone", hostsFile(7, nil, nil, nil))
}

func TestRewriteKeepsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	require.NoError(t, rewrite(path, "a long first content\n"))
	before, err := os.Stat(path)
	require.NoError(t, err)
	require.NoError(t, rewrite(path, "short\n"))
	after, err := os.Stat(path)
	require.NoError(t, err)
	assert.True(t, os.SameFile(before, after))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "short\n", string(data))
}

func TestPeersHaveNamesInLowerCase(t *testing.T) {
	p := peers([]spool.Name{{Address: "10.0.0.1", SSHPort: 2200, Hosts: []string{"Pi-0", "PI-0.pi"}}}, []byte("ssh-ed25519 AAAA\n"))
	assert.Equal(t, "ssh-ed25519 AAAA", p.HostKey)
	assert.Equal(t, []string{"pi-0", "pi-0.pi"}, p.Hosts[0].Names)
	assert.Equal(t, 2200, p.Hosts[0].Port)
}

func TestWhoSharesANode(t *testing.T) {
	names := []spool.Name{{Slot: 0, Address: "10.0.0.1"}, {Slot: 1, Address: "10.0.0.2"}, {Slot: 2, Address: "10.0.0.1"}}
	for slot, want := range map[int]bool{0: true, 1: false, 2: true, 7: false} {
		assert.Equal(t, want, sharesNode(slot, names), slot)
	}
}

func TestEnvironment(t *testing.T) {
	base := surroundings{hostname: "pi-0", home: "/home/alice", user: "alice", dir: runDir, container: "u-main-0"}
	always := []string{"GANGLINE_CONTAINER=u-main-0", "GANGLINE_DIR=/run/gangline"}
	for sentence, tc := range map[string]struct {
		pod    []corev1.EnvVar
		change func(*surroundings)
		has    []string
		hasNot []string
	}{
		"a pod without variables has the basic ones": {
			has: []string{"HOSTNAME=pi-0", "HOME=/home/alice", "USER=alice",
				"PATH=/run/gangline/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		},
		"a pod's own variables win, the later over the earlier": {
			pod:    env("HOME=/root", "A=1", "A=2", "PATH=/opt", "HOSTNAME=x"),
			has:    []string{"HOME=/root", "A=2", "PATH=/run/gangline/bin:/opt", "HOSTNAME=x"},
			hasNot: []string{"A=1"},
		},
		"a pod cannot take away what marks its processes": {
			pod: env("GANGLINE_CONTAINER=other", "GANGLINE_DIR=/x"), hasNot: []string{"GANGLINE_CONTAINER=other", "GANGLINE_DIR=/x"},
		},
		"the site's variables hold where the pod sets none": {
			pod: env("HF_HOME=/mine", "EMPTY="),
			change: func(s *surroundings) {
				s.site = env("HF_HOME=/scratch/hf", "EMPTY=no", "HOME=/scratch/alice", "NCCL_SOCKET_IFNAME=ib0")
			},
			has: []string{"HF_HOME=/mine", "EMPTY=", "HOME=/scratch/alice", "NCCL_SOCKET_IFNAME=ib0"},
		},
		"devices are not the site's to give": {
			change: func(s *surroundings) {
				s.site = env("CUDA_VISIBLE_DEVICES=0")
				s.devices = device.Bound(1, map[string]string{"CUDA_VISIBLE_DEVICES": "3"})
			},
			has: []string{"CUDA_VISIBLE_DEVICES=3"},
		},
		"an empty value stays": {pod: env("EMPTY="), has: []string{"EMPTY="}},
		"devices of the workload manager": {
			change: func(s *surroundings) {
				s.devices = device.Bound(2, map[string]string{"CUDA_VISIBLE_DEVICES": "2,3"})
			},
			has: []string{"CUDA_VISIBLE_DEVICES=2,3"},
		},
		"a pod chooses among its own devices": {
			pod: env("CUDA_VISIBLE_DEVICES=1"),
			change: func(s *surroundings) {
				s.devices = device.Bound(2, map[string]string{"CUDA_VISIBLE_DEVICES": "2,3"})
			},
			has: []string{"CUDA_VISIBLE_DEVICES=3"},
		},
		"pods of a gang that share a node keep UCX from their memory": {
			change: func(s *surroundings) { s.apart = true }, has: []string{"UCX_TLS=^posix,cma"},
		},
		"unless they know better": {
			pod: env("UCX_TLS=tcp,self"), change: func(s *surroundings) { s.apart = true },
			has: []string{"UCX_TLS=tcp,self"}, hasNot: []string{"UCX_TLS=^posix,cma"},
		},
		"a pod with a node of its own may do as it likes": {hasNot: []string{"UCX_TLS=^posix,cma"}},
		"a slot without GPUs sees none": {
			change: func(s *surroundings) {
				s.devices = device.Bound(0, map[string]string{"CUDA_VISIBLE_DEVICES": "2,3"})
			},
			has: []string{"CUDA_VISIBLE_DEVICES=", "ROCR_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"},
		},
		"without a private root promised paths are replaced": {
			pod:    env("HOSTFILE=/etc/mpi/hostfile", "DIR=/etc/mpi", "OTHER=/etc/mpich/x", "SSH=/run/gangline/bin/ssh", "TABLE=/run/gangline/peers.json"),
			change: func(s *surroundings) { s.relocated = map[string]string{"/etc/mpi": "/m/v", runDir: "/m/run"} },
			has:    []string{"HOSTFILE=/m/v/hostfile", "DIR=/m/v", "OTHER=/etc/mpich/x", "SSH=ssh", "TABLE=/m/run/peers.json"},
		},
		"without a private root rendezvous names become addresses": {
			pod:    env("MASTER_ADDR=Pi-0.pi", "PET_RDZV_ENDPOINT=pi-0.pi:29500", "OTHER=pi-0.pi", "JAX_COORDINATOR_ADDRESS=elsewhere:1"),
			change: func(s *surroundings) { s.addresses = map[string]string{"pi-0.pi": "10.0.0.1"} },
			has:    []string{"MASTER_ADDR=10.0.0.1", "PET_RDZV_ENDPOINT=10.0.0.1:29500", "OTHER=pi-0.pi", "JAX_COORDINATOR_ADDRESS=elsewhere:1"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			s := base
			if tc.change != nil {
				tc.change(&s)
			}
			got := environment(tc.pod, s)
			for _, want := range append(tc.has, always...) {
				assert.Contains(t, got, want)
			}
			for _, unwanted := range tc.hasNot {
				assert.NotContains(t, got, unwanted)
			}
		})
	}
}

// env makes variables of NAME=value.
func env(entries ...string) []corev1.EnvVar {
	var list []corev1.EnvVar
	for _, e := range entries {
		for i := range e {
			if e[i] == '=' {
				list = append(list, corev1.EnvVar{Name: e[:i], Value: e[i+1:]})
				break
			}
		}
	}
	return list
}

// fakeNetwork is a node's network in a test.
type fakeNetwork struct {
	named, own []string
	route      string
}

func addrs(list []string) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func (n fakeNetwork) Resolve(string) ([]netip.Addr, error) {
	if n.named == nil {
		return nil, errors.New("no such host")
	}
	return addrs(n.named), nil
}
func (n fakeNetwork) Own() ([]netip.Addr, error) { return addrs(n.own), nil }
func (n fakeNetwork) Route() (netip.Addr, error) {
	if n.route == "" {
		return netip.Addr{}, errors.New("network is unreachable")
	}
	return netip.MustParseAddr(n.route), nil
}

func TestOwnAddress(t *testing.T) {
	for sentence, tc := range map[string]struct {
		network fakeNetwork
		env     map[string]string
		want    string
		err     string
	}{
		"the site's word counts first": {
			network: fakeNetwork{named: []string{"10.0.0.1"}, own: []string{"10.0.0.1"}},
			env:     map[string]string{envAddress: "192.168.1.1"}, want: "192.168.1.1"},
		"the site's word must be an address": {
			env: map[string]string{envAddress: "hpc1"}, err: "reading GANGLINE_ADDRESS"},
		"the address of the node's name, not of its first interface": {
			network: fakeNetwork{named: []string{"10.0.0.2"}, own: []string{"127.0.0.1", "172.17.0.1", "10.0.0.2"}, route: "172.17.0.1"},
			want:    "10.0.0.2"},
		"a name that means the loopback is passed over": {
			network: fakeNetwork{named: []string{"127.0.1.1"}, own: []string{"127.0.0.1", "172.17.0.1", "10.0.0.2"}, route: "10.0.0.2"},
			want:    "10.0.0.2"},
		"a name that means another node is passed over": {
			network: fakeNetwork{named: []string{"10.0.0.9"}, own: []string{"10.0.0.2"}, route: "10.0.0.2"}, want: "10.0.0.2"},
		"without a name or a route, any address": {
			network: fakeNetwork{own: []string{"127.0.0.1", "fe80::1", "10.0.0.2"}}, want: "10.0.0.2"},
		"IPv4 before IPv6": {
			network: fakeNetwork{named: []string{"2001:db8::1", "10.0.0.2"}, own: []string{"2001:db8::1", "10.0.0.2"}}, want: "10.0.0.2"},
		"IPv6 where there is nothing else": {
			network: fakeNetwork{named: []string{"2001:db8::1"}, own: []string{"2001:db8::1", "127.0.0.1"}}, want: "2001:db8::1"},
		"on one machine alone the loopback will do": {
			network: fakeNetwork{own: []string{"127.0.0.1"}}, env: map[string]string{envManager: managerLocal}, want: "127.0.0.1"},
		"elsewhere it will not": {
			network: fakeNetwork{own: []string{"127.0.0.1"}}, err: "set GANGLINE_ADDRESS on the nodes"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := ownAddress("hpc1", func(name string) string { return tc.env[name] }, tc.network)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestTerminationMessage(t *testing.T) {
	dir := t.TempDir()
	f := terminationFile(filepath.Join(dir, "t", "main"))
	require.NoError(t, f.reset())
	log := filepath.Join(dir, "0.log")
	require.NoError(t, os.WriteFile(log, []byte("2026-03-04T05:06:07Z stderr F oops\n"), 0o600))

	message, err := f.message(10, false, log)
	require.NoError(t, err)
	assert.Empty(t, message)
	message, err = f.message(10, true, log)
	require.NoError(t, err)
	assert.Equal(t, "oops\n", message)
	message, err = f.message(10, true, filepath.Join(dir, "7.log"))
	require.NoError(t, err)
	assert.Empty(t, message)

	require.NoError(t, os.WriteFile(string(f), []byte("0123456789abcdef"), 0o600))
	message, err = f.message(10, true, log)
	require.NoError(t, err)
	assert.Equal(t, "0123456789", message)
	require.NoError(t, f.reset())
	message, err = f.message(10, false, log)
	require.NoError(t, err)
	assert.Empty(t, message)
}

func TestTheTerminationMessageIsARegularFile(t *testing.T) {
	for sentence, put := range map[string]func(path string) error{
		"a FIFO in its place":      func(path string) error { return unix.Mkfifo(path, 0o666) },
		"a link in its place":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a directory in its place": func(path string) error { return os.Mkdir(path, 0o777) },
	} {
		t.Run(sentence, func(t *testing.T) {
			file := terminationFile(filepath.Join(t.TempDir(), "termination", "main"))
			require.NoError(t, file.reset())
			require.NoError(t, os.Remove(string(file)))
			require.NoError(t, put(string(file)))
			_, err := file.message(100, false, "")
			require.ErrorContains(t, err, "reading the termination message")
			require.NoError(t, file.reset(), "the next run has a new one")
			message, err := file.message(100, false, "")
			require.NoError(t, err)
			assert.Empty(t, message)
		})
	}
}

func TestTheLastReportIsTriedAgainAfterAPause(t *testing.T) {
	path := filepath.Join(t.TempDir(), "status.json")
	require.NoError(t, os.MkdirAll(filepath.Join(path, "in-the-way"), 0o755))
	var tries atomic.Int32
	r := newReporter(path, slog.New(countingHandler{slog.DiscardHandler, &tries}))
	r.report(spool.Status{Version: spool.Version})
	r.close()
	ctx, cancel := context.WithTimeout(t.Context(), reportRetry/2)
	defer cancel()
	require.Error(t, r.run(ctx))
	assert.EqualValues(t, 1, tries.Load())
}

// countingHandler counts what is logged.
type countingHandler struct {
	slog.Handler
	count *atomic.Int32
}

func (countingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h countingHandler) Handle(context.Context, slog.Record) error { h.count.Add(1); return nil }

func TestHowLongPodsGetWhenTheJobEnds(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 25 * time.Second, "58s": 58 * time.Second, "10ms": time.Second} {
		got, err := killWait(text)
		require.NoError(t, err)
		assert.Equal(t, want, got, text)
	}
	_, err := killWait("soon")
	assert.ErrorContains(t, err, "reading GANGLINE_KILL_WAIT")
}

func TestTheClaim(t *testing.T) {
	for sentence, tc := range map[string]struct {
		holder string
		want   error
	}{
		"there is none, so the agent takes it": {},
		"this job has it":                      {holder: "7"},
		"another job has it":                   {holder: "6", want: spool.ErrClaimed},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := spool.Dir(t.TempDir())
			if tc.holder != "" {
				require.NoError(t, dir.TakeClaim(spool.Claim{JobID: tc.holder}))
			}
			before := modified(t, string(dir))
			err := holdClaim(t.Context(), Config{Dir: dir, JobID: "7", Node: "hpc1"})
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			var c spool.Claim
			_, err = spool.Read(dir.Claim(), &c)
			require.NoError(t, err)
			assert.Equal(t, "7", c.JobID)
			if tc.holder != "" {
				assert.Equal(t, before, modified(t, string(dir)), "a claim that is there is only read")
			}
		})
	}
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	return info.ModTime()
}

func TestAnAgentThatFluxStarts(t *testing.T) {
	env := map[string]string{
		"FLUX_JOB_ID": "ƒ7", "GANGLINE_JOB_ID": "f7", "FLUX_TASK_RANK": "2", "GANGLINE_NODE": "n1",
		"GANGLINE_ADDRESS": "10.0.0.1", "CUDA_VISIBLE_DEVICES": "0,1,2,3",
	}
	read := func() Config {
		c, err := FromEnvironment("/spool/gangs/pi-1", -1, func(name string) string { return env[name] })
		require.NoError(t, err)
		return c
	}
	c := read()
	assert.Equal(t, []any{"f7", 2, "n1", true}, []any{c.JobID, c.Task, c.Node, c.Unlaunched})
	assert.Equal(t, map[string]string{"CUDA_VISIBLE_DEVICES": "0"}, c.bound(1).Variables(), "all slots of the job were given four")
	env["GANGLINE_NODE"] = "{{node.name}}"
	assert.NotContains(t, read().Node, "{{", "an older Flux does not fill it in")
	env["SLURM_PROCID"] = "0"
	assert.False(t, read().Unlaunched, "srun says how it ends")
}

func TestMeasurementsLeaveTheNodeAlone(t *testing.T) {
	for sentence, c := range map[string]struct{ wanted, took, pause time.Duration }{
		"a look takes a moment":    {15 * time.Second, 5 * time.Millisecond, 15 * time.Second},
		"a node of many processes": {15 * time.Second, 400 * time.Millisecond, 40 * time.Second},
		"it is overrun":            {15 * time.Second, time.Minute, time.Minute},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, c.pause, usagePause(c.wanted, c.took))
		})
	}
}
