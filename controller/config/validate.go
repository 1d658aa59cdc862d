package config

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gangline/gangline/controller/api/config/v1alpha1"
)

// validate checks a configuration that has its defaults.
func validate(c *v1alpha1.Configuration) field.ErrorList {
	var errs field.ErrorList
	if version := v1alpha1.GroupVersion.String(); c.APIVersion != version {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), c.APIVersion, []string{version}))
	}
	if c.Kind != v1alpha1.Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), c.Kind, []string{v1alpha1.Kind}))
	}
	errs = append(errs, port(field.NewPath("webhook", "port"), *c.Webhook.Port)...)
	errs = append(errs, validateLeaderElection(c)...)
	errs = append(errs, validateHealth(c.Health)...)
	for _, kind := range slices.Sorted(maps.Keys(c.Controller.GroupKindConcurrency)) {
		if n := c.Controller.GroupKindConcurrency[kind]; n < 1 {
			errs = append(errs, field.Invalid(field.NewPath("controller", "groupKindConcurrency").Key(kind), n, "must be greater than 0"))
		}
	}
	errs = append(errs, validateCertManagement(c.CertManagement)...)
	client, status := field.NewPath("clientConnection"), field.NewPath("statusServer")
	errs = append(errs, notNegative(client.Child("qps"), *c.ClientConnection.QPS)...)
	errs = append(errs, notNegative(client.Child("burst"), *c.ClientConnection.Burst)...)
	errs = append(errs, port(status.Child("port"), *c.StatusServer.Port)...)
	errs = append(errs, notNegative(status.Child("qps"), *c.StatusServer.QPS)...)
	errs = append(errs, notNegative(status.Child("burst"), *c.StatusServer.Burst)...)
	return append(errs, validateTLS(c.TLS)...)
}

func port(path *field.Path, n int32) field.ErrorList {
	if len(validation.IsValidPortNum(int(n))) > 0 {
		return field.ErrorList{field.Invalid(path, n, "must be between 1 and 65535")}
	}
	return nil
}

func notNegative[N int32 | float32](path *field.Path, n N) field.ErrorList {
	if n < 0 {
		return field.ErrorList{field.Invalid(path, n, "must be greater than or equal to 0")}
	}
	return nil
}

// validateHealth keeps the two probes apart: they are paths of one server.
func validateHealth(h v1alpha1.Health) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("health")
	for _, endpoint := range [][2]string{
		{"readinessEndpointName", h.ReadinessEndpointName},
		{"livenessEndpointName", h.LivenessEndpointName},
	} {
		if strings.Contains(endpoint[1], "/") {
			errs = append(errs, field.Invalid(path.Child(endpoint[0]), endpoint[1], "is a name, without a slash"))
		}
	}
	if h.ReadinessEndpointName == h.LivenessEndpointName {
		errs = append(errs, field.Duplicate(path.Child("livenessEndpointName"), h.LivenessEndpointName))
	}
	return errs
}

func validateCertManagement(c v1alpha1.CertManagement) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("certManagement")
	for _, problem := range validation.IsDNS1035Label(c.WebhookServiceName) {
		errs = append(errs, field.Invalid(path.Child("webhookServiceName"), c.WebhookServiceName, problem))
	}
	for _, problem := range validation.IsDNS1123Subdomain(c.WebhookSecretName) {
		errs = append(errs, field.Invalid(path.Child("webhookSecretName"), c.WebhookSecretName, problem))
	}
	return errs
}
