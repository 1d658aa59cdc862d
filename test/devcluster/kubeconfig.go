package main

import (
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/gangline/gangline/test/devcluster/internal/pki"
)

// issueKubeconfig makes a client certificate and a kubeconfig that holds it, so that the one file can be copied to
// wherever it is needed.
func issueKubeconfig(authority *pki.Authority, user pki.Request, server string) ([]byte, error) {
	pair, err := authority.Issue(user)
	if err != nil {
		return nil, err
	}
	const name = "devcluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: authority.CertPEM}
	config.AuthInfos[user.CommonName] = &clientcmdapi.AuthInfo{
		ClientCertificateData: pair.CertPEM,
		ClientKeyData:         pair.KeyPEM,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: user.CommonName, Namespace: "default"}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encode the kubeconfig of %s: %w", user.CommonName, err)
	}
	return data, nil
}

// clientConfig reads a kubeconfig for use by this program. The client does not limit its own rate: it talks to a
// server that it started itself.
func clientConfig(kubeconfig []byte) (*rest.Config, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	config.QPS = -1
	return config, nil
}
