package slurm_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/site/login/logintest"
	"github.com/gangline/gangline/provider/site/sites"
	"github.com/gangline/gangline/provider/site/sitetest"
	"github.com/gangline/gangline/provider/slurm/cli"
	"github.com/gangline/gangline/provider/slurm/rest"
	"github.com/gangline/gangline/provider/wlm"
	devslurm "github.com/gangline/gangline/test/slurm"
)

// nobody is a number that no machine has a user of.
const nobody = 54321

// everybody may look into a directory.
const everybody = 0o755

// team is two users and how to act as them.
type team struct {
	dev     *devslurm.Cluster
	users   []sitetest.Account
	program string
	access  map[sites.Mode]sites.Config
}

func newTeam(t *testing.T, dev *devslurm.Cluster) team {
	t.Helper()
	one, other := sitetest.Users(t)
	dir := sitetest.PublicDir(t)
	tm := team{dev: dev, users: []sitetest.Account{one, other}, program: sitetest.Program(t, dir)}
	node, err := logintest.Start(t.Context(), dir, io.Discard)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, node.Stop()) })
	for _, u := range tm.users {
		key, err := logintest.NewKey(filepath.Join(dir, "key."+u.Name))
		require.NoError(t, err)
		require.NoError(t, node.Authorize(u.Name, logintest.Line(key)))
		require.NoError(t, os.Chmod(u.OwnDir(t, dir, u.Name), everybody))
	}
	lock := func(mode sites.Mode) string { return filepath.Join(dir, "{user}", "lock-"+string(mode)) }
	tm.access = map[sites.Mode]sites.Config{
		sites.Setuid: {Mode: sites.Setuid, Agent: tm.program, Lock: lock(sites.Setuid)},
		sites.Sudo:   {Mode: sites.Sudo, Agent: tm.program, Lock: lock(sites.Sudo), Sudo: sitetest.Sudo(t, dir)},
		sites.SSH: {Mode: sites.SSH, Lock: lock(sites.SSH), SSH: sites.SSHConfig{
			Address: node.Address, KnownHosts: node.KnownHosts(), KeyFile: filepath.Join(dir, "key.{user}"),
			AgentDir: filepath.Join(dir, "{user}", "agents"), Agents: map[string]string{runtime.GOARCH: tm.program},
		}},
	}
	return tm
}

// overCLI is a manager in a mode, at which the first user asks.
func (tm team) overCLI(t *testing.T, c sites.Config, uids ...int) (m *cli.Manager, end func() error) {
	t.Helper()
	users, err := sites.New(c, site.Local{}, slog.New(slog.NewTextHandler(t.Output(), nil)))
	require.NoError(t, err)
	asker, err := users.For(t.Context(), tm.users[0].Name)
	require.NoError(t, err)
	m, err = cli.New(t.Context(), cli.Config{
		Conf: tm.dev.SlurmConf(), Sites: users, Asker: asker, Users: func() []int { return uids },
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	require.NoError(t, err)
	return m, users.Close
}

func (tm team) uids() []int { return []int{tm.users[0].UID, tm.users[1].UID} }

// overREST is a manager with a token for each user.
func (tm team) overREST(t *testing.T) *rest.Manager {
	t.Helper()
	dir := t.TempDir()
	for _, u := range tm.users {
		token, err := tm.dev.Output(t.Context(), devslurm.Head, "scontrol", "token", "lifespan=600", "username="+u.Name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, u.Name+".jwt"), []byte(token), 0o600))
	}
	m, err := rest.New(rest.Config{
		URL: "unix:" + tm.dev.RESTSocket(), TokenFile: filepath.Join(dir, "{user}.jwt"), Asker: tm.users[0].Name, Users: tm.uids,
	})
	require.NoError(t, err)
	return m
}

func testTwoUsers(t *testing.T, tm team) {
	for mode, config := range tm.access {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			m, end := tm.overCLI(t, config, append(tm.uids(), nobody)...)
			tm.test(t, string(mode), m)
			assert.NoError(t, end())
		})
	}
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		m := own{program: tm.program, conf: tm.dev.SlurmConf(), users: tm.users}
		tm.test(t, "own", m)
		for _, user := range []string{"root", ""} { // a provider that runs as root
			r := tm.of(0, "own", m).request(t, "of-root"+user, tasks(1, 1, 64, 0))
			r.User = user
			_, err := m.Submit(t.Context(), r)
			assert.ErrorContains(t, err, "no job runs as root")
		}
	})
	t.Run("tokens", func(t *testing.T) {
		t.Parallel()
		tm.test(t, "tokens", tm.overREST(t))
	})
}

// of is the cluster as one of the users stands in it.
func (tm team) of(i int, kind string, m wlm.Manager) *cluster {
	u := tm.users[i]
	return &cluster{dev: tm.dev, Manager: m, kind: kind, spool: tm.dev.SharedDir(), user: u.Name, uid: u.UID, gid: u.GID}
}

// test submits a job for each user, and has each cancelled by its own only.
func (tm team) test(t *testing.T, kind string, m wlm.Manager) {
	ids := make([]string, len(tm.users))
	for i, u := range tm.users {
		c := tm.of(i, kind, m)
		r := c.request(t, "of-"+u.Name, tasks(1, 1, 64, 0))
		r.User = u.Name
		var err error
		ids[i], err = m.Submit(t.Context(), r)
		require.NoError(t, err)
		assert.Contains(t, read(t, r, "env"), "\nUSER="+u.Name+"\n")
		assert.Equal(t, u.Name, c.waitFor(t, ids[i], wlm.PhaseRunning).User)
	}
	for i, id := range ids {
		assert.ErrorContains(t, m.Cancel(t.Context(), tm.users[1-i].Name, id), "Access/permission denied")
	}
	for i, id := range ids { // one list has both
		assert.Equal(t, wlm.PhaseRunning, tm.of(i, kind, m).job(t, id).Phase)
	}
	for i, id := range ids {
		require.NoError(t, m.Cancel(t.Context(), tm.users[i].Name, id))
	}
	for i, id := range ids {
		assert.Equal(t, wlm.OutcomeCancelled, tm.of(i, kind, m).waitFor(t, id, wlm.PhaseEnded).Outcome)
	}
}
