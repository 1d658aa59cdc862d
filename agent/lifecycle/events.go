package lifecycle

import (
	"strings"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

const (
	// maxEvents is how many of a pod's Events are kept for the node to tell.
	maxEvents = 16
	// maxMessage bounds an Event's text, in bytes, as the API of Events does.
	maxMessage = 1024
)

// Tell adds an Event that a container's own processes give rise to.
func (p *Pod) Tell(container string, at time.Time, kind, reason, message string) {
	if c, ok := p.byName[container]; ok {
		p.tell(c, at, kind, reason, message)
	}
}

// TellPod adds an Event of the pod as a whole.
func (p *Pod) TellPod(at time.Time, kind, reason, message string) {
	p.tell(&container{}, at, kind, reason, message)
}

// tell adds an Event. Its time tells it from the pod's others.
func (p *Pod) tell(c *container, at time.Time, kind, reason, message string) {
	if n := len(p.events); n > 0 && !at.After(p.events[n-1].Time) {
		at = p.events[n-1].Time.Add(time.Nanosecond)
	}
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "")
	}
	p.events = append(p.events, spool.Event{
		Time: at, Container: c.name, Type: kind, Reason: reason, Message: message,
	})
	if extra := len(p.events) - maxEvents; extra > 0 {
		p.events = p.events[extra:]
	}
}
