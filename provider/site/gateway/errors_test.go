package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/provider/spool"
)

func TestAFullSpoolIsKnownThroughAGateway(t *testing.T) {
	for _, number := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		wrote := fmt.Errorf("writing: %w", &fs.PathError{Op: "write", Path: "/spool/x", Err: number})
		err := toWire(errors.Join(wrote, errors.New("removing the rest"))).err()
		assert.True(t, spool.IsFull(err))
		assert.Equal(t, errors.Join(wrote, errors.New("removing the rest")).Error(), err.Error())
	}
}
