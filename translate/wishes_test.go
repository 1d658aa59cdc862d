package translate

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gangline/gangline/test/golden"
	"github.com/gangline/gangline/translate/wellknown"
)

func TestParseWishes(t *testing.T) {
	type annotations = map[string]string
	for name, tc := range map[string]struct {
		pod, owner annotations
		want       Wishes
	}{
		"nothing asked, nothing wished": {},
		"all of ours on the pod": {
			pod: annotations{
				wellknown.AnnotationPartition: "gpu", wellknown.AnnotationAccount: "proj_1", wellknown.AnnotationQOS: "long.2",
				wellknown.AnnotationTimeLimit: "1-12:00:00", wellknown.AnnotationConstraint: "[rack1*4&rack2*4]|!old",
				wellknown.AnnotationReservation: "course", wellknown.AnnotationNodesExclusive: "true",
			},
			want: Wishes{
				Partition: "gpu", Account: "proj_1", QOS: "long.2", TimeLimit: 36 * time.Hour,
				Constraint: "[rack1*4&rack2*4]|!old", Reservation: "course", Exclusive: true,
			},
		},
		"all that is new": {
			pod: annotations{
				wellknown.AnnotationTimeLimitWarning: "5m", wellknown.AnnotationGPUType: "h100", wellknown.AnnotationLicenses: "ansys@db:2,matlab",
				wellknown.AnnotationSwitches: "1@2:00:00", wellknown.AnnotationMinNodes: "2", wellknown.AnnotationMaxNodes: "4",
				wellknown.AnnotationNice: "100", wellknown.AnnotationComment: "Ada's 3rd run: é", wellknown.AnnotationWCKey: "key",
				wellknown.AnnotationDependsOn: "Pod/first",
			},
			want: Wishes{
				TimeLimitWarning: 5 * time.Minute, GPUType: "h100", Licenses: "ansys@db:2,matlab", Switches: Switches{1, 2 * time.Hour},
				MinNodes: 2, MaxNodes: 4, Nice: 100, Comment: "Ada's 3rd run: é", WCKey: "key",
				DependsOn: []Dependency{{"afterok", "Pod", "first"}},
			},
		},
		"no warning at all": {
			pod: annotations{wellknown.AnnotationTimeLimitWarning: "0"}, want: Wishes{TimeLimitWarning: NoTimeLimitWarning},
		},
		"all of slurm-bridge's on the owner": {
			owner: annotations{
				wellknown.SlurmBridgePrefix + "partition": "gpu", wellknown.SlurmBridgePrefix + "account": "a", wellknown.SlurmBridgePrefix + "qos": "q",
				wellknown.SlurmBridgePrefix + "timelimit": "90", wellknown.SlurmBridgePrefix + "constraints": "ib&gpu", wellknown.SlurmBridgePrefix + "reservation": "r",
				wellknown.SlurmBridgePrefix + "exclusive": "true", wellknown.SlurmBridgePrefix + "gres": "gpu:1",
				wellknown.SlurmBridgePrefix + "licenses": "l", wellknown.SlurmBridgePrefix + "wckey": "w",
				wellknown.SlurmBridgePrefix + "min-nodes": "1", wellknown.SlurmBridgePrefix + "max-nodes": "1",
			},
			want: Wishes{
				Partition: "gpu", Account: "a", QOS: "q", TimeLimit: 90 * time.Minute,
				Constraint: "ib&gpu", Reservation: "r", Exclusive: true, Licenses: "l", WCKey: "w", MinNodes: 1, MaxNodes: 1,
			},
		},
		"the pod's comes before the owner's": {
			pod: annotations{wellknown.AnnotationQOS: "mine"}, owner: annotations{wellknown.AnnotationQOS: "its", wellknown.AnnotationAccount: "a"},
			want: Wishes{QOS: "mine", Account: "a"},
		},
		"ours on the owner comes before slurm-bridge's on the pod": {
			pod: annotations{wellknown.SlurmBridgePrefix + "qos": "bridge"}, owner: annotations{wellknown.AnnotationQOS: "ours"},
			want: Wishes{QOS: "ours"},
		},
		"how ranks start, the pod's way before its owner's": {
			pod:   annotations{wellknown.AnnotationMPILaunch: "ssh"},
			owner: annotations{wellknown.AnnotationMPILaunch: "srun", wellknown.AnnotationMPIPMI: "pmix_v4"},
			want:  Wishes{MPILaunch: "ssh", MPIPMI: "pmix_v4"},
		},
		"an empty one counts as absent": {
			pod: annotations{wellknown.AnnotationQOS: ""}, owner: annotations{wellknown.AnnotationQOS: "q"},
			want: Wishes{QOS: "q"},
		},
		"exclusive may be declined": {
			pod: annotations{wellknown.AnnotationNodesExclusive: "false"}, owner: annotations{wellknown.AnnotationNodesExclusive: "true"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, rejection := ParseWishes(tc.pod, tc.owner, Offer{Partitions: []string{"cpu", "gpu"}, GPUTypes: []string{"h100"}})
			require.Nil(t, rejection)
			assert.Equal(t, tc.want, got)
		})
	}
}

func TestParseWishesRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		annotation, value string
		reason, message   string
	}{
		"a launch mode that does not exist": {
			wellknown.AnnotationMPILaunch, "rsh", wellknown.ReasonBadAnnotation, `is "rsh": write "ssh" or "srun".`,
		},
		"a protocol that does not exist": {
			wellknown.AnnotationMPIPMI, "pmi2 --x", wellknown.ReasonBadAnnotation, "is none of pmix",
		},
		"a partition that is not offered": {
			wellknown.AnnotationPartition, "secret", wellknown.ReasonUnknownPartition, "Ask for one of these: cpu, gpu.",
		},
		"two partitions": {wellknown.AnnotationPartition, "cpu,gpu", wellknown.ReasonBadAnnotation, "write one name"},
		"an option in the guise of a name": {
			wellknown.AnnotationAccount, "--uid=0", wellknown.ReasonBadAnnotation, "write one name",
		},
		"a space in a name":               {wellknown.AnnotationQOS, "a b", wellknown.ReasonBadAnnotation, `is "a b": write one name`},
		"a line break in a name":          {wellknown.AnnotationReservation, "a\n", wellknown.ReasonBadAnnotation, `is "a\n": write one name`},
		"a name that is far too long":     {wellknown.AnnotationQOS, strings.Repeat("a", 129), wellknown.ReasonBadAnnotation, "write one name"},
		"an option for a constraint":      {wellknown.AnnotationConstraint, "-a", wellknown.ReasonBadAnnotation, "write features"},
		"a shell's words in a constraint": {wellknown.AnnotationConstraint, "a;reboot", wellknown.ReasonBadAnnotation, "write features"},
		"a space in a constraint":         {wellknown.AnnotationConstraint, "a & b", wellknown.ReasonBadAnnotation, "write features"},
		"a time limit that is none":       {wellknown.AnnotationTimeLimit, "soon", wellknown.ReasonBadAnnotation, `is "soon": write a duration`},
		"a type of GPUs that is not here": {wellknown.AnnotationGPUType, "a100", wellknown.ReasonBadAnnotation, "Ask for one of these types: h100."},
		"no license":                      {wellknown.AnnotationLicenses, "a b", wellknown.ReasonBadAnnotation, "write licenses"},
		"no switch":                       {wellknown.AnnotationSwitches, "0", wellknown.ReasonBadAnnotation, "write a number of switches"},
		"no time to wait for a switch":    {wellknown.AnnotationSwitches, "1@soon", wellknown.ReasonBadAnnotation, "the time to wait"},
		"no node":                         {wellknown.AnnotationMaxNodes, "0", wellknown.ReasonBadAnnotation, "write a whole number from 1"},
		"a privilege":                     {wellknown.AnnotationNice, "-5", wellknown.ReasonBadAnnotation, "write a whole number from 1"},
		"two lines of comment":            {wellknown.AnnotationComment, "a\nb", wellknown.ReasonBadAnnotation, "write one line of text"},
		"a very short warning":            {wellknown.AnnotationTimeLimitWarning, "1ms", wellknown.ReasonBadAnnotation, "write a duration from 1s"},
		"a job's number to depend on":     {wellknown.AnnotationDependsOn, "afterok:17", wellknown.ReasonBadAnnotation, "names no gang"},
		"a maybe":                         {wellknown.AnnotationNodesExclusive, "yes", wellknown.ReasonBadAnnotation, `write "true" or "false"`},
		"a user":                          {wellknown.SlurmBridgePrefix + "user-id", "0", wellknown.ReasonBadAnnotation, "a pod cannot choose them. Remove it."},
		"a group":                         {wellknown.SlurmBridgePrefix + "group-id", "0", wellknown.ReasonBadAnnotation, "a pod cannot choose them. Remove it."},
		"slurm-bridge's as strictly":      {wellknown.SlurmBridgePrefix + "account", "a,b", wellknown.ReasonBadAnnotation, wellknown.SlurmBridgePrefix + "account is"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{tc.annotation: tc.value}
			for _, place := range [][2]map[string]string{{annotations, nil}, {nil, annotations}} {
				got, rejection := ParseWishes(place[0], place[1], Offer{Partitions: []string{"cpu", "gpu"}, GPUTypes: []string{"h100"}})
				require.NotNil(t, rejection)
				assert.Equal(t, tc.reason, rejection.Reason)
				assert.Equal(t, "metadata.annotations["+tc.annotation+"]", rejection.Field)
				assert.Contains(t, rejection.Message, tc.message)
				assert.Empty(t, got)
			}
		})
	}
}

