package statusserver

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/trainertest"
	"github.com/gangline/gangline/test/harness"
)

// world is a real API server with a TrainJob in it, and a status server.
type world struct {
	client  client.Client
	control *harness.ControlPlane
	dir     string // the control plane's
	server  *httptest.Server
}

const objects = `
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
---
apiVersion: v1
kind: Namespace
metadata: {name: team-b}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: trainer, namespace: team-a}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: trainer, namespace: team-b}
---
apiVersion: v1
kind: Pod
metadata: {name: fine-tune-node-0-0, namespace: team-a}
spec:
  serviceAccountName: trainer
  containers: [{name: node, image: pytorch}]
---
apiVersion: v1
kind: Pod
metadata: {name: gone, namespace: team-a}
spec:
  serviceAccountName: trainer
  containers: [{name: node, image: pytorch}]
---
apiVersion: trainer.kubeflow.org/v1alpha1
kind: TrainJob
metadata: {name: fine-tune, namespace: team-a}
spec: {runtimeRef: {name: torch}, suspend: true}
`

func start(t *testing.T) *world {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	w := &world{dir: t.TempDir()}
	w.control, err = harness.StartControlPlane(t.Context(), filepath.Join(root, "bin"), w.dir, t.Output())
	require.NoError(t, err, "make devcluster builds the control plane")
	t.Cleanup(func() { assert.NoError(t, w.control.Stop(context.Background())) })
	w.kubectl(t, "", "create", "-f", filepath.Join(root, "charts", "gangline", "crds"))
	w.kubectl(t, "", "wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
	w.kubectl(t, objects, "create", "-f", "-")

	config, err := clientcmd.BuildConfigFromFlags("", w.control.Kubeconfig())
	require.NoError(t, err)
	config.QPS = -1 // the test need not wait
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	w.client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	w.server = httptest.NewTLSServer(New(Options{Client: w.client, Log: testr.New(t)}).Handler())
	t.Cleanup(w.server.Close)
	return w
}

func (w *world) kubectl(t *testing.T, stdin string, args ...string) {
	t.Helper()
	_, err := w.control.Kubectl(t.Context(), stdin, args...)
	require.NoError(t, err)
}

// token is what the kubelet would put into a pod: bound to it, unless pod is "".
func (w *world) token(t *testing.T, namespace, pod string, audiences ...string) string {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: audiences, ExpirationSeconds: ptr.To[int64](3600),
	}}
	if pod != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod}
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "trainer"}}
	require.NoError(t, w.client.SubResource("token").Create(t.Context(), account, request))
	return request.Status.Token
}

// send sends a request with a token and returns the answer.
func (w *world) send(t *testing.T, method, path, token string, body io.Reader) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.server.URL+path, body)
	require.NoError(t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := w.server.Client().Do(request)
	require.NoError(t, err)
	defer response.Body.Close() //nolint:errcheck // all has been read
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	assert.Equal(t, "application/json", response.Header.Get("Content-Type"))
	return response.StatusCode, string(text)
}

// trainJob is the TrainJob as it is now.
func (w *world) trainJob(t *testing.T) *v1alpha1.TrainJob {
	t.Helper()
	trainJob := &v1alpha1.TrainJob{}
	require.NoError(t, w.client.Get(t.Context(), client.ObjectKey{Namespace: "team-a", Name: "fine-tune"}, trainJob))
	return trainJob
}

