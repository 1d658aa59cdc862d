package remoteshell_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sshd"
	"github.com/gangline/gangline/agent/sshd/sshdtest"
	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/mpi/remoteshell"
)

// pod runs commands in namespaces of their own, as an agent does: with the pod's
// host name and the gang's table of names. The rest it shares with the other
// pods, as pods on one HPC node do, their address too.
type pod struct {
	sshdtest.Shell
	hostname, hostsFile string
}

func (p pod) Run(ctx context.Context, c sshd.Command) (int, error) {
	argv := c.Argv
	if argv == nil {
		argv = []string{"/bin/sh", "-c", c.Line}
	}
	enter := []string{"unshare", "--mount", "--uts"}
	if os.Getuid() != 0 {
		enter = append(enter, "--map-root-user")
	}
	enter = append(enter, "sh", "-c", `mount --bind "$0" /etc/hosts && hostname "$1" && shift && exec "$@"`, p.hostsFile, p.hostname)
	c.Argv = append(enter, argv...)
	return p.Shell.Run(ctx, c)
}

// newPods makes a gang whose hosts are pods on one node, and gives them the
// environment and the hostfiles for MPI, with two slots each.
func newPods(t *testing.T, names ...string) *gang {
	t.Helper()
	g := newGang(t)
	root := filepath.Dir(g.dir)
	paths := mpi.Paths{RemoteShell: g.ssh, Hostfile: filepath.Join(root, "hostfile"), HydraHostfile: filepath.Join(root, "hydra-hostfile")}
	g.env = append(g.env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	for _, v := range mpi.Env(paths) {
		g.env = append(g.env, v.Name+"="+v.Value)
	}
	var hosts []mpi.Host
	table := "127.0.0.1 localhost\n"
	for _, name := range names {
		hosts = append(hosts, mpi.Host{Name: name + ".pi", Slots: 2})
		table += fmt.Sprintf("127.0.0.1 %s %s.pi\n", name, name)
	}
	hostsFile := filepath.Join(root, "hosts")
	for file, text := range map[string]string{
		hostsFile: table, paths.Hostfile: mpi.OpenMPIHostfile(hosts), paths.HydraHostfile: mpi.HydraHostfile(hosts),
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	}
	for _, name := range names {
		addr := sshdtest.Start(t, g.keys, pod{sshdtest.Shell{Env: g.env, Dir: root}, name, hostsFile})
		g.peers.Hosts = append(g.peers.Hosts, remoteshell.Peer{
			Names: []string{name, name + ".pi"}, Address: addr.IP.String(), Port: addr.Port,
		})
	}
	g.write(t)
	return g
}

// in runs a command line in a pod.
func (g *gang) in(t *testing.T, host, line string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.ssh, "-n", host, line)
	cmd.Env = g.env
	return finish(t, cmd)
}

// launcher is an MPI implementation's: the program, and the variables in which a
// rank finds itself.
type launcher struct{ program, rank, size string }

func launchers() map[string]launcher {
	return map[string]launcher{
		"Open MPI": {"mpirun.openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
		"MPICH":    {"mpiexec.mpich", "PMI_RANK", "PMI_SIZE"},
	}
}

// report is a command in which each rank says who and where it is.
func (l launcher) report() string {
	return fmt.Sprintf(`sh -c 'echo $%s of $%s on $(hostname)'`, l.rank, l.size)
}

// slurm is what a job's environment looks like, should something of it be left.
const slurm = "export SLURM_JOB_ID=7 SLURM_JOBID=7 SLURM_NODELIST=hpc1 SLURM_JOB_NODELIST=hpc1 SLURM_NNODES=1 " +
	"SLURM_JOB_NUM_NODES=1 SLURM_TASKS_PER_NODE=4 SLURM_STEPID=0 SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_LOCALID=0; "

func TestLaunchersStartTheirRanksInTheGangsPods(t *testing.T) {
	g := newPods(t, "pi-0", "pi-1", "pi-2")
	everywhere := []string{"0 of 6 on pi-0", "1 of 6 on pi-0", "2 of 6 on pi-1", "3 of 6 on pi-1", "4 of 6 on pi-2", "5 of 6 on pi-2"}
	for name, l := range launchers() {
		tests := map[string]struct {
			line string
			want []string
		}{
			"from the hostfile, in its order":     {l.program + " " + l.report(), everywhere},
			"with a job's variables around":       {slurm + l.program + " " + l.report(), everywhere},
			"fewer than there are slots":          {l.program + " -n 3 " + l.report(), []string{"0 of 3 on pi-0", "1 of 3 on pi-0", "2 of 3 on pi-1"}},
			"on a host that the user has named":   {l.program + " -n 1 --host pi-2.pi " + l.report(), []string{"0 of 1 on pi-2"}},
			"from a pod that is not the first":    {"ssh -n pi-1 '" + strings.ReplaceAll(l.program+" "+l.report(), "'", `'\''`) + "'", everywhere},
			"with the words of Kubeflow's plugin": {"export OMPI_MCA_plm_rsh_args='-o ConnectionAttempts=10' HYDRA_LAUNCHER_EXTRA_ARGS='-o ConnectionAttempts=10'; " + l.program + " " + l.report(), everywhere},
		}
		for does, test := range tests {
			t.Run(name+" "+does, func(t *testing.T) {
				if l.program == "mpiexec.mpich" {
					test.line = strings.ReplaceAll(test.line, "--host", "-hosts")
				}
				got := g.in(t, "pi-0", test.line)
				require.Equal(t, 0, got.status, got.stderr)
				lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
				slices.Sort(lines)
				assert.Equal(t, test.want, lines)
			})
		}
	}
}

func TestLaunchersPassOnAFailure(t *testing.T) {
	g := newPods(t, "pi-0", "pi-1")
	for name, l := range launchers() {
		t.Run(name, func(t *testing.T) {
			got := g.in(t, "pi-0", fmt.Sprintf(`%s sh -c 'test $%s != 3 || exit 5'`, l.program, l.rank))
			assert.Equal(t, 5, got.status, got.stderr)
		})
	}
	t.Run("Open MPI ends the other ranks", func(t *testing.T) {
		start := time.Now()
		got := g.in(t, "pi-0", `mpirun.openmpi sh -c 'test $OMPI_COMM_WORLD_RANK = 3 && exit 5; exec sleep 50'`)
		assert.Equal(t, 5, got.status, got.stderr)
		assert.Less(t, time.Since(start), 40*time.Second)
	})
}

func TestRanksEndWithTheirLauncher(t *testing.T) {
	g := newPods(t, "pi-0", "pi-1")
	for name, l := range launchers() {
		t.Run(name, func(t *testing.T) {
			// The pods share their process table, so the ids are ours too.
			cmd := g.command(t, g.ssh, "-n", "pi-0", fmt.Sprintf(`exec %s sh -c 'echo $$; exec sleep 1000'`, l.program))
			output, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			lines := bufio.NewScanner(output)
			var pids []string
			for len(pids) < 4 && lines.Scan() {
				pids = append(pids, lines.Text())
			}
			require.Len(t, pids, 4)
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			_ = cmd.Wait() // Hydra calls it a success
			gone := func() bool { return !slices.ContainsFunc(pids, alive) }
			assert.Eventually(t, gone, 20*time.Second, 50*time.Millisecond)
		})
	}
}
