package fluxtest

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types and flags of messages. RFC 3.
const (
	typeRequest  = 0x01
	typeResponse = 0x02

	flagTopic      = 0x01
	flagPayload    = 0x02
	flagNoResponse = 0x04
	flagRoute      = 0x08
	flagStreaming  = 0x40

	protocolMagic   = 0x8e
	protocolVersion = 1
	headerSize      = 20

	roleOwner = 1

	longestMessage = 64 << 20
)

// socketMagic is before each message. It is not in network order, whatever RFC 3 says.
var socketMagic = binary.NativeEndian.AppendUint32(nil, 0xffee0012)

// message is one of a broker's. number is a request's node or a response's errno.
type message struct {
	kind, flags      byte
	userID, roles    uint32
	number, matchtag uint32
	routes           [][]byte
	topic            string
	payload          []byte // with its zero byte
}

// readMessage reads one from a local connector's socket.
func readMessage(r *bufio.Reader) (message, error) {
	var prefix [8]byte
	if _, err := io.ReadFull(r, prefix[:]); err != nil {
		return message{}, err
	}
	size := binary.BigEndian.Uint32(prefix[4:])
	if !bytes.Equal(prefix[:4], socketMagic) || size > longestMessage {
		return message{}, fmt.Errorf("a message begins with % x", prefix)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		return message{}, err
	}
	return decode(text)
}

func decode(text []byte) (message, error) {
	var frames [][]byte
	for len(text) > 0 {
		size, rest := int(text[0]), text[1:]
		if size == 255 {
			if len(rest) < 4 {
				return message{}, io.ErrUnexpectedEOF
			}
			size, rest = int(binary.BigEndian.Uint32(rest)), rest[4:]
		}
		if size > len(rest) {
			return message{}, io.ErrUnexpectedEOF
		}
		frames, text = append(frames, rest[:size]), rest[size:]
	}
	if len(frames) == 0 {
		return message{}, errors.New("a message has no frames")
	}
	header := frames[len(frames)-1]
	if len(header) != headerSize || header[0] != protocolMagic || header[1] != protocolVersion {
		return message{}, fmt.Errorf("a message ends with % x", header)
	}
	m := message{
		kind: header[2], flags: header[3],
		userID: binary.BigEndian.Uint32(header[4:]), roles: binary.BigEndian.Uint32(header[8:]),
		number: binary.BigEndian.Uint32(header[12:]), matchtag: binary.BigEndian.Uint32(header[16:]),
	}
	frames = frames[:len(frames)-1]
	if m.flags&flagRoute != 0 {
		i := 0
		for ; i < len(frames) && len(frames[i]) > 0; i++ {
			m.routes = append(m.routes, frames[i])
		}
		frames = frames[min(i+1, len(frames)):]
	}
	if m.flags&flagTopic != 0 && len(frames) > 0 {
		m.topic, frames = string(frames[0]), frames[1:]
	}
	if m.flags&flagPayload != 0 && len(frames) > 0 {
		m.payload, frames = frames[0], frames[1:]
	}
	if len(frames) > 0 {
		return message{}, fmt.Errorf("a message has %d frames too many", len(frames))
	}
	return m, nil
}

// encode is the message with what goes before it on a socket.
func (m message) encode() []byte {
	var body []byte
	frame := func(data []byte) {
		if len(data) < 255 {
			body = append(body, byte(len(data)))
		} else {
			body = binary.BigEndian.AppendUint32(append(body, 255), uint32(len(data)))
		}
		body = append(body, data...)
	}
	if m.flags&flagRoute != 0 {
		for _, r := range m.routes {
			frame(r)
		}
		frame(nil)
	}
	if m.flags&flagTopic != 0 {
		frame([]byte(m.topic))
	}
	if m.flags&flagPayload != 0 {
		frame(m.payload)
	}
	header := []byte{protocolMagic, protocolVersion, m.kind, m.flags}
	for _, n := range []uint32{m.userID, m.roles, m.number, m.matchtag} {
		header = binary.BigEndian.AppendUint32(header, n)
	}
	frame(header)
	out := binary.BigEndian.AppendUint32(bytes.Clone(socketMagic), uint32(len(body)))
	return append(out, body...)
}
