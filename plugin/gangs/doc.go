// Package gangs makes gangs out of the pods that a user can read: by what the virtual node
// has written on them, and where it has not seen them yet, by their owners. It is pure: it
// reads nothing and prints nothing. What the annotations mean is in docs/annotations.md.
package gangs
