package agent

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/control"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/launcher"
	"github.com/gangline/gangline/provider/spool"
)

func TestPlanLaunch(t *testing.T) {
	gang := launcher.Gang{Own: 2}
	for k, name := range []string{"a", "b", "c"} {
		gang.Pods = append(gang.Pods, launcher.Pod{Slot: k, Names: []string{name}, Group: "node", MPISlots: 2})
	}
	all := []launcher.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	for name, tc := range map[string]struct {
		request launcher.Request
		launch  control.Launch
		pods    []int
		ranks   int
		refused string
	}{
		"all of the gang": {request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}}}}, pods: []int{0, 1, 2}, ranks: 6},
		"fewer ranks need fewer pods": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}, Ranks: 3}}},
			launch:  control.Launch{Default: all}, pods: []int{0, 1}, ranks: 3,
		},
		"hosts by name": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}, Hosts: []launcher.Host{{Name: "c", Slots: 1}}}}},
			pods:    []int{2}, ranks: 1,
		},
		"a hostfile by name": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}}}, Hostfile: "/h"},
			launch:  control.Launch{Hostfile: all[:1], Default: all}, pods: []int{0}, ranks: 2,
		},
		"a default hostfile that leaves out a pod": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}}}},
			launch:  control.Launch{Default: all[:2], CheckOnly: true}, refused: "lists 2 of the gang's pods and leaves out c",
		},
		"a default hostfile that leaves out a pod which is not needed": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}, Ranks: 4}}},
			launch:  control.Launch{Default: all[:2]}, pods: []int{0, 1}, ranks: 4,
		},
		"a stranger": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}, Hosts: []launcher.Host{{Name: "x", Slots: 1}}}}},
			refused: "x: not of this gang",
		},
		"a stranger, for the real launcher": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}, Hosts: []launcher.Host{{Name: "x", Slots: 1}, {Name: "b", Slots: 1}}}}},
			launch:  control.Launch{CheckOnly: true}, refused: "x: not of this gang",
		},
		"ranks that do not fit are the real launcher's business": {
			request: launcher.Request{Programs: []launcher.Program{{Argv: []string{"p"}, Ranks: 99}}},
			launch:  control.Launch{CheckOnly: true}, pods: []int{0, 1, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.launch.Request = tc.request
			plan, err := planLaunch(gang, tc.launch)
			if tc.refused != "" {
				require.ErrorContains(t, err, tc.refused)
				return
			}
			require.NoError(t, err)
			var pods []int
			for _, p := range plan.pods {
				pods = append(pods, p.Slot)
			}
			assert.Equal(t, tc.pods, pods)
			assert.Len(t, plan.ranks, tc.ranks)
		})
	}
}

func TestMissingPodsAreNamed(t *testing.T) {
	err := missingError(4, []missingPod{
		{launcher.Pod{Slot: 1, Names: []string{"pi-1"}}, "its pod has ended"}, {launcher.Pod{Slot: 3}, "its agent does not answer (x)"},
	})
	assert.EqualError(t, err, `2 of the 4 pods that are to take ranks cannot, so nothing was started:
  pi-1: its pod has ended
  slot 3: its agent does not answer (x)
Workers must run as long as the launcher does (see kubectl describe pod). To run on fewer pods on purpose, name them with --host.`)
}

// An agent that takes connections and says nothing has no pod yet, or trouble.
func TestAnAgentThatSaysNothing(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	s := &slot{cfg: Config{Dir: spool.Dir(t.TempDir())}, messages: make(chan func()), names: []spool.Name{
		{Slot: 0}, {Slot: 1, Address: "127.0.0.1", SSHPort: listener.Addr().(*net.TCPAddr).Port},
	}}
	var stop context.CancelFunc
	s.ctx, stop = context.WithCancel(t.Context())
	defer stop()
	go func() {
		for {
			select {
			case message := <-s.messages:
				message()
			case <-s.ctx.Done():
				return
			}
		}
	}()
	keys, err := mpi.DeriveKeys(make([]byte, mpi.MinSecret), "a")
	require.NoError(t, err)
	ssh := spool.SSH{HostPublicKey: keys.HostPublic, ClientKey: keys.ClientPrivate}
	reach := func() string {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		return s.reach(ctx, launcher.Pod{Slot: 1}, ssh)
	}
	assert.Contains(t, reach(), "its pod has not started within")
	require.NoError(t, os.MkdirAll(filepath.Dir(s.cfg.Dir.Status(1)), 0o755))
	require.NoError(t, spool.Write(s.cfg.Dir.Status(1), spool.Status{Pod: &spool.PodStatus{UID: "u"}}))
	assert.Equal(t, "its agent does not answer", reach())
}

func TestUnderway(t *testing.T) {
	var u underway
	require.NoError(t, u.wait(t.Context()), "nothing is")
	first, second := u.begin(), u.begin()
	first()
	first() // once more does no harm
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, u.wait(ended), context.Canceled)
	go second()
	require.NoError(t, u.wait(t.Context()))
}
