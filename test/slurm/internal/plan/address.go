package plan

import "fmt"

const (
	headHost      = 1
	firstNodeHost = 11
	rootHost      = 254
	// MaxNodes is bounded by the addresses of a /24.
	MaxNodes = 200
)

func (p Plan) address(host int) string { return fmt.Sprintf("10.77.%d.%d", p.Subnet, host) }

// CIDR is the cluster's network.
func (p Plan) CIDR() string { return p.address(0) + "/24" }

// HeadAddr is slurmctld's address.
func (p Plan) HeadAddr() string { return p.address(headHost) }

// RESTPort is slurmrestd's port on the head.
const RESTPort = 6820

// RootAddr is the address of the root network namespace on the cluster's network.
func (p Plan) RootAddr() string { return p.address(rootHost) }

// NodeAddr is the address of node i.
func (p Plan) NodeAddr(i int) string { return p.address(firstNodeHost + i - 1) }

// RootLink is the network interface in the root network namespace.
func (p Plan) RootLink() string { return fmt.Sprintf("gangline%d", p.Subnet) }

// MAC is a fixed hardware address for a host number, so that a restarted node
// is not hidden by what its neighbours remember.
func (p Plan) MAC(host int) string { return fmt.Sprintf("02:77:4d:00:%02x:%02x", p.Subnet, host) }

// HeadMAC belongs to the bridge.
func (p Plan) HeadMAC() string { return p.MAC(headHost) }

// NodeMAC belongs to node i.
func (p Plan) NodeMAC(i int) string { return p.MAC(firstNodeHost + i - 1) }
