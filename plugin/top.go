package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	resourcehelper "k8s.io/component-helpers/resource"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/gangline/gangline/plugin/gangs"
)

// gpuResource are the extended resources that stand for GPUs: nvidia.com/gpu, amd.com/gpu,
// gpu.intel.com/i915.
var gpuResource = regexp.MustCompile(`(^|/)gpu$|^gpu\.`)

// use is what a gang or a pod uses, and has asked for.
type use struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"` // "trainjob/pi", or a pod's
	HPCNode   string `json:"hpcNode,omitempty"`
	// CPU and Memory are nil where they are not known.
	CPU             *resource.Quantity `json:"cpu,omitempty"`
	Memory          *resource.Quantity `json:"memory,omitempty"`
	RequestedCPU    resource.Quantity  `json:"requestedCPU"`
	RequestedMemory resource.Quantity  `json:"requestedMemory"`
	GPUs            int64              `json:"gpus"`
	// GPUPercent is the mean of the GPUs' duty cycles, GPUMemory what is used of theirs.
	GPUPercent *uint64            `json:"gpuPercent,omitempty"`
	GPUMemory  *resource.Quantity `json:"gpuMemory,omitempty"`

	dutyCycles, devices uint64
}

// topCommand shows what gangs use.
func (e *env) topCommand() *cobra.Command {
	var all, byPod bool
	var o output
	cmd := &cobra.Command{
		Use:   "top [GANG...]",
		Short: "Show what running gangs use: processors, memory, GPUs",
		Long: `Shows what running gangs use, beside what they have asked for. The numbers are those of
metrics-server, as for kubectl top; what GPUs do is in the virtual node's own statistics,
which users may read who have the right "get" on "nodes/proxy".`,
		ValidArgsFunction: e.completeGangs(0),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			c, err := e.connect(&e.connection)
			if err != nil {
				return err
			}
			l := lister{env: e, clients: c, all: all}
			if l.refs, err = parseRefs(args); err != nil {
				return err
			}
			found, err := l.list(cmd.Context())
			if err != nil {
				return err
			}
			m := meter{clients: c, errs: cmd.ErrOrStderr(), all: all}
			uses := m.measure(cmd.Context(), l.in(), found, byPod)
			if o.structured() {
				return print(cmd.OutOrStdout(), o.format, "UseList", uses)
			}
			if len(uses) == 0 {
				fmt.Fprintf(cmd.ErrOrStderr(), "No gang runs%s.\n", l.where())
				return nil
			}
			return (&table{out: cmd.OutOrStdout()}).print(m.rows(uses, byPod))
		},
	}
	o.bind(cmd, asJSON, asYAML)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "The gangs of all namespaces")
	cmd.Flags().BoolVar(&byPod, "pods", false, "A line for each pod")
	return cmd
}

// meter finds out what pods use.
type meter struct {
	*clients
	errs io.Writer
	all  bool
}

// measure is what the running pods of gangs use, one for each gang or each pod.
func (m *meter) measure(ctx context.Context, namespace string, found []gangs.Gang, byPod bool) []use {
	var pods []gangs.Pod
	for _, g := range found {
		for _, p := range g.Pods {
			if p.State == gangs.Running {
				pods = append(pods, p)
			}
		}
	}
	if len(pods) == 0 {
		return nil
	}
	measured := m.metrics(ctx, namespace)
	devices := m.devices(ctx, pods)
	var uses []use
	for _, g := range found {
		total := use{Namespace: g.Namespace, Name: g.Ref(), HPCNode: gangs.Hostlist(g.HPCNodes)}
		some := false
		for _, p := range g.Pods {
			if p.State != gangs.Running {
				continue
			}
			one := useOf(p, measured, devices)
			if byPod {
				one.finish()
				uses = append(uses, one)
			}
			total.add(one)
			some = true
		}
		if some && !byPod {
			total.finish()
			uses = append(uses, total)
		}
	}
	return uses
}

// useOf is what one pod uses.
func useOf(p gangs.Pod, measured map[string]corev1.ResourceList, devices map[string][]statsv1alpha1.AcceleratorStats) use {
	pod := p.Object
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	u := use{
		Namespace: pod.Namespace, Name: pod.Name, HPCNode: p.HPCNode,
		RequestedCPU: requests[corev1.ResourceCPU], RequestedMemory: requests[corev1.ResourceMemory], GPUs: gpusOf(requests),
	}
	if list, ok := measured[pod.Namespace+"/"+pod.Name]; ok {
		u.CPU, u.Memory = list.Cpu(), list.Memory()
	}
	for _, d := range devices[string(pod.UID)] {
		u.devices++
		u.dutyCycles += d.DutyCycle
		u.GPUMemory = sum(u.GPUMemory, resource.NewQuantity(int64(d.MemoryUsed), resource.BinarySI))
	}
	return u
}

// gpusOf is the number of GPUs among requests: of whatever vendor's resource.
func gpusOf(requests corev1.ResourceList) int64 {
	n := int64(0)
	for name, q := range requests {
		if gpuResource.MatchString(string(name)) {
			n += q.Value()
		}
	}
	return n
}

