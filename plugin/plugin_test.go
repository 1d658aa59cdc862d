package plugin

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/util/exec"

	"github.com/gangline/gangline/plugin/plugintest"
	"github.com/gangline/gangline/test/golden"
)

var now = time.Date(2026, 1, 2, 13, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

// cluster is an API server with some gangs.
type cluster struct {
	kube      *fake.Clientset
	dynamic   *dynamicfake.FakeDynamicClient
	summary   func(context.Context, string) ([]byte, error)
	namespace string
}

func newCluster(t *testing.T, objects ...string) *cluster {
	requests := func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"), "nvidia.com/gpu": resource.MustParse("2"),
		}
	}
	train := func(name, rank string) *plugintest.Builder {
		return plugintest.Pod(name).Created(ago(time.Hour)).Gang("jobset/u/0", "JobSet/llm").JobSet("llm").Label("trainer.kubeflow.org/x", "").
			Rank(rank, "2").Job("57", ago(50*time.Minute)).On("hpc").HPCNode("gpu" + rank).Phase(corev1.PodRunning).Started(ago(10 * time.Minute)).Spec(requests)
	}
	wait := func(name, id string, submitted time.Duration) *plugintest.Builder {
		return plugintest.Pod(name).Created(ago(time.Hour)).Gang("pod/"+name, "Pod/"+name).Rank("0", "1").Job(id, ago(submitted)).On("hpc").
			Says("Queued", "Slurm job "+id+" is PENDING (Priority): jobs with a higher priority are before it")
	}
	kube := fake.NewClientset(
		train("llm-node-0-0-abcde", "0").Obj(), train("llm-node-0-1-fghij", "1").Obj(),
		wait("late", "60", 10*time.Minute).Obj(), wait("early", "59", 20*time.Minute).Obj(),
		wait("known", "61", time.Minute).Expected(now.Add(30*time.Minute)).Obj(),
		wait("theirs", "58", 30*time.Minute).Namespace("other").Obj(),
		plugintest.Pod("ring-0").Created(ago(time.Minute)).Gang("g", "Gang/ring").On("hpc").
			Says("WaitingForGang", "1 of 2 pods; missing: ring-1 (it does not exist)").Obj(),
		plugintest.Pod("web").Elsewhere().Obj(),
	)
	scheme := runtime.NewScheme()
	lists := map[schema.GroupVersionResource]string{jobSets: "JobSetList", trainJobs: "TrainJobList", podMetrics: "PodMetricsList"}
	var held []runtime.Object
	for _, data := range objects {
		u := &unstructured.Unstructured{}
		require.NoError(t, u.UnmarshalJSON([]byte(data)))
		held = append(held, u)
	}
	c := &cluster{kube: kube, dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(scheme, lists, held...), namespace: "default"}
	c.summary = func(context.Context, string) ([]byte, error) { return []byte(`{"pods":[]}`), nil }
	return c
}

// forbid has the user not have a right.
func (c *cluster) forbid(verb, resource, namespace string) {
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		if namespace != "any" && a.GetNamespace() != namespace {
			return false, nil, nil
		}
		return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("user ada cannot do that"))
	}
	c.kube.PrependReactor(verb, resource, refuse)
	c.dynamic.PrependReactor(verb, resource, refuse)
}

