//go:build chaos

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/slurm"
	"github.com/gangline/gangline/translate/wellknown"
)

// These variables choose how long the storm lasts (a Go duration) and which one
// it is: the same seed makes the same decisions, if not at the same moments.
const envChaosDuration, envChaosSeed = "GANGLINE_CHAOS_DURATION", "GANGLINE_CHAOS_SEED"

// TestChaos lets users and saboteurs loose on one virtual node at once. What
// must hold then is that all ends, nothing runs twice, and nothing is left.
func TestChaos(t *testing.T) {
	t.Parallel()
	duration, err := time.ParseDuration(cmp.Or(os.Getenv(envChaosDuration), "60s"))
	require.NoError(t, err)
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv(envChaosSeed), strconv.Itoa(rand.IntN(1_000_000))), 10, 64)
	require.NoError(t, err)
	t.Logf("this storm again: %s=%d %s=%s", envChaosSeed, seed, envChaosDuration, duration)
	s := &storm{
		world: newWorld(t, environment(t, "chaos", "slurm", 3, nil)), seed: seed,
		cancelled: map[string]bool{}, seen: map[string]bool{},
	}
	s.starts = filepath.Join(s.env.Slurm.SharedDir(), "starts-"+s.namespace)
	s.ends = filepath.Join(s.env.Slurm.SharedDir(), "ends-"+s.namespace)
	stop := s.watch()
	s.rage(duration)
	s.everythingEnds()
	s.exitCodesAreTrue()
	s.nothingIsLeft()
	stop()
	s.nothingRanTwice()
	s.nodeKeptItsHead()
}

// storm is what is going on, and what was noted of it.
type storm struct {
	*world
	seed uint64
	// starts and ends are files in the shared directory: "<pod uid> <pid>" of each
	// process that began, and "<pod uid> <code>" of each that came to its end.
	starts, ends string
	made         int
	owners       []client.Object // the Jobs and JobSets that nobody deleted

	cancelled map[string]bool // the allocations whose job a saboteur has cancelled
	seen      map[string]bool // each job that was seen, by name and id, and whether it ended
	sightings int             // how often processes of agents and pods were seen
}

// note tells of a deed.
func (s *storm) note(deed, format string, args ...any) {
	s.Logf("%s %s "+format, append([]any{time.Now().Format("15:04:05.000"), deed}, args...)...)
}

// dice are one goroutine's.
func (s *storm) dice(n int) *rand.Rand { return rand.New(rand.NewPCG(s.seed, uint64(n))) }

// watch looks on until stop is called.
func (s *storm) watch() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var watchers sync.WaitGroup
	watchers.Go(func() { s.watchJobs(ctx) })
	watchers.Go(func() { s.resumeNodes(ctx) })
	stop = func() { cancel(); watchers.Wait() }
	s.Cleanup(stop)
	return stop
}

// rage lets all loose at once, and waits until the last has gone home.
func (s *storm) rage(duration time.Duration) {
	ctx, cancel := context.WithTimeout(s.Context(), duration)
	defer cancel()
	var saboteurs sync.WaitGroup
	for i, deed := range []func(context.Context, *rand.Rand){s.killNode, s.breakSlurm, s.cancelJobs} {
		saboteurs.Go(func() { deed(ctx, s.dice(i)) })
	}
	s.users(ctx, s.dice(3))
	saboteurs.Wait()
	_ = s.env.Node.Kill() // it may have given up while Slurm was silent
	s.startNode()
}

// pause lasts a random time within the bounds, and tells whether the storm goes on.
func pause(ctx context.Context, r *rand.Rand, least, most time.Duration) bool {
	select {
	case <-time.After(least + time.Duration(r.Int64N(int64(most-least)))):
		return true
	case <-ctx.Done():
		return false
	}
}

// users create work, and change their minds about some of it.
func (s *storm) users(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 300*time.Millisecond, 1700*time.Millisecond) {
		switch n := r.IntN(10); {
		case n < 3 && len(s.owners) > 0:
			s.deleteOwner(r)
		case n == 3:
			s.deletePod(r)
		default:
			s.made++
			o := []func(string, *rand.Rand) client.Object{s.randomJob, s.randomJobSet}[r.IntN(2)](strconv.Itoa(s.made), r)
			s.create(o)
			s.owners = append(s.owners, o)
			s.note("created", "%s %s", o.GetName(), o.GetUID())
		}
	}
}

