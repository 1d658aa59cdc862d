package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

// dispensableMounts are put into pods by Kubernetes and by us, not by their
// owners. Where there is no private root a pod runs without them.
var dispensableMounts = [...]string{
	"/var/run/secrets/kubernetes.io/serviceaccount",
	"/etc/mpi",
}

// sshFiles are the files of the Secrets that Kubeflow's Trainer and MPI operator
// mount so that the pods of a gang can reach each other by SSH. The gang's own SSH
// service does that without them, wherever they should stand.
var sshFiles = [...]string{"id_rsa", "id_rsa.pub", "authorized_keys"}

// sharedMemory is asked for by pods whose container runtime gives them but 64 MiB
// of it. A node has it anyway.
const sharedMemory = "/dev/shm"

// files lays out a pod's volumes and knows where they are.
type files struct {
	dirs    podDirs
	volumes map[string]spool.Volume
	// hosts are the paths of the HPC node that were found, by their volume.
	hosts map[string]volume.Host
	// writing keeps apart who replaces the files of volumes and who keeps parts of them.
	writing *sync.Mutex
}

// layOut makes the volumes of a pod.
func layOut(dirs podDirs, volumes []spool.Volume, now time.Time) (files, error) {
	f := files{dirs: dirs, volumes: map[string]spool.Volume{}, hosts: map[string]volume.Host{}, writing: &sync.Mutex{}}
	for _, v := range volumes {
		if !isName(v.Name) {
			return files{}, fmt.Errorf("volume %q: this is no name", v.Name)
		}
		f.volumes[v.Name] = v
		var err error
		switch {
		case v.HostPath != "":
		case v.EmptyDir != nil:
			err = openDir(f.source(v), ptr.Deref(v.EmptyDir.Mode, 0o777))
		default:
			err = volume.Write(f.source(v), v.Files, now)
		}
		if err != nil {
			return files{}, fmt.Errorf("volume %q: %w", v.Name, err)
		}
	}
	return f, nil
}

// missingHosts are the volumes whose path of the HPC node is not found yet.
func (f files) missingHosts() []spool.Volume {
	var missing []spool.Volume
	for name, v := range f.volumes {
		if _, found := f.hosts[name]; !found && v.Host != nil {
			missing = append(missing, v)
		}
	}
	return missing
}

func (f files) source(v spool.Volume) string {
	switch {
	case v.HostPath != "":
		if host, found := f.hosts[v.Name]; found {
			return host.Path
		}
		return v.HostPath
	case v.EmptyDir != nil && !v.EmptyDir.Memory:
		return f.dirs.volume(v.Name, false)
	default:
		return f.dirs.volume(v.Name, true)
	}
}

// holdsFiles tells whether a volume has the files of a ConfigMap and its like.
func holdsFiles(v spool.Volume) bool { return v.HostPath == "" && v.EmptyDir == nil }

// whole is a mount's volume, and what is to be bound for all of it.
func (f files) whole(m spool.Mount) (spool.Volume, sandbox.Mount, error) {
	v, ok := f.volumes[m.Volume]
	if !ok {
		return v, sandbox.Mount{}, fmt.Errorf("mounting %s: the pod has no volume %q", m.Path, m.Volume)
	}
	host, found := f.hosts[v.Name]
	return v, sandbox.Mount{
		Source: f.source(v), Target: m.Path, Recursive: m.Recursive,
		ReadOnly: m.ReadOnly || holdsFiles(v) || host.ReadOnly, // they are never the pod's to change
		NoLinks:  found,
	}, nil
}

// locate returns what is to be bound for a mount, in a run of a container. It looks at the
// volume where that is asked for a part of it, and hangs as long as its filesystem does.
func (f files) locate(m spool.Mount, run string) (sandbox.Mount, error) {
	v, bound, err := f.whole(m)
	if err != nil || m.SubPath == "" {
		return bound, err
	}
	if bound.Source, err = f.part(v, m, run); err != nil {
		return sandbox.Mount{}, fmt.Errorf("mounting %s: %w", m.Path, err)
	}
	bound.NoLinks = !holdsFiles(v)
	return bound, nil
}

// part is the part of a volume that a mount asks for. No link leads to it, but for parts of
// volumes that hold files.
func (f files) part(v spool.Volume, m spool.Mount, run string) (string, error) {
	if holdsFiles(v) {
		return f.keptPart(v, m, run)
	}
	dir := f.source(v)
	real, err := filepath.EvalSymlinks(dir)
	if _, found := f.hosts[v.Name]; found && err == nil && real != dir {
		return "", fmt.Errorf("a link has come into the path %s since it was looked at, and is not followed: take it away", dir)
	}
	path, err := volume.Resolve(dir, m.SubPath)
	if errors.Is(err, fs.ErrNotExist) && f.mayMake(v) {
		// As kubelet does, a directory is made.
		if err := makeSubPath(dir, m.SubPath); err != nil {
			return "", err
		}
		return volume.Resolve(dir, m.SubPath)
	}
	return path, err
}

