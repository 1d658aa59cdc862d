package manager

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/statusserver"
	"github.com/gangline/gangline/controller/trainertest"
)

const torchRuntime = `
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
      - name: node
        template:
          metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
          spec: {template: {spec: {containers: [{name: node, image: pytorch}]}}}
`

func trainJob(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: %s, namespace: default}
spec: {runtimeRef: {name: torch}, suspend: true, %s}
`, name, spec)
}

func TestTheControllerAtARealAPIServer(t *testing.T) {
	w := start(t)
	t.Run("probes have their configured names", func(t *testing.T) {
		assert.NoError(t, w.probe(t, "ready"))
		assert.NoError(t, w.probe(t, "live"))
		assert.ErrorContains(t, w.probe(t, "readyz"), "404")
	})
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"everybody may read the version", w.version},
		{"a TrainJob is admitted and built", w.admits},
		{"what is wrong is refused", w.refuses},
		{"trainings report to the status server", w.reports},
		{"metrics are for those who may see them", w.measures},
		{"certificates are renewed while it runs", w.renews},
		{"an end is orderly and gives up the lease", w.ends},
	} {
		if !t.Run(step.name, step.run) {
			return // the next ones build on it
		}
	}
	assert.NotContains(t, strings.ToLower(w.log.String()), "forbidden", "a right is missing in rbac.yaml")
}

func (w *world) version(t *testing.T) {
	eventually(t, "the version is public", func() error {
		out, err := w.control.Kubectl(t.Context(), "", "get", "configmap", "kubeflow-trainer-public", "-n", "kubeflow-system",
			"--as=somebody", "-o=jsonpath={.data.kubeflow_trainer_version}")
		if err == nil && out != "v2.3.0" {
			err = fmt.Errorf("it is %q", out)
		}
		return err
	})
}

func (w *world) admits(t *testing.T) {
	w.kubectl(t, torchRuntime, "create", "-f", "-")
	w.kubectl(t, trainJob("admitted", "runtimePatches: [{manager: kueue.x-k8s.io/manager}]"), "create", "-f", "-")
	job := &v1alpha1.TrainJob{}
	key := client.ObjectKey{Namespace: "default", Name: "admitted"}
	require.NoError(t, w.client.Get(t.Context(), key, job))
	require.Len(t, job.Spec.RuntimePatches, 1)
	assert.NotNil(t, job.Spec.RuntimePatches[0].Time, "the mutating webhook sets it")

	jobSet := &jobsetv1alpha2.JobSet{}
	eventually(t, "the TrainJob has a JobSet", func() error { return w.client.Get(t.Context(), key, jobSet) })
	env := jobSet.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Env
	assert.Contains(t, env, corev1.EnvVar{
		Name: "KUBEFLOW_TRAINER_SERVER_URL",
		Value: fmt.Sprintf("https://kubeflow-trainer-controller-manager.kubeflow-system.svc:%d", w.status) +
			statusserver.Path("default", "admitted"),
	})
	eventually(t, "it is suspended", func() error {
		if err := w.client.Get(t.Context(), key, job); err != nil {
			return err
		}
		if len(job.Status.Conditions) == 0 {
			return fmt.Errorf("no condition: %s", trainertest.YAML(t, job.Status))
		}
		return nil
	})
}

func (w *world) refuses(t *testing.T) {
	job := trainertest.Parse[v1alpha1.TrainJob](t, trainJob("refused", "initializer: {dataset: {}}"))
	err := w.client.Create(t.Context(), job)
	assert.True(t, apierrors.IsForbidden(err), "%v", err)
	assert.ErrorContains(t, err, `admission webhook "validator.trainjob.trainer.kubeflow.org" denied the request`)
	assert.ErrorContains(t, err, "must have dataset-initializer job when trainJob is configured with input datasetConfig")
}

func (w *world) reports(t *testing.T) {
	ca := &corev1.ConfigMap{}
	eventually(t, "the TrainJob's pods have the authority", func() error {
		return w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "admitted-tls-config"}, ca)
	})
	c := trusting(t, []byte(ca.Data["ca.crt"]), w.status)
	url := "https://status" + statusserver.Path("default", "admitted")
	token := w.token(t, "default", "default", statusserver.Audience("default", "admitted"))
	body := `{"trainerStatus":{"progressPercentage":7,"lastUpdatedTime":"2026-01-02T03:04:05Z"}}`
	code, answer, err := send(t, c, http.MethodPost, url, token, strings.NewReader(body))
	require.NoError(t, err)
	assert.Equal(t, http.StatusOK, code, answer)
	job := &v1alpha1.TrainJob{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "admitted"}, job))
	require.NotNil(t, job.Status.TrainerStatus)
	assert.EqualValues(t, 7, *job.Status.TrainerStatus.ProgressPercentage)

	code, _, err = send(t, c, http.MethodPost, url, w.token(t, "default", "default"), strings.NewReader(body))
	require.NoError(t, err)
	assert.Equal(t, http.StatusForbidden, code, "a token for something else")
}

func (w *world) measures(t *testing.T) {
	w.kubectl(t, `