// run runs a command line.
func (c *cluster) run(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	env := &env{version: "v1", now: func() time.Time { return now }}
	env.connect = func(conn *connection) (*clients, error) {
		namespace := c.namespace
		if conn.overrides.Context.Namespace != "" {
			namespace = conn.overrides.Context.Namespace
		}
		return &clients{kube: c.kube, dynamic: c.dynamic, namespace: namespace, summary: c.summary}, nil
	}
	t.Setenv("KUBECONFIG", filepath.Join("testdata", "kubeconfig.yaml"))
	cmd := newCommand(env)
	cmd.SetArgs(args)
	cmd.SetOut(&o)
	cmd.SetErr(&e)
	cmd.SetIn(strings.NewReader(""))
	err = cmd.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

const (
	jobSetLLM   = `{"apiVersion":"jobset.x-k8s.io/v1alpha2","kind":"JobSet","metadata":{"namespace":"default","name":"llm","uid":"js"},"status":{"restarts":1}}`
	trainJobLLM = `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"namespace":"default","name":"llm","uid":"tj"}}`
	trainJobNew = `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","metadata":{"namespace":"default","name":"new","uid":"tj2",
"creationTimestamp":"2026-01-02T12:00:00Z"},"spec":{"suspend":true}}`
	metricsLLM = `{"apiVersion":"metrics.k8s.io/v1beta1","kind":"PodMetrics","metadata":{"namespace":"default","name":"llm-node-0-0-abcde"},
"containers":[{"name":"main","usage":{"cpu":"1500m","memory":"512Mi"}},{"name":"side","usage":{"cpu":"10m","memory":"1Mi"}}]}`
)

func TestOutputs(t *testing.T) {
	for name, args := range map[string][]string{
		"gangs.txt":         {"gangs"},
		"gangs-wide.txt":    {"gangs", "-A", "-o", "wide"},
		"gangs-one.txt":     {"gangs", "llm", "--no-headers"},
		"gangs-name.txt":    {"gangs", "-o", "name"},
		"gangs.json":        {"gangs", "trainjob/llm", "-o", "json"},
		"gangs.yaml":        {"gangs", "ring", "-o", "yaml"},
		"queue.txt":         {"queue"},
		"queue-theirs.txt":  {"queue", "-n", "other"},
		"why.txt":           {"why", "llm"},
		"why-pod.txt":       {"why", "pod", "llm-node-0-1-fghij"},
		"why-suspended.txt": {"why", "tj/new"},
		"why.yaml":          {"why", "early", "-o", "yaml"},
		"top.txt":           {"top"},
		"top-pods.txt":      {"top", "--pods", "-A"},
		"top.json":          {"top", "-o", "json"},
		"logs.txt":          {"logs", "trainjob/llm"},
		"logs-colours.txt":  {"logs", "llm", "--color=always"},
		"version.txt":       {"version"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, jobSetLLM, trainJobLLM, trainJobNew)
			c.dynamic.PrependReactor("list", podMetrics.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
				u := unstructured.Unstructured{}
				err := u.UnmarshalJSON([]byte(metricsLLM))
				return true, &unstructured.UnstructuredList{Items: []unstructured.Unstructured{u}}, err
			})
			c.summary = func(_ context.Context, node string) ([]byte, error) {
				return os.ReadFile(filepath.Join("testdata", "summary-"+node+".json"))
			}
			out, errs, err := c.run(t, args...)
			require.NoError(t, err)
			if name == "version.txt" {
				assert.Contains(t, out, "kubectl-gangline v1 (go")
				return
			}
			golden.Equal(t, "testdata/"+name, out)
			assert.Empty(t, errs)
		})
	}
}

func TestWhatTheUserMayNotRead(t *testing.T) {
	cases := map[string]struct {
		verb, resource, namespace string
		args                      []string
		fails, says, shows        string
	}{
		"pods of the namespace":       {"list", "pods", "default", []string{"gangs"}, "you may not list pods in namespace default: ask its administrator", "", ""},
		"pods of all namespaces":      {"list", "pods", "", []string{"gangs", "-A"}, "in all namespaces: name one of yours with --namespace", "", ""},
		"the queue of all namespaces": {"list", "pods", "", []string{"queue"}, "", "this is namespace default only", "pod/early"},
		"Events":                      {"list", "events", "default", []string{"why", "llm"}, "", "Not taken into account: you may not list events", "TrainJob llm (2 pods) runs"},
		"TrainJobs":                   {"get", "trainjobs", "default", []string{"why", "llm"}, "", "you may not get trainjobs", "TrainJob llm (2 pods) runs"},
		"JobSets":                     {"get", "jobsets", "default", []string{"why", "llm"}, "", "you may not get jobsets", "TrainJob llm (2 pods) runs"},
		"pods, but TrainJobs":         {"list", "pods", "default", []string{"why", "tj/new"}, "", "you may not list pods", "is suspended"},
		"metrics":                     {"list", "pods", "default", []string{"gangs"}, "you may not list pods", "", ""},
		"logs of what cannot be seen": {"list", "pods", "default", []string{"logs", "llm"}, "you may not list pods", "", ""},
		"a follower's pods":           {"list", "pods", "default", []string{"logs", "-f", "llm"}, "you may not list pods", "", ""},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, jobSetLLM, trainJobLLM, trainJobNew)
			c.forbid(test.verb, test.resource, test.namespace)
			out, errs, err := c.run(t, test.args...)
			if test.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.fails)
			}
			assert.Contains(t, errs, test.says)
			assert.Contains(t, out, test.shows)
		})
	}
}

