package agent

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gangline/gangline/agent/volume"
	"github.com/gangline/gangline/provider/spool"
)

// updateAgain is how soon an update that could not be taken over is tried again: there
// may be room then. Tokens in it are not sent once more before they have nearly expired.
const updateAgain = 10 * time.Second

// lastUpdate is how far the pod's last update was taken over.
type lastUpdate struct {
	sealed []byte
	again  time.Time // when to try again; zero: never
}

// takeUpdate takes over what has changed since the pod got its orders. An update
// that cannot be read changes nothing. What is wrong is told once.
func (s *slot) takeUpdate(p *pod, now time.Time) {
	d := s.desired
	if len(d.Update) == 0 || d.PodUID != p.orders.UID || d.Recipient != s.key.Recipient() {
		p.update.again = time.Time{} // there is nothing to try again
		return
	}
	known := bytes.Equal(d.Update, p.update.sealed)
	if known && (p.update.again.IsZero() || now.Before(p.update.again)) {
		return
	}
	p.update = lastUpdate{sealed: d.Update}
	var u spool.PodUpdate
	err := s.key.Open(d.Update, &u)
	if err == nil && u.UID != p.orders.UID {
		err = fmt.Errorf("the update is that of pod %q", u.UID)
	}
	if err == nil {
		if err = errors.Join(p.files.update(u.Volumes, now), p.addEphemeral(u.EphemeralContainers)); err != nil {
			p.update.again = now.Add(updateAgain)
		}
	}
	if err != nil && !known {
		p.logger.Error("updating the pod", "error", err)
	}
}

// update replaces the files of volumes. Other volumes have none. One that fails does
// not keep the others from what is new.
func (f files) update(volumes []spool.Volume, now time.Time) error {
	var errs []error
	for _, v := range volumes {
		have, ok := f.volumes[v.Name]
		if !ok || !holdsFiles(have) {
			errs = append(errs, fmt.Errorf("volume %q: the pod has no volume of that name that holds files", v.Name))
			continue
		}
		if err := f.write(have, v.Files, now); err != nil {
			errs = append(errs, fmt.Errorf("volume %q: %w", v.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (f files) write(v spool.Volume, contents []spool.File, now time.Time) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	return volume.Write(f.source(v), contents, now)
}