func TestWhatIsNotKnownIsLeftToTheWorkloadManager(t *testing.T) {
	w, rejection := ParseWishes(map[string]string{wellknown.AnnotationPartition: "gpu", wellknown.AnnotationGPUType: "h100"}, nil, Offer{})
	require.Nil(t, rejection)
	assert.Equal(t, "gpu", w.Partition)
	_, rejection = ParseWishes(map[string]string{wellknown.AnnotationGPUType: "h100"}, nil, Offer{GPUTypes: []string{}})
	require.NotNil(t, rejection)
	assert.Contains(t, rejection.Message, "Ask for one of these types: none.")
}

func TestSitesAllowOptionsOfSbatchOneByOne(t *testing.T) {
	offer := Offer{Flags: []string{"hint", "contiguous"}}
	for name, tc := range map[string]struct{ annotation, value, refused string }{
		"allowed ones":              {wellknown.AnnotationSbatchFlags, "--hint=nomultithread  --contiguous", ""},
		"interLink's name":          {wellknown.InterLinkPrefix + "flags", "--contiguous", ""},
		"one that is not allowed":   {wellknown.AnnotationSbatchFlags, "--begin=now", "has --begin, which the site does not allow. It allows these: hint, contiguous."},
		"another user":              {wellknown.AnnotationSbatchFlags, "--uid=0", "has --uid: the site maps the pod to an HPC user."},
		"one that has a name here":  {wellknown.InterLinkPrefix + "flags", "--time=10", "has --time: use the annotation gangline.dev/time-limit."},
		"one that is set anyway":    {wellknown.AnnotationSbatchFlags, "--output=/etc/x", "it is set for every gang"},
		"a script":                  {wellknown.AnnotationSbatchFlags, "--wrap=reboot", "what runs is the gang's agents"},
		"a short option":            {wellknown.AnnotationSbatchFlags, "-t 10", `"-t" is no long option`},
		"a word":                    {wellknown.AnnotationSbatchFlags, "--hint nomultithread", `"nomultithread" is no long option`},
		"an abbreviation":           {wellknown.AnnotationSbatchFlags, "--hin=x", "--hin, which the site does not allow"},
		"a shell's signs":           {wellknown.AnnotationSbatchFlags, "--hint=$(id)", "a shell's signs"},
		"an upper case letter":      {wellknown.AnnotationSbatchFlags, "--Hint=x", "is no option of sbatch's"},
		"one option twice":          {wellknown.AnnotationSbatchFlags, "--hint=a --hint=b", "--hint is written twice"},
		"nothing but spaces":        {wellknown.AnnotationSbatchFlags, "  ", "there is no option in it"},
		"a component of its own":    {wellknown.AnnotationSbatchFlags, "--hint=a : --contiguous", `":" is no long option`},
		"the end of the options":    {wellknown.AnnotationSbatchFlags, "-- x", "is no option of sbatch's"},
		"an option in another form": {wellknown.AnnotationSbatchFlags, "---uid=0", "is no option of sbatch's"},
	} {
		t.Run(name, func(t *testing.T) {
			w, rejection := ParseWishes(map[string]string{tc.annotation: tc.value}, nil, offer)
			if tc.refused == "" {
				require.Nil(t, rejection)
				assert.NotEmpty(t, w.Flags)
				return
			}
			require.NotNil(t, rejection)
			assert.Contains(t, rejection.Message, tc.refused)
		})
	}
	assert.Empty(t, FlagProblems(offer.Flags))
	assert.Len(t, FlagProblems([]string{"uid", "--hint", "array", "time", "begin"}), 4)
}

