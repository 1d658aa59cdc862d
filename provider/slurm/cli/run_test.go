package cli

import (
	"context"
	"fmt"
	"maps"
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

// fakeTools writes shell scripts in place of Slurm's tools; a tool that is not
// named prints nothing.
func fakeTools(t *testing.T, scripts map[string]string) string {
	t.Helper()
	bin := t.TempDir()
	tools := map[string]string{"sbatch": "", "squeue": "", "scancel": "", "sinfo": ""}
	maps.Copy(tools, scripts)
	for tool, script := range tools {
		require.NoError(t, os.WriteFile(filepath.Join(bin, tool), []byte("#!/bin/sh\n"+script), 0o755))
	}
	return bin
}

// ordinary is this machine as an ordinary user has it, whoever runs the test.
type ordinary struct{ site.Local }

func (o ordinary) User(ctx context.Context) (site.User, error) {
	u, err := o.Local.User(ctx)
	u.Name, u.UID, u.GID = "ada", 1001, 1001
	return u, err
}

func newManager(t *testing.T, cfg Config) *Manager {
	t.Helper()
	if cfg.Asker == nil {
		cfg.Asker = ordinary{}
	}
	m, err := New(t.Context(), cfg)
	require.NoError(t, err)
	return m
}

func request(dir string, change ...func(*translate.Request)) translate.Request {
	r := translate.Request{
		Name: "pi-1", Comment: "JobSet default/pi",
		Groups: []translate.TaskGroup{{Tasks: 1, Resources: translate.Resources{CPUs: 1, MemoryMiB: 64}}},
		Agent:  filepath.Join(dir, "agent"), Dir: dir,
	}
	for _, f := range change {
		f(&r)
	}
	return r
}

func TestNewNamesTheToolThatIsMissing(t *testing.T) {
	bin := fakeTools(t, nil)
	require.NoError(t, os.Remove(filepath.Join(bin, "scancel")))
	_, err := New(t.Context(), Config{Bin: bin})
	assert.ErrorContains(t, err, "scancel")
	assert.ErrorContains(t, err, "or name its directory")
}

func TestToolsGetAnEnvironmentOfTheirOwn(t *testing.T) {
	t.Setenv("KUBECONFIG", "/secret")
	t.Setenv("SBATCH_PARTITION", "of-the-provider")
	dir := t.TempDir()
	env := filepath.Join(dir, "env")
	bin := fakeTools(t, map[string]string{"sbatch": "env >" + env + "; ls -l /proc/self/fd >>" + env + "; echo 7"})
	m := newManager(t, Config{Bin: bin, Conf: "/etc/elsewhere/slurm.conf"})
	id, err := m.Submit(t.Context(), request(dir))
	require.NoError(t, err)
	assert.Equal(t, "7", id)
	got, err := os.ReadFile(env)
	require.NoError(t, err)
	assert.Contains(t, string(got), "SLURM_CONF=/etc/elsewhere/slurm.conf\n")
	assert.Contains(t, string(got), "PATH="+bin+":/usr/local/bin:/usr/bin:/bin\n")
	assert.NotContains(t, string(got), "KUBECONFIG")
	assert.NotContains(t, string(got), "SBATCH_PARTITION")
	written, err := os.ReadFile(filepath.Join(dir, "launch.sh"))
	require.NoError(t, err)
	assert.Equal(t, scriptText, string(written))
}

func TestWhatASuccessfulToolSaysOnStderrIsNoFailure(t *testing.T) {
	const banner = "echo '*** Maintenance on Monday ***' >&2; echo 'sbatch: error: this is only a remark' >&2; "
	m := newManager(t, Config{Bin: fakeTools(t, map[string]string{
		"sbatch": banner + "echo 'Dear user'; echo '12;cluster'", "squeue": banner, "scancel": banner, "sinfo": banner,
	})})
	id, err := m.Submit(t.Context(), request(t.TempDir()))
	require.NoError(t, err)
	assert.Equal(t, "12", id)
	jobs, err := m.List(t.Context())
	require.NoError(t, err)
	assert.Empty(t, jobs)
	assert.NoError(t, m.Cancel(t.Context(), "", "12"))
	_, err = m.Inventory(t.Context())
	assert.NoError(t, err)
}

func TestAFailedQueryIsAnErrorInTheToolsOwnWords(t *testing.T) {
	const down = "echo 'squeue: error: something first' >&2; " +
		"echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1"
	m := newManager(t, Config{Bin: fakeTools(t, map[string]string{"squeue": down, "sinfo": down})})
	jobs, err := m.List(t.Context())
	assert.Nil(t, jobs)
	assert.EqualError(t, err, "squeue failed (exit status 1): something first; "+
		"slurm_load_jobs error: Unable to contact slurm controller (connect failure)")
	_, err = m.Inventory(t.Context())
	assert.ErrorContains(t, err, "Unable to contact slurm controller")
}

func TestCancellingAJobThatIsGoneIsNoError(t *testing.T) {
	tests := map[string]struct{ scancel, want string }{
		"it never was": {"echo 'scancel: error: Kill job error on job id 9: Invalid job id specified' >&2; exit 1", ""},
		"it has ended": {"echo 'scancel: error: Kill job error on job id 9: Job/step already completing or completed' >&2; exit 1", ""},
		"it is another's": {"echo 'scancel: error: Kill job error on job id 9: Access/permission denied' >&2; exit 210",
			"cancelling job 9: scancel failed (exit status 210): Kill job error on job id 9: Access/permission denied"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := newManager(t, Config{Bin: fakeTools(t, map[string]string{"scancel": tt.scancel})})
			err := m.Cancel(t.Context(), "", "9")
			if tt.want == "" {
				assert.NoError(t, err)
			} else {
				assert.EqualError(t, err, tt.want)
			}
			assert.ErrorContains(t, m.Cancel(t.Context(), "", "--user=ada"), "no job id")
		})
	}
}

