package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/device"
	"github.com/gangline/gangline/agent/process"
	"github.com/gangline/gangline/agent/sandbox"
)

// Programs are the node's programs.
type Programs interface {
	// Find returns a program's path, "" where there is none.
	Find(name string) string
	// Output runs a program and returns what it prints on either stream.
	Output(ctx context.Context, path string, args ...string) (string, error)
}

// The names of the checks.
const (
	CheckAgent       = "agent"
	CheckKernel      = "kernel"
	CheckPrivateRoot = "user namespaces"
	CheckMemory      = "memory-backed directory"
	CheckScratch     = "scratch directory"
	CheckSpool       = "spool"
	CheckAddress     = "address"
	CheckPeers       = "SSH between nodes"
	CheckGPUs        = "GPUs"
	CheckRuntimes    = "container runtimes"
	CheckMPI         = "MPI"
	CheckOpenSSH     = "OpenSSH"
)

// version judges the agent's version against the node's. Both may have what comes before
// the product's own part, as in v1.37.2-gangline-v0.3.0.
func version(own, node string) Finding {
	bare := func(v string) string {
		if _, after, ok := strings.Cut(v, "-gangline-"); ok {
			v = after
		}
		return strings.TrimPrefix(v, "v")
	}
	switch {
	case node == "":
		return Good(CheckAgent, Info, "gangline-agent %s", own)
	case bare(own) != bare(node):
		return Bad(CheckAgent, Warn, "install the gangline-agent that came with this gangline-node, at the path that the configuration's agent names",
			"gangline-agent is %s, and gangline-node is %s", own, node)
	}
	return Good(CheckAgent, OK, "gangline-agent %s, as the node", own)
}

func kernel() Finding {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return Good(CheckKernel, Info, "it does not say its version: %v", err)
	}
	return Good(CheckKernel, Info, "%s %s", unix.ByteSliceToString(u.Sysname[:]), unix.ByteSliceToString(u.Release[:]))
}

const privateRootCure = "allow user namespaces on the HPC nodes: sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1 (Debian), " +
	"kernel.apparmor_restrict_unprivileged_userns=0 or a profile for gangline-agent (Ubuntu). Without them pods with mounts of their own are refused"

// privateRoot tries to build one, as the agent does. unavailable is why this process has
// no user namespace of its own; nil if it has.
func privateRoot(ctx context.Context, unavailable error, memory string) Finding {
	err := unavailable
	if err == nil {
		err = build(ctx, memory)
	}
	switch {
	case errors.Is(err, sandbox.ErrOff):
		return Bad(CheckPrivateRoot, Warn, "take "+sandbox.ModeVariable+"=off out of the jobs' environment, if that was not meant", "pods have no private root: %v", err)
	case err != nil:
		return Bad(CheckPrivateRoot, Fail, privateRootCure, "pods can have no private root: %v", err)
	}
	return Good(CheckPrivateRoot, OK, "a private root was built")
}

// buildTimeout bounds the building of a private root: milliseconds, as a rule.
const buildTimeout = 20 * time.Second

func build(ctx context.Context, memory string) error {
	ctx, cancel := context.WithTimeout(ctx, buildTimeout)
	defer cancel()
	if err := os.MkdirAll(memory, 0o700); err != nil {
		return fmt.Errorf("making the agent's directory: %w", err)
	}
	dir, err := os.MkdirTemp(memory, ".doctor-")
	if err != nil {
		return fmt.Errorf("making a directory to build on: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is empty but for an empty directory
	table, err := process.NewTable()
	if err != nil {
		return err
	}
	// The table takes the ends of all children of this process: of programs that are run
	// later as well, unless it has ended by then.
	running, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); table.Run(running) }()
	defer func() { end(); <-ended }()
	return sandbox.Starter{Table: table}.Build(ctx, &sandbox.Root{
		Hostname: "probe", Scratch: dir,
		Mounts: []sandbox.Mount{{Source: dir, Target: "/run/gangline", ReadOnly: true}, {Source: dir, Target: "/gangline-probe", ReadOnly: true}},
	})
}

// inMemory are filesystems that keep nothing on a disk, by statfs(2)'s numbers.
func inMemory(kind int64) bool { return kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC }

// memoryDir judges the directory that holds pods' secrets.
func memoryDir(dir string) Finding {
	cure := "let users write to " + filepath.Dir(dir) + ", or set GANGLINE_RUNTIME_DIR in the jobs' environment to a directory in memory"
	st, err := tryDir(dir)
	switch {
	case err != nil:
		return Bad(CheckMemory, Fail, cure, "%s cannot be used: %v", dir, err)
	case !inMemory(int64(st.Type)): //nolint:unconvert // its type differs between architectures
		return Bad(CheckMemory, Warn, cure, "%s is not in memory: pods' secrets would be on a disk", dir)
	}
	return Good(CheckMemory, OK, "%s, %s free", dir, bytesText(st))
}

// scratchDir judges the directory that holds pods' scratch volumes.
func scratchDir(dir string) Finding {
	st, err := tryDir(dir)
	if err != nil {
		return Bad(CheckScratch, Fail, "let users write to "+filepath.Dir(dir)+", or set TMPDIR in the jobs' environment", "%s cannot be used: %v", dir, err)
	}
	return Good(CheckScratch, OK, "%s, %s free", dir, bytesText(st))
}

// tryDir makes a directory and a file in it, and takes away what was not there before.
func tryDir(dir string) (unix.Statfs_t, error) {
	var st unix.Statfs_t
	err := os.Mkdir(dir, 0o700)
	made := err == nil
	if err != nil && !errors.Is(err, os.ErrExist) {
		return st, err
	}
	if made {
		defer os.Remove(dir) //nolint:errcheck // another agent may use it by now
	}
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return st, err
	}
	err = errors.Join(f.Close(), os.Remove(f.Name()))
	return st, errors.Join(err, unix.Statfs(dir, &st))
}

