package provider

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// unmetError says that nothing can be decided about a gang, since the spool of a user
// whose it may be has not been read yet.
type unmetError struct{ error }

// identify finds out whose each pod's gangs are, and makes sure that the spools are read
// in which something of this gang may be: that of the user whom it is mapped to, and
// that of the one it was submitted as.
func (r *Reconciler) identify(ctx context.Context, s *state) error {
	identities := r.identities.get() // one map for all pods of a gang
	var errs []error
	meet := func(name string) *hpcUser {
		u, err := r.people.user(name)
		if err != nil {
			errs = append(errs, err)
		}
		return u
	}
	for _, p := range s.pods {
		if name := p.pod.Annotations[wellknown.AnnotationHPCUser]; name != "" && p.accepted() && r.people.only == "" {
			meet(name)
		}
		if terminal(p.pod) {
			continue
		}
		subject, err := r.subject(ctx, identities, p.pod)
		if err != nil {
			return err
		}
		if p.identity, p.unmapped = identities.Match(subject); p.unmapped != nil {
			continue
		}
		if r.people.only != "" {
			if mapped := p.identity.User; mapped != "" && mapped != r.people.only {
				p.unmapped = fmt.Errorf("it is mapped to the HPC user %s, and this node acts as %s only: its access must be setuid, sudo or ssh", mapped, r.people.only)
				continue
			}
			p.identity.User = r.people.only
		}
		if u := meet(p.identity.User); s.user == nil {
			s.user, s.identity = u, p.identity
		}
	}
	if len(errs) > 0 {
		return &unmetError{errors.Join(errs...)}
	}
	return nil
}

// subject is what the map of identities goes by.
func (r *Reconciler) subject(ctx context.Context, m identity.Map, pod *corev1.Pod) (identity.Subject, error) {
	subject := identity.Subject{Namespace: pod.Namespace, ServiceAccount: pod.Spec.ServiceAccountName, Partition: r.config.Partition}
	if !m.NeedsLabels() {
		return subject, nil
	}
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.live.Get(ctx, client.ObjectKey{Name: pod.Namespace}, namespace); err != nil {
		return subject, fmt.Errorf("reading the labels of namespace %s, which say whose its gangs are: %w", pod.Namespace, err)
	}
	subject.NamespaceLabels = namespace.Labels
	return subject, nil
}

// settle fixes whose the gang is: an allocation that lives keeps its user, whatever the
// map says by now.
func (r *Reconciler) settle(s *state) {
	if s.alloc != nil && s.alloc.live() {
		if s.user == nil || s.user.name != s.alloc.gang.User {
			s.user, _ = r.people.user(s.alloc.gang.User)
			s.identity = identity.Identity{User: s.alloc.gang.User}
		}
	}
	s.hpc = r.hpc().as(s.identity)
}

// foreign refuses a pod that is nobody's on the HPC side, or another user's than its
// gang. What has a place in an allocation keeps it.
func (s *state) foreign(p *podState) *translate.Rejection {
	if p.before != nil || s.alloc != nil && s.alloc.live() {
		return nil
	}
	message := ""
	switch {
	case p.unmapped != nil:
		message = p.unmapped.Error()
	case p.identity.User != s.identity.User:
		message = fmt.Sprintf("its gang is one job of the HPC user %s, and this pod's ServiceAccount %q is mapped to %s: give all pods of the gang ServiceAccounts of one user",
			s.identity.User, p.pod.Spec.ServiceAccountName, p.identity.User)
	default:
		return nil
	}
	return &translate.Rejection{Reason: wellknown.ReasonNoHPCUser, Field: "spec.serviceAccountName", Message: message}
}

// waitForSite tells the pods that nothing can be done for them now, and why.
func (r *Reconciler) waitForSite(s *state, unmet *unmetError) {
	if message := unmet.Error(); message != s.note.unmet && !errors.Is(unmet, errBeingRead) {
		s.note.unmet = message
		r.eventAll(s, corev1.EventTypeWarning, wellknown.ReasonSiteUnreachable, "Nothing can be learnt or changed on the HPC side %s; it is tried again", message)
	}
}
