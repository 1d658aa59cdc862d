package translate

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
)

// Claim is a PersistentVolumeClaim and the volume that it is bound to, as the API
// server has them; nil for what does not exist.
type Claim struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
}

// matches tells whether the rule is for a claim's volume, and where the volume is in
// the rule's own directory.
func (r ClaimRule) matches(c Claim) (subdir string, ok bool) {
	pv := c.Volume.Spec
	if r.StorageClass != "" && r.StorageClass != className(c) {
		return "", false
	}
	if r.CSIDriver != "" && (pv.CSI == nil || pv.CSI.Driver != r.CSIDriver) {
		return "", false
	}
	if r.NFS != nil {
		if pv.NFS == nil || pv.NFS.Server != r.NFS.Server {
			return "", false
		}
		return below(r.NFS.Path, pv.NFS.Path)
	}
	if r.HostPath != "" {
		return below(r.HostPath, nodePath(pv))
	}
	return "", true
}

func className(c Claim) string {
	if name := ptr.Deref(c.Claim.Spec.StorageClassName, ""); name != "" {
		return name
	}
	return c.Volume.Spec.StorageClassName
}

func nodePath(pv corev1.PersistentVolumeSpec) string {
	switch {
	case pv.HostPath != nil:
		return pv.HostPath.Path
	case pv.Local != nil:
		return pv.Local.Path
	}
	return ""
}

// below is a path's part below a directory, empty for the directory itself.
func below(dir, p string) (string, bool) {
	if !path.IsAbs(p) || slices.Contains(strings.Split(p, "/"), "..") {
		return "", false
	}
	p = path.Clean(p)
	return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/"), within(dir, p)
}

// directory is where a claim's volume is on the HPC side by the rule.
func (r ClaimRule) directory(c Claim, subdir, user string) (string, error) {
	values := map[string]string{
		fieldNamespace: c.Claim.Namespace, fieldClaim: c.Claim.Name, fieldVolume: c.Volume.Name, fieldUser: user,
	}
	if csi := c.Volume.Spec.CSI; csi != nil {
		values[fieldVolumeHandle] = csi.VolumeHandle
	}
	var err error
	dir := fieldPattern.ReplaceAllStringFunc(r.Path, func(field string) string {
		name := strings.Trim(field, "{}")
		if name == fieldSubdir {
			return subdir
		}
		if !plainName.MatchString(values[name]) {
			err = errors.Join(err, fmt.Errorf("%s is %q, which cannot be the name of a directory", field, values[name]))
		}
		return values[name]
	})
	if dir = path.Clean(dir); err == nil && !within(r.prefix(), dir) {
		err = fmt.Errorf("%s is not in %s", dir, r.prefix())
	}
	return dir, err
}

// mapClaim finds the directory that stands for a bound claim's volume. An error says
// why none does.
func (s Site) mapClaim(c Claim) (string, spool.Host, error) {
	for _, r := range s.ClaimRules {
		subdir, ok := r.matches(c)
		if !ok {
			continue
		}
		dir, err := r.directory(c, subdir, s.User)
		if err != nil {
			return "", spool.Host{}, fmt.Errorf("by the site's rule for %s, %w", r.Path, err)
		}
		host := spool.Host{
			Type:     corev1.HostPathDirectory,
			Allowed:  []spool.AllowedDir{{Path: r.prefix()}},
			ReadOnly: r.ReadOnly || onlyRead(c),
		}
		if r.Create {
			host.Type = corev1.HostPathDirectoryOrCreate
			if host.Mode, err = r.mode(); err != nil {
				return "", spool.Host{}, err
			}
		}
		return dir, host, nil
	}
	return "", spool.Host{}, fmt.Errorf("no rule of the site is for volume %s: %s", c.Volume.Name, describeVolume(c))
}

// onlyRead tells whether a claim's volume is never written.
func onlyRead(c Claim) bool {
	pv := c.Volume.Spec
	switch {
	case pv.CSI != nil && pv.CSI.ReadOnly, pv.NFS != nil && pv.NFS.ReadOnly:
		return true
	}
	modes := c.Claim.Spec.AccessModes
	return len(modes) > 0 && !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool { return m != corev1.ReadOnlyMany })
}

// describeVolume says what a rule for the volume could go by.
func describeVolume(c Claim) string {
	var words []string
	if name := className(c); name != "" {
		words = append(words, fmt.Sprintf("storageClass %q", name))
	}
	pv := c.Volume.Spec
	switch {
	case pv.CSI != nil:
		words = append(words, fmt.Sprintf("csiDriver %q", pv.CSI.Driver))
	case pv.NFS != nil:
		words = append(words, fmt.Sprintf("nfs %s:%s", pv.NFS.Server, pv.NFS.Path))
	case nodePath(pv) != "":
		words = append(words, "hostPath "+nodePath(pv))
	}
	return strings.Join(words, ", ")
}

