package preflight

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/kubelet"
)

const (
	thisMachine = "this machine"
	checkPort   = "node's port"
	checkCerts  = "certificates"

	checkCertDir = "certificates' directory"
)

// Port is a node's own port and its certificates.
type Port struct {
	Address string
	Port    int32
	// CertFile and KeyFile are empty where the cluster signs the certificate, which is
	// then kept in CertDir.
	CertFile, KeyFile string
	CertDir           string
	ClientCAFile      string
}

// checkMachine looks at what the node's port needs of this machine.
func checkMachine(ctx context.Context, p Port) []Line {
	lines := []Line{judgePort(p, listen(ctx, p)), judgeCertificates(p, expiry(p), time.Now())}
	if p.CertDir != "" {
		lines = append(lines, judgeCertDir(p, Writable(p.CertDir)))
	}
	return lines
}

func listen(ctx context.Context, p Port) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(p.Address, strconv.Itoa(int(p.Port))))
	if err != nil {
		return err
	}
	return l.Close()
}

func judgePort(p Port, err error) Line {
	address := net.JoinHostPort(p.Address, strconv.Itoa(int(p.Port)))
	switch {
	case err == nil:
		return good(thisMachine, checkPort, doctor.OK, "%s is free", address)
	case errors.Is(err, syscall.EADDRINUSE):
		return good(thisMachine, checkPort, doctor.Info, "%s is in use: by the node itself, if it runs", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return bad(thisMachine, checkPort, doctor.Fail, "set kubelet.address to an address of this machine that the API server reaches", "%s is no address of this machine", p.Address)
	}
	return bad(thisMachine, checkPort, doctor.Fail, "choose another kubelet.port, or let this user have it", "%v", err)
}

// certificates is what the files say.
type certificates struct {
	err    error
	ends   time.Time // zero where there is none yet
	signed bool      // by the cluster
}

func expiry(p Port) certificates {
	if _, err := os.ReadFile(p.ClientCAFile); err != nil {
		return certificates{err: fmt.Errorf("reading kubelet.clientCAFile: %w", err)}
	}
	if p.CertFile == "" {
		return certificates{signed: true, ends: kept(p)}
	}
	pair, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
	if err != nil {
		return certificates{err: fmt.Errorf("reading kubelet.certFile and keyFile: %w", err)}
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return certificates{err: fmt.Errorf("reading kubelet.certFile: %w", err)}
	}
	return certificates{ends: leaf.NotAfter}
}

// kept is when the certificate ends that the cluster has signed for the node already; zero if
// there is none, or it is for another address: then the node asks for one.
func kept(p Port) time.Time {
	file := kubelet.CertificateFile(p.CertDir)
	pair, err := tls.LoadX509KeyPair(file, file)
	if err != nil || pair.Leaf.VerifyHostname(p.Address) != nil {
		return time.Time{}
	}
	return pair.Leaf.NotAfter
}

// Writable tells why a directory cannot be written or, if it is not there, made. It changes
// nothing.
func Writable(dir string) error {
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		if errors.Is(err, fs.ErrNotExist) && at != filepath.Dir(at) {
			continue // what is above it must be writable then
		}
		if err == nil && !info.IsDir() {
			err = &fs.PathError{Op: "open", Path: at, Err: syscall.ENOTDIR}
		}
		if err != nil {
			return err
		}
		if err := unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
			return &fs.PathError{Op: "write", Path: at, Err: err}
		}
		return nil
	}
}

// judgeCertDir judges where a certificate is kept that the cluster signs.
func judgeCertDir(p Port, err error) Line {
	if err == nil {
		return good(thisMachine, checkCertDir, doctor.OK, "%s can be written", p.CertDir)
	}
	return bad(thisMachine, checkCertDir, doctor.Fail, fmt.Sprintf("make the directory for the node's user (install -d -m 700 -o USER %s), or set kubelet.certDir to another one", p.CertDir),
		"kubelet.certDir %s cannot be written as %s: %v", p.CertDir, myName(), err)
}

// renewSoon is when an old certificate is worth a word.
const renewSoon = 14 * 24 * time.Hour

func judgeCertificates(p Port, c certificates, now time.Time) Line {
	switch {
	case c.err != nil:
		return bad(thisMachine, checkCerts, doctor.Fail, "give the node's user files that it can read", "%v", c.err)
	case c.signed && c.ends.After(now):
		return good(thisMachine, checkCerts, doctor.OK, "the one that the cluster has signed is valid until %s; the node asks for the next in time", c.ends.Format(time.DateOnly))
	case c.signed:
		return good(thisMachine, checkCerts, doctor.Info, "the node asks the cluster to sign its own; somebody must approve the request")
	case c.ends.Before(now):
		return bad(thisMachine, checkCerts, doctor.Fail, "renew it", "%s has expired, on %s", p.CertFile, c.ends.Format(time.DateOnly))
	case c.ends.Before(now.Add(renewSoon)):
		return bad(thisMachine, checkCerts, doctor.Warn, "renew it; the node reads it again", "%s expires on %s", p.CertFile, c.ends.Format(time.DateOnly))
	}
	return good(thisMachine, checkCerts, doctor.OK, "the node's own is valid until %s", c.ends.Format(time.DateOnly))
}
