package provider

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// VolumesConfig is how pods' volumes come to the HPC side.
type VolumesConfig struct {
	// RefreshInterval is how long a change of a ConfigMap or Secret may take to reach
	// the pods that mount it. Default 1m, kubelet's syncFrequency.
	RefreshInterval metav1.Duration `json:"refreshInterval,omitempty"`
	// Claims map PersistentVolumeClaims to directories of the HPC nodes. The first
	// rule that fits a claim's volume counts.
	Claims []translate.ClaimRule `json:"claims,omitempty"`
	// Scratch is a directory of the HPC nodes' own disks for emptyDir volumes, as in
	// "/local/{job}": {job} is the workload manager's id of the job, {user} the HPC user.
	// Default: the TMPDIR of the job's environment, or /tmp.
	Scratch string `json:"scratch,omitempty"`
	// Provision makes a PersistentVolume for each claim of a StorageClass whose provisioner
	// is path.gangline.dev, and takes it away with the claim. It needs rights of its own.
	Provision bool `json:"provision,omitempty"`
}

// turn is the time between two looks at a gang's volumes, and how old what is found
// there may be: both together make the interval.
func (c VolumesConfig) turn() time.Duration { return c.RefreshInterval.Duration / 2 }

// minRefreshInterval keeps the calls to the API server in bounds.
const minRefreshInterval = 2 * time.Second

func (c VolumesConfig) validate() error {
	var errs []error
	if c.RefreshInterval.Duration < minRefreshInterval {
		errs = append(errs, errors.New("volumes.refreshInterval must be "+minRefreshInterval.String()+" or more"))
	}
	return errors.Join(append(errs, translate.ValidateClaimRules(c.Claims), translate.CheckScratch(c.Scratch))...)
}

// Directories are those of the HPC nodes that are named for volumes: each must be there.
func (c Config) Directories() []string {
	dirs := slices.Concat(c.HostPaths, c.ReadOnlyHostPaths, translate.ClaimDirectories(c.Volumes.Claims))
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// claimAge is how old what is known of a waiting pod's claims may be.
const claimAge = missingAgain

// gatherClaims reads the claims of pods that have not had a slot yet. Where that fails
// the pod waits, and its gang goes on with what else there is to do.
func (r *Reconciler) gatherClaims(ctx context.Context, s *state) {
	in := &inputs{r: r}
	for _, p := range s.pods {
		names := translate.MountedClaims(p.pod)
		if len(names) == 0 || p.before != nil || terminal(p.pod) || p.deleting() {
			continue
		}
		claims, err := in.claims(ctx, p.pod.Namespace, names, claimAge)
		if err != nil {
			p.unusable = translate.UnreadableClaim(p.pod, err)
			continue
		}
		p.claims, p.unusable = claims, translate.UnusableClaim(p.pod, claims)
	}
}

// unusableClaims tells whether a pod has to wait for a claim: then nothing is
// submitted, or HPC nodes would wait with it.
func (s *state) unusableClaims() bool {
	for _, p := range s.pods {
		if p.unusable != nil && p.live() {
			return true
		}
	}
	return false
}

// waitForClaims shows what keeps pods from being submitted. (Where there is an
// allocation already, it shows when they are to get their orders.)
func (r *Reconciler) waitForClaims(s *state) {
	if s.alloc != nil && s.alloc.live() {
		return
	}
	for _, p := range s.pods {
		if p.unusable == nil || !p.live() || p.started {
			continue
		}
		reason, text := p.unusable.Event()
		r.waitFor(s, p, translate.Waiting{Reason: wellknown.ReasonContainerCreating, Message: p.unusable.Message}, reason, text)
	}
}

// claimRejection refuses a pod that was accepted before its claims were bound, and
// whose claims turn out to have no place on the HPC side. One that has had a slot may
// run: it is let be.
func (p *podState) claimRejection(site translate.Site) *translate.Rejection {
	if len(p.claims) == 0 || p.before != nil {
		return nil
	}
	site.Claims = p.claims
	return translate.CheckClaims(p.pod, site)
}
