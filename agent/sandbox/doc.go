// Package sandbox starts a container's processes in a private root: the HPC
// node's own files, with the pod's volumes at their paths, the pod's host name
// and nothing else changed. It needs no privilege, no image and no helper that
// is setuid: a user namespace that keeps the user's own id, and in it a mount
// and a UTS namespace for each process that is started (user_namespaces(7),
// mount_namespaces(7)).
//
// All processes of an agent share one user namespace (see Enter), because the
// kernel lets processes read each other's memory, as MPI does within a node,
// only within one (ptrace(2), process_vm_readv(2)).
//
// A path that does not exist cannot be a mount point, and an ordinary user can
// not create one in /, /run or /dev. There the directory is covered by a small
// tmpfs into which all its entries are bound, and which has room for the mount
// point (see shadow). This works on every kernel that has user namespaces;
// overlay filesystems do not.
//
// A process starts as a hidden stage of this same program (see Init), which
// reads a Recipe from a pipe, builds the root, gives up its capabilities and
// becomes the program that was asked for. Nothing of a recipe is ever in an
// argument list or an environment of its own.
//
// A container that runs in an image has a Place: a root that is built once, in which
// the image's tree and the mounts are put together in one directory (see Image), and
// which all of the container's processes enter. Each process then starts by a container
// runtime (see Runtime), which makes that directory the root. What such processes write
// to the image goes to a layer of its own (overlayfs); where the kernel has none for
// users, the tree is read-only and mount points are made as above.
//
// The sandbox keeps nobody from anything: it arranges paths. Protection is the
// workload manager's and the kernel's, who know the user.
package sandbox