func TestAToolThatHangsIsKilledWithWhatItHasStarted(t *testing.T) {
	dir := t.TempDir()
	child := filepath.Join(dir, "child")
	bin := fakeTools(t, map[string]string{"squeue": "sleep 300 & echo $! >" + child + "; wait"})
	m := newManager(t, Config{Bin: bin, Timeout: 300 * time.Millisecond})
	_, err := m.List(t.Context())
	assert.EqualError(t, err, "squeue gave no answer within 300ms")
	pid, err := os.ReadFile(child)
	require.NoError(t, err)
	assert.Eventually(t, func() bool { return !running(strings.TrimSpace(string(pid))) }, 5*time.Second, 10*time.Millisecond)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = m.List(ctx)
	assert.ErrorIs(t, err, context.Canceled)
}

// running tells whether a process is there and no zombie.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(state, "Z")
}

func TestSubmissionErrorsAreTold(t *testing.T) {
	refuse := fakeTools(t, map[string]string{"sbatch": "echo 'Hello!' >&2; echo 'sbatch: error: No project' >&2; " +
		"echo 'sbatch: error: Batch job submission failed: Unspecified error' >&2; exit 1"})
	var rejected *wlm.RejectedError
	_, err := newManager(t, Config{Bin: refuse}).Submit(t.Context(), request(t.TempDir()))
	require.ErrorAs(t, err, &rejected)
	assert.Equal(t, "No project; Batch job submission failed: Unspecified error", rejected.Message)

	_, err = newManager(t, Config{Bin: refuse}).Submit(t.Context(), request(t.TempDir(), func(r *translate.Request) {
		r.Account = "a\nb"
	}))
	require.ErrorAs(t, err, &rejected)
	assert.ErrorContains(t, err, "control character")

	down := fakeTools(t, map[string]string{"sbatch": "echo 'sbatch: error: Batch job submission failed: " +
		"Unable to contact slurm controller (connect failure)' >&2; exit 1"})
	_, err = newManager(t, Config{Bin: down}).Submit(t.Context(), request(t.TempDir()))
	assert.False(t, isRejected(err))
	assert.ErrorContains(t, err, "Unable to contact slurm controller")

	mute := fakeTools(t, nil)
	_, err = newManager(t, Config{Bin: mute}).Submit(t.Context(), request(t.TempDir()))
	assert.False(t, isRejected(err))
	assert.ErrorContains(t, err, "no job id")

	_, err = newManager(t, Config{Bin: mute}).Submit(t.Context(), request("/nonexistent"))
	assert.ErrorContains(t, err, "writing the batch script")
}

func TestTheNameHasTheVersion(t *testing.T) {
	for printed, want := range map[string]string{"slurm-wlm 22.05.8": "slurm 22.05.8", "slurm 24.11.0-0rc1": "slurm 24.11.0-0rc1"} {
		m := newManager(t, Config{Bin: fakeTools(t, map[string]string{"sinfo": fmt.Sprintf("echo %q", printed)})})
		name, err := m.Name(t.Context())
		require.NoError(t, err)
		assert.Equal(t, want, name)
	}
	_, err := newManager(t, Config{Bin: fakeTools(t, nil)}).Name(t.Context())
	assert.ErrorContains(t, err, "printed nothing")
}
