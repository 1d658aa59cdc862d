package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/gangline/gangline/cmd/internal/logs"
)

// expected is what a first start brings about, several replicas that start together, and an
// end.
func expected() []logs.Expected {
	const modified = "the object has been modified"
	return []logs.Expected{
		{Message: "secret is not well-formed, cannot update webhook configurations", Error: "Cert secret is not well-formed", Says: "the webhooks' certificates are being made"},
		{Message: "could not refresh CA and server certs", Error: modified, Says: "another replica, or this one a moment ago, has written the webhooks' certificates; looking again"},
		{Message: "error received after stop sequence was engaged", Error: "leader election lost", Says: "the lease is given back, for another replica to take"},
	}
}

// logger makes the log of this process, the libraries' included.
func logger(format, level string) (logr.Logger, error) {
	var atLeast slog.Level
	if err := atLeast.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level is debug, info, warn or error, not %q", level)
	}
	log, err := logs.New(os.Stderr, format, atLeast, expected()...)
	if err != nil {
		return logr.Logger{}, err
	}
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	return log, nil
}
