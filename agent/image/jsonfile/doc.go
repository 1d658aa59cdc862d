// Package jsonfile reads and writes the image store's small files. A file is replaced as a
// whole, so nobody reads half of one.
package jsonfile
