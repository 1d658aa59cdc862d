package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/agent/sandbox"
)

func TestVersion(t *testing.T) {
	for sentence, tc := range map[string]struct {
		own, node string
		want      Status
	}{
		"the same":                        {"v0.3.0", "v0.3.0", OK},
		"the same behind Kubernetes' own": {"v0.3.0", "v1.37.2-gangline-v0.3.0", OK},
		"an older agent":                  {"v0.2.0", "v1.37.2-gangline-v0.3.0", Warn},
		"nobody to compare with":          {"v0.3.0", "", Info},
	} {
		t.Run(sentence, func(t *testing.T) { assert.Equal(t, tc.want, version(tc.own, tc.node).Status) })
	}
}

func TestGPUs(t *testing.T) {
	cuda := func(v string) map[string]string { return map[string]string{"CUDA_VISIBLE_DEVICES": v} }
	for sentence, tc := range map[string]struct {
		promised int
		bound    map[string]string
		seen     int
		want     Status
		says     string
	}{
		"none asked for":                 {0, nil, -1, Info, "none was asked for"},
		"none asked for, and some seen":  {0, nil, 8, Warn, "lists 8"},
		"one of eight, confined":         {1, cuda("3"), 1, OK, "lists as many"},
		"one, and nothing to compare":    {1, cuda("3"), -1, OK, "no nvidia-smi"},
		"one, and all eight can be seen": {1, cuda("3"), 8, Warn, "lists 8"},
		"two promised and none bound":    {2, nil, 8, Fail, "no variable says which"},
		"two promised and one bound":     {2, cuda("3"), 1, Fail, "names 1"},
		"two bound and one is broken":    {2, cuda("3,4"), 1, Fail, "lists 1"},
		"AMD's, by its own variable":     {2, map[string]string{"ROCR_VISIBLE_DEVICES": "0,1"}, -1, OK, "ROCR"},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := gpus(tc.promised, tc.bound, tc.seen)
			assert.Equal(t, tc.want, f.Status)
			assert.Contains(t, f.Message, tc.says)
			assert.Equal(t, f.Status == Warn || f.Status == Fail, f.Cure != "", "what is wrong has a cure")
		})
	}
}

func TestPrivateRootsThatCannotBe(t *testing.T) {
	assert.Equal(t, Warn, privateRoot(t.Context(), sandbox.ErrOff, t.TempDir()).Status)
	f := privateRoot(t.Context(), errors.New("operation not permitted"), t.TempDir())
	assert.Equal(t, Fail, f.Status)
	assert.Contains(t, f.Cure, "user.max_user_namespaces")
}

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	assert.Equal(t, OK, scratchDir(filepath.Join(dir, "own")).Status)
	assert.NoDirExists(t, filepath.Join(dir, "own"), "what was not there is not there afterwards")
	assert.Equal(t, Fail, scratchDir(filepath.Join(dir, "no", "such")).Status)
	assert.Equal(t, Fail, memoryDir(filepath.Join(dir, "no", "such")).Status)

	require.NoError(t, os.Chmod(dir, 0o700))
	assert.Equal(t, OK, spoolDir(dir).Status)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
	require.NoError(t, os.Chmod(dir, 0o755))
	assert.Contains(t, spoolDir(dir).Message, "permissions 755")
	f := spoolDir(filepath.Join(dir, "none"))
	assert.Equal(t, Fail, f.Status)
	assert.Contains(t, f.Message, "is not there on this node")
}

// shelf are programs and what they print.
type shelf map[string]string

func (s shelf) Find(name string) string {
	if _, ok := s[name]; !ok {
		return ""
	}
	return "/bin/" + name
}

func (s shelf) Output(_ context.Context, path string, _ ...string) (string, error) {
	return s[filepath.Base(path)], nil
}

func TestPrograms(t *testing.T) {
	for sentence, tc := range map[string]struct {
		kind int
		on   shelf
		want Status
		says string
	}{
		"no container runtime is no fault": {0, shelf{}, Info, "none on PATH"},
		"apptainer":                        {0, shelf{"apptainer": "apptainer version 1.3.4\n"}, Info, "apptainer (apptainer version 1.3.4)"},
		"no MPI":                           {1, shelf{}, Warn, "no launcher"},
		"MPICH's version is in line two":   {1, shelf{"mpiexec": "HYDRA build details:\n    Version:     4.0.2\n"}, OK, "mpiexec (Version: 4.0.2)"},
		"a new OpenSSH":                    {2, shelf{"ssh": "OpenSSH_9.2p1 Debian"}, OK, "9.2"},
		"an old OpenSSH":                   {2, shelf{"ssh": "OpenSSH_5.3p1"}, Warn, "before 6.5"},
		"no OpenSSH":                       {2, shelf{}, Info, "gangline-agent's own"},
	} {
		t.Run(sentence, func(t *testing.T) {
			f := kinds()[tc.kind].find(t.Context(), tc.on)
			assert.Equal(t, tc.want, f.Status)
			assert.Contains(t, f.Message, tc.says)
		})
	}
	assert.Equal(t, 2, countNvidia(t.Context(), shelf{"nvidia-smi": "GPU 0: H100 (UUID: x)\nGPU 1: H100 (UUID: y)\n"}))
	assert.Equal(t, -1, countNvidia(t.Context(), shelf{}))
}
