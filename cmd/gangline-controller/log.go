package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// logger makes the log of this process, the libraries' included.
func logger(format, level string) (logr.Logger, error) {
	var options slog.HandlerOptions
	var atLeast slog.Level
	if err := atLeast.UnmarshalText([]byte(level)); err != nil {
		return logr.Logger{}, fmt.Errorf("--log-level is debug, info, warn or error, not %q", level)
	}
	options.Level = atLeast
	var handler slog.Handler
	switch format {
	case "text":
		handler = slog.NewTextHandler(os.Stderr, &options)
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, &options)
	default:
		return logr.Logger{}, fmt.Errorf("--log-format is text or json, not %q", format)
	}
	log := logr.FromSlogHandler(handler)
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	return log, nil
}
