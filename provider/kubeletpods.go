package provider

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/mpi/sshclient"
	"github.com/gangline/gangline/provider/kubelet"
)

// kubeletPods tells the node's API about its pods.
type kubeletPods struct {
	reader   client.Reader // holds this node's pods only
	live     client.Reader // asks the API server
	node     string
	registry *registry
	keys     keySource
}

var _ kubelet.Pods = (*kubeletPods)(nil)

func (k *kubeletPods) Pod(ctx context.Context, name types.NamespacedName) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	return pod, k.reader.Get(ctx, name, pod)
}

func (k *kubeletPods) List(ctx context.Context) ([]*corev1.Pod, error) {
	return listPods(ctx, k.reader)
}

func listPods(ctx context.Context, reader client.Reader, options ...client.ListOption) ([]*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := reader.List(ctx, list, options...); err != nil {
		return nil, fmt.Errorf("listing the node's pods: %w", err)
	}
	pods := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = &list.Items[i]
	}
	return pods, nil
}

// Running are the pods of which a container runs, as their statuses say. Whoever asks may
// have seen a status that the node's own copy does not have yet, so the API server tells.
func (k *kubeletPods) Running(ctx context.Context) ([]*corev1.Pod, error) {
	pods, err := listPods(ctx, k.live, client.MatchingFields{"spec.nodeName": k.node})
	runs := func(c corev1.ContainerStatus) bool { return c.State.Running != nil }
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool {
		return !slices.ContainsFunc(allStatuses(p), runs)
	}), err
}

func (k *kubeletPods) Place(pod types.UID) (kubelet.Place, bool) {
	a, slot, ok := k.registry.find(pod)
	if !ok {
		return kubelet.Place{}, false
	}
	keys, err := k.keys.keys(a.name())
	if err != nil {
		return kubelet.Place{}, false
	}
	return kubelet.Place{
		Site: a.site, Dir: a.dir, Slot: slot,
		Credentials: sshclient.Credentials{HostPublicKey: keys.HostPublic, ClientKey: keys.ClientPrivate},
	}, true
}
