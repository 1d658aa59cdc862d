// Package registry serves an image registry for tests, and makes the images in it: of a
// few files, or of programs of this machine. It counts what is asked for, and can be told
// to fail, to be slow and to ask for a password.
//
// It is go-containerregistry's registry, in memory, and no example of one.
package registry