func (s *storm) randomJob(name string, r *rand.Rand) client.Object {
	job := s.makeJob("job-"+name, "", resources(strconv.Itoa(1+r.IntN(4)), strconv.Itoa(r.IntN(2))))
	s.program(&job.Spec, 4*r.Float64(), r)
	return job
}

// randomJobSet has workers that end by themselves, or ones that serve until the
// launcher, which comes when they are Ready, has done its work.
func (s *storm) randomJobSet(name string, r *rand.Rand) client.Object {
	workers := s.replicated("worker", "", 2+r.Int32N(2), resources(strconv.Itoa(1+r.IntN(3)), strconv.Itoa(r.IntN(2))))
	s.program(&workers.Template.Spec, 4*r.Float64(), r)
	set := makeJobSet("set-"+name, workers)
	set.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: r.Int32N(3)}
	if r.IntN(2) == 0 {
		s.program(&workers.Template.Spec, 600, r) // for ever
		launcher := s.replicated("launcher", "", 1, resources([]string{"500m", "1"}[r.IntN(2)], "0"))
		launcher.DependsOn = []jobset.DependsOn{{Name: "worker", Status: jobset.DependencyReady}}
		s.program(&launcher.Template.Spec, 4*r.Float64(), r)
		set.Spec.ReplicatedJobs = append(set.Spec.ReplicatedJobs, launcher)
		set.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	}
	return set
}

// program makes a pod's process write down that it begins and how it ends, which is
// with 3 for one in four.
func (s *storm) program(spec *batchv1.JobSpec, seconds float64, r *rand.Rand) {
	code := []int{0, 0, 0, 3}[r.IntN(4)]
	script := fmt.Sprintf(`echo "$CHAOS_UID $$" >> %s; sleep %.1f; echo "$CHAOS_UID %d" >> %s; exit %d`, s.starts, seconds, code, s.ends, code)
	uid := &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.uid"}}
	c := &spec.Template.Spec.Containers[0]
	c.Command, c.Env = []string{"sh", "-c", script}, []corev1.EnvVar{{Name: "CHAOS_UID", ValueFrom: uid}}
}

// deleteOwner deletes one of the last owners: it may be queued, starting or running.
func (s *storm) deleteOwner(r *rand.Rand) {
	i := len(s.owners) - 1 - r.IntN(min(8, len(s.owners)))
	err := s.client.Delete(s.Context(), s.owners[i], []client.PropagationPolicy{"Background", "Foreground"}[r.IntN(2)])
	s.note("deleted", "%s: %v", s.owners[i].GetName(), err)
	s.owners = slices.Delete(s.owners, i, i+1)
}

// deletePod deletes one that is not terminal yet: now and then at once.
func (s *storm) deletePod(r *rand.Rand) {
	pods := slices.DeleteFunc(s.allPods(), func(p corev1.Pod) bool { return ended(p) || p.DeletionTimestamp != nil })
	if len(pods) > 0 {
		pod, grace := pods[r.IntN(len(pods))], client.GracePeriodSeconds([]int64{0, 1, 5}[r.IntN(3)])
		s.note("deletedPod", "%s %s, grace %d s: %v", pod.Name, pod.UID, grace, s.client.Delete(s.Context(), &pod, grace))
	}
}

func (s *storm) allPods() []corev1.Pod {
	list := &corev1.PodList{}
	require.NoError(s, s.client.List(s.Context(), list, client.InNamespace(s.namespace)))
	return list.Items
}

func ended(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// killNode ends gangline-node as a crash would, again and again.
func (s *storm) killNode(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, time.Second, 8*time.Second) {
		s.note("killedNode", "%v", s.env.Node.Kill())
		pause(s.Context(), r, 0, 3*time.Second)
		s.startNode()
	}
}

func (s *storm) startNode() {
	if err := s.env.Node.Start(s.Context()); err != nil && !strings.Contains(err.Error(), slurmWasSilent) {
		s.Errorf("starting gangline-node: %v", err)
	}
}

// slurmWasSilent is why gangline-node may fail to start; an init system starts it again.
const slurmWasSilent = "asking the workload manager what it has"

