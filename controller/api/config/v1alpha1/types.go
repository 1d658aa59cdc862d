package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	componentbase "k8s.io/component-base/config/v1alpha1"
)

// GroupVersion is the file's apiVersion.
var GroupVersion = schema.GroupVersion{Group: "config.trainer.kubeflow.org", Version: "v1alpha1"}

// Kind is the file's kind.
const Kind = "Configuration"

// Configuration is the controller's configuration file.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`

	// Webhook is the server that the API server asks at admission.
	Webhook Webhook `json:"webhook,omitzero"`
	// LeaderElection lets one of several replicas reconcile. All of them serve
	// webhooks and statuses.
	LeaderElection componentbase.LeaderElectionConfiguration `json:"leaderElection,omitzero"`
	// Metrics is the server of /metrics.
	Metrics Metrics `json:"metrics,omitzero"`
	// Health is the server of the probes.
	Health Health `json:"health,omitzero"`
	// Controller holds what all controllers share.
	Controller Controller `json:"controller,omitzero"`
	// CertManagement says where the serving certificates come from.
	CertManagement CertManagement `json:"certManagement,omitzero"`
	// ClientConnection limits the requests to the API server.
	ClientConnection ClientConnection `json:"clientConnection,omitzero"`
	// StatusServer is the server that trainings report their progress to. It
	// runs with the feature gate TrainJobStatus.
	StatusServer StatusServer `json:"statusServer,omitzero"`
	// FeatureGates switch features by name.
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// TLS applies to the servers of webhooks, metrics and statuses.
	TLS TLS `json:"tls,omitzero"`
}

// Webhook is the server that the API server asks at admission.
type Webhook struct {
	// Port is 1 to 65535. Default 9443.
	Port *int32 `json:"port,omitempty"`
	// Host is the address to listen on. Default: all.
	Host string `json:"host,omitempty"`
}

// Metrics is the server of /metrics.
type Metrics struct {
	// BindAddress is host:port; "0" for no metrics. Default ":8443".
	BindAddress string `json:"bindAddress,omitempty"`
	// SecureServing serves them by TLS, to those only that may get the
	// non-resource URL /metrics. Default true.
	SecureServing *bool `json:"secureServing,omitempty"`
}

// Health is the server of the probes.
type Health struct {
	// HealthProbeBindAddress is host:port; "0" for no probes. Default ":8081".
	HealthProbeBindAddress string `json:"healthProbeBindAddress,omitempty"`
	// ReadinessEndpointName and LivenessEndpointName are the probes' paths,
	// without the slash. Defaults "readyz" and "healthz".
	ReadinessEndpointName string `json:"readinessEndpointName,omitempty"`
	LivenessEndpointName  string `json:"livenessEndpointName,omitempty"`
}

// Controller holds what all controllers share.
type Controller struct {
	// GroupKindConcurrency is how many objects of a kind are reconciled at a
	// time, 1 or more, by "Kind.group". Default 1 for each kind.
	GroupKindConcurrency map[string]int32 `json:"groupKindConcurrency,omitempty"`
}

// CertManagement says where the serving certificates come from.
type CertManagement struct {
	// Enable makes the controller its own certificate authority. Otherwise the
	// certificates are files that somebody else provides. Default true.
	Enable *bool `json:"enable,omitempty"`
	// WebhookServiceName is the controller's Service; the certificate is for its
	// name. Default kubeflow-trainer-controller-manager.
	WebhookServiceName string `json:"webhookServiceName,omitempty"`
	// WebhookSecretName is the Secret that keeps the certificates. Default
	// kubeflow-trainer-webhook-cert.
	WebhookSecretName string `json:"webhookSecretName,omitempty"`
}

// ClientConnection limits the requests to the API server.
type ClientConnection struct {
	// QPS is the requests per second. Default 50; 0 is client-go's own default.
	QPS *float32 `json:"qps,omitempty"`
	// Burst is how many may be made at once. Default 100; 0 is client-go's own
	// default.
	Burst *int32 `json:"burst,omitempty"`
}

// StatusServer is the server that trainings report their progress to.
type StatusServer struct {
	// Port is 1 to 65535. Default 10443.
	Port *int32 `json:"port,omitempty"`
	// QPS and Burst limit its requests to the API server, as those of
	// ClientConnection do. Each report takes two. Defaults 5 and 10.
	QPS   *float32 `json:"qps,omitempty"`
	Burst *int32   `json:"burst,omitempty"`
}

// TLS applies to the servers of webhooks, metrics and statuses.
type TLS struct {
	// MinVersion is 1.0, 1.1, 1.2 or 1.3. Default: Go's.
	MinVersion string `json:"minVersion,omitempty"`
	// CipherSuites are IANA names. TLS 1.3 does not go by them. Default: Go's.
	CipherSuites []string `json:"cipherSuites,omitempty"`
	// NextProtos are the application protocols. Default http/1.1 only: HTTP/2 is
	// off because of its rapid-reset attacks; ["h2", "http/1.1"] has it on.
	NextProtos []string `json:"nextProtos,omitempty"`
}
