package rendezvous

import (
	"slices"
	"strconv"
)

// place is a pair of variables that say where to meet.
type place struct {
	// host is the variable with the host, or host:port, or a URL, or a list of these
	// with commas between.
	host string
	// port is the variable with the port for a host that is written without one; ""
	// where there is none.
	port string
	// fixed tells that the port is agreed on elsewhere too, as in a command line.
	fixed bool
}

var places = [...]place{
	{host: "MASTER_ADDR", port: "MASTER_PORT"},                      // PyTorch, DeepSpeed
	{host: "PET_MASTER_ADDR", port: "PET_MASTER_PORT"},              // torchrun's --master-addr and --master-port
	{host: "PET_RDZV_ENDPOINT"},                                     // torchrun's --rdzv-endpoint, host:port
	{host: "JAX_COORDINATOR_ADDRESS", port: "JAX_COORDINATOR_PORT"}, // JAX: Kubeflow Trainer writes host:port
	{host: "COORDINATOR_ADDRESS", port: "COORDINATOR_PORT"},         // JAX, as Kubeflow's JAXJob has it
	{host: "DMLC_TRACKER_URI", port: "DMLC_TRACKER_PORT"},           // XGBoost
	{host: "DMLC_PS_ROOT_URI", port: "DMLC_PS_ROOT_PORT"},           // MXNet
	{host: "GANGLINE_FLUX_LEAD"},                                    // the lead's broker of a Flux TrainJob, host:port
	{host: "LWS_LEADER_ADDRESS", fixed: true},                       // LeaderWorkerSet: a host alone
	{host: "RAY_ADDRESS", fixed: true},                              // Ray, whose head has the port as an option
}

// NamesHost tells whether a variable names a host to meet at.
func NamesHost(variable string) bool {
	return slices.ContainsFunc(places[:], func(p place) bool { return p.host == variable })
}

// ReplaceHosts replaces the hosts of such a variable's value that the map has, in
// small letters and without DNS's last dot.
func ReplaceHosts(value string, addresses map[string]string) string {
	return eachEndpoint(value, func(e *endpoint) {
		if address, ok := addresses[e.name()]; ok {
			e.host = address
		}
	})
}

// Port returns the port to use instead of the one that is written for a host. It
// reports false where that stays: the host is none of the gang, for instance. The
// host is in small letters and without DNS's last dot.
type Port func(host string, written int) (int, bool)

// MovePorts returns the variables of an environment that must change for the
// processes to meet at other ports, with their new values.
func MovePorts(get func(variable string) (string, bool), instead Port) map[string]string {
	changed := map[string]string{}
	for _, p := range places {
		value, ok := get(p.host)
		if !ok || p.fixed {
			continue
		}
		moved := eachEndpoint(value, func(e *endpoint) { e.port = move(e.name(), e.port, instead) })
		if moved != value {
			changed[p.host] = moved
		}
		if p.port == "" {
			continue
		}
		if port, ok := get(p.port); ok {
			if moved := move(parse(value).name(), port, instead); moved != port {
				changed[p.port] = moved
			}
		}
	}
	return changed
}

// move returns the port to use, which may be the one that is written.
func move(host, written string, instead Port) string {
	number, err := strconv.ParseUint(written, 10, 16)
	if err != nil {
		return written
	}
	port, ok := instead(host, int(number))
	if !ok {
		return written
	}
	return strconv.Itoa(port)
}
