package provider

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/translatetest"
)

func TestAgentsEventsAreToldOnce(t *testing.T) {
	clientset := fake.NewClientset()
	fail := errors.New("no connection")
	clientset.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return fail != nil, nil, fail })
	pod := translatetest.MakePod("p").Sidecar("helper").Obj()
	pod.UID = "u"
	began := time.Unix(1000, 5)
	happened := func(n int) spool.Event {
		return spool.Event{
			Time: began.Add(time.Duration(n) * time.Second), Container: "main",
			Type: corev1.EventTypeWarning, Reason: "Unhealthy", Message: fmt.Sprint("number ", n),
		}
	}
	observed := &spool.PodStatus{Events: []spool.Event{happened(0), happened(1)}}
	observed.Events[1].Container = "helper"
	s, p := &state{note: &note{}}, &podState{pod: pod, observed: observed}
	r := &Reconciler{clientset: clientset, config: Config{NodeName: "hpc"}}
	told := func() []corev1.Event {
		list, err := clientset.CoreV1().Events(pod.Namespace).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		return list.Items
	}

	require.ErrorIs(t, r.tellAgent(t.Context(), s, p), fail)
	fail = nil
	require.NoError(t, r.tellAgent(t.Context(), s, p))
	require.Len(t, told(), 2, "what could not be told is tried again")
	require.NoError(t, r.tellAgent(t.Context(), s, p))
	require.NoError(t, r.tellAgent(t.Context(), &state{note: &note{}}, p), "a provider that begins anew")
	require.Len(t, told(), 2)
	first := told()[0]
	assert.Equal(t, "spec.containers{main}", first.InvolvedObject.FieldPath)
	assert.Equal(t, "spec.initContainers{helper}", told()[1].InvolvedObject.FieldPath)
	assert.Equal(t, pod.UID, first.InvolvedObject.UID)
	assert.Equal(t, corev1.EventSource{Component: "gangline-node", Host: "hpc"}, first.Source)
	assert.Equal(t, "number 0", first.Message)

	for n := range 100 {
		p.observed.Events = []spool.Event{happened(2 + n)}
		require.NoError(t, r.tellAgent(t.Context(), s, p))
	}
	assert.LessOrEqual(t, len(told()), agentEventsBurst, "an agent cannot flood the API server")

	fail = apierrors.NewNotFound(corev1.Resource("namespaces"), "gone")
	require.NoError(t, r.tellAgent(t.Context(), &state{note: &note{}}, p), "nobody is there to be told")
}

func TestAnEventThatIsRefusedHoldsNothingUp(t *testing.T) {
	quota := corev1.Resource("events")
	for sentence, tc := range map[string]struct {
		answer error
		again  bool
	}{
		"a quota":          {apierrors.NewForbidden(quota, "e", errors.New("exceeded quota")), false},
		"what is invalid":  {apierrors.NewInvalid(schema.GroupKind{Kind: "Event"}, "e", nil), false},
		"no answer":        {errors.New("no connection"), true},
		"too many at once": {apierrors.NewTooManyRequests("later", 1), true},
		"an overload":      {apierrors.NewServiceUnavailable("later"), true},
	} {
		t.Run(sentence, func(t *testing.T) {
			clientset := fake.NewClientset()
			clientset.PrependReactor("create", "events", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.answer })
			pod := translatetest.MakePod("p").Obj()
			p := &podState{pod: pod, observed: &spool.PodStatus{Events: []spool.Event{{Time: time.Unix(1, 0), Reason: "R"}}}}
			err := (&Reconciler{clientset: clientset}).tellAgent(t.Context(), &state{note: &note{}}, p)
			assert.Equal(t, tc.again, err != nil, "%v", err)
		})
	}
}

func TestAnAgentsEventIsBounded(t *testing.T) {
	pod := translatetest.MakePod("p").Obj()
	long := strings.Repeat("x", 1<<20)
	e := agentEvent(pod, spool.Event{Time: time.Unix(1, 0), Container: long, Type: long, Reason: long, Message: long}, "hpc")
	assert.Less(t, len(e.String()), 4<<10)
	assert.Empty(t, e.InvolvedObject.FieldPath, "of no container that the pod has")
}
