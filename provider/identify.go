package provider

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"slices"

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
	var met []string
	var errs []error
	meet := func(name string) *hpcUser {
		u, err := r.people.user(name)
		if err != nil && !slices.Contains(met, name) {
			errs = append(errs, err)
		}
		met = append(met, name)
		return u
	}
	for _, p := range s.pods {
		if !terminal(p.pod) {
			if err := r.match(ctx, identities, p); err != nil {
				return err
			}
			if p.unmapped == nil {
				if u := meet(p.identity.User); s.user == nil {
					s.user, s.identity = u, p.identity
				}
			}
		}
		switch name := r.notedUser(p); {
		case name == "":
		case r.vouched(identities, p, name):
			meet(name)
		case r.placeUnknown(p):
			errs = append(errs, unproven(name))
		default:
			r.tellUnproven(s, p, name)
		}
	}
	if len(errs) > 0 {
		return &unmetError{errors.Join(errs...)}
	}
	return nil
}

// match finds whom a pod is mapped to now.
func (r *Reconciler) match(ctx context.Context, identities identity.Map, p *podState) error {
	subject, err := r.subject(ctx, identities, p.pod)
	if err != nil {
		return err
	}
	if p.identity, p.unmapped = identities.Match(subject); p.unmapped != nil || r.people.only == "" {
		return nil
	}
	if mapped := p.identity.User; mapped != "" && mapped != r.people.only {
		p.unmapped = fmt.Errorf("it is mapped to the HPC user %s, and this node acts as %s only: its access must be setuid, sudo or ssh", mapped, r.people.only)
	}
	p.identity.User = r.people.only
	return nil
}

// noteUser notes that the pod is accepted, and whose the gang is: should the map change, a
// later process knows by it in whose spool to look.
func (r *Reconciler) noteUser(s *state, p *podState, notes map[string]string) {
	if s.user == nil {
		return
	}
	if r.people.only == "" {
		notes[wellknown.AnnotationHPCUser] = s.user.name
	}
	notes[wellknown.AnnotationSeal] = r.keys.sealPod(p.uid(), notes[wellknown.AnnotationHPCUser])
}

// sealed tells whether the node itself has accepted a pod as what its annotations say.
func (r *Reconciler) sealed(pod *corev1.Pod) bool {
	seals := func(user string) bool {
		return hmac.Equal([]byte(pod.Annotations[wellknown.AnnotationSeal]), []byte(r.keys.sealPod(pod.UID, user)))
	}
	// A node that acts as one user notes none, and may find one that was noted before.
	return seals(pod.Annotations[wellknown.AnnotationHPCUser]) || r.people.only != "" && seals("")
}

// notedUser is the user that is noted on a pod, by whomever.
func (r *Reconciler) notedUser(p *podState) string {
	if r.people.only != "" || !p.accepted() {
		return ""
	}
	return p.pod.Annotations[wellknown.AnnotationHPCUser]
}

// vouched tells whether the spool may be read of the user that is noted on a pod, whose
// author can note anybody. The node's own seal says so, or the map, or that it is read in
// any case: only then is anything done as that user.
//
// Pods that a version without seals has accepted have none until they are written next.
func (r *Reconciler) vouched(identities identity.Map, p *podState, name string) bool {
	return r.sealed(p.pod) || r.people.knows(name) || slices.Contains(identities.Users(), name)
}

// placeUnknown tells whether a pod says that it has its place in an allocation of this node
// of which nothing is known. If that is true and it were decided about as a new pod, its
// gang would get a second job.
func (r *Reconciler) placeUnknown(p *podState) bool {
	name := p.pod.Annotations[wellknown.AnnotationAllocation]
	return r.registry.names.Own(name) && !r.registry.has(name) && r.registry.place(p.uid()) == nil
}

// maxToldUser is how much of a noted user is told, in bytes: an annotation may be very long.
const maxToldUser = 64

// unproven says why nothing is decided about a gang, and what helps.
func unproven(name string) error {
	return fmt.Errorf("as user %q: only the pod's annotation %s says so, without the node's seal; if the gang was submitted as that user, name it in a rule under identity, which need not fit any pod, and otherwise remove the annotation",
		bounded(name, maxToldUser), wellknown.AnnotationHPCUser)
}

// tellUnproven tells once that a pod's note has no effect.
func (r *Reconciler) tellUnproven(s *state, p *podState, name string) {
	if s.note.first(p.uid(), wellknown.AnnotationHPCUser) {
		r.event(p.pod, corev1.EventTypeWarning, "Ignored", "%s: %q: the node has not written that, and the map of identities alone says whose pods are whose",
			wellknown.AnnotationHPCUser, bounded(name, maxToldUser))
	}
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
