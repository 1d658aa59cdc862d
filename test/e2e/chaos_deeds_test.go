package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/test/checker"
	"github.com/gangline/gangline/test/slurm"
)

// doer carries out an order. It fills in what it was done to.
type doer func(s *storm, ctx context.Context, o order, d *checker.Deed) error

// errNobody says that there was nothing to do it to.
var errNobody = errors.New("there is none")

// deeds are all that a storm does, by their kind.
func deeds() map[string]doer {
	return map[string]doer{
		"createJob":       (*storm).createJob,
		"createJobSet":    (*storm).createJobSet,
		"deleteOwner":     (*storm).deleteOwner,
		"deletePod":       (*storm).deletePod,
		"deleteNamespace": (*storm).deleteNamespace,
		"deleteNode":      (*storm).deleteNode,

		"killNode":   (*storm).killNode,
		"freezeNode": (*storm).freezeNode,
		"sparedNode": (*storm).spareNode,

		checker.KillAgent: (*storm).killAgent,
		checker.CancelJob: (*storm).cancelJob,

		"stopSlurmctld":       (*storm).stopSlurmctld,
		checker.KillSlurmctld: (*storm).stopSlurmctld,
		"killSlurmd":          (*storm).killSlurmd,
		checker.CrashNode:     (*storm).crashNode,

		"killAPI":    component("kube-apiserver", syscall.SIGKILL),
		"killEtcd":   component("etcd", syscall.SIGKILL),
		"freezeAPI":  component("kube-apiserver", syscall.SIGSTOP),
		"freezeEtcd": component("etcd", syscall.SIGSTOP),

		"fillSpool":   (*storm).fillSpool,
		"freezeSpool": (*storm).freezeSpool,
		"cutWire":     (*storm).cutWire,
		"killGateway": (*storm).killGateway,
	}
}

// last is how long what an order has begun goes on.
func last(o order) { time.Sleep(o.For) }

// dice are an order's own.
func (s *storm) dice(o order) *rand.Rand { return rand.New(rand.NewPCG(s.seed, o.Pick)) }

func (s *storm) createJob(ctx context.Context, o order, d *checker.Deed) error {
	r := s.dice(o)
	job := s.makeJob("job-"+s.nextName(), "", resources(fmt.Sprint(1+r.IntN(4)), fmt.Sprint(r.IntN(2))))
	s.randomProgram(&job.Spec, r)
	return s.createFor(ctx, job, o, d)
}

// createJobSet makes workers that end by themselves, or ones that serve until the launcher,
// which comes when they are Ready, has done its work.
func (s *storm) createJobSet(ctx context.Context, o order, d *checker.Deed) error {
	r := s.dice(o)
	workers := s.replicated("worker", "", 2+r.Int32N(2), resources(fmt.Sprint(1+r.IntN(3)), fmt.Sprint(r.IntN(2))))
	s.randomProgram(&workers.Template.Spec, r)
	set := makeJobSet("set-"+s.nextName(), workers)
	set.Spec.FailurePolicy = &jobset.FailurePolicy{MaxRestarts: r.Int32N(3)}
	if r.IntN(2) == 0 {
		s.program(&workers.Template.Spec, "sleep 600", 0, -1) // for ever
		launcher := s.replicated("launcher", "", 1, resources([]string{"500m", "1"}[r.IntN(2)], "0"))
		launcher.DependsOn = []jobset.DependsOn{{Name: "worker", Status: jobset.DependencyReady}}
		s.randomProgram(&launcher.Template.Spec, r)
		set.Spec.ReplicatedJobs = append(set.Spec.ReplicatedJobs, launcher)
		set.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	}
	return s.createFor(ctx, set, o, d)
}

func (s *storm) createFor(ctx context.Context, object client.Object, o order, d *checker.Deed) error {
	object.SetNamespace(s.currentNamespace(o.Pick >> 32))
	d.Target = object.GetNamespace() + "/" + object.GetName()
	return s.client.Create(ctx, object)
}

// randomProgram lives for up to four seconds, fails with 3 once in four times, and once in
// four catches SIGTERM.
func (s *storm) randomProgram(spec *batchv1.JobSpec, r *rand.Rand) {
	s.program(spec, fmt.Sprintf("sleep %.1f", 4*r.Float64()), []int{0, 0, 0, 3}[r.IntN(4)], []int{-1, -1, -1, 9}[r.IntN(4)])
}

