package sites_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/gateway"
	"github.com/gangline/gangline/provider/site/login/logintest"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/site/sitetest"
)

// TestMain makes this program a gateway where it is told to be one.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "gateway" {
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		if err := gateway.Serve(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const everybody = 0o755

// configs are one for each mode that acts as others.
func configs(t *testing.T, dir, agent string, users []sitetest.Account) map[sites.Mode]sites.Config {
	t.Helper()
	node, err := logintest.Start(t.Context(), dir, io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Stop()) })
	for _, u := range users {
		key, err := logintest.NewKey(filepath.Join(dir, "key."+u.Name))
		require.NoError(t, err)
		require.NoError(t, node.Authorize(u.Name, logintest.Line(key)))
		require.NoError(t, os.Chmod(u.OwnDir(t, dir, u.Name), everybody))
	}
	lock := filepath.Join(dir, "{user}", "lock")
	return map[sites.Mode]sites.Config{
		sites.Setuid: {Mode: sites.Setuid, Agent: agent, Lock: lock},
		sites.Sudo:   {Mode: sites.Sudo, Agent: agent, Lock: lock},
		sites.SSH: {Mode: sites.SSH, Lock: lock, SSH: sites.SSHConfig{
			Address: node.Address, KnownHosts: node.KnownHosts(), KeyFile: filepath.Join(dir, "key.{user}"),
			AgentDir: filepath.Join(dir, "{user}", "agents"), Agents: map[string]string{runtime.GOARCH: agent},
		}},
	}
}

func TestEachUserHasASite(t *testing.T) {
	one, other := sitetest.Users(t)
	users := []sitetest.Account{one, other}
	dir := sitetest.PublicDir(t)
	for mode, config := range configs(t, dir, sitetest.Program(t, dir), users) {
		t.Run(string(mode), func(t *testing.T) {
			config.Sudo = sitetest.Sudo(t, t.TempDir())
			s, err := sites.New(config, site.Local{}, slog.New(slog.NewTextHandler(t.Output(), nil)))
			require.NoError(t, err)
			var pids []int
			for i, u := range users {
				its, err := s.For(t.Context(), u.Name)
				require.NoError(t, err)
				again, err := s.For(t.Context(), u.Name)
				require.NoError(t, err)
				assert.Same(t, its, again)
				public := u.OwnDir(t, dir, string(mode)+"-"+u.Name)
				require.NoError(t, os.Chmod(public, everybody))
				sitetest.Private(t, its, public, u, users[1-i])
				pids = append(pids, sitetest.Gateway(t, its))

				agent, err := s.Agent(t.Context(), u.Name, "/opt/gangline/gangline-agent")
				require.NoError(t, err)
				if mode == sites.SSH {
					assert.Equal(t, filepath.Join(dir, u.Name, "agents"), filepath.Dir(agent))
				} else {
					assert.Equal(t, "/opt/gangline/gangline-agent", agent)
				}
			}
			for _, name := range []string{"root", "", "-x", "a/b", "../a"} {
				_, err = s.For(t.Context(), name)
				assert.ErrorContains(t, err, "no name of an ordinary HPC user", name)
			}
			require.NoError(t, s.Close())
			for _, pid := range pids {
				assert.Eventually(t, func() bool { return !sitetest.Running(pid) }, 20*time.Second, 10*time.Millisecond)
			}
			_, err = s.For(t.Context(), one.Name)
			assert.Error(t, err)
		})
	}
}

func TestNothingIsLeftOfAUserWithoutWork(t *testing.T) {
	one, other := sitetest.Users(t)
	dir := sitetest.PublicDir(t)
	config := configs(t, dir, sitetest.Program(t, dir), []sitetest.Account{one, other})[sites.SSH]
	config.Idle = metav1.Duration{Duration: 200 * time.Millisecond}
	s, err := sites.New(config, site.Local{}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	its, err := s.For(t.Context(), one.Name)
	require.NoError(t, err)
	first := sitetest.Gateway(t, its)
	assert.Eventually(t, func() bool { return !sitetest.Running(first) }, 20*time.Second, 10*time.Millisecond)
	// The connection has gone too, or this would get an answer from it.
	require.Eventually(t, func() bool {
		_, err := its.DialContext(t.Context(), "tcp", config.SSH.Address)
		return err != nil && assert.ErrorIs(t, err, site.ErrUnreachable)
	}, 20*time.Second, 10*time.Millisecond)
	second := sitetest.Gateway(t, its)
	assert.NotEqual(t, first, second, "and it comes back")
	s.Forget(one.Name)
	s.Forget("nobody")
	assert.Eventually(t, func() bool { return !sitetest.Running(second) }, 20*time.Second, 10*time.Millisecond)
	another, err := s.For(t.Context(), one.Name)
	require.NoError(t, err)
	assert.NotSame(t, its, another)
	assert.NotEqual(t, second, sitetest.Gateway(t, another))
}

func TestTheOwnUser(t *testing.T) {
	s, err := sites.New(sites.Config{}, site.Local{}, nil)
	require.NoError(t, err)
	me, err := user.Current()
	require.NoError(t, err)
	its, err := s.For(t.Context(), me.Username)
	require.NoError(t, err)
	assert.Equal(t, site.Local{}, its)
	_, err = s.For(t.Context(), "ada")
	assert.ErrorContains(t, err, "or choose setuid, sudo or ssh")
	require.NoError(t, s.Close())
}

func TestConfigurations(t *testing.T) {
	key, err := logintest.NewKey(filepath.Join(t.TempDir(), "key"))
	require.NoError(t, err)
	ssh := sites.SSHConfig{
		Address: "login", KnownHosts: logintest.Line(key), KeyFile: "/keys/{user}", AgentDir: "/scratch/{user}/gangline", Agents: map[string]string{"amd64": "/agent"},
	}
	changed := func(change func(*sites.SSHConfig)) sites.SSHConfig {
		c := ssh
		change(&c)
		return c
	}
	for sentence, tc := range map[string]struct {
		config sites.Config
		want   string
	}{
		"nothing at all is the own user":  {sites.Config{}, ""},
		"setuid":                          {sites.Config{Mode: sites.Setuid, Agent: "/agent"}, ""},
		"ssh":                             {sites.Config{Mode: sites.SSH, SSH: ssh, Lock: "/tmp/{user}/lock"}, ""},
		"an unknown mode":                 {sites.Config{Mode: "telnet"}, "none of own, setuid, ssh, sudo"},
		"setuid without an agent":         {sites.Config{Mode: sites.Setuid}, "agent:"},
		"sudo without an agent":           {sites.Config{Mode: sites.Sudo}, "agent:"},
		"one lock for all":                {sites.Config{Mode: sites.Setuid, Agent: "/agent", Lock: "/lock"}, "lock:"},
		"a negative time":                 {sites.Config{Idle: metav1.Duration{Duration: -1}}, "idle:"},
		"ssh to nowhere":                  {sites.Config{Mode: sites.SSH, SSH: changed(func(c *sites.SSHConfig) { c.Address = "" })}, "ssh.address:"},
		"ssh without a host key":          {sites.Config{Mode: sites.SSH, SSH: changed(func(c *sites.SSHConfig) { c.KnownHosts = "" })}, "knownHosts is empty"},
		"ssh to a directory with a space": {sites.Config{Mode: sites.SSH, SSH: changed(func(c *sites.SSHConfig) { c.AgentDir = "/a b" })}, "agentDir"},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := tc.config.Validate()
			if tc.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.want)
		})
	}
}
