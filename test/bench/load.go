package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
)

const (
	// windows are how often calls, memory and CPU time are watched while nothing changes.
	windows = 3
	// A gang of the load has gangSize pods, or manySize where there are more than manyPods:
	// large gangs keep the number of bare Slurm's own processes small.
	gangSize, manySize, manyPods = 10, 100, 100
	// For the lag of their status at most mostEnds pods end, one each endsTenths tenths of a
	// second, or manyEndsTenths where there are more than manyPods: at each end an agent looks
	// for what is left among all processes, and here those are all nodes'.
	mostEnds                   = 200
	endsTenths, manyEndsTenths = 1, 5
)

// measureLoad reports what running pods cost: Slurm's RPCs, memory and CPU time of
// node and agents, and how long after a process's end the API server knows of it. It has
// a Slurm of its own, whose nodes take as many pods as it likes.
func (b *bench) measureLoad(ctx context.Context) (err error) {
	l := load{bench: *b}
	l.env, err = harness.Start(ctx, harness.Options{
		Root: b.root, Name: b.name + "-load", Dir: filepath.Join(b.dir, "load"), WorkloadManager: "slurm", Nodes: nodes,
		ControlPlane: b.env.ControlPlane, Progress: os.Stderr,
		Slurm: func(c *slurm.Config) { c.CPUs, c.MemoryMB = 512, 1<<20 },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.env.Stop(context.WithoutCancel(ctx))) }()
	ends := filepath.Join(l.env.Slurm.SharedDir(), "ends")
	if err := os.Mkdir(ends, 0o777); err != nil {
		return err
	}
	if err := os.Chmod(ends, 0o777); err != nil {
		return err
	}
	for _, pods := range slices.Compact([]int{0, 20, 100, max(100, b.most)}) {
		if pods > b.most {
			continue
		}
		if err := l.with(ctx, pods, ends); err != nil {
			return fmt.Errorf("with %d pods: %w", pods, err)
		}
	}
	return nil
}

type load struct {
	bench
	// idleRPCs are those a minute without a pod.
	idleRPCs []float64
}

// loadManifest is a JobSet whose pods end one after the other from a given moment on, and
// write down when they do; those after a given number go on.
const loadManifest = `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: load-%[1]d, labels: {load: ""}}
spec:
  replicatedJobs:
  - name: worker
    template:
      spec:
        parallelism: %[2]d
        completions: %[2]d
        template:
          metadata: {labels: {load: ""}}
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 1
            nodeSelector: {kubernetes.io/hostname: %[6]s}
            tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
            containers:
            - name: worker
              image: host
              command: [sh, -c, 'until [ -e %[3]s/go ]; do sleep 5; done; n=$((%[4]d + JOB_COMPLETION_INDEX)); [ $n -lt %[7]d ] || exec sleep 3600; n=$((n * %[5]d)); sleep $((n/10)).$((n%%10)); date +%%s%%N > %[3]s/$HOSTNAME']
              resources: {requests: {cpu: "1", memory: 16Mi}}
`

