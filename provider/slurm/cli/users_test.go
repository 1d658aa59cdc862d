package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/wlm"
	"github.com/gangline/gangline/translate"
)

// person is this machine as some user has it, who leaves the name in what is run.
type person struct {
	site.Local
	user site.User
	err  error // of all that is run
}

func (p person) User(context.Context) (site.User, error) { return p.user, nil }

func (p person) Run(ctx context.Context, c site.Command) (site.Result, error) {
	if p.err != nil {
		return site.Result{}, p.err
	}
	return p.Local.Run(ctx, c)
}

// persons are sites by their users' names.
type persons map[string]person

func (p persons) For(_ context.Context, user string) (site.Site, error) {
	if found, ok := p[user]; ok {
		return found, nil
	}
	return nil, fmt.Errorf("nobody is called %s", user)
}

func adaAndBob() persons {
	return persons{
		"ada":  {user: site.User{Name: "ada", UID: 1001, Home: "/home/ada", Host: "login"}},
		"bob":  {user: site.User{Name: "bob", UID: 1002, Home: "/home/bob", Host: "login"}},
		"root": {user: site.User{Name: "root", Home: "/root", Host: "login"}},
		"far":  {user: site.User{Name: "far", UID: 1003, Host: "login"}, err: site.ErrUnreachable},
		"slow": {user: site.User{Name: "slow", UID: 1004, Host: "login"}, err: site.ErrTimeout},
	}
}

func asUser(name string) func(*translate.Request) {
	return func(r *translate.Request) { r.User = name }
}

func TestJobsAreSubmittedAndCancelledAsTheirUsers(t *testing.T) {
	dir := t.TempDir()
	who := filepath.Join(dir, "who")
	bin := fakeTools(t, map[string]string{"sbatch": "echo sbatch $USER $LOGNAME $HOME >>" + who + "; echo 7", "scancel": "echo scancel $USER $1 >>" + who})
	m := newManager(t, Config{Bin: bin, Sites: adaAndBob()})
	for _, name := range []string{"ada", "bob"} {
		_, err := m.Submit(t.Context(), request(dir, asUser(name)))
		require.NoError(t, err)
		require.NoError(t, m.Cancel(t.Context(), name, "7"))
	}
	got, err := os.ReadFile(who)
	require.NoError(t, err)
	assert.Equal(t, "sbatch ada ada /home/ada\nscancel ada 7\nsbatch bob bob /home/bob\nscancel bob 7\n", string(got))
	info, err := os.Stat(filepath.Join(dir, scriptName))
	require.NoError(t, err)
	assert.EqualValues(t, scriptMode, info.Mode())

	_, err = m.Submit(t.Context(), request(dir, asUser("eve")))
	assert.ErrorContains(t, err, "nobody is called eve")
	assert.ErrorContains(t, m.Cancel(t.Context(), "eve", "7"), "cancelling job 7: nobody is called eve")
}

func TestRootSubmitsNothing(t *testing.T) {
	m := newManager(t, Config{Bin: fakeTools(t, map[string]string{"sbatch": "echo 7"}), Sites: adaAndBob()})
	dir := t.TempDir()
	_, err := m.Submit(t.Context(), request(dir, asUser("root")))
	assert.ErrorContains(t, err, "no job runs as root")
	assert.NoFileExists(t, filepath.Join(dir, scriptName))
}

func TestAnAnswerThatNeverCameIsNoRefusal(t *testing.T) {
	m := newManager(t, Config{Bin: fakeTools(t, nil), Sites: adaAndBob()})
	for user, want := range map[string]string{"far": "cannot be reached", "slow": "sbatch gave no answer within"} {
		_, err := m.Submit(t.Context(), request(t.TempDir(), asUser(user)))
		assert.ErrorContains(t, err, want)
		assert.False(t, isRejected(err), "the job may exist")
		assert.Error(t, m.Cancel(t.Context(), user, "7"))
	}
}

func TestAMissingToolIsLookedForAgain(t *testing.T) {
	bin := fakeTools(t, nil)
	m := newManager(t, Config{Bin: bin, Sites: adaAndBob()})
	scancel := filepath.Join(bin, "scancel")
	require.NoError(t, os.Rename(scancel, scancel+"-away"))
	err := m.Cancel(t.Context(), "ada", "7")
	assert.ErrorContains(t, err, "login has no "+scancel+" for user ada")
	require.NoError(t, os.Rename(scancel+"-away", scancel))
	assert.NoError(t, m.Cancel(t.Context(), "ada", "7"))
}

// listOf makes squeue's record of a job.
func listOf(id, name, uid string) string {
	const at = "2026-11-29T19:33:40"
	return record(id, "RUNNING", name, uid, "hpc1", at, at, at, "None", "pi-"+id)
}

