package handler

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/probe"
)

// The health service (https://github.com/grpc/grpc/blob/master/doc/health-checking.md)
// has one question of one string and an answer of one number, and gRPC is HTTP/2
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md). So net/http
// asks it, and the agent, which is copied to every HPC node, needs no library.
const (
	healthMethod = "/grpc.health.v1.Health/Check"

	fieldService = 1 // of HealthCheckRequest
	fieldStatus  = 1 // of HealthCheckResponse

	codeOK               = "0"
	codeDeadlineExceeded = "4"
	codeUnimplemented    = "12"

	prefixSize = 5 // a compression flag and the message's length
)

// servingStatus names HealthCheckResponse.ServingStatus.
var servingStatus = map[uint64]string{0: "UNKNOWN", 1: "SERVING", 2: "NOT_SERVING", 3: "SERVICE_UNKNOWN"}

func (h Handler) checkHealth(ctx context.Context, a *corev1.GRPCAction, timeout time.Duration) (probe.Result, error) {
	to := url.URL{Scheme: "http", Host: net.JoinHostPort(h.Address, strconv.Itoa(int(a.Port))), Path: healthMethod}
	if ptr.Deref(a.Mode, "") == corev1.GRPCProbeModeTLS {
		to.Scheme = "https"
	}
	question := protowire.AppendTag(nil, fieldService, protowire.BytesType)
	question = protowire.AppendString(question, ptr.Deref(a.Service, ""))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(frame(question)))
	if err != nil {
		return probe.Result{}, err
	}
	request.Header = http.Header{
		"Content-Type": {"application/grpc"},
		"Te":           {"trailers"},
		"User-Agent":   {probeAgent},
	}
	response, err := (&http.Client{Transport: transport(true)}).Do(request)
	if err != nil {
		return unanswered(ctx, to.Host, timeout, err), nil
	}
	defer response.Body.Close() //nolint:errcheck // only read
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxOutput))
	if err != nil {
		return unanswered(ctx, to.Host, timeout, err), nil
	}
	return health(response, answer, timeout), nil
}

func frame(message []byte) []byte {
	framed := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // short
	return append(framed, message...)
}

func unanswered(ctx context.Context, address string, timeout time.Duration, err error) probe.Result {
	if ctx.Err() != nil {
		return failure("timeout: failed to connect service %q within %s: %s", address, timeout, err)
	}
	return failure("error: failed to connect service at %q: %s", address, err)
}

// health reads a whole response.
func health(response *http.Response, answer []byte, timeout time.Duration) probe.Result {
	if response.StatusCode != http.StatusOK {
		return failure("error: health rpc probe failed: HTTP status %s", response.Status)
	}
	// Where there is no message, what would be a trailer is a header.
	of := func(name string) string {
		if v := response.Trailer.Get(name); v != "" {
			return v
		}
		return response.Header.Get(name)
	}
	message, _ := url.PathUnescape(of("Grpc-Message"))
	switch code := of("Grpc-Status"); code {
	case codeOK:
	case codeUnimplemented:
		return failure("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", message)
	case codeDeadlineExceeded:
		return failure("timeout: health rpc did not complete within %s", timeout)
	default:
		return failure("error: health rpc probe failed: code = %s desc = %s", code, message)
	}
	status, err := readStatus(answer)
	if err != nil {
		return failure("error: health rpc probe failed: %s", err)
	}
	name, known := servingStatus[status]
	if !known {
		name = strconv.FormatUint(status, 10)
	}
	if name != "SERVING" {
		return failure("service unhealthy (responded with %q)", name)
	}
	return probe.Result{Outcome: probe.Success}
}

// readStatus reads the framed answer. A number that is 0 is left out of it.
func readStatus(framed []byte) (status uint64, err error) {
	if len(framed) < prefixSize || framed[0] != 0 || int(binary.BigEndian.Uint32(framed[1:])) != len(framed)-prefixSize {
		return 0, errors.New("the answer is no single message")
	}
	for message := framed[prefixSize:]; len(message) > 0; {
		field, kind, n := protowire.ConsumeTag(message)
		if n >= 0 {
			message = message[n:]
			if field == fieldStatus && kind == protowire.VarintType {
				status, n = protowire.ConsumeVarint(message)
			} else {
				n = protowire.ConsumeFieldValue(field, kind, message)
			}
		}
		if n < 0 {
			return 0, fmt.Errorf("reading the answer: %w", protowire.ParseError(n))
		}
		message = message[n:]
	}
	return status, nil
}
