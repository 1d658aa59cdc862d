package agent

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image"
	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

// searchAgain is how soon a path of the HPC node that is missing, or not what it has
// to be, is looked at again.
const searchAgain = 5 * time.Second

// search is the pod's search for the paths of the HPC node that it mounts, and for its
// image store.
type search struct {
	underWay bool
	next     time.Time         // when to look again; zero while that is under way
	told     map[string]string // what was wrong, by volume
	failed   error             // why the pod cannot run at all
}

// hostsFound tells whether all paths of the HPC node that the pod mounts are found, and
// its image store is open, and looks for what is not. As with kubelet, the pod waits for
// its paths. Looking may take long on a shared filesystem, so the slot does not wait for it.
func (p *pod) hostsFound(now time.Time) (bool, error) {
	missing, closed := p.files.missingHosts(), p.box.closed()
	switch {
	case p.search.failed != nil:
		return false, p.search.failed
	case len(missing) == 0 && !closed:
		return true, nil
	case p.search.underWay, now.Before(p.search.next):
		return false, nil
	}
	p.search.underWay, p.search.next = true, time.Time{}
	p.slot.background.Go(func() {
		var store *image.Store
		var err error
		if closed {
			store, err = image.Open(p.box.images)
		}
		found, wrong := findHosts(missing)
		p.slot.post(func() {
			if p.search.failed = err; closed && err == nil {
				p.box.store = store
			}
			p.searched(found, wrong)
		})
	})
	return false, nil
}

func findHosts(volumes []spool.Volume) (found map[string]volume.Host, wrong map[string]error) {
	found, wrong = map[string]volume.Host{}, map[string]error{}
	for _, v := range volumes {
		host, err := volume.FindHost(v.HostPath, *v.Host)
		if err != nil {
			wrong[v.Name] = err
			continue
		}
		found[v.Name] = host
	}
	return found, wrong
}

// searched takes in what was found, and tells what was not, once.
func (p *pod) searched(found map[string]volume.Host, wrong map[string]error) {
	now := time.Now()
	p.search.underWay, p.search.next = false, now.Add(searchAgain)
	for name, host := range found {
		p.files.hosts[name] = host
	}
	told := map[string]string{}
	for name, err := range wrong {
		if told[name] = err.Error(); told[name] != p.search.told[name] {
			p.logger.Warn("a volume cannot be mounted; the pod waits", "volume", name, "error", err)
			p.life.TellPod(now, corev1.EventTypeWarning, "FailedMount", fmt.Sprintf("MountVolume.SetUp failed for volume %q : %v", name, err))
		}
	}
	p.search.told = told
}
