package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// frame is a message as it is sent.
func frame(header string, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(header)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	return append(append(b, header...), body...)
}

// Both sides read what the other sends: one is the user's process, the other runs commands.
func FuzzMessage(f *testing.F) {
	f.Add(frame(`{"kind":"answer","id":1,"value":{"m":1,"s":3},"sizes":[2,1]}`, "hi!"))
	f.Add(frame(`{"kind":"call","method":"run","value":{"argv":["/bin/true"]},"sizes":[]}`, ""))
	f.Add(frame(`{"kind":"answer","error":{"message":"m","errno":-1,"cause":"timeout"},"sizes":[-1]}`, "x"))
	f.Add(frame(`{"sizes":[9223372036854775807,1]}`, "x"))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0})
	f.Add(lengths(2, maxBody, "{}"))
	f.Add(lengths(maxHeader, 0, "{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := readMessage(bytes.NewReader(data))
		if err != nil {
			return
		}
		total := 0
		for _, p := range m.parts {
			total += len(p)
		}
		assert.LessOrEqual(t, total, len(data), "no byte is in two parts")
		_ = m.Error.err()
		var out bytes.Buffer
		require.NoError(t, m.write(&out))
		again, err := readMessage(&out)
		require.NoError(t, err)
		require.Len(t, again.parts, len(m.parts))
		for i := range m.parts {
			assert.Equal(t, string(m.parts[i]), string(again.parts[i]))
		}
		assert.Equal(t, [...]any{m.Kind, m.ID, m.Method}, [...]any{again.Kind, again.ID, again.Method})
	})
}

// lengths is the beginning of a message that is to be so long.
func lengths(header, body uint32, begins string) []byte {
	return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, header), body), begins...)
}

// Eight bytes must not take much memory.
func TestAMessageTakesMemoryAsItComes(t *testing.T) {
	for sentence, begin := range map[string][]byte{
		"a long body":   lengths(2, maxBody, "{}"),
		"a long header": lengths(maxHeader, maxBody, "{}"),
	} {
		t.Run(sentence, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readMessage(bytes.NewReader(begin))
			runtime.ReadMemStats(&after)
			assert.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20))
		})
	}
}

func FuzzGreeting(f *testing.F) {
	f.Add("welcome to login1\n" + greeting + "\nrest")
	f.Add("gangline-gateway protocol 2\n")
	f.Add(strings.Repeat("x", 5000))
	f.Fuzz(func(t *testing.T, said string) {
		noise, err := readGreeting(bufio.NewReader(strings.NewReader(said)))
		assert.LessOrEqual(t, len(noise), 500, "a login shell's words are shown in part")
		assert.Equal(t, err == nil, strings.Contains(said+"\n", greeting+"\n") && strings.Contains(said, greeting+"\n"))
	})
}

func FuzzWords(f *testing.F) {
	f.Add("one\ntwo", "\xff\n\n")
	f.Fuzz(func(t *testing.T, first, second string) {
		var w Words
		for _, part := range []string{first, second} {
			n, err := w.Write([]byte(part))
			assert.NoError(t, err)
			assert.Equal(t, len(part), n)
		}
		assert.LessOrEqual(t, len(w.String()), (lastLines+1)*(3*maxLine+2))
	})
}
