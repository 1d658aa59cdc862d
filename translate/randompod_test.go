package translate

import (
	"math/rand"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/randfill"

	"github.com/gangline/gangline/translate/translatetest"
)

// randomPod is a pod of random fields: few of them are ones that the API server
// would take.
func randomPod(seed int64) *corev1.Pod {
	pod := &corev1.Pod{}
	filler(seed).NilChance(0.5).Fill(pod)
	return pod
}

// plausiblePod is a pod that runs, with a few fields set at random.
func plausiblePod(seed int64) *corev1.Pod {
	random := rand.New(rand.NewSource(seed))
	pod := translatetest.MakePod("plausible").Obj()
	pod.UID, pod.Namespace = "u", "default"
	f := filler(seed).NilChance(0.3)
	some := func(to any, chance float64) {
		value := reflect.ValueOf(to).Elem()
		for i := range value.NumField() {
			if random.Float64() < chance {
				f.Fill(value.Field(i).Addr().Interface())
			}
		}
	}
	containers := pod.Spec.Containers
	some(&pod.Spec, 0.05)
	pod.Spec.Containers = containers
	some(&pod.Spec.Containers[0], 0.1)
	if random.Float64() < 0.7 {
		pod.Spec.Volumes = nil
		for i := range random.Intn(3) {
			v := corev1.Volume{Name: string(rune('a' + i))}
			f.Fill(&v.VolumeSource)
			pod.Spec.Volumes = append(pod.Spec.Volumes, v)
			mount := corev1.VolumeMount{Name: v.Name, MountPath: "/mnt/" + v.Name}
			some(&mount, 0.1)
			pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, mount)
		}
	}
	return pod
}

// filler makes values of the kinds that the API has.
func filler(seed int64) *randfill.Filler {
	return randfill.NewWithSeed(seed).NumElements(1, 2).MaxDepth(30).Funcs(
		func(t *metav1.Time, c randfill.Continue) {
			*t = metav1.Unix(c.Int63n(int64(100*365*24*time.Hour/time.Second)), 0)
		},
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(64), resource.DecimalSI)
			if c.Intn(10) == 0 { // the ends of what there is
				*q = resource.MustParse([]string{"-1", "9223372036854775807", "1Ei", "1n", "0"}[c.Intn(5)])
			}
		},
		func(l *corev1.ResourceList, c randfill.Continue) {
			names := []corev1.ResourceName{"cpu", "memory", "nvidia.com/gpu", "ephemeral-storage", "hugepages-2Mi", "example.com/other"}
			*l = corev1.ResourceList{}
			for range c.Intn(3) {
				var q resource.Quantity
				c.Fill(&q)
				// Mostly the first three: with the others no pod is admitted.
				(*l)[names[min(c.Intn(len(names)), c.Intn(len(names)))]] = q
			}
		},
		func(v *intstr.IntOrString, c randfill.Continue) {
			*v = intstr.FromInt32(c.Int31())
			if c.Bool() {
				*v = intstr.FromString(c.String(0))
			}
		},
		func(f *metav1.FieldsV1, _ randfill.Continue) { f.SetRawBytes([]byte(`{}`)) },
		// Of these one member is set, mostly.
		func(s *corev1.VolumeSource, c randfill.Continue) { oneOf(s, c) },
		func(s *corev1.EnvVarSource, c randfill.Continue) { oneOf(s, c) },
		func(s *corev1.ProbeHandler, c randfill.Continue) { oneOf(s, c) },
		func(s *corev1.LifecycleHandler, c randfill.Continue) { oneOf(s, c) },
		func(s *corev1.VolumeProjection, c randfill.Continue) { oneOf(s, c) },
		// Some of what the table tells apart.
		choose(corev1.RestartPolicyAlways, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure),
		choose(corev1.StorageMediumDefault, corev1.StorageMediumMemory, corev1.StorageMediumHugePages),
		choose(corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone),
		choose(corev1.HostPathUnset, corev1.HostPathDirectory, corev1.HostPathFile, corev1.HostPathSocket),
		choose(corev1.Linux, corev1.Windows),
		choose(corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined, corev1.SeccompProfileTypeLocalhost),
		choose(corev1.MountPropagationNone, corev1.MountPropagationHostToContainer, corev1.MountPropagationBidirectional),
		choose(corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError),
		func(v *corev1.HostPathVolumeSource, c randfill.Continue) {
			c.FillNoCustom(v)
			if c.Intn(3) > 0 {
				v.Path = "/scratch/data"
			}
		},
	)
}

// oneOf sets one of a struct's pointers, and rarely two.
func oneOf(s any, c randfill.Continue) {
	v := reflect.ValueOf(s).Elem()
	for again := true; again; again = c.Intn(20) == 0 {
		field := v.Field(c.Intn(v.NumField()))
		made := reflect.New(field.Type().Elem())
		c.Fill(made.Interface())
		field.Set(made)
	}
}

// choose takes one of the values, and rarely something else.
func choose[T ~string](values ...T) func(*T, randfill.Continue) {
	return func(to *T, c randfill.Continue) {
		if *to = T(c.String(0)); c.Intn(20) > 0 {
			*to = values[c.Intn(len(values))]
		}
	}
}
