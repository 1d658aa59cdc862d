package kubelet

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// onePod is a node with one pod, which may have a place.
type onePod struct {
	Pods
	place *Place
}

func (o onePod) Pod(_ context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	if name != (types.NamespacedName{Namespace: "ns", Name: "pi"}) {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name.Name)
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pi", UID: "u"}}, nil
}

func (o onePod) Place(types.UID) (Place, bool) {
	if o.place == nil {
		return Place{}, false
	}
	return *o.place, true
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

// TestStreamsThatCannotBegin: they fail with kubelet's words and codes, before the
// connection becomes a stream.
func TestStreamsThatCannotBegin(t *testing.T) {
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: "gangline://u-main-0"}}
	status := func(uid string, done bool, c corev1.ContainerStatus) *spool.Status {
		c.Name = "main"
		return &spool.Status{
			Agent: spool.Agent{Node: "n1", Address: "127.0.0.1", SSHPort: 1},
			Pod:   &spool.PodStatus{UID: uid, Done: done, Containers: []corev1.ContainerStatus{c}},
		}
	}
	unreachable := "reaching pod ns/pi on n1: "
	for sentence, tc := range map[string]struct {
		path   string
		status *spool.Status
		code   int
		says   string
	}{
		"exec in a pod that does not exist":          {"/exec/ns/nobody/main", nil, 404, "pod does not exist\n"},
		"attach to a pod that does not exist":        {"/attach/ns/nobody/main", nil, 404, "pod does not exist\n"},
		"port-forward to a pod that does not exist":  {"/portForward/ns/nobody", nil, 404, "pod does not exist\n"},
		"exec in a pod that waits":                   {"/exec/ns/pi/main", nil, 500, "container not found (\"main\")\n"},
		"attach to a pod that waits":                 {"/attach/ns/pi/main", nil, 500, "container main not found in pod pi_ns\n"},
		"port-forward to a pod that waits":           {"/portForward/ns/pi", nil, 500, "pod not found (\"pi_ns\")\n"},
		"exec in a pod that is over":                 {"/exec/ns/pi/main", status("u", true, corev1.ContainerStatus{State: running()}), 500, "container not found (\"main\")\n"},
		"exec where another pod has the slot by now": {"/exec/ns/pi/main", status("v", false, corev1.ContainerStatus{State: running()}), 500, "container not found (\"main\")\n"},
		"exec in a container that the pod has not":   {"/exec/ns/pi/other", status("u", false, corev1.ContainerStatus{State: running()}), 500, "container not found (\"other\")\n"},
		"exec in a container that has ended":         {"/exec/ns/pi/main", status("u", false, corev1.ContainerStatus{State: ended}), 500, "container not found (\"main\")\n"},
		"attach to a container that waits for its turn": {"/attach/ns/pi/main", status("u", false, corev1.ContainerStatus{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: ended, ContainerID: "gangline://u-main-0",
		}), 500, "container main not found in pod pi_ns\n"},
		"exec while a hook runs goes on, to an agent that does not answer": {"/exec/ns/pi/main", status("u", false, corev1.ContainerStatus{
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}, LastTerminationState: ended, ContainerID: "gangline://u-main-1",
		}), 500, unreachable},
		"exec by an agent that does not answer":         {"/exec/ns/pi/main", status("u", false, corev1.ContainerStatus{State: running()}), 500, unreachable},
		"attach by an agent that does not answer":       {"/attach/ns/pi/main", status("u", false, corev1.ContainerStatus{State: running()}), 500, unreachable},
		"port-forward by an agent that does not answer": {"/portForward/ns/pi", status("u", false, corev1.ContainerStatus{State: running()}), 500, unreachable},
	} {
		t.Run(sentence, func(t *testing.T) {
			pods := onePod{}
			if tc.status != nil {
				dir := spool.Dir(t.TempDir())
				require.NoError(t, dir.Create(1))
				require.NoError(t, spool.Write(dir.Status(0), tc.status))
				pods.place = &Place{Site: site.Local{}, Dir: dir}
			}
			s := &streams{pods: pods}
			m := http.NewServeMux()
			m.Handle("/exec/{namespace}/{pod}/{container}", failing(s.exec))
			m.Handle("/attach/{namespace}/{pod}/{container}", failing(s.attach))
			m.Handle("/portForward/{namespace}/{pod}", failing(s.portForward))
			answer := httptest.NewRecorder()
			m.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, tc.path+"?output=1&command=true", nil))
			assert.Equal(t, tc.code, answer.Code)
			if tc.says == unreachable {
				assert.Contains(t, answer.Body.String(), unreachable)
				return
			}
			assert.Equal(t, tc.says, answer.Body.String())
		})
	}
}

func TestSizesEndWhenTheClientSendsNoMore(t *testing.T) {
	from := make(chan api.TermSize)
	to := sizes(t.Context(), from)
	send := func(width uint16) {
		select {
		case from <- api.TermSize{Width: width, Height: width}:
		case <-time.After(10 * time.Second):
			require.Fail(t, "nobody takes the size")
		}
	}
	send(0) // a client that does not know
	send(1)
	assert.Equal(t, sshd.Size{Columns: 1, Rows: 1}, <-to)
	send(0)
	send(0)
	_, more := <-to
	assert.False(t, more)
}

// goneClient is what a client leaves that has gone by a WebSocket: streams that fail.
type goneClient struct{ api.AttachIO }

func (goneClient) Stdin() io.Reader       { return nil }
func (goneClient) Stdout() io.WriteCloser { return brokenStream{} }
func (goneClient) Stderr() io.WriteCloser { return nil }
func (goneClient) TTY() bool              { return false }

type brokenStream struct{}

func (brokenStream) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (brokenStream) Close() error              { return nil }

func TestACommandEndsWhenNobodyTakesItsOutput(t *testing.T) {
	keys := sshdtest.Keys(t)
	client, err := sshd.Dial(t.Context(), sshdtest.Start(t, keys, sshdtest.Shell{}).String(), sshdtest.Credentials(keys))
	require.NoError(t, err)
	defer client.Close() //nolint:errcheck // the command has ended
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = runIn(ctx, client, "main", []string{"/bin/sh", "-c", "echo out; exec sleep 300"}, goneClient{})
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, ctx.Err(), "it has not waited for the command's own end")
}
