// Package unpack makes a root filesystem of an image's layers, as an ordinary user.
//
// Layers are not trusted: nothing outside of the tree is read or written, whatever links
// they hold (os.Root), and links within it mean what they mean to a process whose root
// the tree is. All files become ours. Devices and pipes are left out, setuid and setgid
// bits and extended attributes are dropped, and all directories can be written, so that
// the tree can be removed again.
package unpack
