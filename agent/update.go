package agent

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

// takeUpdate takes over what has changed since the pod got its orders. An update
// that cannot be read is told once and changes nothing.
func (s *slot) takeUpdate(p *pod, now time.Time) {
	d := s.desired
	if len(d.Update) == 0 || d.PodUID != p.orders.UID || d.Recipient != s.key.Recipient() || bytes.Equal(d.Update, p.update) {
		return
	}
	p.update = d.Update
	var u spool.PodUpdate
	err := s.key.Open(d.Update, &u)
	if err == nil && u.UID != p.orders.UID {
		err = fmt.Errorf("the update is that of pod %q", u.UID)
	}
	if err == nil {
		err = p.files.update(u.Volumes, now)
	}
	if err != nil {
		p.logger.Error("updating the pod", "error", err)
	}
}

// update replaces the files of volumes. Other volumes have none.
func (f files) update(volumes []spool.Volume, now time.Time) error {
	for _, v := range volumes {
		have, ok := f.volumes[v.Name]
		if !ok || have.EmptyDir != nil || have.HostPath != "" {
			return fmt.Errorf("volume %q: the pod has no volume of that name that holds files", v.Name)
		}
		if err := volume.Write(f.source(have), v.Files, now); err != nil {
			return fmt.Errorf("volume %q: %w", v.Name, err)
		}
	}
	return nil
}
