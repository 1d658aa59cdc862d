package agent

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process either is there before what the pod left is looked for, or does not begin.
func TestNoProcessBeginsInAPodThatHasEnded(t *testing.T) {
	newPod := func() *pod {
		p := &pod{}
		p.ctx, p.cancel = context.WithCancelCause(t.Context())
		return p
	}
	t.Run("the pod ends", func(t *testing.T) {
		p := newPod()
		ctx, leave := p.join(t.Context())
		defer leave()
		require.NoError(t, ctx.Err())
		p.close()
		require.Error(t, ctx.Err(), "at once")
		assert.Equal(t, errPodEnded, context.Cause(ctx))
	})
	t.Run("it has ended before", func(t *testing.T) {
		p := newPod()
		p.close()
		ctx, leave := p.join(t.Context())
		defer leave()
		assert.Equal(t, errPodEnded, context.Cause(ctx))
	})
	t.Run("the session's client goes", func(t *testing.T) {
		client, hangUp := context.WithCancel(t.Context())
		ctx, leave := newPod().join(client)
		defer leave()
		hangUp()
		<-ctx.Done()
		assert.Equal(t, context.Canceled, context.Cause(ctx))
	})
}
