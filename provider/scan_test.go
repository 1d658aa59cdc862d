package provider

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
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

// Whoever writes nonsense again and again, into all the reports there are, fills no log.
func TestTheLogTellsOfAUsersUnreadableReportsOnceInAWhile(t *testing.T) {
	dir := spool.Dir(t.TempDir())
	const slots = 3
	require.NoError(t, dir.Create(slots))
	require.NoError(t, spool.Write(dir.Claim(), spool.Claim{}))
	synctest.Test(t, func(t *testing.T) { // in its own time
		var told []string
		log := funcr.New(func(_, args string) { told = append(told, args) }, funcr.Options{})
		ctx := logr.NewContext(context.Background(), log)
		a := &allocation{site: site.Local{}, dir: dir, gang: spool.Gang{Allocation: "a", User: "ada", Slots: make([]spool.Slot, slots)}}
		table := newStatusTable(nil, time.Second)
		look := func(n int) {
			for k := range slots {
				require.NoError(t, os.WriteFile(dir.Status(k), fmt.Appendf(nil, `{"pod":%d`, n), 0o600))
			}
			changed, err := table.scan(ctx, []*allocation{a})
			require.NoError(t, err)
			assert.Empty(t, changed)
		}
		for n := range 100 {
			look(1_000_000_000_000 >> n) // of another size each time, as far as it goes
		}
		require.Len(t, told, 1)
		assert.Contains(t, told[0], `"slot"=0`)
		assert.Contains(t, told[0], `"user"="ada"`)
		time.Sleep(unreadAgain)
		look(1234567)
		require.Len(t, told, 2)
		assert.NotContains(t, told[1], `"unreadBefore"=0`)
		require.NoError(t, os.Truncate(dir.Status(0), site.MaxFile))
		time.Sleep(unreadAgain)
		_, err := table.scan(ctx, []*allocation{a})
		require.NoError(t, err)
		require.Len(t, told, 3)
		assert.Contains(t, told[2], site.ErrTooLarge.Error(), "it has not been read")
	})
}
