package image

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/agent/image/fetch"
	"github.com/gangline/gangline/agent/image/lease"
)

// quiet is how long nothing is told of progress after something has been.
const quiet = 10 * time.Second

// teller tells of one request in kubelet's words (pkg/kubelet/images/image_manager.go).
type teller struct {
	request Request
	asked   bool // the registry was, or another agent
	last    time.Time
}

func (t *teller) tell(kind, reason, format string, args ...any) {
	t.last = time.Now()
	if t.request.Progress != nil {
		t.request.Progress(Event{Type: kind, Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
}

// pulling is told once.
func (t *teller) pulling() {
	if !t.asked {
		t.asked = true
		t.tell(corev1.EventTypeNormal, "Pulling", "Pulling image %q", t.request.Reference)
	}
}

func (t *teller) progress(how string) {
	if time.Since(t.last) >= quiet {
		t.tell(corev1.EventTypeNormal, "Pulling", "Pulling image %q: %s", t.request.Reference, how)
	}
}

// waiting is told while another agent makes the image.
func (t *teller) waiting(holder lease.Record) {
	if holder.Holder != "" {
		t.progress(fmt.Sprintf("waiting for %s: %s", holder.Holder, holder.Note))
	}
}

func (t *teller) converting(f Form) {
	t.tell(corev1.EventTypeNormal, "Pulling", "Converting image %q to %s", t.request.Reference, f)
}

func (t *teller) present() {
	t.tell(corev1.EventTypeNormal, "Pulled", "Container image %q already present on machine", t.request.Reference)
}

// pulled tells how long it took this process to make the image, and with waiting.
func (t *teller) pulled(made, all time.Duration, size int64) {
	if !t.asked {
		t.present()
		return
	}
	t.tell(corev1.EventTypeNormal, "Pulled", "Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
		t.request.Reference, made.Truncate(time.Millisecond), all.Truncate(time.Millisecond), size)
}

// warnings are kubelet's reasons of Events, where they differ from those of states.
var warnings = map[string]string{
	ReasonInvalidImageName:    "InspectFailed",
	ReasonErrImageNeverPull:   "ErrImageNeverPull",
	ReasonErrImagePull:        "Failed",
	ReasonRegistryUnavailable: "Failed",
}

func (t *teller) failed(e *Error) {
	t.tell(corev1.EventTypeWarning, warnings[e.Reason], "%s", e.Message)
}

func amount(p fetch.Progress) string {
	const mega = 1000 * 1000
	percent := int64(100)
	if p.Total > 0 {
		percent = p.Done * 100 / p.Total
	}
	return fmt.Sprintf("%d of %d MB (%d %%)", p.Done/mega, p.Total/mega, percent)
}