// breakSlurm stops slurmctld for a while, kindly or not.
func (s *storm) breakSlurm(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 5*time.Second, 15*time.Second) {
		if r.IntN(3) == 0 {
			s.note("killSlurm", "%v", s.env.Slurm.KillController(s.Context()))
		} else {
			s.note("stopSlurm", "%v", s.env.Slurm.StopController(s.Context()))
		}
		pause(ctx, r, 0, 5*time.Second)
		assert.NoError(s, s.env.Slurm.StartController(s.Context()))
		s.note("startedSlurm", "")
	}
}

// resumeNodes does what an administrator would: a slurmctld that was killed starts
// jobs a second time that it has forgotten, and drains the nodes that refuse them.
func (s *storm) resumeNodes(ctx context.Context) {
	for r := s.dice(4); pause(ctx, r, time.Second, 3*time.Second); {
		nodes, _ := s.env.Slurm.NodeStates(ctx) // none while Slurm is silent
		for node, state := range nodes {
			if strings.HasPrefix(state, "drain") {
				_, _ = s.env.Slurm.Output(ctx, slurm.Head, "scontrol", "update", "nodename="+node, "state=resume") // or next time
			}
		}
	}
}

// cancelJobs cancels random jobs, as an administrator may.
func (s *storm) cancelJobs(ctx context.Context, r *rand.Rand) {
	for pause(ctx, r, 2*time.Second, 9*time.Second) {
		if jobs := s.activeJobs(); len(jobs) > 0 {
			job := jobs[r.IntN(len(jobs))]
			s.cancelled[job.Name] = true
			_, err := s.env.Slurm.Output(s.Context(), slurm.Head, "scancel", job.ID)
			s.note("cancelledJob", "%+v: %v", job, err)
		}
	}
}

// activeJobs are those that have not ended; none while Slurm is silent.
func (s *storm) activeJobs() []slurm.Job {
	jobs, _ := s.env.Slurm.Squeue(s.Context())
	return slices.DeleteFunc(jobs, func(j slurm.Job) bool { return !active[j.State] })
}

// watchJobs looks all the time at the machine's processes, and at Slurm's queue for
// gangs with more than one live job. A slurmctld that was killed forgets its last
// seconds: it may show a job again that has ended.
func (s *storm) watchJobs(ctx context.Context) {
	for r := s.dice(5); pause(ctx, r, 150*time.Millisecond, 250*time.Millisecond); {
		s.sightings += len(s.processes())
		jobs, _ := s.env.Slurm.Squeue(ctx) // nothing is learnt while Slurm is silent
		live := map[string]slurm.Job{}
		for _, j := range jobs {
			j.ID, _, _ = strings.Cut(j.ID, "+") // all components of a job are one
			id := j.Name + " " + j.ID
			if s.seen[id] = s.seen[id] || !active[j.State]; s.seen[id] {
				continue
			}
			gang := gangOf.FindString(j.Name)
			if other, has := live[gang]; has && other.ID != j.ID {
				s.Errorf("%s two live jobs of one gang: %+v and %+v", time.Now().Format("15:04:05.000"), other, j)
			}
			live[gang] = j
		}
	}
}

// gangOf finds the JobSet, or the Job's pod, in the name of an allocation.
var gangOf = regexp.MustCompile(`^(set-\d+|job-\d+-\w+)`)

// processes are those of agents and pods of this storm.
func (s *storm) processes() (found []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // only a bad pattern is an error
	for _, dir := range dirs {
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		env, _ := os.ReadFile(filepath.Join(dir, "environ")) // it may have ended by now
		if strings.HasPrefix(exe, s.env.Slurm.SharedDir()+"/") || bytes.Contains(env, []byte("CHAOS_UID=")) {
			found = append(found, dir+" "+exe)
		}
	}
	return found
}

// everythingEnds waits for all that nobody deleted.
func (s *storm) everythingEnds() {
	for _, o := range s.owners {
		s.eventually(o.GetName()+" has ended", func(ctx context.Context) (bool, string) {
			return s.client.Get(ctx, client.ObjectKeyFromObject(o), o) == nil && finished(o), fmt.Sprintf("%+v", o)
		})
	}
	waitNone(s, "pod that has not ended", func() []string {
		return show(slices.DeleteFunc(s.allPods(), func(p corev1.Pod) bool { return ended(p) && p.DeletionTimestamp == nil }))
	})
}