func (s *storm) program(spec *batchv1.JobSpec, body string, code, onTerm int) {
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	c := &spec.Template.Spec.Containers[0]
	script := strings.ReplaceAll(checker.Script(s.notes, body, code, onTerm), "$", "$$") // Kubernetes makes $ of $$
	c.Command = []string{"sh", "-c", script}
	c.Env = []corev1.EnvVar{
		{Name: checker.UIDVariable, ValueFrom: field("metadata.uid")}, {Name: checker.NamespaceVariable, ValueFrom: field("metadata.namespace")},
	}
}

// deleteOwner deletes one of the newest owners: it may be queued, starting or running.
func (s *storm) deleteOwner(ctx context.Context, o order, d *checker.Deed) error {
	owners, err := s.ownersThere(ctx)
	if err != nil {
		return err
	}
	var open []client.Object
	for _, owner := range owners {
		if !finished(owner) && owner.GetDeletionTimestamp() == nil {
			open = append(open, owner)
		}
	}
	owner, ok := pick(open, client.Object.GetName, o)
	if !ok {
		return errNobody
	}
	d.Target = owner.GetNamespace() + "/" + owner.GetName()
	return s.client.Delete(ctx, owner, []client.PropagationPolicy{"Background", "Foreground"}[o.Pick>>16&1])
}

// deletePod deletes one that is not terminal yet: now and then at once.
func (s *storm) deletePod(ctx context.Context, o order, d *checker.Deed) error {
	pods, err := s.podsThere(ctx)
	if err != nil {
		return err
	}
	var open []corev1.Pod
	for _, p := range pods {
		if !ended(p) && p.DeletionTimestamp == nil {
			open = append(open, p)
		}
	}
	pod, ok := pick(open, func(p corev1.Pod) string { return p.Namespace + "/" + p.Name }, o)
	if !ok {
		return errNobody
	}
	grace := client.GracePeriodSeconds([]int64{0, 1, 5}[o.Pick>>16%3])
	d.Target, d.Pod = fmt.Sprintf("%s/%s grace %d", pod.Namespace, pod.Name, grace), string(pod.UID)
	return s.client.Delete(ctx, &pod, grace)
}

// deleteNamespace deletes one with all that is in it, and opens another.
func (s *storm) deleteNamespace(ctx context.Context, o order, d *checker.Deed) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.replaceNamespace(o.Pick)}}
	d.Target = ns.Name
	return errors.Join(s.createNamespace(ctx), s.client.Delete(ctx, ns))
}

func (s *storm) deleteNode(ctx context.Context, _ order, d *checker.Deed) error {
	d.Target = s.env.Name
	return s.client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.env.Name}})
}

// killNode ends gangline-node as a crash would, and starts it again a while later.
func (s *storm) killNode(_ context.Context, o order, _ *checker.Deed) error {
	err := s.env.Node.Kill()
	last(o)
	return errors.Join(err, s.launchNode())
}

func (s *storm) freezeNode(_ context.Context, o order, _ *checker.Deed) error {
	err := s.env.Node.Freeze()
	last(o)
	return errors.Join(err, s.env.Node.Thaw())
}

// spareNode lets it live for a while.
func (s *storm) spareNode(_ context.Context, o order, _ *checker.Deed) error { last(o); return nil }

// killAgent kills a process of the agent's in some job: a slot's, a launcher, or the one
// that stands before a pod's own.
func (s *storm) killAgent(_ context.Context, o order, d *checker.Deed) error {
	return killOne(s.agentProcesses(), o, d)
}

// killGateway kills the process on the login node by which a node that is far away does
// everything, in the midst of whatever it does.
func (s *storm) killGateway(_ context.Context, o order, d *checker.Deed) error {
	return killOne(s.gateways(), o, d)
}

func killOne(processes []agentProcess, o order, d *checker.Deed) error {
	p, ok := pick(processes, func(p agentProcess) string { return p.allocation + " " + p.pid }, o)
	if !ok {
		return errNobody
	}
	d.Target, d.Allocation = "process "+p.pid, p.allocation
	pid, err := strconv.Atoi(p.pid)
	if err != nil {
		return err
	}
	return syscall.Kill(pid, syscall.SIGKILL)
}

type agentProcess struct{ pid, allocation, exe, command string }

// agentProcesses are those of the jobs' agents on the machine.
func (s *storm) agentProcesses() []agentProcess {
	return slices.DeleteFunc(s.programs(), func(p agentProcess) bool { return p.allocation == "" })
}

