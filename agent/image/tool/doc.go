// Package tool is how the image store runs programs of the node: those that convert images,
// and the one that pulls them. Who has to wait for all children of a process itself, as an
// agent does, hands in a Runner of its own.
package tool
