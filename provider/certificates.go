package provider

import (
	"context"
	"fmt"

	"k8s.io/client-go/kubernetes"

	"github.com/gangline/gangline/provider/kubelet"
)

// Certificates are serving certificates that were asked for before their nodes run, by the
// nodes' names.
type Certificates map[string]*kubelet.RequestedCertificate

// RequestCertificates asks the cluster to sign the serving certificates of the process's
// nodes, and keeps them current until the context ends. A process that stands by has them
// then when it takes over, whose approval may take a person. Where the configuration names
// files there are none.
func RequestCertificates(ctx context.Context, config Config, clientset kubernetes.Interface) (Certificates, error) {
	all := Certificates{}
	for _, c := range config.each() {
		if c.Kubelet.CertDir == "" {
			continue
		}
		requested, err := kubelet.Request(ctx, kubelet.Config{
			NodeName: c.NodeName, Address: c.Kubelet.Address, CertDir: c.Kubelet.CertDir,
			Recorder: newRecorder(ctx, clientset, c.NodeName),
		}, clientset)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", c.NodeName, err)
		}
		all[c.NodeName] = requested
	}
	return all, nil
}
