package translate

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
)

// mounts makes a container's mounts, parents before what lies in them.
func (r *resolver) mounts(c *corev1.Container, env *environment) ([]spool.Mount, error) {
	var mounts []spool.Mount
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(r.volumes, func(v spool.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			return nil, fmt.Errorf("cannot find volume %q to mount into container %q", m.Name, c.Name)
		}
		sub, err := subPath(m, env)
		if err != nil {
			return nil, fmt.Errorf("mount of volume %q at %s: %w", m.Name, m.MountPath, err)
		}
		v := r.volumes[i]
		ofFiles := v.EmptyDir == nil && v.HostPath == ""
		mounts = append(mounts, spool.Mount{
			Volume: m.Name,
			// A kubelet takes a relative path from the root as well.
			Path:    path.Clean("/" + m.MountPath),
			SubPath: sub,
			// Nobody but the node changes the files of a ConfigMap and its like.
			ReadOnly:  m.ReadOnly || ofFiles,
			Recursive: m.ReadOnly && ptr.Deref(m.RecursiveReadOnly, corev1.RecursiveReadOnlyDisabled) != corev1.RecursiveReadOnlyDisabled,
		})
	}
	if own, ok := r.mpiMount(mounts); ok {
		mounts = append(mounts, own)
	}
	slices.SortStableFunc(mounts, func(a, b spool.Mount) int { return cmp.Compare(depth(a.Path), depth(b.Path)) })
	return mounts, nil
}

func depth(p string) int {
	if p == "/" {
		return 0
	}
	return strings.Count(p, "/")
}

// subPath is the path within the volume that is mounted; it stays inside. In
// subPathExpr, unlike elsewhere, each variable must have a value.
func subPath(m corev1.VolumeMount, env *environment) (string, error) {
	sub := m.SubPath
	if m.SubPathExpr != "" {
		var unset []string
		sub = Expand(m.SubPathExpr, func(name string) (string, bool) {
			value, _ := env.get(name)
			if value == "" && !slices.Contains(unset, name) {
				unset = append(unset, name)
			}
			return value, true
		})
		if len(unset) > 0 {
			slices.Sort(unset)
			return "", fmt.Errorf("subPathExpr %q: missing value for %s", m.SubPathExpr, strings.Join(unset, ", "))
		}
	}
	switch {
	case sub == "":
		return "", nil
	case path.IsAbs(sub):
		return "", fmt.Errorf("subPath %q must not be an absolute path", sub)
	case slices.Contains(strings.Split(sub, "/"), ".."):
		return "", fmt.Errorf("subPath %q must not contain \"..\"", sub)
	}
	if sub = path.Clean(sub); sub == "." {
		return "", nil
	}
	return sub, nil
}
