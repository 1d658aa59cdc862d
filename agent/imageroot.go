package agent

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/container"
	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/provider/spool"
)

const (
	passwdFile = "/etc/passwd"
	groupFile  = "/etc/group"
	resolvFile = "/etc/resolv.conf"

	// agentFile is where a container finds the agent's own program, which stands behind
	// all names in its directory.
	agentFile = runDir + "/agent"
	// gpuDir is where it finds the libraries and programs of the node's GPUs.
	gpuDir = runDir + "/gpu"
)

// scratchDirs are what programs write to whatever their image is.
var scratchDirs = []string{"/tmp", "/var/tmp", "/run"}

// imageRoot is the root of a run of a container in its image, with all its mounts.
func (p *pod) imageRoot(c spool.ContainerOrders, img *image.Image, run string, who who, gpus gpuLibraries) (*sandbox.Root, error) {
	dirs := p.files.dirs
	root, err := p.files.privateRoot(p.orders.Hostname, run, c)
	if err != nil {
		return nil, err
	}
	own := []sandbox.Mount{{Source: p.slot.cfg.Self, Target: agentFile, ReadOnly: true}}
	accounts, err := p.accounts(c, img, who)
	if err != nil {
		return nil, err
	}
	own = append(own, accounts...)
	if _, err := os.Stat(resolvFile); err == nil {
		own = append(own, sandbox.Mount{Source: resolvFile, Target: resolvFile, ReadOnly: true})
	}
	home := sandbox.Mount{Source: dirs.home(), Target: p.privateHome()}
	if p.box.orders.HomeOfUser {
		home = sandbox.Mount{Source: p.slot.cfg.Home, Target: p.slot.cfg.Home}
	} else if err := openDir(dirs.home(), 0o755); err != nil {
		return nil, fmt.Errorf("making a home directory: %w", err)
	}
	own = append(own, home)
	for _, b := range p.box.orders.Binds {
		m := sandbox.Mount{Source: b.Source, Target: b.Target, ReadOnly: b.ReadOnly}
		if m.Target == "" {
			m.Target = m.Source
		}
		if _, err := os.Stat(m.Source); err == nil {
			own = append(own, m)
		}
	}
	own = append(own, gpus.mounts...)
	for _, file := range p.box.runtime.Files {
		empty := filepath.Join(dirs.memory, "empty")
		if err := emptyFile(empty); err != nil {
			return nil, fmt.Errorf("making the container's directories: %w", err)
		}
		own = append(own, sandbox.Mount{Source: empty, Target: file, ReadOnly: true, IfMissing: true})
	}
	// The pod's own come last and so win.
	root.Mounts = append(own, append(root.Mounts, sshMounts(dirs, p.slot.cfg.Self, c)...)...)
	if !p.box.runtime.Assembled() {
		scratch, err := scratchMounts(dirs.layers(run), c.InImage.ReadOnly)
		root.Mounts = append(scratch, root.Mounts...)
		return root, err
	}
	layers := dirs.layers(run)
	root.Image = &sandbox.Image{Tree: img.Path, View: filepath.Join(layers, "view"), Writable: scratchDirs}
	if !c.InImage.ReadOnly {
		root.Image.Upper = filepath.Join(layers, "upper")
	}
	made := []string{root.Image.View}
	if p.box.runtime.Twin {
		root.Image.Twin = filepath.Join(layers, "twin")
		made = append(made, root.Image.Twin)
	}
	for _, dir := range made {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the container's directories: %w", err)
		}
	}
	return root, nil
}

// scratchMounts are what all processes of a run share where the runtime gives each of them
// an image of its own.
func scratchMounts(layers string, readOnly bool) ([]sandbox.Mount, error) {
	if readOnly {
		return nil, nil
	}
	var mounts []sandbox.Mount
	for _, dir := range scratchDirs {
		kept := filepath.Join(layers, dir)
		if err := openDir(kept, 0o1777); err != nil {
			return nil, fmt.Errorf("making %s of the container: %w", dir, err)
		}
		mounts = append(mounts, sandbox.Mount{Source: kept, Target: dir})
	}
	return mounts, nil
}

