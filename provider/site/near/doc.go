// Package near starts gateways on this machine as another user: directly, for a
// provider that is root, or by sudo.
//
// A gateway gets an environment of its own, nothing of the provider's: neither its
// variables, nor its files, nor its terminal.
package near
