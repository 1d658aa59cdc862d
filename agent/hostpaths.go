package agent

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

// searchAgain is how soon a path of the HPC node that is missing, or not what it has
// to be, is looked at again.
const searchAgain = 5 * time.Second

// search is the pod's search for the paths of the HPC node that it mounts.
type search struct {
	underWay bool
	next     time.Time         // when to look again; zero while that is under way
	told     map[string]string // what was wrong, by volume
}

// hostsFound tells whether all paths of the HPC node that the pod mounts are found,
// and looks for those that are not. As with kubelet, the pod waits for them. Looking
// may take long on a shared filesystem, so the slot does not wait for it.
func (p *pod) hostsFound(now time.Time) bool {
	missing := p.files.missingHosts()
	if len(missing) == 0 {
		return true
	}
	if p.search.underWay || now.Before(p.search.next) {
		return false
	}
	p.search.underWay, p.search.next = true, time.Time{}
	p.slot.background.Go(func() {
		found, wrong := findHosts(missing)
		p.slot.post(func() { p.searched(found, wrong) })
	})
	return false
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
