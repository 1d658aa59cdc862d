package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
)

// TestMain runs the tests in a user namespace, as the agent does.
func TestMain(m *testing.M) {
	if sandbox.IsInit(os.Args) {
		sandbox.Init()
	}
	entry := sandbox.Enter()
	if entry.Ended {
		os.Exit(entry.Code)
	}
	if entry.Unavailable != nil {
		fmt.Fprintln(os.Stderr, "the tests need user namespaces:", entry.Unavailable)
		os.Exit(1)
	}
	if script, ok := os.LookupEnv(scriptVariable); ok {
		fmt.Fprintln(os.Stderr, unix.Exec("/bin/sh", []string{"sh", "-c", script}, []string{"PATH=/usr/bin:/bin"}))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fixture starts processes and holds the host's side of their mounts.
type fixture struct {
	t       *testing.T
	starter sandbox.Starter
	host    string // a directory in memory, as the agent has it
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	table, err := process.NewTable()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { table.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	host, err := os.MkdirTemp("/dev/shm", "gangline-test-")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(host)) })
	return &fixture{t: t, starter: sandbox.Starter{Table: table}, host: host}
}

func (f *fixture) root(mounts ...sandbox.Mount) *sandbox.Root {
	f.t.Helper()
	scratch := filepath.Join(f.host, "scratch")
	require.NoError(f.t, os.MkdirAll(scratch, 0o700))
	return &sandbox.Root{Hostname: "pi-worker-0", Mounts: mounts, Scratch: scratch}
}

// dir and file make a mount's source; a file holds its own name.
func (f *fixture) dir(name string) string {
	f.t.Helper()
	path := filepath.Join(f.host, name)
	require.NoError(f.t, os.MkdirAll(path, 0o755))
	return path
}

func (f *fixture) file(name string) string {
	f.t.Helper()
	f.dir(filepath.Dir(name))
	path := filepath.Join(f.host, name)
	require.NoError(f.t, os.WriteFile(path, []byte(filepath.Base(name)), 0o644))
	return path
}

// start runs a recipe and returns its output and exit code.
func (f *fixture) start(r sandbox.Recipe) (string, int, error) {
	f.t.Helper()
	null, err := os.Open(os.DevNull)
	require.NoError(f.t, err)
	defer null.Close()
	out, w, err := os.Pipe()
	require.NoError(f.t, err)
	defer out.Close()
	p, err := f.starter.Start(f.t.Context(), r, sandbox.Streams{Stdin: null, Stdout: w, Stderr: w})
	require.NoError(f.t, w.Close())
	if err != nil {
		return "", 0, err
	}
	text, err := io.ReadAll(out)
	require.NoError(f.t, err)
	<-p.Done()
	return string(text), process.ExitCode(p.Status()), nil
}

// sh runs a shell script in a root and returns what it prints.
func (f *fixture) sh(root *sandbox.Root, script string) string {
	f.t.Helper()
	out, code, err := f.start(sandbox.Recipe{
		Root: root,
		Argv: []string{"sh", "-c", script},
		Env:  []string{"PATH=/usr/local/bin:/usr/bin:/bin", "A=1"},
	})
	require.NoError(f.t, err)
	assert.Equal(f.t, 0, code, out)
	return out
}

