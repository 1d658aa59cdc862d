package local

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestConfigIsChecked(t *testing.T) {
	node := NodeSpec{Name: "n1", CPUs: 1}
	tests := map[string]struct {
		cfg  Config
		want string
	}{
		"a relative state directory": {Config{StateDir: "state", Nodes: []NodeSpec{node}}, "not an absolute path"},
		"no nodes":                   {Config{StateDir: "/state"}, "no node"},
		"a node without a name":      {Config{StateDir: "/state", Nodes: []NodeSpec{{CPUs: 1}}}, "a name of its own"},
		"two nodes of one name":      {Config{StateDir: "/state", Nodes: []NodeSpec{node, node}}, "a name of its own"},
		"a node without CPUs":        {Config{StateDir: "/state", Nodes: []NodeSpec{{Name: "n1"}}}, "0 CPUs"},
		"negative memory":            {Config{StateDir: "/state", Nodes: []NodeSpec{{Name: "n1", CPUs: 1, MemoryMiB: -1}}}, "-1 MiB"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := New(tt.cfg)
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestConfigHasDefaults(t *testing.T) {
	nodes := []NodeSpec{{Name: "n1", CPUs: 1}, {Name: "n2", CPUs: 1, Address: "192.0.2.7"}, {Name: "n3", CPUs: 1}}
	cfg, err := Config{StateDir: "/state", Nodes: nodes}.withDefaults()
	require.NoError(t, err)
	assert.Equal(t, "local", cfg.Partition)
	assert.Equal(t, 5*time.Second, cfg.Grace)
	assert.Equal(t, 5*time.Minute, cfg.Retention)
	assert.NotNil(t, cfg.Log)
	assert.Equal(t, "127.0.1.1", cfg.Nodes[0].Address)
	assert.Equal(t, "192.0.2.7", cfg.Nodes[1].Address)
	assert.Equal(t, "127.0.3.1", cfg.Nodes[2].Address)
	assert.Empty(t, nodes[0].Address, "the caller's list is not changed")
}
