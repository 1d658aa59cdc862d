package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/test/checker"
	"github.com/gangline/gangline/test/slurm"
)

// rage lets all lanes loose at once, and waits until the last has gone home. Where
// gangline-node is killed so many times, the others go on until that is done.
func (s *storm) rage(orders []order) {
	lanes := map[string][]order{}
	for _, o := range orders {
		lanes[o.Lane] = append(lanes[o.Lane], o)
	}
	var all sync.WaitGroup
	for name, own := range lanes {
		all.Go(func() {
			if name == "node" {
				s.driveNode(own)
				return
			}
			for _, o := range own {
				s.waitUntil(o.At)
				s.do(o)
			}
		})
	}
	all.Wait()
}

// driveNode kills gangline-node as ordered, and starts it again as an init system would,
// also when it has given up by itself.
func (s *storm) driveNode(orders []order) {
	for i, o := range orders {
		life := o.At
		if i > 0 {
			life -= orders[i-1].At
		}
		if o.Pick&1 == 1 {
			s.waitUp() // or on a slow machine it would mostly die before it has done anything
		}
		for due := time.After(life); ; {
			select {
			case <-due:
			case <-s.env.Node.Exited():
				s.note("node", "gaveUp", lastLine(s.env.Node.LogTail()))
				time.Sleep(200 * time.Millisecond)
				assert.NoError(s, s.launchNode())
				continue
			}
			break
		}
		s.do(o)
	}
}

// waitUp waits until gangline-node looks at gangs, or has ended, or takes too long for
// that.
func (s *storm) waitUp() {
	const within, every = 20 * time.Second, 50 * time.Millisecond
	for deadline := time.Now().Add(within); time.Now().Before(deadline); {
		select {
		case <-s.env.Node.Exited():
			return
		case <-time.After(every):
		}
		log, _ := os.ReadFile(s.env.Node.LogFile())
		if strings.Contains(string(log[min(s.logBefore, len(log)):]), "Starting workers") {
			return
		}
	}
}

