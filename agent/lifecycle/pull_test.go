package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/spool"
)

func inImage(name string) spool.ContainerOrders {
	return spool.ContainerOrders{Name: name, InImage: &spool.InImage{}}
}

func (w *world) unpulled(name, reason string) {
	w.pod.Unpulled(name, w.now, "tool:1", reason, "not found")
}

func (w *world) waits(i int) (reason, message string) {
	if s := w.main(i).State.Waiting; s != nil {
		return s.Reason, s.Message
	}
	return "", ""
}

func TestImagesThatCannotBePulled(t *testing.T) {
	for sentence, story := range map[string]func(t *testing.T){
		"an image that comes in time": func(t *testing.T) {
			w := newWorld(t, never, nil, one(inImage("m")))
			w.pod.Step(w.now)
			reason, _ := w.waits(0)
			assert.Equal(t, "ContainerCreating", reason)
			w.pod.Pulled("m", "team/tool@sha256:1")
			w.pod.Started("m", w.now)
			assert.Equal(t, "team/tool@sha256:1", w.main(0).ImageID)
			assert.NotNil(t, w.main(0).State.Running)
		},
		"an image that fails is told, then waited for, longer each time": func(t *testing.T) {
			w := newWorld(t, never, nil, one(inImage("m")))
			w.pod.Step(w.now)
			w.unpulled("m", "ErrImagePull")
			w.expect()
			reason, message := w.waits(0)
			assert.Equal(t, "ErrImagePull", reason)
			assert.Equal(t, "not found", message)
			w.wakesIn(3 * time.Second)
			w.after(3 * time.Second)
			w.expect()
			reason, message = w.waits(0)
			assert.Equal(t, "ImagePullBackOff", reason)
			assert.Equal(t, `Back-off pulling image "tool:1": ErrImagePull: not found`, message)
			w.wakesIn(7 * time.Second)
			w.after(7 * time.Second)
			w.pod.Step(w.now)
			reason, _ = w.waits(0)
			assert.Equal(t, "ImagePullBackOff", reason, "while it is tried again")
			w.unpulled("m", "ErrImagePull")
			w.after(3 * time.Second)
			w.expect()
			w.wakesIn(17 * time.Second)
			assert.Zero(t, w.main(0).RestartCount)
			w.events(
				"m Warning Failed: Error: ErrImagePull",
				`m Normal BackOff: Back-off pulling image "tool:1"`,
				"m Warning Failed: Error: ImagePullBackOff",
				"m Warning Failed: Error: ErrImagePull",
				`m Normal BackOff: Back-off pulling image "tool:1"`,
				"m Warning Failed: Error: ImagePullBackOff",
			)
		},
		"what waiting does not mend keeps its reason": func(t *testing.T) {
			w := newWorld(t, never, nil, one(inImage("m")))
			w.pod.Step(w.now)
			w.unpulled("m", "InvalidImageName")
			w.after(5 * time.Second)
			w.expect()
			reason, _ := w.waits(0)
			assert.Equal(t, "InvalidImageName", reason)
		},
		"a stop does not wait for a pull": func(t *testing.T) {
			w := newWorld(t, never, nil, one(inImage("m")))
			w.pod.Step(w.now)
			w.stop(time.Minute)
			w.expect("kill m 0")
			w.unpulled("m", "")
			w.expect()
			w.finished(true)
			assert.Nil(t, w.main(0).State.Terminated)
		},
		"a restart whose image is gone is no other run": func(t *testing.T) {
			w := newWorld(t, always, nil, one(inImage("m")))
			w.pod.Step(w.now)
			w.pod.Pulled("m", "id")
			w.pod.Started("m", w.now)
			w.exit("m", 1)
			w.pod.Step(w.now)
			assert.Zero(t, w.main(0).RestartCount, "before it has its image")
			w.unpulled("m", "ErrImagePull")
			w.expect()
			reason, _ := w.waits(0)
			assert.Equal(t, "ErrImagePull", reason)
			assert.Zero(t, w.main(0).RestartCount)
			assert.EqualValues(t, 1, w.main(0).LastTerminationState.Terminated.ExitCode)
		},
	} {
		t.Run(sentence, story)
	}
}