func TestMounts(t *testing.T) {
	for sentence, test := range map[string]func(t *testing.T, f *fixture){
		"a directory at a path that / does not have": func(t *testing.T, f *fixture) {
			f.file("vol/a")
			root := f.root(sandbox.Mount{Source: f.dir("vol"), Target: "/workspace/deep/data"})
			assert.Equal(t, "a", f.sh(root, "cat /workspace/deep/data/a; echo b >/workspace/deep/data/b"))
			assert.FileExists(t, filepath.Join(f.host, "vol", "b"))
			assert.NoDirExists(t, "/workspace")
		},
		"a source that leads through no link": func(t *testing.T, f *fixture) {
			f.file("vol/a")
			source, err := filepath.EvalSymlinks(f.dir("vol"))
			require.NoError(t, err)
			root := f.root(sandbox.Mount{Source: source, Target: "/data", NoLinks: true})
			assert.Equal(t, "a", f.sh(root, "cat /data/a"))
		},
		"a file at a path that /etc does not have": func(t *testing.T, f *fixture) {
			root := f.root(sandbox.Mount{Source: f.file("vol/hostfile"), Target: "/etc/mpi/hostfile", ReadOnly: true})
			out := f.sh(root, "cat /etc/mpi/hostfile; ! touch /etc/mpi/hostfile 2>/dev/null; cat /etc/passwd")
			passwd, err := os.ReadFile("/etc/passwd")
			require.NoError(t, err)
			assert.Equal(t, "hostfile"+string(passwd), out)
		},
		"read-only down to the last mount of the source": func(t *testing.T, f *fixture) {
			f.file("vol/a")
			// /dev has mounts of its own (shm, pts); what is mounted in it later stays writable.
			root := f.root(
				sandbox.Mount{Source: "/dev", Target: "/tree", ReadOnly: true, Recursive: true},
				sandbox.Mount{Source: "/dev", Target: "/top", ReadOnly: true},
				sandbox.Mount{Source: f.dir("vol"), Target: "/tree/shm"},
			)
			out := f.sh(root, "! touch /tree/x 2>/dev/null && touch /tree/shm/b && cat /tree/shm/a; touch /top/shm/gangline-x && rm /top/shm/gangline-x && echo writable")
			assert.Equal(t, "awritable\n", out)
			root = f.root(sandbox.Mount{Source: "/dev", Target: "/tree", ReadOnly: true, Recursive: true})
			assert.Equal(t, "no\n", f.sh(root, "touch /tree/shm/gangline-x 2>/dev/null || echo no"))
		},
		"a file over one that exists": func(t *testing.T, f *fixture) {
			root := f.root(sandbox.Mount{Source: f.file("hosts"), Target: "/etc/hosts"})
			assert.Equal(t, "hosts", f.sh(root, "cat /etc/hosts"))
		},
		"a directory over one that exists": func(t *testing.T, f *fixture) {
			f.file("vol/a")
			root := f.root(sandbox.Mount{Source: f.dir("vol"), Target: "/opt"})
			assert.Equal(t, "a\n", f.sh(root, "ls /opt"))
		},
		"a path through a link goes where the link goes": func(t *testing.T, f *fixture) {
			f.file("token/token")
			root := f.root(sandbox.Mount{Source: f.dir("token"), Target: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true})
			assert.Equal(t, "tokentoken", f.sh(root,
				"cat /var/run/secrets/kubernetes.io/serviceaccount/token /run/secrets/kubernetes.io/serviceaccount/token"))
		},
		"a file in /dev, with terminals and devices still working": func(t *testing.T, f *fixture) {
			root := f.root(sandbox.Mount{Source: f.file("termination-log"), Target: "/dev/termination-log"})
			assert.Contains(t, f.sh(root, `echo x >/dev/null; head -c 1 /dev/zero >/dev/null
				test -c /dev/null && test -d /dev/shm || exit 1
				printf done >/dev/termination-log
				script -qec 'test -c $(tty) && stty size && echo terminal' /dev/null`), "terminal")
			data, err := os.ReadFile(filepath.Join(f.host, "termination-log"))
			require.NoError(t, err)
			assert.Equal(t, "done", string(data))
		},
		"a volume over /dev/shm, where our own directory is, and others beside it": func(t *testing.T, f *fixture) {
			f.file("conf/a")
			root := f.root(
				sandbox.Mount{Source: f.dir("shm"), Target: "/dev/shm"},
				sandbox.Mount{Source: f.dir("conf"), Target: "/workspace/dir/conf"},
				sandbox.Mount{Source: f.file("hosts"), Target: "/etc/hosts"},
				sandbox.Mount{Source: f.file("term"), Target: "/dev/term"},
			)
			assert.Equal(t, "b\nahosts", f.sh(root, "touch /dev/shm/b; ls /dev/shm; cat /workspace/dir/conf/a /etc/hosts"))
		},
		"a volume in a volume, in any order": func(t *testing.T, f *fixture) {
			f.file("inner/b")
			f.file("outer/a")
			root := f.root(
				sandbox.Mount{Source: f.dir("inner"), Target: "/data/x/inner"},
				sandbox.Mount{Source: f.dir("outer"), Target: "/data", ReadOnly: true},
			)
			assert.Equal(t, "ab", f.sh(root, "cat /data/a /data/x/inner/b; touch /data/x/inner/c; ! touch /data/c 2>/dev/null"))
		},
		"a read-only volume": func(t *testing.T, f *fixture) {
			root := f.root(sandbox.Mount{Source: f.dir("vol"), Target: "/data", ReadOnly: true})
			assert.Contains(t, f.sh(root, "touch /data/x 2>&1 || true"), "Read-only file system")
		},
		"a mount point below a directory that all may write is made for real": func(t *testing.T, f *fixture) {
			world := filepath.Join(t.TempDir(), "world")
			require.NoError(t, os.Mkdir(world, 0o777))
			require.NoError(t, os.Chmod(world, 0o777))
			f.file("vol/a")
			root := f.root(sandbox.Mount{Source: f.dir("vol"), Target: filepath.Join(world, "deep", "vol")})
			assert.Equal(t, "a", f.sh(root, "cat "+world+"/deep/vol/a; echo kept >"+world+"/result"))
			assert.FileExists(t, filepath.Join(world, "result"))
		},
		"what is only for a missing path leaves an existing one alone": func(t *testing.T, f *fixture) {
			root := f.root(
				sandbox.Mount{Source: f.dir("work"), Target: "/usr/bin", IfMissing: true},
				sandbox.Mount{Source: f.dir("work"), Target: "/workspace", IfMissing: true},
			)
			assert.Equal(t, "/usr/bin/sh\nx\n", f.sh(root, "ls /usr/bin/sh; touch /workspace/x; ls /workspace"))
		},
		"everything else of the host is there": func(t *testing.T, f *fixture) {
			const list = "ls -A / | grep -vx gangline-x; ls -l / | grep -- '->' | sed 's/.* \\([^ ]* -> \\)/\\1/'; ls -A /run /dev /etc | grep -vx .host; cat /proc/self/mountinfo | wc -l >/dev/null"
			plain := f.sh(nil, list)
			rooted := f.sh(f.root(
				sandbox.Mount{Source: f.dir("a"), Target: "/gangline-x"},
				sandbox.Mount{Source: f.file("b"), Target: "/etc/gangline-x"},
				sandbox.Mount{Source: f.file("c"), Target: "/dev/gangline-x"},
				sandbox.Mount{Source: f.dir("d"), Target: "/run/gangline-x"},
			), list)
			assert.Equal(t, plain, strings.ReplaceAll(rooted, "gangline-x\n", ""))
		},
	} {
		t.Run(sentence, func(t *testing.T) { test(t, newFixture(t)) })
	}
}

