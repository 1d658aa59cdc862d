package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	err = os.Link(tmp.Name(), d.Claim())
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
