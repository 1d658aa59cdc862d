package manager

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"github.com/gangline/gangline/controller/config"
)

// While the webhooks are away, what they have to check is not written; and nothing else waits
// for them: they see no pod, no Secret, and nothing of others.
func TestWebhooksFailClosedAndSeeTheirOwnOnly(t *testing.T) {
	c, err := config.Load("", "")
	require.NoError(t, err)
	own := func(name string, policy *admissionv1.FailurePolicyType, effects *admissionv1.SideEffectClass, rules []admissionv1.RuleWithOperations) {
		assert.Equal(t, admissionv1.Fail, *policy, name)
		assert.Equal(t, admissionv1.SideEffectClassNone, *effects, name)
		require.NotEmpty(t, rules, name)
		for _, r := range rules {
			assert.Equal(t, []string{"trainer.kubeflow.org"}, r.APIGroups, name)
			assert.NotContains(t, r.Operations, admissionv1.Delete, name)
			for _, resource := range r.Resources {
				assert.Contains(t, []string{"trainjobs", "trainingruntimes", "clustertrainingruntimes"}, resource, name)
			}
		}
	}
	seen := 0
	for _, object := range WebhookConfigurations(c, "ns", "") {
		switch w := object.(type) {
		case *admissionv1.MutatingWebhookConfiguration:
			for _, hook := range w.Webhooks {
				own(hook.Name, hook.FailurePolicy, hook.SideEffects, hook.Rules)
				seen++
			}
		case *admissionv1.ValidatingWebhookConfiguration:
			for _, hook := range w.Webhooks {
				own(hook.Name, hook.FailurePolicy, hook.SideEffects, hook.Rules)
				seen++
			}
		}
	}
	assert.Equal(t, 4, seen)
}
