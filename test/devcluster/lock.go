package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// errLocked means that processes of a cluster are alive in the folder.
var errLocked = errors.New("the cluster is running")

// tryLock takes the folder's lock or returns errLocked.
//
// The components inherit the lock's file descriptor, so it is free only when the last process of the cluster is
// gone, however it went. That makes it the one reliable answer to "is anything still running here?".
func (l layout) tryLock() (*os.File, error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the cluster's folder: %w", err)
	}
	file, err := os.OpenFile(l.lock(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the cluster's lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return file, nil
	}
	_ = file.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errLocked
	}
	return nil, fmt.Errorf("take the cluster's lock: %w", err)
}

// waitLock takes the folder's lock as soon as the processes that still hold it are gone.
func (l layout) waitLock(ctx context.Context, patience time.Duration) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		lock, err := l.tryLock()
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		select {
		case <-ctx.Done():
			return nil, errLocked
		case <-ticker.C:
		}
	}
}

// running reports whether any process of the cluster is alive.
func (l layout) running() (bool, error) {
	if _, err := os.Stat(l.lock()); errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	lock, err := l.tryLock()
	if errors.Is(err, errLocked) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, lock.Close()
}
