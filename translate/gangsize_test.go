package translate_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/translatetest"
	"github.com/gangline/gangline/translate/wellknown"
)

// declaring are gangs of each kind whose owner declares so many pods.
func declaring(t *testing.T, o translate.Options) map[string]func(pods int64) translate.Gang {
	pod := hpcPod("4", "0").Obj()
	declared := func(d translate.Declaration, err error) translate.Gang {
		require.NoError(t, err)
		return d.Gang
	}
	lws := func(size int64, pods ...*corev1.Pod) translate.Gang {
		set := object(t, fmt.Sprintf(`{metadata: {name: s, uid: u}, spec: {leaderWorkerTemplate: {size: %d, workerTemplate: %s}}}`, size, hpcTemplate))
		return declared(translate.LWSGang(set, translate.LWSGroup{Set: "s"}, pods, o))
	}
	kinds := map[string]func(int64) translate.Gang{
		"a JobSet of large jobs": func(n int64) translate.Gang {
			return translate.JobSetGang(translatetest.MakeJobSet("pi").Jobs("a", 1, int32(n), pod).Obj(), 0, o)
		},
		"a JobSet of many jobs": func(n int64) translate.Gang {
			return translate.JobSetGang(translatetest.MakeJobSet("pi").Jobs("a", int32(n), 1, pod).Obj(), 0, o)
		},
		"a JobSet of many groups": func(n int64) translate.Gang {
			return translate.JobSetGang(translatetest.MakeJobSet("pi").Jobs("a", 1, 1, pod).Jobs("b", 1, int32(n-1), pod).Obj(), 0, o)
		},
		"an MPIJob": func(n int64) translate.Gang {
			return declared(translate.MPIJobGang(mpiJob(t, "", tinyTemplate, fmt.Sprintf("{replicas: %d, template: %s}", n-1, hpcTemplate)), o))
		},
		"a LeaderWorkerSet": func(n int64) translate.Gang { return lws(n) },
		"a LeaderWorkerSet by its pods": func(n int64) translate.Gang {
			return lws(2, hpcPod("1", "0").Annotation(wellknown.AnnotationLWSSize, fmt.Sprint(n)).Obj())
		},
		"a named gang": func(n int64) translate.Gang {
			return translate.NamedGang("k", []*corev1.Pod{pod}, int(n), o)
		},
	}
	for _, kind := range translate.PodGroupKinds() {
		kinds["a PodGroup of "+kind.Name] = func(n int64) translate.Gang {
			group := sized(t, fmt.Sprintf("{minMember: %d, schedulingPolicy: {gang: {minCount: %d}}}", n, n))
			return declared(kind.PodGroupGang(group, []*corev1.Pod{pod}, o))
		}
	}
	return kinds
}

func TestNoOwnerDeclaresMorePlacesThanThereMayBe(t *testing.T) {
	for sentence, gang := range declaring(t, options()) {
		t.Run(sentence, func(t *testing.T) {
			g := gang(3)
			assert.Len(t, g.Slots, 3)
			assert.EqualValues(t, 3, g.Size())
			assert.Nil(t, g.TooLarge())
			assert.Len(t, gang(translate.MostPods).Slots, translate.MostPods)
			for _, n := range []int64{translate.MostPods + 1, 1 << 30} {
				g := gang(n)
				assert.Empty(t, g.Slots)
				assert.Equal(t, n, g.Size())
				require.NotNil(t, g.TooLarge())
				assert.Equal(t, wellknown.ReasonGangTooLarge, g.TooLarge().Reason)
				assert.Contains(t, g.TooLarge().Message, fmt.Sprintf("%d pods", n))
			}
		})
	}
}

// The places of a gang that its user may not have are not made either.
func TestAUsersLimitCountsBeforeThePlacesAreMade(t *testing.T) {
	o := options()
	o.Pods = 4
	for sentence, gang := range declaring(t, o) {
		t.Run(sentence, func(t *testing.T) {
			assert.Len(t, gang(4).Slots, 4)
			g := gang(5)
			assert.Empty(t, g.Slots)
			assert.EqualValues(t, 5, g.Size())
			assert.Nil(t, g.TooLarge(), "the limit is another's to tell of")
		})
	}
}

func TestTheSizeOfAGangCannotWrap(t *testing.T) {
	const most = 1<<31 - 1
	pod := hpcPod("4", "0").Obj()
	js := translatetest.MakeJobSet("pi").Jobs("a", most, most, pod).Jobs("b", most, most, pod).Jobs("c", most, most, pod)
	g := translate.JobSetGang(js.Obj(), 0, options())
	assert.Empty(t, g.Slots)
	assert.NotNil(t, g.TooLarge())
	js = translatetest.MakeJobSet("pi").Jobs("other", most, most, translatetest.MakePod("p").Obj()).Jobs("a", 1, 2, pod).
		Jobs("later", most, most, pod).DependsOn("a", jobset.DependencyComplete)
	assert.Len(t, translate.JobSetGang(js.Obj(), 0, options()).Slots, 2, "what is elsewhere or later does not count")
}
