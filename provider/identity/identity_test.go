package identity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/translate"
)

func user(text string) identity.Identity { return identity.Identity{User: text} }

func labelled(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func rules() identity.Map {
	return identity.Map{
		{ServiceAccounts: []string{"ada"}, Namespaces: []string{"ml"}, Identity: user("ada")},
		{Namespaces: []string{"ml", "ml-*"}, Identity: identity.Identity{User: "mlteam", Account: "ml"}},
		{NamespaceSelector: labelled("site", "physics"), Identity: user("phys-{namespace}")},
		{Namespaces: []string{"each"}, Identity: user("{serviceAccount}")},
		{Name: "pairs", Namespaces: []string{"pairs"}, Identity: user("{namespace}_{serviceAccount}")},
		{Namespaces: []string{"again"}, Identity: user("ada")},
	}
}

func TestTheFirstRuleThatFitsCounts(t *testing.T) {
	for sentence, tc := range map[string]struct {
		subject identity.Subject
		user    string
		wrong   string
	}{
		"a ServiceAccount of a namespace":    {identity.Subject{Namespace: "ml", ServiceAccount: "ada"}, "ada", ""},
		"another one":                        {identity.Subject{Namespace: "ml", ServiceAccount: "bob"}, "mlteam", ""},
		"none is called default":             {identity.Subject{Namespace: "ml"}, "mlteam", ""},
		"none is called default in the user": {identity.Subject{Namespace: "pairs"}, "pairs_default", ""},
		"a pattern":                          {identity.Subject{Namespace: "ml-dev"}, "mlteam", ""},
		"a name is no pattern":               {identity.Subject{Namespace: "ml2"}, "", "no HPC user is configured for namespace ml2 with ServiceAccount default"},
		"the same account elsewhere":         {identity.Subject{Namespace: "web", ServiceAccount: "ada"}, "", "no HPC user is configured for namespace web with ServiceAccount ada"},
		"what helps":                         {identity.Subject{Namespace: "web"}, "", "ask the site's administrator for a rule"},
		"a namespace's label":                {identity.Subject{Namespace: "lhc", NamespaceLabels: map[string]string{"site": "physics"}}, "phys-lhc", ""},
		"another label":                      {identity.Subject{Namespace: "lhc", NamespaceLabels: map[string]string{"site": "bio"}}, "", "no HPC user"},
		"a user for each account":            {identity.Subject{Namespace: "each", ServiceAccount: "eve"}, "eve", ""},
		"but not root":                       {identity.Subject{Namespace: "each", ServiceAccount: "root"}, "", "jobs do not run as root"},
		"nor who may do anything in Slurm":   {identity.Subject{Namespace: "each", ServiceAccount: "slurm"}, "", "slurm is the name of a system account"},
		"nor a service":                      {identity.Subject{Namespace: "each", ServiceAccount: "systemd-network"}, "", "system account"},
		"nor what is a number":               {identity.Subject{Namespace: "each", ServiceAccount: "0"}, "", "no login name"},
		"nor what is longer than any name":   {identity.Subject{Namespace: "each", ServiceAccount: "a123456789012345678901234567890123"}, "", "no login name"},
		"nor a way out of a directory":       {identity.Subject{Namespace: "each", ServiceAccount: "a..b"}, "", "no login name"},
		"nor a path":                         {identity.Subject{Namespace: "each", ServiceAccount: "a/b"}, "", "no login name"},
		"nor an option":                      {identity.Subject{Namespace: "each", ServiceAccount: "-u"}, "", "no login name"},
		"a rule is called by its number":     {identity.Subject{Namespace: "each", ServiceAccount: "0"}, "", "identity[3] maps namespace each and ServiceAccount 0"},
		"a rule is called by its name":       {identity.Subject{Namespace: "pairs", ServiceAccount: "a..b"}, "", `the identity rule "pairs" maps namespace pairs`},
	} {
		t.Run(sentence, func(t *testing.T) {
			id, err := rules().Match(tc.subject)
			if tc.wrong != "" {
				assert.ErrorContains(t, err, tc.wrong)
				assert.Equal(t, identity.Identity{}, id)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.user, id.User)
		})
	}
	id, err := identity.Map(nil).Match(identity.Subject{Namespace: "any"})
	require.NoError(t, err, "without rules all are the provider's own")
	assert.Equal(t, identity.Identity{}, id)
}

func TestWhatRulesTellBeforehand(t *testing.T) {
	assert.True(t, rules().NeedsLabels())
	assert.False(t, rules()[:2].NeedsLabels())
	assert.Equal(t, []string{"ada", "mlteam"}, rules().Users())
}

// match is the identity that a rule gives a ServiceAccount "eve" of namespace "lab" on a
// virtual node of partition "cpu".
func match(t *testing.T, id identity.Identity) identity.Identity {
	t.Helper()
	id, err := identity.Map{{Identity: id}}.Match(identity.Subject{Namespace: "lab", ServiceAccount: "eve", Partition: "cpu"})
	require.NoError(t, err)
	return id
}

func TestWhatARuleLeavesOpenIsSettled(t *testing.T) {
	for sentence, tc := range map[string]struct{ rule, want identity.Identity }{
		"nothing is given": {},
		"one is the only one": {
			identity.Identity{Account: "a", Partition: "p", QOS: "q"},
			identity.Identity{Account: "a", Accounts: []string{"a"}, Partition: "p", Partitions: []string{"p"}, QOS: "q", QOSes: []string{"q"}},
		},
		"the first of several is for who names none": {
			identity.Identity{Accounts: []string{"a", "b"}, QOSes: []string{"q", "r"}},
			identity.Identity{Account: "a", Accounts: []string{"a", "b"}, QOS: "q", QOSes: []string{"q", "r"}},
		},
		"the virtual node's partition comes first": {
			identity.Identity{Partitions: []string{"gpu", "cpu"}},
			identity.Identity{Partition: "cpu", Partitions: []string{"gpu", "cpu"}},
		},
		"if it is one of them": {
			identity.Identity{Partitions: []string{"gpu", "big"}},
			identity.Identity{Partition: "gpu", Partitions: []string{"gpu", "big"}},
		},
		"the rule's own choice counts more": {
			identity.Identity{Partition: "gpu", Partitions: []string{"gpu", "cpu"}},
			identity.Identity{Partition: "gpu", Partitions: []string{"gpu", "cpu"}},
		},
		"names are filled in": {
			identity.Identity{User: "u-{namespace}", Accounts: []string{"{namespace}-{serviceAccount}"}, HostPaths: []string{"/scratch/{user}", "/groups/{namespace}"}},
			identity.Identity{User: "u-lab", Account: "lab-eve", Accounts: []string{"lab-eve"}, HostPaths: []string{"/scratch/u-lab", "/groups/lab"}},
		},
		"an empty list is not none": {
			identity.Identity{HostPaths: []string{}}, identity.Identity{HostPaths: []string{}},
		},
	} {
		t.Run(sentence, func(t *testing.T) { assert.Equal(t, tc.want, match(t, tc.rule)) })
	}
}

func TestAMatchDoesNotChangeTheRules(t *testing.T) {
	m := identity.Map{{Identity: identity.Identity{HostPaths: []string{"/data/{namespace}"}, Accounts: []string{"{namespace}"}}}}
	for _, namespace := range []string{"a", "b"} {
		id, err := m.Match(identity.Subject{Namespace: namespace})
		require.NoError(t, err)
		assert.Equal(t, []string{"/data/" + namespace}, id.HostPaths)
		assert.Equal(t, namespace, id.Account)
	}
}

func bounded(t *testing.T) identity.Identity {
	return match(t, identity.Identity{
		Account: "ml", Partitions: []string{"gpu", "cpu"}, QOS: "normal", QOSes: []string{"normal", "high"},
		Limits: identity.Limits{TimeLimit: identity.TimeLimit{Duration: time.Hour}, Pods: 4, GPUs: 8},
	})
}

func TestWishesAreBounded(t *testing.T) {
	for sentence, tc := range map[string]struct {
		wishes translate.Wishes
		want   []string
	}{
		"nothing":                     {},
		"what is allowed":             {translate.Wishes{Account: "ml", Partition: "cpu", QOS: "high", TimeLimit: time.Hour}, nil},
		"another account":             {translate.Wishes{Account: "bio"}, []string{"the account bio is not one of those that the pod's namespace and ServiceAccount may use: ml"}},
		"another partition":           {translate.Wishes{Partition: "big"}, []string{"gpu, cpu"}},
		"another QOS":                 {translate.Wishes{QOS: "top"}, []string{"the qos top"}},
		"more time than there may be": {translate.Wishes{TimeLimit: 2 * time.Hour}, []string{"2h0m0s is above the 1h0m0s"}},
		"no end at all":               {translate.Wishes{TimeLimit: translate.NoTimeLimit}, []string{"UNLIMITED is above the 1h0m0s"}},
		"all at once":                 {translate.Wishes{Account: "bio", QOS: "top", TimeLimit: 2 * time.Hour}, []string{"the account bio", "; the qos top", "; the time limit"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := bounded(t).Refuse(tc.wishes)
			if len(tc.want) == 0 {
				assert.Empty(t, got)
			}
			for _, want := range tc.want {
				assert.Contains(t, got, want)
			}
		})
	}
	assert.Empty(t, identity.Identity{}.Refuse(translate.Wishes{Account: "any", TimeLimit: 1000 * time.Hour}))
}

func TestWhatAGangDoesNotSayIsItsIdentitys(t *testing.T) {
	for sentence, tc := range map[string]struct{ wishes, want translate.Wishes }{
		"nothing":       {translate.Wishes{}, translate.Wishes{Account: "ml", Partition: "cpu", QOS: "normal", TimeLimit: time.Hour}},
		"one QOS":       {translate.Wishes{QOS: "high"}, translate.Wishes{Account: "ml", Partition: "cpu", QOS: "high", TimeLimit: time.Hour}},
		"a shorter job": {translate.Wishes{TimeLimit: time.Minute}, translate.Wishes{Account: "ml", Partition: "cpu", QOS: "normal", TimeLimit: time.Minute}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := bounded(t).Complete(tc.wishes)
			assert.Equal(t, tc.want, got)
			assert.Empty(t, bounded(t).Refuse(got), "what it gives may be had")
		})
	}
	assert.Equal(t, translate.Wishes{}, identity.Identity{}.Complete(translate.Wishes{}))
}

func TestGangsAreBounded(t *testing.T) {
	assert.Empty(t, bounded(t).Exceeds(4, 8))
	assert.Contains(t, bounded(t).Exceeds(5, 8), "its gang has 5 pods")
	assert.Contains(t, bounded(t).Exceeds(4, 9), "9 GPUs")
	assert.Empty(t, identity.Identity{}.Exceeds(1000, 1000))
}
