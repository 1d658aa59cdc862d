package provider

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/gangline/gangline/provider/kubelet"
	"github.com/gangline/gangline/provider/spool"
)

const (
	// usageTimeout bounds the reading of what pods use. metrics-server waits for
	// 13.5 s at most.
	usageTimeout = 5 * time.Second
	// usageReads is how many files are read at a time.
	usageReads = 32
	// usageOld is the age from which a measurement is not shown any more, by the
	// HPC node's clock. It is well above the longest pause of an agent between two, a
	// minute and the time that a look takes.
	usageOld = 3 * time.Minute
	// usageNews is how long a call waits for the first measurement of containers that have
	// just started, and usageYoung how long ago that is at most: who sees that a pod is ready
	// may ask at once what its containers use, and an agent measures when it has told of them.
	// A file is read again every usagePace: some sites' filesystems tell of no changes.
	usageNews  = time.Second
	usageYoung = 3 * time.Second
	usagePace  = 100 * time.Millisecond
)

// usageReader reads what the agents have measured.
type usageReader struct {
	pods     *kubeletPods
	registry *registry
	gpu      corev1.ResourceName
	// reading holds a place for each file that is being read; it outlives a call
	// whose files hang.
	reading chan struct{}
}

var _ kubelet.Usages = (*usageReader)(nil)

func newUsageReader(pods *kubeletPods, gpuResource string) *usageReader {
	return &usageReader{
		pods: pods, registry: pods.registry, gpu: corev1.ResourceName(gpuResource),
		reading: make(chan struct{}, usageReads),
	}
}

// Usages reads side by side. What cannot be read in time is left out.
func (u *usageReader) Usages(ctx context.Context) ([]kubelet.PodUsage, error) {
	pods, err := u.pods.List(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, usageTimeout)
	defer cancel()
	type answer struct {
		index int
		usage spool.Usage
	}
	var usages []kubelet.PodUsage
	answers := make(chan answer, len(pods)) // nobody waits for who answers late
	asked, asking := 0, time.Now()
	for _, pod := range pods {
		a, slot, ok := u.registry.find(pod.UID)
		if !ok || terminal(pod) {
			continue
		}
		index := len(usages)
		usages = append(usages, kubelet.PodUsage{Pod: pod, DeviceContainer: deviceContainer(pod, u.gpu)})
		asked++
		go func() { answers <- answer{index, u.await(ctx, asking.Add(usageNews), a, slot, pod)} }()
	}
	for range asked {
		select {
		case answered := <-answers:
			usages[answered.index].Usage = answered.usage
		case <-ctx.Done():
			logr.FromContextOrDiscard(ctx).Info("not all agents' measurements could be read in time", "timeout", usageTimeout)
			return usages, nil
		}
	}
	return usages, nil
}

// await reads a pod's measurement, again until some time if containers that have just started
// are missing from it.
func (u *usageReader) await(ctx context.Context, until time.Time, a *allocation, slot int, pod *corev1.Pod) spool.Usage {
	for {
		usage, err := u.read(ctx, a, slot, pod)
		if err != nil {
			logr.FromContextOrDiscard(ctx).Error(err, "a pod's measurement cannot be read", "pod", pod.Namespace+"/"+pod.Name)
		}
		if now := time.Now(); err != nil || !lacks(usage, pod, now) || !now.Before(until) {
			return usage
		}
		select {
		case <-ctx.Done():
			return usage
		case <-time.After(usagePace):
		}
	}
}

// lacks tells that a container of a pod has just started and is not in a measurement.
func lacks(u spool.Usage, pod *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil && now.Sub(c.State.Running.StartedAt.Time).Abs() < usageYoung &&
			!slices.ContainsFunc(u.Containers, func(m spool.ContainerUsage) bool { return m.Name == c.Name })
	})
}

// read returns the measurement of a pod, an empty one if there is none to show.
func (u *usageReader) read(ctx context.Context, a *allocation, slot int, pod *corev1.Pod) (spool.Usage, error) {
	select {
	case u.reading <- struct{}{}:
	case <-ctx.Done():
		return spool.Usage{}, nil // which is told of all that were late
	}
	defer func() { <-u.reading }()
	var usage spool.Usage
	ok, err := a.read(ctx, a.dir.Usage(slot), &usage)
	if err != nil || !ok || !usageCounts(usage, pod, time.Now()) {
		return spool.Usage{}, err
	}
	return boundUsage(usage, pod), nil
}

// What a measurement tells of devices is bounded: a pod has no more of them on one
// node, and their names become labels of metrics.
const (
	maxDevices    = 64
	maxDeviceText = 128 // bytes
)

// boundUsage leaves out what the pod does not have: its user writes the file, and all
// pods' are in memory at once.
func boundUsage(u spool.Usage, pod *corev1.Pod) spool.Usage {
	named := map[string]bool{}
	for _, name := range containerNames(pod) {
		named[name] = true
	}
	var containers []spool.ContainerUsage
	for _, c := range u.Containers {
		if named[c.Name] {
			named[c.Name] = false // once is enough
			containers = append(containers, c)
		}
	}
	var devices []spool.DeviceUsage
	for _, d := range u.Devices[:min(len(u.Devices), maxDevices)] {
		d.Make, d.Model, d.ID = bounded(d.Make, maxDeviceText), bounded(d.Model, maxDeviceText), bounded(d.ID, maxDeviceText)
		devices = append(devices, d)
	}
	u.Containers, u.Devices = containers, devices
	return u
}

func containerNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.InitContainers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.Containers {
		names = append(names, c.Name)
	}
	for _, c := range pod.Spec.EphemeralContainers {
		names = append(names, c.Name)
	}
	return names
}

// usageCounts tells whether a measurement is the pod's, and of now.
func usageCounts(u spool.Usage, pod *corev1.Pod, now time.Time) bool {
	age := now.Sub(u.Time)
	return u.Version <= spool.Version && u.PodUID == string(pod.UID) && age < usageOld && age > -usageOld
}

// deviceContainer is the first container that asks for devices: all processes of a
// pod see all of its devices, and they must not be counted twice.
func deviceContainer(pod *corev1.Pod, resource corev1.ResourceName) string {
	for _, c := range pod.Spec.Containers {
		if q, ok := c.Resources.Limits[resource]; ok && !q.IsZero() {
			return c.Name
		}
	}
	return pod.Spec.Containers[0].Name
}
