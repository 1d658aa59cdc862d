// Package faults names the moments at which a crash of gangline-node or of
// gangline-agent would hurt most, and ends the program there when a test asks for
// it: with SIGKILL, so that nothing is flushed or closed.
//
// A program that is built with the tag "faults" looks at GANGLINE_FAULT=<point>:<n>
// and dies when it comes to the point for the nth time (1 without a number). In all
// other builds the calls are empty and nothing is looked at: make build-faults makes
// such programs for the end-to-end tests, which walk every point of Points.
//
// The package must not decide anything, nor change what the program does between
// two points.
package faults
