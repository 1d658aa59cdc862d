package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	. "github.com/gangline/gangline/translate/translatetest"
)

func configMaps(maps ...*corev1.ConfigMap) map[string]*corev1.ConfigMap {
	byName := map[string]*corev1.ConfigMap{}
	for _, m := range maps {
		byName[m.Name] = m
	}
	return byName
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}
}

func secret(name string, data map[string]string) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		s.Data[k] = []byte(v)
	}
	return s
}

func service(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: ip, Ports: ports},
	}
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func allOf(configMap, secret, prefix string, optional bool) corev1.EnvFromSource {
	from := corev1.EnvFromSource{Prefix: prefix}
	if configMap != "" {
		from.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: named(configMap), Optional: &optional}
	}
	if secret != "" {
		from.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: named(secret), Optional: &optional}
	}
	return from
}

func mapKey(name, key string, optional bool) corev1.EnvVarSource {
	return corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
		LocalObjectReference: named(name), Key: key, Optional: &optional,
	}}
}

func secretKey(name, key string, optional bool) corev1.EnvVarSource {
	return corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: named(name), Key: key, Optional: &optional,
	}}
}

func field(path string) corev1.EnvVarSource {
	return corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
}

func resourceField(name, container, divisor string) corev1.EnvVarSource {
	s := &corev1.ResourceFieldSelector{Resource: name, ContainerName: container}
	if divisor != "" {
		s.Divisor = resource.MustParse(divisor)
	}
	return corev1.EnvVarSource{ResourceFieldRef: s}
}

func mainContainer(t *testing.T, orders spool.PodOrders) spool.ContainerOrders {
	t.Helper()
	for _, c := range orders.Containers {
		if c.Name == "main" {
			return c
		}
	}
	t.Fatal("there is no container main")
	return spool.ContainerOrders{}
}

// env is the pod's own part of the environment of the container main: up to
// what the node adds.
func env(t *testing.T, orders spool.PodOrders) []string {
	t.Helper()
	var words []string
	for _, v := range mainContainer(t, orders).Env {
		if v.Name == EnvRank {
			break
		}
		words = append(words, v.Name+"="+v.Value)
	}
	return words
}