// gateways are the processes that serve the node on the login node.
func (s *storm) gateways() []agentProcess {
	return slices.DeleteFunc(s.programs(), func(p agentProcess) bool {
		return p.allocation != "" || !slices.Contains(strings.Fields(p.command), "gateway")
	})
}

// programs are the machine's processes whose program is on the site's filesystem.
func (s *storm) programs() (found []agentProcess) {
	dirs, _ := filepath.Glob("/proc/[0-9]*") // only a bad pattern is an error
	for _, dir := range dirs {
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		if !strings.HasPrefix(exe, s.env.Slurm.SharedDir()+"/") {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		p := agentProcess{pid: filepath.Base(dir), exe: exe, command: string(bytes.ReplaceAll(command, []byte{0}, []byte{' '}))}
		for entry := range bytes.SplitSeq(environ, []byte{0}) {
			if name, is := bytes.CutPrefix(entry, []byte("SLURM_JOB_NAME=")); is {
				p.allocation = string(name)
			}
		}
		found = append(found, p)
	}
	return found
}

// cancelJob cancels a job, as an administrator may.
func (s *storm) cancelJob(ctx context.Context, o order, d *checker.Deed) error {
	jobs, err := s.env.Slurm.Squeue(ctx)
	if err != nil {
		return err
	}
	var open []slurm.Job
	for _, j := range jobs {
		if active[j.State] {
			open = append(open, j)
		}
	}
	job, ok := pick(open, func(j slurm.Job) string { return j.Name + " " + j.ID }, o)
	if !ok {
		return errNobody
	}
	d.Target, d.Allocation = "job "+job.ID, job.Name
	_, err = s.env.Slurm.Output(ctx, slurm.Head, "scancel", job.ID)
	return err
}

// stopSlurmctld ends slurmctld, kindly or not, and starts it again a while later.
func (s *storm) stopSlurmctld(ctx context.Context, o order, _ *checker.Deed) error {
	stop := s.env.Slurm.StopController
	if o.Kind == checker.KillSlurmctld {
		stop = s.env.Slurm.KillController
	}
	err := stop(ctx)
	last(o)
	return errors.Join(err, s.env.Slurm.StartController(ctx))
}

func (s *storm) killSlurmd(ctx context.Context, o order, d *checker.Deed) error {
	d.Target, _ = pick(s.env.Slurm.Nodes(), strings.Clone, o)
	return s.env.Slurm.RestartDaemon(ctx, d.Target)
}

// crashNode cuts a node's power, and switches it on again a while later.
func (s *storm) crashNode(ctx context.Context, o order, d *checker.Deed) error {
	d.Node, _ = pick(s.env.Slurm.Nodes(), strings.Clone, o)
	d.Target = d.Node
	err := s.env.Slurm.Crash(ctx, d.Node)
	last(o)
	return errors.Join(err, s.env.Slurm.Restart(ctx, d.Node))
}

// component sends a signal to one of the control plane's. One that is frozen goes on after
// a while, one that is killed is started again by its supervisor.
func component(name string, signal syscall.Signal) doer {
	return func(s *storm, _ context.Context, o order, _ *checker.Deed) error {
		if err := s.env.ControlPlane.Signal(name, signal); err != nil || signal != syscall.SIGSTOP {
			return err
		}
		last(o)
		return s.env.ControlPlane.Signal(name, syscall.SIGCONT)
	}
}

// fillSpool takes all of the spool's space for a while.
func (s *storm) fillSpool(_ context.Context, o order, _ *checker.Deed) error {
	ballast := filepath.Join(s.spool, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		return err
	}
	chunk := make([]byte, 64<<10)
	for end := time.Now().Add(o.For); time.Now().Before(end); {
		if _, err = f.Write(chunk); err != nil { // what others free is taken as well
			time.Sleep(20 * time.Millisecond)
		}
	}
	if errors.Is(err, syscall.ENOSPC) {
		err = nil
	}
	return errors.Join(err, f.Close(), os.Remove(ballast))
}

// freezeSpool has all that write to the spool wait for a while.
func (s *storm) freezeSpool(_ context.Context, o order, _ *checker.Deed) error {
	if err := s.blocks.freeze(); err != nil {
		return err
	}
	last(o)
	return s.blocks.thaw()
}

func (s *storm) cutWire(_ context.Context, o order, _ *checker.Deed) error {
	s.env.Login.Wire.Cut()
	last(o)
	s.env.Login.Wire.Mend()
	return nil
}
