package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	// InitName is argv[0] of a machine's first process.
	InitName  = "gangline-devslurm:init"
	readyWord = "ready"
	readyFD   = 3
)

// RunInit is the life of a machine's first process; args are its arguments. It returns
// only when the machine cannot be set up.
func RunInit(args []string) error {
	ready := os.NewFile(readyFD, "ready")
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	err := setUp(args)
	if err != nil {
		fmt.Fprint(ready, err)
		return err
	}
	if _, err := ready.WriteString(readyWord); err != nil {
		return fmt.Errorf("report readiness: %w", err)
	}
	ready.Close()
	for {
		reap()
		<-children
	}
}

// reap collects every process that has ended.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}

func setUp(args []string) error {
	if len(args) != 4 {
		return errors.New("a machine takes its owner, its name and its description")
	}
	var spec Spec
	if err := json.Unmarshal([]byte(args[3]), &spec); err != nil {
		return fmt.Errorf("read the machine's description: %w", err)
	}
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	steps := []struct {
		what string
		do   func(Spec) error
	}{
		{"cut mount propagation", func(Spec) error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{"mount proc", mountProc},
		{"mount sysfs", func(Spec) error { return mountSys() }},
		{"mount /tmp", func(Spec) error { return mountTemporary("/tmp") }},
		{"mount /dev/shm", func(Spec) error { return mountTemporary("/dev/shm") }},
		{"bind /etc/hosts", func(s Spec) error { return bindFile(s.HostsFile, "/etc/hosts") }},
		{"bind /etc/resolv.conf", func(s Spec) error { return bindFile(s.ResolvFile, "/etc/resolv.conf") }},
	}
	for _, step := range steps {
		if err := step.do(spec); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// mountProc shows the machine's own processes and boot id.
func mountProc(spec Spec) error {
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the outer proc: %w", err)
	}
	for _, dir := range []string{"/proc", spec.ProcDir} {
		if err := unix.Mount("proc", dir, "proc", flags, ""); err != nil {
			return fmt.Errorf("at %s: %w", dir, err)
		}
	}
	return bindFile(spec.BootIDFile, "/proc/sys/kernel/random/boot_id")
}

// mountSys shows the machine's own network interfaces in /sys/class/net, and
// keeps the cgroup mounts below it.
func mountSys() error {
	const cgroups, flags = "/sys/fs/cgroup", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	keep, err := os.Open(cgroups)
	if err != nil {
		return fmt.Errorf("open the cgroup mounts: %w", err)
	}
	defer keep.Close()
	tree, err := unix.OpenTree(int(keep.Fd()), "", unix.OPEN_TREE_CLONE|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("copy the cgroup mounts: %w", err)
	}
	defer unix.Close(tree)
	if err := unix.Unmount("/sys", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the outer sysfs: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", flags, ""); err != nil {
		return err
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, cgroups, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("put back the cgroup mounts: %w", err)
	}
	return nil
}

func mountTemporary(dir string) error {
	return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777")
}

// bindFile covers target, or what target links to. A system without target is
// left alone: there is nothing to mislead anyone.
func bindFile(source, target string) error {
	real, err := filepath.EvalSymlinks(target)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Mount(source, real, "", unix.MS_BIND, "")
}
