//go:build !cgo || !linux

package flux

import (
	"context"
	"fmt"
)

func dial(context.Context, string, string) (conn, error) {
	return nil, fmt.Errorf("%w for this program: it was built without cgo; use one that was built with it, for Linux", ErrUnavailable)
}
