package agent

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/provider/spool"
)

const (
	// portsPerSlot are one for each rendezvous that a pod may have of its own.
	portsPerSlot = 4
	// The range of ports to keep. Above it are those that people write by themselves:
	// torchrun's default is 29400, Kubeflow's 29500.
	lowestPort  = 20000
	highestPort = 29399
	// ephemeralPorts says which ports the kernel gives away by itself (ip(7)).
	ephemeralPorts = "/proc/sys/net/ipv4/ip_local_port_range"
)

// ports are TCP ports of the node that a slot keeps for its pods, for processes of
// the gang to meet at. They are the slot's as long as it lives: other agents leave
// them alone. Other programs are kept off until the pod's processes start, which
// want the ports themselves.
type ports struct {
	numbers []int
	// reservation is a socket whose name, of the same network namespace as the ports,
	// tells other agents, whoever's they are.
	reservation int
	bound       []int // sockets
}

// keepPorts keeps ports for the slot, those of an earlier agent of it if it can:
// pods may have been told of them. Without any, its pods meet where it is written.
func (s *slot) keepPorts(earlier spool.Agent) {
	first := 0
	if len(earlier.RendezvousPorts) == portsPerSlot && earlier.Node == s.cfg.Node {
		first = earlier.RendezvousPorts[0]
	}
	ephemeral, err := os.ReadFile(ephemeralPorts)
	if err != nil {
		s.logger.Warn("it is not known which ports the kernel gives away", "error", err)
	}
	s.ports, err = findPorts(lowestPort, lastPort(ephemeral), first)
	if err != nil {
		s.logger.Warn("no ports are kept for the pod: it meets others at those that are written, which another pod on the node may have", "error", err)
		s.ports = &ports{reservation: -1}
	}
}

// lastPort is the highest port to keep. It is below those that the kernel gives away,
// which it might do while the pod has not bound its own yet; but where those are
// nearly all, one of them is still better than the one that every job writes.
func lastPort(ephemeral []byte) int {
	if words := strings.Fields(string(ephemeral)); len(words) > 0 {
		if lowest, err := strconv.Atoi(words[0]); err == nil && lowest >= lowestPort+portsPerSlot {
			return min(highestPort, lowest-1)
		}
	}
	return highestPort
}

// errNoPorts says that there is nothing left to keep.
var errNoPorts = errors.New("no free ports")

// findPorts keeps successive ports between the first and the last: those from the
// preferred one (0 for none), or else those that are found from a random place on.
func findPorts(first, last, preferred int) (*ports, error) {
	if preferred >= first && preferred+portsPerSlot-1 <= last {
		if p, err := takePorts(preferred); err == nil {
			return p, nil
		}
	}
	blocks := (last - first + 1) / portsPerSlot
	var errs error
	start := rand.IntN(blocks) //nolint:gosec // no secret: agents that start together try others
	for i := range blocks {
		p, err := takePorts(first + (start+i)%blocks*portsPerSlot)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, err
		}
		errs = err
	}
	return nil, fmt.Errorf("%w from %d to %d: %w", errNoPorts, first, last, errs)
}

// takePorts keeps the ports from one on, if all are free.
func takePorts(first int) (*ports, error) {
	p := &ports{reservation: -1}
	var err error
	if p.reservation, err = bindSocket(unix.AF_UNIX, unix.SOCK_DGRAM, &unix.SockaddrUnix{Name: fmt.Sprintf("@gangline/port/%d", first)}); err != nil {
		return nil, fmt.Errorf("reserving the ports from %d on: %w", first, err)
	}
	for number := first; number < first+portsPerSlot; number++ {
		socket, err := bindPort(number)
		if err != nil {
			p.close()
			return nil, fmt.Errorf("keeping port %d: %w", number, err)
		}
		p.bound, p.numbers = append(p.bound, socket), append(p.numbers, number)
	}
	return p, nil
}

// bindPort holds a port on all addresses. It does not listen: whoever connects early
// is refused as if nobody were there, and tries again.
func bindPort(number int) (int, error) {
	socket, err := bindSocket(unix.AF_INET6, unix.SOCK_STREAM, &unix.SockaddrInet6{Port: number})
	if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
		return bindSocket(unix.AF_INET, unix.SOCK_STREAM, &unix.SockaddrInet4{Port: number})
	}
	return socket, err
}

func bindSocket(family, kind int, address unix.Sockaddr) (int, error) {
	socket, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(socket, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // IPv4 as well
	}
	if err == nil {
		err = unix.Bind(socket, address)
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(socket))
	}
	return socket, nil
}

// letGo leaves the ports to the pod's processes.
func (p *ports) letGo() {
	for _, socket := range p.bound {
		_ = unix.Close(socket)
	}
	p.bound = nil
}

// close gives the ports back.
func (p *ports) close() {
	p.letGo()
	if p.reservation >= 0 {
		_ = unix.Close(p.reservation)
	}
	p.reservation = -1
}
