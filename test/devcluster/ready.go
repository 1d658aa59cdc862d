package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

const pollInterval = 50 * time.Millisecond

// poll asks again and again until the answer is no error. If the context ends first, the error says what was waited
// for and why it was not so yet.
func poll(ctx context.Context, what string, ask func(context.Context) error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	var last error
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		// The answer of a request that was broken off by the end of the context explains nothing.
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				last = errors.New("none")
			}
			return fmt.Errorf("wait for %s: %w (last answer: %w)", what, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}

// waitAPIServer waits until the API server is ready. Its answer is "forbidden" until it has made the RBAC rules it
// starts with, so a ready answer means that those are there as well.
func waitAPIServer(ctx context.Context, c kubernetes.Interface) error {
	return poll(ctx, "the API server", func(ctx context.Context) error {
		return c.CoreV1().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// waitNamespace waits for what a pod in the default namespace needs before it can be created or started.
func waitNamespace(ctx context.Context, c kubernetes.Interface) error {
	err := poll(ctx, "the default ServiceAccount", func(ctx context.Context) error {
		_, err := c.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	return poll(ctx, "the ConfigMap with the cluster's CA", func(ctx context.Context) error {
		_, err := c.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
		return err
	})
}

// waitJobSet waits until JobSets go through both webhooks. That they are configured is not enough, as the API server
// learns of it a little later. So it offers JobSets without storing them: one that must come back with defaults
// filled in, and one that must be refused. It begins at the given time.
func waitJobSet(ctx context.Context, c kubernetes.Interface, from time.Time) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("wait for JobSet: %w", context.Cause(ctx))
	case <-time.After(time.Until(from)):
	}
	err := poll(ctx, "JobSet's mutating webhook", func(ctx context.Context) error {
		answer, err := dryRunJobSet(ctx, c, probeJobSet())
		if err != nil {
			return err
		}
		if answer.Spec.StartupPolicy == nil {
			return errors.New("a JobSet was accepted without defaults")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return poll(ctx, "JobSet's validating webhook", func(ctx context.Context) error {
		probe := probeJobSet()
		probe.Spec.SuccessPolicy = &jobsetapi.SuccessPolicy{
			Operator:             jobsetapi.OperatorAll,
			TargetReplicatedJobs: []string{"missing"},
		}
		_, err := dryRunJobSet(ctx, c, probe)
		switch {
		case err == nil:
			return errors.New("a wrong JobSet was accepted")
		case strings.Contains(err.Error(), `admission webhook "vjobset.kb.io" denied the request`):
			return nil
		default:
			return err
		}
	})
}

func dryRunJobSet(ctx context.Context, c kubernetes.Interface, jobSet *jobsetapi.JobSet) (*jobsetapi.JobSet, error) {
	body, err := json.Marshal(jobSet)
	if err != nil {
		return nil, fmt.Errorf("encode the probe: %w", err)
	}
	result := c.CoreV1().RESTClient().Post().
		AbsPath("/apis", jobsetapi.GroupVersion.Group, jobsetapi.GroupVersion.Version).
		Namespace(metav1.NamespaceDefault).Resource("jobsets").
		Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		Body(body).Do(ctx)
	// This, and not the error of Raw, tells what the server said.
	if err := result.Error(); err != nil {
		return nil, err
	}
	answer, err := result.Raw()
	if err != nil {
		return nil, err
	}
	accepted := &jobsetapi.JobSet{}
	if err := json.Unmarshal(answer, accepted); err != nil {
		return nil, fmt.Errorf("decode the answer to the probe: %w", err)
	}
	return accepted, nil
}

func probeJobSet() *jobsetapi.JobSet {
	return &jobsetapi.JobSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: jobsetapi.GroupVersion.String(), Kind: "JobSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "probe", Namespace: metav1.NamespaceDefault},
		Spec: jobsetapi.JobSetSpec{ReplicatedJobs: []jobsetapi.ReplicatedJob{{
			Name:     "probe",
			Replicas: 1,
			Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
			}}},
		}}},
	}
}
