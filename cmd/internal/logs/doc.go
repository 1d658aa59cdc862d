// Package logs makes a program's log, with the libraries' lines in it, as text or JSON. Of
// what libraries call an error and is none it says what it means, at the level Info.
package logs
