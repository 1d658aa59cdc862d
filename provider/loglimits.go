package provider

import "github.com/gangline/gangline/provider/spool"

// logLimits is what agents are told of the logs.
func (c *Config) logLimits() spool.LogLimits {
	limits := spool.LogLimits{MaxBytes: c.ContainerLogMaxSize.Value(), MaxFiles: c.ContainerLogMaxFiles}
	if c.ContainerLogMaxSize.Sign() < 0 {
		limits = spool.LogLimits{MaxBytes: -1, MaxFiles: 1}
	}
	return limits
}
