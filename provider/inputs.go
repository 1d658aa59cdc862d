package provider

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate"
)

// startAge is how old what a starting pod refers to may be: pods that start together
// share one look.
const startAge = time.Second

// timesGrain is what the API server cuts off the time of an object's creation.
const timesGrain = time.Second

// inputs fetches what pods refer to.
type inputs struct {
	r *Reconciler
	// site is what the gang's user has on the HPC side.
	site translate.Site
	// maxAge is how old it may be.
	maxAge time.Duration
	// began is when these inputs were made, for pods that were there; zero for those
	// that have started already.
	began time.Time
	// renewals counts the tokens that were asked for to follow changes.
	renewals int
}

func newInputs(r *Reconciler, site translate.Site) *inputs {
	return &inputs{r: r, site: site, maxAge: startAge, began: r.objects.clock.Now()}
}

// age is how old what a pod refers to may be. A starting pod sees all that was there
// before itself: what was read before that does not count.
func (in *inputs) age(pod *corev1.Pod) time.Duration {
	if in.began.IsZero() {
		return in.maxAge
	}
	now := in.r.objects.clock.Now()
	surely := now.Sub(pod.CreationTimestamp.Add(timesGrain)) // the pod has been there
	return min(in.maxAge, max(surely, now.Sub(in.began)))
}

// of returns the objects that a pod names. What does not exist is left out:
// whether that matters is for translate to say.
func (in *inputs) of(ctx context.Context, pod *corev1.Pod, refs translate.Refs) (translate.Inputs, error) {
	out := translate.Inputs{
		ConfigMaps: map[string]*corev1.ConfigMap{},
		Secrets:    map[string]*corev1.Secret{},
		Tokens:     map[translate.TokenKey]string{},
		Site:       in.site,
	}
	age := in.age(pod)
	for _, ref := range refs.ConfigMaps {
		m, err := read[corev1.ConfigMap](ctx, in.r.objects, types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}, age)
		if err != nil {
			return out, err
		}
		if m != nil {
			out.ConfigMaps[ref.Name] = m
		}
	}
	for _, ref := range refs.Secrets {
		s, err := read[corev1.Secret](ctx, in.r.objects, types.NamespacedName{Namespace: pod.Namespace, Name: ref.Name}, age)
		if err != nil {
			return out, err
		}
		if s != nil {
			out.Secrets[ref.Name] = s
		}
	}
	claims, err := in.claims(ctx, pod.Namespace, refs.Claims, age)
	if err != nil {
		return out, err
	}
	out.Claims = claims
	services, err := in.services(ctx, pod.Namespace, refs.ServiceLinks)
	if err != nil {
		return out, err
	}
	out.Services = services
	for _, key := range refs.Tokens {
		token, err := in.r.tokens.of(ctx, pod, key)
		if err != nil {
			return out, err
		}
		out.Tokens[key] = token
	}
	return out, nil
}

// claims are claims with the volumes that they are bound to.
func (in *inputs) claims(ctx context.Context, namespace string, names []string, age time.Duration) (map[string]translate.Claim, error) {
	claims := map[string]translate.Claim{}
	for _, name := range names {
		claim, err := read[corev1.PersistentVolumeClaim](ctx, in.r.objects, types.NamespacedName{Namespace: namespace, Name: name}, age)
		if err != nil {
			return nil, err
		}
		if claim == nil {
			continue
		}
		c := translate.Claim{Claim: claim}
		if volume := claim.Spec.VolumeName; volume != "" {
			if c.Volume, err = read[corev1.PersistentVolume](ctx, in.r.objects, types.NamespacedName{Name: volume}, age); err != nil {
				return nil, err
			}
		}
		claims[name] = c
	}
	return claims, nil
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

// forgetInputs drops what is remembered for a pod that needs nothing any more.
func (r *Reconciler) forgetInputs(uid types.UID) {
	r.tokens.forget(uid)
	r.updates.forget(uid)
}

func podUID(d spool.Desired) types.UID { return types.UID(d.PodUID) }
