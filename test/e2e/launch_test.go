package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestLaunch starts ranks as users of Open MPI and MPICH do, by SSH and by srun.
func TestLaunch(t *testing.T) {
	t.Parallel()
	env := environment(t, "launch", "slurm", 4, nil)
	programs := compileRanks(t, env.Slurm.SharedDir())
	cases := map[string]func(*world){
		"a pod that has ended is missed, not passed over": missingPod,
		"a pod that is still to come is waited for":       latePod,
		"a launch mode that does not exist is refused":    badLaunchMode,
		"srun refuses what it cannot do":                  refusedOptions,
		"a wrong protocol is noticed":                     func(w *world) { wrongProtocol(w, programs) },
		"a wrong launcher is noticed":                     func(w *world) { wrongLauncher(w, programs) },
		"the runtime says which MPI is meant":             meantLauncher,
		"ssh and mpirun wait for pods' init containers":   unbegunPods,
		"the exit code and the end of ranks with srun":    func(w *world) { rankEnds(w, programs) },
		"a TrainJob's ranks by srun":                      func(w *world) { trainByLaunch(w, programs) },
		"pods of different resources are one world":       func(w *world) { mixedRanks(w, programs) },
	}
	for _, mode := range []string{"ssh", "srun"} {
		for _, m := range implementations(programs) {
			cases[m.name+" by "+mode] = func(w *world) { launchRanks(w, mode, m) }
		}
		cases["MPICH in pods of one node by "+mode] = func(w *world) { sharedNode(w, mode, programs["mpich"]) }
	}
	runAll(t, env, cases)
}

// implementation is an MPI as Debian has it.
type implementation struct {
	name, launcher, program string
	// pass passes the variable COLOUR on.
	pass string
}

func implementations(programs map[string]string) []implementation {
	return []implementation{
		{"Open MPI", "mpirun", programs["openmpi"], "-x COLOUR"},
		{"MPICH", "mpiexec.mpich", programs["mpich"], "-genvlist COLOUR"},
	}
}

// ranksSource says who a rank is, in one write, and that all have met. Debian's
// MPICH often does not return from MPI_Finalize where it speaks TCP, with a bare
// srun or mpiexec as well: a rank waits for the others' UCX, and these for the rank,
// without caring for UCX meanwhile. Then the alarm ends it. Hydra calls that a
// failure. Ranks of one node need no alarm ("calm").
const ranksSource = `
#include <mpi.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void stuck(int sig) { _exit(0); }
static const char *env(const char *name) { const char *v = getenv(name); return v ? v : "none"; }
int main(int argc, char **argv) {
  char host[256], dir[1024], line[4096], input[256] = "";
  int rank, size, sum, n;
  if (argc > 1 && !strcmp(argv[1], "early")) return 7;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  gethostname(host, sizeof host);
  if (argc > 1 && !strcmp(argv[1], "read")) {
    if (rank == 0 && fgets(input, sizeof input, stdin)) input[strcspn(input, "\n")] = 0;
    MPI_Bcast(input, sizeof input, MPI_CHAR, 0, MPI_COMM_WORLD);
  }
  if (argc > 2 && !strcmp(argv[1], "exit") && rank == 1) exit(atoi(argv[2]));
  if (argc > 2 && !strcmp(argv[1], "kill") && rank == 1) { kill(getpid(), atoi(argv[2])); }
  if (argc > 1 && !strcmp(argv[1], "sleep")) { printf("rank %d sleeps\n", rank); fflush(stdout); sleep(600); }
  if (argc > 2 && (!strcmp(argv[1], "exit") || !strcmp(argv[1], "kill"))) sleep(600);
  n = snprintf(line, sizeof line, "rank %d of %d sum %d on %s gpus [%s] colour %s input [%s] in %s\n", rank, size, sum, host,
    env("CUDA_VISIBLE_DEVICES"), env("COLOUR"), input, getcwd(dir, sizeof dir));
  if (write(1, line, n) != n) return 1;
#ifdef MPICH_NAME
  if (argc > 1 && !strcmp(argv[1], "calm")) { MPI_Finalize(); return 0; }
  signal(SIGALRM, stuck);
  alarm(3);
#endif
  MPI_Finalize();
  return 0;
}
`

