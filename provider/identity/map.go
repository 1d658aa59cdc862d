package identity

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gangline/gangline/translate"
)

// Map is a list of rules. The first that fits counts. Without rules every pod is of the
// provider's own user, with all that the site allows.
type Map []Rule

// Rule says who the pods of some namespaces and ServiceAccounts are. One that names
// neither fits all.
type Rule struct {
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
type Identity struct {
	// User is a login name. It may hold "{namespace}" and "{serviceAccount}". Empty is
	// the provider's own user.
	User string `json:"user,omitempty"`
	// Account, Partition and QOS are for pods that name none; Accounts, Partitions and
	// QOSs are those that pods may name. Where only the first is given, it is the only
	// one.
	Account    string   `json:"account,omitempty"`
	Accounts   []string `json:"accounts,omitempty"`
	Partition  string   `json:"partition,omitempty"`
	Partitions []string `json:"partitions,omitempty"`
	QOS        string   `json:"qos,omitempty"`
	QOSs       []string `json:"qoss,omitempty"`
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
	TimeLimit metav1.Duration `json:"timeLimit,omitempty"`
	// Pods and GPUs bound what a gang has in all.
	Pods int `json:"pods,omitempty"`
	GPUs int `json:"gpus,omitempty"`
}

// Subject is what the rules go by.
type Subject struct {
	Namespace       string
	NamespaceLabels map[string]string
	ServiceAccount  string
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

// Match returns the identity of the first rule that fits. The error says that the pod is
// nobody on the HPC side, and what helps.
func (m Map) Match(s Subject) (Identity, error) {
	if s.ServiceAccount == "" {
		s.ServiceAccount = "default"
	}
	for i, r := range m {
		if !r.fits(s) {
			continue
		}
		id := r.Identity
		id.User = strings.NewReplacer("{namespace}", s.Namespace, "{serviceAccount}", s.ServiceAccount).Replace(id.User)
		if err := checkUser(id.User); err != nil {
			return Identity{}, fmt.Errorf("identity[%d] maps namespace %s and ServiceAccount %s to a user that cannot be: %w", i, s.Namespace, s.ServiceAccount, err)
		}
		return id, nil
	}
	if len(m) == 0 {
		return Identity{}, nil
	}
	return Identity{}, fmt.Errorf("no HPC user is configured for namespace %s with ServiceAccount %s: ask the site's administrator for a rule under identity, or use another namespace or ServiceAccount",
		s.Namespace, s.ServiceAccount)
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

// userName is what login names look like: none of them is a path, an option or a number.
var userName = regexp.MustCompile(`^[a-z_][a-z0-9_.-]*\$?$`)

// longestUser is Linux's bound (useradd(8)).
const longestUser = 32

func checkUser(name string) error {
	switch {
	case name == "":
		return nil
	case name == "root":
		return errors.New("jobs do not run as root")
	case !userName.MatchString(name) || strings.Contains(name, "..") || len(name) > longestUser:
		return fmt.Errorf("%q is no login name", name)
	}
	return nil
}

// Validate checks the rules. Its errors name fields as identity[1].user.
func (m Map) Validate() error {
	var errs []error
	add := func(i int, field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("identity[%d].%s: "+format, append([]any{i, field}, args...)...))
	}
	for i, r := range m {
		plain := strings.NewReplacer("{namespace}", "n", "{serviceAccount}", "s").Replace(r.User)
		if err := checkUser(plain); err != nil {
			add(i, "user", "%w", err)
		}
		for _, pattern := range r.Namespaces {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				add(i, "namespaces", "%q is no name or pattern of namespaces", pattern)
			}
		}
		if r.NamespaceSelector != nil {
			if _, err := metav1.LabelSelectorAsSelector(r.NamespaceSelector); err != nil {
				add(i, "namespaceSelector", "%w", err)
			}
		}
		for _, list := range []struct {
			field, chosen, several string
			allowed                []string
		}{
			{"account", r.Account, "accounts", r.Accounts},
			{"partition", r.Partition, "partitions", r.Partitions},
			{"qos", r.QOS, "qoss", r.QOSs},
		} {
			if list.chosen != "" && len(list.allowed) > 0 && !slices.Contains(list.allowed, list.chosen) {
				add(i, list.field, "%s is not among its %s", list.chosen, list.several)
			}
		}
		if r.Limits.TimeLimit.Duration < 0 || r.Limits.Pods < 0 || r.Limits.GPUs < 0 {
			add(i, "limits", "a limit must not be negative")
		}
		for field, paths := range map[string][]string{"hostPaths": r.HostPaths, "readOnlyHostPaths": r.ReadOnlyHostPaths} {
			for _, p := range paths {
				if !path.IsAbs(p) {
					add(i, field, "%q is no absolute path", p)
				}
			}
		}
		for _, c := range r.Claims {
			if err := c.Validate(); err != nil {
				add(i, "claims", "%w", err)
			}
		}
	}
	return errors.Join(errs...)
}