func TestEnvironment(t *testing.T) {
	in := Inputs{
		ConfigMaps: configMaps(
			configMap("colours", map[string]string{"B": "blue", "A": "amber", "1bad": "kept", "c.d-e": "kept too"}),
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "binary"}, BinaryData: map[string][]byte{"X": {0}}},
		),
		Secrets: map[string]*corev1.Secret{"keys": secret("keys", map[string]string{"A": "secret", "K": "k"})},
	}
	for name, tc := range map[string]struct {
		pod  *PodBuilder
		want []string
	}{
		"a pod without variables": {MakePod("p"), nil},
		"variables keep the pod's order": {
			MakePod("p").Env("Z", "1").Env("A", "2"), []string{"Z=1", "A=2"},
		},
		"the later of two wins": {
			MakePod("p").Env("A", "1").Env("B", "2").Env("A", "3"), []string{"A=3", "B=2"},
		},
		"envFrom comes before env, the later source wins, no key is skipped": {
			MakePod("p").EnvAll(allOf("colours", "", "", false)).EnvAll(allOf("", "keys", "", false)).Env("K", "mine"),
			[]string{"1bad=kept", "A=secret", "B=blue", "c.d-e=kept too", "K=mine"},
		},
		"a prefix is put before each key": {
			MakePod("p").EnvAll(allOf("", "keys", "P_", false)), []string{"P_A=secret", "P_K=k"},
		},
		"binary data of a ConfigMap is no variable": {
			MakePod("p").EnvAll(allOf("binary", "", "", false)), nil,
		},
		"what is optional and missing is left out": {
			MakePod("p").EnvAll(allOf("none", "", "", true)).EnvAll(allOf("", "none", "", true)).
				EnvFrom("A", mapKey("none", "k", true)).EnvFrom("B", mapKey("colours", "none", true)).
				EnvFrom("C", secretKey("none", "k", true)).EnvFrom("D", secretKey("keys", "none", true)).Env("E", "e"),
			[]string{"E=e"},
		},
		"keys of ConfigMaps and Secrets": {
			MakePod("p").EnvFrom("X", mapKey("colours", "A", false)).EnvFrom("Y", secretKey("keys", "K", true)),
			[]string{"X=amber", "Y=k"},
		},
		"a value sees what was set before it and nothing later": {
			MakePod("p").EnvAll(allOf("colours", "", "", false)).Env("X", "$(A) $(Y) $$(A)").Env("Y", "$(X)"),
			[]string{"1bad=kept", "A=amber", "B=blue", "c.d-e=kept too", "X=amber $(Y) $(A)", "Y=amber $(Y) $(A)"},
		},
		"a variable may refer to its own earlier value": {
			MakePod("p").Env("A", "1").Env("A", "$(A)2"), []string{"A=12"},
		},
		"a value from a source is not expanded": {
			MakePod("p").Env("A", "1").EnvFrom("X", mapKey("literal", "k", false)), []string{"A=1", "X=$(A)"},
		},
		"an empty value stays": {MakePod("p").Env("A", ""), []string{"A="}},
		"values see the gang's variables": {
			MakePod("p").Env("R", "$(GANGLINE_RANK)/$(GANGLINE_SIZE)"), []string{"R=3/8"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			in.ConfigMaps["literal"] = configMap("literal", map[string]string{"k": "$(A)"})
			in.Rank, in.Size = 3, 8
			orders, err := Orders(tc.pod.Obj(), in)
			require.NoError(t, err)
			assert.Equal(t, tc.want, env(t, orders))
		})
	}
}

func TestTheGangsVariablesGiveWayToThePods(t *testing.T) {
	orders, err := Orders(MakePod("p").Env(EnvRank, "mine").Env("HYDRA_LAUNCHER", "fork").Obj(), Inputs{Size: 2})
	require.NoError(t, err)
	env := mainContainer(t, orders).Env
	assert.Contains(t, env, corev1.EnvVar{Name: EnvRank, Value: "mine"})
	assert.Contains(t, env, corev1.EnvVar{Name: EnvSize, Value: "2"})
	assert.Contains(t, env, corev1.EnvVar{Name: "HYDRA_LAUNCHER", Value: "fork"})
	assert.Contains(t, env, corev1.EnvVar{Name: "HYDRA_LAUNCHER_EXEC", Value: "/run/gangline/bin/ssh"})
	seen := map[string]bool{}
	for _, v := range env {
		assert.False(t, seen[v.Name], "%s is set twice", v.Name)
		seen[v.Name] = true
	}
}

