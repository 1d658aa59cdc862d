package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/site/sitetest"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate/wellknown"
)

// identities map the ServiceAccount "other" to the second user, and all else to the
// first, but for namespaces with the label "stranger".
func identities() identity.Map {
	known := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "stranger", Operator: metav1.LabelSelectorOpDoesNotExist},
	}}
	users := harness.Users()
	return identity.Map{
		{ServiceAccounts: []string{"other"}, Identity: identity.Identity{
			User: users[1], Partitions: []string{"batch"}, Limits: identity.Limits{Pods: 2, TimeLimit: identity.TimeLimit{Duration: time.Hour}},
		}},
		{NamespaceSelector: known, Identity: identity.Identity{User: users[0]}},
	}
}

// TestAccess is a node that is far from its site: it has a login node, no Slurm and no
// shared filesystem, and acts as two users.
func TestAccess(t *testing.T) {
	t.Parallel()
	env := environmentWith(t, harness.Options{Name: "far", WorkloadManager: "slurm", Nodes: 4, Login: true, Configure: func(c *provider.Config) {
		c.Identity = identities()
	}})
	t.Run("the walking path", func(t *testing.T) {
		cases := walkingPath()
		cases["two users cannot read each other's files"] = twoUsers
		cases["who is nobody there is refused"] = nobodyThere
		for name, test := range cases {
			t.Run(name, func(t *testing.T) { test(newWorld(t, env)) })
		}
	})
	t.Run("preflight checks each user's way", func(t *testing.T) { preflightFromAfar(newWorld(t, env)) })
	t.Run("a cut of a minute changes no pod", func(t *testing.T) { cutForAMinute(newWorld(t, env)) })
	t.Run("a restarted node finds both users' gangs again", func(t *testing.T) { bothAgain(newWorld(t, env)) })
	t.Run("a changed map is for new gangs", func(t *testing.T) { changedMap(newWorld(t, env)) })
	t.Run("a node on the site that is root acts as each user", func(t *testing.T) { asRoot(newWorld(t, env)) })
}

// account makes the ServiceAccount that is mapped to the second user.
func (w *world) account(name string) {
	w.Helper()
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
}

// podOf is a pod of a ServiceAccount.
func (w *world) podOf(account, name, script string) *corev1.Pod {
	pod := w.makePod(name, script, resources("1", "1"))
	pod.Spec.ServiceAccountName = account
	return pod
}

func twoUsers(w *world) {
	w.account("other")
	w.create(w.podOf("default", "first", "id -un; sleep 600"), w.podOf("other", "second", "id -un; sleep 600"))
	names := harness.Users()
	accounts := map[string]sitetest.Account{}
	for _, name := range names {
		a, err := sitetest.NewAccount(w.Context(), name)
		require.NoError(w, err)
		accounts[name] = a
	}
	for pod, user := range map[string]string{"first": names[0], "second": names[1]} {
		p := w.waitPhase(pod, corev1.PodRunning)
		w.waitLog(pod, user)
		assert.Equal(w, user+"\n", w.must("exec", pod, "--", "id", "-un"))
		assert.Equal(w, user, p.Annotations[wellknown.AnnotationHPCUser])
		job := p.Annotations[wellknown.AnnotationJobID]
		assert.Equal(w, user, w.jobs(*p)[job].User)

		dir := filepath.Join(w.env.Node.SpoolOf(user), "gangs", p.Annotations[wellknown.AnnotationAllocation])
		info, err := os.Stat(dir)
		require.NoError(w, err)
		assert.Equal(w, os.FileMode(0o700), info.Mode().Perm())
		other := names[0]
		if user == other {
			other = names[1]
		}
		assert.True(w, accounts[user].Reads(w, filepath.Join(dir, "gang.json")))
		assert.False(w, accounts[other].Reads(w, filepath.Join(dir, "gang.json")))
	}
	w.must("delete", "pod", "first", "second", "--grace-period=1")
	w.waitGone("first")
	w.waitGone("second")
}

