package remoteshell

import (
	"fmt"
	"path"
	"strings"
)

// hostAlias is the name under which known_hosts has the gang's host key: all its
// services have the same, and several may share an address.
const hostAlias = "gangline"

// sshConfig is an ssh_config(5) by which OpenSSH's own programs reach the gang's
// hosts by all their names, with the files that stand in dir. It says nothing of
// any other host.
func sshConfig(p Peers, dir string) string {
	var b, all strings.Builder
	b.WriteString("# Written by Gangline: the hosts of this pod's gang.\n")
	for _, peer := range p.Hosts {
		names := strings.Join(peer.Names, " ")
		if _, alone := p.find(peer.Address); alone {
			names = strings.TrimSpace(names + " " + peer.Address)
		}
		if names == "" {
			continue
		}
		fmt.Fprintf(&b, "Host %s\n  HostName %s\n  Port %d\n", names, peer.Address, peer.Port)
		all.WriteString(" " + names)
	}
	if all.Len() == 0 {
		return b.String()
	}
	known := path.Join(dir, knownHostsFile)
	fmt.Fprintf(&b, "Host%s\n", all.String())
	for _, setting := range []struct{ key, value string }{
		{"IdentityFile", path.Join(dir, keyFile)},
		{"IdentitiesOnly", "yes"},
		{"IdentityAgent", "none"},
		{"PreferredAuthentications", "publickey"},
		{"HostKeyAlias", hostAlias},
		{"UserKnownHostsFile", known},
		{"GlobalKnownHostsFile", known},
		{"StrictHostKeyChecking", "yes"},
		{"BatchMode", "yes"},
		{"ForwardAgent", "no"},
		{"ForwardX11", "no"},
	} {
		fmt.Fprintf(&b, "  %s %s\n", setting.key, setting.value)
	}
	return b.String()
}

// knownHosts is the known_hosts file that goes with it.
func knownHosts(p Peers) string { return hostAlias + " " + p.HostKey + "\n" }
