package main

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/test/slurm"
)

//go:embed testdata/launch.sh
var launchScript []byte

// openSSHPort is where OpenSSH's server listens on each node.
const openSSHPort = 22022

// measureLaunch reports how long mpirun takes to run a program that does nothing
// with 8 ranks on each of 4 nodes, by our SSH service in a gang, next to OpenSSH's
// server and client on the same nodes.
func (b *bench) measureLaunch(ctx context.Context) error {
	script := filepath.Join(b.env.Slurm.SharedDir(), "launch.sh")
	if err := os.WriteFile(script, launchScript, 0o644); err != nil {
		return fmt.Errorf("writing the launch script: %w", err)
	}
	return b.withGang(ctx, "launch", nodes, func(g gang) error {
		return g.withOpenSSH(ctx, func(o openSSH) error { return g.compareLaunch(ctx, script, o) })
	})
}

func (b *bench) needsOpenSSH() error {
	if _, err := os.Stat(b.sshd); err != nil {
		return fmt.Errorf("looking for OpenSSH's server: %w (apt-get install openssh-server, give --sshd, or choose others with --only)", err)
	}
	return nil
}

func (g gang) compareLaunch(ctx context.Context, script string, o openSSH) error {
	argv := []string{"bash", script, strconv.Itoa(nodes * mpiSlots)}
	bare := func() (float64, error) {
		var stdout, stderr bytes.Buffer
		err := g.env.Slurm.Exec(ctx, g.env.Slurm.Nodes()[0], slurm.ExecOptions{User: g.env.Slurm.User(), Dir: g.env.Slurm.SharedDir(), Stdout: &stdout, Stderr: &stderr},
			append(argv, "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", "/usr/bin/ssh -F "+o.config, "--hostfile", o.hostfile)...)
		if err != nil {
			return 0, fmt.Errorf("mpirun by OpenSSH: %w: %s", err, stderr.String())
		}
		return seconds(stdout.String())
	}
	ours := func() (float64, error) {
		out, err := g.run(ctx, argv...)
		if err != nil {
			return 0, err
		}
		return seconds(out)
	}
	c := figure{What: fmt.Sprintf("mpirun of %d×%d ranks that do nothing (bare: OpenSSH)", nodes, mpiSlots), Unit: "s", Goal: ratioAtMost(1)}
	for round := range g.rounds + 1 {
		one, other, err := inTurn(round, bare, ours)
		if err != nil {
			return err
		}
		if round == 0 {
			continue // the first warms up
		}
		c.add(one, other)
		fmt.Fprintf(os.Stderr, "round %d: OpenSSH %.3f s, our SSH %.3f s\n", round, one, other)
	}
	g.report.add("launch", c)
	return nil
}

func seconds(text string) (float64, error) {
	took, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return 0, fmt.Errorf("the launch script did not print a time but: %s", text)
	}
	return took, nil
}

// openSSH is OpenSSH's server, running as the ordinary user on every node.
type openSSH struct{ config, hostfile string }

// withOpenSSH starts the servers in a job, as a user would, calls use, and ends it.
func (b *bench) withOpenSSH(ctx context.Context, use func(openSSH) error) (err error) {
	dir := filepath.Join(b.env.Slurm.SharedDir(), "openssh")
	o := openSSH{config: filepath.Join(dir, "config"), hostfile: filepath.Join(dir, "hostfile")}
	if err := o.write(dir, b.env.Slurm); err != nil {
		return fmt.Errorf("preparing OpenSSH: %w", err)
	}
	script := fmt.Sprintf("#!/bin/sh\nexec srun %s -D -e -f %s/sshd_config\n", b.sshd, dir)
	id, err := b.env.Slurm.Submit(ctx, script, "--output="+filepath.Join(dir, "log"),
		fmt.Sprintf("--nodes=%d", nodes), "--ntasks-per-node=1", fmt.Sprintf("--cpus-per-task=%d", bareCPUs))
	if err != nil {
		return err
	}
	defer func() {
		_, cancelled := b.env.Slurm.Run(context.WithoutCancel(ctx), "scancel", id)
		err = errors.Join(err, cancelled)
	}()
	as := slurm.ExecOptions{User: b.env.Slurm.User()}
	for _, node := range b.env.Slurm.Nodes() {
		var last error
		err := pollFor(ctx, 30*time.Second, 200*time.Millisecond, func() (bool, error) {
			last = b.env.Slurm.Exec(ctx, b.env.Slurm.Nodes()[0], as, "/usr/bin/ssh", "-F", o.config, node, "true")
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for OpenSSH's server on %s: %w: %w", node, err, last)
		}
	}
	return use(o)
}

// write writes what client, server and mpirun read. The keys are of our gangs'
// kind.
func (o openSSH) write(dir string, cluster *slurm.Cluster) error {
	secret := make([]byte, mpi.MinSecret)
	if _, err := rand.Read(secret); err != nil {
		return fmt.Errorf("making a secret: %w", err)
	}
	keys, err := mpi.DeriveKeys(secret, "bench")
	if err != nil {
		return err
	}
	var hosts []mpi.Host
	known := ""
	for _, node := range cluster.Nodes() {
		hosts = append(hosts, mpi.Host{Name: node, Slots: mpiSlots})
		known += fmt.Sprintf("[%s]:%d %s", node, openSSHPort, keys.HostPublic)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"host_key": string(keys.HostPrivate), "key": string(keys.ClientPrivate),
		"authorized_keys": string(keys.ClientPublic), "known_hosts": known,
		"hostfile": mpi.OpenMPIHostfile(hosts),
		"sshd_config": fmt.Sprintf(`Port %d
HostKey %[2]s/host_key
AuthorizedKeysFile %[2]s/authorized_keys
PidFile none
UsePAM no
StrictModes no
UseDNS no
PrintMotd no
`, openSSHPort, dir),
		"config": fmt.Sprintf(`Port %d
IdentityFile %[2]s/key
IdentitiesOnly yes
UserKnownHostsFile %[2]s/known_hosts
BatchMode yes
LogLevel ERROR
`, openSSHPort, dir),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
		if err := os.Chown(path, cluster.UID(), cluster.GID()); err != nil {
			return err
		}
	}
	return os.Chown(dir, cluster.UID(), cluster.GID())
}