func TestDownwardAPI(t *testing.T) {
	pod := func() *PodBuilder {
		return MakePod("p").Namespace("ns").Label("app", "pi").Annotation("b/c", "x\"y").Annotation("a", "1").
			Request("cpu", "1500m").Request("memory", "1Gi").Limit("memory", "1537Mi").Limit("hugepages-2Mi", "4Mi").
			Container("other").Command("true").Limit("cpu", "3").
			Spec(func(s *corev1.PodSpec) { s.NodeName, s.ServiceAccountName = "hpc", "robot" })
	}
	withPodLimit := func() *PodBuilder {
		return pod().Spec(func(s *corev1.PodSpec) {
			s.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("7")}}
		})
	}
	for name, tc := range map[string]struct {
		pod    *PodBuilder
		source corev1.EnvVarSource
		want   string
	}{
		"the name":                              {pod(), field("metadata.name"), "p"},
		"the namespace":                         {pod(), field("metadata.namespace"), "ns"},
		"the UID":                               {pod(), field("metadata.uid"), "p-uid"},
		"a label":                               {pod(), field("metadata.labels['app']"), "pi"},
		"a label that is not there":             {pod(), field("metadata.labels['none']"), ""},
		"an annotation":                         {pod(), field("metadata.annotations['b/c']"), `x"y`},
		"all annotations, sorted and quoted":    {pod(), field("metadata.annotations"), "a=\"1\"\nb/c=\"x\\\"y\""},
		"the node":                              {pod(), field("spec.nodeName"), "hpc"},
		"the ServiceAccount":                    {pod(), field("spec.serviceAccountName"), "robot"},
		"the pod's address":                     {pod(), field("status.podIP"), "10.1.0.7"},
		"the pod's addresses":                   {pod(), field("status.podIPs"), "10.1.0.7"},
		"the host's address":                    {pod(), field("status.hostIP"), "10.1.0.8"},
		"the host's addresses":                  {pod(), field("status.hostIPs"), "10.1.0.8"},
		"a CPU request in whole cores":          {pod(), resourceField("requests.cpu", "", ""), "2"},
		"a CPU request in thousandths":          {pod(), resourceField("requests.cpu", "", "1m"), "1500"},
		"a memory limit in bytes":               {pod(), resourceField("limits.memory", "", ""), "1611661312"},
		"a memory limit in GiB, rounded up":     {pod(), resourceField("limits.memory", "", "1Gi"), "2"},
		"a request that is missing":             {pod(), resourceField("requests.ephemeral-storage", "", ""), "0"},
		"a CPU limit that is missing":           {pod(), resourceField("limits.cpu", "", ""), "64"},
		"a CPU limit that only the pod has":     {withPodLimit(), resourceField("limits.cpu", "", ""), "7"},
		"another container's limit":             {withPodLimit(), resourceField("limits.cpu", "other", ""), "3"},
		"a limit of huge pages":                 {pod(), resourceField("limits.hugepages-2Mi", "", "2Mi"), "2"},
		"a limit of huge pages that is missing": {pod(), resourceField("limits.hugepages-1Gi", "", ""), "0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := tc.pod
			p := b.Obj()
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &tc.source}}
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				Items: []corev1.DownwardAPIVolumeFile{{Path: "x", FieldRef: tc.source.FieldRef}},
			}}}}
			if r := tc.source.ResourceFieldRef; r != nil {
				r = r.DeepCopy()
				if r.ContainerName == "" {
					r.ContainerName = "main" // a volume must name one
				}
				p.Spec.Volumes[0].DownwardAPI.Items[0].ResourceFieldRef = r
			}
			p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
			orders, err := Orders(p, Inputs{
				PodIP: "10.1.0.7", HostIP: "10.1.0.8",
				NodeAllocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("1Ti")},
			})
			require.NoError(t, err)
			assert.Equal(t, []string{"X=" + tc.want}, env(t, orders))
			assert.Equal(t, []spool.File{{Path: "x", Mode: 0o644, Data: []byte(tc.want)}}, orders.Volumes[0].Files)
		})
	}
}

