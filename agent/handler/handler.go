package handler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gangline/gangline/agent/probe"
)

// maxTries is how often a probe is tried at once if it cannot be carried out.
const maxTries = 3

// Exec runs a command in the container until it ends. What it prints goes to
// output, which may be written to from several goroutines. The end of the
// context ends all of the command's processes. An error says that it could not
// be started.
type Exec func(ctx context.Context, argv []string, output io.Writer) (exitCode int, err error)

// Handler carries out the actions of one container.
type Handler struct {
	// Address is the pod's, to which requests go that name no host.
	Address string
	Exec    Exec
}

// Probe makes one try of a probe, within the probe's timeout.
func (h Handler) Probe(ctx context.Context, p corev1.Probe) probe.Result {
	var result probe.Result
	for range maxTries {
		var err error
		if result, err = h.try(ctx, p.ProbeHandler, time.Duration(p.TimeoutSeconds)*time.Second); err == nil {
			return result
		}
		result = probe.Result{Outcome: probe.Unknown, Message: err.Error()}
	}
	return result
}

// try carries out an action. An error says that it could not be.
func (h Handler) try(ctx context.Context, a corev1.ProbeHandler, timeout time.Duration) (probe.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	switch {
	case a.Exec != nil:
		return h.exec(ctx, a.Exec.Command, timeout)
	case a.HTTPGet != nil:
		return h.get(ctx, a.HTTPGet)
	case a.TCPSocket != nil:
		return h.connect(ctx, a.TCPSocket)
	case a.GRPC != nil:
		return h.checkHealth(ctx, a.GRPC, timeout)
	}
	return probe.Result{}, errors.New("the probe names no action")
}

// Hook carries out a lifecycle hook until the context ends.
func (h Handler) Hook(ctx context.Context, a corev1.LifecycleHandler) error {
	switch {
	case a.Exec != nil:
		output := &limitedBuffer{}
		code, err := h.Exec(ctx, a.Exec.Command, output)
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err == nil && code != 0 {
			err = fmt.Errorf("it ended with exit code %d: %q", code, output)
		}
		return err
	case a.HTTPGet != nil:
		return h.call(ctx, a.HTTPGet)
	case a.Sleep != nil:
		select {
		case <-time.After(time.Duration(a.Sleep.Seconds) * time.Second):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.New("the hook names no action that is supported")
}

func (h Handler) exec(ctx context.Context, argv []string, timeout time.Duration) (probe.Result, error) {
	output := &limitedBuffer{}
	code, err := h.Exec(ctx, argv, output)
	switch {
	case ctx.Err() != nil:
		return failure("command timed out: %q timed out after %s", strings.Join(argv, " "), timeout), nil
	case err != nil:
		return probe.Result{}, err
	case code != 0:
		return failure("%s", output), nil
	}
	return probe.Result{Outcome: probe.Success}, nil
}

func failure(format string, args ...any) probe.Result {
	return probe.Result{Outcome: probe.Failure, Message: fmt.Sprintf(format, args...)}
}

// host returns what an action connects to. It names its ports by number: names
// were resolved before.
func (h Handler) host(host string) string {
	if host == "" {
		return h.Address
	}
	return host
}

func number(port intstr.IntOrString) (string, error) {
	switch {
	case port.Type == intstr.String:
		return "", fmt.Errorf("port %q not found", port.StrVal)
	case port.IntVal <= 0 || port.IntVal > 65535:
		return "", fmt.Errorf("invalid port number: %d", port.IntVal)
	}
	return strconv.Itoa(int(port.IntVal)), nil
}
