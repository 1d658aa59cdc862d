package identity_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/provider/identity"
	"github.com/gangline/gangline/translate"
)

func TestRulesAreChecked(t *testing.T) {
	for sentence, tc := range map[string]struct {
		rule identity.Rule
		want string
	}{
		"root":                          {identity.Rule{Identity: user("root")}, `identity[0].user: jobs do not run as root`},
		"a user's number":               {identity.Rule{Identity: user("1000")}, `identity[0].user: "1000" is no login name`},
		"a user in capitals":            {identity.Rule{Identity: user("Ada")}, `identity[0].user: "Ada" is no login name`},
		"an option for a user":          {identity.Rule{Identity: user("-u")}, `identity[0].user: "-u" is no login name`},
		"a way out of a directory":      {identity.Rule{Identity: user("a..b")}, `identity[0].user: "a..b" is no login name`},
		"a path for a user":             {identity.Rule{Identity: user("a/{namespace}")}, `identity[0].user: "a/{namespace}" is no login name`},
		"a second line":                 {identity.Rule{Identity: user("ada\n")}, `is no login name`},
		"an unknown field":              {identity.Rule{Identity: user("{ns}")}, `identity[0].user: {ns} is none of {namespace}, {serviceAccount}`},
		"a user who may be two":         {identity.Rule{Identity: user("{namespace}-{serviceAccount}")}, `identity[0].user: "{namespace}-{serviceAccount}" may give the same user`},
		"a bad pattern":                 {identity.Rule{Namespaces: []string{"a", "["}}, `identity[0].namespaces[1]: "[" is no name`},
		"a namespace that cannot be":    {identity.Rule{Namespaces: []string{"ML"}}, `identity[0].namespaces[0]: "ML" is no name`},
		"no namespace":                  {identity.Rule{Namespaces: []string{""}}, `identity[0].namespaces[0]: "" is no name`},
		"a pattern of ServiceAccounts":  {identity.Rule{ServiceAccounts: []string{"a-*"}}, `identity[0].serviceAccounts[0]: "a-*" is no name of a ServiceAccount; patterns are for namespaces`},
		"a label that cannot be":        {identity.Rule{NamespaceSelector: labelled("a b", "c")}, `identity[0].namespaceSelector: `},
		"an account that is not its":    {identity.Rule{Identity: identity.Identity{Account: "a", Accounts: []string{"b"}}}, `identity[0].account: a is not among its accounts`},
		"a QOS that is not its":         {identity.Rule{Identity: identity.Identity{QOS: "a", QOSes: []string{"b"}}}, `identity[0].qos: a is not among its qoses`},
		"an account that is an option":  {identity.Rule{Identity: identity.Identity{Account: "-a"}}, `identity[0].account: "-a" is no name`},
		"two partitions in one":         {identity.Rule{Identity: identity.Identity{Partitions: []string{"a,b"}}}, `identity[0].partitions[0]: "a,b" is no name`},
		"no account":                    {identity.Rule{Identity: identity.Identity{Accounts: []string{""}}}, `identity[0].accounts[0]: "" is no name`},
		"a field in a partition":        {identity.Rule{Identity: identity.Identity{Partition: "{namespace}"}}, `identity[0].partition: {namespace} cannot be in it`},
		"a limit below 0":               {identity.Rule{Identity: identity.Identity{Limits: identity.Limits{Pods: -1}}}, `identity[0].limits.pods: a limit must not be negative`},
		"a time limit below 0":          {identity.Rule{Identity: identity.Identity{Limits: identity.Limits{TimeLimit: identity.TimeLimit{Duration: -time.Hour}}}}, `identity[0].limits.timeLimit: a limit`},
		"a relative path":               {identity.Rule{Identity: identity.Identity{HostPaths: []string{"data"}}}, `identity[0].hostPaths[0]: "data" is no absolute path`},
		"a path upwards":                {identity.Rule{Identity: identity.Identity{ReadOnlyHostPaths: []string{"/a", "/a/../b"}}}, `identity[0].readOnlyHostPaths[1]: "/a/../b" is no absolute path`},
		"a field that is not closed":    {identity.Rule{Identity: identity.Identity{HostPaths: []string{"/a/{user"}}}, `identity[0].hostPaths[0]: "/a/{user" is no`},
		"the path of no user":           {identity.Rule{Identity: identity.Identity{HostPaths: []string{"/a/{user}"}}}, `identity[0].hostPaths[0]: it holds {user}, and the rule has no user`},
		"a claim's rule that fits none": {identity.Rule{Identity: identity.Identity{Claims: []translate.ClaimRule{{Path: "/a/{claim}"}}}}, `identity[0].claims[0]: a rule for claims needs one of`},
	} {
		t.Run(sentence, func(t *testing.T) { assert.ErrorContains(t, identity.Map{tc.rule}.Validate(), tc.want) })
	}
	assert.NoError(t, rules().Validate())
	assert.NoError(t, identity.Map(nil).Validate())
	assert.NoError(t, identity.Map{{Identity: identity.Identity{
		User: "u-{namespace}", Account: "{namespace}", HostPaths: []string{"/scratch/{user}/", "/"}, QOSes: []string{"a.b", "c+d"},
	}}}.Validate())
}

func TestARuleThatNoPodGetsToIsAnError(t *testing.T) {
	last := identity.Rule{Name: "all", Identity: user("guest")}
	first := identity.Rule{Namespaces: []string{"ml"}, Identity: user("ml")}
	assert.NoError(t, identity.Map{first, last}.Validate())
	assert.ErrorContains(t, identity.Map{last, first}.Validate(), `identity[1]: no pod gets here, for the identity rule "all" fits all`)
	last = identity.Rule{NamespaceSelector: &metav1.LabelSelector{}, Identity: user("guest")}
	assert.ErrorContains(t, identity.Map{last, first}.Validate(), `identity[1]: no pod gets here, for identity[0] fits all`, "an empty selector selects all")
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	err := identity.Map{{Identity: user("root")}, {ServiceAccounts: []string{"*"}, Identity: user("1")}}.Validate()
	for _, want := range []string{"identity[0].user:", "identity[1].user:", "identity[1].serviceAccounts[0]:", "identity[1]: no pod gets here"} {
		assert.ErrorContains(t, err, want)
	}
}
