package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/rights"
)

// program is one of ours that has roles.
type program struct {
	name, user string
	// rare are rights that this suite need not need, by why the program has them.
	rare map[string][]string
}

func programs() []program {
	return []program{
		{name: "controller", user: harness.ControllerUser, rare: map[string][]string{
			"a server-side apply of an object that is not there asks for it, and the audit log says only patch": {
				"create jobsets.jobset.x-k8s.io",
			},
			"pod groups are used where their schedulers are installed when the controller starts; the plugins' own tests have them": {
				"create podgroups.scheduling.volcano.sh", "create podgroups.scheduling.x-k8s.io",
				"list podgroups.scheduling.volcano.sh", "list podgroups.scheduling.x-k8s.io",
				"patch podgroups.scheduling.volcano.sh", "patch podgroups.scheduling.x-k8s.io",
				"watch podgroups.scheduling.volcano.sh", "watch podgroups.scheduling.x-k8s.io",
				"list priorityclasses.scheduling.k8s.io", "watch priorityclasses.scheduling.k8s.io",
			},
			"the runtime or namespace is newer than the cache": {
				"get namespaces", "get trainingruntimes.trainer.kubeflow.org", "get clustertrainingruntimes.trainer.kubeflow.org",
			},
			"a runtime comes from Kubeflow Trainer up to v2.2, and has its finalizer": {
				"patch clustertrainingruntimes.trainer.kubeflow.org", "patch trainingruntimes.trainer.kubeflow.org",
			},
			"metrics here are served in the clear, and no training reports its progress; the manager's own tests do both": {
				"create subjectaccessreviews.authorization.k8s.io", "create tokenreviews.authentication.k8s.io",
			},
			"the admission plugin OwnerReferencesPermissionEnforcement, which is off here, asks for it": {
				"update trainjobs/finalizers.trainer.kubeflow.org",
			},
			"the same Event of a TrainJob repeats": {
				"patch events.events.k8s.io",
			},
			"the same process leads again within ten minutes": {
				"patch events in kubeflow-system",
			},
		}},
		{name: "node", user: harness.NodeUser, rare: map[string][]string{
			"an owner, or a pod whose allocation has ended, is asked for when the cache does not know it or may lag": {
				"get jobs.batch", "get leaderworkersets.leaderworkerset.x-k8s.io", "get mpijobs.kubeflow.org", "get pods",
				"get podgroups.scheduling.k8s.io", "get podgroups.scheduling.volcano.sh", "get podgroups.scheduling.x-k8s.io",
			},
			"the request for a certificate is there already, from before a restart": {
				"get certificatesigningrequests.certificates.k8s.io",
			},
		}},
	}
}

// lastTest is TestRights, which is about what all others have made the programs ask for.
const lastTest = "TestRights"

// wholeSuitePassed is set before the last test, if no tests were selected.
var wholeSuitePassed bool

// TestRights compares the programs' roles with what they asked for in all other tests:
// whatever was refused is missing, whatever the whole suite did not need must be among the
// rare rights.
func TestRights(t *testing.T) {
	asked, err := askedFor(control)
	require.NoError(t, err)
	for _, p := range programs() {
		t.Run(p.name, func(t *testing.T) {
			for _, r := range asked[p.user].Refused {
				t.Errorf("the roles of %s lack the right to %s: add it to charts/gangline/templates/%s/rbac.yaml", p.name, r, p.name)
			}
			manifest, err := os.ReadFile(filepath.Join(root(), "charts", "manifests", p.name, "rbac.yaml"))
			require.NoError(t, err)
			granted, err := rights.Granted(manifest)
			require.NoError(t, err)
			assert.NotEmpty(t, granted)
			if wholeSuitePassed {
				assert.NoError(t, p.compare(granted, rights.Unused(granted, rights.WithLists(asked[p.user].Allowed))))
			}
		})
	}
}

// runBut runs the tests that were selected, without one.
func runBut(m *testing.M, name string) int {
	skip := flag.Lookup("test.skip").Value
	before := skip.String()
	defer func() { _ = skip.Set(before) }() // a pattern that was one
	pattern := "^" + name + "$"
	if before != "" {
		pattern += "|" + before
	}
	_ = skip.Set(pattern) // any text is taken
	return m.Run()
}

// runOnly runs one test more, whatever was selected.
func runOnly(m *testing.M, name string) int {
	_ = flag.Set("test.run", "^"+name+"$") // any text is taken
	_ = flag.Set("test.skip", "")
	return m.Run()
}

// compare tells of unused rights that are not rare, and of rare ones that are not
// granted.
func (p program) compare(granted, unused []rights.Right) error {
	rare, has := map[string]bool{}, map[string]bool{}
	for _, r := range granted {
		has[r.String()] = true
	}
	var errs []error
	for _, names := range p.rare {
		for _, r := range names {
			rare[r] = true
			if !has[r] {
				errs = append(errs, fmt.Errorf("%s has not the right to %s: it is not rare", p.name, r))
			}
		}
	}
	for _, r := range unused {
		if !rare[r.String()] {
			errs = append(errs, fmt.Errorf("%s did not need the right to %s: remove it from its roles, or say here when it is needed", p.name, r))
		}
	}
	return errors.Join(errs...)
}

// wholeSuite tells whether no tests were selected.
func wholeSuite() bool {
	for _, name := range []string{"test.run", "test.skip"} {
		if f := flag.Lookup(name); f == nil || f.Value.String() != "" {
			return false
		}
	}
	return true
}

func askedFor(control *harness.ControlPlane) (map[string]rights.Asked, error) {
	files, err := control.AuditLogs()
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("the API server has written no audit log: build it anew by make devcluster"), err)
	}
	var readers []io.Reader
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("opening the audit log: %w", err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		readers = append(readers, f)
	}
	return rights.Read(io.MultiReader(readers...))
}
