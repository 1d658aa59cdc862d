// Package oom tells how often the kernel has killed a process for want of memory, as
// far as this process's own control group is concerned: the pod's processes are in
// it too. It follows the kernel's Documentation/admin-guide/cgroup-v2.rst
// (memory.events) and cgroup-v1/memory.rst (memory.oom_control).
//
// The package watches nothing and sets no limits: they are the workload manager's.
package oom
