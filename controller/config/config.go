package config

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/utils/ptr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/gangline/gangline/controller/api/config/v1alpha1"
)

// Load reads, defaults and validates a configuration file; with no path it is
// the defaults. Features are those of --feature-gates ("A=true,B=false"), which
// win over the file's. The result's FeatureGates holds every feature.
func Load(path, features string) (v1alpha1.Configuration, error) {
	var c v1alpha1.Configuration
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("reading the configuration: %w", err)
		}
		if err := decode(text, &c); err != nil {
			return c, fmt.Errorf("reading the configuration %s: %w", path, err)
		}
	}
	gates, err := effectiveFeatures(c.FeatureGates, features)
	if err != nil {
		return c, err
	}
	c.FeatureGates = gates
	setDefaults(&c)
	if err := validate(&c).ToAggregate(); err != nil {
		return c, fmt.Errorf("the configuration %s is not valid: %w", path, err)
	}
	return c, nil
}

// decode is strict: a field that is unknown, repeated or spelled with other
// capitals would otherwise be a setting that silently does nothing.
func decode(text []byte, c *v1alpha1.Configuration) error {
	data, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	strict, err := kjson.UnmarshalStrict(data, c)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}

func setDefaults(c *v1alpha1.Configuration) {
	defaultTo(&c.APIVersion, v1alpha1.GroupVersion.String())
	defaultTo(&c.Kind, v1alpha1.Kind)
	defaultTo(&c.Webhook.Port, ptr.To[int32](9443))
	setLeaderElectionDefaults(c)
	defaultTo(&c.Metrics.BindAddress, ":8443")
	defaultTo(&c.Metrics.SecureServing, ptr.To(true))
	defaultTo(&c.Health.HealthProbeBindAddress, ":8081")
	defaultTo(&c.Health.ReadinessEndpointName, "readyz")
	defaultTo(&c.Health.LivenessEndpointName, "healthz")
	defaultTo(&c.CertManagement.Enable, ptr.To(true))
	defaultTo(&c.CertManagement.WebhookServiceName, "kubeflow-trainer-controller-manager")
	defaultTo(&c.CertManagement.WebhookSecretName, "kubeflow-trainer-webhook-cert")
	defaultTo(&c.ClientConnection.QPS, ptr.To[float32](50))
	defaultTo(&c.ClientConnection.Burst, ptr.To[int32](100))
	defaultTo(&c.StatusServer.Port, ptr.To[int32](10443))
	defaultTo(&c.StatusServer.QPS, ptr.To[float32](5))
	defaultTo(&c.StatusServer.Burst, ptr.To[int32](10))
}

// defaultTo sets what is not set. A pointer to zero is set.
func defaultTo[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}
