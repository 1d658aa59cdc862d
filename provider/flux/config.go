package flux

import (
	"context"
	"time"

	"github.com/gangline/gangline/flux"
)

// onlyPartition is the name of the partition of an instance without queues.
const onlyPartition = "default"

// instanceConfig is the part of an instance's configuration that matters to gangs.
// Source: flux-config-queues(5), flux-config-policy(5), flux-config-exec(5).
type instanceConfig struct {
	Queues map[string]struct {
		// Requires are the properties of the queue's nodes.
		Requires []string `json:"requires"`
	} `json:"queues"`
	Policy struct {
		Jobspec struct {
			Defaults struct {
				System struct {
					Queue string `json:"queue"`
				} `json:"system"`
			} `json:"defaults"`
		} `json:"jobspec"`
	} `json:"policy"`
	Exec struct {
		KillTimeout string `json:"kill-timeout"`
	} `json:"exec"`
}

func readConfig(ctx context.Context, h *flux.Handle) (instanceConfig, error) {
	var c instanceConfig
	err := h.RPC(ctx, "config.get", nil, &c)
	return c, err
}

// defaultKillTimeout is Flux's own.
const defaultKillTimeout = 5 * time.Second

// killTimeout is the time from a job's SIGTERM to its SIGKILL. Flux's form of a duration
// (RFC 23) is Go's, but for a number alone, which counts seconds, and for days.
func (c instanceConfig) killTimeout() time.Duration {
	for _, text := range []string{c.Exec.KillTimeout, c.Exec.KillTimeout + "s"} {
		if d, err := time.ParseDuration(text); err == nil && d > 0 {
			return d
		}
	}
	return defaultKillTimeout
}