// compileRanks compiles the program with both implementations.
func compileRanks(t *testing.T, dir string) map[string]string {
	t.Helper()
	programs := map[string]string{}
	for _, mpi := range []string{"openmpi", "mpich"} {
		programs[mpi] = filepath.Join(dir, "ranks."+mpi)
		cmd := exec.CommandContext(t.Context(), "mpicc."+mpi, "-x", "c", "-o", programs[mpi], "-")
		cmd.Stdin = strings.NewReader(ranksSource)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
	}
	return programs
}

// launchGang makes a gang of three workers and a launcher, two to a node, which
// runs a script.
func (w *world) launchGang(mode, script string) {
	w.Helper()
	worker := w.replicated("worker", "sleep 600", 3, resources("4", "2"))
	launcher := w.replicated("launcher", script, 1, resources("4", "2"))
	launcher.DependsOn = []jobset.DependsOn{{Name: "worker", Status: jobset.DependencyReady}}
	js := makeJobSet("gang", worker, launcher)
	js.Annotations = map[string]string{wellknown.AnnotationMPILaunch: mode}
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	js.Spec.FailurePolicy = &jobset.FailurePolicy{}
	w.create(js)
}

// launchLog waits for the end of the launcher and returns its exit code and log.
func (w *world) launchLog() (int32, string) {
	w.Helper()
	var launcher string
	w.eventually("the launcher exists", func(ctx context.Context) (bool, string) {
		for _, p := range w.pods(jobset.ReplicatedJobNameKey, "launcher") {
			launcher = p.Name
		}
		return launcher != "", ""
	})
	pod := w.waitPod(launcher, "has ended", func(p *corev1.Pod) bool { return terminalPhase(p) })
	return pod.Status.ContainerStatuses[0].State.Terminated.ExitCode, w.must("logs", launcher)
}

func terminalPhase(p *corev1.Pod) bool {
	return (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed) &&
		len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Terminated != nil
}

// launchScript runs commands one after the other; their output and exit codes are
// in the log.
//
// A command whose ranks crash is run again: those of Debian's Open MPI 4.1.4 do so where a
// first message over TCP meets a rank that is still in MPI_Init, under a bare srun as well.
// On a loaded machine that is once in some sixty runs, on a slow one much more often.
func launchScript(commands ...string) string {
	script := `export COLOUR=blue; cd $HOME
run() {
  for try in 1 2 3 4 5 6 7 8; do
    out=$(mktemp); ( "$1" ) >$out 2>&1; code=$?
    grep -q "Segmentation fault" $out || break
  done
  cat $out; echo "exit code $code"
}
`
	for i, c := range commands {
		script += fmt.Sprintf("echo '== %s'\ncommand%d() {\n%s\n}\nrun command%d\n", strings.ReplaceAll(c, "'", ""), i, c, i)
	}
	return script
}

var rankLine = regexp.MustCompile(`rank (\d+) of (\d+) sum (\d+) on (\S+) gpus \[(\S*)\] colour (\S+) input \[(.*?)\] in (\S+)`)

// sections splits a log by its commands.
func sections(log string) []string { return strings.Split(log, "== ")[1:] }

func launchRanks(w *world, mode string, m implementation) {
	run := func(stdin, options string) string {
		return stdin + "timeout 25 " + m.launcher + " " + options
	}
	w.launchGang(mode, launchScript(
		run("", m.program),
		run("echo hello | ", "-n 6 "+m.pass+" "+m.program+" read"),
		run("", "-n 3 -wdir /usr/share "+m.program),
		run("", "-n 2 --host localhost:2 "+m.program),
	))
	code, log := w.launchLog()
	assert.EqualValues(w, 0, code, log)
	parts := sections(log)
	require.Len(w, parts, 4, log)
	if m.name != "MPICH" || mode == "srun" {
		assert.Equal(w, 4, strings.Count(log, "exit code 0\n"), log)
	}

	all := rankLine.FindAllStringSubmatch(parts[0], -1)
	require.Len(w, all, 8, "4 pods of 2 ranks: %s", log)
	perPod, devices := map[string]int{}, map[string]map[string]bool{}
	for _, r := range all {
		assert.Equal(w, []string{"8", "28"}, r[2:4], "one world")
		assert.Equal(w, "none", r[6])
		perPod[r[4]]++
		if devices[r[4]] == nil {
			devices[r[4]] = map[string]bool{}
		}
		devices[r[4]][r[5]] = true
	}
	assert.Equal(w, map[string]int{"gang-worker-0-0": 2, "gang-worker-0-1": 2, "gang-worker-0-2": 2, "gang-launcher-0-0": 2}, perPod)
	for pod, seen := range devices {
		assert.Len(w, seen, 1, "the ranks of %s see its devices", pod)
	}

	six := rankLine.FindAllStringSubmatch(parts[1], -1)
	require.Len(w, six, 6, log)
	for _, r := range six {
		assert.Equal(w, []string{"6", "15"}, r[2:4])
		assert.Equal(w, []string{"blue", "hello"}, r[6:8])
	}
	three := rankLine.FindAllStringSubmatch(parts[2], -1)
	require.Len(w, three, 3, log)
	for _, r := range three {
		assert.Equal(w, "/usr/share", r[8])
	}
	two := rankLine.FindAllStringSubmatch(parts[3], -1)
	require.Len(w, two, 2, log)
	for _, r := range two {
		assert.Equal(w, "gang-launcher-0-0", r[4])
	}
	if mode == "srun" {
		assert.NotContains(w, log, "srun: error")
	}
}

