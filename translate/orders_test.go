package translate

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/mpi"
	"github.com/gangline/gangline/provider/spool"
	"github.com/gangline/gangline/test/golden"
	. "github.com/gangline/gangline/translate/translatetest"
)

func TestOrdersSayWhatThePodWaitsFor(t *testing.T) {
	in := Inputs{
		ConfigMaps: configMaps(configMap("m", nil)),
		Secrets:    map[string]*corev1.Secret{"s": secret("s", nil)},
	}
	configMapVolume := func(name string, optional bool, items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: named(name), Optional: &optional, Items: items,
		}}
	}
	secretVolume := func(name string, items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items}}
	}
	for name, tc := range map[string]struct {
		pod  *PodBuilder
		want MissingError
	}{
		"a ConfigMap of variables": {
			MakePod("p").EnvAll(allOf("none", "", "", false)), MissingError{Container: "main", Message: `configmap "none" not found`},
		},
		"a Secret of variables, in an init container": {
			MakePod("p").InitContainer("i").EnvAll(allOf("", "none", "", false)),
			MissingError{Container: "i", Message: `secret "none" not found`},
		},
		"a ConfigMap of one variable": {
			MakePod("p").EnvFrom("A", mapKey("none", "k", false)), MissingError{Container: "main", Message: `configmap "none" not found`},
		},
		"a key of a ConfigMap": {
			MakePod("p").EnvFrom("A", mapKey("m", "k", false)), MissingError{Container: "main", Message: "couldn't find key k in ConfigMap default/m"},
		},
		"a Secret of one variable": {
			MakePod("p").EnvFrom("A", secretKey("none", "k", false)), MissingError{Container: "main", Message: `secret "none" not found`},
		},
		"a key of a Secret": {
			MakePod("p").EnvFrom("A", secretKey("s", "k", false)), MissingError{Container: "main", Message: "couldn't find key k in Secret default/s"},
		},
		"a ConfigMap of a volume": {
			MakePod("p").Volume("v", configMapVolume("none", false)).Mount("v", "/v"), MissingError{Volume: "v", Message: `configmap "none" not found`},
		},
		"a key of a volume's ConfigMap": {
			MakePod("p").Volume("v", configMapVolume("m", false, corev1.KeyToPath{Key: "k", Path: "k"})).Mount("v", "/v"),
			MissingError{Volume: "v", Message: "configmap references non-existent config key: k"},
		},
		"a Secret of a volume": {
			MakePod("p").Volume("v", secretVolume("none")).Mount("v", "/v"), MissingError{Volume: "v", Message: `secret "none" not found`},
		},
		"a key of a volume's Secret": {
			MakePod("p").Volume("v", secretVolume("s", corev1.KeyToPath{Key: "k", Path: "k"})).Mount("v", "/v"),
			MissingError{Volume: "v", Message: "references non-existent secret key: k"},
		},
		"a projected volume's part": {
			MakePod("p").Volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{Secret: &corev1.SecretProjection{LocalObjectReference: named("none")}},
			}}}).Mount("v", "/v"),
			MissingError{Volume: "v", Message: `secret "none" not found`},
		},
		"a token": {
			MakePod("p").Volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}},
			}}}).Mount("v", "/v"),
			MissingError{Volume: "v", Message: `failed to fetch token: there is none for audience "vault"`},
		},
		"a volume before a variable": {
			MakePod("p").EnvAll(allOf("none", "", "", false)).Volume("v", secretVolume("none")).Mount("v", "/v"),
			MissingError{Volume: "v", Message: `secret "none" not found`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			orders, err := Orders(tc.pod.Obj(), in)
			assert.Empty(t, orders)
			got, ok := errors.AsType[*MissingError](err)
			require.True(t, ok, err)
			assert.Equal(t, tc.want, *got)
		})
	}
}

