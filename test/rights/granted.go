package rights

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Right is one verb on one resource.
type Right struct {
	// Namespace is where it holds; empty for everywhere.
	Namespace string
	Verb      string
	// Group and Resource, which may be "pods/status".
	Group, Resource string
	// Name is the only object that it is for; empty for all.
	Name string
}

// String is "get secrets/NAME in NAMESPACE", with the group behind a dot.
func (r Right) String() string {
	text := r.Verb + " " + r.Resource
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " named " + r.Name
	}
	if r.Namespace != "" {
		text += " in " + r.Namespace
	}
	return text
}

// covers tells whether r is all that o is.
func (r Right) covers(o Right) bool {
	return r.Verb == o.Verb && r.Group == o.Group && r.Resource == o.Resource &&
		(r.Namespace == "" || r.Namespace == o.Namespace) && (r.Name == "" || r.Name == o.Name)
}

// Granted are the rights in the Roles and ClusterRoles of a manifest.
func Granted(manifest []byte) ([]Right, error) {
	var all []Right
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var role rbacv1.Role // a ClusterRole reads as one without a namespace
		err := documents.Decode(&role)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading a role: %w", err)
		}
		if role.Kind != "Role" && role.Kind != "ClusterRole" {
			continue
		}
		for _, rule := range role.Rules {
			all = append(all, rights(role.Namespace, rule)...)
		}
	}
}

func rights(namespace string, rule rbacv1.PolicyRule) []Right {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Right
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, Right{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Name: name})
				}
			}
		}
	}
	return all
}

// Twice are the rights that another one includes.
func Twice(granted []Right) []Right {
	var twice []Right
	for i, r := range granted {
		for j, other := range granted {
			if i != j && other.covers(r) && (i > j || !r.covers(other)) {
				twice = append(twice, r)
				break
			}
		}
	}
	return sorted(twice)
}

// Unused are the rights that no request needed.
func Unused(granted, asked []Right) []Right {
	var unused []Right
	for _, r := range granted {
		if !slices.ContainsFunc(asked, r.covers) {
			unused = append(unused, r)
		}
	}
	return sorted(unused)
}

// WithLists adds a list to each watch: who watches begins with a list where the API
// server does not stream one, as ours does (feature WatchList).
func WithLists(asked []Right) []Right {
	all := slices.Clone(asked)
	for _, r := range asked {
		if r.Verb == "watch" {
			r.Verb = "list"
			all = append(all, r)
		}
	}
	return all
}

func sorted(all []Right) []Right {
	slices.SortFunc(all, func(a, b Right) int { return strings.Compare(a.String(), b.String()) })
	return all
}
