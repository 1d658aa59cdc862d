package main

import (
	"fmt"
	"strings"
)

// controllers are those that make pods from workloads, keep nodes and pods honest, clean up, and let volumes, roles
// and certificates work. All others (cloud, attach and expand, autoscaling, …) have nothing to do here, and each
// one more delays the default ServiceAccount, thus readiness.
func controllers() []string {
	return []string{
		// Workloads.
		"job-controller",
		"cronjob-controller",
		"replicaset-controller",
		"replicationcontroller-controller",
		"deployment-controller",
		"statefulset-controller",
		"daemonset-controller",
		"disruption-controller",
		"resourceclaim-controller",
		// Services.
		"endpoints-controller",
		"endpointslice-controller",
		"endpointslice-mirroring-controller",
		// Namespaces, accounts and roles.
		"namespace-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller",
		"clusterrole-aggregation-controller",
		"resourcequota-controller",
		// Nodes.
		"node-lifecycle-controller",
		"taint-eviction-controller",
		// Cleaning up.
		"garbage-collector-controller",
		"pod-garbage-collector-controller",
		"ttl-after-finished-controller",
		"podgroup-protection-controller",
		// Volumes that exist already can be claimed; none are provisioned.
		"persistentvolume-binder-controller",
		"persistentvolumeclaim-protection-controller",
		"persistentvolume-protection-controller",
		"ephemeral-volume-controller",
		// Kubelet serving certificates are signed once approved; nobody approves them automatically.
		"certificatesigningrequest-signing-controller",
		"certificatesigningrequest-approving-controller",
		"certificatesigningrequest-cleaner-controller",
	}
}

// tuning is what the user may change about the Kubernetes components.
type tuning struct {
	featureGates  string
	runtimeConfig string
	verbosity     int
}

func (t tuning) commonFlags() []string {
	flags := []string{fmt.Sprintf("--v=%d", t.verbosity)}
	if t.featureGates != "" {
		flags = append(flags, "--feature-gates="+t.featureGates)
	}
	return flags
}

func apiServerFlags(l layout, port int, t tuning) []string {
	flags := []string{
		"--etcd-servers=" + etcdClientURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", port),
		// The port was reserved with SO_REUSEPORT by the process that chose it.
		"--permit-port-sharing=true",
		// Nothing could reach the API server through the kubernetes Service: there is no kube-proxy.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + l.certFile("apiserver"),
		"--tls-private-key-file=" + l.keyFile("apiserver"),
		"--client-ca-file=" + l.certFile(clusterCA),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--profiling=false",

		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + l.pki("sa.pub"),
		"--service-account-signing-key-file=" + l.pki("sa.key"),

		// Logs, exec and port-forward: the API server is a client of the kubelets, real or virtual. Their
		// certificates must be of this cluster, and hold the address they are called by.
		"--kubelet-client-certificate=" + l.certFile("apiserver-kubelet-client"),
		"--kubelet-client-key=" + l.keyFile("apiserver-kubelet-client"),
		"--kubelet-certificate-authority=" + l.certFile(clusterCA),
		"--kubelet-preferred-address-types=InternalIP",

		"--requestheader-client-ca-file=" + l.certFile(frontProxyCA),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + l.certFile("front-proxy-client"),
		"--proxy-client-key-file=" + l.keyFile("front-proxy-client"),
	}
	if t.runtimeConfig != "" {
		flags = append(flags, "--runtime-config="+t.runtimeConfig)
	}
	return append(flags, t.commonFlags()...)
}

func controllerManagerFlags(l layout, t tuning) []string {
	return append([]string{
		"--kubeconfig=" + l.config("controller-manager"),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--controllers=" + strings.Join(controllers(), ","),
		// Without it the controllers share one account that is allowed next to nothing.
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + l.pki("sa.key"),
		"--root-ca-file=" + l.certFile(clusterCA),
		"--cluster-signing-cert-file=" + l.certFile(clusterCA),
		"--cluster-signing-key-file=" + l.keyFile(clusterCA),
		// The defaults protect a busy server from its controllers; here they would only slow large gangs down.
		"--kube-api-qps=300",
		"--kube-api-burst=600",
	}, t.commonFlags()...)
}

func schedulerFlags(l layout, t tuning) []string {
	return append([]string{
		"--kubeconfig=" + l.config("scheduler"),
		"--leader-elect=false",
		"--secure-port=0",
		"--profiling=false",
		"--kube-api-qps=300",
		"--kube-api-burst=600",
	}, t.commonFlags()...)
}
