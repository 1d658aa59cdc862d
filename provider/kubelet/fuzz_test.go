package kubelet

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/spool"
)

// The questions for logs come from whoever may ask for them.
func FuzzLogOptions(f *testing.F) {
	for _, query := range []string{
		"follow=true&tailLines=10", "tailLines=-1", "limitBytes=0", "sinceSeconds=9223372036854775807", "sinceTime=2026-01-02T03:04:05Z&sinceSeconds=1", "stream=Stdout", "stream=x", "follow&previous", "tailLines=x", "%zz",
	} {
		f.Add(query)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		o, err := logOptions(values)
		if err != nil || validateLogOptions(o) != nil {
			return
		}
		read := readOptions(o, nil)
		assert.True(t, read.TailLines == nil || *read.TailLines >= 0)
		assert.True(t, read.LimitBytes == nil || *read.LimitBytes > 0)
		assert.Contains(t, []string{"", "stdout", "stderr"}, read.Stream)
		if o.SinceSeconds != nil {
			assert.True(t, read.Since.Before(time.Now()), "so many seconds ago is in the past")
		}
	})
}

// An agent's report is its user's word: the node connects to an address, and asks no resolver
// for a name.
func TestTheNodeLooksUpNoNameOfAnAgents(t *testing.T) {
	for _, address := range []string{"kubernetes.default.svc", "localhost", "", "10.0.0.1:80", "10.0.0.1\n", "0x7f.1", "169.254.169.254/x"} {
		t.Run(address, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "pi"}}
			_, err := target{pod: pod, agent: spool.Agent{Address: address, SSHPort: 22}}.dial(t.Context()) // without a way to the site
			assert.ErrorContains(t, err, "no address that is one")
		})
	}
}
