package spool_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
)

// files are new values of what the spool's files hold.
func files() map[string]any {
	return map[string]any{
		"gang.json": &spool.Gang{}, "status.json": &spool.Status{}, "desired.json": &spool.Desired{}, "binding": &spool.Binding{},
		"claim": &spool.Claim{}, "result.json": &spool.Result{}, "ended.json": &spool.Ended{}, "job.json": &spool.Job{}, "usage.json": &spool.Usage{},
		"orders": &spool.PodOrders{}, "update": &spool.PodUpdate{},
	}
}

// FuzzFiles reads any content as each of the files. What is read is bounded, and is the same
// when it is written and read again.
func FuzzFiles(f *testing.F) {
	for _, text := range []string{
		`{"version":1,"allocation":"pi-1","slots":[{"hostname":"pi-0","hosts":["pi-0"]}],"tasks":[[0]],"names":[{"slot":0,"hosts":["a"],"address":"10.0.0.1"}],"groups":1}`,
		`{"version":1,"agent":{"instance":"i","address":"10.0.0.1","sshPort":22,"rendezvousPorts":[1,2]},"pod":{"uid":"u","containers":[{"name":"main","state":{"running":{"startedAt":"2026-01-02T03:04:05Z"}}}],"events":[{"time":"2026-01-02T03:04:05Z","reason":"R"}]}}`,
		`{"version":1,"podUID":"u","pod":"default/pi","action":"run","graceSeconds":30,"recipient":"age1","orders":"aGk=","update":"aGk="}`,
		`{"jobID":"7","host":"hpc1","acquired":"2026-01-02T03:04:05Z"}`,
		`{"uid":"u","containers":[{"name":"main","argv":["sleep","1"],"env":[{"name":"A","value":"1"}]}],"volumes":[{"name":"v","files":[{"path":"a","mode":420,"data":"aGk="}]}]}`,
		`{"version":1,"podUID":"u","containers":[{"name":"main","cpu":18446744073709551615}],"devices":[{}]}`,
		`[]`, `null`, `{"pod":{"containers":[{},{},{}]}}`, `{"slots":null,"tasks":[null,[1e99]]}`, `{"submitted":"9999-12-31T23:59:59.999999999+23:59"}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, v := range files() {
			if spool.Decode(name, data, v) != nil {
				continue
			}
			switch v := v.(type) {
			case *spool.Status:
				if v.Pod != nil {
					assert.LessOrEqual(t, len(v.Pod.Containers)+len(v.Pod.InitContainers)+len(v.Pod.EphemeralContainers)+len(v.Pod.Events), 4000)
				}
			case *spool.Gang:
				inTasks := 0
				for _, task := range v.Tasks {
					inTasks += len(task)
				}
				assert.LessOrEqual(t, len(v.Tasks), max(len(v.Slots), 1))
				assert.LessOrEqual(t, inTasks, max(len(v.Slots), 1))
			}
			again, err := json.Marshal(v)
			if err != nil {
				continue // a time that JSON has no form for
			}
			other := files()[name]
			require.NoError(t, spool.Decode(name, again, other), "%s: %s", name, again)
			text, err := json.Marshal(other)
			require.NoError(t, err)
			assert.Equal(t, string(again), string(text), name)
		}
	})
}

// FuzzSealed: nothing but what was sealed to a key can be opened by it, whatever is changed.
func FuzzSealed(f *testing.F) {
	key, err := spool.NewKey()
	require.NoError(f, err)
	sealed, err := spool.Seal(key.Recipient(), spool.PodOrders{UID: "u", Name: "pi"})
	require.NoError(f, err)
	f.Add(sealed, 0, byte(0))
	f.Add(sealed, len(sealed)-1, byte(1))
	f.Add(sealed[:len(sealed)-20], 30, byte(0))
	f.Add([]byte("age-encryption.org/v1\n-> X25519 x\n"), 0, byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at int, change byte) {
		data = bytes.Clone(data)
		if len(data) > 0 {
			data[((at%len(data))+len(data))%len(data)] ^= change
		}
		var orders spool.PodOrders
		if err := key.Open(data, &orders); err == nil {
			assert.Equal(t, sealed, data, "nobody else can seal without the node's words")
		}
	})
}

// FuzzRecipient: an agent's key comes from its report.
func FuzzRecipient(f *testing.F) {
	key, err := spool.NewKey()
	require.NoError(f, err)
	f.Add(key.Recipient())
	f.Add("age1")
	f.Add("AGE-SECRET-KEY-1")
	f.Fuzz(func(t *testing.T, recipient string) {
		sealed, err := spool.Seal(recipient, "a secret of some length")
		assert.Equal(t, err == nil, sealed != nil)
		assert.NotContains(t, string(sealed), "a secret of some length")
	})
}

// FuzzRead: what is in a file's place may be anything.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{}`), uint16(0o600))
	f.Add([]byte(``), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, mode uint16) {
		path := filepath.Join(t.TempDir(), "status.json")
		require.NoError(t, os.WriteFile(path, data, os.FileMode(mode)&0o777|0o400))
		var direct, read spool.Status
		want := spool.Decode(path, data, &direct)
		found, err := spool.Read(path, &read)
		assert.Equal(t, want == nil, err == nil)
		assert.Equal(t, err == nil, found)
		assert.Equal(t, direct, read)
	})
}
