package agent

import (
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/mpi/remoteshell"
	"github.com/gangline/gangline/provider/spool"
)

// hostsFile is a pod's /etc/hosts: its own line first, so that a lookup of its
// own address gives its own name, then localhost, the gang, the pod's aliases,
// and what the node itself knows.
func hostsFile(slot int, names []spool.Name, aliases []corev1.HostAlias, node []byte) string {
	var b strings.Builder
	b.WriteString("# Written by Gangline.\n")
	line := func(address string, hosts []string) {
		if len(hosts) > 0 {
			fmt.Fprintf(&b, "%s\t%s\n", address, strings.Join(hosts, "\t"))
		}
	}
	own := func(n spool.Name) bool { return n.Slot == slot }
	if i := slices.IndexFunc(names, own); i >= 0 {
		// The first is what hostname -f says: the fully qualified one, as kubelet
		// has it.
		hosts := slices.Clone(names[i].Hosts)
		slices.Reverse(hosts)
		line(names[i].Address, hosts)
	}
	line("127.0.0.1", []string{"localhost"})
	line("::1", []string{"localhost", "ip6-localhost", "ip6-loopback"})
	for _, n := range names {
		if !own(n) {
			line(n.Address, n.Hosts)
		}
	}
	if len(aliases) > 0 {
		b.WriteString("# The pod's hostAliases.\n")
	}
	for _, a := range aliases {
		line(a.IP, a.Hostnames)
	}
	b.WriteString("# The node's own file.\n")
	b.Write(node)
	return b.String()
}

// rewrite replaces a file's content in place, because it is mounted: processes
// that run must see the new one. A reader at the same moment may see a mixture.
func rewrite(path, content string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("writing the table of names: %w", err)
	}
	_, err = f.WriteAt([]byte(content), 0)
	if err == nil {
		err = f.Truncate(int64(len(content)))
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("writing the table of names: %w", err)
	}
	return nil
}

// peers is the same table for the remote shell, which needs the ports too.
func peers(names []spool.Name, hostKey []byte) remoteshell.Peers {
	p := remoteshell.Peers{HostKey: strings.TrimSpace(string(hostKey))}
	for _, n := range names {
		peer := remoteshell.Peer{Address: n.Address, Port: n.SSHPort}
		for _, h := range n.Hosts {
			peer.Names = append(peer.Names, strings.ToLower(h))
		}
		p.Hosts = append(p.Hosts, peer)
	}
	return p
}

// addresses maps all names of the gang to addresses.
func addresses(names []spool.Name) map[string]string {
	m := map[string]string{}
	for _, n := range names {
		for _, h := range n.Hosts {
			m[strings.ToLower(h)] = n.Address
		}
	}
	return m
}

// sharesNode tells whether a slot's node has others of the gang: they share its
// address.
func sharesNode(slot int, names []spool.Name) bool {
	own := slices.IndexFunc(names, func(n spool.Name) bool { return n.Slot == slot })
	return own >= 0 && slices.ContainsFunc(names, func(n spool.Name) bool {
		return n.Slot != slot && n.Address == names[own].Address
	})
}
