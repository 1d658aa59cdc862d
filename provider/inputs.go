package provider

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// inputs fetches what pods refer to, by name and once for all pods of one
// reconciliation. ConfigMaps and Secrets come from the API server itself, so
// that the node need not watch, nor be allowed to list, everybody's.
type inputs struct {
	r          *Reconciler
	configMaps map[types.NamespacedName]fetched[*corev1.ConfigMap]
	secrets    map[types.NamespacedName]fetched[*corev1.Secret]
}

// fetched is what the API server said of a name.
type fetched[T client.Object] struct {
	object T
	exists bool
}

func newInputs(r *Reconciler) *inputs {
	return &inputs{
		r:          r,
		configMaps: map[types.NamespacedName]fetched[*corev1.ConfigMap]{},
		secrets:    map[types.NamespacedName]fetched[*corev1.Secret]{},
	}
}

// of returns the objects that a pod names. What does not exist is left out:
// whether that matters is for translate to say.
func (in *inputs) of(ctx context.Context, pod *corev1.Pod) (translate.Inputs, error) {
	refs := translate.References(pod)
	out := translate.Inputs{
		ConfigMaps: map[string]*corev1.ConfigMap{},
		Secrets:    map[string]*corev1.Secret{},
		Tokens:     map[translate.TokenKey]string{},
	}
	for _, ref := range refs.ConfigMaps {
		if err := fetch(ctx, in.r.live, in.configMaps, out.ConfigMaps, pod.Namespace, ref.Name, &corev1.ConfigMap{}); err != nil {
			return out, err
		}
	}
	for _, ref := range refs.Secrets {
		if err := fetch(ctx, in.r.live, in.secrets, out.Secrets, pod.Namespace, ref.Name, &corev1.Secret{}); err != nil {
			return out, err
		}
	}
	services, err := in.services(ctx, pod.Namespace, refs.ServiceLinks)
	if err != nil {
		return out, err
	}
	out.Services = services
	for _, key := range refs.Tokens {
		token, err := in.token(ctx, pod, key)
		if err != nil {
			return out, err
		}
		out.Tokens[key] = token
	}
	return out, nil
}

// fetch reads one object, remembers it, and puts it into found if it exists.
func fetch[T client.Object](ctx context.Context, reader client.Reader, memory map[types.NamespacedName]fetched[T], found map[string]T, namespace, name string, obj T) error {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if have, ok := memory[key]; ok {
		if have.exists {
			found[name] = have.object
		}
		return nil
	}
	err := reader.Get(ctx, key, obj)
	if apierrors.IsNotFound(err) {
		memory[key] = fetched[T]{}
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %T %s: %w", obj, key, err)
	}
	memory[key], found[name] = fetched[T]{obj, true}, obj
	return nil
}

// services are those whose variables kubelet gives a pod: its namespace's, and
// always default/kubernetes.
func (in *inputs) services(ctx context.Context, namespace string, all bool) ([]*corev1.Service, error) {
	var services []*corev1.Service
	kubernetes := &corev1.Service{}
	err := in.r.client.Get(ctx, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}, kubernetes)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Service of the API server: %w", err)
	}
	if err == nil {
		services = append(services, kubernetes)
	}
	if !all {
		return services, nil
	}
	list := &corev1.ServiceList{}
	if err := in.r.client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing the Services of namespace %s: %w", namespace, err)
	}
	for i := range list.Items {
		services = append(services, &list.Items[i])
	}
	return services, nil
}

// token asks for a ServiceAccount token that is bound to the pod, for as long
// as the pod's volume says (kubelet: pkg/kubelet/token).
func (in *inputs) token(ctx context.Context, pod *corev1.Pod, key translate.TokenKey) (string, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: &key.ExpirationSeconds,
		BoundObjectRef:    &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID},
	}}
	if key.Audience != "" {
		request.Spec.Audiences = []string{key.Audience}
	}
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	response, err := in.r.clientset.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, account, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", pod.Namespace, account, err)
	}
	return response.Status.Token, nil
}

func podUID(d spool.Desired) types.UID { return types.UID(d.PodUID) }
