package rendezvous

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestReplaceHosts(t *testing.T) {
	addresses := map[string]string{"pi-0.pi": "10.0.0.1", "pi-1.pi": "10.0.0.2", "six": "fd00::1"}
	for sentence, tc := range map[string]struct{ value, want string }{
		"a name":                                 {"pi-0.pi", "10.0.0.1"},
		"in any case, and with DNS's dot":        {"PI-0.pi.", "10.0.0.1"},
		"with a port":                            {"pi-0.pi:29500", "10.0.0.1:29500"},
		"in a URL":                               {"tcp://pi-0.pi:29500/x", "tcp://10.0.0.1:29500/x"},
		"in a list":                              {"pi-0.pi:1,pi-1.pi:2,elsewhere:3", "10.0.0.1:1,10.0.0.2:2,elsewhere:3"},
		"what the gang does not have":            {"elsewhere", "elsewhere"},
		"an address stays":                       {"10.9.9.9:1", "10.9.9.9:1"},
		"an address of IPv6 stays":               {"fd00::2,[fd00::2],[fd00::2]:1", "fd00::2,[fd00::2],[fd00::2]:1"},
		"an IPv6 address, and one beside a port": {"six,six:1,tcp://six", "fd00::1,[fd00::1]:1,tcp://[fd00::1]"},
		"nothing":                                {"", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			assert.Equal(t, tc.want, ReplaceHosts(tc.value, addresses))
		})
	}
}

func TestNamesHost(t *testing.T) {
	for variable, want := range map[string]bool{"MASTER_ADDR": true, "RAY_ADDRESS": true, "MASTER_PORT": false, "HOME": false} {
		assert.Equal(t, want, NamesHost(variable), variable)
	}
}

func TestMovePorts(t *testing.T) {
	// The gang's only pod to meet at keeps two ports.
	instead := func(host string, written int) (int, bool) {
		moved, ok := map[int]int{29500: 20000, 29600: 20001}[written]
		return moved, ok && host == "pi-0.pi"
	}
	type vars map[string]string
	for sentence, tc := range map[string]struct{ env, want vars }{
		"a host and a port": {
			vars{"PET_MASTER_ADDR": "pi-0.pi", "PET_MASTER_PORT": "29500", "MASTER_PORT": "29500"},
			vars{"PET_MASTER_PORT": "20000"},
		},
		"a host with a port": {
			vars{"JAX_COORDINATOR_ADDRESS": "PI-0.pi.:29500", "PET_RDZV_ENDPOINT": "pi-0.pi:29600"},
			vars{"JAX_COORDINATOR_ADDRESS": "PI-0.pi.:20000", "PET_RDZV_ENDPOINT": "pi-0.pi:20001"},
		},
		"a host with a port, and the port once more": {
			vars{"JAX_COORDINATOR_ADDRESS": "pi-0.pi:29500", "JAX_COORDINATOR_PORT": "29500"},
			vars{"JAX_COORDINATOR_ADDRESS": "pi-0.pi:20000", "JAX_COORDINATOR_PORT": "20000"},
		},
		"two rendezvous of one host": {
			vars{"MASTER_ADDR": "pi-0.pi", "MASTER_PORT": "29500", "COORDINATOR_ADDRESS": "pi-0.pi", "COORDINATOR_PORT": "29600"},
			vars{"MASTER_PORT": "20000", "COORDINATOR_PORT": "20001"},
		},
		"in a URL": {vars{"MASTER_ADDR": "tcp://pi-0.pi:29500"}, vars{"MASTER_ADDR": "tcp://pi-0.pi:20000"}},
		"XGBoost's tracker": {
			vars{"DMLC_TRACKER_URI": "pi-0.pi", "DMLC_TRACKER_PORT": "29500"}, vars{"DMLC_TRACKER_PORT": "20000"},
		},
		"Flux's lead":                {vars{"GANGLINE_FLUX_LEAD": "pi-0.pi:29500"}, vars{"GANGLINE_FLUX_LEAD": "pi-0.pi:20000"}},
		"another host":               {vars{"MASTER_ADDR": "db.example.com", "MASTER_PORT": "29500"}, vars{}},
		"a port that stays":          {vars{"MASTER_ADDR": "pi-0.pi", "MASTER_PORT": "80"}, vars{}},
		"a port without a host":      {vars{"MASTER_PORT": "29500"}, vars{}},
		"a host without a port":      {vars{"MASTER_ADDR": "pi-0.pi", "PET_RDZV_ENDPOINT": "pi-0.pi"}, vars{}},
		"what is no port":            {vars{"MASTER_ADDR": "pi-0.pi", "MASTER_PORT": "$(PORT)", "PET_RDZV_ENDPOINT": "pi-0.pi:"}, vars{}},
		"a port of a command line's": {vars{"RAY_ADDRESS": "pi-0.pi:29500"}, vars{}},
		"other variables":            {vars{"DATABASE": "pi-0.pi:29500"}, vars{}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := MovePorts(func(variable string) (string, bool) { v, ok := tc.env[variable]; return v, ok }, instead)
			assert.Equal(t, map[string]string(tc.want), got)
		})
	}
}