// keptPart is a part of a volume that holds files, which stays as it was when the run
// began, whatever becomes of the volume.
func (f files) keptPart(v spool.Volume, m spool.Mount, run string) (string, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	kept := f.dirs.part(run, m.Path)
	if _, err := os.Lstat(kept); err == nil {
		return kept, nil
	}
	path, err := volume.Resolve(f.source(v), m.SubPath)
	if err != nil {
		return "", err
	}
	return kept, volume.Freeze(path, kept)
}

// mayMake tells whether a part that is missing may be made: not where pods may only
// read, nor before the path of the HPC node is known to be allowed.
func (f files) mayMake(v spool.Volume) bool {
	host, found := f.hosts[v.Name]
	return v.Host == nil || found && !host.ReadOnly
}

func makeSubPath(dir, sub string) error {
	root, err := os.OpenRoot(dir) // which no link leads out of
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // only a handle
	info, err := root.Stat(".")
	if err != nil {
		return err
	}
	if err := root.MkdirAll(sub, 0o750); err != nil {
		return err
	}
	return root.Chmod(sub, info.Mode()&(fs.ModePerm|fs.ModeSetgid|fs.ModeSticky)) // the volume's own, as with kubelet
}

// privateRoot is the root of a run of a container with all its mounts. The pod's own
// come last and so win. It looks at volumes, see locate.
func (f files) privateRoot(hostname, run string, c spool.ContainerOrders) (*sandbox.Root, error) {
	root := &sandbox.Root{Hostname: hostname, Scratch: f.dirs.scratch(), Mounts: []sandbox.Mount{
		{Source: f.dirs.run(), Target: runDir, ReadOnly: true},
		{Source: f.dirs.hosts(), Target: "/etc/hosts"},
	}}
	if c.TerminationMessagePath != "" {
		root.Mounts = append(root.Mounts, sandbox.Mount{Source: f.dirs.termination(c.Name), Target: c.TerminationMessagePath})
	}
	for _, m := range c.Mounts {
		bound, err := f.locate(m, run)
		if err != nil {
			return nil, err
		}
		root.Mounts = append(root.Mounts, bound)
	}
	if c.WorkingDir != "" && c.WorkingDir != "/" {
		if err := openDir(f.dirs.work(), 0o777); err != nil {
			return nil, fmt.Errorf("making a working directory: %w", err)
		}
		root.Mounts = append(root.Mounts, sandbox.Mount{Source: f.dirs.work(), Target: c.WorkingDir, IfMissing: true})
	}
	return root, nil
}

// relocations tells where a run of a container without a private root finds what it
// was promised elsewhere.
func (f files) relocations(run string, c spool.ContainerOrders) (map[string]string, error) {
	moved := map[string]string{runDir: f.dirs.run()}
	for _, m := range c.Mounts {
		elsewhere, err := f.elsewhere(m)
		if err != nil {
			return nil, err
		}
		bound, err := f.locate(m, run)
		if err != nil {
			return nil, err
		}
		if elsewhere {
			moved[filepath.Clean(m.Path)] = bound.Source
		}
	}
	return moved, nil
}

// elsewhere tells whether a mount is found at another path than its own where there is no
// private root: only the host's own paths are not. It fails for a mount that cannot be had
// there, and looks at no volume.
func (f files) elsewhere(m spool.Mount) (bool, error) {
	v, bound, err := f.whole(m)
	switch {
	case err != nil:
		return false, err
	case v.HostPath != "" && filepath.Join(v.HostPath, m.SubPath) == filepath.Clean(m.Path) && !bound.ReadOnly,
		filepath.Clean(m.Path) == sharedMemory && v.EmptyDir != nil:
		return false, nil
	case !dispensable(m.Path) && !isSSH(v):
		return false, &mountError{m}
	}
	return true, nil
}

func dispensable(path string) bool {
	for _, d := range dispensableMounts {
		if filepath.Clean(path) == d {
			return true
		}
	}
	return false
}

// isSSH tells whether a volume holds the gang's SSH keys and nothing else.
func isSSH(v spool.Volume) bool {
	for _, file := range v.Files {
		if !slices.Contains(sshFiles[:], file.Path) {
			return false
		}
	}
	return len(v.Files) > 0
}

// mountError names a mount that needs a private root.
type mountError struct{ mount spool.Mount }

func (e *mountError) Error() string {
	return fmt.Sprintf("volume %q cannot be mounted at %s without a private root", e.mount.Volume, e.mount.Path)
}
