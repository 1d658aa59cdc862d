package agent_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate"
)

// slurmWorld is a world whose agents a real Slurm starts.
type slurmWorld struct {
	*world
	cluster *slurm.Cluster
	agent   string // this program, as all nodes see it
	script  string
}

func newSlurmWorld(t *testing.T, c *slurm.Cluster, tasks [][]int) *slurmWorld {
	t.Helper()
	root, err := os.MkdirTemp(c.SharedDir(), "spool-")
	require.NoError(t, err)
	u, err := user.Lookup(slurm.DefaultUser)
	require.NoError(t, err)
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	w := &slurmWorld{world: prepareWorld(t, root, tasks), cluster: c}
	w.handOver = func() {
		// Agents remove temporary files meanwhile.
		_ = filepath.WalkDir(root, func(path string, _ fs.DirEntry, _ error) error {
			_ = os.Lchown(path, uid, gid)
			return nil
		})
	}
	w.agent = filepath.Join(root, "gangline-agent")
	w.script = filepath.Join(root, "launch.sh")
	copyFile(t, "/proc/self/exe", w.agent)
	require.NoError(t, os.WriteFile(w.script, []byte("#!/bin/sh\nexec \"$1\" launch \"$2\"\n"), 0o755))
	w.handOver()
	return w
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	require.NoError(t, err)
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(out, in)
	require.NoError(t, err)
	require.NoError(t, out.Close())
}

func (w *slurmWorld) submit(groups ...translate.TaskGroup) string {
	w.t.Helper()
	args, err := translate.SbatchArgs(translate.Request{
		Name: w.gang.Allocation, Groups: groups, Agent: w.agent, Dir: string(w.dir),
	}, w.script)
	require.NoError(w.t, err)
	out, err := w.cluster.Run(w.t.Context(), "sbatch", args...)
	require.NoError(w.t, err)
	return out
}

