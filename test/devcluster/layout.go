package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout names the files in a cluster's folder. Everything that a cluster keeps is below that folder.
type layout struct {
	dir string
}

// newLayout makes the path absolute, because components run with the folder as their working directory.
func newLayout(dir string) (layout, error) {
	if dir == "" {
		return layout{}, fmt.Errorf("--dir must name a folder")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return layout{}, fmt.Errorf("find the absolute path of %s: %w", dir, err)
	}
	return layout{dir: abs}, nil
}

// kubeconfig is the administrator's. It exists only while the cluster is ready.
func (l layout) kubeconfig() string { return filepath.Join(l.dir, "kubeconfig") }

// lock is held by every process of a running cluster.
func (l layout) lock() string { return filepath.Join(l.dir, "lock") }

// state describes the last run. It also marks the folder as one that devcluster may wipe.
func (l layout) state() string { return filepath.Join(l.dir, "devcluster.json") }

func (l layout) pkiDir() string            { return filepath.Join(l.dir, "pki") }
func (l layout) pki(name string) string    { return filepath.Join(l.pkiDir(), name) }
func (l layout) etcdDir() string           { return filepath.Join(l.dir, "etcd") }
func (l layout) logsDir() string           { return filepath.Join(l.dir, "logs") }
func (l layout) log(name string) string    { return filepath.Join(l.logsDir(), name+".log") }
func (l layout) confDir() string           { return filepath.Join(l.dir, "conf") }
func (l layout) config(name string) string { return filepath.Join(l.confDir(), name+".kubeconfig") }

// made lists what a run puts into the folder, besides logs, and a fresh run removes.
func (l layout) made() []string {
	return []string{l.etcdDir(), l.pkiDir(), l.confDir(), l.kubeconfig()}
}

// checkOwned refuses a folder that was not made by devcluster but holds files of the same names: a name as common
// as "pki" could belong to somebody else, and a fresh run would remove it.
func (l layout) checkOwned() error {
	if _, err := os.Stat(l.state()); err == nil {
		return nil
	}
	for _, path := range l.made() {
		if _, err := os.Lstat(path); err == nil {
			return fmt.Errorf("%s exists, but %s was not made by devcluster: give another --dir", path, l.dir)
		}
	}
	return nil
}

// prepare makes the folders of a new run. A fresh run first removes what an earlier one left.
func (l layout) prepare(fresh bool) error {
	leftovers := l.made()
	if !fresh {
		leftovers = []string{l.confDir(), l.kubeconfig()}
	}
	// Old logs would be taken for those of this run if it fails early. The log of `up` itself is in use already.
	for _, component := range componentNames() {
		leftovers = append(leftovers, l.log(component))
	}
	for _, path := range leftovers {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("remove what an earlier run left: %w", err)
		}
	}
	for path, mode := range map[string]os.FileMode{
		l.pkiDir():  0o755,
		l.logsDir(): 0o755,
		l.confDir(): 0o700,
		// The etcd socket inside has no other protection than this folder's mode.
		l.etcdDir(): 0o700,
	} {
		if err := os.MkdirAll(path, mode); err != nil {
			return fmt.Errorf("prepare the folder: %w", err)
		}
	}
	return nil
}

// writeFile puts a file in place whole or not at all, for those who watch for it.
func writeFile(path string, data []byte, mode os.FileMode) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err := temp.Write(data); err != nil {
		_ = temp.Close()
		return err
	}
	if err := temp.Chmod(mode); err != nil {
		_ = temp.Close()
		return err
	}
	if err := temp.Close(); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}