// sharedNode: pods that share a node are one machine to UCX, and each has a user
// namespace of its own.
func sharedNode(w *world, mode, program string) {
	const times = 8
	worker := w.replicated("worker", "sleep 600", 3, resources("2", "0"))
	launcher := w.replicated("launcher", launchScript(fmt.Sprintf(
		"for i in $(seq %d); do timeout 60 mpiexec.mpich %s calm || exit 1; done", times, program)), 1, resources("2", "0"))
	js := makeJobSet("gang", worker, launcher)
	js.Annotations = map[string]string{
		wellknown.AnnotationMPILaunch: mode, wellknown.AnnotationMPISlots: "2", wellknown.AnnotationNodesExclusive: "true",
	}
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	w.create(js)
	_, log := w.launchLog()
	require.Len(w, hpcNodes(w.jobSetPods("gang")), 1, "one node for all")
	assert.Contains(w, log, "exit code 0")
	ranks := rankLine.FindAllStringSubmatch(log, -1)
	require.Len(w, ranks, 8*times, log)
	for _, r := range ranks {
		assert.Equal(w, []string{"8", "28"}, r[2:4])
	}
	assert.NotContains(w, log, "UCX")
}

func unbegunPods(w *world) {
	dir := filepath.Dir(w.share("boost.py")) // that all pods see
	worker := w.replicated("worker", "sleep 600", 2, resources("1", "0"))
	worker.Template.Spec.Template.Spec.InitContainers = []corev1.Container{{
		Name: "init", Image: "host", Command: []string{"sh", "-c", "until [ -e " + dir + "/go ]; do sleep 0.1; done"},
	}}
	launcher := w.replicated("launcher", launchScript(
		"export GANGLINE_LAUNCH_PATIENCE=2s; ssh gang-worker-0-1 hostname",
		"export GANGLINE_LAUNCH_PATIENCE=2s; mpirun --host gang-worker-0-1 hostname",
		"touch "+dir+"/go; ssh gang-worker-0-1 hostname; mpirun --host gang-worker-0-0,gang-worker-0-1 hostname",
	), 1, resources("1", "0"))
	js := makeJobSet("gang", worker, launcher)
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"launcher"}}
	w.create(js)
	_, log := w.launchLog()
	parts := sections(log)
	require.Len(w, parts, 3, log)
	assert.Contains(w, parts[0], "the pod has not started within 2s")
	assert.Contains(w, parts[1], "gang-worker-0-1: its pod has not started within 2s")
	assert.Equal(w, 2, strings.Count(parts[2], "gang-worker-0-1\n"), log)
	assert.Contains(w, parts[2], "gang-worker-0-0\n")
	assert.Contains(w, parts[2], "exit code 0")
}

