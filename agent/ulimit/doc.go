// Package ulimit sets the soft limits of processes (setrlimit(2)) by their names in
// limits.conf(5), and tells where a node's hard limits are too low for them.
//
// It never touches a hard limit: an ordinary user could only lower it, for good.
package ulimit