func (u *use) add(o use) {
	u.CPU, u.Memory = sum(u.CPU, o.CPU), sum(u.Memory, o.Memory)
	u.RequestedCPU.Add(o.RequestedCPU)
	u.RequestedMemory.Add(o.RequestedMemory)
	u.GPUs += o.GPUs
	u.devices += o.devices
	u.dutyCycles += o.dutyCycles
	u.GPUMemory = sum(u.GPUMemory, o.GPUMemory)
}

func (u *use) finish() {
	if u.devices > 0 {
		mean := u.dutyCycles / u.devices
		u.GPUPercent = &mean
	}
}

// sum adds what is known.
func sum(a, b *resource.Quantity) *resource.Quantity {
	switch {
	case b == nil:
		return a
	case a == nil:
		total := b.DeepCopy()
		return &total
	}
	total := a.DeepCopy()
	total.Add(*b)
	return &total
}

var podMetrics = schema.GroupVersionResource{Group: "metrics.k8s.io", Version: "v1beta1", Resource: "pods"}

// metrics are what metrics-server has measured, by namespace and name. Where it cannot be
// asked, that is explained.
func (m *meter) metrics(ctx context.Context, namespace string) map[string]corev1.ResourceList {
	found, err := m.dynamic.Resource(podMetrics).Namespace(namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		fmt.Fprintln(m.errs, "What processors and memory do is not known: the cluster has no metrics-server. Its administrator can install it; docs/node.md of Gangline says how.")
	case apierrors.IsServiceUnavailable(err):
		fmt.Fprintln(m.errs, "What processors and memory do is not known: metrics-server does not answer. Tell the cluster's administrator.")
	case err != nil:
		fmt.Fprintln(m.errs, "What processors and memory do is not known:", explained(err, "list", "pods.metrics.k8s.io", namespace))
	}
	if err != nil {
		return nil
	}
	measured := map[string]corev1.ResourceList{}
	for _, o := range found.Items {
		total := corev1.ResourceList{}
		data, err := json.Marshal(o.Object["containers"])
		if err != nil {
			continue // it came as JSON
		}
		var containers []struct {
			Usage corev1.ResourceList `json:"usage"`
		}
		if err := json.Unmarshal(data, &containers); err != nil {
			fmt.Fprintf(m.errs, "What pod %s/%s uses cannot be read: %v\n", o.GetNamespace(), o.GetName(), err)
			continue
		}
		for _, c := range containers {
			for name, q := range c.Usage {
				have := total[name]
				have.Add(q)
				total[name] = have
			}
		}
		measured[o.GetNamespace()+"/"+o.GetName()] = total
	}
	return measured
}

// devices are the GPUs of pods, by the pods' UIDs, as their nodes' statistics have them.
// Nodes are asked only if pods have GPUs.
func (m *meter) devices(ctx context.Context, pods []gangs.Pod) map[string][]statsv1alpha1.AcceleratorStats {
	var nodes []string
	for _, p := range pods {
		requests := resourcehelper.PodRequests(p.Object, resourcehelper.PodResourcesOptions{})
		if gpusOf(requests) > 0 && !slices.Contains(nodes, p.Object.Spec.NodeName) {
			nodes = append(nodes, p.Object.Spec.NodeName)
		}
	}
	found := map[string][]statsv1alpha1.AcceleratorStats{}
	for _, node := range nodes {
		var s statsv1alpha1.Summary
		data, err := m.summary(ctx, node)
		if err == nil {
			err = json.Unmarshal(data, &s)
		}
		switch {
		case apierrors.IsForbidden(err):
			fmt.Fprintln(m.errs, "What GPUs do is not shown: you may not read the virtual nodes' statistics (the right \"get\" on \"nodes/proxy\").")
			return found
		case err != nil:
			fmt.Fprintf(m.errs, "What GPUs do is not known: the statistics of node %s cannot be read: %v\n", node, err)
			continue
		}
		for _, p := range s.Pods {
			for _, c := range p.Containers {
				found[p.PodRef.UID] = append(found[p.PodRef.UID], c.Accelerators...)
			}
		}
	}
	return found
}

func (m *meter) rows(uses []use, byPod bool) [][]string {
	titles := []string{"GANG", "NODES", "CPU", "OF", "MEMORY", "OF", "GPUS", "GPU%", "GPU MEMORY"}
	if byPod {
		titles[0], titles[1] = "POD", "NODE"
	}
	if m.all {
		titles = append([]string{"NAMESPACE"}, titles...)
	}
	rows := [][]string{titles}
	for _, u := range uses {
		percent := "-"
		if u.GPUPercent != nil {
			percent = fmt.Sprintf("%d%%", *u.GPUPercent)
		}
		row := []string{u.Name, u.HPCNode, cores(u.CPU), cores(&u.RequestedCPU), mebibytes(u.Memory), mebibytes(&u.RequestedMemory),
			fmt.Sprint(u.GPUs), percent, mebibytes(u.GPUMemory)}
		if m.all {
			row = append([]string{u.Namespace}, row...)
		}
		rows = append(rows, row)
	}
	return rows
}

// cores and mebibytes show quantities as kubectl top does; "-" stands for one that is not known.
func cores(q *resource.Quantity) string {
	if q == nil {
		return "-"
	}
	return fmt.Sprintf("%dm", q.MilliValue())
}

func mebibytes(q *resource.Quantity) string {
	if q == nil {
		return "-"
	}
	return fmt.Sprintf("%dMi", q.Value()>>20)
}