// squeueFake prints the files "some" and "all" in a directory, as it is asked with
// --user or not, and keeps how it was asked.
func squeueFake(t *testing.T, dir, some, all string) string {
	t.Helper()
	for name, text := range map[string]string{"some": some, "all": all} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return `echo "$@" >>` + dir + `/asked
for arg; do case $arg in --format=*) format=${arg#--format=};; esac; done
list() { sed "s/$(printf '\036')/${format%%%i*}/g" "$1"; }
case "$*" in *--user=*) list ` + dir + `/some; cat ` + dir + `/remark >&2 2>/dev/null; exit 0;; esac
list ` + dir + `/all`
}

func jobsAndUsers(jobs []wlm.Job) string {
	var words []string
	for _, j := range jobs {
		words = append(words, j.ID+" "+j.User)
	}
	return strings.Join(words, ", ")
}

// What squeue of Slurm 22.05.8 does with a number that it knows no user of: it says so on
// stderr, leaves out that user's jobs, and succeeds.
func TestAUserWhomSqueueDoesNotKnowKeepsHisJobsAndBlindsNobody(t *testing.T) {
	dir := t.TempDir()
	some := listOf("1", "ada", "1001")
	bin := fakeTools(t, map[string]string{"squeue": squeueFake(t, dir, some, some+listOf("2", "nobody", "1002")+listOf("3", "eve", "1003"))})
	var log bytes.Buffer
	m := newManager(t, Config{
		Bin: bin, Sites: adaAndBob(), Log: slog.New(slog.NewTextHandler(&log, nil)),
		Users: func() []int { return []int{1001, 1002} },
	})
	jobs, err := m.List(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "1 ada", jobsAndUsers(jobs))
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	require.NoError(t, err)
	assert.Contains(t, string(asked), "--user=1001,1002\n")
	assert.Equal(t, 1, strings.Count(string(asked), "\n"), "one query for all")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "remark"), []byte("squeue: error: Invalid user: 1002\n\n"), 0o600))
	_, err = m.List(t.Context())
	assert.ErrorContains(t, err, "user number 1002", "not a list in which the job is missing")
	require.NoError(t, m.Cancel(t.Context(), "bob", "2")) // tells whose number it is
	for range 2 {
		jobs, err = m.List(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "1 ada, 2 bob", jobsAndUsers(jobs))
	}
	assert.Equal(t, 1, strings.Count(log.String(), "does not know all users"), "it is said once")
}

func TestTheOwnUsersJobsAreListedWhereNobodyElseIsNamed(t *testing.T) {
	dir := t.TempDir()
	bin := fakeTools(t, map[string]string{"squeue": squeueFake(t, dir, "", "")})
	for _, users := range []func() []int{nil, func() []int { return nil }} {
		_, err := newManager(t, Config{Bin: bin, Users: users}).List(t.Context())
		require.NoError(t, err)
	}
	asked, err := os.ReadFile(filepath.Join(dir, "asked"))
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(string(asked), "--user=1001\n"))
}

// sacct of Slurm 22.05.8 fails for all users where it does not know one.
func TestAUserWhomSacctDoesNotKnowBlindsNobody(t *testing.T) {
	const times = "|hpc1|2026-11-30T01:43:46|2026-11-30T01:43:47|2026-11-30T01:43:50|0:0|"
	lines := history("7|COMPLETED|ada|1001"+times+"pi-1", "8|CANCELLED by 1002|nobody|1002"+times+"pi-2", "9|COMPLETED|eve|1003"+times+"pi-3")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "all"), []byte(lines), 0o600))
	m := newManager(t, Config{
		Sites: adaAndBob(), Users: func() []int { return []int{1001, 1002} },
		Bin: fakeTools(t, map[string]string{"sacct": `case "$*" in *--user=*) echo "sacct: error: Invalid user id: 1002" >&2; exit 1;; esac
cat ` + dir + "/all"}),
	})
	require.NoError(t, m.Cancel(t.Context(), "bob", "8"))
	now := time.Now()
	ended, err := m.Ended(t.Context(), []wlm.JobRef{{Name: "pi-1", ID: "7", Submitted: now}, {Name: "pi-2", ID: "8", Submitted: now}, {Name: "pi-3", Submitted: now}})
	require.NoError(t, err)
	require.Len(t, ended, 2, "another user's job of the same name is none of ours")
	assert.Equal(t, "ada", ended["pi-1"].User)
	assert.Equal(t, "bob", ended["pi-2"].User)
	assert.Equal(t, "by bob", ended["pi-2"].Reason)
}

func TestWhoHasCancelledIsAskedOfTheSite(t *testing.T) {
	m := newManager(t, Config{Bin: fakeTools(t, nil)})
	at, err := m.session(t.Context(), "")
	require.NoError(t, err)
	assert.Equal(t, "root", m.nameOf(t.Context(), at, 0))
	assert.Empty(t, m.nameOf(t.Context(), at, 54321))
}
