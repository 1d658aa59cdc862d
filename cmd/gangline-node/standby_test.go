package main

import (
	"errors"
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

	var unreachable error
	lease := func() error { return unreachable }
	end, err := standBy(address, lease)
	require.NoError(t, err)
	ask := func(path string) (int, string) {
		answer, err := http.Get("http://" + address + path)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, string(text)
	}
	for path, says := range map[string]string{"/healthz": "ok", "/readyz": "[+]lease ok\nready\n", "/metrics": "gangline_build_info{"} {
		code, text := ask(path)
		assert.Equal(t, http.StatusOK, code)
		assert.Contains(t, text, says)
	}
	unreachable = errors.New("the token has expired")
	code, text := ask("/readyz")
	assert.Equal(t, http.StatusServiceUnavailable, code)
	assert.Equal(t, "[-]lease: the token has expired\nnot ready\n", text)
	code, _ = ask("/healthz")
	assert.Equal(t, http.StatusOK, code, "to start it again would mend nothing")
	_, err = standBy(address, lease)
	require.ErrorContains(t, err, "metricsAddress")
	require.NoError(t, end())
	require.NoError(t, end(), "twice does no harm")
	again, err := net.Listen("tcp", address)
	require.NoError(t, err, "the address is free for who leads")
	require.NoError(t, again.Close())

	end, err = standBy("", lease)
	require.NoError(t, err)
	require.NoError(t, end())
}
