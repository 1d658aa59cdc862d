package podcheck

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetv1alpha2 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// remembered is how many answers are kept. TrainJobs of one user differ little
// in what is asked, so a burst of them asks but once.
const remembered = 1024

// Checker asks and remembers.
type Checker struct {
	client client.Client
	known  *lru.Cache
}

// New makes a checker that asks by c.
func New(c client.Client) *Checker {
	return &Checker{client: c, known: lru.New(remembered)}
}

// Problems are what the API server has against the pods of a JobSet's spec, one
// line each; none if it would take them, or does not say.
func (c *Checker) Problems(ctx context.Context, namespace string, spec *jobsetv1alpha2.JobSetSpec) []string {
	var problems []string
	for _, job := range spec.ReplicatedJobs {
		for _, problem := range c.template(ctx, namespace, job.Template.Spec.Template) {
			problems = append(problems, fmt.Sprintf("the pods of job %s: %s", job.Name, problem))
		}
	}
	return problems
}

func (c *Checker) template(ctx context.Context, namespace string, template corev1.PodTemplateSpec) []string {
	question := essence(template)
	text, err := json.Marshal(question)
	if err != nil {
		return []string{err.Error()}
	}
	key := sha256.Sum256(text)
	if answer, ok := c.known.Get(key); ok {
		return answer.([]string)
	}
	err = c.client.Create(ctx, &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "gangline-check-", Namespace: namespace},
		Template:   question,
	}, client.DryRunAll)
	if err != nil && !apierrors.IsInvalid(err) {
		return nil // a quota, a policy, an outage: no word about the pods
	}
	answer := causes(err)
	c.known.Add(key, answer)
	return answer
}

// essence is the template without what is different in every TrainJob and does
// not matter to its validity: the values of variables.
func essence(template corev1.PodTemplateSpec) corev1.PodTemplateSpec {
	t := *template.DeepCopy()
	if t.Spec.RestartPolicy == "" {
		t.Spec.RestartPolicy = corev1.RestartPolicyOnFailure // JobSet's default
	}
	for _, containers := range [][]corev1.Container{t.Spec.InitContainers, t.Spec.Containers} {
		for i := range containers {
			for j := range containers[i].Env {
				if v := &containers[i].Env[j]; v.ValueFrom == nil {
					v.Value = ""
				}
			}
		}
	}
	return t
}

// causes are the reasons of a refusal; none of a nil error.
func causes(err error) []string {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil || len(status.Status().Details.Causes) == 0 {
		return []string{err.Error()}
	}
	var lines []string
	for _, cause := range status.Status().Details.Causes {
		lines = append(lines, cause.Field+": "+cause.Message)
	}
	return lines
}
