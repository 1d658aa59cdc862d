package translate

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		"all of slurm-bridge's on the owner": {
			owner: annotations{
				wellknown.SlurmBridgePrefix + "partition": "gpu", wellknown.SlurmBridgePrefix + "account": "a", wellknown.SlurmBridgePrefix + "qos": "q",
				wellknown.SlurmBridgePrefix + "timelimit": "90", wellknown.SlurmBridgePrefix + "constraints": "ib&gpu", wellknown.SlurmBridgePrefix + "reservation": "r",
				wellknown.SlurmBridgePrefix + "exclusive": "true", wellknown.SlurmBridgePrefix + "gres": "gpu:1",
			},
			want: Wishes{
				Partition: "gpu", Account: "a", QOS: "q", TimeLimit: 90 * time.Minute,
				Constraint: "ib&gpu", Reservation: "r", Exclusive: true,
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
			got, rejection := ParseWishes(tc.pod, tc.owner, []string{"cpu", "gpu"})
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
		"a maybe":                         {wellknown.AnnotationNodesExclusive, "yes", wellknown.ReasonBadAnnotation, `write "true" or "false"`},
		"a user":                          {wellknown.SlurmBridgePrefix + "user-id", "0", wellknown.ReasonBadAnnotation, "a pod cannot choose them. Remove it."},
		"a group":                         {wellknown.SlurmBridgePrefix + "group-id", "0", wellknown.ReasonBadAnnotation, "a pod cannot choose them. Remove it."},
		"slurm-bridge's as strictly":      {wellknown.SlurmBridgePrefix + "account", "a,b", wellknown.ReasonBadAnnotation, wellknown.SlurmBridgePrefix + "account is"},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := map[string]string{tc.annotation: tc.value}
			for _, place := range [][2]map[string]string{{annotations, nil}, {nil, annotations}} {
				got, rejection := ParseWishes(place[0], place[1], []string{"cpu", "gpu"})
				require.NotNil(t, rejection)
				assert.Equal(t, tc.reason, rejection.Reason)
				assert.Equal(t, "metadata.annotations["+tc.annotation+"]", rejection.Field)
				assert.Contains(t, rejection.Message, tc.message)
				assert.Empty(t, got)
			}
		})
	}
}

func TestParseWishesOffersNothingWhereNothingIsKnown(t *testing.T) {
	_, rejection := ParseWishes(map[string]string{wellknown.AnnotationPartition: "gpu"}, nil, nil)
	require.NotNil(t, rejection)
	assert.Contains(t, rejection.Message, "none")
}