func TestOrdersSayWhatIsWrongWithThePod(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *PodBuilder
		want MissingError
	}{
		"a NUL byte in a variable": {
			MakePod("p").EnvAll(allOf("", "s", "", false)),
			MissingError{Container: "main", Message: `environment variable "A": neither its name nor its value may hold a NUL byte`},
		},
		"a field that the downward API does not have": {
			MakePod("p").EnvFrom("A", field("status.phase")),
			MissingError{Container: "main", Message: "environment variable A: unsupported fieldPath: status.phase"},
		},
		"a part of a field that has none": {
			MakePod("p").EnvFrom("A", field("metadata.name['a']")), MissingError{Container: "main", Message: "does not support subscript"},
		},
		"a resource that the downward API does not have": {
			MakePod("p").EnvFrom("A", resourceField("limits.nvidia.com/gpu", "", "")),
			MissingError{Container: "main", Message: "unsupported container resource : limits.nvidia.com/gpu"},
		},
		"a container that is not there": {
			MakePod("p").EnvFrom("A", resourceField("limits.cpu", "none", "")), MissingError{Container: "main", Message: "container none not found"},
		},
		"a divisor below zero": {
			MakePod("p").EnvFrom("A", resourceField("limits.cpu", "", "-1")), MissingError{Container: "main", Message: "is not positive"},
		},
		"a variable from a source that admission refuses": {
			MakePod("p").EnvFrom("A", corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}),
			MissingError{Container: "main", Message: "its source is not supported"},
		},
		"a volume that admission refuses": {
			MakePod("p").Volume("v", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}).Mount("v", "/v"),
			MissingError{Volume: "v", Message: "its source is not supported"},
		},
		"a field of a volume that the downward API does not have": {
			MakePod("p").Volume("v", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "x", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.phase"}},
			}}}).Mount("v", "/v"),
			MissingError{Volume: "v", Message: `file "x": unsupported fieldPath: status.phase`},
		},
		"a projection that admission refuses": {
			MakePod("p").Volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}}}}).Mount("v", "/v"),
			MissingError{Volume: "v", Message: "a projected source is not supported"},
		},
		"a mount of no volume": {
			MakePod("p").Mount("v", "/v"), MissingError{Container: "main", Message: `cannot find volume "v" to mount into container "main"`},
		},
		"a host name that is too long": {
			MakePod(strings.Repeat("p", 60)).Spec(func(s *corev1.PodSpec) { s.Subdomain, s.SetHostnameAsFQDN = "d", ptr.To(true) }),
			MissingError{Message: "64 is the most"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			orders, err := Orders(tc.pod.Obj(), Inputs{
				Secrets:       map[string]*corev1.Secret{"s": secret("s", map[string]string{"A": "a\x00b"})},
				ClusterDomain: "cluster.local",
			})
			assert.Empty(t, orders)
			got, ok := errors.AsType[*MissingError](err)
			require.True(t, ok, err)
			assert.Contains(t, got.Message, tc.want.Message)
			assert.Equal(t, tc.want.Container, got.Container)
			assert.Equal(t, tc.want.Volume, got.Volume)
		})
	}
}

func TestOrdersDoNotBlameThePodForTheSitesAddress(t *testing.T) {
	for address, want := range map[string]string{
		"api":       "reading the API server's address for pods",
		"api:https": "the port must be a number",
	} {
		_, err := Orders(MakePod("p").Obj(), Inputs{APIServer: address})
		require.ErrorContains(t, err, want)
		_, waits := errors.AsType[*MissingError](err)
		assert.False(t, waits)
	}
}

func TestArgvIsCommandAndArgsExpanded(t *testing.T) {
	pod := MakePod("p").Command("python", "$(SCRIPT)", "$(NONE)").Args("--rank=$(GANGLINE_RANK)", "$$(SCRIPT); rm *", "").
		Env("SCRIPT", "a b.py").Obj()
	orders, err := Orders(pod, Inputs{Rank: 4, Size: 5})
	require.NoError(t, err)
	assert.Equal(t, []string{"python", "a b.py", "$(NONE)", "--rank=4", "$(SCRIPT); rm *", ""}, mainContainer(t, orders).Argv)
}

func TestOrdersHaveKubernetesDefaults(t *testing.T) {
	orders, err := Orders(MakePod("p").Obj(), Inputs{})
	require.NoError(t, err)
	assert.Equal(t, corev1.RestartPolicyAlways, orders.RestartPolicy)
	assert.EqualValues(t, 30, orders.GraceSeconds)
	assert.Equal(t, "/dev/termination-log", orders.Containers[0].TerminationMessagePath)
	assert.Equal(t, corev1.TerminationMessageReadFile, orders.Containers[0].TerminationMessagePolicy)
}

