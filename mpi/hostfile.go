package mpi

import (
	"fmt"
	"strings"
)

// Host is one line of a hostfile: a pod and the number of ranks it takes.
type Host struct {
	Name string
	// Slots below one count as one: a host that is listed takes a rank.
	Slots int
}

// OpenMPIHostfile is the hostfile of Open MPI, with one "name slots=n" a line
// in the order of the hosts, which is the order of the ranks.
func OpenMPIHostfile(hosts []Host) string {
	return lines("%s slots=%d\n", hosts)
}

// HydraHostfile is the hostfile of MPICH and Intel MPI, with one "name:n" a
// line in the order of the hosts, which is the order of the ranks.
func HydraHostfile(hosts []Host) string {
	return lines("%s:%d\n", hosts)
}

func lines(format string, hosts []Host) string {
	var out strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&out, format, h.Name, max(h.Slots, 1))
	}
	return out.String()
}