func TestReportsAtARealAPIServer(t *testing.T) {
	w := start(t)
	path, audience := Path("team-a", "fine-tune"), Audience("team-a", "fine-tune")
	token := w.token(t, "team-a", "fine-tune-node-0-0", audience)

	t.Run("a report becomes the TrainJob's trainerStatus", func(t *testing.T) {
		const report = `{"trainerStatus":{"progressPercentage":40,"estimatedRemainingSeconds":90,"metrics":[{"name":"loss","value":"0.5"}],"lastUpdatedTime":"2026-01-02T03:04:05Z"}}`
		code, answer := w.send(t, http.MethodPost, path, token, strings.NewReader(report))
		assert.Equal(t, http.StatusOK, code)
		assert.JSONEq(t, report, answer)
		trainJob := w.trainJob(t)
		assert.YAMLEq(t, `
progressPercentage: 40
estimatedRemainingSeconds: 90
metrics: [{name: loss, value: "0.5"}]
lastUpdatedTime: "2026-01-02T03:04:05Z"
`, trainertest.YAML(t, trainJob.Status.TrainerStatus))
		owners := map[string]string{}
		for _, m := range trainJob.ManagedFields {
			owners[m.Manager] = string(m.Operation) + " " + m.Subresource
		}
		assert.Equal(t, "Apply status", owners["trainer-status"])
	})

	t.Run("a later report replaces it, and leaves conditions alone", func(t *testing.T) {
		w.kubectl(t, "", "patch", "trainjob", "fine-tune", "-n", "team-a", "--subresource=status", "--type=merge", "-p",
			`{"status":{"conditions":[{"type":"Suspended","status":"True","reason":"Suspended","message":"m","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}`)
		code, _ := w.send(t, http.MethodPost, path, token,
			strings.NewReader(`{"trainerStatus":{"progressPercentage":41,"lastUpdatedTime":"2026-01-02T03:05:05Z"}}`))
		assert.Equal(t, http.StatusOK, code)
		status := w.trainJob(t).Status
		assert.YAMLEq(t, `{progressPercentage: 41, lastUpdatedTime: "2026-01-02T03:05:05Z"}`, trainertest.YAML(t, status.TrainerStatus))
		assert.Len(t, status.Conditions, 1)
	})

	t.Run("a report without a trainerStatus is taken and not written", func(t *testing.T) {
		before := w.trainJob(t).ResourceVersion
		code, answer := w.send(t, http.MethodPost, path, token, strings.NewReader(`{}`))
		assert.Equal(t, http.StatusOK, code)
		assert.JSONEq(t, `{}`, answer)
		assert.Equal(t, before, w.trainJob(t).ResourceVersion)
	})

	w.refusals(t, token, audience)
}

