package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/control"
)

// FuzzControl: what comes to an agent's socket is a request as its JSON says, or none; and
// the next caller is served.
func FuzzControl(f *testing.F) {
	for _, text := range []string{
		"\x00" + `{"rank":{"step":"s","program":{"argv":["a"]},"pmi":"pmi2","number":1,"size":2}}` + "\n" + `{"signal":"INT"}` + "\n",
		"\x00" + `{"taken":{"run":"r","address":"0.0.0.0:80"}}`, "\x00" + `{"launch":{"patience":-1}}`, "\x00{}", "\x00null[]", "{}", "", "\x00" + `{"rank":{"number":1e9}}`, "\x00\xff",
		"\x00" + `{"rank":{"number":3}}{"signal":1}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		got := make(chan control.Request, 2)
		socket := serve(t, func(_ context.Context, r control.Request, _ control.Caller) (int, error) {
			got <- r
			return 3, nil
		})
		conn, err := net.Dial("unix", socket)
		require.NoError(t, err)
		require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second))) // for a test that has found something
		if len(said) > 0 {
			_, _ = conn.Write(said) // it may hear no more
		}
		require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		var answer control.Answer
		answered := json.NewDecoder(conn).Decode(&answer) == nil
		require.NoError(t, conn.Close())
		var want control.Request
		// The first byte is what files come with.
		isOne := len(said) > 1 && json.NewDecoder(bytes.NewReader(said[1:])).Decode(&want) == nil
		select {
		case r := <-got:
			assert.True(t, isOne)
			assert.Equal(t, want, r)
		default:
			assert.False(t, answered, "nobody was asked")
		}
		exit, err := control.Do(t.Context(), socket, control.Call{Request: request()})
		require.NoError(t, err)
		assert.Equal(t, 3, exit)
	})
}
