package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/ulimit"
)

const (
	// selfPath is this program's file, wherever it is.
	selfPath = "/proc/self/exe"
	// initName is the name (argv[0]) under which the program is the init stage.
	initName = "gangline-init"

	recipeFD = 3 // the recipe comes in here
	answerFD = 4 // what went wrong goes out here; closed by a successful exec

	// ExtraFD is the number under which a program finds Streams.Extra.
	ExtraFD = 5
	// The program's first three files on their way through a container runtime, which has
	// others: see Runtime.
	stdinFD, stdoutFD, stderrFD = 6, 7, 8

	mountFD = 9 // the namespaces of the place to enter
	utsFD   = 10
)

// InitName is the name, in any directory, under which this program is the init stage.
const InitName = initName

// HandedOn is how many files, from number 3, a container runtime has to let the stage in
// the container have.
const HandedOn = stderrFD - 2

// Self as a recipe's Path is this same program, whatever the private root has in
// its file's place.
const Self = selfPath

// IsInit tells whether the program was started as the init stage. It must then
// call Init before anything else.
func IsInit(args []string) bool { return len(args) == 1 && filepath.Base(args[0]) == initName }

// Init is the stage between Start and the container's program. It does not
// return: it becomes that program, or ends after it said why not.
func Init() {
	// Capabilities belong to a thread, and exec takes the caller's.
	runtime.LockOSThread()
	answer := os.NewFile(answerFD, "answer")
	err := keepStandardFiles()
	if err == nil {
		err = becomeProgram(os.NewFile(recipeFD, "recipe"), &answer)
	}
	if err != nil {
		_, _ = answer.WriteString(err.Error())
		os.Exit(statusOf(err))
	}
	os.Exit(0)
}

// keepStandardFiles lets only the first three files outlive the exec: neither
// the stage's own nor any that the agent itself inherited.
func keepStandardFiles() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("listing open files: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

func becomeProgram(in *os.File, answer **os.File) error {
	parent := os.Getppid()
	var r Recipe
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading the recipe: %w", err)
	}
	if r.Contained {
		if err := r.arrive(answer); err != nil {
			return err
		}
	}
	if r.Enter {
		if err := enterPlace(); err != nil {
			return err
		}
	}
	if r.Root != nil {
		if err := unix.Sethostname([]byte(r.Root.Hostname)); err != nil {
			return fmt.Errorf("setting the host name: %w", err)
		}
		if err := build(*r.Root); err != nil {
			return err
		}
	}
	if r.Runtime != nil {
		return r.becomeRuntime(in, parent)
	}
	if r.LoginShell {
		r.Path, r.Argv = loginShell()
	}
	if len(r.Argv) == 0 {
		return nil
	}
	if err := r.enterDir(); err != nil {
		return err
	}
	if r.Path == "" {
		path, err := lookUp(r.Argv[0], r.Env)
		if err != nil {
			return &programError{err}
		}
		r.Path = path
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := dieWithParent(parent); err != nil {
		return err
	}
	if r.KeepExtra {
		if _, err := unix.FcntlInt(ExtraFD, unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keeping an open file: %w", err)
		}
	}
	if err := ulimit.Set(r.Limits); err != nil {
		return err
	}
	if err := unix.Exec(r.Path, r.Argv, r.Env); err != nil {
		return &programError{fmt.Errorf("exec: %q: %w", r.Argv[0], err)}
	}
	return nil
}

func loginShell() (path string, argv []string) {
	const bash = "/bin/bash"
	if _, err := os.Stat(bash); err == nil {
		return bash, []string{"-bash"}
	}
	return "/bin/sh", []string{"-sh"}
}

// programError says what is wrong with the program itself.
type programError struct{ error }

func (e *programError) Unwrap() error { return e.error }

// statusOf is a StartError's.
func statusOf(err error) int {
	var program *programError
	switch {
	case !errors.As(err, &program):
		return 1
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotInPath):
		return NotFound
	}
	return NotExecutable
}

func (r Recipe) enterDir() error {
	dir := r.Dir
	if dir == "" {
		dir = "/"
	}
	if r.DirMustExist {
		err := os.Chdir(dir)
		if err != nil && r.DirElse != "" {
			err = os.Chdir(r.DirElse)
		}
		if err != nil {
			return fmt.Errorf("could not change to the working directory: %w", err)
		}
		return nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the working directory: %w", err)
	}
	if err := os.Chdir(dir); err != nil {
		return fmt.Errorf("entering the working directory: %w", err)
	}
	return nil
}

// lookUp finds a program as execvp(3) does, on the PATH of the environment that
// it will have.
func lookUp(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", fmt.Errorf("exec: %q: %w", name, err)
		}
		return name, nil
	}
	var denied error
	for _, dir := range filepath.SplitList(lookUpEnv(env, "PATH")) {
		path := filepath.Join(dir, name)
		err := executable(path)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = fmt.Errorf("exec: %q: %w", name, err)
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("exec: %q: %w", name, errNotInPath)
}

var errNotInPath = errors.New("executable file not found in $PATH")

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return &fs.PathError{Op: "stat", Path: path, Err: unix.EISDIR}
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return &fs.PathError{Op: "access", Path: path, Err: err}
	}
	return nil
}

func lookUpEnv(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// dieWithParent has the kernel kill the program when the agent dies. The process
// was started so, but this too belongs to a thread, and exec takes the caller's.
func dieWithParent(parent int) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("tying the process to the agent: %w", err)
	}
	if os.Getppid() != parent {
		return errors.New("the agent has died")
	}
	return nil
}

// dropCapabilities gives up what this thread may do in its user namespace. Root
// keeps it: exec would give it back, as it does everywhere, and a process that
// gains capabilities by exec is no longer tied to its parent's life (prctl(2)).
func dropCapabilities() error {
	err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if os.Getuid() == 0 {
		if err := unix.Capget(&header, &sets[0]); err != nil {
			return fmt.Errorf("reading capabilities: %w", err)
		}
		sets[0].Inheritable, sets[1].Inheritable = 0, 0
	}
	if err := unix.Capset(&header, &sets[0]); err != nil {
		return fmt.Errorf("giving up capabilities: %w", err)
	}
	return nil
}
