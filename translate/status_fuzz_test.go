package translate

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/translatetest"
)

// maxStatus is more than a pod of three containers says of itself: what an agent reports
// may have up to a megabyte.
const maxStatus = 64 << 10

// FuzzReport: whatever a file in the spool says of a pod, its status speaks of its own
// containers, is small, and is one that the API server can read.
func FuzzReport(f *testing.F) {
	long := strings.Repeat("\u20ac", 100_000)
	for _, report := range []spool.Status{
		{Agent: spool.Agent{Address: "10.0.0.1"}, Pod: &spool.PodStatus{UID: "u", Containers: []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}},
		{Agent: spool.Agent{Address: long}, Pod: &spool.PodStatus{Reason: long, Message: long, Done: true, Containers: []corev1.ContainerStatus{{
			Name: "main", ContainerID: long, ImageID: long, RestartCount: -1, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: long, Message: long}, Terminated: &corev1.ContainerStateTerminated{Message: long, Reason: long},
			}, LastTerminationState: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: long}},
		}, {Name: long}}}},
		{Agent: spool.Agent{Address: "kubernetes.default.svc"}, Pod: &spool.PodStatus{Interrupted: true}},
	} {
		text, err := json.Marshal(report)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"agent":{"address":"::1"},"pod":{"started":"9999-12-31T23:59:59-23:00","containers":[{"name":"main","state":{"running":{"startedAt":"0000-01-01T00:00:00+23:00"}}}]}}`))
	pod := translatetest.MakePod("p").Sidecar("helper").Container("second").Obj()
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
	names := map[string]bool{"main": true, "helper": true, "second": true, "debug": true}
	f.Fuzz(func(t *testing.T, text []byte) {
		var report spool.Status
		if spool.Decode("status.json", text, &report) != nil {
			return
		}
		before := pod.DeepCopy()
		for range 2 { // as it comes, and upon what it came to before
			o := Observation{Pod: before, Now: time.Unix(1_700_000_000, 0), Agent: &report.Agent, Observed: report.Pod}
			status := PodStatus(o)
			again := PodStatus(o)
			assert.Equal(t, status, again, "the same report gives the same status")
			encoded, err := json.Marshal(status)
			require.NoError(t, err)
			assert.Less(t, len(encoded), maxStatus)
			require.NoError(t, json.Unmarshal(encoded, &corev1.PodStatus{}), "%s", encoded)
			assert.True(t, isAddress(status.PodIP), "the pod's address is %q", status.PodIP)
			assert.True(t, isAddress(status.HostIP), "the host's address is %q", status.HostIP)
			for _, ip := range status.PodIPs {
				assert.True(t, ip.IP != "" && isAddress(ip.IP), "an address is %q", ip.IP)
			}
			for _, ip := range status.HostIPs {
				assert.True(t, ip.IP != "" && isAddress(ip.IP), "a host's address is %q", ip.IP)
			}
			for _, list := range [][]corev1.ContainerStatus{status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses} {
				for _, c := range list {
					assert.True(t, names[c.Name], c.Name)
					assert.GreaterOrEqual(t, c.RestartCount, int32(0))
				}
			}
			before.Status = status
		}
	})
}

// isAddress tells of a field that nobody has to look up.
func isAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return text == "" || err == nil
}
