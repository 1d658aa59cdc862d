package identity

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Validate checks the rules. It joins errors that begin with the path of a field of the
// configuration, such as identity[1].user.
func (m Map) Validate() error {
	var errs []error
	for i, r := range m {
		for _, p := range r.problems() {
			errs = append(errs, fmt.Errorf("%s.%s: %w", at(i), p.field, p.err))
		}
	}
	if i := slices.IndexFunc(m, Rule.fitsAll); i >= 0 && i < len(m)-1 {
		errs = append(errs, fmt.Errorf("%s: no pod gets here, for %s fits all: put that last, or give it conditions", at(i+1), m[i].title(i)))
	}
	return errors.Join(errs...)
}

func at(i int) string { return fmt.Sprintf("identity[%d]", i) }

func (r Rule) fitsAll() bool {
	return len(r.Namespaces) == 0 && len(r.ServiceAccounts) == 0 &&
		(r.NamespaceSelector == nil || len(r.NamespaceSelector.MatchLabels)+len(r.NamespaceSelector.MatchExpressions) == 0)
}

// problem is what is wrong with a field of a rule.
type problem struct {
	field string
	err   error
}

func (r Rule) problems() []problem {
	return slices.Concat(r.badConditions(), r.badTexts(), r.badChoices(), r.badLimits(), r.badPaths())
}

func (r Rule) badConditions() []problem {
	var all []problem
	for i, pattern := range r.Namespaces {
		_, err := path.Match(pattern, "")
		plain := !strings.ContainsAny(pattern, `*?[\`)
		if err != nil || plain && len(validation.IsDNS1123Label(pattern)) > 0 {
			all = append(all, problem{indexed("namespaces", i), fmt.Errorf("%q is no name or pattern of namespaces", pattern)})
		}
	}
	for i, name := range r.ServiceAccounts {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			all = append(all, problem{indexed("serviceAccounts", i), fmt.Errorf("%q is no name of a ServiceAccount; patterns are for namespaces", name)})
		}
	}
	if r.NamespaceSelector != nil {
		if _, err := metav1.LabelSelectorAsSelector(r.NamespaceSelector); err != nil {
			all = append(all, problem{"namespaceSelector", err})
		}
	}
	return all
}

func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }

// text is a text of a rule's that may hold fields.
type text struct {
	field, value string
	fields       []string
}

// texts are all of a rule's texts. What may hold no fields is the workload manager's to
// name.
func (r Rule) texts() []text {
	names := []string{fieldNamespace, fieldServiceAccount}
	texts := []text{{"user", r.User, names}, {"account", r.Account, names}, {"partition", r.Partition, nil}, {"qos", r.QOS, nil}}
	for _, list := range []struct {
		field  string
		values []string
		fields []string
	}{
		{"accounts", r.Accounts, names},
		{"partitions", r.Partitions, nil},
		{"qoses", r.QOSes, nil},
		{"hostPaths", r.HostPaths, append(names, fieldUser)},
		{"readOnlyHostPaths", r.ReadOnlyHostPaths, append(names, fieldUser)},
	} {
		for i, value := range list.values {
			texts = append(texts, text{indexed(list.field, i), value, list.fields})
		}
	}
	return texts
}

var (
	fieldPattern = regexp.MustCompile(`\{[^{}]*\}`)
	// siteName is a name of an account, a partition or a QOS, with fields left out.
	// It begins with no dash, so that none reads as an option.
	siteName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+@-]*$`)
)

func (r Rule) badTexts() []problem {
	var all []problem
	for _, t := range r.texts() {
		for _, field := range fieldPattern.FindAllString(t.value, -1) {
			if !slices.Contains(t.fields, field) {
				all = append(all, problem{t.field, unknownField(field, t.fields)})
			}
		}
		plain := fieldPattern.ReplaceAllString(t.value, "x")
		switch {
		case t.field == "user":
			if err := checkUserText(t.value); err != nil {
				all = append(all, problem{t.field, err})
			}
		case strings.HasPrefix(t.field, "hostPaths") || strings.HasPrefix(t.field, "readOnlyHostPaths"):
			if !cleanPath(plain) {
				all = append(all, problem{t.field, fmt.Errorf("%q is no absolute path without .. and single { or }", t.value)})
			}
		case t.value == "" && !strings.Contains(t.field, "["): // not given
		case !siteName.MatchString(plain):
			all = append(all, problem{t.field, fmt.Errorf("%q is no name", t.value)})
		}
		if r.User == "" && strings.Contains(t.value, fieldUser) {
			all = append(all, problem{t.field, errors.New("it holds {user}, and the rule has no user")})
		}
	}
	return all
}

// cleanPath tells whether a path, with fields left out, is absolute and means what it says.
func cleanPath(p string) bool {
	return path.IsAbs(p) && (p == "/" || path.Clean(p) == strings.TrimSuffix(p, "/")) && !strings.ContainsAny(p, "{}")
}

func unknownField(field string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("%s cannot be in it", field)
	}
	return fmt.Errorf("%s is none of %s", field, strings.Join(known, ", "))
}

func (r Rule) badChoices() []problem {
	var all []problem
	for _, c := range r.choices() {
		if c.usual != "" && len(c.allowed) > 0 && !slices.Contains(c.allowed, c.usual) {
			all = append(all, problem{c.what, fmt.Errorf("%s is not among its %s", c.usual, c.several)})
		}
	}
	return all
}

func (r Rule) badLimits() []problem {
	var all []problem
	for _, limit := range []struct {
		field string
		value int64
	}{
		{"timeLimit", int64(r.Limits.TimeLimit.Duration)}, {"pods", int64(r.Limits.Pods)}, {"gpus", int64(r.Limits.GPUs)},
	} {
		if limit.value < 0 {
			all = append(all, problem{"limits." + limit.field, errors.New("a limit must not be negative; leave it out for none")})
		}
	}
	return all
}

func (r Rule) badPaths() []problem {
	var all []problem
	for i, c := range r.Claims {
		if err := c.Validate(); err != nil {
			all = append(all, problem{indexed("claims", i), err})
		}
		if c.Default && i < len(r.Claims)-1 {
			all = append(all, problem{indexed("claims", i), errors.New("it is the default, and no claim gets to those after it: put it last")})
		}
	}
	return all
}
