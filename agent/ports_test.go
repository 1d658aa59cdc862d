package agent

import (
	"fmt"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests' ports are beyond those of agents.
const testPorts = 18000

func listen(t *testing.T, host string, port int) error {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err == nil {
		assert.NoError(t, l.Close())
	}
	return err
}

func TestPortsAreKeptFromEverybody(t *testing.T) {
	one, err := findPorts(testPorts, testPorts+2*portsPerSlot-1, 0)
	require.NoError(t, err)
	defer one.close()
	two, err := findPorts(testPorts, testPorts+2*portsPerSlot-1, 0)
	require.NoError(t, err)
	defer two.close()
	var all []int
	for i := range 2 * portsPerSlot {
		all = append(all, testPorts+i)
	}
	assert.ElementsMatch(t, all, append(append([]int{}, one.numbers...), two.numbers...))
	_, err = findPorts(testPorts, testPorts+2*portsPerSlot-1, 0)
	assert.ErrorIs(t, err, errNoPorts)

	port := one.numbers[1]
	for _, host := range []string{"", "127.0.0.1", "::1"} {
		assert.ErrorIs(t, listen(t, host, port), syscall.EADDRINUSE, host)
	}
	_, err = net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	assert.ErrorIs(t, err, syscall.ECONNREFUSED, "who comes early tries again")
}

func TestPortsAreThePodsThenAndStillNoOtherAgents(t *testing.T) {
	p, err := findPorts(testPorts, testPorts+portsPerSlot-1, 0)
	require.NoError(t, err)
	p.letGo()
	assert.NoError(t, listen(t, "", p.numbers[0]))
	_, err = findPorts(testPorts, testPorts+portsPerSlot-1, 0)
	assert.ErrorIs(t, err, errNoPorts)
	p.close()
	again, err := findPorts(testPorts, testPorts+portsPerSlot-1, 0)
	require.NoError(t, err)
	again.close()
}

func TestPortsInUseArePassedOver(t *testing.T) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", testPorts+1))
	require.NoError(t, err)
	defer l.Close()
	for range 8 {
		p, err := findPorts(testPorts, testPorts+2*portsPerSlot-1, testPorts)
		require.NoError(t, err)
		assert.Equal(t, testPorts+portsPerSlot, p.numbers[0])
		p.close()
	}
}

func TestAnEarlierAgentsPortsArePreferred(t *testing.T) {
	for range 8 {
		p, err := findPorts(testPorts, testPorts+100, testPorts+2)
		require.NoError(t, err)
		assert.Equal(t, testPorts+2, p.numbers[0])
		p.close()
	}
	p, err := findPorts(testPorts, testPorts+100, 22)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, p.numbers[0], testPorts, "a spool that says so is not obeyed")
	p.close()
}

func TestTheRangeOfPorts(t *testing.T) {
	for sentence, tc := range map[string]struct {
		text string
		want int
	}{
		"as Linux has it":               {"32768\t60999\n", highestPort},
		"one that begins lower":         {"25000\t60999\n", 24999},
		"one that has nearly all":       {"1024\t65535\n", highestPort},
		"one that has just too many":    {"20003 60999", highestPort},
		"one that leaves a few":         {"20004 60999", 20003},
		"one that could not be read":    {"", highestPort},
		"one that cannot be understood": {"all", highestPort},
	} {
		assert.Equal(t, tc.want, lastPort([]byte(tc.text)), sentence)
	}
}
