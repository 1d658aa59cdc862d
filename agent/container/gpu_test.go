package container_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/container"
)

func TestGPULibrariesAreFoundOnce(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{
		"usr/lib64/libcuda.so.1", "usr/lib64/libnvidia-ml.so.1", "usr/lib/libcuda.so.1", "usr/bin/nvidia-smi", "usr/lib64/libcudart.so.12",
	} {
		path := filepath.Join(root, file)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, nil, 0o644))
	}
	assert.Equal(t, []string{
		filepath.Join(root, "usr/lib64/libcuda.so.1"), filepath.Join(root, "usr/lib64/libnvidia-ml.so.1"), filepath.Join(root, "usr/bin/nvidia-smi"),
	}, container.FindGPULibraries(root, container.GPULibraries(container.NVIDIA)), "the driver's, not CUDA's own")
	assert.Empty(t, container.FindGPULibraries(root, container.GPULibraries(container.AMD)))
}
