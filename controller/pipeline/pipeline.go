package pipeline

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/framework"
)

// Pipeline runs a fixed list of plugins.
type Pipeline struct {
	plugins []framework.Plugin
}

// New makes a pipeline of plugins, which run in the order of the list.
func New(plugins ...framework.Plugin) *Pipeline {
	return &Pipeline{plugins: plugins}
}

// Watches are what the plugins want watched, in the Startup phase.
func (p *Pipeline) Watches() []framework.Watch {
	var watches []framework.Watch
	_ = each(p, func(w framework.Watcher) error {
		watches = append(watches, w.Watches()...)
		return nil
	})
	return watches
}

// Validate asks all validators, in the PreExecution phase. Old is nil for a new
// TrainJob. Whatever the Build phase would fail with is reported too, so that
// the user hears of it at admission.
func (p *Pipeline) Validate(ctx context.Context, in Input, old *v1alpha1.TrainJob) (admission.Warnings, field.ErrorList) {
	info, err := NewInfo(in)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(field.NewPath("spec"), in.TrainJob.Name, err.Error())}
	}
	var warnings admission.Warnings
	var errs field.ErrorList
	_ = each(p, func(v framework.Validator) error {
		w, e := v.Validate(ctx, info, old, in.TrainJob)
		warnings, errs = append(warnings, w...), append(errs, e...)
		return nil
	})
	if len(errs) > 0 {
		return warnings, errs
	}
	if _, err := p.Objects(ctx, in); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec"), in.TrainJob.Name, err.Error()))
	}
	return warnings, errs
}

// Objects builds everything but what is made once, such as keys.
func (p *Pipeline) Objects(ctx context.Context, in Input) ([]client.Object, error) {
	components, err := p.Build(ctx, in)
	if err != nil {
		return nil, err
	}
	var objects []client.Object
	for _, c := range components {
		if c.Policy == framework.Once {
			continue
		}
		object, err := c.Object()
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// Build runs the Build phase.
func (p *Pipeline) Build(ctx context.Context, in Input) ([]framework.Component, error) {
	info, err := NewInfo(in)
	if err != nil {
		return nil, err
	}
	if err := p.Enforce(info, in.TrainJob); err != nil {
		return nil, err
	}
	var components []framework.Component
	err = each(p, func(b framework.ComponentBuilder) error {
		more, err := b.Build(ctx, info, in.TrainJob)
		components = append(components, more...)
		return err
	})
	return components, err
}

// Enforce runs the part of the Build phase that changes info: ML policies, pod
// group policies, the pods' network, their nodes.
func (p *Pipeline) Enforce(info *framework.Info, trainJob *v1alpha1.TrainJob) error {
	err := each(p, func(e framework.MLPolicyEnforcer) error { return e.EnforceMLPolicy(info, trainJob) })
	if err != nil {
		return err
	}
	err = each(p, func(e framework.PodGroupPolicyEnforcer) error { return e.EnforcePodGroupPolicy(info, trainJob) })
	if err != nil {
		return err
	}
	err = each(p, func(n framework.PodNetworkIdentifier) error { return n.IdentifyPodNetwork(info, trainJob) })
	if err != nil {
		return err
	}
	return each(p, func(pl framework.Placer) error { return pl.Place(info, trainJob) })
}

// Status asks the reporters what a JobSet says of its TrainJob, in the
// PostExecution phase.
func (p *Pipeline) Status(trainJob *v1alpha1.TrainJob, jobSet *jobsetv1alpha2.JobSet) v1alpha1.TrainJobStatus {
	var status v1alpha1.TrainJobStatus
	_ = each(p, func(r framework.StatusReporter) error {
		s := r.Status(trainJob, jobSet)
		status.Conditions = append(status.Conditions, s.Conditions...)
		status.JobsStatus = append(status.JobsStatus, s.JobsStatus...)
		return nil
	})
	return status
}

// each calls do for every plugin that implements T, up to the first error.
func each[T framework.Plugin](p *Pipeline, do func(T) error) error {
	for _, plugin := range p.plugins {
		t, ok := plugin.(T)
		if !ok {
			continue
		}
		if err := do(t); err != nil {
			return fmt.Errorf("plugin %s: %w", plugin.Name(), err)
		}
	}
	return nil
}
