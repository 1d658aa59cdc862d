package main

import (
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhoStandsByAnswersProbes(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())

	end, err := standBy(address)
	require.NoError(t, err)
	for path, says := range map[string]string{"/healthz": "ok", "/readyz": "ready\n"} {
		answer, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		assert.Equal(t, http.StatusOK, answer.StatusCode)
		assert.Equal(t, says, string(text))
	}
	_, err = standBy(address)
	require.ErrorContains(t, err, "metricsAddress")
	require.NoError(t, end())
	require.NoError(t, end(), "twice does no harm")
	again, err := net.Listen("tcp", address)
	require.NoError(t, err, "the address is free for who leads")
	require.NoError(t, again.Close())

	end, err = standBy("")
	require.NoError(t, err)
	require.NoError(t, end())
}