// launchNode starts gangline-node.
func (s *storm) launchNode() error {
	if info, err := os.Stat(s.env.Node.LogFile()); err == nil {
		s.logBefore = int(info.Size())
	}
	return s.env.Node.Launch()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// waitUntil waits for a moment of the storm.
func (s *storm) waitUntil(at time.Duration) { <-time.After(time.Until(s.began.Add(at))) }

// do carries out one order, and has it recorded.
func (s *storm) do(o order) {
	d := checker.Deed{At: time.Now(), Kind: o.Kind}
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	err := deeds()[o.Kind](s, ctx, o, &d)
	d.Until = time.Now()
	if err != nil {
		d.Error = err.Error()
	}
	s.recorder.Did(d)
	s.note(o.Lane, o.Kind, fmt.Sprintf("%s %s for %s %s", d.Target, d.Allocation, d.Until.Sub(d.At).Round(time.Millisecond), d.Error))
}

// note tells of a deed in the storm's log.
func (s *storm) note(lane, deed, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := fmt.Sprintf("%s %7.3f %-7s %-15s %s", time.Now().Format("15:04:05.000"), time.Since(s.began).Seconds(), lane, deed, text)
	s.log = append(s.log, line)
	if s.journal != nil {
		_, _ = fmt.Fprintln(s.journal, line) // the same is in memory
	}
}

// mend makes whole what may still be broken.
func (s *storm) mend() {
	ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
	defer cancel()
	if s.env.Login != nil {
		s.env.Login.Wire.Mend()
	}
	if s.blocks != nil { // the control plane is the storm's own
		// Controllers that met with an API server that was away try again after ever longer
		// pauses, up to a quarter of an hour: nobody waits for that.
		assert.NoError(s, s.env.ControlPlane.Signal("jobset", syscall.SIGKILL))
		assert.NoError(s, s.env.ControlPlane.Signal("kube-controller-manager", syscall.SIGKILL))
	}
	assert.NoError(s, s.env.Slurm.StartController(ctx))
	status, err := s.env.Slurm.Status(ctx)
	require.NoError(s, err)
	for _, n := range status.Nodes {
		if n.PID == 0 {
			assert.NoError(s, s.env.Slurm.Restart(ctx, n.Name))
		}
	}
	select {
	case <-s.env.Node.Exited():
		assert.NoError(s, s.launchNode())
	default:
	}
	s.note("", "calm", "")
}

// administrate does what an administrator would: a slurmctld that was killed starts jobs a
// second time that it has forgotten, drains the nodes that refuse them, and holds the jobs.
func (s *storm) administrate(ctx context.Context) {
	for tick := time.NewTicker(2 * time.Second); ; {
		select {
		case <-ctx.Done():
			tick.Stop()
			return
		case <-tick.C:
		}
		nodes, _ := s.env.Slurm.NodeStates(ctx) // none while Slurm is silent
		for node, state := range nodes {
			if strings.HasPrefix(state, "drain") {
				_, _ = s.env.Slurm.Output(ctx, slurm.Head, "scontrol", "update", "nodename="+node, "state=resume") // or next time
			}
		}
		jobs, _ := s.env.Slurm.Squeue(ctx)
		for _, j := range jobs {
			if j.State == "PENDING" && strings.Contains(strings.ToLower(j.Reason), "held") {
				now := time.Now()
				_, err := s.env.Slurm.Output(ctx, slurm.Head, "scancel", j.ID)
				s.recorder.Did(checker.Deed{Kind: checker.CancelJob, At: now, Until: time.Now(), Allocation: j.Name, Target: "held job " + j.ID})
				s.note("admin", "cancelHeld", fmt.Sprintf("%+v %v", j, err))
			}
		}
	}
}

// everythingEnds waits for all that nobody deleted.
func (s *storm) everythingEnds() {
	s.waitCalm("owner or pod that has not ended", func(ctx context.Context) ([]string, error) {
		owners, err := s.ownersThere(ctx)
		if err != nil {
			return nil, err
		}
		var open []string
		for _, o := range owners {
			if o.GetDeletionTimestamp() != nil || !finished(o) {
				open = append(open, o.GetNamespace()+"/"+o.GetName())
			}
		}
		pods, err := s.podsThere(ctx)
		return append(open, show(slices.DeleteFunc(pods, func(p corev1.Pod) bool { return ended(p) && p.DeletionTimestamp == nil }))...), err
	})
}

// sweeper runs a last gang on all nodes: all works as before, and whatever killed agents
// have left there is cleared away by the next.
func (s *storm) sweeper() (wrong []string) {
	workers := s.replicated("worker", "", int32(len(s.env.Slurm.Nodes())), resources("8", "0"))
	s.program(&workers.Template.Spec, "sleep 0.5", 0, -1)
	set := makeJobSet("sweeper", workers)
	set.Namespace = s.currentNamespace(0)
	s.waitCalm("answer that takes the sweeper", func(ctx context.Context) ([]string, error) {
		return nil, client.IgnoreAlreadyExists(s.client.Create(ctx, set)) // JobSet's webhook may only just start
	})
	s.waitCalm("sweeper that has not completed", func(ctx context.Context) ([]string, error) {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return nil, err
		}
		if set.Status.TerminalState == "" {
			return []string{set.Name}, nil
		}
		return nil, nil
	})
	if set.Status.TerminalState != string(jobset.JobSetCompleted) {
		wrong = append(wrong, fmt.Sprintf("a gang after the storm ended as %s: %+v", set.Status.TerminalState, set.Status.Conditions))
	}
	return wrong
}

// clearOutlived deletes what outlived its namespace, of which nothing more can come: an API
// server that has just started serves no JobSets for a moment, and a namespace that is
// emptied in it leaves its JobSets behind, whose last allocations the node keeps for them.
func (s *storm) clearOutlived() {
	s.waitCalm("namespace that is being deleted", func(ctx context.Context) (open []string, err error) {
		list := &corev1.NamespaceList{}
		err = s.client.List(ctx, list)
		for _, n := range list.Items {
			if s.ours(n.Name) && n.DeletionTimestamp != nil {
				open = append(open, n.Name)
			}
		}
		return open, err
	})
	owners, err := s.ownersThere(s.Context())
	require.NoError(s, err)
	for _, o := range owners {
		if apierrors.IsNotFound(s.client.Get(s.Context(), client.ObjectKey{Name: o.GetNamespace()}, &corev1.Namespace{})) {
			s.Logf("%s/%s outlived its namespace", o.GetNamespace(), o.GetName())
			require.NoError(s, client.IgnoreNotFound(s.client.Delete(s.Context(), o)))
		}
	}
}

