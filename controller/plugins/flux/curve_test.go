package flux

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// The vector is that of ZeroMQ's RFC 32.
func TestZ85(t *testing.T) {
	assert.Equal(t, "HelloWorld", z85([]byte{0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B}))
	assert.Empty(t, z85(nil))
}