func (w *slurmWorld) ended(job string) slurm.Job {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if w.gang.Groups > 1 {
		job += "+0" // as squeue names the leader
	}
	j, err := w.cluster.WaitJob(ctx, job, "COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
	data, _ := os.ReadFile(filepath.Join(string(w.dir), "job.log"))
	require.NoError(w.t, err, "%s", data)
	w.t.Logf("job %s:\n%s", job, data)
	return j
}

func (w *slurmWorld) result() spool.Result {
	w.t.Helper()
	var r spool.Result
	found, err := spool.Read(w.dir.Result(), &r)
	require.NoError(w.t, err)
	require.True(w.t, found)
	return r
}

func TestUnderSlurm(t *testing.T) {
	c := slurm.ForTest(t, slurm.Config{Nodes: 2, CPUs: 8, GPUs: 8})

	t.Run("a heterogeneous gang with a slot that rides", func(t *testing.T) {
		w := newSlurmWorld(t, c, [][]int{{0, 1}, {2}, {3}})
		w.gang.Groups = 2
		w.gang.Slots[0].Rides = false
		w.gang.Slots[1].Rides, w.gang.Slots[1].GPUs = true, 0
		w.gang.Slots[3].GPUs = 0
		w.writeGang()
		job := w.submit(
			translate.TaskGroup{Tasks: 2, Resources: translate.Resources{CPUs: 3, MemoryMiB: 512, GPUs: 4}},
			translate.TaskGroup{Tasks: 1, Resources: translate.Resources{CPUs: 2, MemoryMiB: 256}},
		)
		w.publishNames()
		for k, node := range []int{1, 1, 1, 2} {
			a := w.agentStatus(k)
			assert.True(t, strings.HasSuffix(a.Node, "-hpc"+strconv.Itoa(node)), "slot %d on %s", k, a.Node)
			assert.Equal(t, job, a.JobID)
			assert.True(t, a.PrivateRoot, a.PrivateRootError)
			assert.True(t, strings.HasPrefix(a.Address, "10."), a.Address)
		}
		for _, k := range []int{0, 2, 3} {
			o := w.orders("w"+strconv.Itoa(k), "echo gpus:$CUDA_VISIBLE_DEVICES; env | grep -c -e ^SLURM -e ^PMI; "+idle)
			o.Hostname = w.gang.Slots[k].Hostname
			w.run(k, o)
			w.waitLog(k, o.UID, "ready")
		}
		o := w.orders("l", "for k in 0 2 3; do ssh pi-worker-$k hostname || exit 9; done; id -un; echo gpus:$CUDA_VISIBLE_DEVICES; exit 5")
		o.Hostname = w.gang.Slots[1].Hostname
		w.run(1, o)
		assert.Equal(t, 5, exitCode(t, w.done(1, "l")), w.log(1, "l", "main", 0, "stderr"))
		assert.Equal(t, "pi-worker-0\npi-worker-2\npi-worker-3\nhpcuser\ngpus:\n", w.log(1, "l", "main", 0, "stdout"))
		for k, want := range map[int]string{0: "0,1,2,3", 2: "4,5,6,7", 3: ""} {
			uid := "w" + strconv.Itoa(k)
			assert.Equal(t, "gpus:"+want+"\n0\nready\n", w.log(k, uid, "main", 0, "stdout"))
			w.stop(k, uid, 5)
			assert.Equal(t, 0, exitCode(t, w.done(k, uid)))
		}
		w.release()
		assert.Equal(t, "FAILED", w.ended(job).State)
		r := w.result()
		assert.Equal(t, 5, r.ExitCode)
		assert.Equal(t, `slot 1: container "main" ended with exit code 5`, r.Message)
	})

	t.Run("a job that is cancelled stops its pods", func(t *testing.T) {
		w := newSlurmWorld(t, c, [][]int{{0}, {1}})
		job := w.submit(translate.TaskGroup{Tasks: 2, Resources: translate.Resources{CPUs: 5, MemoryMiB: 512}})
		w.publishNames()
		for k := range 2 {
			// Slurm signals all processes, and so does the agent.
			w.run(k, w.orders("p"+strconv.Itoa(k), "trap 'trap \"\" TERM; echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"))
			w.waitLog(k, "p"+strconv.Itoa(k), "ready")
		}
		_, err := w.cluster.Run(t.Context(), "scancel", job)
		require.NoError(t, err)
		assert.Equal(t, "CANCELLED", w.ended(job).State)
		for k := range 2 {
			uid := "p" + strconv.Itoa(k)
			assert.Equal(t, 7, exitCode(t, w.done(k, uid)))
			assert.Equal(t, "ready\nbye\n", w.log(k, uid, "main", 0, "stdout"))
		}
	})

	t.Run("an agent that dies ends the gang", func(t *testing.T) {
		w := newSlurmWorld(t, c, [][]int{{0}, {1}})
		job := w.submit(translate.TaskGroup{Tasks: 2, Resources: translate.Resources{CPUs: 5, MemoryMiB: 512}})
		w.publishNames()
		w.run(0, w.orders("p", "trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done"))
		w.waitLog(0, "p", "ready")
		w.run(1, w.orders("q", "echo $PPID; exec sleep 1000"))
		w.waitLog(1, "q", "stdout")
		agent := strings.TrimSpace(w.log(1, "q", "main", 0, "stdout"))
		_, err := c.Output(t.Context(), w.agentStatus(1).Node, "kill", "-KILL", agent)
		require.NoError(t, err)
		assert.Equal(t, "FAILED", w.ended(job).State)
		assert.Equal(t, 7, exitCode(t, w.done(0, "p")))
		assert.NotZero(t, w.result().ExitCode)
	})

	t.Run("a duplicate runs nothing, nor does a job that is started again", func(t *testing.T) {
		w := newSlurmWorld(t, c, [][]int{{0}})
		one := translate.TaskGroup{Tasks: 1, Resources: translate.Resources{CPUs: 1, MemoryMiB: 256}}
		first := w.submit(one)
		assert.Equal(t, first, w.agentStatus(0).JobID)
		second := w.submit(one)
		assert.Equal(t, "COMPLETED", w.ended(second).State)
		assert.Equal(t, first, w.agentStatus(0).JobID)

		instance := w.agentStatus(0).Instance
		_, err := c.Run(t.Context(), "scontrol", "update", "jobid="+first, "requeue=1")
		require.NoError(t, err)
		_, err = c.Run(t.Context(), "scontrol", "requeue", first)
		require.NoError(t, err)
		// Slurm lets some seconds pass before it starts a job again.
		require.Eventually(t, func() bool {
			data, _ := os.ReadFile(filepath.Join(string(w.dir), "job.log"))
			return strings.Contains(string(data), "must not be requeued")
		}, 60*time.Second, 100*time.Millisecond)
		assert.Equal(t, "FAILED", w.ended(first).State)
		assert.Equal(t, instance, w.agentStatus(0).Instance)
	})
}