// accounts are the image's tables of users and groups with the process's own, which
// programs look themselves up in. Runtimes that mount images make their own.
func (p *pod) accounts(c spool.ContainerOrders, img *image.Image, who who) ([]sandbox.Mount, error) {
	if !p.box.runtime.Assembled() {
		return nil, nil
	}
	name := p.slot.cfg.User
	if name == "" {
		name = strconv.Itoa(os.Getuid())
	}
	dir := filepath.Join(p.files.dirs.memory, "accounts", c.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the container's table of users: %w", err)
	}
	asked := c.InImage.User != nil || p.box.runtime.Root
	tables := map[string]string{
		passwdFile: withUser(readIn(img.Path, passwdFile), name, who, asked),
		groupFile:  withGroup(readIn(img.Path, groupFile), name, who.gid),
	}
	var mounts []sandbox.Mount
	for target, text := range tables {
		file := filepath.Join(dir, path.Base(target))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // no secret
			return nil, fmt.Errorf("making the container's table of users: %w", err)
		}
		mounts = append(mounts, sandbox.Mount{Source: file, Target: target})
	}
	return mounts, nil
}

// mostTable bounds what is read of an image's tables, in bytes.
const mostTable = 1 << 20

// readIn reads a small file of an image, "" if it has none. Links lead where they would in
// the image.
func readIn(tree, file string) string {
	resolved, missing, err := sandbox.ResolveIn(tree, file)
	if err != nil || missing != "" {
		return ""
	}
	f, err := os.OpenFile(resolved, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0) // it may be anything
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // only read
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	data, err := io.ReadAll(io.LimitReader(f, mostTable))
	if err != nil {
		return ""
	}
	return string(data)
}

// withUser is a table of users with a process's own line. It comes first, and so counts,
// unless the pod has asked for a user that the image knows.
func withUser(table, name string, w who, asked bool) string {
	if asked && homeIn(table, w.uid) != "" {
		return table
	}
	if asked {
		name = "user" + strconv.FormatInt(w.uid, 10)
	}
	return fmt.Sprintf("%s:x:%d:%d::%s:/bin/sh\n%s", name, w.uid, w.gid, w.home, table)
}

func withGroup(table, name string, gid int64) string {
	for line := range strings.Lines(table) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) > 2 && fields[2] == strconv.FormatInt(gid, 10) {
			return table
		}
	}
	return fmt.Sprintf("%s:x:%d:\n%s", name, gid, table)
}

// homeIn is the home directory of a user in a table of passwd(5), "" for none.
func homeIn(table string, uid int64) string {
	for line := range strings.Lines(table) {
		if fields := strings.Split(strings.TrimSpace(line), ":"); len(fields) > 5 && fields[2] == strconv.FormatInt(uid, 10) {
			return fields[5]
		}
	}
	return ""
}

// gpuLibraries are the node's libraries and programs for its GPUs, brought into an image.
type gpuLibraries struct{ mounts []sandbox.Mount }

// gpuLibraries finds them for a container whose runtime does not.
func (p *pod) gpuLibraries(c spool.ContainerOrders) gpuLibraries {
	if p.slot.spec.GPUs == 0 || !p.box.runtime.Assembled() {
		return gpuLibraries{}
	}
	patterns := p.box.orders.GPULibraries
	if len(patterns) == 0 {
		patterns = container.GPULibraries(container.Vendor(p.box.orders.GPUs))
	}
	var g gpuLibraries
	dir := filepath.Join(p.files.dirs.run(), "gpu")
	for _, file := range container.FindGPULibraries("/", patterns) {
		name := filepath.Base(file)
		// The mount point is in a directory that is mounted read-only itself.
		if err := emptyFile(filepath.Join(dir, name)); err != nil {
			p.logger.Warn("a library of GPUs cannot be brought into the image", "container", c.Name, "file", file, "error", err)
			continue
		}
		g.mounts = append(g.mounts, sandbox.Mount{Source: file, Target: path.Join(gpuDir, name), ReadOnly: true})
	}
	return g
}

// variables has programs find them, behind what the image and the pod have.
func (g gpuLibraries) variables(env []string) []string {
	if len(g.mounts) == 0 {
		return env
	}
	for _, name := range []string{"LD_LIBRARY_PATH", "PATH"} {
		found := false
		for i, entry := range env {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				env[i], found = name+"="+strings.TrimPrefix(value+":"+gpuDir, ":"), true
			}
		}
		if !found {
			env = append(env, name+"="+gpuDir)
		}
	}
	return env
}

// emptyFile makes a file to mount on.
func emptyFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755) //nolint:gosec // a program may be mounted on it
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}
