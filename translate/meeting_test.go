package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	. "github.com/gangline/gangline/translate/translatetest"
)

func meeting() *Meeting {
	return &Meeting{Own: 1, Places: []MeetingPlace{
		{Hosts: hostNames("pi-0", "pi", "default", "cluster.local"), Ports: []int{20000, 20001}},
		{Hosts: hostNames("pi-1", "pi", "default", "cluster.local"), Ports: []int{20004, 20005}},
		{Hosts: []string{"old"}},
	}}
}

func TestEveryNameOfAPodHasItsPorts(t *testing.T) {
	m := meeting()
	for _, host := range []string{"pi-0", "pi-0.pi", "pi-0.pi.default", "pi-0.pi.default.svc", "pi-0.pi.default.svc.cluster.local"} {
		port, ok := m.Port(host, 29500)
		assert.True(t, ok, host)
		assert.Equal(t, 20000, port, host)
	}
	for _, host := range []string{"pi-1.pi", "localhost", "127.0.0.1"} {
		port, _ := m.Port(host, 29500)
		assert.Equal(t, 20004, port, host)
	}
	assert.Equal(t, [][]int{{29500}, {29500}, nil}, [][]int{m.Places[0].Written, m.Places[1].Written, m.Places[2].Written})
}

func TestPortsThatAreWrittenStayDistinct(t *testing.T) {
	m := meeting()
	first, _ := m.Port("pi-0", 29500)
	second, _ := m.Port("pi-0", 29600)
	assert.NotEqual(t, first, second)
	_, ok := m.Port("pi-0", 29700)
	assert.False(t, ok, "the agent keeps no third one")
	again, _ := m.Port("pi-0", 29600)
	assert.Equal(t, second, again)

	later := meeting()
	later.Places[0].Written = m.Places[0].Written
	again, _ = later.Port("pi-0", 29600)
	assert.Equal(t, second, again, "for pods that come later too")
}

func TestEachAttemptMeetsElsewhere(t *testing.T) {
	seen := map[int]bool{}
	for attempt := range 2 {
		m := meeting()
		m.Attempt = attempt
		first, _ := m.Port("pi-0", 29500)
		second, _ := m.Port("pi-0", 29600)
		assert.NotEqual(t, first, second)
		seen[first] = true
	}
	assert.Len(t, seen, 2)
	assert.Equal(t, 2, RestartAttempt(MakePod("p").Label("jobset.sigs.k8s.io/restart-attempt", "2").Obj()))
	assert.Zero(t, RestartAttempt(MakePod("p").Label("jobset.sigs.k8s.io/restart-attempt", "-2").Obj()))
	assert.Zero(t, RestartAttempt(MakePod("p").Obj()))
}

func TestPortsThatStay(t *testing.T) {
	for sentence, host := range map[string]string{
		"a host elsewhere": "pi-0.other", "an agent that keeps no ports": "old", "an address": "10.0.0.1", "nothing": "",
	} {
		_, ok := meeting().Port(host, 29500)
		assert.False(t, ok, sentence)
	}
}

func TestThePodsPortsAreMovedBeforeAnythingNamesThem(t *testing.T) {
	pod := MakePod("p").Env("PET_MASTER_PORT", "29500").Env("PET_MASTER_ADDR", "pi-0.pi").
		Env("WHERE", "$(PET_MASTER_ADDR):$(PET_MASTER_PORT)").Env("PET_RDZV_ENDPOINT", "$(WHERE)").
		EnvFrom("MASTER_PORT", mapKey("settings", "port", false)).Env("MASTER_ADDR", "pi-0").
		Args("--master_port=$(PET_MASTER_PORT)", "--other_port=29500").Obj()
	in := Inputs{ConfigMaps: configMaps(configMap("settings", map[string]string{"port": "29600"})), Port: meeting().Port}
	orders, err := Orders(pod, in)
	require.NoError(t, err)
	main := mainContainer(t, orders)
	for name, want := range map[string]string{
		"PET_MASTER_PORT": "20001", "PET_MASTER_ADDR": "pi-0.pi", "WHERE": "pi-0.pi:20001", "PET_RDZV_ENDPOINT": "pi-0.pi:20001", "MASTER_PORT": "20000",
	} {
		assert.Contains(t, main.Env, corev1.EnvVar{Name: name, Value: want})
	}
	assert.Contains(t, main.Argv, "--master_port=20001")
	assert.Contains(t, main.Argv, "--other_port=29500", "what a command says stays")

	in.Port = nil
	orders, err = Orders(pod, in)
	require.NoError(t, err)
	assert.Contains(t, mainContainer(t, orders).Env, corev1.EnvVar{Name: "WHERE", Value: "pi-0.pi:29500"})
}
