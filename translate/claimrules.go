package translate

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"
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
