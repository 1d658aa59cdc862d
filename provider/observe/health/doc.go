// Package health answers the questions whether the process lives (/healthz) and whether it
// is ready (/readyz), the latter with the reason where it is not.
//
// A process lives as long as it answers: a workload manager's outage, or a user's site that
// is cut, is no reason to start it again, which would mend neither. Both make it not ready.
package health
