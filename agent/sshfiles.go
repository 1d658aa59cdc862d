package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gangline/gangline/agent/sandbox"
	"github.com/gangline/gangline/agent/sshd/daemon"
	"github.com/gangline/gangline/mpi/remoteshell"
	"github.com/gangline/gangline/provider/spool"
)

const (
	// sshConfigDir is where OpenSSH's clients look for a system's settings beside
	// the main file, which stands behind the user's own. The names of its distributions
	// (Debian, Red Hat, SUSE) agree since OpenSSH 8.
	sshConfigDir = "/etc/ssh/ssh_config.d"
	// includeFile is the file of the agent's that is mounted there.
	includeFile = "ssh_include.conf"
	// envSSHConfig tells a pod where the gang's ssh_config is, for ssh -F.
	envSSHConfig = "GANGLINE_SSH_CONFIG"
)

// writeSSHInclude writes the file by which OpenSSH's own programs find the gang's
// hosts. It only points to the one with the hosts: that is replaced when they change,
// which a mounted file cannot be.
func writeSSHInclude(dirs podDirs) error {
	text := fmt.Sprintf("# Written by Gangline.\nInclude %s\n", filepath.Join(runDir, remoteshell.ConfigFile))
	if err := os.WriteFile(filepath.Join(dirs.run(), includeFile), []byte(text), 0o644); err != nil { //nolint:gosec // no secret
		return fmt.Errorf("writing the pod's ssh_config: %w", err)
	}
	return nil
}

// sshMounts are what a private root has for SSH: the gang's hosts for OpenSSH's own
// programs where the node has them, and the agent in the place of an sshd that a
// shell's line calls by its path.
func sshMounts(dirs podDirs, self string, c spool.ContainerOrders) []sandbox.Mount {
	var mounts []sandbox.Mount
	if c.InImage != nil || isDir(sshConfigDir) {
		mounts = append(mounts, sandbox.Mount{
			Source: filepath.Join(dirs.run(), includeFile), Target: filepath.Join(sshConfigDir, "gangline.conf"), ReadOnly: true,
		})
	}
	if c.SSHD != nil && filepath.IsAbs(c.SSHD.Program) && !calledDirectly(c) {
		mounts = append(mounts, sandbox.Mount{Source: self, Target: c.SSHD.Program, ReadOnly: true})
	}
	return mounts
}

// calledDirectly tells that a container's process is to be the agent's own sshd.
func calledDirectly(c spool.ContainerOrders) bool {
	return c.SSHD != nil && len(c.Argv) > 0 && c.Argv[0] == c.SSHD.Program
}

// sshVariables are what a container's environment has for SSH besides the pod's.
func sshVariables(s surroundings, c spool.ContainerOrders) []string {
	variables := []string{envSSHConfig + "=" + filepath.Join(s.dir, remoteshell.ConfigFile)}
	if c.SSHD != nil {
		var files []string
		for _, file := range c.SSHD.AuthorizedKeys {
			files = append(files, relocate(file, s.relocated))
		}
		variables = append(variables, daemon.Variable+"="+strings.Join(files, ":"))
	}
	return variables
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
