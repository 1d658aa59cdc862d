package provider

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/site"
	"github.com/gangline/gangline/provider/spool"
)

func TestAMeasurementCounts(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	for sentence, tc := range map[string]struct {
		usage spool.Usage
		want  bool
	}{
		"of now":                            {spool.Usage{PodUID: "u", Time: now}, true},
		"of a minute ago":                   {spool.Usage{PodUID: "u", Time: now.Add(-time.Minute)}, true},
		"by a clock that is a little ahead": {spool.Usage{PodUID: "u", Time: now.Add(time.Minute)}, true},
		"not that of the pod before":        {spool.Usage{PodUID: "v", Time: now}, false},
		"not of long ago":                   {spool.Usage{PodUID: "u", Time: now.Add(-3 * time.Minute)}, false},
		"not of the future":                 {spool.Usage{PodUID: "u", Time: now.Add(time.Hour)}, false},
		"not without a time":                {spool.Usage{PodUID: "u"}, false},
		"not in a later format":             {spool.Usage{PodUID: "u", Time: now, Version: spool.Version + 1}, false},
	} {
		assert.Equal(t, tc.want, usageCounts(tc.usage, pod, now), sentence)
	}
}

func TestReadingMeasurements(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}
	for sentence, tc := range map[string]struct {
		write func(t *testing.T, dir spool.Dir)
		want  string
	}{
		"one that is there": {func(t *testing.T, dir spool.Dir) {
			require.NoError(t, spool.Write(dir.Usage(0), spool.Usage{PodUID: "u", Time: time.Now()}))
		}, "u"},
		"none": {func(*testing.T, spool.Dir) {}, ""},
		"half of one": {func(t *testing.T, dir spool.Dir) {
			require.NoError(t, os.WriteFile(dir.Usage(0), []byte(`{"podUID":"u`), 0o600))
		}, ""},
		"a large one": {func(t *testing.T, dir spool.Dir) {
			require.NoError(t, os.WriteFile(dir.Usage(0), make([]byte, 1<<20), 0o600))
		}, ""},
		"a link to one": {func(t *testing.T, dir spool.Dir) { require.NoError(t, os.Symlink("/etc/hostname", dir.Usage(0))) }, ""},
		"a directory":   {func(t *testing.T, dir spool.Dir) { require.NoError(t, os.Mkdir(dir.Usage(0), 0o700)) }, ""},
		"another's place": {func(t *testing.T, dir spool.Dir) {
			require.NoError(t, spool.Write(dir.Usage(0), spool.Usage{PodUID: "v", Time: time.Now()}))
		}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			dir := spool.Dir(t.TempDir())
			require.NoError(t, dir.Create(1))
			tc.write(t, dir)
			u := newUsageReader(&kubeletPods{}, "nvidia.com/gpu")
			usage, _ := u.read(t.Context(), &allocation{site: site.Local{}, dir: dir}, 0, pod)
			assert.Equal(t, tc.want, usage.PodUID)
		})
	}
}

// Whoever sees that a pod is ready may ask at once, and agents measure after they have told.
func TestTheFirstMeasurementIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := time.Now()
		running := func(name string) corev1.ContainerStatus {
			return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}}}
		}
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{UID: "u"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}, {Name: "side"}}},
			Status:     corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{running("main"), running("side")}},
		}
		main, side := spool.ContainerUsage{Name: "main", CPU: 1}, spool.ContainerUsage{Name: "side", CPU: 2}
		of := func(containers ...spool.ContainerUsage) spool.Usage {
			return spool.Usage{PodUID: "u", Time: time.Now(), Containers: containers}
		}
		assert.True(t, lacks(of(main), pod, started))
		assert.False(t, lacks(of(main, side), pod, started))
		assert.False(t, lacks(of(main), pod, started.Add(time.Minute)), "what has run for long will not be measured now")
		assert.False(t, lacks(of(main), pod, started.Add(-time.Minute)), "nor can be told by a clock that is far ahead")

		dir := spool.Dir(t.TempDir())
		require.NoError(t, dir.Create(1))
		require.NoError(t, spool.Write(dir.Usage(0), of(main)))
		u := newUsageReader(&kubeletPods{}, "nvidia.com/gpu")
		a := &allocation{site: site.Local{}, dir: dir}
		assert.Len(t, u.await(t.Context(), started.Add(usageNews), a, 0, pod).Containers, 1)
		assert.Equal(t, usageNews, time.Since(started), "no longer than that")
		time.AfterFunc(usagePace/2, func() { assert.NoError(t, spool.Write(dir.Usage(0), of(main, side))) })
		assert.Len(t, u.await(t.Context(), time.Now().Add(usageNews), a, 0, pod).Containers, 2)
	})
}

func TestAMeasurementTellsOfThePodsOwnOnly(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}, Spec: corev1.PodSpec{
		Containers:          []corev1.Container{{Name: "main"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}},
	}}
	long := strings.Repeat("x", 1000)
	u := spool.Usage{PodUID: "u", Containers: []spool.ContainerUsage{
		{Name: "main", CPU: 1}, {Name: "main", CPU: 2}, {Name: "stray", CPU: 3}, {Name: "debug", CPU: 4},
	}}
	for range 1000 {
		u.Devices = append(u.Devices, spool.DeviceUsage{ID: long, Make: long, Model: long})
	}
	got := boundUsage(u, pod)
	assert.Equal(t, []spool.ContainerUsage{{Name: "main", CPU: 1}, {Name: "debug", CPU: 4}}, got.Containers)
	assert.Len(t, got.Devices, maxDevices)
	assert.Len(t, got.Devices[0].ID, maxDeviceText)
}

func TestDevicesAreTheFirstContainersThatAsksForThem(t *testing.T) {
	asks := func(n string) corev1.Container {
		return corev1.Container{Name: "gpu" + n, Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(n)},
		}}
	}
	for want, containers := range map[string][]corev1.Container{
		"gpu2": {{Name: "plain"}, asks("0"), asks("2"), asks("1")},
		"main": {{Name: "main"}, {Name: "side"}},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
		assert.Equal(t, want, deviceContainer(pod, "nvidia.com/gpu"))
	}
}
