package provider

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

func TestAReportThatCannotBeReadIsNotTriedAgainAndAgain(t *testing.T) {
	dir := spool.Dir(t.TempDir())
	require.NoError(t, dir.Create(1))
	require.NoError(t, spool.Write(dir.Claim(), spool.Claim{}))
	a := &allocation{site: site.Local{}, dir: dir, gang: spool.Gang{Allocation: "a", Slots: make([]spool.Slot, 1)}}
	table := newStatusTable(nil, time.Second)
	scan := func() bool {
		changed, err := table.scan(t.Context(), []*allocation{a})
		require.NoError(t, err)
		return len(changed) > 0
	}
	require.NoError(t, os.WriteFile(dir.Status(0), []byte(`{"pod":`), 0o600))
	assert.False(t, scan())
	again := table.slots["a"][0].again
	assert.WithinDuration(t, time.Now().Add(unreadAgain), again, time.Second)
	assert.False(t, scan())
	assert.Equal(t, again, table.slots["a"][0].again, "the same file is left alone for a while")

	require.NoError(t, spool.Write(dir.Status(0), spool.Status{Agent: spool.Agent{Instance: "i"}}))
	assert.True(t, scan(), "another one is read at once")
	assert.Equal(t, "i", table.of(a)[0].Agent.Instance)
	assert.Zero(t, table.slots["a"][0].again)
}
