// Package container knows the container runtimes of HPC sites: what each takes as an
// image, and the command line by which it starts one process in it.
//
// A runtime is asked for little. Two kinds of them are told apart. Where the image is an
// unpacked root filesystem, package sandbox puts it together with the pod's mounts
// first, and the runtime makes that directory the root. Where it is a file, the runtime
// mounts it, and is given the pod's mounts as options. In both, what it starts is the
// agent itself (sandbox.Init), which becomes the pod's program: looking it up, the
// working directory and errors are the same everywhere, and nothing of a user's is ever
// in a command line here.
//
// The command lines follow bwrap(1), ch-run(1), podman-run(1), the Apptainer and
// SingularityCE user guides (exec), and enroot's documentation (start).
//
// The package makes words only: it runs nothing but in Check and Convert's callers'
// hands, and knows neither pods nor images' registries.
package container
