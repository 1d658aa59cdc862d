package device_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gangline/gangline/agent/device"
)

func TestASlotWithoutDevicesSeesNone(t *testing.T) {
	b := device.Bound(0, map[string]string{"CUDA_VISIBLE_DEVICES": "2,3"})
	assert.Equal(t, map[string]string{
		"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void", "ROCR_VISIBLE_DEVICES": "",
		"HIP_VISIBLE_DEVICES": "-1", "GPU_DEVICE_ORDINAL": "-1", "ZE_AFFINITY_MASK": "65535",
	}, b.Variables())
	assert.Equal(t, "", b.Within("CUDA_VISIBLE_DEVICES", "0"), "whatever it asks for")
	assert.True(t, b.Known())
}

func TestASlotSeesWhatTheWorkloadManagerSays(t *testing.T) {
	environment := map[string]string{"CUDA_VISIBLE_DEVICES": "2,3", "ZE_AFFINITY_MASK": "2,3", "PATH": "/bin"}
	b := device.Bound(2, device.FromEnvironment(func(name string) string { return environment[name] }))
	assert.Equal(t, map[string]string{"CUDA_VISIBLE_DEVICES": "2,3", "ZE_AFFINITY_MASK": "2,3"}, b.Variables())
	assert.False(t, device.Bound(2, nil).Known())
}

func TestASlotSeesNoMoreThanItAskedFor(t *testing.T) {
	b := device.Share(1, map[string]string{"CUDA_VISIBLE_DEVICES": "2,3", "ZE_AFFINITY_MASK": "2.0,2.1", "ROCR_VISIBLE_DEVICES": "GPU-a,GPU-b"})
	assert.Equal(t, map[string]string{
		"CUDA_VISIBLE_DEVICES": "2", "ZE_AFFINITY_MASK": "2.0,2.1", "ROCR_VISIBLE_DEVICES": "GPU-a,GPU-b",
	}, b.Variables(), "parts of devices, and names, are not counted")
}

func TestWithin(t *testing.T) {
	const cuda = "CUDA_VISIBLE_DEVICES"
	cases := map[string]struct{ variable, bound, asked, want string }{
		"the first of the pod's own":              {cuda, "4,5", "0", "4"},
		"in the order that was asked for":         {cuda, "4,5", "1, 0", "5,4"},
		"none beyond them, nor what follows":      {cuda, "4,5", "1,2,0", "5"},
		"none where the first is not there":       {cuda, "4,5", "7", ""},
		"none at all":                             {cuda, "4,5", "", ""},
		"none, as HIP wants to be told":           {"HIP_VISIBLE_DEVICES", "4,5", "-1", "-1"},
		"all":                                     {"NVIDIA_VISIBLE_DEVICES", "GPU-a,GPU-b", "all", "GPU-a,GPU-b"},
		"an identifier of its own":                {cuda, "GPU-a,GPU-b", "GPU-b", "GPU-b"},
		"not somebody else's":                     {cuda, "GPU-a,GPU-b", "GPU-c,GPU-a", ""},
		"a part of a device":                      {"ZE_AFFINITY_MASK", "4,5", "1.0,0.1", "5.0,4.1"},
		"what the workload manager does not bind": {"HIP_VISIBLE_DEVICES", "", "1", "1"},
		"devices that a cgroup has renumbered":    {cuda, "0,1", "1", "1"},
		"an index of the node is none of the pod": {cuda, "4,5", "4", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			env := map[string]string{"OTHER": "x"}
			if c.bound != "" {
				env[c.variable] = c.bound
			}
			assert.Equal(t, c.want, device.Bound(2, env).Within(c.variable, c.asked))
		})
	}
}

func TestIsVariable(t *testing.T) {
	assert.True(t, device.IsVariable("ROCR_VISIBLE_DEVICES"))
	assert.False(t, device.IsVariable("CUDA_HOME"))
}
