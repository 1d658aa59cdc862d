package preflight

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gangline/gangline/agent/doctor"
	"github.com/gangline/gangline/provider/apierror"
)

const (
	apiServer   = "API server"
	checkReach  = "reachability"
	checkRights = "rights"
)

// Right is one thing that the node must be allowed to do.
type Right struct {
	Verb, Group, Resource, Subresource, Namespace string
}

func (r Right) String() string {
	resource := r.Resource
	if r.Subresource != "" {
		resource += "/" + r.Subresource
	}
	if r.Group != "" {
		resource += "." + r.Group
	}
	if r.Namespace != "" {
		resource += " in " + r.Namespace
	}
	return r.Verb + " " + resource
}

// API is the API server as the node's own user.
type API interface {
	// Hello returns the server's version, and its clock's lead over this machine's.
	Hello(ctx context.Context) (version string, clock doctor.Clock, err error)
	// Allowed tells whether the node may do something.
	Allowed(ctx context.Context, r Right) (bool, error)
}

// rule is several rights at once.
type rule struct {
	groups, resources, verbs string
	namespace                string
}

// rules are what gangline-node does with the API server; the manifest of its roles gives
// the same. own is the node's namespace. Those about certificates are of use only where
// the cluster signs the node's.
func rules(own string, certificates bool) []rule {
	all := []rule{
		{"", "pods", "get list watch delete", ""},
		{"", "pods/status", "patch", ""},
		{"batch", "jobs", "get list watch", ""},
		{"jobset.x-k8s.io", "jobsets", "get list watch", ""},
		{"kubeflow.org", "mpijobs", "get list watch", ""},
		{"leaderworkerset.x-k8s.io", "leaderworkersets", "get list watch", ""},
		{"scheduling.k8s.io scheduling.x-k8s.io scheduling.volcano.sh", "podgroups", "get list watch", ""},
		{"", "configmaps secrets persistentvolumeclaims persistentvolumes", "get", ""},
		{"", "services", "list watch", ""},
		{"", "serviceaccounts/token", "create", ""},
		{"", "nodes", "get list watch create update", ""},
		{"", "nodes/status", "patch", ""},
		{"", "namespaces", "get", ""},
		{"", "events", "create patch", ""},
		{"authentication.k8s.io", "tokenreviews", "create", ""},
		{"authorization.k8s.io", "subjectaccessreviews", "create", ""},
		{"coordination.k8s.io", "leases", "get create update", "kube-node-lease"},
		{"", "secrets", "create", own},
		{"coordination.k8s.io", "leases", "get create update", own},
	}
	if certificates {
		all = append(all, rule{"certificates.k8s.io", "certificatesigningrequests", "create get list watch", ""})
	}
	return all
}

// Rights are all that the node needs, one by one.
func Rights(own string, certificates bool) []Right { return each(rules(own, certificates)) }

// ProvisionerRights are those that making volumes for claims needs beside.
func ProvisionerRights() []Right {
	return each([]rule{
		{"", "persistentvolumeclaims", "list watch", ""},
		{"", "persistentvolumes", "list watch create delete", ""},
		{"storage.k8s.io", "storageclasses", "get", ""},
	})
}

func each(rules []rule) []Right {
	var rights []Right
	for _, rule := range rules {
		groups := strings.Fields(rule.groups)
		if len(groups) == 0 {
			groups = []string{""} // Kubernetes' core
		}
		for _, group := range groups {
			for resource := range strings.FieldsSeq(rule.resources) {
				name, sub, _ := strings.Cut(resource, "/")
				for verb := range strings.FieldsSeq(rule.verbs) {
					rights = append(rights, Right{Verb: verb, Group: group, Resource: name, Subresource: sub, Namespace: rule.namespace})
				}
			}
		}
	}
	return rights
}

// apiTimeout bounds all questions to the API server together.
const apiTimeout = 30 * time.Second

// questions is how many are asked side by side.
const questions = 8

// checkAPI asks the API server who we are and what we may do.
func checkAPI(ctx context.Context, api API, rights []Right) []Line {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	version, clock, err := api.Hello(ctx)
	if err != nil {
		return []Line{bad(apiServer, checkReach, doctor.Fail, apierror.Cure(err), "%v", err)}
	}
	lines := []Line{good(apiServer, checkReach, doctor.OK, "Kubernetes %s answers", version), judgeClock(apiServer, clock)}
	allowed := make([]bool, len(rights))
	group, each := errgroup.WithContext(ctx)
	group.SetLimit(questions)
	for i, r := range rights {
		group.Go(func() error {
			var err error
			allowed[i], err = api.Allowed(each, r)
			if err != nil {
				return fmt.Errorf("asking for the right to %s: %w", r, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return append(lines, bad(apiServer, checkRights, doctor.Fail, apierror.Cure(err), "%v", err))
	}
	return append(lines, judgeRights(rights, allowed))
}

func judgeRights(rights []Right, allowed []bool) Line {
	var missing []string
	for i, r := range rights {
		if !allowed[i] {
			missing = append(missing, r.String())
		}
	}
	if len(missing) > 0 {
		return bad(apiServer, checkRights, doctor.Fail, "give the node's user the roles of gangline-node, and bind them in the namespaces that they are for",
			"%d of %d are missing: %s", len(missing), len(rights), strings.Join(missing, ", "))
	}
	return good(apiServer, checkRights, doctor.OK, "all %d that the node needs", len(rights))
}