func TestServiceVariables(t *testing.T) {
	api := service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Protocol: "TCP", Port: 443})
	apiVars := []string{
		"KUBERNETES_SERVICE_HOST=10.96.0.1",
		"KUBERNETES_SERVICE_PORT=443",
		"KUBERNETES_SERVICE_PORT_HTTPS=443",
		"KUBERNETES_PORT=tcp://10.96.0.1:443",
		"KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
		"KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_443_TCP_PORT=443",
		"KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
	}
	reached := []string{
		"KUBERNETES_SERVICE_HOST=api.example.org",
		"KUBERNETES_SERVICE_PORT=6443",
		"KUBERNETES_SERVICE_PORT_HTTPS=6443",
		"KUBERNETES_PORT=tcp://api.example.org:6443",
		"KUBERNETES_PORT_6443_TCP=tcp://api.example.org:6443",
		"KUBERNETES_PORT_6443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_6443_TCP_PORT=6443",
		"KUBERNETES_PORT_6443_TCP_ADDR=api.example.org",
	}
	dns := service("ns", "my-dns", "fd00::5", corev1.ServicePort{Port: 53, Protocol: "UDP"}, corev1.ServicePort{Name: "m-x", Port: 9153})
	dnsVars := []string{
		"MY_DNS_SERVICE_HOST=fd00::5",
		"MY_DNS_SERVICE_PORT=53",
		"MY_DNS_SERVICE_PORT_M_X=9153",
		"MY_DNS_PORT=udp://[fd00::5]:53",
		"MY_DNS_PORT_53_UDP=udp://[fd00::5]:53",
		"MY_DNS_PORT_53_UDP_PROTO=udp",
		"MY_DNS_PORT_53_UDP_PORT=53",
		"MY_DNS_PORT_53_UDP_ADDR=fd00::5",
		"MY_DNS_PORT_9153_TCP=tcp://[fd00::5]:9153",
		"MY_DNS_PORT_9153_TCP_PROTO=tcp",
		"MY_DNS_PORT_9153_TCP_PORT=9153",
		"MY_DNS_PORT_9153_TCP_ADDR=fd00::5",
	}
	pod := func() *PodBuilder { return MakePod("p").Namespace("ns") }
	noLinks := func(s *corev1.PodSpec) { s.EnableServiceLinks = ptr.To(false) }
	for name, tc := range map[string]struct {
		pod       *PodBuilder
		services  []*corev1.Service
		apiServer string
		want      []string
	}{
		"the API server and the namespace's, by name": {
			pod: pod(), services: []*corev1.Service{dns, api}, want: append(append([]string{}, apiVars...), dnsVars...),
		},
		"the API server alone without links": {
			pod: pod().Spec(noLinks), services: []*corev1.Service{dns, api}, want: apiVars,
		},
		"the API server where the HPC nodes reach it": {
			pod: pod().Spec(noLinks), services: []*corev1.Service{api}, apiServer: "api.example.org:6443", want: reached,
		},
		"the API server where the HPC nodes reach it, without a Service": {
			pod: pod(), apiServer: "api.example.org:6443", want: reached,
		},
		"no headless, external or foreign ones": {
			pod: pod(), services: []*corev1.Service{
				service("ns", "headless", "None", corev1.ServicePort{Port: 1}), service("ns", "external", ""),
				service("other", "foreign", "10.0.0.1", corev1.ServicePort{Port: 1}),
				service("ns", "portless", "10.0.0.1"),
			},
		},
		"none for a name that the pod sets itself": {
			pod:      pod().Spec(noLinks).Env("KUBERNETES_PORT", "mine").Env("X", "$(KUBERNETES_SERVICE_HOST) $(KUBERNETES_PORT)"),
			services: []*corev1.Service{api},
			want: append([]string{"KUBERNETES_PORT=mine", "X=10.96.0.1 mine"},
				append(append([]string{}, apiVars[:3]...), apiVars[4:]...)...),
		},
		"the namespace's own Service of the API server's name": {
			pod: pod(), services: []*corev1.Service{service("ns", "kubernetes", "10.0.0.9", corev1.ServicePort{Port: 1}), api},
			want: []string{
				"KUBERNETES_SERVICE_HOST=10.0.0.9", "KUBERNETES_SERVICE_PORT=1", "KUBERNETES_PORT=tcp://10.0.0.9:1",
				"KUBERNETES_PORT_1_TCP=tcp://10.0.0.9:1", "KUBERNETES_PORT_1_TCP_PROTO=tcp",
				"KUBERNETES_PORT_1_TCP_PORT=1", "KUBERNETES_PORT_1_TCP_ADDR=10.0.0.9",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			orders, err := Orders(tc.pod.Obj(), Inputs{Services: tc.services, APIServer: tc.apiServer})
			require.NoError(t, err)
			assert.Equal(t, tc.want, env(t, orders))
		})
	}
}
