package provider

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/wlm"
)

func setOfNodes() Config {
	c := Config{
		NodeName: "first", Partition: "batch", QueueFactor: 10, MaxPods: 100, NodeLabels: map[string]string{"a": "1"},
		MetricsAddress: ":8080", Kubelet: KubeletConfig{Port: 10250, CertDir: "/certs"},
		Nodes: []NodeEntry{
			{Name: "second", Partition: "low", QueueFactor: 2, NodeLabels: map[string]string{"b": "2"}, NodeTaints: []corev1.Taint{{Key: "t", Effect: corev1.TaintEffectNoSchedule}}},
			{Name: "third", Partition: "gpu", Port: 10300, MaxPods: 7},
			{Name: "fourth", Partition: "test"},
		},
	}
	c.setDefaults()
	return c
}

func TestFurtherNodesAreAsTheFirstButForWhatTheySay(t *testing.T) {
	all := setOfNodes().each()
	require.Len(t, all, 4)
	var ports []int32
	for _, c := range all {
		ports = append(ports, c.Kubelet.Port)
		assert.Empty(t, c.Nodes)
	}
	assert.Equal(t, []int32{10250, 10251, 10300, 10301}, ports)
	assert.Equal(t, []string{":8080", ""}, []string{all[0].MetricsAddress, all[1].MetricsAddress})
	second := all[1]
	assert.Equal(t, "second low 2 100", fmt.Sprint(second.NodeName, " ", second.Partition, " ", second.QueueFactor, " ", second.MaxPods))
	assert.Equal(t, map[string]string{"a": "1", "b": "2"}, second.NodeLabels)
	assert.Equal(t, map[string]string{"a": "1"}, all[0].NodeLabels)
	assert.Len(t, second.NodeTaints, 1)
	assert.Equal(t, "/certs/second", second.Kubelet.CertDir)
	assert.Equal(t, all[0].Lock, second.Lock, "one process, one lock")
	assert.Equal(t, 7, all[2].MaxPods)
}

func TestProblemsOfFurtherNodes(t *testing.T) {
	c := setOfNodes()
	assert.Empty(t, c.nodesProblems())
	c.Nodes = []NodeEntry{{Name: "first", Partition: "x"}, {Name: "a"}, {Name: "b", Partition: "x", Port: 10250}, {Name: "c", Partition: "x", QueueFactor: -1}}
	problems := c.nodesProblems()
	for i, want := range []string{`two nodes have the name "first"`, "nodes[1] needs a name and a partition", "another node has the port 10250", "queueFactor must be 1 or more"} {
		assert.Contains(t, problems[i], want)
	}
}

type countedManager struct {
	wlm.Manager
	asked int
	err   error
}

func (m *countedManager) Inventory(context.Context) (wlm.Inventory, error) {
	m.asked++
	return wlm.Inventory{Partitions: []wlm.Partition{{Name: "p"}}}, m.err
}

func TestNodesShareOneInventory(t *testing.T) {
	m := &countedManager{err: errors.New("silence")}
	s := &sharedInventory{Manager: m, fresh: time.Hour}
	_, err := s.Inventory(t.Context())
	require.ErrorIs(t, err, m.err)
	m.err = nil
	for range 3 {
		inv, err := s.Inventory(t.Context())
		require.NoError(t, err)
		assert.Len(t, inv.Partitions, 1)
	}
	assert.Equal(t, 2, m.asked, "an error is not remembered, an answer is")
	s.fresh = 0
	_, err = s.Inventory(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, m.asked)
}
