package main

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/gangline/gangline/test/devcluster/internal/pki"
)

// The files that a virtual node gets.
const (
	nodeKubeconfig  = "kubeconfig"
	nodeServingCert = "serving.crt"
	nodeServingKey  = "serving.key"
	nodeClientCA    = "client-ca.crt"
)

type nodeCredentialsOptions struct {
	dir      string
	name     string
	user     string
	out      string
	ips      []net.IP
	serverIP net.IP
	owner    string
}

func newNodeCredentialsCommand() *cobra.Command {
	var o nodeCredentialsOptions
	cmd := &cobra.Command{
		Use:   "node-credentials --dir DIR --name NODE --user USER --out OUT",
		Short: "Make the credentials of a virtual node",
		Long: `Make what a virtual node needs to talk to the API server and to be talked to by it:

  OUT/kubeconfig     its client certificate names USER and no group, so RBAC alone decides what it may do
  OUT/serving.crt    for logs and exec; holds 127.0.0.1, localhost, NODE and the given addresses
  OUT/serving.key
  OUT/client-ca.crt  whoever calls the node must have a certificate of this authority

The cluster must be running. Give --owner when the node runs as another user.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			l, err := newLayout(o.dir)
			if err != nil {
				return err
			}
			return nodeCredentials(l, o)
		},
	}
	addDirFlag(cmd, &o.dir)
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "the node's name (required)")
	flags.StringVar(&o.user, "user", "", "the user name to which roles are bound (required)")
	flags.StringVar(&o.out, "out", "", "the folder to write to (required)")
	flags.IPSliceVar(&o.ips, "ip", nil, "an address under which the API server calls the node; can be repeated")
	flags.IPVar(&o.serverIP, "server-ip", nil,
		"the API server's address as the node sees it, one of --listen-extra (default 127.0.0.1)")
	flags.StringVar(&o.owner, "owner", "", "UID:GID that the files are given to")
	for _, name := range []string{"name", "user", "out"} {
		// Cannot fail for a flag that was just added.
		_ = cmd.MarkFlagRequired(name)
	}
	_ = cmd.MarkFlagDirname("out")
	return cmd
}

func nodeCredentials(l layout, o nodeCredentialsOptions) error {
	if problems := validation.IsDNS1123Subdomain(o.name); len(problems) > 0 {
		return fmt.Errorf("--name %q cannot be a node's name: %s", o.name, strings.Join(problems, "; "))
	}
	owner, err := parseOwner(o.owner)
	if err != nil {
		return err
	}
	s, err := l.readState()
	if err != nil {
		return err
	}
	if s.Phase != phaseReady {
		return fmt.Errorf("the cluster in %s is not ready (%s)", l.dir, s.Phase)
	}
	server, err := serverURL(s.Server, o.serverIP)
	if err != nil {
		return err
	}
	authority, err := l.readAuthority(clusterCA)
	if err != nil {
		return err
	}
	kubeconfig, err := issueKubeconfig(authority, pki.Request{Usage: pki.ForClient, CommonName: o.user}, server)
	if err != nil {
		return err
	}
	ips := []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, ip := range o.ips {
		if !slices.ContainsFunc(ips, ip.Equal) {
			ips = append(ips, ip)
		}
	}
	serving, err := authority.Issue(pki.Request{
		Usage: pki.ForServer, CommonName: "system:node:" + o.name,
		DNSNames: []string{"localhost", o.name}, IPs: ips,
	})
	if err != nil {
		return err
	}

	if err := os.MkdirAll(o.out, 0o700); err != nil {
		return fmt.Errorf("make the folder for the credentials: %w", err)
	}
	if err := owner.give(o.out); err != nil {
		return err
	}
	for _, file := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{
		{nodeClientCA, authority.CertPEM, 0o644},
		{nodeServingKey, serving.KeyPEM, 0o600},
		{nodeServingCert, serving.CertPEM, 0o644},
		// Last, for those who watch for it.
		{nodeKubeconfig, kubeconfig, 0o600},
	} {
		path := filepath.Join(o.out, file.name)
		if err := writeFile(path, file.data, file.mode); err != nil {
			return err
		}
		if err := owner.give(path); err != nil {
			return err
		}
	}
	return nil
}

// serverURL puts another address into the API server's URL.
func serverURL(server string, ip net.IP) (string, error) {
	if ip == nil {
		return server, nil
	}
	parsed, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("read the API server's URL: %w", err)
	}
	parsed.Host = net.JoinHostPort(ip.String(), parsed.Port())
	return parsed.String(), nil
}

// fileOwner is who files are given to; nil leaves them as they are.
type fileOwner struct{ uid, gid int }

func parseOwner(text string) (*fileOwner, error) {
	if text == "" {
		return nil, nil
	}
	uidText, gidText, _ := strings.Cut(text, ":")
	uid, uidErr := strconv.ParseUint(uidText, 10, 31)
	gid, gidErr := strconv.ParseUint(gidText, 10, 31)
	if uidErr != nil || gidErr != nil {
		return nil, fmt.Errorf("--owner must be UID:GID in numbers, not %q", text)
	}
	return &fileOwner{uid: int(uid), gid: int(gid)}, nil
}

func (o *fileOwner) give(path string) error {
	if o == nil {
		return nil
	}
	if err := os.Chown(path, o.uid, o.gid); err != nil {
		return fmt.Errorf("give %s to its owner: %w", path, err)
	}
	return nil
}
