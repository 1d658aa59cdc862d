package gateway

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gangline/gangline/provider/site"
)

// greeting is the first line that the gateway sends. Its number is the protocol's:
// it changes when an older side would misunderstand.
const greeting = "gangline-gateway protocol 1"

// Limits of a message, in bytes.
const (
	maxHeader = 16 << 20
	maxBody   = 2*site.MaxOutput + site.MaxFile
	// maxParts is more than the files that are asked for at once. The other side is a
	// user's process.
	maxParts = 1 << 20
	// maxNoise is what a login shell may print before the greeting.
	maxNoise = 1 << 20
)

// kind says what a message is.
type kind string

const (
	kindHello   kind = "hello"   // client: what it wants of the gateway
	kindNotice  kind = "notice"  // gateway: what it waits for
	kindWelcome kind = "welcome" // gateway: ready, or why not
	kindCall    kind = "call"    // client
	kindCancel  kind = "cancel"  // client: the answer is wanted no more
	kindAnswer  kind = "answer"  // gateway
	kindPing    kind = "ping"    // client: it lives
	kindPong    kind = "pong"    // gateway: so does it
)

// message is what either side sends.
type message struct {
	Kind kind `json:"kind"`
	// ID joins a call, its cancellation and its answer.
	ID     uint64          `json:"id,omitempty"`
	Method string          `json:"method,omitempty"`
	Value  json.RawMessage `json:"value,omitempty"`
	Error  *wireError      `json:"error,omitempty"`
	// Sizes are those of the parts, which follow the header.
	Sizes []int `json:"sizes,omitempty"`

	parts [][]byte
	// changes is the client's own: the call changes files.
	changes bool
}

// hello is what the client wants of the gateway.
type hello struct {
	// Lock is the file to lock; empty for none.
	Lock string `json:"lock,omitempty"`
	// Silence in nanoseconds is how long the client is believed to live without a word.
	Silence int64 `json:"silence"`
}

func (m message) write(w io.Writer) error {
	m.Sizes = nil
	total := 0
	for _, p := range m.parts {
		m.Sizes = append(m.Sizes, len(p))
		total += len(p)
	}
	header, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if len(header) > maxHeader || total > maxBody {
		return fmt.Errorf("a message of %d and %d bytes: %w", len(header), total, site.ErrTooLarge)
	}
	lengths := binary.BigEndian.AppendUint32(nil, uint32(len(header)))
	lengths = binary.BigEndian.AppendUint32(lengths, uint32(total))
	for _, p := range append([][]byte{lengths, header}, m.parts...) {
		if _, err := w.Write(p); err != nil {
			return err
		}
	}
	return nil
}

func readMessage(r io.Reader) (message, error) {
	var m message
	var lengths [8]byte
	if _, err := io.ReadFull(r, lengths[:]); err != nil {
		return m, err
	}
	header, body := binary.BigEndian.Uint32(lengths[:4]), binary.BigEndian.Uint32(lengths[4:])
	if header > maxHeader || body > maxBody {
		return m, fmt.Errorf("a message of %d and %d bytes: %w", header, body, site.ErrTooLarge)
	}
	text, err := readBytes(r, header)
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("reading a message: %w", err)
	}
	if len(m.Sizes) > maxParts {
		return m, fmt.Errorf("a message of %d parts: %w", len(m.Sizes), site.ErrTooLarge)
	}
	rest, err := readBytes(r, body)
	if err != nil {
		return m, err
	}
	for _, n := range m.Sizes {
		if n < 0 || n > len(rest) {
			return m, errors.New("reading a message: its parts are longer than itself")
		}
		m.parts, rest = append(m.parts, rest[:n:n]), rest[n:]
	}
	return m, nil
}

// readBytes reads so many bytes. They take memory as they come, not by the word of the
// other side.
func readBytes(r io.Reader, n uint32) ([]byte, error) {
	const atOnce = 64 << 10
	var b bytes.Buffer
	b.Grow(min(int(n), atOnce) + bytes.MinRead)
	_, err := io.CopyN(&b, r, int64(n))
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // in the middle of a message
	}
	return b.Bytes(), err
}

// readGreeting skips what a login shell prints. If the greeting does not come, it
// returns the end of that, for a message.
func readGreeting(r *bufio.Reader) (noise string, err error) {
	for read := 0; read < maxNoise; {
		line, err := r.ReadSlice('\n')
		text := string(line)
		read += len(text)
		if strings.HasSuffix(text, greeting+"\n") {
			return "", nil
		}
		const enough = 500
		noise += text
		noise = noise[max(0, len(noise)-enough):]
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return noise, err
		}
		if _, other, ok := strings.Cut(text, greeting[:len(greeting)-1]); ok {
			return noise, fmt.Errorf("the gateway speaks protocol %s and this version 1: both must be of one release", strings.TrimSpace(other))
		}
	}
	return noise, fmt.Errorf("no greeting within %d bytes: %w", maxNoise, site.ErrTooLarge)
}
