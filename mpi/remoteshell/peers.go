package remoteshell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Variable names the environment variable that holds the directory of WriteFiles.
// It has the same value in every pod of a gang: launchers carry their environment
// along to the other pods.
const Variable = "GANGLINE_DIR"

// PatienceVariable says how long a pod that is still to come is waited for, as a Go
// duration.
const PatienceVariable = "GANGLINE_LAUNCH_PATIENCE"

// CarryVariable lists variables, with commas between their names, that the remote
// shell sends along unasked: a launcher's, for all daemons that it starts, and for
// those that they start.
const CarryVariable = "GANGLINE_CARRY"

// ConfigFile is an ssh_config for OpenSSH's own programs in that directory.
const ConfigFile = "ssh_config"

// The other files there.
const (
	peersFile      = "peers.json"
	keyFile        = "ssh-client-key"
	hostKeyFile    = "ssh-host-key"
	knownHostsFile = "known_hosts"
)

// Peers is the table of a gang's hosts.
type Peers struct {
	// HostKey is the host key of every service of the gang (an authorized_keys
	// line).
	HostKey string `json:"hostKey"`
	Hosts   []Peer `json:"hosts"`
	// Own is a name of the pod that the table is for, "" for none.
	Own string `json:"own,omitempty"`
}

// Peer is one pod's SSH service.
type Peer struct {
	// Names are all names of the pod, in lower case.
	Names []string `json:"names"`
	// Address is an IP address: no resolver is asked.
	Address string `json:"address"`
	Port    int    `json:"port"`
}

// Files are what the remote shell needs.
type Files struct {
	Peers Peers
	// ClientKey opens all services of the gang, HostKey is their own (private
	// keys, OpenSSH PEM). HostKey is empty for a pod that serves SSH itself in no
	// container.
	ClientKey, HostKey []byte
	// SeenAs is the directory's path in the pod.
	SeenAs string
}

// WriteFiles puts the files into a directory, readable by the owner only. Whoever
// reads meanwhile finds the old or the new ones, and never a table without its key.
func WriteFiles(dir string, f Files) error {
	table, err := json.Marshal(f.Peers)
	if err != nil {
		return fmt.Errorf("encoding the table of hosts: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the remote shell's directory: %w", err)
	}
	for _, file := range []struct {
		name string
		data []byte
	}{
		{keyFile, f.ClientKey},
		{hostKeyFile, f.HostKey},
		{knownHostsFile, []byte(knownHosts(f.Peers))},
		{ConfigFile, []byte(sshConfig(f.Peers, f.SeenAs))},
		{peersFile, table},
	} {
		if len(file.data) == 0 {
			continue
		}
		if err := replace(filepath.Join(dir, file.name), file.data); err != nil {
			return fmt.Errorf("writing the remote shell's %s: %w", file.name, err)
		}
	}
	return nil
}

// ReadFiles reads what WriteFiles wrote. What is not there is empty.
func ReadFiles(dir string) (Files, error) {
	f := Files{SeenAs: dir}
	var err error
	if f.Peers, err = readPeers(dir); err != nil || dir == "" {
		return f, err
	}
	for name, data := range map[string]*[]byte{keyFile: &f.ClientKey, hostKeyFile: &f.HostKey} {
		if *data, err = os.ReadFile(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, fmt.Errorf("reading the gang's SSH keys: %w", err)
		}
	}
	return f, nil
}

// replace writes a file as a whole, with mode 0600.
func replace(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// readPeers reads the table. Where there is none the gang has no hosts.
func readPeers(dir string) (Peers, error) {
	if dir == "" {
		return Peers{}, nil
	}
	data, err := os.ReadFile(filepath.Join(dir, peersFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Peers{}, nil
	}
	if err != nil {
		return Peers{}, fmt.Errorf("reading the table of hosts: %w", err)
	}
	var p Peers
	if err := json.Unmarshal(data, &p); err != nil {
		return Peers{}, fmt.Errorf("reading the table of hosts: %w", err)
	}
	return p, nil
}

// find looks a host up by any of its names, or by an address that it shares with
// no other host.
func (p Peers) find(host string) (Peer, bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if isLocal(host) {
		host = p.Own
	}
	if host == "" {
		return Peer{}, false
	}
	var there []Peer
	for _, peer := range p.Hosts {
		for _, name := range peer.Names {
			if name == host {
				return peer, true
			}
		}
		if peer.Address == host {
			there = append(there, peer)
		}
	}
	if len(there) == 1 {
		return there[0], true
	}
	return Peer{}, false
}

// isLocal tells the everyday names of the machine that one is on: in a pod they mean
// the pod, and not its HPC node, which others share.
func isLocal(host string) bool {
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

// Addresses returns the address of a host by any of its names, or an address that
// is one of the gang's; nothing for any other.
func (p Peers) Addresses(host string) []string {
	if peer, ok := p.find(host); ok {
		return []string{peer.Address}
	}
	for _, peer := range p.Hosts {
		if peer.Address == host {
			return []string{host}
		}
	}
	return nil
}

// list names the hosts for people, some of many.
func (p Peers) list() string {
	const most = 16
	var names []string
	for _, peer := range p.Hosts[:min(most, len(p.Hosts))] {
		if len(peer.Names) > 0 {
			names = append(names, peer.Names[0])
		}
	}
	out := strings.Join(names, ", ")
	if more := len(p.Hosts) - most; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
