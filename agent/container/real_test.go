package container_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
)

// nobody is whom the tests run as where they would be root's: root's namespaces would
// show little of what an ordinary user's do.
const nobody = 65534

// TestMain runs the tests as an ordinary user in a user namespace, as the agent does.
func TestMain(m *testing.M) {
	if sandbox.IsInit(os.Args) {
		sandbox.Init()
	}
	if os.Getuid() == 0 && !slices.Contains(os.Args, "-update") {
		os.Exit(asNobody())
	}
	entry := sandbox.Enter()
	if entry.Ended {
		os.Exit(entry.Code)
	}
	if entry.Unavailable != nil {
		fmt.Fprintln(os.Stderr, "the tests need user namespaces:", entry.Unavailable)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func asNobody() int {
	// Its own file is in a directory of root's.
	self, err := copyOf("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.Remove(self)
	// go test keeps a log of the files that a test opens, in a place of its own user's.
	args := slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return strings.HasPrefix(arg, "-test.testlogfile=") })
	cmd := exec.Command(self, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOME=/tmp", "USER=nobody", "TMPDIR=/tmp")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func copyOf(program string) (string, error) {
	data, err := os.ReadFile(program)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("/tmp", "gangline-container-test-")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Chmod(0o755), f.Close())
}

// world is an image of a few programs, and a place to run it.
type world struct {
	t       *testing.T
	starter sandbox.Starter
	dir     string
	runtime container.Runtime
	place   *sandbox.Place
	process container.Process
}

// busybox is the image's only program; its name says what it does.
const busybox = "/bin/busybox"

func newWorld(t *testing.T, name string, change func(*sandbox.Root, *container.Process)) *world {
	t.Helper()
	r, found := container.Find(name)
	require.True(t, found)
	table, err := process.NewTable()
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { table.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	dir, err := os.MkdirTemp("/tmp", "gangline-container-")
	require.NoError(t, err)
	w := &world{t: t, starter: sandbox.Starter{Table: table, KillGroup: true}, dir: dir, runtime: r}
	t.Cleanup(func() {
		_ = exec.Command("chmod", "-R", "u+rwx", dir).Run()
		assert.NoError(t, os.RemoveAll(dir))
	})
	for _, sub := range []string{"tree/bin", "tree/etc", "tree/tmp", "tree/var", "scratch", "view", "twin", "state", "run", "data"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	program, err := os.ReadFile(busybox)
	require.NoError(t, err, "install busybox-static")
	require.NoError(t, os.WriteFile(w.in("tree/bin/busybox"), program, 0o755))
	for _, name := range []string{"sh", "cat", "id", "hostname", "sleep", "touch", "ls", "env", "kill", "true", "rm", "ln"} {
		require.NoError(t, os.Symlink("busybox", w.in("tree/bin/"+name)))
	}
	require.NoError(t, os.Symlink("../run", w.in("tree/var/run")))
	w.write("tree/etc/hosts", "the image's\n")
	w.write("tree/etc/passwd", "root:x:0:0::/root:/bin/sh\n")
	w.write("hosts", "127.0.0.1 pod\n")
	w.write("data/file", "of the volume\n")
	w.write("run/agent", "")
	require.NoError(t, os.Symlink("agent", w.in("run/"+sandbox.InitName)))
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.Symlink("state", w.in("books"))) // the agent's is a link too
	w.copyLibraries(self)
	w.process = container.Process{
		Image: w.in("view"), Twin: w.in("twin"), Init: "/run/gangline/" + sandbox.InitName, ID: "u-main-0-1", State: w.in("books"),
		UID: os.Getuid(), GID: os.Getgid(),
	}
	if !r.Assembled() {
		w.process.Image = w.in("tree")
	}
	if name == "podman" {
		w.process.Options = []string{"--runtime", "runc"} // crun refuses machines with both kinds of cgroups
	}
	root := &sandbox.Root{
		Hostname: "pi-worker-0", Scratch: w.in("scratch"),
		Mounts: []sandbox.Mount{
			{Source: w.in("run"), Target: "/run/gangline", ReadOnly: true},
			{Source: self, Target: "/run/gangline/agent", ReadOnly: true},
			{Source: w.in("hosts"), Target: "/etc/hosts"},
			{Source: w.in("data"), Target: "/var/run/secrets/data", ReadOnly: true},
			{Source: w.in("data"), Target: "/data"},
		},
		Image: &sandbox.Image{Tree: w.in("tree"), View: w.in("view"), Upper: w.in("upper"), Writable: []string{"/tmp", "/var/tmp"}},
	}
	if r.Twin {
		root.Image.Twin = w.in("twin")
	}
	for _, file := range r.Files {
		root.Mounts = append(root.Mounts, sandbox.Mount{Source: w.in("hosts"), Target: file, IfMissing: true})
	}
	if change != nil {
		change(root, &w.process)
	}
	if !r.Assembled() {
		w.mountByOptions(root)
		root = &sandbox.Root{Hostname: root.Hostname, Scratch: root.Scratch}
	}
	w.place = sandbox.NewPlace(root)
	t.Cleanup(w.place.Close)
	return w
}

// mountByOptions has a runtime mount what is assembled for others, as the agent does.
func (w *world) mountByOptions(root *sandbox.Root) {
	w.t.Helper()
	if root.Image.Upper != "" {
		for _, dir := range root.Image.Writable {
			kept := filepath.Join(root.Image.Upper, dir)
			require.NoError(w.t, os.MkdirAll(kept, 0o755))
			w.process.Mounts = append(w.process.Mounts, container.Mount{Source: kept, Target: dir})
		}
	}
	for _, m := range root.Mounts {
		w.process.Mounts = append(w.process.Mounts, container.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
}

// copyLibraries gives the image those of the tests' own program. The agent has none.
func (w *world) copyLibraries(program string) {
	w.t.Helper()
	out, _ := exec.Command("ldd", program).Output() // it fails for a static one
	for _, word := range strings.Fields(string(out)) {
		if !strings.HasPrefix(word, "/") {
			continue
		}
		data, err := os.ReadFile(word)
		require.NoError(w.t, err)
		require.NoError(w.t, os.MkdirAll(filepath.Dir(w.in("tree"+word)), 0o755))
		require.NoError(w.t, os.WriteFile(w.in("tree"+word), data, 0o755))
	}
}

func (w *world) in(path string) string { return filepath.Join(w.dir, path) }

func (w *world) write(path, text string) {
	w.t.Helper()
	require.NoError(w.t, os.WriteFile(w.in(path), []byte(text), 0o644))
}

func (w *world) recipe(argv ...string) sandbox.Recipe {
	w.process.ID += "x"
	return sandbox.Recipe{
		Place: w.place, Argv: argv, Env: []string{"PATH=/bin", "A=pod's"},
		Runtime: &sandbox.Runtime{
			Argv: w.runtime.Command(w.process), Deaf: w.runtime.Deaf, OwnSession: w.runtime.OwnSession,
			Env: append([]string{"PATH=" + os.Getenv("PATH"), "USER=nobody"}, w.variables()...),
		},
	}
}

func (w *world) variables() []string {
	if w.runtime.Variables == nil {
		return nil
	}
	return w.runtime.Variables(w.process)
}

// start starts a recipe's process; wait returns what it has printed and its exit code.
func (w *world) start(r sandbox.Recipe) (p *process.Process, wait func() (string, int), err error) {
	null, err := os.Open(os.DevNull)
	require.NoError(w.t, err)
	defer null.Close()
	out, theirs, err := os.Pipe()
	require.NoError(w.t, err)
	p, err = w.starter.Start(w.t.Context(), r, sandbox.Streams{Stdin: null, Stdout: theirs, Stderr: theirs})
	require.NoError(w.t, theirs.Close())
	return p, func() (string, int) {
		text, err := io.ReadAll(out)
		require.NoError(w.t, err)
		<-p.Done()
		return string(text), process.ExitCode(p.Status())
	}, err
}

func (w *world) sh(script string) (string, int) {
	w.t.Helper()
	_, wait, err := w.start(w.recipe("sh", "-c", script))
	require.NoError(w.t, err)
	return wait()
}

// present are the runtimes of this machine.
func present(t *testing.T) []string {
	t.Helper()
	names := []string{"bubblewrap", "charliecloud", "podman"}
	for _, name := range []string{"apptainer", "singularity"} {
		if _, err := exec.LookPath(name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func TestRuntimes(t *testing.T) {
	for _, name := range present(t) {
		t.Run(name, func(t *testing.T) {
			for sentence, test := range map[string]func(t *testing.T){
				"the image, the mounts, the names and the environment are the pod's": func(t *testing.T) {
					w := newWorld(t, name, nil)
					out, code := w.sh("cat /etc/hosts /data/file /var/run/secrets/data/file; hostname; echo $A; cat /etc/passwd; ls /")
					assert.Zero(t, code)
					assert.Contains(t, out, "127.0.0.1 pod\nof the volume\nof the volume\npi-worker-0\npod's\nroot:x:0:0::/root:/bin/sh\n")
					assert.NotContains(t, out, "boot")
				},
				"what one process writes the next one sees, and the image stays as it was": func(t *testing.T) {
					w := newWorld(t, name, nil)
					out, code := w.sh("echo written >/etc/new && echo more >/data/new && echo tmp >/tmp/new && ls -d /dev/null /proc/self /sys/class")
					require.Zero(t, code, out)
					out, code = w.sh("cat /data/new /tmp/new; echo x >/run/gangline/x || echo read-only; cat /etc/new")
					assert.Contains(t, out, "more\ntmp\n")
					if w.runtime.Assembled() { // elsewhere it is each process's own
						assert.Zero(t, code)
						assert.Contains(t, out, "written\n")
					}
					assert.Contains(t, out, "read-only")
					assert.NoFileExists(t, w.in("tree/etc/new"))
					assert.NoFileExists(t, "/tmp/new")
					assert.FileExists(t, w.in("data/new"))
				},
				"an image that is not to be written to": func(t *testing.T) {
					w := newWorld(t, name, func(root *sandbox.Root, p *container.Process) {
						root.Image.Upper, p.ReadOnly = "", true
					})
					out, _ := w.sh("echo x >/etc/new || echo no; echo y >/data/y && cat /data/y /var/run/secrets/data/file")
					assert.Contains(t, out, "no\ny\nof the volume\n")
				},
				"the user": func(t *testing.T) {
					w := newWorld(t, name, nil)
					want := os.Getuid()
					if w.runtime.Root {
						want = 0
					}
					out, _ := w.sh("id -u; touch /data/mine")
					assert.Equal(t, fmt.Sprintln(want), out)
					info, err := os.Stat(w.in("data/mine"))
					require.NoError(t, err)
					assert.EqualValues(t, os.Getuid(), info.Sys().(*syscall.Stat_t).Uid)
				},
				"root, as the image sees it": func(t *testing.T) {
					w := newWorld(t, name, func(_ *sandbox.Root, p *container.Process) { p.User, p.Group = ptr.To(int64(0)), ptr.To(int64(0)) })
					out, _ := w.sh("id -u; id -g")
					assert.Equal(t, "0\n0\n", out)
				},
				"exit codes": func(t *testing.T) {
					_, code := newWorld(t, name, nil).sh("exit 7")
					assert.Equal(t, 7, code)
				},
				"a signal reaches the program, which may take its time": func(t *testing.T) {
					w := newWorld(t, name, nil)
					p, wait, err := w.start(w.recipe("sh", "-c", "trap 'sleep 0.2; echo heard; exit 9' TERM; echo up >/data/up; while :; do sleep 0.05; done"))
					require.NoError(t, err)
					require.NoError(t, wait0(w.in("data/up")))
					require.NoError(t, p.Signal(unix.SIGTERM))
					out, code := wait()
					assert.Contains(t, out, "heard\n")
					assert.Equal(t, 9, code)
				},
				"a program that does not heed signals dies of the default": func(t *testing.T) {
					w := newWorld(t, name, nil)
					p, wait, err := w.start(w.recipe("sleep", "100"))
					require.NoError(t, err)
					require.NoError(t, p.Signal(unix.SIGTERM))
					_, code := wait()
					assert.Equal(t, 143, code)
				},
				"a program that is not there": func(t *testing.T) {
					w := newWorld(t, name, nil)
					_, _, err := w.start(w.recipe("no-such-program"))
					var start *sandbox.StartError
					require.ErrorAs(t, err, &start)
					assert.Equal(t, `exec: "no-such-program": executable file not found in $PATH`, start.Message)
					assert.Equal(t, sandbox.NotFound, start.Status)
				},
				"a runtime that fails says why": func(t *testing.T) {
					w := newWorld(t, name, func(_ *sandbox.Root, p *container.Process) { p.Image = "/no/such/image" })
					_, _, err := w.start(w.recipe("true"))
					var start *sandbox.StartError
					require.ErrorAs(t, err, &start)
					assert.Contains(t, start.Message, "could not start the container: ")
					assert.Contains(t, start.Message, "/no/such/image")
				},
				"a runtime that is not there": func(t *testing.T) {
					w := newWorld(t, name, nil)
					r := w.recipe("true")
					r.Runtime.Env = []string{"PATH=/no/such"}
					_, _, err := w.start(r)
					require.ErrorContains(t, err, "starting the container runtime: ")
				},
			} {
				t.Run(sentence, test)
			}
		})
	}
}

// wait0 waits for a file.
func wait0(path string) error {
	for range 500 {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		_ = exec.Command("sleep", "0.01").Run()
	}
	return fmt.Errorf("%s does not appear", path)
}

func TestWhatTheKernelCannotLayOverIsShadowed(t *testing.T) {
	w := newWorld(t, "bubblewrap", func(root *sandbox.Root, _ *container.Process) {
		// No filesystem for an upper layer: overlayfs refuses /proc and its like.
		root.Image.Upper = ""
		root.Mounts = append(root.Mounts, sandbox.Mount{Source: root.Mounts[4].Source, Target: "/opt/new/deep"})
	})
	out, code := w.sh("cat /opt/new/deep/file; ls /; touch /opt/x || echo no")
	assert.Zero(t, code)
	assert.True(t, strings.HasPrefix(out, "of the volume\n"), out)
	assert.Contains(t, out, "no\n")
	assert.NoDirExists(t, w.in("tree/opt"))
}

func TestWhatAContainerHasWrittenIsNotBuiltOn(t *testing.T) {
	var root *sandbox.Root
	w := newWorld(t, "bubblewrap", func(r *sandbox.Root, _ *container.Process) { root = r })
	require.NoError(t, os.Mkdir(w.in("home"), 0o755))
	out, code := w.sh("rm -r /tmp && ln -s " + w.in("home") + " /tmp")
	require.Zero(t, code, out)
	w.place.Close()
	w.place = sandbox.NewPlace(root)
	t.Cleanup(w.place.Close)
	_, _, err := w.start(w.recipe("true"))
	require.ErrorContains(t, err, "making the image's upper layer")
	info, err := os.Stat(w.in("home"))
	require.NoError(t, err)
	assert.EqualValues(t, 0o755, info.Mode().Perm(), "its link was not followed on the host")
}