func TestTheProcessIsTheUsersOwn(t *testing.T) {
	f := newFixture(t)
	ours, err := os.Readlink("/proc/self/ns/user")
	require.NoError(t, err)
	out := f.sh(f.root(), "hostname; id -u; id -g; readlink /proc/self/ns/user; tr '\\0' '\\n' </proc/$$/environ; cat /proc/$$/cmdline | tr '\\0' ' ' | cut -c 1-6")
	assert.Equal(t, fmt.Sprintf("pi-worker-0\n%d\n%d\n%s\nPATH=/usr/local/bin:/usr/bin:/bin\nA=1\nsh -c \n", os.Getuid(), os.Getgid(), ours), out)

	status := f.sh(f.root(), "cat /proc/self/status; ls /proc/self/fd | tr '\\n' ' '")
	assert.Contains(t, status, "CapAmb:\t0000000000000000\n")
	assert.Contains(t, status, "CapInh:\t0000000000000000\n")
	assert.True(t, strings.HasSuffix(status, "\n0 1 2 3 "), "the standard files and the one that ls opens: %s", status)
	if os.Getuid() != 0 { // root regains them by exec
		assert.Contains(t, status, "CapEff:\t0000000000000000\n")
		assert.Contains(t, status, "CapPrm:\t0000000000000000\n")
	}
}

