package machine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ForbidUserNamespaces keeps the calling thread, and whatever it starts, from making
// user namespaces, as a site does that sets kernel.unprivileged_userns_clone=0: the
// kernel answers EPERM. (A limit in user.max_user_namespaces would be the whole
// machine's.) See seccomp(2); it needs root.
func ForbidUserNamespaces() error {
	const (
		number, firstArgument = 0, 16 // offsets in struct seccomp_data, of the lower half
		load                  = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ifEqual               = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		ifSet                 = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		answer                = unix.BPF_RET | unix.BPF_K
	)
	filter := []unix.SockFilter{
		{Code: load, K: number},
		{Code: ifEqual, K: unix.SYS_CLONE3, Jt: 5}, // its flags are out of sight; the C library then uses clone
		{Code: ifEqual, K: unix.SYS_CLONE, Jt: 1},
		{Code: ifEqual, K: unix.SYS_UNSHARE, Jf: 2},
		{Code: load, K: firstArgument},
		{Code: ifSet, K: unix.CLONE_NEWUSER, Jt: 2},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_PRCTL, unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return fmt.Errorf("forbid user namespaces: %w", errno)
	}
	return nil
}
