package hostlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func FuzzExpand(f *testing.F) {
	for _, list := range []string{
		"", "a,b", "n[0-1,07],login", "r[1-2]n[1-2]", "a[1", "a]1[", "a],b", "a[0-9223372036854775807]", "a[0-1048575,0-1048575]",
		"[1][1][1][1][1][1][1][1][1]", "a[00000000000000000001-2]", "a[+1]", "a[9223372036854775807-9223372036854775807]",
	} {
		f.Add(list)
	}
	f.Fuzz(func(t *testing.T, list string) {
		hosts, err := Expand(list)
		if err != nil {
			assert.Nil(t, hosts)
			return
		}
		assert.LessOrEqual(t, len(hosts), maxHosts)
		plain := !strings.ContainsAny(list, "[]")
		for _, host := range hosts {
			assert.NotEmpty(t, host)
			assert.NotContains(t, host, ",", "no two hosts are one")
			assert.True(t, plain || len(host) <= max(maxName, len(list)), host)
		}
		if plain {
			again, err := Expand(strings.Join(hosts, ","))
			assert.NoError(t, err)
			assert.Equal(t, hosts, again)
		}
	})
}
