package manager

import (
	"bytes"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	configv1alpha1 "github.com/gangline/gangline/controller/api/config/v1alpha1"
	"github.com/gangline/gangline/controller/api/v1alpha1"
	"github.com/gangline/gangline/controller/webhook"
)

// The names of the webhook configurations, as Kubeflow Trainer's.
const (
	MutatingConfiguration   = "defaulter.trainer.kubeflow.org"
	ValidatingConfiguration = "validator.trainer.kubeflow.org"
)

// WebhookConfigurations tell the API server what to ask the controller. It is
// reached by its Service or, where the API server is outside the cluster's
// network, by a base URL such as https://localhost:9443. The certificate
// authority is filled in by whoever manages certificates.
func WebhookConfigurations(c configv1alpha1.Configuration, namespace, url string) []client.Object {
	reach := func(path string) admissionv1.WebhookClientConfig {
		if url != "" {
			return admissionv1.WebhookClientConfig{URL: ptr.To(strings.TrimSuffix(url, "/") + path)}
		}
		return admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{
			Namespace: namespace, Name: c.CertManagement.WebhookServiceName, Path: ptr.To(path),
		}}
	}
	return []client.Object{
		&admissionv1.MutatingWebhookConfiguration{
			TypeMeta:   typeMeta("MutatingWebhookConfiguration"),
			ObjectMeta: metav1.ObjectMeta{Name: MutatingConfiguration},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name:                    "defaulter.trainjob.trainer.kubeflow.org",
				ClientConfig:            reach(webhook.PathMutateTrainJob),
				Rules:                   onWrites("trainjobs"),
				FailurePolicy:           ptr.To(admissionv1.Fail),
				SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
				AdmissionReviewVersions: []string{"v1"},
				MatchConditions:         whatIsDefaulted(),
			}},
		},
		&admissionv1.ValidatingWebhookConfiguration{
			TypeMeta:   typeMeta("ValidatingWebhookConfiguration"),
			ObjectMeta: metav1.ObjectMeta{Name: ValidatingConfiguration},
			Webhooks: []admissionv1.ValidatingWebhook{
				validating("clustertrainingruntime", reach, unlessSwitchedOff()),
				validating("trainingruntime", reach, unlessSwitchedOff()),
				validating("trainjob", reach, nil),
			},
		},
	}
}

// WebhookManifest is WebhookConfigurations as YAML.
func WebhookManifest(c configv1alpha1.Configuration, namespace, url string) ([]byte, error) {
	var texts [][]byte
	for _, object := range WebhookConfigurations(c, namespace, url) {
		text, err := yaml.Marshal(object)
		if err != nil {
			return nil, fmt.Errorf("printing %s: %w", object.GetName(), err)
		}
		texts = append(texts, text)
	}
	return bytes.Join(texts, []byte("---\n")), nil
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: kind}
}

func validating(kind string, reach func(string) admissionv1.WebhookClientConfig, which *metav1.LabelSelector) admissionv1.ValidatingWebhook {
	return admissionv1.ValidatingWebhook{
		Name:                    "validator." + kind + ".trainer.kubeflow.org",
		ClientConfig:            reach(fmt.Sprintf("/validate-trainer-kubeflow-org-%s-%s", v1alpha1.GroupVersion.Version, kind)),
		Rules:                   onWrites(kind + "s"),
		ObjectSelector:          which,
		FailurePolicy:           ptr.To(admissionv1.Fail),
		SideEffects:             ptr.To(admissionv1.SideEffectClassNone),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// onWrites asks for creations and updates. Objects of the group's other versions
// are converted and asked about too: that is the default matchPolicy.
func onWrites(resource string) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
		Rule: admissionv1.Rule{
			APIGroups:   []string{v1alpha1.GroupVersion.Group},
			APIVersions: []string{v1alpha1.GroupVersion.Version},
			Resources:   []string{resource},
		},
	}}
}

// whatIsDefaulted leaves out TrainJobs without patches, since the times of patches
// are all that the webhook sets: most TrainJobs need not wait for it.
func whatIsDefaulted() []admissionv1.MatchCondition {
	return []admissionv1.MatchCondition{{Name: "has-runtime-patches", Expression: "has(object.spec) && has(object.spec.runtimePatches)"}}
}

// unlessSwitchedOff leaves out runtimes whose label says so.
func unlessSwitchedOff() *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: v1alpha1.LabelWebhookValidation, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"disabled"},
	}}}
}