func nobodyThere(w *world) {
	w.account("other")
	pod := w.podOf("other", "elsewhere", "true")
	pod.Annotations = map[string]string{wellknown.AnnotationPartition: "high"}
	long := w.podOf("other", "long", "true")
	long.Annotations = map[string]string{wellknown.AnnotationTimeLimit: "2h"}
	w.create(pod, long)
	for name, message := range map[string]string{
		"elsewhere": "the partition high is not one of those",
		"long":      "the time limit 2h0m0s is above the 1h0m0s",
	} {
		refused := w.waitPhase(name, corev1.PodFailed)
		assert.Equal(w, wellknown.ReasonNotAllowed, refused.Status.Reason, name)
		assert.Contains(w, refused.Status.Message, message)
	}
	w.must("label", "namespace", w.namespace, "stranger=yes")
	w.create(w.makePod("stranger", "true", resources("1", "1")))
	refused := w.waitPhase("stranger", corev1.PodFailed)
	assert.Equal(w, wellknown.ReasonNoHPCUser, refused.Status.Reason)
	assert.Contains(w, refused.Status.Message, "no HPC user is configured for namespace "+w.namespace)
	w.waitEvent("stranger", wellknown.ReasonNoHPCUser, "ask the site's administrator")
}

func cutForAMinute(w *world) {
	const cut = time.Minute
	w.create(w.makePod("steady", "i=0; while :; do i=$((i+1)); echo line $i; sleep 1; done", resources("1", "1")),
		w.makePod("ends", "sleep 20; echo over; exit 3", resources("1", "1")))
	before := w.waitPhase("steady", corev1.PodRunning)
	w.waitPhase("ends", corev1.PodRunning)
	w.waitLog("steady", "line 1\n")

	w.env.Login.Wire.Cut()
	until := time.Now().Add(cut)
	for time.Now().Before(until) {
		for _, name := range []string{"steady", "ends"} {
			pod := &corev1.Pod{}
			require.NoError(w, w.client.Get(w.Context(), keyOf(w, name), pod))
			require.Equal(w, corev1.PodRunning, pod.Status.Phase, "nothing is known to have changed")
			require.Nil(w, pod.DeletionTimestamp)
		}
		time.Sleep(time.Second)
	}
	assert.Equal(w, corev1.ConditionTrue, condition(w.node(), corev1.NodeReady).Status, "its pods are not evicted")
	w.env.Login.Wire.Mend()

	ended := w.waitPhase("ends", corev1.PodFailed)
	assert.EqualValues(w, 3, ended.Status.ContainerStatuses[0].State.Terminated.ExitCode)
	assert.Contains(w, w.must("logs", "ends"), "over\n")
	w.eventually("the log goes on", func(context.Context) (bool, string) {
		log := w.must("logs", "steady")
		return strings.Contains(log, "line 60\n"), log
	})
	after := w.waitPhase("steady", corev1.PodRunning)
	assert.Equal(w, before.Status.ContainerStatuses, after.Status.ContainerStatuses)
	assert.Len(w, w.jobs(*after), 1)
	w.must("delete", "pod", "steady", "--grace-period=1")
	w.waitGone("steady")
}

func bothAgain(w *world) {
	w.account("other")
	w.create(w.podOf("default", "first", "sleep 600"), w.podOf("other", "second", "sleep 600"))
	before := map[string]*corev1.Pod{}
	for _, name := range []string{"first", "second"} {
		before[name] = w.waitPhase(name, corev1.PodRunning)
	}
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, w.env.Node.Start(w.Context()))
	for name, was := range before {
		w.eventually("exec works again", func(ctx context.Context) (bool, string) {
			out, err := w.env.Kubectl(ctx, "", "-n", w.namespace, "exec", name, "--", "echo", "again")
			return err == nil && out == "again\n", out
		})
		pod := w.waitPhase(name, corev1.PodRunning)
		assert.Equal(w, was.Status.ContainerStatuses, pod.Status.ContainerStatuses)
		assert.Len(w, w.jobs(*pod), 1, "one job")
	}
	w.must("delete", "pod", "first", "second", "--grace-period=1")
	w.waitGone("first")
	w.waitGone("second")
}

