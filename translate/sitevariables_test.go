package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/translate/translatetest"
)

func TestSiteVariables(t *testing.T) {
	vars := SiteVariables{
		{Name: "NCCL_SOCKET_IFNAME", Value: "ib0", Partitions: []string{"gpu", "big"}},
		{Name: "NCCL_SOCKET_IFNAME", Value: "eth0"},
		{Name: "HF_HOME", Value: "/scratch/{user}/hf"},
		{Name: "ONLY", Value: "there", Partitions: []string{"big"}},
	}
	require.NoError(t, vars.Validate())
	for partition, want := range map[string][]corev1.EnvVar{
		"gpu": {{Name: "NCCL_SOCKET_IFNAME", Value: "ib0"}, {Name: "HF_HOME", Value: "/scratch/{user}/hf"}},
		"big": {{Name: "NCCL_SOCKET_IFNAME", Value: "ib0"}, {Name: "HF_HOME", Value: "/scratch/{user}/hf"}, {Name: "ONLY", Value: "there"}},
		"cpu": {{Name: "NCCL_SOCKET_IFNAME", Value: "eth0"}, {Name: "HF_HOME", Value: "/scratch/{user}/hf"}},
	} {
		assert.Equal(t, want, vars.in(partition), partition)
	}
}

func TestSiteVariablesThatCannotBe(t *testing.T) {
	for sentence, tc := range map[string]struct {
		vars SiteVariables
		says string
	}{
		"no name":                    {SiteVariables{{Value: "x"}}, `environment[0]: "" cannot be a variable's name`},
		"a name with a =":            {SiteVariables{{Name: "A=B"}}, `environment[0]: "A=B" cannot be`},
		"one of ours":                {SiteVariables{{Name: "GANGLINE_RANK"}}, "GANGLINE_RANK is Gangline's own"},
		"an unknown field":           {SiteVariables{{Name: "A", Value: "/x/{claim}"}}, "there is no field {claim}, but {user}, {home}, {namespace}, {job}, {node}"},
		"a NUL":                      {SiteVariables{{Name: "A", Value: "\x00"}}, "NUL byte"},
		"one that is never got to":   {SiteVariables{{Name: "A"}, {Name: "A", Partitions: []string{"gpu"}}}, "environment[1]: A is there for all partitions in environment[0]"},
		"other braces are just that": {SiteVariables{{Name: "A", Value: `{"a": {}, "b": "{user}"}`}}, ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			err := tc.vars.Validate()
			if tc.says == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tc.says)
		})
	}
}

func TestProcessLimits(t *testing.T) {
	limits := ProcessLimits{
		"memlock": intstr.FromString("unlimited"), "nofile": intstr.FromInt32(65536),
		"stack": intstr.FromString("64Mi"), "nproc": intstr.FromString("hard"), "core": intstr.FromInt32(0),
	}
	require.NoError(t, limits.Validate())
	assert.Equal(t, []spool.Limit{
		{Name: "core"}, {Name: "memlock", Value: spool.Unlimited}, {Name: "nofile", Value: 65536},
		{Name: "nproc", Value: spool.Unlimited, Silent: true}, {Name: "stack", Value: 64 << 20},
	}, limits.orders())
	assert.Nil(t, ProcessLimits(nil).orders())
	for text, says := range map[string]string{"many": `limits.stack: "many" is neither`, "-1": `"-1" is neither`} {
		assert.ErrorContains(t, ProcessLimits{"stack": intstr.FromString(text)}.Validate(), says)
	}
	assert.ErrorContains(t, ProcessLimits{"luck": intstr.FromInt32(1)}.Validate(), "limits.luck: there is no such limit, but as, core")
}

func TestScratchRule(t *testing.T) {
	for rule, says := range map[string]string{
		"": "", "/local/{job}": "", "/nvme/{user}/{job}/x": "", "/local/job-{job}": "", "/local": "",
		"local":           "must be an absolute path",
		"/local/{node}":   "there is no field {node}, but {user}, {job}",
		"/local/../{job}": "must be an absolute path without // and ..",
		"/local/{job":     "no other braces",
		"/local/*":        "no *",
	} {
		err := CheckScratch(rule)
		if says == "" {
			assert.NoError(t, err, rule)
			continue
		}
		assert.ErrorContains(t, err, says, rule)
	}
}

func TestOrdersHoldWhatTheSiteGives(t *testing.T) {
	pod := translatetest.MakePod("p").Obj()
	o, err := Orders(pod, Inputs{Site: Site{
		Environment: SiteVariables{{Name: "A", Value: "1", Partitions: []string{"gpu"}}, {Name: "B", Value: "2", Partitions: []string{"cpu"}}},
		Limits:      ProcessLimits{"core": intstr.FromInt32(0)}, Partition: "gpu",
	}})
	require.NoError(t, err)
	assert.Equal(t, spool.Site{Environment: []corev1.EnvVar{{Name: "A", Value: "1"}}, Limits: []spool.Limit{{Name: "core"}}}, o.Site)
}