func rankEnds(w *world, programs map[string]string) {
	w.launchGang("srun", launchScript(
		"timeout 25 mpirun "+programs["openmpi"]+" exit 3",
		"timeout 25 mpirun "+programs["openmpi"]+" kill 9",
		"timeout 25 mpirun "+programs["openmpi"]+" early",
		"timeout 60 mpirun /nonexistent/program",
		"timeout -s TERM 10 mpirun "+programs["openmpi"]+" sleep",
		"(mpirun sh -c 'sleep 987' & pid=$!; sleep 3; kill -9 $pid; wait)",
		`sleep 4; mpirun -n 8 sh -c 'pgrep -xfc "sleep 987" || true'`,
		"mpirun -n 2 /etc/passwd",
		"mpirun -n 2 -wdir /no/such/place hostname",
		"cd $(mktemp -d); mpirun pwd | sort -u",
		"timeout 60 mpirun -n 2 yes | head -1",
		"mpirun -n 12 --oversubscribe hostname | sort | uniq -c",
		`(out=$(mktemp); mpirun sh -c 'trap "echo saved; exit 0" TERM; echo up; while :; do sleep 0.1; done' >$out & pid=$!
		  while [ "$(grep -c up $out)" != 8 ]; do sleep 0.1; done; kill $pid; wait $pid; code=$?; cat $out; exit $code)`,
	))
	_, log := w.launchLog()
	parts := sections(log)
	require.Len(w, parts, 13, log)
	for i, code := range []string{"3", "137", "7", "127", "124"} {
		assert.Contains(w, parts[i], "exit code "+code+"\n", "command %d", i)
	}
	assert.Contains(w, parts[3], `exec: "/nonexistent/program"`)
	assert.Contains(w, parts[4], "rank 7 sleeps")
	assert.Contains(w, parts[6], strings.Repeat("0\n", 8)+"exit code 0", "nothing is left of a launcher that was killed")
	assert.Contains(w, parts[7], "exit code 126", "a file that is no program")
	assert.Contains(w, parts[8], "could not change to the working directory: chdir /no/such/place: no such file or directory")
	assert.Contains(w, parts[8], "exit code 1\n")
	// The launcher's own directory is not on the other node, and nobody makes it there.
	assert.Len(w, strings.Split(strings.TrimSpace(parts[9]), "\n"), 4, parts[9])
	assert.Regexp(w, `\ny\nexit code 0\n`, parts[10], "an end of the output's reader ends the ranks")
	assert.Equal(w, 4, strings.Count(parts[11], " 3 gang-"), parts[11])
	assert.Equal(w, 8, strings.Count(parts[12], "saved\n"), "every rank has its time to end: %s", parts[12])
	assert.Contains(w, parts[12], "exit code 143", "a run that was cut short has not succeeded")
}

// trainByLaunch runs Kubeflow's way, with the runtime's own hostfile.
func trainByLaunch(w *world, programs map[string]string) {
	w.apply(fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata:
  name: ranks
  annotations: {gangline.dev/cluster: %s, gangline.dev/mpi-launch: srun}
spec:
  runtimeRef: {name: mpi-distributed-hpc}
  trainer:
    numNodes: 3
    numProcPerNode: 2
    resourcesPerNode: {requests: {cpu: "2", memory: 256Mi}}
    command: [mpirun, -v, %s]
`, w.env.Name, programs["openmpi"]))
	w.waitTrainJob("ranks", v1alpha1.TrainJobComplete)
	log := w.jobLogs("ranks", "launcher")
	assert.Contains(w, log, "mpirun: srun --jobid=")
	assert.Len(w, rankLine.FindAllString(log, -1), 6, log)
	assert.Contains(w, log, "rank 5 of 6 sum 15 on ranks-")
}

func mixedRanks(w *world, programs map[string]string) {
	small := w.replicated("small", "sleep 600", 2, resources("1", "1"))
	big := w.replicated("big", launchScript("timeout 25 mpirun "+programs["openmpi"]), 1, resources("2", "2"))
	js := makeJobSet("mixed", small, big)
	js.Annotations = map[string]string{wellknown.AnnotationMPILaunch: "srun"}
	js.Spec.SuccessPolicy = &jobset.SuccessPolicy{Operator: jobset.OperatorAll, TargetReplicatedJobs: []string{"big"}}
	w.create(js)
	w.waitJobSet("mixed", jobset.JobSetCompleted)
	pods := w.pods(jobset.ReplicatedJobNameKey, "big")
	require.Len(w, pods, 1)
	log := w.must("logs", pods[0].Name)
	if strings.Contains(log, "nodes are not in order") {
		// As Slurm had placed them; in an order that it can deal with, they run.
		assert.Contains(w, log, "mpi-launch: ssh")
		assert.NotContains(w, log, "exit code 0")
		return
	}
	ranks := rankLine.FindAllStringSubmatch(log, -1)
	require.Len(w, ranks, 4, log)
	for _, r := range ranks {
		assert.Equal(w, []string{"4", "6"}, r[2:4])
	}
}
