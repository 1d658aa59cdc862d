// Package login reaches an HPC site through one of its login nodes by SSH, as one
// user: a single connection that carries the gateway of package gateway, and the
// connections to the HPC nodes (direct-tcpip, RFC 4254 section 7.2; where the login
// node forbids that, an agent there connects).
//
// The login node's host key is pinned by the configuration: no key is ever trusted
// because it was seen first. The user shows a key, with a certificate where the site
// gives such. Nothing of the user's is copied there but the agent's program, once for
// each version, and its name is its content's hash.
//
// What SSH runs, a login shell reads: the command lines here are constant but for
// paths that hold nothing a shell would look at.
package login
