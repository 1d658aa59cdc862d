package provider

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate"
)

// tellAbsent tells which ConfigMaps and Secrets a pod names that do not exist,
// each once: without an optional one it runs, for a mandatory one it waits. The
// Events' reasons are virtual-kubelet's (OptionalSecretNotFound, …).
func (r *Reconciler) tellAbsent(s *state, p *podState, values translate.Inputs) {
	refs := translate.References(p.pod)
	r.tellAbsentPullSecrets(s, p, values)
	for _, ref := range refs.ConfigMaps {
		if values.ConfigMaps[ref.Name] == nil {
			r.tellAbsentObject(s, p, "ConfigMap", ref)
		}
	}
	for _, ref := range refs.Secrets {
		if values.Secrets[ref.Name] == nil {
			r.tellAbsentObject(s, p, "Secret", ref)
		}
	}
}

// tellAbsentPullSecrets tells, in kubelet's words, which of the Secrets for registries do
// not exist.
func (r *Reconciler) tellAbsentPullSecrets(s *state, p *podState, values translate.Inputs) {
	var absent []string
	for _, ref := range translate.PullSecrets(p.pod, s.hpc.forPod(p.wishes)) {
		if values.Secrets[ref.Name] == nil {
			absent = append(absent, ref.Name)
		}
	}
	const reason = "FailedToRetrieveImagePullSecret"
	if len(absent) > 0 && s.note.first(p.uid(), reason) {
		r.event(p.pod, corev1.EventTypeWarning, reason,
			"Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(absent, ", "))
	}
}

func (r *Reconciler) tellAbsentObject(s *state, p *podState, kind string, ref translate.Ref) {
	severity, need, consequence := corev1.EventTypeWarning, "Mandatory", "the pod waits for it"
	if ref.Optional {
		severity, need, consequence = corev1.EventTypeNormal, "Optional", "the pod runs without it"
	}
	reason := need + kind + "NotFound"
	if !s.note.first(p.uid(), reason+"/"+ref.Name) {
		return
	}
	r.event(p.pod, severity, reason, "%s %q does not exist: %s", kind, ref.Name, consequence)
}
