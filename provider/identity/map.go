package identity

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gangline/gangline/translate"
)

// Map is a list of rules. The first that fits counts. Without rules every pod is of the
// provider's own user, with all that the site allows.
type Map []Rule

// Rule says who the pods of some namespaces and ServiceAccounts are. All of its
// conditions must be met; one without conditions fits all pods.
type Rule struct {
	// Name is for messages; without it they give the rule's number.
	Name string `json:"name,omitempty"`
	// Namespaces are names, or patterns as in "team-*".
	Namespaces []string `json:"namespaces,omitempty"`
	// NamespaceSelector selects namespaces by their labels. Whoever may change those may
	// choose the user.
	NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector,omitempty"`
	// ServiceAccounts are names. Which of a namespace's ServiceAccounts a pod has is its
	// author's choice.
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	Identity        `json:",inline"`
}

// Identity is who a pod is on the HPC side, and what it may use. Empty lists leave the
// choice to the site's settings, and to the workload manager.
//
// In a rule User, Account, Accounts, HostPaths and ReadOnlyHostPaths may hold
// "{namespace}" and "{serviceAccount}", and the paths "{user}" too.
type Identity struct {
	// User is a login name. Empty is the provider's own user.
	User string `json:"user,omitempty"`
	// Account, Partition and QOS are for pods that name none; Accounts, Partitions and
	// QOSes are those that pods may name. Where only the one is given, it is the only
	// one. Where only the several are given, pods that name none get the first, or the
	// virtual node's own partition if it is among them.
	Account    string   `json:"account,omitempty"`
	Accounts   []string `json:"accounts,omitempty"`
	Partition  string   `json:"partition,omitempty"`
	Partitions []string `json:"partitions,omitempty"`
	QOS        string   `json:"qos,omitempty"`
	QOSes      []string `json:"qoses,omitempty"`
	Limits     Limits   `json:"limits,omitempty"`
	// HostPaths, ReadOnlyHostPaths and Claims replace the site's, if they are given. An
	// empty list allows none.
	HostPaths         []string              `json:"hostPaths,omitempty"`
	ReadOnlyHostPaths []string              `json:"readOnlyHostPaths,omitempty"`
	Claims            []translate.ClaimRule `json:"claims,omitempty"`
}

// Limits bound one gang; 0 is no bound.
type Limits struct {
	// TimeLimit bounds the job's time limit, and is that of a gang that names none.
	TimeLimit TimeLimit `json:"timeLimit,omitzero"`
	// Pods and GPUs bound what a gang has in all. A gang has no more nodes than pods.
	Pods int `json:"pods,omitempty"`
	GPUs int `json:"gpus,omitempty"`
}

// Subject is what the rules go by.
type Subject struct {
	Namespace       string
	NamespaceLabels map[string]string
	// ServiceAccount is the pod's; empty is "default", as for Kubernetes.
	ServiceAccount string
	// Partition is the virtual node's own; empty for the workload manager's default.
	Partition string
}

// NeedsLabels tells whether a rule goes by the labels of namespaces.
func (m Map) NeedsLabels() bool {
	return slices.ContainsFunc(m, func(r Rule) bool { return r.NamespaceSelector != nil })
}

// Users are those that rules name outright, in the rules' order.
func (m Map) Users() []string {
	var users []string
	for _, r := range m {
		if r.User != "" && !strings.Contains(r.User, "{") && !slices.Contains(users, r.User) {
			users = append(users, r.User)
		}
	}
	return users
}

// Match returns the identity of the first rule that fits, with all that it leaves open
// settled. The error says that the pod is nobody on the HPC side, and what helps.
func (m Map) Match(s Subject) (Identity, error) {
	s.ServiceAccount = cmp.Or(s.ServiceAccount, "default")
	for i, r := range m {
		if !r.fits(s) {
			continue
		}
		id := r.Identity.of(s)
		if err := checkUser(id.User, r.User); err != nil {
			return Identity{}, fmt.Errorf("%s maps namespace %s and ServiceAccount %s to a user that cannot be: %w; ask the site's administrator for another rule, or use another namespace or ServiceAccount",
				r.title(i), s.Namespace, s.ServiceAccount, err)
		}
		return id, nil
	}
	if len(m) == 0 {
		return Identity{}, nil
	}
	return Identity{}, fmt.Errorf("no HPC user is configured for namespace %s with ServiceAccount %s: ask the site's administrator for a rule under identity, or use another namespace or ServiceAccount",
		s.Namespace, s.ServiceAccount)
}

// title is what messages call a rule.
func (r Rule) title(i int) string {
	if r.Name != "" {
		return fmt.Sprintf("the identity rule %q", r.Name)
	}
	return at(i)
}

func (r Rule) fits(s Subject) bool {
	if len(r.Namespaces) > 0 && !slices.ContainsFunc(r.Namespaces, func(pattern string) bool {
		ok, err := path.Match(pattern, s.Namespace)
		return ok && err == nil
	}) {
		return false
	}
	if len(r.ServiceAccounts) > 0 && !slices.Contains(r.ServiceAccounts, s.ServiceAccount) {
		return false
	}
	if r.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(r.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(s.NamespaceLabels))
}

// The fields that a rule's texts may hold.
const (
	fieldNamespace      = "{namespace}"
	fieldServiceAccount = "{serviceAccount}"
	fieldUser           = "{user}"
)

// of fills a rule's identity in for a subject. Names of namespaces and ServiceAccounts
// are DNS names: neither holds a slash or "..", so none leaves a directory.
func (id Identity) of(s Subject) Identity {
	names := strings.NewReplacer(fieldNamespace, s.Namespace, fieldServiceAccount, s.ServiceAccount)
	id.User = names.Replace(id.User)
	id.Account, id.Accounts = allowed(names.Replace(id.Account), replaceAll(names, id.Accounts), "")
	id.Partition, id.Partitions = allowed(id.Partition, id.Partitions, s.Partition)
	id.QOS, id.QOSes = allowed(id.QOS, id.QOSes, "")
	paths := strings.NewReplacer(fieldNamespace, s.Namespace, fieldServiceAccount, s.ServiceAccount, fieldUser, id.User)
	id.HostPaths, id.ReadOnlyHostPaths = replaceAll(paths, id.HostPaths), replaceAll(paths, id.ReadOnlyHostPaths)
	return id
}

// replaceAll keeps nil apart from an empty list: only that replaces the site's.
func replaceAll(r *strings.Replacer, texts []string) []string {
	texts = slices.Clone(texts)
	for i := range texts {
		texts[i] = r.Replace(texts[i])
	}
	return texts
}

// allowed settles what pods get that name nothing, and what they may name. What they get
// is always one of the latter: a pod gains nothing by saying less.
func allowed(usual string, list []string, preferred string) (string, []string) {
	switch {
	case len(list) == 0 && usual == "":
		return "", nil
	case len(list) == 0:
		return usual, []string{usual}
	case usual == "" && slices.Contains(list, preferred):
		return preferred, list
	case usual == "":
		return list[0], list
	}
	return usual, list
}
