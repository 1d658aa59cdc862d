package daemon

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"syscall"
)

// listener is an open port.
type listener struct {
	net.Listener
	// taken is the address that was wanted and that another process has; empty
	// where we got what was wanted.
	taken string
}

// open listens on the addresses. A port that an ordinary user may not have is
// replaced by Kubeflow's, and one that is taken by any: the gang's own ssh does not
// need it, so the pod goes on without.
func open(addresses []string, logger *slog.Logger) ([]listener, error) {
	var all []listener
	for _, address := range addresses {
		l, err := openOne(address, logger)
		if err != nil {
			for _, l := range all {
				_ = l.Close()
			}
			return nil, err
		}
		logger.Info("server listening", "address", l.Addr().String())
		all = append(all, l)
	}
	return all, nil
}

func openOne(address string, logger *slog.Logger) (listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return listener{}, fmt.Errorf("listening on %s: %w", address, err)
	}
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EACCES) {
		instead := net.JoinHostPort(host, fmt.Sprint(defaultPort))
		logger.Warn("the port is not for an ordinary user, another one is tried", "address", address, "instead", instead)
		address = instead
		l, err = net.Listen("tcp", address)
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err == nil {
			logger.Warn("the port is taken on this node, and a pod has the node's address: launchers outside of the gang reach the process that has it; give the pods an HPC node each, or another port",
				"address", address, "instead", l.Addr().String())
			return listener{l, address}, nil
		}
	}
	if err != nil {
		return listener{}, fmt.Errorf("listening on %s: %w", address, err)
	}
	return listener{l, ""}, nil
}
