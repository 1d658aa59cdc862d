package agent

import (
	"net"
	"slices"
	"strings"
)

// rendezvousVariables tell a framework's processes where to meet, by a name of the
// gang that only a private root can resolve.
var rendezvousVariables = [...]string{
	"MASTER_ADDR", "PET_MASTER_ADDR", "PET_RDZV_ENDPOINT", // PyTorch, and torchrun's options
	"JAX_COORDINATOR_ADDRESS", "COORDINATOR_ADDRESS", // JAX
	"DMLC_TRACKER_URI", "DMLC_PS_ROOT_URI", // XGBoost, MXNet
	"LWS_LEADER_ADDRESS", // LeaderWorkerSet
	"RAY_ADDRESS",        // Ray
}

func isRendezvous(name string) bool { return slices.Contains(rendezvousVariables[:], name) }

// resolveHosts replaces the gang's names by addresses in a list of "host",
// "host:port" or "scheme://host:port/path", separated by commas.
func resolveHosts(value string, addresses map[string]string) string {
	items := strings.Split(value, ",")
	for i, item := range items {
		items[i] = resolveHost(item, addresses)
	}
	return strings.Join(items, ",")
}

func resolveHost(value string, addresses map[string]string) string {
	prefix := ""
	if scheme, rest, ok := strings.Cut(value, "://"); ok {
		prefix, value = scheme+"://", rest
	}
	end := strings.IndexAny(value, ":/")
	if end < 0 {
		end = len(value)
	}
	host, rest := value[:end], value[end:]
	address, ok := addresses[strings.ToLower(strings.TrimSuffix(host, "."))]
	if !ok {
		return prefix + value
	}
	if rest != "" || prefix != "" {
		// An IPv6 address needs brackets beside a port.
		address = strings.TrimSuffix(net.JoinHostPort(address, ""), ":")
	}
	return prefix + address + rest
}
