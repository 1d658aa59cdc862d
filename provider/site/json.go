package site

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gangline/gangline/provider/spool"
)

// ReadJSON decodes a file of the spool into v, within the bounds of spool.Decode: one that
// is larger is not read. It reports false without an error where there is no such file.
func ReadJSON(ctx context.Context, f Files, path string, v any) (bool, error) {
	changes, err := f.Changed(ctx, []Watched{Watch(path, v)})
	if err != nil || len(changes) == 0 {
		return false, err
	}
	if err := changes[0].Err; err != nil {
		return false, err
	}
	if err := spool.Decode(path, changes[0].Data, v); err != nil {
		return false, err
	}
	return true, nil
}

// WriteJSON replaces a file by v as JSON, readable by its owner only.
func WriteJSON(ctx context.Context, f Files, path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", path, err)
	}
	const ownerOnly = 0o600
	return f.Write(ctx, path, data, ownerOnly)
}

// ReadAllJSON decodes many files of the spool in few round trips, as ReadJSON does, each
// into the value beside its path. It returns their stamps, zero for one that is not
// there. One that cannot be read fails all.
func ReadAllJSON(ctx context.Context, f Files, paths []string, into []any) ([]Stamp, error) {
	watched := make([]Watched, len(paths))
	for i, path := range paths {
		watched[i] = Watch(path, into[i])
	}
	for {
		changes, err := f.Changed(ctx, watched)
		if err != nil {
			return nil, err
		}
		for _, c := range changes {
			if c.Err != nil {
				return nil, c.Err
			}
			watched[c.Index].Stamp = c.Stamp
			if c.Stamp == (Stamp{}) {
				continue // it has gone since
			}
			if err := spool.Decode(paths[c.Index], c.Data, into[c.Index]); err != nil {
				return nil, err
			}
		}
		if len(changes) == 0 {
			break
		}
	}
	stamps := make([]Stamp, len(paths))
	for i, w := range watched {
		stamps[i] = w.Stamp
	}
	return stamps, nil
}
