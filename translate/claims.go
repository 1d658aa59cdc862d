package translate

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
)

// ClaimRule maps PersistentVolumes to directories of the HPC side. A volume must be
// as all of the rule's conditions say; at least one is set, but in a default rule.
type ClaimRule struct {
	// Default makes it a rule for all volumes, without conditions. It is the last.
	Default bool `json:"default,omitempty"`

	// StorageClass is the class of the claim.
	StorageClass string `json:"storageClass,omitempty"`
	// CSIDriver is the driver of the volume.
	CSIDriver string `json:"csiDriver,omitempty"`
	// NFS is an export that the volume is, or is in.
	NFS *NFSExport `json:"nfs,omitempty"`
	// HostPath is a directory that the hostPath or local volume is, or is in, as the
	// cluster's nodes see it.
	HostPath string `json:"hostPath,omitempty"`

	// Path is the directory on the HPC nodes that stands for the volume. It may name
	// these fields:
	//
	//	{namespace}, {claim}   the claim's
	//	{volume}               the PersistentVolume's name
	//	{volumeHandle}         the CSI driver's name of the volume; needs csiDriver
	//	{subdir}               where the volume is in nfs.path or hostPath
	//	{user}                 the HPC user that the pod runs as
	//
	// One name of the path may have several fields only with {volume} among them: no two
	// claims share that.
	//
	// What comes before the first field, up to a /, is never left, whatever links
	// there are.
	Path string `json:"path"`
	// ReadOnly lets pods only read.
	ReadOnly bool `json:"readOnly,omitempty"`
	// Create makes the directory, as the HPC user, where it is missing.
	Create bool `json:"create,omitempty"`
	// Mode is that of all directories which are made, as chmod(1) has it in octal digits:
	// "2770". Empty for 0755 without what the umask of the job takes.
	Mode string `json:"mode,omitempty"`
}

// NFSExport is a directory that an NFS server exports.
type NFSExport struct {
	Server string `json:"server"`
	Path   string `json:"path"`
}

// Claim is a PersistentVolumeClaim and the volume that it is bound to, as the API
// server has them; nil for what does not exist.
type Claim struct {
	Claim  *corev1.PersistentVolumeClaim
	Volume *corev1.PersistentVolume
}

// The fields of ClaimRule.Path.
const (
	fieldNamespace    = "namespace"
	fieldClaim        = "claim"
	fieldVolume       = "volume"
	fieldVolumeHandle = "volumeHandle"
	fieldSubdir       = "subdir"
	fieldUser         = "user"
)

var (
	claimFields  = []string{fieldNamespace, fieldClaim, fieldVolume, fieldVolumeHandle, fieldSubdir, fieldUser}
	fieldPattern = regexp.MustCompile(`\{[^{}]*\}`)
	// plainName is what a field but subdir may hold: one name of a directory.
	plainName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]{0,254}$`)
)

// Validate tells what is wrong with a rule.
func (r ClaimRule) Validate() error {
	var errs []error
	require := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	conditions := r.StorageClass != "" || r.CSIDriver != "" || r.NFS != nil || r.HostPath != ""
	require(r.Default || conditions, "a rule for claims needs one of storageClass, csiDriver, nfs and hostPath, or default: true")
	require(!r.Default || !conditions, "a default rule is for all claims: it has no conditions")
	_, err := r.mode()
	require(err == nil, "mode %q must be three or four octal digits in quotes, as in \"2770\", without setuid", r.Mode)
	require(r.Mode == "" || r.Create, "mode is for directories that are made: it needs create: true")
	require(r.NFS == nil || r.NFS.Server != "" && isClean(r.NFS.Path), "nfs needs a server and an absolute path")
	require(r.HostPath == "" || isClean(r.HostPath), "hostPath must be an absolute path, not %q", r.HostPath)
	require(r.NFS == nil || r.HostPath == "", "a volume is not both an NFS export and a path of its node")
	require(isClean(r.Path), "path must be absolute and without // and .., not %q", r.Path)
	require(r.prefix() != "/", "path %q must begin with a directory that is the same for all", r.Path)
	for _, field := range fieldPattern.FindAllString(r.Path, -1) {
		name := strings.Trim(field, "{}")
		require(slices.Contains(claimFields, name), "path %q: there is no field %s, but {%s}", r.Path, field, strings.Join(claimFields, "}, {"))
		require(name != fieldVolumeHandle || r.CSIDriver != "", "path %q: %s needs csiDriver", r.Path, field)
		require(name != fieldSubdir || r.NFS != nil || r.HostPath != "", "path %q: %s needs nfs or hostPath", r.Path, field)
	}
	for name := range strings.SplitSeq(r.Path, "/") {
		// Namespace a with claim b-c, and a-b with c, would share {namespace}-{claim}.
		require(len(fieldPattern.FindAllString(name, -1)) < 2 || strings.Contains(name, "{"+fieldVolume+"}"),
			"path %q: %q may be the same for two claims; write a / between the fields", r.Path, name)
	}
	require(!strings.ContainsAny(fieldPattern.ReplaceAllString(r.Path, ""), "{}"), "path %q: a { or } is not closed", r.Path)
	return errors.Join(errs...)
}

// ValidateClaimRules tells what is wrong with rules, of which the first that fits counts.
func ValidateClaimRules(rules []ClaimRule) error {
	var errs []error
	for i, r := range rules {
		if err := r.Validate(); err != nil {
			errs = append(errs, err)
		}
		if r.Default && i < len(rules)-1 {
			errs = append(errs, fmt.Errorf("the rule for %s is the default, and no claim gets to those after it: put it last", r.Path))
		}
	}
	return errors.Join(errs...)
}

// modePattern is a mode but for setuid, which means nothing on a directory.
var modePattern = regexp.MustCompile(`^[0-3]?[0-7]{3}$`)

// mode is that of directories to make; nil for the usual one.
func (r ClaimRule) mode() (*int32, error) {
	if r.Mode == "" {
		return nil, nil
	}
	if !modePattern.MatchString(r.Mode) {
		return nil, fmt.Errorf("%q is no mode", r.Mode)
	}
	bits, err := strconv.ParseInt(r.Mode, 8, 32)
	return ptr.To(int32(bits)), err //nolint:gosec // four octal digits
}

func isClean(p string) bool { return path.IsAbs(p) && path.Clean(p) == p }

// prefix is the directory that no volume of the rule leaves.
func (r ClaimRule) prefix() string {
	fixed, _, found := strings.Cut(r.Path, "{")
	if !found {
		return r.Path
	}
	return path.Clean(fixed[:strings.LastIndex(fixed, "/")+1])
}

// ClaimDirectories are the directories that the volumes of rules are in.
func ClaimDirectories(rules []ClaimRule) []string {
	var dirs []string
	for _, r := range rules {
		dirs = append(dirs, r.prefix())
	}
	return dirs
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