func TestMergeOfAGangsWishes(t *testing.T) {
	all := Wishes{
		Partition: "gpu", Account: "a", TimeLimit: time.Hour, TimeLimitWarning: time.Minute, GPUType: "h100", Licenses: "x:1",
		Switches: Switches{Count: 1}, MinNodes: 1, MaxNodes: 2, Nice: 5, Comment: "c", WCKey: "k", Exclusive: true,
		DependsOn: []Dependency{{"afterok", "Pod", "a"}}, Flags: []Flag{{Name: "hint"}},
	}
	for _, pair := range [][2]Wishes{{all, {}}, {{}, all}, {all, all}} {
		merged, conflict := pair[0].Merge(pair[1])
		assert.Empty(t, conflict)
		assert.Equal(t, all, merged)
	}
	for want, other := range map[string]Wishes{
		"partition": {Partition: "cpu"}, "time-limit": {TimeLimit: time.Minute}, "gpu-type": {GPUType: "a100"},
		"switches": {Switches: Switches{Count: 1, Wait: time.Hour}}, "nice": {Nice: 6}, "comment": {Comment: "d"},
		"depends-on": {DependsOn: []Dependency{{"after", "Pod", "a"}}}, "sbatch-flags": {Flags: []Flag{{Name: "hint", HasValue: true}}},
		"max-nodes": {MaxNodes: 3}, "time-limit-warning": {TimeLimitWarning: NoTimeLimitWarning},
	} {
		_, conflict := all.Merge(other)
		assert.Equal(t, want, conflict)
	}
	mine, conflict := Wishes{MPILaunch: "ssh"}.Merge(Wishes{MPILaunch: "srun", MPIPMI: "pmi2"})
	assert.Empty(t, conflict, "each pod's own")
	assert.Equal(t, Wishes{MPILaunch: "ssh"}, mine)
}

func TestDependenciesNameGangs(t *testing.T) {
	d, err := ParseDependencies("JobSet/prep, afterany:Pod/a.b,after:Gang/g")
	require.NoError(t, err)
	assert.Equal(t, []Dependency{{"afterok", "JobSet", "prep"}, {"afterany", "Pod", "a.b"}, {"after", "Gang", "g"}}, d)
	for text, want := range map[string]string{
		"":                          "names no gang",
		"prep":                      "names no gang",
		"JobSet/":                   "is no name of a JobSet",
		"JobSet/other/prep":         "is no name of a JobSet",
		"Secret/x":                  "names no gang",
		"afterburstbuffer:JobSet/x": `"afterburstbuffer" is none of afterok`,
		"afterok:123":               "names no gang",
		"afterok:JobSet/x:JobSet/y": "is no name",
	} {
		_, err := ParseDependencies(text)
		assert.ErrorContains(t, err, want, text)
	}
	assert.True(t, Dependency{Kind: "TrainJob", Name: "pi"}.IsOf("JobSet ns/pi", "ns"))
	assert.True(t, Dependency{Kind: "Gang", Name: "pi"}.IsOf("gang ns/pi", "ns"))
	assert.False(t, Dependency{Kind: "Pod", Name: "pi"}.IsOf("Pod other/pi", "ns"))
}

// The same wishes in the same order are what the controller passes on.
func TestTheListOfWishesIsTheTable(t *testing.T) {
	var table []wellknown.Wish
	for _, w := range wishes() {
		table = append(table, wellknown.Wish{Name: w.name, Alias: w.alias})
		assert.Contains(t, wellknown.Annotations(), w.name)
		assert.NotEmpty(t, w.about, w.name)
		assert.NotEmpty(t, w.values, w.name)
	}
	assert.Equal(t, wellknown.Wishes(), table)
}

func TestDocumentOfAnnotations(t *testing.T) {
	const document, begin, end = "../docs/annotations.md", "<!-- begin: wishes -->\n", "<!-- end: wishes -->"
	data, err := os.ReadFile(document)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(data), begin)
	_, after, closed := strings.Cut(rest, end)
	require.True(t, found && closed, "the markers are gone")
	var b strings.Builder
	b.WriteString("\n| annotation | values | what it asks for | also read |\n|---|---|---|---|\n")
	for _, w := range wishes() {
		alias := ""
		if w.alias != "" {
			alias = "`" + w.alias + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", w.name, strings.ReplaceAll(w.values, "|", `\|`), w.about, alias)
	}
	golden.Equal(t, document, before+begin+b.String()+"\n"+end+after)
}
