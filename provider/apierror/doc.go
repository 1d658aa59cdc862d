// Package apierror says what helps when the API server refuses or cannot be reached, to those
// who run gangline-node. It asks nobody anything.
package apierror
