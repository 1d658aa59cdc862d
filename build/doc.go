// Command build makes what is released: programs in archives, their bills of
// materials, container images, the Helm chart and checksums. It publishes nothing
// unless told where to.
//
// The programs are built without cgo, so each is one file that runs on any Linux.
// Two things cannot be had so: libflux is loaded by the system's loader, and users of
// LDAP and its like are known to the system's C library only. For sites that need
// them the archive for the build machine's own architecture holds gangline-node once
// more as gangline-node-dynamic.
package main
