package agent

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestResolveHosts(t *testing.T) {
	addresses := map[string]string{"pi-0.pi": "10.0.0.1", "pi-1.pi": "10.0.0.2", "six": "fd00::1"}
	for sentence, tc := range map[string]struct{ value, want string }{
		"a name":                                 {"pi-0.pi", "10.0.0.1"},
		"in any case, and with DNS's dot":        {"PI-0.pi.", "10.0.0.1"},
		"with a port":                            {"pi-0.pi:29500", "10.0.0.1:29500"},
		"in a URL":                               {"tcp://pi-0.pi:29500/x", "tcp://10.0.0.1:29500/x"},
		"in a list":                              {"pi-0.pi:1,pi-1.pi:2,elsewhere:3", "10.0.0.1:1,10.0.0.2:2,elsewhere:3"},
		"what the gang does not have":            {"elsewhere", "elsewhere"},
		"an address stays":                       {"10.9.9.9:1", "10.9.9.9:1"},
		"an IPv6 address, and one beside a port": {"six,six:1", "fd00::1,[fd00::1]:1"},
		"nothing":                                {"", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, tc.want, resolveHosts(tc.value, addresses))
		})
	}
}
