package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/test/harness"
)

// control is the control plane that all groups share, and runDir where this run's files are:
// what a run that is killed leaves there, the next one clears away. TestMain sets both
// once, before any test runs.
var (
	control *harness.ControlPlane
	runDir  string
)

func root() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return "../.."
	}
	return dir
}

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	log.SetLogger(logr.Discard()) // the client's own; the tests say what they see
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var err error
	if runDir, err = harness.RunDir(ctx, root(), "e2e", os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(runDir) //nolint:errcheck // only files of tests that have ended
	// Kubernetes' own PodGroups are off by default.
	control, err = harness.StartControlPlane(ctx, filepath.Join(root(), "bin"), filepath.Join(runDir, "cluster"), os.Stderr,
		"--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true",
		"--audit-users="+harness.ControllerUser, "--audit-users="+harness.NodeUser)
	if err != nil {
		fmt.Fprintln(os.Stderr, "no control plane for the tests (make devcluster builds it):", err)
		return 1
	}
	code := 1
	controller, err := harness.StartController(ctx, control, root(), filepath.Join(runDir, "controller"), false)
	if err == nil {
		flag.Parse() // m.Run would, too late for what is looked up
		whole := wholeSuite()
		code = runBut(m, lastTest)
		if code != 0 {
			fmt.Fprintln(os.Stderr, "gangline-controller's last words:\n"+controller.LogTail())
		}
		err = controller.Stop()
		if code == 0 {
			wholeSuitePassed = whole
			code = runOnly(m, lastTest)
		}
	}
	stop, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := errors.Join(err, control.Stop(stop)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// environment starts a workload manager and a virtual node for a group.
func environment(t *testing.T, name, manager string, nodes int, configure func(*provider.Config)) *harness.Environment {
	t.Helper()
	return environmentWith(t, harness.Options{Name: name, WorkloadManager: manager, Nodes: nodes, Configure: configure})
}

// environmentWith is environment for what else may differ.
func environmentWith(t *testing.T, o harness.Options) *harness.Environment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o.Root, o.Dir, o.Cluster = root(), filepath.Join(runDir, o.Name), o.Name
	o.Progress = t.Output()
	if o.ControlPlane == nil {
		o.ControlPlane = control
	}
	o.REST = o.REST || os.Getenv("GANGLINE_TEST_SLURM") == "rest" // all groups over slurmrestd
	env, err := harness.Start(ctx, o)
	if err != nil {
		t.Fatalf("no environment for this group: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			showLog(t, env.Node.LogFile())
		}
		if err := env.Stop(context.Background()); err != nil {
			t.Errorf("ending the environment: %v", err)
		}
	})
	return env
}

func showLog(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Logf("reading the node's log: %v", err)
		return
	}
	const tail = 12000
	t.Logf("end of gangline-node's log:\n%s", data[max(0, len(data)-tail):])
}
