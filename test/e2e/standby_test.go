package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/test/harness"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestStandby runs two processes of one virtual node, each with a certificate of its own.
// Its cases follow one another: each but the first begins with the process that leads and
// one that stands by, and all leave it so.
func TestStandby(t *testing.T) {
	t.Parallel()
	env := environment(t, "standby", "slurm", 2, func(c *provider.Config) {
		c.LeaderElection = provider.LeaderElectionConfig{
			Enabled: true, LeaseDuration: seconds(3), RenewDeadline: seconds(2), RetryPeriod: seconds(0.5),
		}
		c.Kubelet.CertDir = filepath.Join(filepath.Dir(filepath.Dir(c.Kubelet.CertFile)), "pki-leads")
		c.Kubelet.CertFile, c.Kubelet.KeyFile = "", ""
	})
	pair := &pair{leads: env.Node, waits: env.Node}
	t.Cleanup(func() { assert.NoError(t, errors.Join(pair.leads.Stop(), pair.waits.Stop())) })
	for _, test := range []struct {
		name string
		run  func(*world)
	}{
		{"who stands by has a certificate before it leads", pair.certified},
		{"a leader that is killed is followed, and nothing is doubled", pair.killed},
		{"a leader that is told to end hands over", pair.handsOver},
		{"a leader that was frozen ends when it wakes up", pair.frozen},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(newWorld(t, env)) })
	}
}

func seconds(n float64) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n * float64(time.Second))}
}

// pair are the two processes.
type pair struct {
	leads, waits *harness.Node
	started      int
}

// another starts a process that stands by, with its own directory for its certificate, and
// approves what it asks for.
func (p *pair) another(w *world) {
	w.Helper()
	p.started++
	name := fmt.Sprintf("standby-%d", p.started)
	require.NoError(w, p.leads.Reconfigure(func(c *provider.Config) {
		c.Kubelet.CertDir = filepath.Join(filepath.Dir(c.Kubelet.CertDir), "pki-"+name)
	}))
	var err error
	p.waits, err = p.leads.Standby(name)
	require.NoError(w, err)
	p.approve(w, p.waits)
}

// approve approves the request for a certificate that a process logs, and waits until it
// has the certificate.
func (p *pair) approve(w *world, n *harness.Node) {
	w.Helper()
	asks := regexp.MustCompile(`kubectl certificate approve (csr-\w+)`)
	var found []string
	w.eventually("a certificate is asked for", func(context.Context) (bool, string) {
		log := said(w, n)
		found = asks.FindStringSubmatch(log)
		return found != nil, log
	})
	w.must("certificate", "approve", found[1])
	w.must("wait", "csr/"+found[1], "--for=jsonpath={.status.certificate}", "--timeout=30s")
}

// certified is the first case.
func (p *pair) certified(w *world) {
	p.approve(w, p.leads)
	p.another(w)
	assert.NotContains(w, said(w, p.waits), "msg=leading", "it asks while it stands by")
	p.gang(w, "runs")
	require.NoError(w, p.leads.Kill())
	p.swap(w)
	p.whole(w, "runs")
	assert.Equal(w, 1, strings.Count(said(w, p.leads), "kubectl certificate approve"), "it does not ask again when it leads")
}

// leading waits until the process that stood by leads.
func (p *pair) leading(w *world) {
	w.Helper()
	w.eventually("the other process leads", func(context.Context) (bool, string) {
		log := said(w, p.waits)
		return strings.Contains(log, "msg=leading"), log
	})
}

// swap is for when the other process leads: another stands by then.
func (p *pair) swap(w *world) {
	w.Helper()
	p.leading(w)
	p.leads = p.waits
	w.env.Node = p.leads
	p.another(w)
}

func said(w *world, n *harness.Node) string {
	data, err := os.ReadFile(n.LogFile())
	require.NoError(w, err)
	return string(data)
}

// gang creates a gang that runs, and returns its pods.
func (p *pair) gang(w *world, name string) []corev1.Pod {
	w.Helper()
	w.create(makeJobSet(name, w.replicated("w", "echo up; sleep 600", 2, resources("1", "1"))))
	return w.waitAll(name, corev1.PodRunning, 2)
}

// whole makes sure that a gang runs on as the one job that it was, and answers.
func (p *pair) whole(w *world, name string) {
	w.Helper()
	pods := w.waitAll(name, corev1.PodRunning, 2)
	assert.Len(w, w.jobs(pods...), 1)
	for _, pod := range pods {
		w.eventually("exec by way of the new leader", func(ctx context.Context) (bool, string) {
			out, err := w.env.Kubectl(ctx, "", "-n", w.namespace, "exec", pod.Name, "--", "echo", "here")
			return err == nil && out == "here\n", out
		})
	}
	assert.Zero(w, pods[0].Status.ContainerStatuses[0].RestartCount)
}

func (p *pair) killed(w *world) {
	p.gang(w, "runs")
	require.NoError(w, p.leads.Kill())
	w.create(makeJobSet("comes", w.replicated("w", "sleep 600", 2, resources("1", "1")))) // nobody is there
	p.swap(w)
	p.whole(w, "runs")
	p.whole(w, "comes")
}

func (p *pair) handsOver(w *world) {
	p.gang(w, "runs")
	p.allows(w, 1000)
	require.NoError(w, syscall.Kill(p.waits.PID(), syscall.SIGHUP))
	w.eventually("who stands by reads the map of identities, and lives", func(context.Context) (bool, string) {
		log := said(w, p.waits)
		return strings.Contains(log, "read the map of identities anew") && !strings.Contains(log, "msg=leading"), log
	})
	p.allows(w, 1)
	require.NoError(w, p.leads.Stop())
	w.create(makeJobSet("large", w.replicated("w", "sleep 600", 2, resources("1", "1")))) // in the gap
	p.swap(w)
	p.whole(w, "runs")
	w.eventually("no gang is decided by the map of before", func(context.Context) (bool, string) {
		seen := ""
		for _, pod := range w.jobSetPods("large") {
			seen += fmt.Sprintf("%s %s %s; ", pod.Name, pod.Status.Phase, pod.Status.Reason)
		}
		return strings.Contains(seen, wellknown.ReasonNotAllowed), seen
	})
	p.allows(w, 1000) // for the next case
	require.NoError(w, syscall.Kill(p.leads.PID(), syscall.SIGHUP))
	w.eventually("the leader has the map that allows more", func(context.Context) (bool, string) {
		log := said(w, p.leads)
		return strings.Count(log, "read the map of identities anew") == 3, log
	})
}

// allows has the map of identities bound a gang's pods.
func (p *pair) allows(w *world, pods int) {
	w.Helper()
	require.NoError(w, p.leads.Reconfigure(func(c *provider.Config) {
		c.Identity = identity.Map{{Identity: identity.Identity{Limits: identity.Limits{Pods: pods}}}}
	}))
}

func (p *pair) frozen(w *world) {
	p.gang(w, "runs")
	require.NoError(w, p.leads.Freeze())
	p.leading(w) // and waits for the lock, which the frozen one has
	old := p.leads
	require.NoError(w, old.Thaw())
	select {
	case <-old.Exited():
	case <-time.After(patience):
		require.Fail(w, "a leader without a lease went on")
	}
	assert.Contains(w, said(w, old), "another process may have it by now")
	p.swap(w)
	p.whole(w, "runs")
}
