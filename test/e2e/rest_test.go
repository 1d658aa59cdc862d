package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/site/sitetest"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/test/slurm"
)

// TestREST walks the path once over slurmrestd. GANGLINE_TEST_SLURM=rest sends all other
// groups that way too.
func TestREST(t *testing.T) {
	t.Parallel()
	env := environmentWith(t, harness.Options{Name: "rest", WorkloadManager: "slurm", Nodes: 2, REST: true})
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"a gang over slurmrestd runs, is heard and ends", gangOverREST},
		{"preflight over slurmrestd", preflightIsWell},
		{"a gang over slurmrestd is deleted while slurmrestd is away", deleteWithoutREST},
		{"each user has a token, and is acted for by sudo", tokensAndSudo},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

func gangOverREST(w *world) {
	w.create(makeJobSet("walk", w.replicated("worker", "echo rank $JOB_COMPLETION_INDEX of the gang; sleep 6", 2, resources("5", "1"))))
	pods := w.waitAll("walk", corev1.PodRunning, 2)
	require.Len(w, w.jobs(pods...), 1, "one job for the gang")
	for _, p := range pods {
		assert.Contains(w, w.must("logs", p.Name), "of the gang")
	}
	w.waitJobSet("walk", jobset.JobSetCompleted)
	w.waitJobGone(pods...)
}

func deleteWithoutREST(w *world) {
	w.create(w.makePod("alone", "sleep 600", resources("1", "0")))
	pod := w.waitPhase("alone", corev1.PodRunning)
	require.NoError(w, w.env.Slurm.StopREST(w.Context()))
	w.must("delete", "pod", "alone", "--wait=false")
	// The agents are asked through the spool; only Slurm's word ends the pod.
	w.waitJobGone(*pod)
	require.NoError(w, w.env.Slurm.StartREST(w.Context()))
	w.waitGone("alone")
}

func tokensAndSudo(w *world) {
	const name = "rest-users"
	dir, shared := w.TempDir(), w.env.Slurm.SharedDir()
	for _, user := range harness.Users() {
		require.NoError(w, harness.UserDir(w.Context(), shared, user))
		token, err := w.env.Slurm.Output(w.Context(), slurm.Head, "scontrol", "token", "lifespan=3600", "username="+user)
		require.NoError(w, err)
		require.NoError(w, os.WriteFile(filepath.Join(dir, user+".jwt"), []byte(token), 0o600))
	}
	env, err := w.env.Another(w.Context(), name, func(o *harness.NodeOptions) {
		o.UID, o.GID, o.Home = 0, 0, "/root"
		o.Spool = filepath.Join(shared, "{user}", "spool", name)
		o.Configure = func(c *provider.Config) {
			c.WorkloadManager, c.Partition = "slurm", "batch"
			c.Slurm.Conf = w.env.Slurm.SlurmConf()
			c.Slurm.REST = &provider.SlurmRESTConfig{
				URL: "unix:" + w.env.Slurm.RESTSocket(), TokenFile: filepath.Join(dir, "{user}.jwt"),
			}
			c.Access.Mode, c.Access.Sudo, c.Access.Asker = sites.Sudo, sitetest.Sudo(w.T, dir), harness.Users()[0]
			c.Identity = identities()
		}
	})
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, env.Node.Stop()) })
	twoUsers(newWorld(w.T, env))
}
