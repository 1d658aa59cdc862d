package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrClaimed says that another job runs the gang.
var ErrClaimed = errors.New("the gang is claimed by another job")

// TakeClaim makes the job the one that runs the gang. Only one claim can ever
// be taken: every other try returns ErrClaimed, wrapped with the holder's id.
// The claim is complete when it becomes visible (a link to a finished file),
// and atomic on every shared filesystem that has hard links, NFS included.
func (d Dir) TakeClaim(c Claim) error {
	data, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encoding the claim: %w", err)
	}
	tmp, err := os.CreateTemp(string(d), ".claim.*")
	if err != nil {
		return fmt.Errorf("taking the claim: %w", err)
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // the temporary name has done its work
	_, err = tmp.Write(data)
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return fmt.Errorf("taking the claim: %w", err)
	}
	err = link(tmp.Name(), d.Claim(), os.Link)
	if !errors.Is(err, fs.ErrExist) {
		if err != nil {
			return fmt.Errorf("taking the claim: %w", err)
		}
		return nil
	}
	var holder Claim
	if _, err := Read(d.Claim(), &holder); err != nil {
		return err
	}
	return fmt.Errorf("%w: job %s on %s", ErrClaimed, holder.JobID, holder.Host)
}

// link makes a link by the given call. Over NFS the answer to a request that
// succeeded may get lost; the client asks again and hears that the link exists.
// Only the number of the file's links tells whether it is ours.
func link(from, to string, call func(from, to string) error) error {
	err := call(from, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, statErr := os.Stat(from)
	if statErr != nil {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink == 2 {
		return nil
	}
	return err
}
