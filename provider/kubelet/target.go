package kubelet

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

// dialTimeout bounds the wait for an HPC node that may be gone.
const dialTimeout = 20 * time.Second

// target is the pod that a stream is for, and what its agent says of it.
type target struct {
	pod   *corev1.Pod
	place Place
	agent spool.Agent
	// observed is nil for a pod that has not begun or is over.
	observed *spool.PodStatus
}

// target finds the pod that a request names.
func (s *streams) target(r *http.Request) (target, error) {
	name := types.NamespacedName{Namespace: r.PathValue("namespace"), Name: r.PathValue("pod")}
	pod, err := s.pods.Pod(r.Context(), name)
	if apierrors.IsNotFound(err) {
		return target{}, &httpError{http.StatusNotFound, "pod does not exist"}
	}
	if err != nil {
		return target{}, err
	}
	t := target{pod: pod}
	place, ok := s.pods.Place(pod.UID)
	if !ok {
		return t, nil
	}
	t.place = place
	var status spool.Status
	if _, err := site.ReadJSON(r.Context(), place.Site, place.Dir.Status(place.Slot), &status); err != nil {
		return target{}, fmt.Errorf("looking for pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if p := status.Pod; p != nil && p.UID == string(pod.UID) && !p.Done {
		t.agent, t.observed = status.Agent, p
	}
	return t, nil
}

// fullName is how kubelet calls a pod.
func (t target) fullName() string { return t.pod.Name + "_" + t.pod.Namespace }

// runs tells whether a container has a process, as its agent sees it: that is newer
// than what the API server has.
func (t target) runs(container string) bool {
	if t.observed == nil {
		return false
	}
	all := slices.Concat(t.observed.InitContainers, t.observed.Containers, t.observed.EphemeralContainers)
	return slices.ContainsFunc(all, func(c corev1.ContainerStatus) bool {
		return c.Name == container && hasProcess(c)
	})
}

// hasProcess tells that a container runs, or that its postStart hook does: only then
// has a container an id and no end of that run.
func hasProcess(c corev1.ContainerStatus) bool {
	ended := c.LastTerminationState.Terminated
	return c.State.Running != nil ||
		c.State.Waiting != nil && c.ContainerID != "" && (ended == nil || ended.ContainerID != c.ContainerID)
}

// dial connects to the SSH service of the slot that the pod is in.
func (t target) dial(ctx context.Context) (*sshd.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	// The report is its user's word. A name could mean anything to this process's resolver.
	ip, err := netip.ParseAddr(t.agent.Address)
	if err != nil {
		return nil, failed("the agent of pod %s/%s reports no address that is one", t.pod.Namespace, t.pod.Name)
	}
	address := net.JoinHostPort(ip.String(), strconv.Itoa(t.agent.SSHPort))
	conn, err := t.place.Site.DialContext(ctx, "tcp", address)
	var client *sshd.Client
	if err == nil {
		client, err = sshd.DialOver(ctx, conn, t.place.Credentials)
	}
	if err != nil {
		return nil, fmt.Errorf("reaching pod %s/%s on %s: %w", t.pod.Namespace, t.pod.Name, t.agent.Node, err)
	}
	return client, nil
}