apiVersion: v1
kind: ServiceAccount
metadata: {name: scraper, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: scraper}
rules: [{nonResourceURLs: [/metrics, /debug/pprof/*], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: scraper}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: scraper}
subjects: [{kind: ServiceAccount, name: scraper, namespace: default}]
`, "create", "-f", "-")
	c := trusting(t, w.authority(t), w.metrics)
	for account, want := range map[string]int{
		"": http.StatusUnauthorized, "default": http.StatusForbidden, "scraper": http.StatusOK,
	} {
		token := ""
		if account != "" {
			token = w.token(t, "default", account)
		}
		code, body, err := get(t, c, "https://metrics/metrics", token)
		require.NoError(t, err)
		assert.Equal(t, want, code, account)
		if want == http.StatusOK {
			assert.Contains(t, body, `controller_runtime_reconcile_total{controller="trainjob"`)
			assert.Contains(t, body, `gangline_build_info{`)
			assert.Contains(t, body, `gangline_trainjobs{state="suspended"} `)
		}
		code, _, err = get(t, c, "https://metrics/debug/pprof/goroutine", token)
		require.NoError(t, err)
		assert.Equal(t, want, code, "a profile for %q", account)
	}
}

func (w *world) renews(t *testing.T) {
	before := w.authority(t)
	// As at the end of its life, but sooner.
	w.kubectl(t, "", "patch", "secret", "kubeflow-trainer-webhook-cert", "-n", "kubeflow-system",
		"--type=json", "-p", `[{"op":"remove","path":"/data/ca.crt"}]`)
	var after []byte
	eventually(t, "there is another authority", func() error {
		if after = w.authority(t); bytes.Equal(before, after) {
			return fmt.Errorf("still the old one")
		}
		return nil
	})
	for name, port := range map[string]int{"webhook": w.webhook, "metrics": w.metrics, "status": w.status} {
		eventually(t, "the "+name+" server shows a certificate of the new authority", func() error {
			_, _, err := get(t, trusting(t, after, port), "https://any/", "")
			return err
		})
	}
	eventually(t, "TrainJobs are admitted again", func() error {
		_, err := w.control.Kubectl(t.Context(), trainJob("renewed", ""), "apply", "-f", "-")
		return err
	})
	eventually(t, "new TrainJobs' pods have the new authority", func() error {
		ca := &corev1.ConfigMap{}
		err := w.client.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "renewed-tls-config"}, ca)
		if err == nil && ca.Data["ca.crt"] != string(after) {
			err = fmt.Errorf("it is another")
		}
		return err
	})
}

func (w *world) ends(t *testing.T) {
	lease := "get lease trainer.kubeflow.org -n kubeflow-system -o=jsonpath={.spec.holderIdentity}"
	assert.NotEmpty(t, w.kubectl(t, "", strings.Fields(lease)...))
	w.stop()
	select {
	case err := <-w.ended:
		assert.NoError(t, err)
	case <-time.After(patience):
		t.Fatal("the controller does not end")
	}
	assert.Empty(t, w.kubectl(t, "", strings.Fields(lease)...))
}
