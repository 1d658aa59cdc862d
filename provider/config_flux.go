package provider

import (
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FluxConfig is how a Flux instance is reached.
type FluxConfig struct {
	// URI is the broker's, "local:///run/flux/local". Default: FLUX_URI of the
	// environment, else the system instance.
	URI string `json:"uri,omitempty"`
	// Library is the path of libflux-core. Default: libflux-core.so.2 where the dynamic
	// linker finds it.
	Library string `json:"library,omitempty"`
	// NodeMemoryMiB is what each node has, in MiB: Flux neither knows nor counts memory.
	NodeMemoryMiB int64 `json:"nodeMemoryMiB,omitempty"`
	// Timeout bounds each call. Default 1m.
	Timeout metav1.Duration `json:"timeout,omitempty"`
}

// managerFlux is Flux's name in the configuration.
const managerFlux = "flux"

// fluxProblems is what is wrong with Flux's part, and what else cannot be with Flux.
func (c *Config) fluxProblems() []string {
	if c.WorkloadManager != managerFlux {
		if c.Flux != (FluxConfig{}) {
			return []string{fmt.Sprintf("flux is set, and workloadManager is %q: make it flux, or take flux away", c.WorkloadManager)}
		}
		return nil
	}
	var problems []string
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	f := c.Flux
	const most = 1 << 30 // a pebibyte: far more is a slip
	if f.NodeMemoryMiB <= 0 || f.NodeMemoryMiB > most {
		add("flux.nodeMemoryMiB must be what each node has, from 1 to %d MiB, and is %d: Flux does not know it", most, f.NodeMemoryMiB)
	}
	if f.URI != "" && !strings.HasPrefix(f.URI, "local:///") || strings.ContainsRune(f.URI, 0) {
		add("flux.uri must be that of a broker on this machine, like local:///run/flux/local, not %q", f.URI)
	}
	if f.Library != "" && !filepath.IsAbs(f.Library) {
		add("flux.library must be an absolute path, not %q", f.Library)
	}
	if f.Timeout.Duration < 0 {
		add("flux.timeout must not be below 0, and is %s", f.Timeout.Duration)
	}
	if c.others() {
		add("access: the mode %s cannot be with Flux: its jobs are those of the user who submits, and gangline-node submits itself, by Flux's library; "+
			"run a gangline-node for each user, with the mode own", c.Access.Mode)
	}
	if len(c.Slurm.AllowedFlags) > 0 {
		add("slurm.allowedFlags are options of sbatch, which Flux does not have")
	}
	if c.Resources.AskFor() {
		add("resources: Flux knows no generic resources, and GPUs of no type: name its GPUs by gpuResource")
	}
	return problems
}