func TestHostname(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *PodBuilder
		want string
	}{
		"the pod's name": {MakePod("p"), "p"},
		"the hostname": {
			MakePod("p").Spec(func(s *corev1.PodSpec) { s.Hostname = "h" }), "h",
		},
		"a subdomain changes nothing by itself": {
			MakePod("p").Spec(func(s *corev1.PodSpec) { s.Subdomain = "d" }), "p",
		},
		"the full name if wanted": {
			MakePod("p").Spec(func(s *corev1.PodSpec) { s.Subdomain, s.SetHostnameAsFQDN = "d", ptr.To(true) }), "p.d.default.svc.cluster.local",
		},
		"a full name needs a subdomain": {
			MakePod("p").Spec(func(s *corev1.PodSpec) { s.SetHostnameAsFQDN = ptr.To(true) }), "p",
		},
		"an override is taken as it is": {
			MakePod("p").Spec(func(s *corev1.PodSpec) { s.Hostname, s.Subdomain, s.HostnameOverride = "h", "d", ptr.To("a.b.c") }), "a.b.c",
		},
		"a long name is cut, and ends with no sign": {
			MakePod(strings.Repeat("p", 61) + "-.x"), strings.Repeat("p", 61),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Hostname(tc.pod.Obj(), "cluster.local")
			require.NoError(t, err)
			assert.Equal(t, tc.want, got)
		})
	}
}

// TestGoldenOrders is one pod with all that orders can hold: a rank of an MPI
// job as Kubeflow's runtimes make them.
func TestGoldenOrders(t *testing.T) {
	pod := MakePod("pi-node-0-1").Namespace("science").Label("app", "pi").
		InitContainer("fetch").Command("sh", "-c", "echo $(GREETING)").Env("GREETING", "hello").Mount("work", "/workspace").
		Sidecar("tail").Command("tail", "-F", "/workspace/log").Mount("work", "/workspace").
		Spec(func(s *corev1.PodSpec) {
			s.RestartPolicy, s.TerminationGracePeriodSeconds = corev1.RestartPolicyNever, ptr.To[int64](60)
			s.Hostname, s.Subdomain, s.NodeName, s.ServiceAccountName = "pi-node-0-1", "pi", "hpc-gpu", "default"
			s.HostAliases = []corev1.HostAlias{{IP: "10.0.0.5", Hostnames: []string{"db"}}}
			s.EnableServiceLinks = ptr.To(false)
			main := &s.Containers[0]
			main.Name, main.Image, main.WorkingDir = "node", "mpioperator/base", "/workspace"
			main.Command, main.Args = []string{"python"}, []string{"train.py", "--host=$(POD_IP)"}
			main.Resources.Requests = corev1.ResourceList{"cpu": resource.MustParse("1500m")}
			main.EnvFrom = []corev1.EnvFromSource{allOf("settings", "", "", false)}
			main.Env = []corev1.EnvVar{
				{Name: "POD_IP", ValueFrom: ptr.To(field("status.podIP"))},
				{Name: "CPUS", ValueFrom: ptr.To(resourceField("requests.cpu", "", ""))},
				{Name: "TOKEN", ValueFrom: ptr.To(secretKey("hub", "token", false))},
			}
			main.VolumeMounts = []corev1.VolumeMount{
				{Name: "work", MountPath: "/workspace"},
				{Name: "ssh-auth", MountPath: "/root/.ssh"},
				{Name: "data", MountPath: "/workspace/data", SubPathExpr: "sets/$(SET)", ReadOnly: true},
				{Name: "shm", MountPath: "/dev/shm"},
				{Name: "kube-api-access", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount", ReadOnly: true},
			}
		}).
		Volume("work", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}).
		Volume("shm", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}).
		Volume("data", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/scratch/data/"}}).
		Volume("ssh-auth", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: "ssh", DefaultMode: ptr.To[int32](0o400),
			Items: []corev1.KeyToPath{{Key: "private", Path: "id_rsa", Mode: ptr.To[int32](0o600)}, {Key: "public", Path: "id_rsa.pub"}},
		}}).
		Volume("kube-api-access", asCreated().Obj().Spec.Volumes[0].VolumeSource).
		Obj()
	orders, err := Orders(pod, Inputs{
		ConfigMaps: configMaps(
			configMap("settings", map[string]string{"SET": "mnist", "LEVEL": "info"}),
			configMap("kube-root-ca.crt", map[string]string{"ca.crt": "a certificate"}),
		),
		Secrets: map[string]*corev1.Secret{
			"hub": secret("hub", map[string]string{"token": "t0ken"}),
			"ssh": secret("ssh", map[string]string{"private": "a key", "public": "a public key", "unused": "-"}),
		},
		Services: []*corev1.Service{service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443})},
		Tokens:   map[TokenKey]string{{ExpirationSeconds: 3607}: "jwt"},
		PodIP:    "10.1.0.7", HostIP: "10.1.0.7", ClusterDomain: "cluster.local",
		Site: Site{HostPaths: []string{"/scratch"}},
		Rank: 1, Size: 2,
		Hosts: []mpi.Host{{Name: "pi-node-0-0.pi", Slots: 2}, {Name: "pi-node-0-1.pi", Slots: 2}},
		SSH:   spool.SSH{HostKey: []byte("host"), ClientKey: []byte("client"), HostPublicKey: []byte("host.pub"), ClientPublicKey: []byte("client.pub")},
	})
	require.NoError(t, err)
	data, err := json.MarshalIndent(orders, "", "  ")
	require.NoError(t, err)
	golden.Equal(t, "testdata/orders.json", string(data)+"\n")
}