func TestMistakesAreExplained(t *testing.T) {
	for says, args := range map[string][]string{
		"there is no gang nothing in namespace default":                        {"why", "nothing"},
		"pod web is none of Gangline's":                                        {"why", "pod/web"},
		`"deployment" is no kind that makes gangs`:                             {"why", "deployment/x"},
		"there is no output format \"xml\": write one of wide, name":           {"gangs", "-o", "xml"},
		"--watch has no output format json":                                    {"gangs", "-w", "-o", "json"},
		"--color is \"green\": write auto":                                     {"logs", "llm", "--color=green"},
		"--since-time is \"yesterday\": write a time":                          {"logs", "llm", "--since-time=yesterday"},
		"no pod of llm has a container \"side\"":                               {"logs", "llm", "-c", "side"},
		"there is no gang absent":                                              {"logs", "-f", "absent"},
		"pod early does not run: it is Queued; \"kubectl gangline why":         {"ssh", "early"},
		"gang trainjob/llm has no pod of rank 7: its pods have the ranks 0, 1": {"ssh", "--rank", "7", "llm"},
		"gang jobset/done has ended (Completed), and no pod of it runs":        {"ssh", "done"},
		"gang jobset/done has ended (Completed)":                               {"ssh", "--rank", "3", "jobset/done"},
		"no pod of Job nobody in namespace default is Gangline's":              {"why", "job/nobody"},
		"name a gang, TrainJob, JobSet, Job or pod":                            {"why"},
		`"c" is too much: name a gang`:                                         {"why", "job", "b", "c"},
		"name a gang or pod, as in trainjob/pi":                                {"logs"},
		"name a pod, or a gang as in trainjob/pi":                              {"ssh"},
		"there is no gang nobody in namespace default: \"kubectl gangli":       {"ssh", "nobody"},
	} {
		t.Run(says, func(t *testing.T) {
			c := newCluster(t)
			require.NoError(t, c.kube.Tracker().Add(plugintest.Pod("done-launcher-0-0-x").Gang("d", "JobSet/done").Rank("1", "4").
				Job("50", ago(time.Hour)).On("hpc").HPCNode("gpu0").Phase(corev1.PodSucceeded).Obj()))
			_, _, err := c.run(t, args...)
			require.ErrorContains(t, err, says)
		})
	}
}

func TestAGangWhosePodsWereRemoved(t *testing.T) {
	c := newCluster(t)
	require.NoError(t, c.kube.Tracker().Add(plugintest.Pod("done-launcher-0-0-x").Gang("d", "JobSet/done").Rank("1", "4").
		Job("50", ago(2*time.Hour)).Created(ago(time.Hour)).On("hpc").HPCNode("gpu0").Phase(corev1.PodSucceeded).Obj()))
	out, _, err := c.run(t, "gangs", "done", "--no-headers")
	require.NoError(t, err)
	assert.Equal(t, "jobset/done 4/4 50 Completed <none> gpu0,... 120m", strings.Join(strings.Fields(out), " "))
}

func TestTopWithoutMetrics(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		says string
	}{
		"no metrics-server":      {apierrors.NewNotFound(schema.GroupResource{}, ""), "the cluster has no metrics-server"},
		"one that does not work": {apierrors.NewServiceUnavailable("down"), "metrics-server does not answer"},
		"no right":               {apierrors.NewForbidden(schema.GroupResource{}, "", nil), "you may not list pods.metrics.k8s.io"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.dynamic.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, test.err })
			c.summary = func(context.Context, string) ([]byte, error) {
				return nil, apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "hpc", nil)
			}
			out, errs, err := c.run(t, "top")
			require.NoError(t, err)
			assert.Contains(t, errs, test.says)
			assert.Contains(t, errs, `the right "get" on "nodes/proxy"`)
			assert.Contains(t, out, "trainjob/llm", "what was asked for is shown all the same")
			assert.Contains(t, out, "4000m")
		})
	}
}

