package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gangline/gangline/provider/spool/plain"
)

// Root is the spool's top directory, at the same path on the node and on all
// HPC nodes.
type Root string

// Gangs is the directory that holds a directory per allocation.
func (r Root) Gangs() string { return filepath.Join(string(r), "gangs") }

// Dir returns the directory of an allocation.
func (r Root) Dir(allocation string) Dir { return Dir(filepath.Join(r.Gangs(), allocation)) }

// Dir is the directory of one allocation.
type Dir string

// Gang, Job, Claim, Result and Ended are the paths of an allocation's files.
func (d Dir) Gang() string   { return filepath.Join(string(d), "gang.json") }
func (d Dir) Job() string    { return filepath.Join(string(d), "job.json") }
func (d Dir) Claim() string  { return filepath.Join(string(d), "claim") }
func (d Dir) Result() string { return filepath.Join(string(d), "result.json") }
func (d Dir) Ended() string  { return filepath.Join(string(d), "ended.json") }

// TaskResult is the path of task t's part of the result, where no launcher sees all tasks
// end.
func (d Dir) TaskResult(t int) string {
	return filepath.Join(string(d), "result."+strconv.Itoa(t)+".json")
}

// Slot is the directory of slot k.
func (d Dir) Slot(k int) string { return filepath.Join(string(d), "slots", strconv.Itoa(k)) }

// Desired and Status are the paths of slot k's files.
func (d Dir) Desired(k int) string { return filepath.Join(d.Slot(k), "desired.json") }
func (d Dir) Status(k int) string  { return filepath.Join(d.Slot(k), "status.json") }

// PodLogs is the directory of all logs of a pod that slot k runs or ran.
func (d Dir) PodLogs(k int, podUID string) string {
	return filepath.Join(d.Slot(k), "logs", podUID)
}

// Log is the log of one container's run, restarts counted from 0.
func (d Dir) Log(k int, podUID, container string, restart int) string {
	return filepath.Join(d.PodLogs(k, podUID), container, strconv.Itoa(restart)+".log")
}

// Create makes an allocation's directory with its gang.json and its slots. It
// appears as a whole or not at all; one of the same name is an error.
func (r Root) Create(g Gang) (err error) {
	staged := r.Dir(unfinished(g.Node) + g.Allocation)
	defer func() {
		if err != nil { // on a full filesystem each try would leave one
			err = errors.Join(err, os.RemoveAll(string(staged)))
		}
	}()
	if err := staged.Create(len(g.Slots)); err != nil {
		return err
	}
	if err := Write(staged.Gang(), g); err != nil {
		return err
	}
	if err := os.Rename(string(staged), string(r.Dir(g.Allocation))); err != nil {
		return fmt.Errorf("making the gang's directory: %w", err)
	}
	return nil
}

// Create makes the directories of an allocation with n slots.
func (d Dir) Create(n int) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return fmt.Errorf("making the gang's directory: %w", err)
	}
	for k := range n {
		if err := os.MkdirAll(d.Slot(k), 0o700); err != nil {
			return fmt.Errorf("making slot %d's directory: %w", k, err)
		}
	}
	return nil
}

// unfinished begins the names of directories that a node is making.
func unfinished(node string) string { return ".new-" + node + "@" }

// Write replaces a file by v as JSON, as a whole and readable by its owner only. When
// it returns the file is on the disk.
func Write(path string, v any) error { return write(path, v, (*os.File).Sync) }

func write(path string, v any, settle func(*os.File) error) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", filepath.Base(path), err)
	}
	return replace(path, data, ownerOnly, settle)
}

// WriteFile replaces a file of any content, as Write does.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, mode, (*os.File).Sync)
}

// ownerOnly is the mode that os.CreateTemp gives to a file.
const ownerOnly fs.FileMode = 0o600

// replace has settle see to it that the data is where it is to be, before the file takes
// the place of the other.
func replace(path string, data []byte, mode fs.FileMode, settle func(*os.File) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	if err == nil && mode != ownerOnly {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = settle(tmp)
	}
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}

