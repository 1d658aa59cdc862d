package remoteshell

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriteFilesCanBeReadBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	want := Peers{HostKey: "ssh-ed25519 AAAA", Hosts: []Peer{{Names: []string{"a", "a.pi"}, Address: "10.0.0.1", Port: 7}}}
	files := Files{Peers: want, ClientKey: []byte("key"), SeenAs: dir}
	require.NoError(t, WriteFiles(dir, files))
	got, err := ReadFiles(dir)
	require.NoError(t, err)
	assert.Equal(t, files, got)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 4, "nothing is left beside the files, and no host key was given")

	files.HostKey = []byte("host")
	require.NoError(t, WriteFiles(dir, files))
	got, err = ReadFiles(dir)
	require.NoError(t, err)
	assert.Equal(t, files, got)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode(), entry.Name())
	}
}

func TestReadersNeverSeeHalfATable(t *testing.T) {
	dir := t.TempDir()
	table := func(n int) Peers {
		return Peers{HostKey: strings.Repeat("k", 1000), Hosts: make([]Peer, n)}
	}
	require.NoError(t, WriteFiles(dir, Files{Peers: table(1), ClientKey: []byte("key")}))
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 200 {
			assert.NoError(t, WriteFiles(dir, Files{Peers: table(1 + i%2*500), ClientKey: []byte("key")}))
		}
	})
	for range 200 {
		p, err := readPeers(dir)
		require.NoError(t, err)
		assert.Contains(t, []int{1, 501}, len(p.Hosts))
	}
	writer.Wait()
}

func TestWhereThereIsNoTableThereAreNoHosts(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		p, err := readPeers(dir)
		require.NoError(t, err)
		assert.Empty(t, p.Hosts)
	}
}

func TestABrokenTableIsAnError(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, peersFile), []byte("{"), 0o600))
	_, err := readPeers(dir)
	assert.ErrorContains(t, err, "reading the table of hosts")
}

func TestFind(t *testing.T) {
	peers := Peers{Hosts: []Peer{
		{Names: []string{"pi-node-0-0", "pi-node-0-0.pi", "pi-node-0-0.pi.default.svc.cluster.local"}, Address: "10.0.0.1", Port: 1},
		{Names: []string{"pi-node-0-1", "pi-node-0-1.pi"}, Address: "10.0.0.1", Port: 2},
		{Names: []string{"pi-node-0-2", "pi-node-0-2.pi"}, Address: "10.0.0.2", Port: 3},
		{Address: "", Port: 9},
	}}
	tests := map[string]int{
		"pi-node-0-0":    1,
		"pi-node-0-1.pi": 2,
		"PI-NODE-0-1":    2,
		"pi-node-0-0.pi.default.svc.cluster.local":  1,
		"pi-node-0-0.pi.default.svc.cluster.local.": 1,
		"10.0.0.2":    3,
		"10.0.0.1":    0, // two pods share it
		"pi":          0,
		"pi-node-0-3": 0,
		"localhost":   0,
		"":            0,
	}
	for host, port := range tests {
		got, ok := peers.find(host)
		assert.Equal(t, port != 0, ok, host)
		assert.Equal(t, port, got.Port, host)
	}
}

func TestEverydayNamesMeanTheOwnPod(t *testing.T) {
	peers := Peers{Own: "b", Hosts: []Peer{{Names: []string{"a"}, Port: 1}, {Names: []string{"b"}, Port: 2}}}
	for _, host := range []string{"localhost", "LOCALHOST", "127.0.0.1", "::1"} {
		got, ok := peers.find(host)
		assert.True(t, ok, host)
		assert.Equal(t, 2, got.Port, host)
	}
}

func TestAddresses(t *testing.T) {
	peers := Peers{Hosts: []Peer{
		{Names: []string{"a", "a.pi"}, Address: "10.0.0.1"},
		{Names: []string{"b"}, Address: "10.0.0.1"},
	}}
	tests := map[string][]string{
		"a": {"10.0.0.1"}, "A.PI": {"10.0.0.1"}, "b": {"10.0.0.1"},
		"10.0.0.1": {"10.0.0.1"}, // though it is no host's alone
		"10.0.0.2": nil, "c": nil, "": nil,
	}
	for host, want := range tests {
		assert.Equal(t, want, peers.Addresses(host), host)
	}
}

func TestSSHConfig(t *testing.T) {
	peers := Peers{HostKey: "ssh-ed25519 AAAA", Hosts: []Peer{
		{Names: []string{"ds-node-0-0", "ds-node-0-0.ds", "ds-node-0-0.ds.team.svc.cluster.local"}, Address: "10.0.0.1", Port: 40001},
		{Names: []string{"ds-node-0-1", "ds-node-0-1.ds"}, Address: "10.0.0.2", Port: 40002},
		{Names: []string{"ds-launcher-0-0", "ds-launcher-0-0.ds"}, Address: "10.0.0.2", Port: 40003},
		{Port: 9},
	}}
	want, err := os.ReadFile(filepath.Join("testdata", "ssh_config"))
	require.NoError(t, err)
	assert.Equal(t, string(want), sshConfig(peers, "/run/gangline"))
	assert.Equal(t, "gangline ssh-ed25519 AAAA\n", knownHosts(peers))
	assert.Equal(t, "# Written by Gangline: the hosts of this pod's gang.\n", sshConfig(Peers{}, "/run/gangline"))
}

func TestListIsShort(t *testing.T) {
	peers := Peers{Hosts: make([]Peer, 1000)}
	for i := range peers.Hosts {
		peers.Hosts[i].Names = []string{"h"}
	}
	assert.Equal(t, strings.Repeat("h, ", 15)+"h and 984 more", peers.list())
	assert.Equal(t, "h", Peers{Hosts: peers.Hosts[:1]}.list())
}

func TestNextOnPath(t *testing.T) {
	root := t.TempDir()
	program := func(dir, text string, mode os.FileMode) string {
		require.NoError(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
		path := filepath.Join(root, dir, "ssh")
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	self := program("self", "self", 0o755)
	program("copy", "another remote shell", 0o755)
	program("data", "not a program", 0o644)
	program("real", "the real one", 0o755)
	require.NoError(t, os.MkdirAll(filepath.Join(root, "dir", "ssh"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(root, "link"), 0o755))
	require.NoError(t, os.Symlink(self, filepath.Join(root, "link", "ssh")))

	tests := map[string]struct{ path, want string }{
		"behind this one":                    {"self:real", "real"},
		"this one by another name":           {"link:real", "real"},
		"this one is not on the path":        {"empty:real", "real"},
		"what stands before does not count":  {"copy:self:real", "real"},
		"what stands behind does":            {"self:copy:real", "copy"},
		"no programs, no directories":        {"self:data:dir:empty:real", "real"},
		"none":                               {"self:data:link", ""},
		"the working directory is not asked": {"self::.", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Chdir(filepath.Join(root, "real"))
			var dirs []string
			for _, dir := range filepath.SplitList(test.path) {
				if dir != "" && dir != "." {
					dir = filepath.Join(root, dir)
				}
				dirs = append(dirs, dir)
			}
			want := ""
			if test.want != "" {
				want = filepath.Join(root, test.want, "ssh")
			}
			assert.Equal(t, want, Next(self, "ssh", strings.Join(dirs, ":")))
		})
	}
}
