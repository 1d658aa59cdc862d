package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckInfiniBand is the name of the check.
const CheckInfiniBand = "InfiniBand"

// Where the kernel shows its RDMA devices, and the files by which programs use them
// (rdma-core, Documentation/udev.md).
const (
	rdmaClass = "/sys/class/infiniband"
	rdmaFiles = "/dev/infiniband/uverbs*"
)

// rdma is what this node has for RDMA.
type rdma struct {
	devices []string
	files   []string
	// closed are the files that this user may not open.
	closed []string
	// soft and hard are the limits of locked memory.
	soft, hard uint64
}

func findRDMA() rdma {
	var r rdma
	entries, err := os.ReadDir(rdmaClass)
	if err != nil {
		return r // no driver
	}
	for _, e := range entries {
		r.devices = append(r.devices, e.Name())
	}
	r.files, _ = filepath.Glob(rdmaFiles) // the pattern is a good one
	for _, file := range r.files {
		if unix.Access(file, unix.R_OK|unix.W_OK) != nil {
			r.closed = append(r.closed, file)
		}
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
		r.soft, r.hard = limit.Cur, limit.Max
	}
	return r
}

// judge tells whether programs of the pods can use the devices: RDMA locks the memory that
// it sends from.
func (r rdma) judge() Finding {
	const raise = "raise the limit of locked memory of the workload manager's daemon (LimitMEMLOCK=infinity in its unit), and in Slurm keep submitters' limits away from jobs (PropagateResourceLimitsExcept=MEMLOCK)"
	names := strings.Join(r.devices, ", ")
	switch {
	case len(r.devices) == 0:
		return Good(CheckInfiniBand, Info, "there is no RDMA device")
	case len(r.files) == 0:
		return Bad(CheckInfiniBand, Warn, "load the kernel's module ib_uverbs", "%s, and no program can use it: there is no %s", names, rdmaFiles)
	case len(r.closed) > 0:
		return Bad(CheckInfiniBand, Warn, "let all users open them, as the udev rules of rdma-core do", "%s, and the user may not open %s", names, strings.Join(r.closed, ", "))
	case r.hard != unix.RLIM_INFINITY:
		return Bad(CheckInfiniBand, Warn, raise, "%s, and jobs may lock %d bytes of memory only: NCCL, UCX and MPI fall back or fail", names, r.hard)
	case r.soft != unix.RLIM_INFINITY:
		return Bad(CheckInfiniBand, Warn, "set limits: {memlock: hard} in gangline-node's configuration", "%s, and jobs may lock %d bytes of memory by default: the hard limit allows any", names, r.soft)
	}
	return Good(CheckInfiniBand, OK, "%s; locked memory is not limited", names)
}
