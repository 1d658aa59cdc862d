package hostlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExpand(t *testing.T) {
	for list, want := range map[string]string{
		"":                     "",
		"login":                "login",
		"a,b":                  "a b",
		"vm,vm":                "vm vm",
		"n[0-1,07],login":      "n0 n1 n07 login",
		"hpc[1-3,7]":           "hpc1 hpc2 hpc3 hpc7",
		"hpc[08-11],x":         "hpc08 hpc09 hpc10 hpc11 x",
		"r[1-2]n[1-2]":         "r1n1 r1n2 r2n1 r2n2",
		"a[3]-ib":              "a3-ib",
		"dev-hpc[1,3-4]b,c[9]": "dev-hpc1b dev-hpc3b dev-hpc4b c9",
	} {
		got, err := Expand(list)
		require.NoError(t, err, list)
		assert.Equal(t, want, strings.Join(got, " "), list)
	}
	for _, list := range []string{"a[1", "a[x]", "a[3-1]", "a[-1]", "a[1-99999999999]", "a[0-9999][0-9999]"} {
		_, err := Expand(list)
		assert.ErrorContains(t, err, "reading the host list", list)
	}
}