func TestTwoProcessesMayReadEachOthersMemory(t *testing.T) {
	f := newFixture(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	p, err := f.starter.Start(t.Context(), sandbox.Recipe{Root: f.root(), Argv: []string{"/bin/sleep", "100"}}, sandbox.Streams{Stdin: null, Stdout: null, Stderr: null})
	require.NoError(t, err)
	// The kernel allows /proc/<pid>/mem to whom it allows process_vm_readv(2).
	out := f.sh(f.root(), fmt.Sprintf(`start=$(head -1 /proc/%[1]d/maps | cut -d - -f 1)
		dd if=/proc/%[1]d/mem bs=4096 skip=$((0x$start / 4096)) count=1 2>/dev/null | head -c 4`, p.PID()))
	assert.Equal(t, "\x7fELF", out)
	require.NoError(t, p.Signal(unix.SIGKILL))
	<-p.Done()
}

func TestWhatCannotStart(t *testing.T) {
	f := newFixture(t)
	text := f.file("text")
	dangling, link := filepath.Join(f.host, "dangling"), filepath.Join(f.host, "link")
	require.NoError(t, os.Symlink("/nowhere", dangling))
	require.NoError(t, os.Symlink("/etc", link))
	env := []string{"PATH=/usr/bin:/bin"}
	for sentence, tc := range map[string]struct {
		recipe sandbox.Recipe
		want   string
		status int // 0 for 1
	}{
		"a program that is not on PATH": {
			sandbox.Recipe{Argv: []string{"foo"}, Env: env}, `exec: "foo": executable file not found in $PATH`, 127},
		"a program without PATH": {
			sandbox.Recipe{Argv: []string{"sh"}}, `exec: "sh": executable file not found in $PATH`, 127},
		"a program's path that does not exist": {
			sandbox.Recipe{Argv: []string{"/no/such"}, Env: env}, `exec: "/no/such": stat /no/such: no such file or directory`, 127},
		"a file that is no program": {
			sandbox.Recipe{Argv: []string{text}, Env: env}, "permission denied", 126},
		"a directory": {
			sandbox.Recipe{Argv: []string{"/usr"}, Env: env}, "is a directory", 126},
		"a working directory that is a file": {
			sandbox.Recipe{Argv: []string{"true"}, Env: env, Dir: "/etc/passwd"}, "making the working directory: mkdir /etc/passwd: not a directory", 0},
		"a working directory that must exist and does not": {
			sandbox.Recipe{Argv: []string{"true"}, Env: env, Dir: "/no/such", DirMustExist: true}, "could not change to the working directory: chdir /no/such: no such file or directory", 0},
		"a volume whose directory is gone": {
			sandbox.Recipe{Root: f.root(sandbox.Mount{Source: "/no/such", Target: "/data"}), Argv: []string{"true"}, Env: env},
			"mounting /data: open /no/such: no such file or directory", 0},
		"a volume in whose place a link has come": {
			sandbox.Recipe{Root: f.root(sandbox.Mount{Source: link, Target: "/data", NoLinks: true}), Argv: []string{"true"}, Env: env},
			"mounting /data: a link has come into the path " + link, 0},
		"a volume at a relative path": {
			sandbox.Recipe{Root: f.root(sandbox.Mount{Source: f.dir("v"), Target: "data"}), Argv: []string{"true"}, Env: env},
			`a volume cannot be mounted at "data"`, 0},
		"a volume at /": {
			sandbox.Recipe{Root: f.root(sandbox.Mount{Source: f.dir("v"), Target: "/usr/.."}), Argv: []string{"true"}, Env: env},
			`a volume cannot be mounted at "/usr/.."`, 0},
		"a volume at a link to nowhere": {
			sandbox.Recipe{Root: f.root(sandbox.Mount{Source: f.dir("v"), Target: dangling}), Argv: []string{"true"}, Env: env},
			"is a link to something that does not exist", 0},
		"a directory over a file": {
			sandbox.Recipe{Root: f.root(sandbox.Mount{Source: f.dir("v"), Target: "/etc/passwd"}), Argv: []string{"true"}, Env: env},
			"mounting /etc/passwd: binding", 0},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, _, err := f.start(tc.recipe)
			var startError *sandbox.StartError
			require.ErrorAs(t, err, &startError)
			assert.Contains(t, startError.Message, tc.want)
			assert.Equal(t, max(tc.status, 1), startError.Status)
		})
	}
}

func TestAWorkingDirectoryIsMadeWherePossible(t *testing.T) {
	f := newFixture(t)
	dir := filepath.Join(f.host, "new", "dir")
	out, code, err := f.start(sandbox.Recipe{Argv: []string{"/bin/pwd"}, Dir: dir})
	require.NoError(t, err)
	assert.Equal(t, 0, code)
	assert.Equal(t, dir+"\n", out)
}

func TestAStartThatIsCancelledLeavesNothing(t *testing.T) {
	f := newFixture(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	why := errors.New("the pod has ended")
	for sentence, when := range map[string]func(starter *sandbox.Starter, cancel func()){
		"before it":                          func(_ *sandbox.Starter, cancel func()) { cancel() },
		"when its process is there, no more": func(s *sandbox.Starter, cancel func()) { s.Started = func(*process.Process) { cancel() } },
	} {
		t.Run(sentence, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			starter := f.starter
			when(&starter, func() { cancel(why) })
			_, err = starter.Start(ctx, sandbox.Recipe{Argv: []string{"/bin/sleep", "100"}}, sandbox.Streams{Stdin: null, Stdout: null, Stderr: null})
			require.ErrorIs(t, err, why)
		})
	}
}

func TestBuildTellsWhetherRootsCanBeBuilt(t *testing.T) {
	f := newFixture(t)
	require.NoError(t, f.starter.Build(t.Context(), f.root(sandbox.Mount{Source: f.dir("x"), Target: "/gangline-probe"})))
	err := f.starter.Build(t.Context(), f.root(sandbox.Mount{Source: "/no/such", Target: "/x"}))
	require.ErrorContains(t, err, "/no/such")
}

func TestASignalReachesTheProgram(t *testing.T) {
	f := newFixture(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	p, err := f.starter.Start(t.Context(), sandbox.Recipe{Root: f.root(), Argv: []string{"/bin/sleep", "100"}}, sandbox.Streams{Stdin: null, Stdout: null, Stderr: null})
	require.NoError(t, err)
	require.NoError(t, p.Signal(unix.SIGTERM))
	<-p.Done()
	assert.Equal(t, 143, process.ExitCode(p.Status()))
}
