package kubelet

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestLogOptions(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC))
	for query, want := range map[string]*corev1.PodLogOptions{
		"":                     {},
		"follow=true&previous": {Follow: true, Previous: true},
		"follow=false&timestamps=0&previous=FALSE": {},
		"tailLines=0":                    {TailLines: ptr.To[int64](0)},
		"tailLines=-1":                   {TailLines: ptr.To[int64](-1)},
		"limitBytes=10&sinceSeconds=5":   {LimitBytes: ptr.To[int64](10), SinceSeconds: ptr.To[int64](5)},
		"sinceTime=2026-03-04T05:06:07Z": {SinceTime: &at},
		"stream=Stderr":                  {Stream: ptr.To(corev1.LogStreamStderr)},
		"timestamps=true&unknown=1":      {Timestamps: true},
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		got, err := logOptions(values)
		require.NoError(t, err, query)
		assert.Equal(t, want, got, query)
	}
	for _, query := range []string{"tailLines=x", "limitBytes=1.5", "sinceSeconds=99999999999999999999", "sinceTime=yesterday"} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		_, err = logOptions(values)
		assert.Error(t, err, query)
	}
}

func TestLogOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	for query, says := range map[string]string{
		"":                             "",
		"tailLines=0&limitBytes=1":     "",
		"stream=All&tailLines=3":       "",
		"stream=Stdout&sinceSeconds=1": "",
		"tailLines=-1":                 "tailLines",
		"limitBytes=0":                 "limitBytes",
		"sinceSeconds=0":               "sinceSeconds",
		"sinceSeconds=-3":              "sinceSeconds",
		"stream=stdout":                "stream",
		"stream=Stdout&tailLines=3":    "mutually exclusive",
		"sinceSeconds=1&sinceTime=2026-03-04T05:06:07Z": "at most one",
	} {
		values, err := url.ParseQuery(query)
		require.NoError(t, err)
		options, err := logOptions(values)
		require.NoError(t, err, query)
		err = validateLogOptions(options)
		if says == "" {
			assert.NoError(t, err, query)
			continue
		}
		assert.ErrorContains(t, err, says, query)
	}
}

func TestWhichRunsLogIsShown(t *testing.T) {
	ended := func(run string) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ContainerID: "gangline://0b3c-4d-main-" + run}
	}
	waiting := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for sentence, tc := range map[string]struct {
		status   corev1.ContainerStatus
		previous bool
		runs     []int
		want     int
		says     string
	}{
		"the one that runs":                                     {status: corev1.ContainerStatus{State: running, RestartCount: 3}, want: 3},
		"the one that has ended":                                {status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: ended("2")}, RestartCount: 2}, want: 2},
		"the last one while the next waits":                     {status: corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: corev1.ContainerState{Terminated: ended("4")}, RestartCount: 4}, want: 4},
		"the one before the one that runs":                      {previous: true, status: corev1.ContainerStatus{State: running, RestartCount: 3, LastTerminationState: corev1.ContainerState{Terminated: ended("2")}}, want: 2},
		"the last one, as the one before, while the next waits": {previous: true, status: corev1.ContainerStatus{State: waiting("CrashLoopBackOff", ""), LastTerminationState: corev1.ContainerState{Terminated: ended("4")}}, want: 4},
		"none before the first":                                 {previous: true, status: corev1.ContainerStatus{State: running}, says: `previous terminated container "main" in pod "web" not found`},
		"none of one that waits":                                {status: corev1.ContainerStatus{State: waiting("ContainerCreating", "")}, says: `container "main" in pod "web" is waiting to start: ContainerCreating`},
		"none of one that is queued":                            {status: corev1.ContainerStatus{State: waiting("Queued", "Priority")}, says: `is waiting to start: Queued: Priority`},
		"none of one of which nothing is known":                 {says: `container "main" in pod "web" is waiting to start: ContainerCreating`},
		"the newest there is if nobody tells":                   {status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, runs: []int{5, 6}, want: 6},
		"none of one that ended without a run":                  {status: corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}, says: `container "main" in pod "web" is terminated`},
	} {
		t.Run(sentence, func(t *testing.T) {
			tc.status.Name = "main"
			got, err := chooseRun("web", tc.status, tc.previous, tc.runs)
			if tc.says != "" {
				var failure *httpError
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, http.StatusBadRequest, failure.code)
				assert.True(t, strings.Contains(failure.message, tc.says), failure.message)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}