// clearAway deletes all namespaces of the storm.
func (s *storm) clearAway() {
	for _, name := range s.allNamespaces() {
		ns := &corev1.Namespace{}
		ns.Name = name
		require.NoError(s, client.IgnoreNotFound(s.client.Delete(s.Context(), ns)))
	}
	s.clearOutlived()
}

// leftovers waits until nothing is there any more, and tells what stays.
func (s *storm) leftovers() (left []string) {
	for what, look := range map[string]func(context.Context) ([]string, error){
		"pod":       func(ctx context.Context) ([]string, error) { pods, err := s.podsThere(ctx); return show(pods), err },
		"job":       func(ctx context.Context) ([]string, error) { return s.jobsThere(ctx) },
		"process":   func(context.Context) ([]string, error) { return s.processesThere(), nil },
		"spool":     func(context.Context) ([]string, error) { return listDir(filepath.Join(s.spool, "gangs")) },
		"namespace": s.namespacesThere,
		"mount":     func(context.Context) ([]string, error) { return s.newMounts(), nil },
		"directory": s.agentDirs,
	} {
		for _, l := range s.eventuallyNone(what, look) {
			left = append(left, what+" "+l)
		}
	}
	return left
}

// nodeKeptItsHead looks in gangline-node's log for panics and impossible statuses.
func (s *storm) nodeKeptItsHead() {
	log, err := os.ReadFile(s.env.Node.LogFile())
	require.NoError(s, err)
	assert.Empty(s, disasters(string(log)))
}

// disasters are the lines of a log that no storm excuses.
func disasters(log string) []string {
	disaster := regexp.MustCompile(`(?mi)^.*(\bpanic\b|DATA RACE|is invalid:|may not be empty).*|^fatal error: .*`)
	return slices.DeleteFunc(disaster.FindAllString(log, -1), func(line string) bool {
		// A pod was deleted between the look at it and its acceptance, and is not accepted.
		return strings.Contains(line, "no new finalizers can be added if the object is being deleted")
	})
}

// waitCalm waits for as long as the storm's patience lasts until there is none of something.
func (s *storm) waitCalm(what string, look func(context.Context) ([]string, error)) {
	if left := s.eventuallyNone(what, look); len(left) > 0 {
		s.Errorf("waited in vain for %s: %s", what, joinLines(left))
		s.Logf("the storm's log:\n%s", joinLines(s.log))
	}
}

// eventuallyNone waits until there is none of something, and returns what was there last.
func (s *storm) eventuallyNone(what string, look func(context.Context) ([]string, error)) (left []string) {
	ctx, cancel := context.WithTimeout(s.Context(), s.patience)
	defer cancel()
	began, told := time.Now(), time.Now()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		there, err := look(ctx)
		if err == nil && len(there) == 0 {
			tick.Stop()
			return nil
		}
		if left = there; err != nil {
			left = []string{fmt.Sprintf("%s: %v", what, err)}
		}
		if time.Since(told) > 15*time.Second {
			told = time.Now()
			s.Logf("%s: waiting for %s: %d, such as %s", time.Since(began).Round(time.Second), what, len(left), left[0])
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return left
		case <-tick.C:
		}
	}
}

func finished(o client.Object) bool {
	if job, ok := o.(*batchv1.Job); ok {
		return job.Status.Succeeded+job.Status.Failed > 0
	}
	return o.(*jobset.JobSet).Status.TerminalState != ""
}

func ended(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

func show(pods []corev1.Pod) (seen []string) {
	for _, p := range pods {
		seen = append(seen, fmt.Sprintf("%s %s %v %v %q", p.Name, p.Status.Phase, p.DeletionTimestamp, p.Finalizers, p.Status.Message))
	}
	return seen
}
