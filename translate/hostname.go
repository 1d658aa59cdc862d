package translate

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Linux bounds a host name to 64 bytes; kubelet cuts a label to 63.
const (
	maxHostname = 63
	maxFQDN     = 64
)

// Hostname is the host name that kubelet gives a pod: hostnameOverride, else
// hostname, else the pod's name, cut to 63 characters; with setHostnameAsFQDN
// and a subdomain the fully qualified name, which must not be longer than 64.
func Hostname(pod *corev1.Pod, clusterDomain string) (string, error) {
	name := ShortHostname(pod)
	overridden := ptr.Deref(pod.Spec.HostnameOverride, "") != ""
	if overridden || pod.Spec.Subdomain == "" || !ptr.Deref(pod.Spec.SetHostnameAsFQDN, false) {
		return name, nil
	}
	fqdn := fmt.Sprintf("%s.%s.%s.svc.%s", name, pod.Spec.Subdomain, pod.Namespace, clusterDomain)
	if len(fqdn) > maxFQDN {
		return "", fmt.Errorf("setHostnameAsFQDN: the host name %s has %d characters, and %d is the most; shorten the pod's name or unset the field",
			fqdn, len(fqdn), maxFQDN)
	}
	return fqdn, nil
}

// ShortHostname is the same without a domain: the first of a pod's names.
func ShortHostname(pod *corev1.Pod) string {
	return cut(cmp.Or(ptr.Deref(pod.Spec.HostnameOverride, ""), pod.Spec.Hostname, pod.Name))
}

func cut(name string) string {
	if len(name) <= maxHostname {
		return name
	}
	return strings.TrimRight(name[:maxHostname], "-.")
}
