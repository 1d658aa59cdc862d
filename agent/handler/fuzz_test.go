package handler

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"github.com/gangline/gangline/agent/probe"
)

// FuzzHealth reads any bytes as the answer of a health service, and agrees with the library
// of the protocol where that understands them.
func FuzzHealth(f *testing.F) {
	f.Add(http.StatusOK, "0", "", []byte{0, 0, 0, 0, 2, 8, 1})
	f.Add(http.StatusOK, "0", "", []byte{0, 0, 0, 0, 0})
	f.Add(http.StatusOK, "0", "", []byte{1, 0, 0, 0, 2, 8, 1})
	f.Add(http.StatusOK, "12", "%zz", []byte{0, 0xff, 0xff, 0xff, 0xff})
	f.Add(http.StatusBadGateway, "", "", []byte("<html>"))
	f.Add(http.StatusOK, "0", "", []byte{0, 0, 0, 0, 6, 0x12, 2, 'a', 'b', 8, 1})
	f.Fuzz(func(t *testing.T, status int, code, message string, answer []byte) {
		response := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Grpc-Status": {code}, "Grpc-Message": {message}}}
		result := health(response, answer, time.Second)
		assert.Contains(t, []probe.Outcome{probe.Success, probe.Failure}, result.Outcome)
		if result.Outcome == probe.Success {
			assert.True(t, status == http.StatusOK && code == codeOK, "nothing else is a success")
		}
		got, err := readStatus(answer)
		var library healthv1.HealthCheckResponse
		if err == nil && proto.Unmarshal(answer[prefixSize:], &library) == nil {
			assert.Equal(t, int32(library.GetStatus()), int32(uint32(got))) //nolint:gosec // as protobuf cuts enums
		}
	})
}

// FuzzOutput: of what a probe's command prints, the beginning is kept.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("a"), 3)
	f.Add([]byte("0123456789abcdef"), 1000)
	f.Fuzz(func(t *testing.T, piece []byte, times int) {
		var b limitedBuffer
		for range min(max(times, 0), 1000) {
			n, err := b.Write(piece)
			assert.NoError(t, err)
			assert.Equal(t, len(piece), n, "the command is not held up")
		}
		assert.LessOrEqual(t, len(b.String()), maxOutput)
	})
}
