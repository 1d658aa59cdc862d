package kubelet

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// While each of these clients is connected, and after it, others are served.
func TestThePortSurvivesItsClients(t *testing.T) {
	p := startPort(t, Routes())
	p.allow("good get healthz")
	cases := map[string]func(t *testing.T){
		"one that speaks plain HTTP is told so": func(t *testing.T) {
			conn := dialPlain(t, p)
			_, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
			require.NoError(t, err)
			answer, _ := io.ReadAll(conn)
			assert.Contains(t, string(answer), "400 Bad Request")
		},
		"one that says nothing":       func(t *testing.T) { dialPlain(t, p) },
		"one that says rubbish":       func(t *testing.T) { _, _ = dialPlain(t, p).Write([]byte(strings.Repeat("\x00\xff", 500))) },
		"one that begins a handshake": func(t *testing.T) { _, _ = dialPlain(t, p).Write([]byte{22, 3, 1, 2, 0, 1}) },
		"one that never ends its header": func(t *testing.T) {
			_, _ = io.WriteString(dialTLS(t, p, "http/1.1"), "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		},
		"one with a huge header": func(t *testing.T) {
			conn := dialTLS(t, p, "http/1.1")
			_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: x\r\nX-Huge: ")
			for range 64 {
				if _, err := io.WriteString(conn, strings.Repeat("x", 64<<10)); err != nil {
					break // it would not hear more
				}
			}
			answer := make([]byte, 100)
			n, _ := io.ReadFull(conn, answer)
			assert.NotContains(t, string(answer[:n]), "200 OK")
		},
		"one with a huge token": func(t *testing.T) {
			assert.Equal(t, http.StatusUnauthorized, p.ask(http.MethodGet, "/healthz", strings.Repeat("x", 100<<10), nil))
		},
		"one that hangs up in the middle of a body": func(t *testing.T) {
			conn := dialTLS(t, p, "http/1.1")
			_, _ = io.WriteString(conn, "POST /exec/ns/pod/container HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nab")
			_ = conn.Close()
		},
		"one with an old TLS": func(t *testing.T) {
			config := p.tls(nil)
			config.MinVersion, config.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			_, err := tls.Dial("tcp", p.address, config)
			assert.Error(t, err)
		},
	}
	for name, knock := range cases {
		t.Run(name, func(t *testing.T) {
			knock(t)
			assert.Equal(t, served, p.ask(http.MethodGet, "/healthz", "token-good", nil), "others are served")
		})
	}
	// Hundreds that hold their connections do not keep others out.
	for range 300 {
		dialPlain(t, p)
	}
	assert.Equal(t, served, p.ask(http.MethodGet, "/healthz", "token-good", nil))
}

func dialPlain(t *testing.T, p *port) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.address)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func dialTLS(t *testing.T, p *port, protocol string) net.Conn {
	t.Helper()
	config := p.tls(nil)
	config.NextProtos = []string{protocol}
	conn, err := tls.Dial("tcp", p.address, config)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
