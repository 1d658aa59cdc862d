package fluxtest

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMessages(t *testing.T) {
	for name, m := range map[string]message{
		"a request": {kind: typeRequest, flags: flagTopic | flagPayload, userID: 1000, number: 0xffffffff, matchtag: 7,
			topic: "attr.get", payload: []byte("{}\x00")},
		"a long answer with routes": {kind: typeResponse, flags: flagTopic | flagPayload | flagRoute | flagStreaming, roles: roleOwner, matchtag: 7,
			topic: "x", routes: [][]byte{[]byte("a"), []byte("b")}, payload: bytes.Repeat([]byte("x"), 70_000)},
		"one with neither topic nor payload": {kind: typeRequest},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := readMessage(bufio.NewReader(bytes.NewReader(m.encode())))
			require.NoError(t, err)
			assert.Equal(t, m, got)
		})
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(message{kind: typeRequest, flags: flagTopic | flagPayload, topic: "attr.get", payload: []byte("{}\x00")}.encode()[8:])
	f.Add([]byte{255, 255, 255, 255, 255})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decode(text)
		if err != nil {
			return
		}
		again, err := decode(m.encode()[8:])
		require.NoError(t, err)
		assert.Equal(t, m.topic, again.topic)
	})
}