func bytesText(st unix.Statfs_t) string {
	free := st.Bavail * uint64(st.Bsize) //nolint:gosec // sizes are not negative
	const unit = 1 << 30
	return strconv.FormatFloat(float64(free)/unit, 'f', 1, 64) + " GiB"
}

// gpus judges what the workload manager has given against what it has promised. seen is
// how many devices nvidia-smi lists, below 0 where it cannot be asked.
func gpus(promised int, variables map[string]string, seen int) Finding {
	bound, name := 0, ""
	for _, n := range []string{device.Nvidia, "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"} {
		if v := variables[n]; v != "" {
			bound, name = len(strings.Split(v, ",")), n+"="+v
			break
		}
	}
	const bind = "have the workload manager bind GPUs: in Slurm GresTypes=gpu, and a gres.conf that names the devices' files (File=/dev/nvidia[0-7] or AutoDetect=nvml)"
	switch {
	case promised == 0 && seen > 0:
		return Bad(CheckGPUs, Warn, "set ConstrainDevices=yes in cgroup.conf, so that jobs see their own devices only",
			"no GPU was asked for, and nvidia-smi lists %d", seen)
	case promised == 0:
		return Good(CheckGPUs, Info, "none was asked for")
	case name == "":
		return Bad(CheckGPUs, Fail, bind, "%d were promised, and no variable says which", promised)
	case bound != promised:
		return Bad(CheckGPUs, Fail, bind, "%d were promised, and %s names %d", promised, name, bound)
	case seen < 0:
		return Good(CheckGPUs, OK, "%s; there is no nvidia-smi to compare with", name)
	case seen < promised:
		return Bad(CheckGPUs, Fail, "look at the driver (nvidia-smi) and at the device files on this node", "%s, and nvidia-smi lists %d", name, seen)
	case seen > promised:
		return Bad(CheckGPUs, Warn, "set ConstrainDevices=yes in cgroup.conf, so that jobs cannot reach others' devices",
			"%s, and nvidia-smi lists %d: the others are hidden by the variable alone", name, seen)
	}
	return Good(CheckGPUs, OK, "%s, and nvidia-smi lists as many", name)
}

// countNvidia counts the devices that nvidia-smi lists, "GPU 0: ..." each.
func countNvidia(ctx context.Context, p Programs) int {
	path := p.Find("nvidia-smi")
	if path == "" {
		return -1
	}
	out, err := p.Output(ctx, path, "-L")
	if err != nil {
		return -1
	}
	n := 0
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "GPU ") {
			n++
		}
	}
	return n
}

// programs is one kind of program that pods may want.
type programs struct {
	check string
	// names are looked for; versionArg makes one say its version.
	names      []string
	versionArg string
	// none is the finding where there is none of them.
	none Finding
}

func kinds() []programs {
	return []programs{
		{CheckRuntimes, []string{"bwrap", "ch-run", "apptainer", "singularity", "podman", "enroot"}, "--version",
			Good(CheckRuntimes, Info, "none on PATH; pods need none unless the site has them run images (containers.allowed)")},
		{CheckMPI, []string{"mpirun", "mpiexec.hydra", "mpiexec.mpich", "mpiexec", "srun"}, "--version",
			Bad(CheckMPI, Warn, "install an MPI, or have pods set PATH to one of the site's modules", "no launcher on PATH")},
		{CheckOpenSSH, []string{"ssh"}, "-V",
			Good(CheckOpenSSH, Info, "there is no ssh; pods get gangline-agent's own")},
	}
}

// find reports which programs of a kind there are.
func (k programs) find(ctx context.Context, p Programs) Finding {
	var found []string
	for _, name := range k.names {
		path := p.Find(name)
		if path == "" {
			continue
		}
		text := name
		if out, err := p.Output(ctx, path, k.versionArg); err == nil {
			if line := versionLine(out); line != "" {
				text += " (" + line + ")"
			}
		}
		found = append(found, text)
	}
	if len(found) == 0 {
		return k.none
	}
	status := OK
	if k.none.Status == Info {
		status = Info
	}
	f := Good(k.check, status, "%s", strings.Join(found, ", "))
	if k.check == CheckOpenSSH {
		return openSSH(f)
	}
	return f
}

// oldestSSH is the first OpenSSH with the ciphers and key exchanges of a gang's service
// (see mpi.SSHAlgorithms).
var oldestSSH = [2]int{6, 5}

var sshVersion = regexp.MustCompile(`OpenSSH_(\d+)\.(\d+)`)

func openSSH(f Finding) Finding {
	m := sshVersion.FindStringSubmatch(f.Message)
	if m == nil {
		return f
	}
	major, _ := strconv.Atoi(m[1]) // the pattern has digits only
	minor, _ := strconv.Atoi(m[2])
	if cmp.Or(cmp.Compare(major, oldestSSH[0]), cmp.Compare(minor, oldestSSH[1])) < 0 {
		return Bad(CheckOpenSSH, Warn, "use the ssh that pods find first on PATH, or a newer OpenSSH",
			"%s: before 6.5 it has none of the ciphers that a gang's SSH service takes", f.Message)
	}
	f.Status = OK
	return f
}

// versionLine is the first line with a number in it, bounded.
func versionLine(text string) string {
	const most = 80
	for line := range strings.Lines(text) {
		if line = strings.Join(strings.Fields(line), " "); strings.ContainsAny(line, "0123456789") {
			return strings.ToValidUTF8(line[:min(len(line), most)], "?")
		}
	}
	return ""
}
