package rights

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const manifest = `
apiVersion: v1
kind: Namespace
metadata: {name: home}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: us}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get, list]}
- {apiGroups: [""], resources: [pods/status], verbs: [patch]}
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: us, namespace: home}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [ours], verbs: [update]}
- {apiGroups: [""], resources: [secrets], verbs: [get, create]}
`

func TestUnused(t *testing.T) {
	granted, err := Granted([]byte(manifest))
	require.NoError(t, err)
	for name, test := range map[string]struct {
		asked  []Right
		unused []string
	}{
		"nothing was asked": {
			nil, []string{"create secrets in home", "get pods", "get secrets", "get secrets in home", "list pods", "patch pods/status", "update leases.coordination.k8s.io named ours in home"},
		},
		"all was": {
			[]Right{
				{Namespace: "a", Verb: "get", Resource: "pods", Name: "p"}, {Verb: "list", Resource: "pods"},
				{Namespace: "a", Verb: "patch", Resource: "pods/status", Name: "p"},
				{Namespace: "home", Verb: "get", Resource: "secrets", Name: "s"}, {Namespace: "home", Verb: "create", Resource: "secrets"},
				{Namespace: "home", Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "ours"},
			}, nil,
		},
		"something like it was, elsewhere": {
			[]Right{
				{Namespace: "a", Verb: "get", Resource: "pods", Name: "p"}, {Verb: "list", Resource: "pods"},
				{Namespace: "a", Verb: "patch", Resource: "pods", Name: "p"},
				{Namespace: "a", Verb: "get", Resource: "secrets", Name: "s"}, {Namespace: "home", Verb: "create", Resource: "secrets"},
				{Namespace: "home", Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "theirs"},
			}, []string{"get secrets in home", "patch pods/status", "update leases.coordination.k8s.io named ours in home"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, test.unused, texts(Unused(granted, test.asked)))
		})
	}
}

func texts(all []Right) []string {
	var texts []string
	for _, r := range all {
		texts = append(texts, r.String())
	}
	return texts
}

func TestAWatchMayNeedAList(t *testing.T) {
	asked := []Right{{Verb: "get", Resource: "nodes"}, {Verb: "watch", Resource: "pods"}}
	assert.Equal(t, []Right{{Verb: "get", Resource: "nodes"}, {Verb: "watch", Resource: "pods"}, {Verb: "list", Resource: "pods"}}, WithLists(asked))
}

func TestTwice(t *testing.T) {
	granted, err := Granted([]byte(manifest + `- {apiGroups: [""], resources: [secrets], verbs: [create]}` + "\n"))
	require.NoError(t, err)
	assert.Equal(t, []string{"create secrets in home", "get secrets in home"}, texts(Twice(granted)))
}

// TestNothingIsGrantedTwice in our own roles.
func TestNothingIsGrantedTwice(t *testing.T) {
	for _, program := range []string{"controller", "node"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "charts", "manifests", program, "rbac.yaml"))
		require.NoError(t, err)
		granted, err := Granted(text)
		require.NoError(t, err)
		assert.NotEmpty(t, granted)
		assert.Empty(t, texts(Twice(granted)), program)
		for _, r := range granted {
			assert.NotContains(t, r.String(), "*", program)
		}
	}
}

func TestRead(t *testing.T) {
	const log = `{"verb":"get","user":{"username":"us"},"objectRef":{"namespace":"a","resource":"pods","name":"p","apiVersion":"v1"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"us"},"objectRef":{"namespace":"a","resource":"pods","name":"p","apiVersion":"v1"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"us"},"requestURI":"/version"}
{"verb":"patch","user":{"username":"us"},"objectRef":{"apiGroup":"jobset.x-k8s.io","resource":"jobsets","subresource":"status","name":"j"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"list","user":{"username":"them"},"objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"li`
	asked, err := Read(strings.NewReader(log))
	require.NoError(t, err)
	assert.Equal(t, map[string]Asked{
		"us": {
			Allowed: []Right{{Namespace: "a", Verb: "get", Resource: "pods", Name: "p"}},
			Refused: []Right{{Verb: "patch", Group: "jobset.x-k8s.io", Resource: "jobsets/status", Name: "j"}},
		},
		"them": {Allowed: []Right{{Verb: "list", Resource: "nodes"}}},
	}, asked)

	_, err = Read(strings.NewReader("no JSON\n"))
	assert.ErrorContains(t, err, "reading the audit log")
}
