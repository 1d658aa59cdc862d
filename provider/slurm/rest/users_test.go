package rest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// tokensOf makes a directory with a token for each user.
func tokensOf(t *testing.T, users ...string) (file string) {
	t.Helper()
	dir := t.TempDir()
	for _, user := range users {
		require.NoError(t, os.WriteFile(filepath.Join(dir, user+".jwt"), []byte(tokenFor(`{"sun":"`+user+`"}`)), 0o600))
	}
	return filepath.Join(dir, "{user}.jwt")
}

func requestOf(user string) translate.Request {
	return request(func(r *translate.Request) { r.User = user })
}

func forUsers(file string, uids ...int) func(*Config) {
	return func(c *Config) {
		c.TokenFile, c.Asker = file, "ada"
		c.Users = func() []int { return uids }
	}
}

func TestEachUserHasATokenOfHisOwn(t *testing.T) {
	m, s := newTestManager(t, map[string]string{
		"GET /slurm/v0.0.38/jobs/":       `200 {"jobs":[],"errors":[]}`,
		"POST /slurm/v0.0.38/job/submit": `200 {"job_id":7,"errors":[]}`,
		"DELETE /slurm/v0.0.38/job/7":    `200 {"errors":[]}`,
	}, forUsers(tokensOf(t, "ada", "bob", "root")))
	as := func(want string) {
		t.Helper()
		assert.Equal(t, want, s.headers.Get("X-Slurm-User-Name"))
		assert.Equal(t, tokenFor(`{"sun":"`+want+`"}`), s.headers.Get("X-Slurm-User-Token"))
	}
	_, err := m.List(t.Context())
	require.NoError(t, err)
	as("ada")
	_, err = m.Submit(t.Context(), requestOf("bob"))
	require.NoError(t, err)
	as("bob")
	_, err = m.Submit(t.Context(), requestOf("ada"))
	require.NoError(t, err)
	as("ada")
	require.NoError(t, m.Cancel(t.Context(), "bob", "7"))
	as("bob")

	s.take()
	for user, want := range map[string]string{
		"eve": "reading slurmrestd's token", "../ada": "no user's name", ".": "no user's name", "root": "no job runs as root",
	} {
		_, err = m.Submit(t.Context(), requestOf(user))
		assert.ErrorContains(t, err, want)
		assert.NotErrorAs(t, err, new(*wlm.RejectedError), "it may be put right")
	}
	require.NoError(t, os.WriteFile(strings.ReplaceAll(m.cfg.TokenFile, userMark, "bob"), []byte(tokenFor(`{"sun":"ada"}`)), 0o600))
	assert.ErrorContains(t, m.Cancel(t.Context(), "bob", "7"), "is ada's, not bob's")
	assert.Empty(t, s.take(), "nothing is sent")
}

func TestOneTokenIsForOneUser(t *testing.T) {
	m, s := newTestManager(t, map[string]string{"POST /slurm/v0.0.38/job/submit": `200 {"job_id":7,"errors":[]}`})
	_, err := m.Submit(t.Context(), requestOf("hpcuser"))
	require.NoError(t, err)
	s.take()
	_, err = m.Submit(t.Context(), requestOf("bob"))
	assert.ErrorContains(t, err, "is hpcuser's, and there is none for bob: put {user}")
	assert.ErrorContains(t, m.Cancel(t.Context(), "bob", "7"), "there is none for bob")
	assert.Empty(t, s.take(), "nothing is sent")
}

func TestTokensForAllAndForOneContradict(t *testing.T) {
	_, err := New(Config{URL: "http://head", TokenFile: "/t/{user}"})
	assert.ErrorContains(t, err, "asker")
	_, err = New(Config{URL: "http://head", TokenFile: "/t/{user}", Asker: "ada", User: "ada"})
	assert.ErrorContains(t, err, "for ada alone")
}

func TestTheUsersJobsAreListedWhateverTheyAreCalled(t *testing.T) {
	const jobs = "GET /slurm/v0.0.45/jobs/"
	answer := func(bob string) string {
		job := `{"job_id":%d,"name":"pi","user_name":%s,"user_id":%d,"job_state":["RUNNING"],"nodes":"n1"}`
		all := []string{fmt.Sprintf(job, 1, `"ada"`, 1001), fmt.Sprintf(job, 2, bob, 1002), fmt.Sprintf(job, 3, "null", 1003)}
		return `200 {"last_update":{"set":true,"number":1000},"errors":[],"jobs":[` + strings.Join(all, ",") + `]}`
	}
	uids := []int{1001}
	m, s := newTestManager(t, map[string]string{jobs: answer("null"), jobs + "?update_time=1000": "304 "}, func(c *Config) {
		forUsers(tokensOf(t, "ada"))(c)
		c.APIVersion = "v0.0.45"
		c.Users = func() []int { return slices.Clone(uids) }
	})
	list := func() string {
		t.Helper()
		got, err := m.List(t.Context())
		require.NoError(t, err)
		var words []string
		for _, j := range got {
			words = append(words, j.ID+" "+j.User)
		}
		return strings.Join(words, ", ")
	}
	assert.Equal(t, "1 ada", list())
	assert.Equal(t, "1 ada", list())
	assert.Equal(t, []string{jobs, jobs + "?update_time=1000"}, s.take())

	uids = []int{1002, 1001} // his jobs were in the list that was there, and are not in what was kept of it
	_, err := m.List(t.Context())
	assert.ErrorContains(t, err, "user number 1002")
	s.set(jobs, answer(`"bob"`))
	assert.Equal(t, "1 ada, 2 bob", list())
	uids = []int{1001, 1002}
	assert.Equal(t, "1 ada, 2 bob", list())
	assert.Equal(t, []string{jobs, jobs, jobs + "?update_time=1000"}, s.take())
	s.set(jobs+"?update_time=1000", answer("null"))
	assert.Equal(t, "1 ada, 2 bob", list(), "a name is remembered")
}
