package container

import (
	"path/filepath"
	"slices"
)

// GPULibraries are patterns of the names of what a vendor's driver needs to have in a
// container: the libraries that belong to the node's kernel module, and its tools. They
// are those of Apptainer's nvliblist.conf. AMD's driver has no such part: images bring
// ROCm themselves.
func GPULibraries(v Vendor) []string {
	return map[Vendor][]string{
		NVIDIA: {
			"libcuda.so*", "libcudadebugger.so*", "libnvcuvid.so*", "libnvoptix.so*",
			"libnvidia-*.so*", "libEGL_nvidia.so*", "libGLX_nvidia.so*", "libGLESv*_nvidia.so*",
			"nvidia-smi", "nvidia-debugdump", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
		},
	}[v]
}

// libraryDirs are where distributions have libraries and programs, the first that has a
// name counts.
var libraryDirs = []string{
	"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64/nvidia", "usr/lib/wsl/lib", "usr/lib", "usr/bin", "opt/bin",
}

// FindGPULibraries lists the files below a root whose names fit a pattern, each name once,
// in their order.
func FindGPULibraries(root string, patterns []string) []string {
	found := map[string]string{}
	for _, pattern := range patterns {
		for _, dir := range libraryDirs {
			files, err := filepath.Glob(filepath.Join(root, dir, pattern))
			if err != nil {
				continue // the pattern is none
			}
			for _, file := range files {
				if name := filepath.Base(file); found[name] == "" {
					found[name] = file
				}
			}
		}
	}
	var files []string
	for _, file := range found {
		files = append(files, file)
	}
	slices.SortFunc(files, func(a, b string) int {
		return slices.Compare([]string{filepath.Base(a)}, []string{filepath.Base(b)})
	})
	return files
}
