package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// Free ports are taken from below the kernel's range for outgoing connections: a port from inside that range, as
// port 0 would give, can be taken by any connection between now and the moment the component listens on it.
const (
	firstFreePort = 20000
	freePorts     = 10000
)

// freePort finds a loopback port on which nothing listens.
func freePort() (int, error) {
	const attempts = 100
	var err error
	for range attempts {
		port := firstFreePort + rand.IntN(freePorts)
		if err = checkPortFree(port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("find a free port from %d up in %d attempts: %w", firstFreePort, attempts, err)
}

func checkPortFree(port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d is not free: %w", port, err)
	}
	return listener.Close()
}

// reservePort keeps other programs, such as a second dev cluster that starts at the same time, from the port until
// the API server listens on it. It binds a socket but does not listen; the API server shares the port with it
// through SO_REUSEPORT. The reservation lasts until release is called.
func reservePort(port int) (release func(), err error) {
	// Sockets with SO_REUSEPORT do not exclude each other; a check without it finds them all.
	if err := checkPortFree(port); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}),
	)
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("reserve port %d: %w", port, err)
	}
	return func() { _ = unix.Close(fd) }, nil
}
