package site

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gangline/gangline/provider/spool"
)

// ReadJSON decodes a file of the spool into v, within the bounds of spool.Decode. It reports false without an error where there is
// no such file.
func ReadJSON(ctx context.Context, f Files, path string, v any) (bool, error) {
	data, found, err := f.Read(ctx, path)
	if err != nil || !found {
		return false, err
	}
	if err := spool.Decode(path, data, v); err != nil {
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

// ReadAll reads many files in few round trips. The answer has those that are there,
// by their paths. One that cannot be read fails all.
func ReadAll(ctx context.Context, f Files, paths []string) (map[string][]byte, error) {
	found := map[string][]byte{}
	for left := paths; len(left) > 0; {
		files := make([]Watched, len(left))
		for i, path := range left {
			files[i].Path = path
		}
		changes, err := f.Changed(ctx, files)
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			break
		}
		for _, c := range changes {
			if c.Err != nil {
				return nil, c.Err
			}
			found[left[c.Index]] = c.Data
		}
		left = slices.DeleteFunc(slices.Clone(left), func(path string) bool {
			_, read := found[path]
			return read
		})
	}
	return found, nil
}
