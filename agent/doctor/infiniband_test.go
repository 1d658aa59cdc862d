package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
)

func TestInfiniBand(t *testing.T) {
	const free = unix.RLIM_INFINITY
	devices, files := []string{"mlx5_0", "mlx5_1"}, []string{"/dev/infiniband/uverbs0"}
	for sentence, tc := range map[string]struct {
		has        rdma
		status     Status
		says, cure string
	}{
		"none":                            {rdma{}, Info, "no RDMA device", ""},
		"all is well":                     {rdma{devices: devices, files: files, soft: free, hard: free}, OK, "mlx5_0, mlx5_1; locked memory is not limited", ""},
		"no files of devices":             {rdma{devices: devices, soft: free, hard: free}, Warn, "no program can use it", "ib_uverbs"},
		"files that are closed":           {rdma{devices: devices, files: files, closed: files, soft: free, hard: free}, Warn, "may not open /dev/infiniband/uverbs0", "rdma-core"},
		"a hard limit of locked memory":   {rdma{devices: devices, files: files, soft: 65536, hard: 65536}, Warn, "lock 65536 bytes of memory only", "LimitMEMLOCK"},
		"a soft limit that can be raised": {rdma{devices: devices, files: files, soft: 65536, hard: free}, Warn, "by default", "memlock: hard"},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := tc.has.judge()
			assert.Equal(t, tc.status, got.Status)
			assert.Contains(t, got.Message, tc.says)
			assert.Contains(t, got.Cure, tc.cure)
		})
	}
}
