package provider

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/translate"
)

// tellAbsent tells which ConfigMaps and Secrets a pod names that do not exist,
// each once: without an optional one it runs, for a mandatory one it waits. The
// Events' reasons are virtual-kubelet's (OptionalSecretNotFound, …).
func (r *Reconciler) tellAbsent(s *state, p *podState, values translate.Inputs) {
	refs := translate.References(p.pod)
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

func (r *Reconciler) tellAbsentObject(s *state, p *podState, kind string, ref translate.Ref) {
	severity, need, consequence := corev1.EventTypeWarning, "Mandatory", "the pod waits for it"
	if ref.Optional {
		severity, need, consequence = corev1.EventTypeNormal, "Optional", "the pod runs without it"
	}
	reason := need + kind + "NotFound"
	if !s.note.first(string(p.uid()) + "/" + reason + "/" + ref.Name) {
		return
	}
	r.event(p.pod, severity, reason, "%s %q does not exist: %s", kind, ref.Name, consequence)
}
