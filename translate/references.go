package translate

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Refs are the objects that a pod's orders are made of: exactly what must be
// fetched, by name.
type Refs struct {
	// ConfigMaps and Secrets are in the pod's namespace, sorted by name.
	ConfigMaps []Ref
	Secrets    []Ref
	// Tokens are ServiceAccount tokens, bound to the pod.
	Tokens []TokenKey
	// Claims are PersistentVolumeClaims in the pod's namespace, in the pod's order.
	Claims []string
	// ServiceLinks asks for all Services of the namespace; the Service
	// default/kubernetes is needed by every pod.
	ServiceLinks bool
}

// Ref names an object. It is optional if the pod can do without it wherever it
// names it.
type Ref struct {
	Name     string
	Optional bool
}

// TokenKey is what tells tokens of one pod apart.
type TokenKey struct {
	Audience          string // empty for the API server's
	ExpirationSeconds int64
}

// defaultTokenSeconds is the lifetime of a token that names none (the API's
// default).
const defaultTokenSeconds = 3600

// References lists what a pod's environment and volumes name. A volume that no
// container mounts is not looked at, as with kubelet.
func References(pod *corev1.Pod) Refs {
	f := newFinder()
	eachContainer(pod, func(_ string, c corev1.Container) { f.environment(c) })
	f.volumes(mountedVolumes(pod))
	refs := f.refs()
	refs.ServiceLinks = ptr.Deref(pod.Spec.EnableServiceLinks, true)
	refs.Claims = MountedClaims(pod)
	return refs
}

// RefreshReferences lists what the volumes name that follow changes while the pod
// runs (see Refresh).
func RefreshReferences(pod *corev1.Pod) Refs {
	f := newFinder()
	f.volumes(FollowingVolumes(pod))
	return f.refs()
}

// refFinder gathers what parts of a pod name.
type refFinder struct {
	configMaps, secrets refSet
	tokens              map[TokenKey]bool
}

func newFinder() refFinder { return refFinder{refSet{}, refSet{}, map[TokenKey]bool{}} }

func (f refFinder) environment(c corev1.Container) {
	for _, from := range c.EnvFrom {
		if r := from.ConfigMapRef; r != nil {
			f.configMaps.add(r.Name, r.Optional)
		}
		if r := from.SecretRef; r != nil {
			f.secrets.add(r.Name, r.Optional)
		}
	}
	for _, e := range c.Env {
		if e.Value != "" || e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			f.configMaps.add(r.Name, r.Optional)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			f.secrets.add(r.Name, r.Optional)
		}
	}
}

func (f refFinder) volumes(volumes []corev1.Volume) {
	for _, v := range volumes {
		if s := v.ConfigMap; s != nil {
			f.configMaps.add(s.Name, s.Optional)
		}
		if s := v.Secret; s != nil {
			f.secrets.add(s.SecretName, s.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, p := range v.Projected.Sources {
			if s := p.ConfigMap; s != nil {
				f.configMaps.add(s.Name, s.Optional)
			}
			if s := p.Secret; s != nil {
				f.secrets.add(s.Name, s.Optional)
			}
			if s := p.ServiceAccountToken; s != nil {
				f.tokens[tokenKey(s)] = true
			}
		}
	}
}

func (f refFinder) refs() Refs {
	return Refs{
		ConfigMaps: f.configMaps.sorted(),
		Secrets:    f.secrets.sorted(),
		Tokens: slices.SortedFunc(maps.Keys(f.tokens), func(a, b TokenKey) int {
			return cmp.Or(cmp.Compare(a.Audience, b.Audience), cmp.Compare(a.ExpirationSeconds, b.ExpirationSeconds))
		}),
	}
}

// refSet maps names to whether they are optional.
type refSet map[string]bool

func (s refSet) add(name string, optional *bool) {
	known, seen := s[name]
	s[name] = ptr.Deref(optional, false) && (known || !seen)
}

func (s refSet) sorted() []Ref {
	var refs []Ref
	for _, name := range sortedKeys(s) {
		refs = append(refs, Ref{Name: name, Optional: s[name]})
	}
	return refs
}

func tokenKey(s *corev1.ServiceAccountTokenProjection) TokenKey {
	return TokenKey{Audience: s.Audience, ExpirationSeconds: ptr.Deref(s.ExpirationSeconds, defaultTokenSeconds)}
}

// mountedVolumes are the volumes that a container mounts, in the pod's order.
func mountedVolumes(pod *corev1.Pod) []corev1.Volume {
	mounted := map[string]bool{}
	eachContainer(pod, func(_ string, c corev1.Container) {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
		}
	})
	var volumes []corev1.Volume
	for _, v := range pod.Spec.Volumes {
		if mounted[v.Name] {
			volumes = append(volumes, v)
		}
	}
	return volumes
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
