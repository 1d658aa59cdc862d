package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// network is what ownAddress asks of the node.
type network interface {
	// Resolve returns the addresses of a name.
	Resolve(name string) ([]netip.Addr, error)
	// Own lists the addresses of the node's interfaces.
	Own() ([]netip.Addr, error)
	// Route returns the address from which the node speaks to the world.
	Route() (netip.Addr, error)
}

// ownAddress finds the IP address by which other nodes reach this one: what the
// site says; what the node's own name means, as far as it is an address of this
// node; where its default route leads out; any other.
func ownAddress(node string, env func(string) string, n network) (string, error) {
	if given := env(envAddress); given != "" {
		if _, err := netip.ParseAddr(given); err != nil {
			return "", fmt.Errorf("reading %s: %w", envAddress, err)
		}
		return given, nil
	}
	own, err := n.Own()
	if err != nil {
		return "", fmt.Errorf("listing the node's addresses: %w", err)
	}
	own = slices.DeleteFunc(own, func(a netip.Addr) bool { return !a.IsGlobalUnicast() })
	named, resolveErr := n.Resolve(node)
	route, routeErr := n.Route()
	candidates := slices.Concat(named, []netip.Addr{route}, own)
	// IPv4 first: /etc/hosts and MPI implementations are surest of it.
	slices.SortStableFunc(candidates, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	for _, a := range candidates {
		if slices.Contains(own, a) {
			return a.String(), nil
		}
	}
	if env(envManager) == managerLocal {
		return "127.0.0.1", nil // all agents are on this machine
	}
	return "", fmt.Errorf("no address is known by which other nodes reach %s; set %s on the nodes: %w",
		node, envAddress, errors.Join(resolveErr, routeErr))
}

// hostNetwork is this node's network.
type hostNetwork struct{}

func (hostNetwork) Resolve(name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	for i := range addresses {
		addresses[i] = addresses[i].Unmap()
	}
	return addresses, err
}

func (hostNetwork) Own() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var own []netip.Addr
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, prefix.Addr().Unmap())
		}
	}
	return own, nil
}

// Route sends nothing: connecting a UDP socket only chooses a route. The address
// is one for documentation (RFC 5737).
func (hostNetwork) Route() (netip.Addr, error) {
	conn, err := net.Dial("udp4", "192.0.2.1:9")
	if err != nil {
		return netip.Addr{}, err
	}
	defer conn.Close() //nolint:errcheck // nothing was sent
	local, err := netip.ParseAddrPort(conn.LocalAddr().String())
	return local.Addr(), err
}