// with runs so many pods, watches them, and lets them end.
func (l *load) with(ctx context.Context, pods int, ends string) (err error) {
	size, tenths := gangSize, endsTenths
	if pods > manyPods {
		size, tenths = manySize, manyEndsTenths
	}
	defer func() {
		ctx := context.WithoutCancel(ctx)
		_, gone := l.env.Kubectl(ctx, "", "delete", "jobset", "--selector=load", "--wait=true")
		err = errors.Join(err, gone, pollFor(ctx, 5*time.Minute, time.Second, func() (bool, error) {
			list, err := l.pods.List(ctx, metav1.ListOptions{LabelSelector: "load"})
			return err == nil && len(list.Items) == 0, err
		}), os.RemoveAll(filepath.Join(ends, "go")))
	}()
	for first := 0; first < pods; first += size {
		manifest := fmt.Sprintf(loadManifest, first/size, min(size, pods-first), ends, first, tenths, l.env.Name, mostEnds)
		if _, err := l.env.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	if err := l.allRun(ctx, pods); err != nil {
		return err
	}
	costs, err := l.watch(ctx, pods > 0)
	if err != nil {
		return err
	}
	title := "load, 0 running pods"
	if pods > 0 {
		title = fmt.Sprintf("load, %d running pods in gangs of %d", pods, size)
	}
	figures := loadFigures(pods, costs, l.idleRPCs)
	if pods == 0 {
		l.idleRPCs = figures[0].Ours
	}
	l.report.add(title, figures...)
	if pods == 0 {
		return nil
	}
	return l.end(ctx, title, pods, ends)
}

func (l *load) allRun(ctx context.Context, pods int) error {
	return pollFor(ctx, 15*time.Minute, time.Second, func() (bool, error) {
		list, err := l.pods.List(ctx, metav1.ListOptions{LabelSelector: "load"})
		if err != nil {
			return false, err
		}
		running := 0
		for _, p := range list.Items {
			switch p.Status.Phase {
			case corev1.PodRunning:
				running++
			case corev1.PodFailed:
				return false, fmt.Errorf("pod %s failed: %s %s", p.Name, p.Status.Reason, p.Status.Message)
			}
		}
		return running == pods, nil
	})
}

// cost is what was used in a window.
type cost struct {
	rpcs              float64 // a minute
	nodeRSS, agentRSS float64 // MiB; an agent's is the largest
	nodeOwn           float64 // MiB of the node's that are no file's: the kernel maps more or less of the program
	agentOwn          float64 // MiB of an agent's that it shares with nobody, the largest
	nodeCPU, agentCPU float64 // percent of a CPU; an agent's is the mean
	writes            float64 // to pods, a minute
	agents            int
}

// sameRPCs is by how much their number may seem to grow with the pods, since a window
// may hold one query more.
const sameRPCs = 1.05

// loadFigures are those of some windows; idle are the RPCs a minute without a pod.
func loadFigures(pods int, costs []cost, idle []float64) []figure {
	of := func(what, unit string, goal *goal, value func(cost) float64) figure {
		f := figure{What: what, Unit: unit, Goal: goal}
		for _, c := range costs {
			f.Ours = append(f.Ours, value(c))
		}
		return f
	}
	const mb = 1.048576 // of a MiB
	var few, small *goal
	if pods > 0 && len(idle) > 0 {
		few = atMost(sameRPCs * median(idle))
	}
	if pods == 100 {
		small = atMost(80)
	}
	figures := []figure{
		of("RPCs to slurmctld a minute (sdiag)", "RPCs", few, func(c cost) float64 { return c.rpcs }),
		of("writes of pods to the API server a minute", "writes", atMost(0), func(c cost) float64 { return c.writes }),
		of("memory of gangline-node (RSS)", "MiB", small, func(c cost) float64 { return c.nodeRSS }),
		of("  of which is not its program's file", "MiB", nil, func(c cost) float64 { return c.nodeOwn }),
		of("CPU of gangline-node", "% of a core", nil, func(c cost) float64 { return c.nodeCPU }),
	}
	if pods == 0 {
		return figures
	}
	return append(figures,
		of("memory of the largest agent (RSS)", "MB", atMost(25), func(c cost) float64 { return c.agentRSS * mb }),
		of("  of which it shares with no other process", "MB", nil, func(c cost) float64 { return c.agentOwn * mb }),
		of("CPU of an agent, the mean", "% of a core", nil, func(c cost) float64 { return c.agentCPU }))
}

// watch takes what is used in each of some windows.
func (l *load) watch(ctx context.Context, agents bool) (costs []cost, err error) {
	if err := pause(ctx, l.settle); err != nil {
		return nil, err
	}
	before, err := l.take(ctx)
	if err != nil {
		return nil, err
	}
	for range windows {
		if err := pause(ctx, l.window); err != nil {
			return nil, err
		}
		after, err := l.take(ctx)
		if err != nil {
			return nil, err
		}
		c, err := between(before, after, l.env.Node.PID(), agents)
		if err != nil {
			return nil, err
		}
		costs, before = append(costs, c), after
	}
	return costs, nil
}

// between is what was used from one moment to the next by the node's process and, if there
// are to be some, by agents.
func between(before, after moment, node int, agents bool) (c cost, err error) {
	first, was := before.processes[node]
	last, is := after.processes[node]
	if !was || !is {
		return c, fmt.Errorf("the process %d of gangline-node is not there: nothing can be said of what it uses", node)
	}
	minutes := after.at.Sub(before.at).Minutes()
	percent := func(spent time.Duration) float64 { return spent.Seconds() / minutes / 60 * 100 }
	c.rpcs = (after.rpcs - before.rpcs - 1) / minutes
	c.writes = (after.writes - before.writes) / minutes
	c.nodeRSS, c.nodeOwn, c.nodeCPU = last.rss, last.anonymous, percent(last.cpu-first.cpu)
	var spent time.Duration
	for pid, p := range after.processes {
		if first, ok := before.processes[pid]; ok && p.name == "gangline-agent" {
			c.agents++
			c.agentRSS, c.agentOwn = max(c.agentRSS, p.rss), max(c.agentOwn, p.own)
			spent += p.cpu - first.cpu
		}
	}
	if agents && c.agents == 0 {
		return c, errors.New("no agent runs: nothing can be said of what one uses")
	}
	if c.agents > 0 {
		c.agentCPU = percent(spent) / float64(c.agents)
	}
	return c, nil
}

// moment is what counters said at one time.
type moment struct {
	at           time.Time
	rpcs, writes float64
	processes    map[int]usage
}

func (l *load) take(ctx context.Context) (moment, error) {
	text, err := l.env.Slurm.Run(ctx, "sdiag")
	if err != nil {
		return moment{}, err
	}
	m := moment{at: time.Now()}
	if m.rpcs, err = rpcsOf(text, l.env.Slurm.User()); err != nil {
		return m, err
	}
	writes, err := l.apiWrites(ctx)
	if err != nil {
		return m, err
	}
	m.writes = writes["pods"] + writes["pods/status"]
	m.processes, err = processes(l.dir, l.env.Slurm.SharedDir())
	return m, err
}

// userRPCs is a line of sdiag's RPC statistics by user.
var userRPCs = regexp.MustCompile(`(?m)^\s+(\S+)\s+\(\s*\d+\)\s+count:(\d+)`)

// rpcsOf is how many RPCs of a user's slurmctld has counted, that of sdiag itself among
// them.
func rpcsOf(sdiag, user string) (float64, error) {
	for _, match := range userRPCs.FindAllStringSubmatch(sdiag, -1) {
		if match[1] == user {
			return strconv.ParseFloat(match[2], 64)
		}
	}
	return 0, fmt.Errorf("sdiag tells of no RPC of %s", user)
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
