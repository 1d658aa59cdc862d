package webhook

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/gangline/gangline/controller/api/v1alpha1"
)

// patchTimer stamps a TrainJob's patches with the time of their last change.
//
// It answers with these times alone and is therefore not a Defaulter, whose
// answer is all that differs between the request and the decoded object: that
// rewrites quantities ("1000m" to "1") in fields that are immutable, and the
// update is refused.
type patchTimer struct {
	decoder admission.Decoder
	clock   clock.PassiveClock
}

var _ admission.Handler = (*patchTimer)(nil)

// Handle answers a request to create or update a TrainJob.
func (p *patchTimer) Handle(_ context.Context, req admission.Request) admission.Response {
	var old, changed v1alpha1.TrainJob
	if err := p.decoder.DecodeRaw(req.Object, &changed); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the TrainJob: %w", err))
	}
	if req.Operation == admissionv1.Update {
		if err := p.decoder.DecodeRaw(req.OldObject, &old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the TrainJob before its change: %w", err))
		}
	}
	return admission.Patched("", stamps(old.Spec.RuntimePatches, changed.Spec.RuntimePatches, p.clock.Now())...)
}

// stamps are the operations that set the times of the patches.
func stamps(old, changed []v1alpha1.RuntimePatch, now time.Time) []jsonpatch.Operation {
	before := make(map[string]*v1alpha1.RuntimePatch, len(old))
	for i := range old {
		before[old[i].Manager] = &old[i]
	}
	var operations []jsonpatch.Operation
	for i := range changed {
		has, wants := changed[i].Time, stamp(before[changed[i].Manager], &changed[i], now)
		path := fmt.Sprintf("/spec/runtimePatches/%d/time", i)
		switch {
		case has.Equal(wants):
		case wants == nil:
			operations = append(operations, jsonpatch.NewOperation("remove", path, nil))
		default:
			operations = append(operations, jsonpatch.NewOperation("add", path, wants))
		}
	}
	return operations
}

// stamp is the time that a patch is to have: a new patch may bring its own, one
// that is unchanged keeps its time, and one that has changed has changed now.
func stamp(old, changed *v1alpha1.RuntimePatch, now time.Time) *metav1.Time {
	switch {
	case old == nil && changed.Time != nil:
		return changed.Time
	case old != nil && equality.Semantic.DeepEqual(old.TrainingRuntimeSpec, changed.TrainingRuntimeSpec):
		return old.Time
	}
	return &metav1.Time{Time: now}
}
