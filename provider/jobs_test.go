package provider

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/wlm"
)

// telltale is a workload manager that counts its listings and tells of changes.
type telltale struct {
	wlm.Manager
	changes chan struct{}
	listed  int
}

func (m *telltale) List(context.Context) ([]wlm.Job, error) { m.listed++; return nil, nil }
func (m *telltale) Changes(context.Context) <-chan struct{} { return m.changes }

func TestAChangeIsListedAtOnceAndABurstOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &telltale{changes: make(chan struct{}, 1)}
		table := &jobTable{manager: m, interval: time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = table.run(ctx, func([]string, error) {}) }()
		synctest.Wait()
		assert.Equal(t, 1, m.listed, "the first is for all that was before")
		time.Sleep(time.Second)
		for range 10 {
			select {
			case m.changes <- struct{}{}:
			default:
			}
			synctest.Wait()
		}
		assert.Equal(t, 2, m.listed, "the first change is listed at once, the others wait")
		time.Sleep(leastPause)
		synctest.Wait()
		assert.Equal(t, 3, m.listed, "and are listed together")
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 4, m.listed, "the interval stays")
		cancel()
	})
}
