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
	// window is how long calls, memory and CPU time are watched while nothing changes.
	window = time.Minute
	// gangSize is how many pods a gang of the load has.
	gangSize = 10
	// endsPerSecond is how many pods end in a second, for the lag of their status.
	endsPerSecond = 10
)

// measureLoad reports what running pods cost: Slurm's RPCs, memory and CPU time of
// node and agents, and how long after a process's end the API server knows of it. It has
// a Slurm of its own, whose nodes take as many pods as it likes.
func (b *bench) measureLoad(ctx context.Context) (err error) {
	l := load{bench: *b}
	l.env, err = harness.Start(ctx, harness.Options{
		Root: b.root, Name: "load", Dir: filepath.Join(benchDir, "load"), WorkloadManager: "slurm", Nodes: nodes,
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

type load struct{ bench }

// loadManifest is a JobSet whose pods end one after the other from a given second on, and
// write down when they do.
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
            nodeSelector: {kubernetes.io/hostname: load}
            tolerations: [{key: virtual-kubelet.io/provider, operator: Exists}]
            containers:
            - name: worker
              image: host
              command: [sh, -c, 'until [ -e %[3]s/go ]; do sleep 5; done; n=$((%[4]d + JOB_COMPLETION_INDEX)); sleep $((n/%[5]d)).$((n%%%[5]d)); date +%%s%%N > %[3]s/$HOSTNAME']
              resources: {requests: {cpu: "1", memory: 16Mi}}
`

// with runs so many pods, watches them, and lets them end.
func (l *load) with(ctx context.Context, pods int, ends string) (err error) {
	// Large gangs keep the number of bare Slurm's own processes small.
	size := gangSize
	if pods > 100 {
		size = 100
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
		manifest := fmt.Sprintf(loadManifest, first/size, min(size, pods-first), ends, first, endsPerSecond)
		if _, err := l.env.Kubectl(ctx, manifest, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	if err := l.allRun(ctx, pods); err != nil {
		return err
	}
	cost, err := l.watch(ctx)
	if err != nil {
		return err
	}
	l.report.add(fmt.Sprintf("load, %d running pods", pods), cost.figures(pods)...)
	if pods == 0 {
		return nil
	}
	return l.end(ctx, pods, ends)
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
	agentOwn          float64 // MiB of an agent's that it shares with nobody, the largest
	nodeCPU, agentCPU float64 // percent of a CPU; an agent's is the mean
	writes            float64 // to pods, a minute
	agents            int
}

func (c cost) figures(pods int) []figure {
	figures := []figure{
		{What: "RPCs to slurmctld a minute (sdiag)", Unit: "RPCs", Ours: []float64{c.rpcs}},
		{What: "writes of pods to the API server a minute", Unit: "writes", Ours: []float64{c.writes}},
		{What: "memory of gangline-node (RSS)", Unit: "MiB", Ours: []float64{c.nodeRSS}},
		{What: "CPU of gangline-node", Unit: "% of a core", Ours: []float64{c.nodeCPU}},
	}
	if pods == 100 {
		figures[2].Goal = atMost(80)
	}
	if c.agents == 0 {
		return figures
	}
	return append(figures,
		figure{What: "memory of the largest agent (RSS)", Unit: "MB", Ours: []float64{c.agentRSS * 1.048576}, Goal: atMost(25)},
		figure{What: "  of which it shares with no other process", Unit: "MB", Ours: []float64{c.agentOwn * 1.048576}},
		figure{What: "CPU of an agent, the mean", Unit: "% of a core", Ours: []float64{c.agentCPU}})
}

func (l *load) watch(ctx context.Context) (c cost, err error) {
	if err := pause(ctx, 15*time.Second); err != nil { // what follows a start is no steady state
		return c, err
	}
	before, err := l.take(ctx)
	if err != nil {
		return c, err
	}
	if err := pause(ctx, window); err != nil {
		return c, err
	}
	after, err := l.take(ctx)
	if err != nil {
		return c, err
	}
	minutes := after.at.Sub(before.at).Minutes()
	c.rpcs = (after.rpcs - before.rpcs - 1) / minutes
	c.writes = (after.writes - before.writes) / minutes
	node := l.env.Node.PID()
	c.nodeRSS = after.processes[node].rss
	c.nodeCPU = (after.processes[node].cpu - before.processes[node].cpu).Seconds() / minutes / 60 * 100
	var spent time.Duration
	for pid, p := range after.processes {
		if first, ok := before.processes[pid]; ok && p.name == "gangline-agent" {
			c.agents++
			c.agentRSS, c.agentOwn = max(c.agentRSS, p.rss), max(c.agentOwn, p.own)
			spent += p.cpu - first.cpu
		}
	}
	if c.agents > 0 {
		c.agentCPU = spent.Seconds() / float64(c.agents) / minutes / 60 * 100
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
	m.processes, err = processes()
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

// end lets the pods end, some each second, and reports when the API server knew.
func (l *load) end(ctx context.Context, pods int, ends string) error {
	w, err := l.watchPods(ctx, "load")
	if err != nil {
		return fmt.Errorf("watching the pods: %w", err)
	}
	defer w.Stop()
	if err := os.WriteFile(filepath.Join(ends, "go"), nil, 0o644); err != nil {
		return err
	}
	known := map[string]time.Time{}
	err = await(ctx, w, pods, func(p *corev1.Pod) (bool, error) {
		if p.Status.Phase != corev1.PodSucceeded {
			return false, nil
		}
		if _, ok := known[p.Spec.Hostname]; !ok {
			known[p.Spec.Hostname] = time.Now()
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods to end: %w", err)
	}
	var lags []float64
	for host, at := range known {
		path := filepath.Join(ends, host)
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		ns, err := strconv.ParseInt(string(text[:len(text)-1]), 10, 64)
		if err != nil {
			return fmt.Errorf("reading when %s ended: %w", host, err)
		}
		lags = append(lags, at.Sub(time.Unix(0, ns)).Seconds())
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	last := figure{What: "a process's end is in its pod's status after, 99 %", Unit: "s", Ours: []float64{quantile(lags, 0.99)}}
	if pods >= 1000 {
		last.Goal = atMost(2)
	}
	l.report.add(fmt.Sprintf("load, %d running pods", pods), figure{What: "a process's end is in its pod's status after, median", Unit: "s", Ours: []float64{median(lags)}}, last)
	return nil
}
