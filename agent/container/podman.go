package container

import (
	"path/filepath"
	"strconv"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/sandbox"
)

// podman is podman-run(1) of a root filesystem, with crun or runc as the site has set it
// up. Each process of a pod is a container of its own, and all of them share what
// podman can let them share: to enter a running one takes as long as to start another,
// and needs there to be one.
//
// podman runs in a user namespace in which the user is root, and is told that it has made
// that itself (as it tells its own second process): no range of subordinate ids is
// needed, and no helper that is setuid, which has no rights in an agent's namespace.
func podman() Runtime {
	const usual = "podman"
	return Runtime{
		Name: "podman", Program: usual, Form: image.FormTree,
		Apart: true, OwnSession: true, Root: true,
		// What podman makes or mounts on otherwise, even where it cannot.
		Files: []string{"/etc/mtab", "/etc/resolv.conf", "/etc/hostname", "/run/.containerenv"},
		Command: func(p Process) []string {
			argv := []string{
				"unshare", "--user", "--map-root-user", "--mount", "--", p.program(usual),
				"--root", filepath.Join(p.State, "storage"), "--runroot", filepath.Join(p.State, "run"),
				"--storage-driver", "vfs", // it stores nothing, and others mount
				"--tmpdir", filepath.Join(p.State, "tmp"), "--cgroup-manager", "cgroupfs", "--events-backend", "none",
			}
			argv = append(argv, p.Options...)
			argv = append(argv,
				"run", "--rm", "--name", p.ID, "--rootfs", "--preserve-fds", strconv.Itoa(sandbox.HandedOn), "--log-driver", "passthrough",
				"--network", "host", "--pid", "host", "--uts", "host", "--ipc", "none",
				"--security-opt", "label=disable", "--security-opt", "seccomp=unconfined", "--security-opt", "unmask=ALL",
				"--no-hosts", "--workdir", "/",
			)
			if p.ReadOnly {
				argv = append(argv, "--read-only", "--read-only-tmpfs=false")
			}
			// It has its own of these.
			for _, path := range []string{"/dev", "/proc", "/sys"} {
				argv = append(argv, "--volume", filepath.Join(p.Image, path)+":"+path+":rbind")
			}
			return append(argv, p.Image, p.Init)
		},
		Variables: func(p Process) []string {
			return []string{
				"_CONTAINERS_USERNS_CONFIGURED=done", "_CONTAINERS_ROOTLESS_UID=" + strconv.Itoa(p.UID), "_CONTAINERS_ROOTLESS_GID=" + strconv.Itoa(p.GID),
				"XDG_RUNTIME_DIR=" + p.State, "HOME=" + p.State,
			}
		},
		Test: func(program string) []string { return []string{program, "--version"} },
	}
}
