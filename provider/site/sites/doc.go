// Package sites holds a site for each HPC user that a provider acts for, reached in
// the one way that its configuration names: as the own user, as others of this machine
// (by being root, or by sudo), or as users of a login node.
//
// Who may act as whom is not decided here: the caller names users that the site's
// administrator has mapped.
package sites
