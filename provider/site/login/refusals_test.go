package login_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/login"
	"github.com/gangline/gangline/provider/site/login/logintest"
)

func TestRefusalsNameCauseAndCure(t *testing.T) {
	w := newWorld(t)
	stranger, err := logintest.NewKey(filepath.Join(w.dir, "stranger"))
	require.NoError(t, err)
	rsa := filepath.Join(w.dir, "rsa")
	require.NoError(t, exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-f", rsa).Run())
	rsaPublic, err := os.ReadFile(rsa + ".pub")
	require.NoError(t, err)
	locked := filepath.Join(w.dir, "locked")
	require.NoError(t, exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "passphrase", "-f", locked).Run())
	mine := ssh.FingerprintSHA256(publicKey(t, w.key(w.one)))
	full, noexec := w.mount("full", "size=1m"), w.mount("noexec", "noexec")

	for sentence, tc := range map[string]struct {
		change func(*login.Config)
		want   []string
	}{
		"another host key": {func(c *login.Config) { c.KnownHosts = logintest.Line(stranger) }, []string{
			"shows the host key ssh-ed25519 " + ssh.FingerprintSHA256(w.node.HostKey), "pinned is ssh-ed25519 " + ssh.FingerprintSHA256(stranger),
			"put it into knownHosts"}},
		"a revoked host key": {func(c *login.Config) { c.KnownHosts += "@revoked * " + logintest.Line(w.node.HostKey) }, []string{"it is revoked"}},
		"a host key of another type": {func(c *login.Config) { c.KnownHosts = "login " + string(rsaPublic) }, []string{
			"no host key of a pinned type", "ssh-rsa SHA256:"}},
		"a key that is not authorized": {func(c *login.Config) { c.KeyFile = w.key(w.other) }, []string{
			"does not let " + w.one.Name + " in with the key SHA256:", w.key(w.other), "authorized_keys"}},
		"a user who is not there":      {func(c *login.Config) { c.User = "no-such-user" }, []string{"does not let no-such-user in", mine}},
		"a key that is not there":      {func(c *login.Config) { c.KeyFile = "/absent" }, []string{"reading the key of " + w.one.Name, "/absent"}},
		"a key with a passphrase":      {func(c *login.Config) { c.KeyFile = locked }, []string{"has a passphrase", locked}},
		"a bare key for a certificate": {func(c *login.Config) { c.CertificateFile = rsa + ".pub" }, []string{"holds a bare key"}},
		"nobody listens":               {func(c *login.Config) { c.Address = "127.0.0.1:1" }, []string{"connecting to the login node 127.0.0.1:1", "connection refused"}},
		"no agent for the machine":     {func(c *login.Config) { c.Agents = map[string]string{"s390x": w.agent} }, []string{"architecture", "only for s390x"}},
		"a full disk":                  {func(c *login.Config) { c.AgentDir = full }, []string{"No space left on device", full, "agentDir"}},
		"a directory of another's":     {func(c *login.Config) { c.AgentDir = w.agents(w.other) }, []string{"Permission denied", w.one.Name, "agentDir"}},
		"a disk without programs":      {func(c *login.Config) { c.AgentDir = noexec }, []string{"cannot be executed", "noexec", "agentDir"}},
		"a program that is no agent":   {func(c *login.Config) { c.Agents = map[string]string{runtime.GOARCH: "/bin/ls"} }, []string{"exited with status", "gateway"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := w.config(w.one)
			tc.change(&c)
			l := w.login(c)
			began := time.Now()
			_, err := w.try(l, gateway.Options{})
			require.Error(t, err)
			t.Log(time.Since(began), err)
			for _, want := range tc.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// mount makes a filesystem for the first user.
func (w *world) mount(name, options string) string {
	w.Helper()
	dir := w.one.OwnDir(w, w.dir, name)
	out, err := exec.CommandContext(w.Context(), "mount", "-t", "tmpfs", "-o", options+",mode=1777", "tmpfs", dir).CombinedOutput()
	require.NoError(w, err, "%s", out)
	w.Cleanup(func() {
		out, err := exec.Command("umount", "--lazy", dir).CombinedOutput()
		assert.NoError(w, err, "%s", out)
	})
	return dir
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	key, err := logintest.NewKey(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	good := login.Config{Address: "login", User: "ada", KnownHosts: "login " + logintest.Line(key), KeyFile: "/key", Agents: map[string]string{"amd64": "/agent"}}
	_, err = login.New(good)
	require.NoError(t, err)
	for sentence, tc := range map[string]struct {
		change func(*login.Config)
		want   string
	}{
		"no host key is pinned":     {func(c *login.Config) { c.KnownHosts = "# none\n" }, "knownHosts is empty"},
		"a line that is no key":     {func(c *login.Config) { c.KnownHosts += "\nlogin ssh-ed25519 xyz" }, "line 2"},
		"an unknown marker":         {func(c *login.Config) { c.KnownHosts = "@maybe login " + logintest.Line(key) }, "@maybe"},
		"root":                      {func(c *login.Config) { c.User = "root" }, "ordinary user"},
		"no key":                    {func(c *login.Config) { c.KeyFile = "" }, "keyFile is empty"},
		"no agent":                  {func(c *login.Config) { c.Agents = nil }, "agents is empty"},
		"a directory for a shell":   {func(c *login.Config) { c.AgentDir = "/a;id" }, "agentDir"},
		"a directory with a space":  {func(c *login.Config) { c.AgentDir = "/a b" }, "agentDir"},
		"a directory by a detour":   {func(c *login.Config) { c.AgentDir = "/a/../b" }, "agentDir"},
		"a directory below nowhere": {func(c *login.Config) { c.AgentDir = "a" }, "agentDir"},
	} {
		t.Run(sentence, func(t *testing.T) {
			c := good
			tc.change(&c)
			_, err := login.New(c)
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestOldAgentsAreRemoved(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	file := func(name string, age time.Duration) string {
		t.Helper()
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, nil, 0o700))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
		return path
	}
	const day = 24 * time.Hour
	name := func(c string) string { return login.AgentName(strings.Repeat(c, 64)) }
	self := file(name("a"), 365*day)
	kept := []string{self, file(name("b"), 89*day), file(".new-b", time.Hour), file("agent-notes", 365*day)}
	gone := []string{file(name("c"), 91*day), file(".new-c", 2*day)}
	require.NoError(t, login.Tidy("/opt/gangline/gangline-agent", now))
	assert.FileExists(t, gone[0], "an agent that the site has installed tidies nothing")
	require.NoError(t, login.Tidy(self, now))
	for _, path := range kept {
		assert.FileExists(t, path)
	}
	for _, path := range gone {
		assert.NoFileExists(t, path)
	}
	info, err := os.Stat(self)
	require.NoError(t, err)
	assert.WithinDuration(t, now, info.ModTime(), time.Second, "it is in use")
}
