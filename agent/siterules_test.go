package agent_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
)

func TestTheSiteGivesVariablesAndLimits(t *testing.T) {
	w := single(t, "HOME=/nowhere/alice")
	o := w.orders("u", `echo $CACHE $TOKENS $HOME; ulimit -S -n; ulimit -S -c; ulimit -H -n > /dev/null`)
	o.Namespace = "team"
	o.Containers[0].Env = append(o.Containers[0].Env, corev1.EnvVar{Name: "TOKENS", Value: "mine"})
	o.Site = spool.Site{
		Environment: []corev1.EnvVar{
			{Name: "CACHE", Value: "{home}/{user}/{namespace}/{job}/{node}/{other}"}, {Name: "TOKENS", Value: "site's"}, {Name: "HOME", Value: "/scratch/{user}"},
		},
		Limits: []spool.Limit{{Name: "core"}, {Name: "nofile", Value: 99}, {Name: "nproc", Value: spool.Unlimited, Silent: true}},
	}
	w.run(0, o)
	assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
	assert.Equal(t, "/nowhere/alice/alice/team/7/hpc1/{other} mine /scratch/alice\n99\n0\n", w.log(0, "u", "main", 0, "stdout"))
}

func TestALimitThatCannotBeHadIsTold(t *testing.T) {
	var have unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &have))
	w := single(t)
	o := w.orders("u", `ulimit -S -n`)
	o.Site.Limits = []spool.Limit{{Name: "nofile", Value: spool.Unlimited}}
	w.run(0, o)
	end := w.done(0, "u")
	assert.Equal(t, 0, exitCode(t, end), "it runs all the same")
	require.NotEmpty(t, end.Events)
	assert.Equal(t, "LimitTooLow", end.Events[0].Reason)
	assert.Contains(t, end.Events[0].Message, "the limit nofile is to be unlimited, and this node's hard limit is ")
}

// scratchWorld is one agent in a gang with a rule for scratch volumes.
func scratchWorld(t *testing.T, rule string) *world {
	t.Helper()
	w := prepareWorld(t, t.TempDir(), [][]int{{0}})
	w.gang.Scratch = rule
	w.writeGang()
	w.agents = append(w.agents, w.startAgent(0))
	w.agentStatus(0)
	w.publishNames()
	return w
}

func withScratch(o spool.PodOrders) spool.PodOrders {
	o.Volumes = append(o.Volumes, spool.Volume{Name: "tmp", EmptyDir: &spool.EmptyDir{}})
	o.Containers[0].Mounts = append(o.Containers[0].Mounts, spool.Mount{Volume: "tmp", Path: "/data"})
	return o
}

func TestScratchVolumesAreWhereTheSiteSays(t *testing.T) {
	local := t.TempDir()
	w := scratchWorld(t, local+"/{user}/{job}")
	o := withScratch(w.orders("u", "echo here > /data/x; until test -e /data/go; do sleep 0.02; done"))
	w.run(0, o)
	pattern := filepath.Join(local, "alice", "7", "gangline-*", "*", "*", "volumes", "tmp")
	var volumes []string
	require.Eventually(t, func() bool {
		volumes, _ = filepath.Glob(filepath.Join(pattern, "x"))
		return len(volumes) == 1
	}, 20*time.Second, 10*time.Millisecond)
	require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(volumes[0]), "go"), nil, 0o644))
	assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
	w.release()
	assert.Equal(t, 0, w.agentExit(0))
	assert.NoDirExists(t, filepath.Join(local, "alice", "7"), "the job's directory goes with the job")
	assert.DirExists(t, filepath.Join(local, "alice"), "what is not one job's stays")
}

func TestScratchThatTheSiteHasNotMade(t *testing.T) {
	w := prepareWorld(t, t.TempDir(), [][]int{{0}})
	w.gang.Scratch = filepath.Join(t.TempDir(), "none", "{user}")
	w.writeGang()
	w.agents = append(w.agents, w.startAgent(0))
	assert.Equal(t, 1, w.agentExit(0), "no user makes it for all others")
}

func TestScratchOfAKilledJobIsRemovedByTheNext(t *testing.T) {
	local := t.TempDir()
	w := scratchWorld(t, local+"/{job}")
	w.run(0, withScratch(w.orders("u", "echo here > /data/x; sleep 600")))
	left := filepath.Join(local, "7", "gangline-*", "*", "*", "volumes", "tmp", "x")
	require.Eventually(t, func() bool {
		found, _ := filepath.Glob(left)
		return len(found) == 1
	}, 20*time.Second, 10*time.Millisecond)
	// As at the end of a job that does not go: nothing gets to clean up.
	outer := w.agents[0].Process
	require.NoError(t, outer.Signal(unix.SIGSTOP))
	w.killInner(0)
	require.NoError(t, outer.Kill())
	_ = w.agents[0].Wait()
	found, err := filepath.Glob(left)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, os.MkdirAll(filepath.Join(local, "8", "somebody's"), 0o755))

	next := prepareWorld(t, t.TempDir(), [][]int{{0}})
	next.gang.Scratch = local + "/{job}"
	next.writeGang()
	next.agents = append(next.agents, next.startAgent(0, "GANGLINE_JOB_ID=9"))
	next.agentStatus(0)
	assert.NoDirExists(t, filepath.Join(local, "7"))
	assert.DirExists(t, filepath.Join(local, "8", "somebody's"), "what is not ours stays")
	assert.DirExists(t, filepath.Join(local, "9"))
}
