package mpirun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gangline/gangline/mpi/remoteshell"
)

// The launch modes.
const (
	ModeSSH  = "ssh"
	ModeSrun = "srun"
)

// settingsFile is in the directory that remoteshell.Variable names.
const settingsFile = "launch.json"

// defaultDir is where that is if the variable was lost.
const defaultDir = "/run/gangline"

// Settings are what a pod's agent tells its launchers.
type Settings struct {
	// Socket is the agent's, see package control.
	Socket string `json:"socket"`
	// Mode is how ranks are started.
	Mode string `json:"mode"`
	// PMI is the protocol that the pod's owner names, "" to find out.
	PMI string `json:"pmi,omitempty"`
}

// WriteSettings puts the settings into the directory of the agent's own files.
func WriteSettings(dir string, s Settings) error {
	data, err := json.Marshal(s)
	whole := filepath.Join(dir, settingsFile)
	if err == nil {
		err = os.WriteFile(whole+".new", data, 0o600)
	}
	if err == nil {
		err = os.Rename(whole+".new", whole) // launchers may be reading it
	}
	if err != nil {
		return fmt.Errorf("writing the launchers' settings: %w", err)
	}
	return nil
}

// ReadSettings reads them. Outside of a pod there are none.
func ReadSettings(env func(string) string) (s Settings, found bool, err error) {
	dir := env(remoteshell.Variable)
	if dir == "" {
		dir = defaultDir
	}
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return s, false, fmt.Errorf("reading the launchers' settings: %w", err)
	}
	return s, true, nil
}
