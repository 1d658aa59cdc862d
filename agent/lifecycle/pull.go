package lifecycle

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Kubelet's numbers for an image that cannot be had (pkg/kubelet/images): it is tried
// again after 10 s, then after 20 s, up to 5 min.
const (
	firstPullBackOff = 10 * time.Second
	maxPullBackOff   = 5 * time.Minute
	// showPullError is for how long a container tells what went wrong before it tells that
	// it waits to try again. It stands for kubelet's next look.
	showPullError = 3 * time.Second
)

// Reasons of kubelet's own (pkg/kubelet/images/types.go).
const (
	reasonPullBackOff = "ImagePullBackOff"
	reasonPullFailed  = "ErrImagePull"
)

// pull is how far a container's image is.
type pull struct {
	underway bool
	id       string // the image's, once it is there
	// Of the last try that failed: what a container's status says. No reason: none.
	image, reason, message string
	at                     time.Time
	backOff                time.Duration
	told                   bool // that it is in back-off
	// before is what the container was before it was to start.
	before start
}

// start is what the beginning of a run changes.
type start struct {
	phase          phase
	run            int
	condemned      bool
	backOff        time.Duration
	backOffUpdated time.Time
}

// due is when the image may be tried again.
func (p pull) due() time.Time {
	if p.reason == "" {
		return time.Time{}
	}
	return p.at.Add(p.backOff)
}

// backsOff tells that the error has been shown for long enough. What cannot become better
// by waiting is shown on.
func (p pull) backsOff(now time.Time) bool {
	return p.told || !now.Before(p.at.Add(min(showPullError, p.backOff)))
}

// Pulled notes that the image of a container that is to start is there.
func (p *Pod) Pulled(container, id string) {
	if c, ok := p.byName[container]; ok && c.phase == starting {
		c.pull = pull{id: id, before: c.pull.before}
	}
}

// Unpulled notes that a container cannot start because there is no image, and why: the
// reason is a waiting container's. Without a reason nobody wants it any more.
func (p *Pod) Unpulled(container string, at time.Time, image, reason, message string) {
	c, ok := p.byName[container]
	if !ok || c.phase != starting {
		return
	}
	b := c.pull.before
	c.phase, c.run, c.condemned, c.backOff, c.backOffUpdated = b.phase, b.run, b.condemned, b.backOff, b.backOffUpdated
	c.ending = ending{}
	c.pull.underway = false
	if reason == "" {
		return
	}
	c.pull.image, c.pull.reason, c.pull.message, c.pull.at, c.pull.told = image, reason, message, at, false
	if c.pull.backOff == 0 {
		c.pull.backOff = firstPullBackOff
	} else {
		c.pull.backOff = min(2*c.pull.backOff, maxPullBackOff)
	}
	p.tell(c, at, corev1.EventTypeWarning, "Failed", "Error: "+reason)
}

// holdBack keeps a container from starting whose image is in back-off.
func (p *Pod) holdBack(s *step, c *container) bool {
	due := c.pull.due()
	if !due.After(s.now) {
		return false
	}
	c.waitsForImage = true
	s.wakeAt(due)
	if !c.pull.backsOff(s.now) {
		s.wakeAt(c.pull.at.Add(min(showPullError, c.pull.backOff)))
		return true
	}
	if !c.pull.told {
		c.pull.told = true
		p.tell(c, s.now, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.pull.image))
		p.tell(c, s.now, corev1.EventTypeWarning, "Failed", "Error: "+reasonPullBackOff)
	}
	return true
}

// waiting is the state of a container that has no image, nil for any other.
func (c *container) waitingForImage() *corev1.ContainerStateWaiting {
	if c.pull.reason == "" || !c.waitsForImage && !c.pull.underway {
		return nil
	}
	if !c.pull.told || c.pull.reason != reasonPullFailed && c.pull.reason != "RegistryUnavailable" {
		return &corev1.ContainerStateWaiting{Reason: c.pull.reason, Message: c.pull.message}
	}
	return &corev1.ContainerStateWaiting{
		Reason:  reasonPullBackOff,
		Message: fmt.Sprintf("Back-off pulling image %q: %s: %s", c.pull.image, c.pull.reason, c.pull.message),
	}
}