// refusals are the answers other than 200. None of them may change the TrainJob.
func (w *world) refusals(t *testing.T, token, audience string) {
	path := Path("team-a", "fine-tune")
	body := `{"trainerStatus":{"progressPercentage":99,"lastUpdatedTime":"2026-01-02T03:06:05Z"}}`
	big := `{"trainerStatus":{"metrics":[` + strings.Repeat(`{"name":"m","value":"0.5"},`, 3000) + `]}}`
	gone := w.token(t, "team-a", "gone", audience)
	w.kubectl(t, "", "delete", "pod", "gone", "-n", "team-a", "--now", "--wait")
	forge := newForger(t, w.dir, token)

	for name, tc := range map[string]struct {
		method, path, token string
		body                io.Reader
		want                string
	}{
		"no token": {token: "-", want: "403 Forbidden"},
		"garbage":  {token: "garbage", want: "403 Forbidden"},
		"the administrator's kind of token, without an audience of ours": {
			token: w.token(t, "team-a", ""), want: "403 Forbidden",
		},
		"a token for another TrainJob": {
			token: w.token(t, "team-a", "", Audience("team-a", "other")), want: "403 Forbidden",
		},
		"a token for the same name in another namespace": {
			token: w.token(t, "team-a", "", Audience("team-b", "fine-tune")), want: "403 Forbidden",
		},
		"a ServiceAccount of another namespace, with our audience": {
			token: w.token(t, "team-b", "", audience), want: "403 Forbidden",
		},
		"a token of a pod that is gone": {token: gone, want: "403 Forbidden"},
		"a token that has expired":      {token: forge.token(t, -time.Minute), want: "403 Forbidden"},
		"a token signed by another key": {token: forge.withOwnKey(t), want: "403 Forbidden"},

		"another method":          {method: http.MethodPut, want: "404 NotFound Not found"},
		"a read":                  {method: http.MethodGet, want: "404 NotFound Not found"},
		"another path":            {path: "/apis", want: "404 NotFound Not found"},
		"a longer path":           {path: path + "/more", want: "404 NotFound Not found"},
		"a TrainJob that is none": {path: Path("team-a", "none"), token: w.token(t, "team-a", "", Audience("team-a", "none")), want: "404 NotFound Train job not found"},
		"a name that can be none": {path: Path("team-a", "a%2Fb"), token: w.token(t, "team-a", "", Audience("team-a", "a/b")), want: "404 NotFound Train job not found"},

		"a body too large":                     {body: strings.NewReader(big), want: "413 RequestEntityTooLarge Payload too large"},
		"a body too large, length not said":    {body: io.MultiReader(strings.NewReader(big)), want: "413 RequestEntityTooLarge Payload too large"},
		"a body too large of somebody unknown": {token: "garbage", body: io.MultiReader(strings.NewReader(big)), want: "403 Forbidden"},
		"no body":                              {body: strings.NewReader(""), want: "422 Invalid Invalid payload"},
		"a body that is no JSON":               {body: strings.NewReader("progress=40"), want: "422 Invalid Invalid payload"},
		"a value out of range": {
			body: strings.NewReader(`{"trainerStatus":{"progressPercentage":101,"lastUpdatedTime":"2026-01-02T03:06:05Z"}}`),
			want: "422 Invalid status.trainerStatus.progressPercentage",
		},
		"no time": {
			body: strings.NewReader(`{"trainerStatus":{"progressPercentage":1}}`),
			want: "422 Invalid lastUpdatedTime is required when trainerStatus is present",
		},
	} {
		t.Run(name, func(t *testing.T) {
			method, at, bearer, what := http.MethodPost, path, token, io.Reader(strings.NewReader(body))
			if tc.method != "" {
				method = tc.method
			}
			if tc.path != "" {
				at = tc.path
			}
			if tc.token != "" {
				bearer = strings.Trim(tc.token, "-")
			}
			if tc.body != nil {
				what = tc.body
			}
			before := w.trainJob(t).ResourceVersion
			code, answer := w.send(t, method, at, bearer, what)
			var status metav1.Status
			require.NoError(t, json.Unmarshal([]byte(answer), &status), answer)
			assert.Equal(t, metav1.StatusFailure, status.Status)
			assert.EqualValues(t, code, status.Code)
			words := strings.SplitN(tc.want, " ", 3)
			assert.Equal(t, words[0], strconv.Itoa(code), answer)
			assert.Equal(t, words[1], string(status.Reason), answer)
			if len(words) == 3 {
				assert.Contains(t, status.Message, words[2])
			}
			assert.Equal(t, before, w.trainJob(t).ResourceVersion, "nothing may be written")
		})
	}
	t.Run("the forged tokens fail for what they claim to fail for", func(t *testing.T) {
		code, answer := w.send(t, http.MethodPost, path, forge.token(t, time.Hour), strings.NewReader(`{}`))
		assert.Equal(t, http.StatusOK, code, answer)
	})
}

func TestAnAPIServerThatDoesNotAnswerIsAnInternalError(t *testing.T) {
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	config, err := clientcmd.BuildConfigFromFlags(silent.URL, "")
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	w := &world{server: httptest.NewTLSServer(New(Options{Client: c, Log: testr.New(t)}).Handler())}
	t.Cleanup(w.server.Close)
	code, answer := w.send(t, http.MethodPost, Path("a", "b"), "token", strings.NewReader(`{}`))
	assert.Equal(t, http.StatusInternalServerError, code)
	assert.JSONEq(t, `{"metadata":{},"status":"Failure","message":"Internal error","reason":"InternalError","code":500}`, answer)
}

// certificate is one for 127.0.0.1.
func certificate(t *testing.T) (*tls.Config, *http.Client) {
	t.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return &tls.Config{Certificates: s.TLS.Certificates}, s.Client() //nolint:gosec // a test's
}
