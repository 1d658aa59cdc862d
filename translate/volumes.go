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

const (
	// defaultFileMode is Kubernetes' for files of volumes.
	defaultFileMode = corev1.ConfigMapVolumeSourceDefaultMode
	// privateTokenMode is a token's where the pod asks for a user or a group
	// of its own, as with kubelet.
	privateTokenMode = 0o600
)

// allVolumes makes the volumes that containers mount, and the gang's own.
func (r *resolver) allVolumes() ([]spool.Volume, error) {
	var volumes []spool.Volume
	for _, v := range mountedVolumes(r.pod) {
		made, err := r.volume(v)
		if err != nil {
			m := waiting(err)
			m.Volume = v.Name
			return nil, m
		}
		volumes = append(volumes, made)
	}
	if own, ok := r.mpiVolume(); ok {
		volumes = append(volumes, own)
	}
	return volumes, nil
}

func (r *resolver) volume(v corev1.Volume) (spool.Volume, error) {
	made := spool.Volume{Name: v.Name}
	var files payload
	var err error
	switch {
	case v.EmptyDir != nil:
		made.EmptyDir = emptyDir(v.EmptyDir)
		return made, nil
	case v.HostPath != nil:
		made.HostPath = path.Clean(v.HostPath.Path)
		made.Host = &spool.Host{Type: ptr.Deref(v.HostPath.Type, corev1.HostPathUnset), Allowed: r.in.Site.allowedDirs()}
		return made, nil
	case v.PersistentVolumeClaim != nil:
		return made, r.addClaim(&made, v.PersistentVolumeClaim)
	case v.ConfigMap != nil:
		files = newPayload(v.ConfigMap.DefaultMode)
		err = r.addConfigMap(files, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		files = newPayload(v.Secret.DefaultMode)
		err = r.addSecret(files, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.DownwardAPI != nil:
		files = newPayload(v.DownwardAPI.DefaultMode)
		err = r.addDownward(files, v.DownwardAPI.Items)
	case v.Projected != nil:
		files = newPayload(v.Projected.DefaultMode)
		err = r.addProjected(files, v.Projected.Sources)
	default:
		err = errors.New("its source is not supported")
	}
	if err == nil {
		made.Files, err = files.sorted()
	}
	return made, err
}

func emptyDir(s *corev1.EmptyDirVolumeSource) *spool.EmptyDir {
	made := &spool.EmptyDir{Memory: s.Medium == corev1.StorageMediumMemory, Mode: s.Mode}
	if s.SizeLimit != nil && s.SizeLimit.Sign() > 0 {
		made.SizeLimit = s.SizeLimit.String()
	}
	return made
}

// allowedDirs are the directories of the HPC nodes that hostPath volumes may be in.
func (s Site) allowedDirs() []spool.AllowedDir {
	var dirs []spool.AllowedDir
	for _, dir := range s.HostPaths {
		dirs = append(dirs, spool.AllowedDir{Path: path.Clean(dir)})
	}
	for _, dir := range s.ReadOnlyHostPaths {
		dirs = append(dirs, spool.AllowedDir{Path: path.Clean(dir), ReadOnly: true})
	}
	return dirs
}

// addProjected adds the sources in order; where two have a file of the same
// path, the later one's stands.
func (r *resolver) addProjected(files payload, sources []corev1.VolumeProjection) error {
	for _, s := range sources {
		var err error
		switch {
		case s.ConfigMap != nil:
			err = r.addConfigMap(files, s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
		case s.Secret != nil:
			err = r.addSecret(files, s.Secret.Name, s.Secret.Items, s.Secret.Optional)
		case s.DownwardAPI != nil:
			err = r.addDownward(files, s.DownwardAPI.Items)
		case s.ServiceAccountToken != nil:
			err = r.addToken(files, s.ServiceAccountToken)
		default:
			err = errors.New("a projected source is not supported")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) addConfigMap(files payload, name string, items []corev1.KeyToPath, optional *bool) error {
	m, err := r.configMap(name, optional)
	if err != nil || m == nil {
		return err
	}
	data := map[string][]byte{}
	for k, v := range m.BinaryData {
		data[k] = v
	}
	for k, v := range m.Data {
		data[k] = []byte(v)
	}
	return files.addKeys(data, items, optional, "configmap references non-existent config key: %s")
}

func (r *resolver) addSecret(files payload, name string, items []corev1.KeyToPath, optional *bool) error {
	s, err := r.secret(name, optional)
	if err != nil || s == nil {
		return err
	}
	return files.addKeys(s.Data, items, optional, "references non-existent secret key: %s")
}

func (r *resolver) addDownward(files payload, items []corev1.DownwardAPIVolumeFile) error {
	for _, item := range items {
		var value string
		var err error
		switch {
		case item.FieldRef != nil:
			value, err = r.field(item.FieldRef.FieldPath)
		case item.ResourceFieldRef != nil:
			value, err = r.resource(item.ResourceFieldRef, nil)
		}
		if err != nil {
			return fmt.Errorf("file %q: %w", item.Path, err)
		}
		if err := files.add(item.Path, item.Mode, []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) addToken(files payload, s *corev1.ServiceAccountTokenProjection) error {
	key := tokenKey(s)
	token, ok := r.in.Tokens[key]
	if !ok {
		return missing("failed to fetch token: there is none for audience %q", key.Audience)
	}
	var mode *int32
	if r.ownsFiles() {
		mode = ptr.To[int32](privateTokenMode)
	}
	return files.add(s.Path, mode, []byte(token))
}

// ownsFiles tells whether kubelet would give the pod's files an owner: the pod
// has an fsGroup, or all its containers the same user.
func (r *resolver) ownsFiles() bool {
	pod := r.pod.Spec.SecurityContext
	if pod != nil && pod.FSGroup != nil {
		return true
	}
	var user *int64
	same := true
	eachContainer(r.pod, func(_ string, c corev1.Container) {
		var own *int64
		if pod != nil {
			own = pod.RunAsUser
		}
		if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
			own = c.SecurityContext.RunAsUser
		}
		same = same && own != nil && (user == nil || *user == *own)
		user = own
	})
	return same
}

// payload is the files of one volume by their paths.
type payload struct {
	files map[string]spool.File
	mode  int32 // of files that name none
}

func newPayload(mode *int32) payload {
	return payload{files: map[string]spool.File{}, mode: ptr.Deref(mode, defaultFileMode)}
}

// addKeys adds all keys, or those that items list.
func (p payload) addKeys(data map[string][]byte, items []corev1.KeyToPath, optional *bool, missingKey string) error {
	if len(items) == 0 {
		for k, v := range data {
			if err := p.add(k, nil, v); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range items {
		v, ok := data[item.Key]
		if !ok {
			if ptr.Deref(optional, false) {
				continue
			}
			return missing(missingKey, item.Key)
		}
		if err := p.add(item.Path, item.Mode, v); err != nil {
			return err
		}
	}
	return nil
}

func (p payload) add(at string, mode *int32, data []byte) error {
	if err := checkFilePath(at); err != nil {
		return err
	}
	at = path.Clean(at)
	p.files[at] = spool.File{Path: at, Mode: ptr.Deref(mode, p.mode), Data: data}
	return nil
}

// sorted returns the files in the order of their paths. No path may be both a
// file and a directory.
func (p payload) sorted() ([]spool.File, error) {
	var files []spool.File
	for _, at := range sortedKeys(p.files) {
		for dir := path.Dir(at); dir != "."; dir = path.Dir(dir) {
			if _, isFile := p.files[dir]; isFile {
				return nil, fmt.Errorf("%q would be both a file and a directory", dir)
			}
		}
		files = append(files, p.files[at])
	}
	return files, nil
}

// checkFilePath refuses paths that would leave the volume, or that a kubelet
// would refuse as well (names that start with ".." are its atomic writer's).
func checkFilePath(at string) error {
	problem := ""
	switch names := strings.Split(at, "/"); {
	case path.IsAbs(at):
		problem = "must be relative"
	case slices.Contains(names, "..") || strings.HasPrefix(at, ".."):
		problem = `must not contain ".." nor start with it`
	case at == "" || path.Clean(at) == ".":
		problem = "must not be empty"
	case strings.ContainsRune(at, 0):
		problem = "must not contain a NUL byte"
	case len(at) > 4096 || slices.ContainsFunc(names, func(n string) bool { return len(n) > 255 }):
		problem = "is too long"
	}
	if problem != "" {
		return fmt.Errorf("invalid path %q: it %s", at, problem)
	}
	return nil
}
