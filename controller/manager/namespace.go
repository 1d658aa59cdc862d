package manager

import (
	"os"
	"strings"
)

// DefaultNamespace is the controller's where nothing else says so.
const DefaultNamespace = "kubeflow-system"

// ServiceAccountNamespace is the file in which a pod finds its namespace.
const ServiceAccountNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace is the controller's own: POD_NAMESPACE, or the pod's, read from file,
// or kubeflow-system.
func Namespace(file string) string {
	if n := os.Getenv("POD_NAMESPACE"); n != "" {
		return n
	}
	if text, err := os.ReadFile(file); err == nil {
		if n := strings.TrimSpace(string(text)); n != "" {
			return n
		}
	}
	return DefaultNamespace
}
