package doctor

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/agent"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

func task(t *testing.T, dir spool.Dir, number int) Config {
	return Config{
		Agent: agent.Config{
			Dir: dir, Task: number, Node: "node" + strconv.Itoa(number), Address: "127.0.0.1",
			Runtime: t.TempDir(), Scratch: t.TempDir(), PrivateRoot: sandbox.ErrOff, Devices: map[string]string{"CUDA_VISIBLE_DEVICES": "1"},
		},
		Version: "v1", Programs: shelf{},
	}
}

func newDir(t *testing.T, tasks int, o Order) spool.Dir {
	dir := spool.Dir(filepath.Join(t.TempDir(), Prefix+"x"))
	require.NoError(t, dir.Create(tasks))
	require.NoError(t, spool.Write(OrderFile(dir), o))
	return dir
}

func TestDoctorsTryEachOther(t *testing.T) {
	client, err := NewKey()
	require.NoError(t, err)
	dir := newDir(t, 2, Order{Tasks: 2, GPUs: 1, Version: "v1", ClientKey: ssh.MarshalAuthorizedKey(client.PublicKey()), PeerSeconds: 30, LifeSeconds: 30})
	var doctors sync.WaitGroup
	for n := range 2 {
		doctors.Go(func() { assert.NoError(t, Serve(t.Context(), task(t, dir, n), t.Output())) })
	}
	claimed := 0
	for n := range 2 {
		var r Report
		require.Eventually(t, func() bool {
			found, err := spool.Read(ReportFile(dir, n), &r)
			return found && err == nil
		}, 20*time.Second, 10*time.Millisecond)
		for _, f := range r.Findings {
			assert.NotEqual(t, Fail, f.Status, "%+v", f)
		}
		if r.Claimed {
			claimed++
		}
		if n == 1 {
			require.NotNil(t, r.LockHeld)
			assert.True(t, *r.LockHeld)
		}
		var h Hello
		found, err := spool.Read(dir.Status(n), &h)
		require.True(t, found && err == nil)
		address := net.JoinHostPort(h.Agent.Address, strconv.Itoa(h.Agent.SSHPort))
		conn, err := net.Dial("tcp", address)
		require.NoError(t, err)
		clock, err := Ask(t.Context(), conn, h.HostKey, client)
		require.NoError(t, err)
		assert.LessOrEqual(t, clock.Ahead.Abs(), clock.Error+50*time.Millisecond)

		stranger, err := NewKey()
		require.NoError(t, err)
		conn, err = net.Dial("tcp", address)
		require.NoError(t, err)
		_, err = Ask(t.Context(), conn, h.HostKey, stranger)
		assert.Error(t, err, "a stranger gets nothing")
	}
	assert.Equal(t, 1, claimed)
	require.NoError(t, spool.Write(DoneFile(dir), true))
	doctors.Wait()
}

func TestADoctorWithoutTheSpool(t *testing.T) {
	var output bytes.Buffer
	dir := spool.Dir(filepath.Join(t.TempDir(), Prefix+"gone"))
	require.NoError(t, Serve(t.Context(), task(t, dir, 1), &output))
	line, ok := strings.CutPrefix(output.String(), Mark)
	require.True(t, ok, output.String())
	var r Report
	require.NoError(t, json.Unmarshal([]byte(line), &r))
	assert.Equal(t, "node1", r.Node)
	assert.Equal(t, CheckSpool, r.Findings[0].Check)
	assert.Equal(t, Fail, r.Findings[0].Status)
	assert.True(t, Examines(string(dir)))
	assert.False(t, Examines("/spool/gangs/pi-0123456789-0"))
}

func TestADoctorWhosePeerIsSilent(t *testing.T) {
	client, err := NewKey()
	require.NoError(t, err)
	dir := newDir(t, 2, Order{Tasks: 2, ClientKey: ssh.MarshalAuthorizedKey(client.PublicKey()), PeerSeconds: 1, LifeSeconds: 2})
	require.NoError(t, Serve(t.Context(), task(t, dir, 0), t.Output()))
	data, err := os.ReadFile(ReportFile(dir, 0))
	require.NoError(t, err)
	assert.Contains(t, string(data), "nothing was heard in the spool of tasks 1 of 2")
}