func finished(o client.Object) bool {
	if job, ok := o.(*batchv1.Job); ok {
		return job.Status.Succeeded+job.Status.Failed > 0
	}
	return o.(*jobset.JobSet).Status.TerminalState != ""
}

func show(pods []corev1.Pod) (seen []string) {
	for _, p := range pods {
		seen = append(seen, fmt.Sprintf("%s %s %v %v %q", p.Name, p.Status.Phase, p.DeletionTimestamp, p.Finalizers, p.Status.Message))
	}
	return seen
}

func waitNone[T any](s *storm, what string, left func() []T) {
	s.eventually("there is no "+what, func(context.Context) (bool, string) {
		seen := left()
		return len(seen) == 0, fmt.Sprintf("%+v", seen)
	})
}

// exitCodesAreTrue compares what the API says of each pod with what its process did.
func (s *storm) exitCodesAreTrue() {
	did := s.noted(s.ends)
	for _, p := range s.allPods() {
		status := p.Status.ContainerStatuses[0].State.Terminated
		code := cmp.Or(did[string(p.UID)], "none")
		about := fmt.Sprintf("%s %s, its process: %q, the API: %s %s %q %+v", p.Name, p.UID, code, p.Status.Phase, p.Status.Reason, p.Status.Message, status)
		require.NotNil(s, status, about)
		assert.Equal(s, status.ExitCode == 0, p.Status.Phase == corev1.PodSucceeded, about)
		lost := strings.HasPrefix(p.Status.Reason, "Allocation") || p.Status.Reason == wellknown.ReasonNodeFailure
		if status.ExitCode != 0 && (lost || s.cancelled[p.Annotations[wellknown.AnnotationAllocation]]) {
			s.note("excused", "%s", about)
			continue
		}
		assert.Equal(s, code, strconv.Itoa(int(status.ExitCode)), about)
	}
}

// noted reads what the processes wrote down: a pod's UID and a word in a line,
// and no second line for any pod.
func (s *storm) noted(path string) map[string]string {
	data, err := os.ReadFile(path)
	require.NoError(s, err)
	notes := map[string]string{}
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		require.Len(s, words, 2, line)
		assert.NotContains(s, notes, words[0], "a pod ran twice, say the %s: %s", filepath.Base(path), line)
		notes[words[0]] = words[1]
	}
	return notes
}

// nothingIsLeft deletes all that there is.
func (s *storm) nothingIsLeft() {
	for _, all := range []client.Object{&jobset.JobSet{}, &batchv1.Job{}} {
		require.NoError(s, s.client.DeleteAllOf(s.Context(), all, client.InNamespace(s.namespace), client.PropagationPolicy("Background")))
	}
	waitNone(s, "pod", func() []string { return show(s.allPods()) })
	waitNone(s, "Slurm job", s.activeJobs)
	waitNone(s, "process", s.processes)
	waitNone(s, "allocation in the spool", func() []string {
		left, _ := spool.Root(s.env.Node.Spool()).Allocations()
		return left
	})
}

// nothingRanTwice looks at what was noted while the storm raged.
func (s *storm) nothingRanTwice() {
	ran := s.noted(s.starts)
	assert.NotEmpty(s, ran)
	assert.NotZero(s, s.sightings, "agents and pods were seen among the machine's processes")
	log, err := os.ReadFile(s.env.Node.LogFile())
	require.NoError(s, err)
	allocations := map[string]string{}
	for job := range s.seen {
		pod, name := gangOf.FindString(job), strings.Fields(job)[0]
		void := strings.Contains(string(log), "allocation="+name+" outcome=Void") // Slurm forgot it in its queue
		if strings.HasPrefix(pod, "job-") && !void {
			assert.Equal(s, name, cmp.Or(allocations[pod], name), "a second allocation for one pod")
			allocations[pod] = name
		}
	}
}

// nodeKeptItsHead looks in gangline-node's log for panics and impossible statuses.
func (s *storm) nodeKeptItsHead() {
	log, err := os.ReadFile(s.env.Node.LogFile())
	require.NoError(s, err)
	disaster := regexp.MustCompile(`(?mi)^.*(\bpanic\b|DATA RACE|is invalid:|may not be empty).*|^(gangline-node|fatal error): .*`)
	assert.Empty(s, disaster.FindAllString(strings.ReplaceAll(string(log), "gangline-node: "+slurmWasSilent, ""), -1))
}
