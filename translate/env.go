package translate

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/translate/rendezvous"
)

// The variables that tell a pod its place in the gang.
const (
	EnvRank = "GANGLINE_RANK" // of its slot, from 0
	EnvSize = "GANGLINE_SIZE" // slots of the gang
)

// environment is a container's variables in the order in which they were first
// set.
type environment struct {
	vars []corev1.EnvVar
	at   map[string]int
	// fixed are the values of variables whatever they are set to.
	fixed map[string]string
}

func (e *environment) set(name, value string) {
	if fixed, ok := e.fixed[name]; ok {
		value = fixed
	}
	if i, ok := e.at[name]; ok {
		e.vars[i].Value = value
		return
	}
	if e.at == nil {
		e.at = map[string]int{}
	}
	e.at[name] = len(e.vars)
	e.vars = append(e.vars, corev1.EnvVar{Name: name, Value: value})
}

func (e *environment) get(name string) (string, bool) {
	i, ok := e.at[name]
	if !ok {
		return "", false
	}
	return e.vars[i].Value, true
}

// addMissing sets the variables that are not set.
func (e *environment) addMissing(vars []corev1.EnvVar) {
	for _, v := range vars {
		if _, ok := e.at[v.Name]; !ok {
			e.set(v.Name, v.Value)
		}
	}
}

// environment makes a container's environment, in which the gang meets at the ports
// that it has. Those are put in before anything refers to them.
func (r *resolver) environment(c *corev1.Container) (*environment, error) {
	env, err := r.variables(c, nil)
	if err != nil || r.in.Port == nil {
		return env, err
	}
	moved := rendezvous.MovePorts(env.get, r.in.Port)
	if len(moved) == 0 {
		return env, nil
	}
	return r.variables(c, moved)
}

// variables makes a container's environment by kubelet's rules
// (makeEnvironmentVariables): envFrom in order, then env in order, where a
// later one wins; then Services and the gang's own where nothing is set. A
// value's $(NAME) sees what was set before it, and those. What is fixed has its
// value wherever it is set.
func (r *resolver) variables(c *corev1.Container, fixed map[string]string) (*environment, error) {
	env := &environment{fixed: fixed}
	for _, from := range c.EnvFrom {
		if err := r.setAll(env, from); err != nil {
			return nil, err
		}
	}
	var fallbacks environment
	fallbacks.addMissing(r.fallbacks)
	lookup := func(name string) (string, bool) {
		if v, ok := env.get(name); ok {
			return v, true
		}
		return fallbacks.get(name)
	}
	for _, v := range c.Env {
		value, ok, err := r.value(c, v, lookup)
		if err != nil {
			return nil, fmt.Errorf("environment variable %s: %w", v.Name, err)
		}
		if ok {
			env.set(v.Name, value)
		}
	}
	env.addMissing(fallbacks.vars)
	for _, v := range env.vars {
		// execve ends a variable at a NUL, and takes the name up to the first "=".
		if strings.ContainsRune(v.Name, 0) || strings.ContainsRune(v.Value, 0) || strings.Contains(v.Name, "=") {
			return nil, fmt.Errorf("environment variable %q: neither its name nor its value may hold a NUL byte, nor its name a =; mount binary data as a file", v.Name)
		}
	}
	return env, nil
}

// setAll sets the variables that a ConfigMap or a Secret has, in the order of
// their keys. No key is skipped, as kubelet does since Kubernetes 1.34; binary
// data of a ConfigMap is none of them.
func (r *resolver) setAll(env *environment, from corev1.EnvFromSource) error {
	if ref := from.ConfigMapRef; ref != nil {
		m, err := r.configMap(ref.Name, ref.Optional)
		if err != nil || m == nil {
			return err
		}
		for _, k := range sortedKeys(m.Data) {
			env.set(from.Prefix+k, m.Data[k])
		}
	}
	if ref := from.SecretRef; ref != nil {
		s, err := r.secret(ref.Name, ref.Optional)
		if err != nil || s == nil {
			return err
		}
		for _, k := range sortedKeys(s.Data) {
			env.set(from.Prefix+k, string(s.Data[k]))
		}
	}
	return nil
}

// value is a variable's value. It reports false for one that is left out,
// because what it comes from is optional and missing.
func (r *resolver) value(c *corev1.Container, v corev1.EnvVar, lookup func(string) (string, bool)) (string, bool, error) {
	from := v.ValueFrom
	switch {
	case v.Value != "" || from == nil:
		return Expand(v.Value, lookup), true, nil
	case from.FieldRef != nil:
		value, err := r.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err := r.resource(from.ResourceFieldRef, c)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		m, err := r.configMap(ref.Name, ref.Optional)
		if err != nil || m == nil {
			return "", false, err
		}
		value, ok := m.Data[ref.Key]
		if !ok && !ptr.Deref(ref.Optional, false) {
			return "", false, missing("couldn't find key %s in ConfigMap %s/%s", ref.Key, r.pod.Namespace, ref.Name)
		}
		return value, ok, nil
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		s, err := r.secret(ref.Name, ref.Optional)
		if err != nil || s == nil {
			return "", false, err
		}
		value, ok := s.Data[ref.Key]
		if !ok && !ptr.Deref(ref.Optional, false) {
			return "", false, missing("couldn't find key %s in Secret %s/%s", ref.Key, r.pod.Namespace, ref.Name)
		}
		return string(value), ok, nil
	}
	return "", false, fmt.Errorf("its source is not supported; use fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef")
}

func (r *resolver) gangVars() []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: EnvRank, Value: strconv.Itoa(r.in.Rank)},
		{Name: EnvSize, Value: strconv.Itoa(r.in.Size)},
	}
}
