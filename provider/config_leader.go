package provider

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/leader"
)

// LeaderElectionConfig lets several processes stand for the same virtual nodes: one acts,
// and when it ends or dies another takes over. They need the same spool, and the same Lock
// if they are on one machine.
type LeaderElectionConfig struct {
	Enabled bool `json:"enabled,omitempty"`
	// LeaseDuration is how long the others wait for a leader that has died, RenewDeadline
	// how long a leader goes on that cannot reach the API server, RetryPeriod the time
	// between two tries of either. Defaults: Kubernetes' own, 15s, 10s and 2s.
	LeaseDuration metav1.Duration `json:"leaseDuration,omitempty"`
	RenewDeadline metav1.Duration `json:"renewDeadline,omitempty"`
	RetryPeriod   metav1.Duration `json:"retryPeriod,omitempty"`
}

func (l *LeaderElectionConfig) setDefaults() {
	defaultTo(&l.LeaseDuration.Duration, 15*time.Second)
	defaultTo(&l.RenewDeadline.Duration, 10*time.Second)
	defaultTo(&l.RetryPeriod.Duration, 2*time.Second)
}

// validate checks what client-go's elector asks for: a lease outlasts the attempts to renew
// it, and there is time for more than one, spread by up to a fifth.
func (l LeaderElectionConfig) validate() error {
	lease, renew, retry := l.LeaseDuration.Duration, l.RenewDeadline.Duration, l.RetryPeriod.Duration
	if retry > 0 && lease >= time.Second && lease > renew && float64(renew) > 1.2*float64(retry) {
		return nil
	}
	return fmt.Errorf("leaderElection: leaseDuration %s (at least 1s) must be longer than renewDeadline %s, and that than 1.2 times retryPeriod %s",
		lease, renew, retry)
}

// Lease is what the processes of these virtual nodes compete for.
func (c Config) Lease(identity string) leader.Config {
	l := c.LeaderElection
	return leader.Config{
		Namespace: c.Namespace, Name: component + "-" + c.NodeName, Identity: identity,
		LeaseDuration: l.LeaseDuration.Duration, RenewDeadline: l.RenewDeadline.Duration, RetryPeriod: l.RetryPeriod.Duration,
		Contact: leader.NewContact(l.RenewDeadline.Duration), // a leader gives up after as long
	}
}
