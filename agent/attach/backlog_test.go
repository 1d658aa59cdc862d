package attach

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABacklogGivesItsSpaceBack(t *testing.T) {
	b, err := newBacklog(t.TempDir(), maxBehind)
	require.NoError(t, err)
	defer b.close()
	piece := bytes.Repeat([]byte("x"), keptSize/2+1)
	for range 3 {
		b.add(piece)
	}
	b.end()
	var got bytes.Buffer
	require.NoError(t, b.copyTo(t.Context(), &got))
	assert.Len(t, got.Bytes(), 3*len(piece))
	info, err := b.file.Stat()
	require.NoError(t, err)
	assert.Zero(t, info.Size())
}

func TestWhoFallsTooFarBehindIsLetGo(t *testing.T) {
	b, err := newBacklog(t.TempDir(), 10)
	require.NoError(t, err)
	defer b.close()
	b.add([]byte("12345"))
	b.add([]byte("678901"))
	assert.ErrorContains(t, b.copyTo(t.Context(), &bytes.Buffer{}), "behind")
}

func TestABacklogWaitsForOutputUntilTheContextEnds(t *testing.T) {
	b, err := newBacklog(t.TempDir(), 10)
	require.NoError(t, err)
	defer b.close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.copyTo(ctx, &bytes.Buffer{}) }()
	cancel()
	assert.ErrorIs(t, <-done, context.Canceled)
}
