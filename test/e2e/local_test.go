package e2e

import "testing"

// TestLocal runs what needs no Slurm on the embedded workload manager.
func TestLocal(t *testing.T) {
	t.Parallel()
	env := environment(t, "local", "local", 2, nil)
	runAll(t, env, map[string]func(*world){
		"logs follow":       logsFollow,
		"exec":              execInPod,
		"an annotated gang": namedGang,
		"preflight":         preflightIsWell,
	})
}