func TestReferencesAreExactlyWhatThePodNames(t *testing.T) {
	token := func(audience string, seconds *int64) corev1.VolumeProjection {
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: seconds}}
	}
	pod := MakePod("p").
		EnvAll(allOf("b", "", "", true)).EnvAll(allOf("", "s2", "", false)).
		EnvFrom("A", mapKey("a", "k", false)).EnvFrom("B", mapKey("b", "k", true)).EnvFrom("C", secretKey("s1", "k", true)).
		With(func(c *corev1.Container) {
			// Where a value is set, its source is not looked at.
			c.Env = append(c.Env, corev1.EnvVar{Name: "D", Value: "d", ValueFrom: ptr.To(mapKey("never", "k", false))})
		}).
		InitContainer("i").Command("true").EnvAll(allOf("", "s1", "", true)).
		Volume("a", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c")}}).Mount("a", "/a").
		Volume("s", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s3", Optional: ptr.To(true)}}).Mount("s", "/s").
		Volume("p", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			token("vault", ptr.To[int64](600)), token("", nil), token("", ptr.To[int64](3600)),
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("c"), Optional: ptr.To(true)}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: named("s4")}},
		}}}).Mount("p", "/p").
		Volume("unused", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "never"}}).
		Obj()
	assert.Equal(t, Refs{
		ConfigMaps:   []Ref{{Name: "a"}, {Name: "b", Optional: true}, {Name: "c"}},
		Secrets:      []Ref{{Name: "s1", Optional: true}, {Name: "s2"}, {Name: "s3", Optional: true}, {Name: "s4"}},
		Tokens:       []TokenKey{{ExpirationSeconds: 3600}, {Audience: "vault", ExpirationSeconds: 600}},
		ServiceLinks: true,
	}, References(pod))

	pod.Spec.EnableServiceLinks = ptr.To(false)
	assert.False(t, References(pod).ServiceLinks)
	assert.Equal(t, Refs{ServiceLinks: true}, References(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}))
}

func TestAPodIsNotChangedByItsOrders(t *testing.T) {
	pod := asCreated().Env("A", "$(GANGLINE_RANK)").Obj()
	before := pod.DeepCopy()
	_, err := Orders(pod, Inputs{
		ConfigMaps: configMaps(configMap("kube-root-ca.crt", map[string]string{"ca.crt": "c"})),
		Tokens:     map[TokenKey]string{{ExpirationSeconds: 3607}: "jwt"},
		Hosts:      []mpi.Host{{Name: "p"}},
	})
	require.NoError(t, err)
	Admit(pod, Site{})
	Warnings(pod, Site{})
	assert.Equal(t, before, pod)
}