func TestCompletion(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"gangs":           {[]string{"gangs", "r"}, []string{"ring"}},
		"gangs by kind":   {[]string{"logs", "trainjob/"}, []string{"trainjob/llm"}},
		"one gang only":   {[]string{"logs", "llm", ""}, nil},
		"pods":            {[]string{"ssh", "llm-"}, []string{"llm-node-0-0-abcde", "llm-node-0-1-fghij"}},
		"TrainJobs":       {[]string{"why", "trainjob/"}, []string{"trainjob/llm", "trainjob/new"}},
		"of a kind":       {[]string{"why", "tj", ""}, []string{"llm", "new"}},
		"namespaces":      {[]string{"gangs", "-n", ""}, []string{"research", "teaching"}},
		"contexts":        {[]string{"gangs", "--context", ""}, []string{"one", "two"}},
		"formats":         {[]string{"gangs", "-o", ""}, []string{"wide", "name", "json", "yaml"}},
		"colours of logs": {[]string{"logs", "--color", ""}, []string{"auto", "always", "never"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, trainJobLLM, trainJobNew)
			c.forbid("list", "namespaces", "any")
			out, _, err := c.run(t, Args(append([]string{"/usr/local/bin/kubectl_complete-gangline"}, test.args...))...)
			require.NoError(t, err)
			words := strings.Split(strings.TrimSpace(out), "\n")
			assert.Equal(t, test.want, append([]string(nil), words[:len(words)-1]...), out) // the last one is cobra's directive
		})
	}
}

func TestArgs(t *testing.T) {
	assert.Equal(t, []string{"gangs", "-A"}, Args([]string{"/bin/kubectl-gangline", "gangs", "-A"}))
}

func TestExitCode(t *testing.T) {
	code, silent := ExitCode(exec.CodeExitError{Err: errors.New("x"), Code: 3})
	assert.Equal(t, 3, code)
	assert.True(t, silent)
	code, silent = ExitCode(io.EOF)
	assert.Equal(t, 1, code)
	assert.False(t, silent)
}

func TestWrap(t *testing.T) {
	assert.Equal(t, "one two\nthree\nfour", wrap("one two  three four", 7))
	assert.Equal(t, "averylongword\nx", wrap("averylongword x", 5))
}

// A watch prints what there is, then what has changed, then ends with its context.
func TestWatch(t *testing.T) {
	c := newCluster(t)
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	l := lister{
		env:     &env{now: func() time.Time { return now }},
		clients: &clients{kube: c.kube, dynamic: c.dynamic, namespace: "other"},
		table:   table{out: writer},
	}
	ended := make(chan error, 1)
	go func() { ended <- l.watch(ctx, t.Output()) }()
	line := func() string {
		t.Helper()
		var b strings.Builder
		one := make([]byte, 1)
		for !strings.HasSuffix(b.String(), "\n") {
			_, err := reader.Read(one)
			require.NoError(t, err)
			b.Write(one)
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	assert.Equal(t, "GANG PODS JOB STATE REASON NODES AGE", line())
	assert.Equal(t, "pod/theirs 0/1 58 Queued Priority <none> 60m", line())
	pod, err := c.kube.CoreV1().Pods("other").Get(ctx, "theirs", metav1.GetOptions{})
	require.NoError(t, err)
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodRunning, "", ""
	pod.Annotations["gangline.dev/hpc-node"] = "gpu7"
	_, err = c.kube.CoreV1().Pods("other").Update(ctx, pod, metav1.UpdateOptions{})
	require.NoError(t, err)
	assert.Equal(t, "pod/theirs 1/1 58 Running <none> gpu7 60m", line())
	cancel()
	require.NoError(t, <-ended)
}
