package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"syscall"

	"github.com/gangline/gangline/test/slurm/internal/machine"
	"github.com/gangline/gangline/test/slurm/internal/plan"
)

// ClaimSubnet finds a network that no other cluster uses and sets it in p. It stays
// ours until the returned claim is closed or the process ends, for the claim is an
// abstract socket: it belongs to the network namespace, as addresses do.
func ClaimSubnet(p *plan.Plan) (io.Closer, error) {
	for k := range 256 {
		claim, err := claimOne(k)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("claim a network: %w", err)
		}
		candidate := *p
		candidate.Subnet = k
		if inUse(candidate) {
			claim.Close()
			continue
		}
		*p = candidate
		return claim, nil
	}
	return nil, errors.New("no network left: all of 10.77.0.0/16 is in use")
}

func claimOne(k int) (io.Closer, error) {
	return net.Listen("unix", fmt.Sprintf("@gangline-devslurm-net-%d", k))
}

// inUse tells whether something else on this machine has an address in the network.
func inUse(p plan.Plan) bool {
	if _, err := net.InterfaceByName(p.RootLink()); err == nil {
		return true
	}
	_, network, err := net.ParseCIDR(p.CIDR())
	if err != nil {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, addr := range addrs {
		if own, ok := addr.(*net.IPNet); ok && (network.Contains(own.IP) || own.Contains(network.IP)) {
			return true
		}
	}
	return false
}

// RemoveRootLink removes the interface in the root network namespace if a dead
// supervisor left it. It does nothing when another cluster has the network now.
func RemoveRootLink(p plan.Plan) error {
	claim, err := claimOne(p.Subnet)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("claim the network: %w", err)
	}
	defer claim.Close()
	return deleteRootLink(p)
}

func deleteRootLink(p plan.Plan) error {
	if _, err := net.InterfaceByName(p.RootLink()); err != nil {
		return nil
	}
	return deleteLink(0, p.RootLink())
}

// deleteLink deletes a network interface, unless it is gone already, as one is whose
// other end was in a namespace that has ended.
func deleteLink(pid int, name string) error {
	err := ip(pid, "link del "+name)
	if err != nil && strings.Contains(err.Error(), "Cannot find device") {
		return nil
	}
	return err
}

// connectHead makes the bridge in the head's namespace and joins it to the root's.
func connectHead(p plan.Plan, head *machine.Machine) error {
	err := ip(0,
		fmt.Sprintf("link add name %s type veth peer name outside netns %d", p.RootLink(), head.PID()),
		fmt.Sprintf("link set %s addrgenmode none", p.RootLink()),
		fmt.Sprintf("addr add %s/24 dev %s", p.RootAddr(), p.RootLink()),
		fmt.Sprintf("link set %s up", p.RootLink()),
	)
	if err != nil {
		return fmt.Errorf("connect the root network namespace: %w", err)
	}
	err = ip(head.PID(),
		"link set lo up",
		fmt.Sprintf("link add name bridge address %s type bridge stp_state 0 forward_delay 0", p.HeadMAC()),
		fmt.Sprintf("addr add %s/24 dev bridge", p.HeadAddr()),
		"link set bridge up",
		"link set outside master bridge up",
	)
	if err != nil {
		return fmt.Errorf("make the bridge: %w", err)
	}
	return nil
}

// connectNode plugs node i into the bridge.
func connectNode(p plan.Plan, i int, head, node *machine.Machine) error {
	port := portName(i)
	err := ip(0, fmt.Sprintf("link add name %s netns %d type veth peer name eth0 address %s netns %d",
		port, head.PID(), p.NodeMAC(i), node.PID()))
	if err != nil {
		return fmt.Errorf("make the cable of %s: %w", p.NodeName(i), err)
	}
	if err := ip(head.PID(), fmt.Sprintf("link set %s master bridge up", port)); err != nil {
		return fmt.Errorf("plug in %s: %w", p.NodeName(i), err)
	}
	err = ip(node.PID(),
		"link set lo up",
		fmt.Sprintf("addr add %s/24 dev eth0", p.NodeAddr(i)),
		"link set eth0 up",
	)
	if err != nil {
		return fmt.Errorf("set up the network of %s: %w", p.NodeName(i), err)
	}
	return nil
}

// disconnectNode pulls the cable, so that a crashing node says goodbye to nobody.
func disconnectNode(i int, head *machine.Machine) error {
	return deleteLink(head.PID(), portName(i))
}

func portName(i int) string { return fmt.Sprintf("node%d", i) }

// ip runs commands of ip(8) in a machine, or in the root network namespace if pid is 0.
func ip(pid int, commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	run := cmd.Run
	if pid != 0 {
		run = func() error { return machine.Run(pid, cmd) }
	}
	if err := run(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, strings.TrimSpace(out.String()))
	}
	return nil
}
