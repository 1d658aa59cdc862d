package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigOfSlurmrestd(t *testing.T) {
	c, err := load(t, validConfig)
	require.NoError(t, err)
	assert.Nil(t, c.Slurm.REST, "the tools are the default")

	c, err = load(t, validConfig+"slurm: {rest: {url: 'unix:/run/slurmrestd.sock', tokenFile: /etc/gangline/slurm.jwt}}\n")
	require.NoError(t, err)
	assert.Equal(t, "unix:/run/slurmrestd.sock", c.Slurm.REST.URL)

	for name, tt := range map[string]struct{ rest, says string }{
		"without a URL":      {"{tokenFile: /t}", "slurm.rest.url is missing"},
		"without a token":    {"{url: 'http://head:6820'}", "slurm.rest.tokenFile must be an absolute path"},
		"with a relative CA": {"{url: 'https://head', tokenFile: /t, caFile: ca.crt}", "slurm.rest.caFile must be an absolute path"},
		"with a misspelling": {"{url: 'https://head', tokenfile: /t, token: x}", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, validConfig+"slurm: {rest: "+tt.rest+"}\n")
			assert.ErrorContains(t, err, tt.says)
		})
	}
}