// trash begins the names of directories that are being removed.
const trash = ".trash-"

// Remove deletes an allocation's directory. It takes another name first: one
// that is removed by half must not look like an allocation.
func (d Dir) Remove() error { return d.remove(os.Rename) }

func (d Dir) remove(rename func(from, to string) error) error {
	other := filepath.Join(filepath.Dir(string(d)), trash+filepath.Base(string(d)))
	gone, err := other, rename(string(d), other)
	if IsFull(err) {
		// Even a name may need room, and what is to be removed is what makes it. Without
		// its gang.json a directory is no allocation either.
		gone, err = string(d), os.Remove(d.Gang())
		if (err == nil || errors.Is(err, fs.ErrNotExist)) && rename(string(d), other) == nil {
			gone = other
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the gang's directory: %w", err)
	}
	if err := os.RemoveAll(gone); err != nil {
		return fmt.Errorf("removing the gang's directory: %w", err)
	}
	return nil
}

// Sweep removes what an earlier process of the node began to make, and what
// any began to remove.
func (r Root) Sweep(node string) error {
	var errs []error
	for _, begins := range []string{trash, unfinished(node)} {
		leftovers, err := filepath.Glob(filepath.Join(r.Gangs(), begins+"*"))
		errs = append(errs, err)
		for _, dir := range leftovers {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

const (
	// maxFile bounds what is read: the largest honest file holds a pod's ConfigMaps.
	maxFile = 64 << 20
	// MaxReport bounds, in bytes, what the job's user writes, and maxListed the items of each of a
	// report's lists: all slots' reports are in the node's memory, where an empty item
	// takes some hundred times its bytes in the file.
	MaxReport = 1 << 20
	maxListed = 1000
	// maxBinding bounds the texts of a Binding, in bytes.
	maxBinding = 4 << 10
	// maxObjects is more than the slots and names of any gang: an empty one takes two
	// bytes in the file and some hundred in memory.
	maxObjects = 200_000
)

// Most is how many bytes a file may have that holds such a value.
func Most(v any) int64 {
	switch v.(type) {
	case *Status, *Result, *Claim, *Job, *Ended:
		return MaxReport
	case *Usage:
		return maxUsage
	}
	return maxFile
}

// tooLong tells whether a file lists, or says, more than is true of any pod or gang.
func tooLong(v any) bool {
	switch v := v.(type) {
	case *Status:
		longest := len(v.Agent.RendezvousPorts)
		if p := v.Pod; p != nil {
			longest = max(longest, len(p.InitContainers), len(p.Containers), len(p.EphemeralContainers), len(p.Events))
		}
		return longest > maxListed
	case *Binding:
		return len(v.PodUID)+len(v.Pod)+len(v.Action)+len(v.Recipient) > maxBinding
	case *Gang:
		inTasks := 0
		for _, task := range v.Tasks {
			inTasks += len(task)
		}
		return max(len(v.Tasks), inTasks, len(v.Names)) > max(len(v.Slots), 1) // each slot is in one task
	}
	return false
}

// Read decodes a file into v. It reports false without an error where there is
// no such file.
func Read(path string, v any) (bool, error) {
	data, err := plain.Read(path, Most(v))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", path, err)
	}
	if err := Decode(path, data, v); err != nil {
		return false, err
	}
	return true, nil
}

// Decode decodes a file's content into v, within the bounds of what such a file may
// be. It is for those who have read the file in another way than by Read.
func Decode(path string, data []byte, v any) error {
	if int64(len(data)) > Most(v) {
		return fmt.Errorf("reading %s: it has more than %d bytes", path, Most(v))
	}
	if _, listed := v.(*Gang); listed && bytes.Count(data, []byte{'{'}) > maxObjects {
		return fmt.Errorf("reading %s: it lists more than %d items", path, maxObjects)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if tooLong(v) {
		return fmt.Errorf("reading %s: it lists more than %d items, or more than there can be", path, maxListed)
	}
	return nil
}
