// Package identity says who a pod is on the HPC side: it maps namespaces and
// ServiceAccounts to the site's users, and to what each may use there.
//
// The package holds rules and nothing else: it asks neither Kubernetes nor the site, and
// it does not know whether a user exists.
package identity
