package config

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/controller/api/config/v1alpha1"
)

// setLeaderElectionDefaults has leader election on unless it is switched off, as
// the type is documented; Kubeflow Trainer has it off when the file says
// nothing. One replica too many then waits instead of reconciling against the
// others. The namespace's default is the controller's own.
func setLeaderElectionDefaults(c *v1alpha1.Configuration) {
	l := &c.LeaderElection
	defaultTo(&l.LeaderElect, ptr.To(true))
	defaultTo(&l.ResourceLock, resourcelock.LeasesResourceLock)
	defaultTo(&l.ResourceName, "trainer.kubeflow.org")
	defaultTo(&l.LeaseDuration.Duration, 15*time.Second)
	defaultTo(&l.RenewDeadline.Duration, 10*time.Second)
	defaultTo(&l.RetryPeriod.Duration, 2*time.Second)
}

func validateLeaderElection(c *v1alpha1.Configuration) field.ErrorList {
	l, path := c.LeaderElection, field.NewPath("leaderElection")
	if !*l.LeaderElect {
		return nil
	}
	var errs field.ErrorList
	if l.ResourceLock != resourcelock.LeasesResourceLock {
		errs = append(errs, field.NotSupported(path.Child("resourceLock"), l.ResourceLock, []string{resourcelock.LeasesResourceLock}))
	}
	if l.RetryPeriod.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("retryPeriod"), l.RetryPeriod.Duration.String(), "must be positive"))
	}
	// client-go waits up to 1.2 retry periods between two tries.
	if l.RenewDeadline.Duration*5 <= l.RetryPeriod.Duration*6 {
		errs = append(errs, field.Invalid(path.Child("renewDeadline"), l.RenewDeadline.Duration.String(), "must be more than 1.2 times retryPeriod"))
	}
	if l.LeaseDuration.Duration <= l.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"), l.LeaseDuration.Duration.String(), "must be more than renewDeadline"))
	}
	return errs
}
