package translate

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// field is the value of a field of the pod for the downward API, in variables
// and in files.
func (r *resolver) field(path string) (string, error) {
	if name, key, ok := subscript(path); ok {
		switch name {
		case "metadata.labels":
			return r.pod.Labels[key], nil
		case "metadata.annotations":
			return r.pod.Annotations[key], nil
		}
		return "", fmt.Errorf("fieldPath %q does not support subscript", path)
	}
	switch path {
	case "metadata.name":
		return r.pod.Name, nil
	case "metadata.namespace":
		return r.pod.Namespace, nil
	case "metadata.uid":
		return string(r.pod.UID), nil
	case "metadata.labels":
		return quotedLines(r.pod.Labels), nil
	case "metadata.annotations":
		return quotedLines(r.pod.Annotations), nil
	case "spec.nodeName":
		return r.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return r.pod.Spec.ServiceAccountName, nil
	case "status.hostIP", "status.hostIPs":
		return r.in.HostIP, nil
	case "status.podIP", "status.podIPs":
		return r.in.PodIP, nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %s", path)
}

// subscript splits "metadata.labels['key']".
func subscript(path string) (name, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "['")
}

// quotedLines are labels or annotations as a downward API volume shows them:
// sorted lines of key="value".
func quotedLines(m map[string]string) string {
	var lines []string
	for _, k := range sortedKeys(m) {
		lines = append(lines, k+"="+strconv.Quote(m[k]))
	}
	return strings.Join(lines, "\n")
}

// resource is the value of a container's request or limit in units of the
// divisor, rounded up. A missing limit is the pod's own limit, else all that
// the node has to give. The container is the one that the selector names, else
// the one given.
func (r *resolver) resource(s *corev1.ResourceFieldSelector, c *corev1.Container) (string, error) {
	if s.ContainerName != "" {
		if c = r.findContainer(s.ContainerName); c == nil {
			return "", fmt.Errorf("container %s not found", s.ContainerName)
		}
	}
	kind, resourceName, _ := strings.Cut(s.Resource, ".")
	name := corev1.ResourceName(resourceName)
	standard := name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
	known := standard || strings.HasPrefix(resourceName, corev1.ResourceHugePagesPrefix)
	if c == nil || !known || kind != "limits" && kind != "requests" {
		return "", fmt.Errorf("unsupported container resource : %s", s.Resource)
	}
	q := c.Resources.Requests[name]
	if kind == "limits" {
		q = c.Resources.Limits[name]
		// Huge pages are never overcommitted: no limit means none.
		if q.IsZero() && standard {
			q = r.defaultLimit(name)
		}
	}
	divisor := s.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	amount, unit := q.Value(), divisor.Value()
	if name == corev1.ResourceCPU {
		amount, unit = q.MilliValue(), divisor.MilliValue()
	}
	if unit <= 0 {
		return "", fmt.Errorf("the divisor %s of %s is not positive", divisor.String(), s.Resource)
	}
	n := amount / unit
	if amount%unit > 0 {
		n++
	}
	return strconv.FormatInt(n, 10), nil
}

func (r *resolver) defaultLimit(name corev1.ResourceName) resource.Quantity {
	if p := r.pod.Spec.Resources; p != nil && name != corev1.ResourceEphemeralStorage {
		if q := p.Limits[name]; !q.IsZero() {
			return q
		}
	}
	return r.in.NodeAllocatable[name]
}

func (r *resolver) findContainer(name string) *corev1.Container {
	for _, list := range [][]corev1.Container{r.pod.Spec.Containers, r.pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}