func changedMap(w *world) {
	users := harness.Users()
	w.create(w.makePod("old", "sleep 600", resources("1", "1")))
	w.waitPhase("old", corev1.PodRunning)
	change := func(m identity.Map) {
		require.NoError(w, w.env.Node.Reconfigure(func(c *provider.Config) { c.Identity = m }))
		w.eventually("the map is read while the node runs", func(ctx context.Context) (bool, string) {
			out, err := w.env.Kubectl(ctx, "", "get", "events", "--field-selector=reason=ConfigReloaded,involvedObject.name="+w.env.Name, "-o", "jsonpath={.items[*].message}")
			return err == nil && strings.Contains(out, fmt.Sprintf("anew: %d rule", len(m))), out
		})
	}
	change(identity.Map{{Identity: identity.Identity{User: users[1]}}})
	forged := w.makePod("forged", "sleep 600", resources("1", "1")) // as if the node had accepted it as mallory's
	forged.Finalizers = []string{wellknown.Finalizer}
	forged.Annotations = map[string]string{wellknown.AnnotationHPCUser: "mallory"}
	w.create(w.makePod("new", "sleep 600", resources("1", "1")), forged)
	for _, name := range []string{"new", "forged"} {
		pod := w.waitPhase(name, corev1.PodRunning)
		assert.Equal(w, users[1]+"\n", w.must("exec", name, "--", "id", "-un"))
		assert.Equal(w, users[1], pod.Annotations[wellknown.AnnotationHPCUser])
	}
	w.waitEvent("forged", "Ignored", `"mallory"`)
	stillOld := func() {
		w.eventually("the old one is still the old user's", func(ctx context.Context) (bool, string) {
			out, err := w.env.Kubectl(ctx, "", "-n", w.namespace, "exec", "old", "--", "id", "-un")
			return err == nil && out == users[0]+"\n", out
		})
	}
	stillOld()
	before := w.waitPhase("old", corev1.PodRunning)
	require.NoError(w, w.env.Node.Kill())
	require.NoError(w, w.env.Node.Start(w.Context())) // with a map that does not name the old user
	stillOld()
	after := w.waitPhase("old", corev1.PodRunning)
	assert.Equal(w, before.Status.ContainerStatuses, after.Status.ContainerStatuses)
	assert.Len(w, w.jobs(*after), 1)
	log, err := os.ReadFile(w.env.Node.LogFile())
	require.NoError(w, err)
	assert.NotContains(w, string(log), "mallory", "nothing was tried as that user")
	w.must("delete", "pod", "old", "new", "forged", "--grace-period=1")
	for _, name := range []string{"old", "new", "forged"} {
		w.waitGone(name)
	}
	change(identities())
}

func asRoot(w *world) {
	shared := w.env.Slurm.SharedDir()
	env, err := w.env.Another(w.Context(), "far-root", func(o *harness.NodeOptions) {
		o.UID, o.GID, o.Home = 0, 0, "/root"
		o.Spool = filepath.Join(shared, "{user}", "spool", "far-root")
		o.Configure = func(c *provider.Config) {
			c.WorkloadManager, c.Partition = "slurm", "batch"
			c.Slurm.Conf = w.env.Slurm.SlurmConf()
			c.Access.Mode, c.Identity = sites.Setuid, identities()
		}
	})
	require.NoError(w, err)
	w.Cleanup(func() { assert.NoError(w, env.Node.Stop()) })
	twoUsers(newWorld(w.T, env))
}
