package sandbox

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMountPoints(t *testing.T) {
	table := `22 28 0:21 / /proc rw,nosuid shared:12 - proc proc rw
30 28 8:1 /home /srv/a\040b ro - ext4 /dev/sda1 rw
31 28 8:1 / /odd\134name\x - ext4 /dev/sda1 rw
short line
`
	assert.Equal(t, []string{"/proc", "/srv/a b", `/odd\name\x`}, mountPoints(table))
}