// usable tells why a claim cannot be mounted yet, in the words of kubelet's volume
// manager (desired_state_of_world_populator.go).
func (c Claim) usable(namespace, name string) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("error processing PVC %s/%s: %w", namespace, name, fmt.Errorf(format, args...))
	}
	claim := c.Claim
	switch {
	case claim == nil:
		return fail("failed to fetch PVC from API server: persistentvolumeclaims %q not found", name)
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protection):
		return fail("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return fail("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return fail("PVC has empty pvc.Spec.VolumeName")
	case c.Volume == nil:
		return fail("failed to fetch PV %s from API server: persistentvolumes %q not found", claim.Spec.VolumeName, claim.Spec.VolumeName)
	case c.Volume.Spec.ClaimRef == nil:
		return fail("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", c.Volume.Name)
	case c.Volume.Spec.ClaimRef.UID != claim.UID:
		return fail("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s",
			c.Volume.Name, c.Volume.Spec.ClaimRef.UID, claim.UID)
	case ptr.Deref(c.Volume.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) != corev1.PersistentVolumeFilesystem:
		return fail("volume %s has volumeMode %s, but is specified in volumeMounts", c.Volume.Name, *c.Volume.Spec.VolumeMode)
	}
	return nil
}

// protection is the finalizer that keeps a claim as long as pods use it.
const protection = "kubernetes.io/pvc-protection"

// claimVolumes are the volumes that are claims and that a container mounts.
func claimVolumes(pod *corev1.Pod) []corev1.Volume {
	return slices.DeleteFunc(mountedVolumes(pod), func(v corev1.Volume) bool { return v.PersistentVolumeClaim == nil })
}

// MountedClaims are the names of the claims that a pod's containers mount.
func MountedClaims(pod *corev1.Pod) []string {
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil }) {
		return nil
	}
	var names []string
	for _, v := range claimVolumes(pod) {
		names = append(names, v.PersistentVolumeClaim.ClaimName)
	}
	return names
}

// UnusableClaim tells why a pod has to wait for one of its claims, nil if it need not.
// The claims are the pod's by name; what is absent does not exist.
func UnusableClaim(pod *corev1.Pod, claims map[string]Claim) *MissingError {
	for _, v := range claimVolumes(pod) {
		name := v.PersistentVolumeClaim.ClaimName
		if err := claims[name].usable(pod.Namespace, name); err != nil {
			return &MissingError{Volume: v.Name, Unattached: true, Message: err.Error()}
		}
	}
	return nil
}

// UnreadableClaim tells that a pod has to wait because its claims could not be read.
func UnreadableClaim(pod *corev1.Pod, err error) *MissingError {
	m := &MissingError{Unattached: true, Message: "failed to fetch PVC from API server: " + err.Error()}
	if volumes := claimVolumes(pod); len(volumes) > 0 {
		m.Volume = volumes[0].Name
	}
	return m
}

// addClaim makes a claim a directory of the HPC side.
func (r *resolver) addClaim(made *spool.Volume, s *corev1.PersistentVolumeClaimVolumeSource) error {
	c := r.in.Claims[s.ClaimName]
	if err := c.usable(r.pod.Namespace, s.ClaimName); err != nil {
		return &MissingError{Unattached: true, Message: err.Error()}
	}
	dir, host, err := r.in.Site.mapClaim(c)
	if err != nil {
		return fmt.Errorf("claim %q: %w", s.ClaimName, err)
	}
	host.ReadOnly = host.ReadOnly || s.ReadOnly
	made.HostPath, made.Host = dir, &host
	return nil
}

// unmappedClaims finds claims that the site's rules do not map. Of one that is not
// bound yet nobody can tell.
func unmappedClaims(field string, pod *corev1.Pod, site Site) []use {
	var uses []use
	for i, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim == nil {
			continue
		}
		u := use{path: fmt.Sprintf("spec.volumes[%d]%s", i, suffix(field))}
		name := v.PersistentVolumeClaim.ClaimName
		if len(site.ClaimRules) == 0 {
			uses = append(uses, u)
			continue
		}
		c := site.Claims[name]
		if c.usable(pod.Namespace, name) != nil {
			continue
		}
		if _, _, err := site.mapClaim(c); err != nil {
			u.detail = fmt.Sprintf("claim %q: %v", name, err)
			uses = append(uses, u)
		}
	}
	return uses
}

// CheckClaims refuses a pod for claims that the site's rules do not map, which may
// show only when the claims have been bound; nil for one whose claims are mapped.
func CheckClaims(pod *corev1.Pod, site Site) *Rejection {
	rule := claimRule()
	uses := rule.uses(rule.field, pod, site)
	if len(uses) == 0 {
		return nil
	}
	return &Rejection{Reason: rule.reason, Field: uses[0].path, Message: rule.refusal(uses[0])}
}
