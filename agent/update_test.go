package agent_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/spool"
)

// update tells a slot's agent what has changed for its pod.
func (w *world) update(k int, o spool.PodOrders, u spool.PodUpdate) {
	w.t.Helper()
	recipient := w.agentStatus(k).Recipient
	sealed, err := spool.Seal(recipient, u)
	require.NoError(w.t, err)
	w.write(w.dir.Desired(k), spool.Desired{
		Version: spool.Version, PodUID: o.UID, Pod: o.Namespace + "/" + o.Name,
		Action: spool.ActionRun, Recipient: recipient, Update: sealed,
	})
}

func settings(text string) []spool.Volume {
	return []spool.Volume{{Name: "settings", Files: []spool.File{{Path: "text", Mode: 0o644, Data: []byte(text)}}}}
}

func TestAVolumeFollowsItsUpdates(t *testing.T) {
	w := single(t)
	o := w.orders("u", "cat /etc/settings/text; until grep -q new /etc/settings/text; do sleep 0.05; done; cat /etc/settings/text")
	o.Volumes = settings("old\n")
	o.Containers[0].Mounts = []spool.Mount{{Volume: "settings", Path: "/etc/settings"}}
	w.run(0, o)
	w.waitLog(0, "u", "old")
	w.update(0, o, spool.PodUpdate{UID: "another", Volumes: settings("stray\n")})
	w.update(0, o, spool.PodUpdate{UID: "u", Volumes: settings("new\n")})
	assert.Equal(t, 0, exitCode(t, w.done(0, "u")))
	assert.Equal(t, "old\nnew\n", w.log(0, "u", "main", 0, "stdout"))
}
