package local

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/gangline/gangline/provider/spool"
)

// store is the state directory. It has one owner at a time.
type store struct {
	dir  string
	lock *os.File
}

// patience is how long a lock may stay behind its owner: a manager can die while
// it starts a process, which lets go of the lock only a moment later.
const patience = 2 * time.Second

// openStore takes the directory, or fails if another manager has it.
func openStore(dir string) (*store, error) {
	if err := os.MkdirAll(filepath.Join(dir, "jobs"), 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the state directory's lock: %w", err)
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(patience / 100) {
		err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return &store{dir: dir, lock: lock}, nil
		}
		if errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline) {
			continue
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another manager is at work there; end it first")
		}
		return nil, errors.Join(fmt.Errorf("taking the state directory %s: %w", dir, err), lock.Close())
	}
}

func (s *store) close() error { return s.lock.Close() }

func (s *store) jobDir(id string) string  { return filepath.Join(s.dir, "jobs", id) }
func (s *store) jobFile(id string) string { return filepath.Join(s.jobDir(id), "job.json") }
func (s *store) lastIDFile() string       { return filepath.Join(s.dir, "last-id") }
func (s *store) save(j *job) error        { return spool.Write(s.jobFile(j.ID), j) }
func (s *store) remove(id string) error   { return os.RemoveAll(s.jobDir(id)) }

// add gives a job a number that no job had before, and keeps it.
func (s *store) add(j *job) error {
	var last int
	if _, err := spool.Read(s.lastIDFile(), &last); err != nil {
		return err
	}
	last++
	if err := spool.Write(s.lastIDFile(), last); err != nil {
		return err
	}
	j.ID = strconv.Itoa(last)
	if err := os.Mkdir(s.jobDir(j.ID), 0o700); err != nil {
		return fmt.Errorf("making the job's directory: %w", err)
	}
	if err := s.save(j); err != nil {
		return errors.Join(err, s.remove(j.ID))
	}
	return nil
}

// load returns all jobs in the order of their numbers. A directory without a
// job's file is one whose submission was never answered: it is removed.
func (s *store) load() ([]*job, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "jobs"))
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	var jobs []*job
	for _, e := range entries {
		j := &job{}
		found, err := spool.Read(s.jobFile(e.Name()), j)
		if err == nil && !found {
			err = s.remove(e.Name())
		}
		if err != nil {
			return nil, fmt.Errorf("loading job %s: %w", e.Name(), err)
		}
		if found {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *job) int { return compareIDs(a.ID, b.ID) })
	return jobs, nil
}

// compareIDs orders ids as the numbers they are.
func compareIDs(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
