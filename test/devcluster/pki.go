package main

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/gangline/gangline/test/devcluster/internal/pki"
)

const (
	// serviceRange is the cluster's range of Service addresses, and firstServiceIP what the API server gets in it.
	serviceRange   = "10.96.0.0/16"
	firstServiceIP = "10.96.0.1"

	// superusers is the group that the API server lets do everything, even before RBAC has its rules.
	superusers = "system:masters"

	webhookCertificate = "jobset-webhook"
)

// The names of the two authorities' files. The first signs everything in the cluster; the second only lets the
// API server prove itself to extension API servers.
const (
	clusterCA    = "ca"
	frontProxyCA = "front-proxy-ca"
)

func (l layout) certFile(name string) string { return l.pki(name + ".crt") }
func (l layout) keyFile(name string) string  { return l.pki(name + ".key") }

// writePKI makes the control plane's keys and certificates and the kubeconfig files of its components.
//
// Authorities and the token signing key of an earlier run are kept if they are there (a run with --fresh=false), so
// that credentials handed out earlier stay good. The certificates are always made anew: they depend on this run's
// addresses. It returns the administrator's kubeconfig, which is written later, as the sign of readiness.
func (l layout) writePKI(server string, extraIPs []net.IP) (admin []byte, err error) {
	cluster, err := l.ensureAuthority(clusterCA, "devcluster-ca")
	if err != nil {
		return nil, err
	}
	frontProxy, err := l.ensureAuthority(frontProxyCA, "devcluster-front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if err := l.ensureSigningKey(); err != nil {
		return nil, err
	}

	for name, issue := range map[string]struct {
		authority *pki.Authority
		request   pki.Request
	}{
		"apiserver": {cluster, pki.Request{
			Usage:      pki.ForServer,
			CommonName: "kube-apiserver",
			DNSNames: []string{
				"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc.cluster.local",
			},
			IPs: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.ParseIP(firstServiceIP)}, extraIPs...),
		}},
		"apiserver-kubelet-client": {cluster, pki.Request{
			Usage: pki.ForClient, CommonName: "kube-apiserver-kubelet-client", Organizations: []string{superusers},
		}},
		"front-proxy-client": {frontProxy, pki.Request{Usage: pki.ForClient, CommonName: "front-proxy-client"}},
		webhookCertificate: {cluster, pki.Request{
			Usage: pki.ForServer, CommonName: webhookCertificate, IPs: []net.IP{net.IPv4(127, 0, 0, 1)},
		}},
	} {
		pair, err := issue.authority.Issue(issue.request)
		if err != nil {
			return nil, err
		}
		if err := l.writePair(name, pair); err != nil {
			return nil, err
		}
	}

	for component, user := range map[string]pki.Request{
		"controller-manager": {CommonName: "system:kube-controller-manager"},
		"scheduler":          {CommonName: "system:kube-scheduler"},
		"jobset":             {CommonName: "jobset-controller-manager", Organizations: []string{superusers}},
	} {
		user.Usage = pki.ForClient
		kubeconfig, err := issueKubeconfig(cluster, user, server)
		if err != nil {
			return nil, err
		}
		if err := writeFile(l.config(component), kubeconfig, 0o600); err != nil {
			return nil, err
		}
	}
	return issueKubeconfig(cluster, pki.Request{
		Usage: pki.ForClient, CommonName: "devcluster-admin", Organizations: []string{superusers},
	}, server)
}

// readAuthority reads an authority back from the folder.
func (l layout) readAuthority(name string) (*pki.Authority, error) {
	cert, err := os.ReadFile(l.certFile(name))
	if err != nil {
		return nil, fmt.Errorf("read authority %s: %w", name, err)
	}
	key, err := os.ReadFile(l.keyFile(name))
	if err != nil {
		return nil, fmt.Errorf("read authority %s: %w", name, err)
	}
	authority, err := pki.ParseAuthority(pki.Pair{CertPEM: cert, KeyPEM: key})
	if err != nil {
		return nil, fmt.Errorf("read authority %s in %s: %w", name, l.pkiDir(), err)
	}
	return authority, nil
}

func (l layout) ensureAuthority(name, commonName string) (*pki.Authority, error) {
	authority, err := l.readAuthority(name)
	if !errors.Is(err, os.ErrNotExist) {
		return authority, err
	}
	if authority, err = pki.NewAuthority(commonName); err != nil {
		return nil, err
	}
	return authority, l.writePair(name, authority.Pair)
}

func (l layout) ensureSigningKey() error {
	if _, err := os.Stat(l.pki("sa.key")); err == nil {
		return nil
	}
	private, public, err := pki.NewSigningKey()
	if err != nil {
		return err
	}
	if err := writeFile(l.pki("sa.pub"), public, 0o644); err != nil {
		return err
	}
	return writeFile(l.pki("sa.key"), private, 0o600)
}

func (l layout) writePair(name string, pair pki.Pair) error {
	if err := writeFile(l.keyFile(name), pair.KeyPEM, 0o600); err != nil {
		return err
	}
	return writeFile(l.certFile(name), pair.CertPEM, 0o644)
}
