package translate

import (
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
	. "github.com/gangline/gangline/translate/translatetest"
)

func volumeInputs() Inputs {
	binary := configMap("m", map[string]string{"b": "text", "a": "A"})
	binary.BinaryData = map[string][]byte{"bin": {0, 255}}
	return Inputs{
		ConfigMaps: configMaps(binary, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}),
		Secrets:    map[string]*corev1.Secret{"s": secret("s", map[string]string{"key": "K", "a": "from the secret"})},
		Tokens:     map[TokenKey]string{{Audience: "vault", ExpirationSeconds: 3600}: "jwt"},
		Site:       Site{HostPaths: []string{"/scratch/"}, ReadOnlyHostPaths: []string{"/data"}},
	}
}

func TestVolumes(t *testing.T) {
	configMap := func(optional bool, name string, mode *int32, items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: named(name), DefaultMode: mode, Items: items, Optional: &optional,
		}}
	}
	secret := func(optional bool, name string, items ...corev1.KeyToPath) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items, Optional: &optional}}
	}
	for name, tc := range map[string]struct {
		source corev1.VolumeSource
		want   spool.Volume
	}{
		"a directory on disk":   {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, spool.Volume{EmptyDir: &spool.EmptyDir{}}},
		"a directory in memory": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}, spool.Volume{EmptyDir: &spool.EmptyDir{Memory: true}}},
		"a directory with a limit and a mode": {
			corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: ptr.To(resource.MustParse("1536Mi")), Mode: ptr.To[int32](0o1755)}},
			spool.Volume{EmptyDir: &spool.EmptyDir{SizeLimit: "1536Mi", Mode: ptr.To[int32](0o1755)}},
		},
		"a path of the HPC node": {
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/scratch//x/", Type: ptr.To(corev1.HostPathDirectoryOrCreate)}},
			spool.Volume{HostPath: "/scratch/x", Host: &spool.Host{
				Type: corev1.HostPathDirectoryOrCreate, Allowed: []spool.AllowedDir{{Path: "/scratch"}, {Path: "/data", ReadOnly: true}},
			}},
		},
		"a ConfigMap with binary data, sorted": {
			configMap(false, "m", nil),
			spool.Volume{Files: []spool.File{
				{Path: "a", Mode: 0o644, Data: []byte("A")}, {Path: "b", Mode: 0o644, Data: []byte("text")}, {Path: "bin", Mode: 0o644, Data: []byte{0, 255}},
			}},
		},
		"only the keys listed, where and as they are wanted": {
			configMap(false, "m", ptr.To[int32](0o400), corev1.KeyToPath{Key: "b", Path: "etc//b.txt"}, corev1.KeyToPath{Key: "bin", Path: "run", Mode: ptr.To[int32](0o555)}),
			spool.Volume{Files: []spool.File{
				{Path: "etc/b.txt", Mode: 0o400, Data: []byte("text")}, {Path: "run", Mode: 0o555, Data: []byte{0, 255}},
			}},
		},
		"an empty ConfigMap":                    {configMap(false, "empty", nil), spool.Volume{}},
		"a ConfigMap that may be missing":       {configMap(true, "none", nil, corev1.KeyToPath{Key: "k", Path: "k"}), spool.Volume{}},
		"a key that may be missing":             {configMap(true, "m", nil, corev1.KeyToPath{Key: "none", Path: "k"}), spool.Volume{}},
		"a Secret that may be missing":          {secret(true, "none"), spool.Volume{}},
		"a key of a Secret that may be missing": {secret(true, "s", corev1.KeyToPath{Key: "none", Path: "k"}), spool.Volume{}},
		"a Secret": {
			secret(false, "s", corev1.KeyToPath{Key: "key", Path: "id"}), spool.Volume{Files: []spool.File{{Path: "id", Mode: 0o644, Data: []byte("K")}}},
		},
		"labels, as lines": {
			corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
				DefaultMode: ptr.To[int32](0o440),
				Items:       []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}},
			}},
			spool.Volume{Files: []spool.File{{Path: "labels", Mode: 0o440, Data: []byte("a=\"1\"\nb=\"2\"")}}},
		},
		"a projected volume, where the later source wins": {
			corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: ptr.To[int32](0o640), Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("m"), Items: []corev1.KeyToPath{{Key: "a", Path: "a"}, {Key: "b", Path: "b"}}}},
				{Secret: &corev1.SecretProjection{LocalObjectReference: named("s"), Items: []corev1.KeyToPath{{Key: "a", Path: "a"}}}},
				{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
					{Path: "ns", Mode: ptr.To[int32](0o444), FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}},
				}}},
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "tokens/vault"}},
			}}},
			spool.Volume{Files: []spool.File{
				{Path: "a", Mode: 0o640, Data: []byte("from the secret")}, {Path: "b", Mode: 0o640, Data: []byte("text")},
				{Path: "ns", Mode: 0o444, Data: []byte("default")}, {Path: "tokens/vault", Mode: 0o640, Data: []byte("jwt")},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := MakePod("p").Label("b", "2").Label("a", "1").Volume("v", tc.source).Mount("v", "/v").Obj()
			orders, err := Orders(pod, volumeInputs())
			require.NoError(t, err)
			tc.want.Name = "v"
			assert.Equal(t, []spool.Volume{tc.want}, orders.Volumes)
			isFiles := tc.source.EmptyDir == nil && tc.source.HostPath == nil
			assert.Equal(t, []spool.Mount{{Volume: "v", Path: "/v", ReadOnly: isFiles}}, orders.Containers[0].Mounts)
		})
	}
}

func TestVolumesRefusePathsThatLeadOut(t *testing.T) {
	for path, words := range map[string]string{
		"":                       "must not be empty",
		".":                      "must not be empty",
		"/etc/passwd":            "must be relative",
		"../x":                   `must not contain ".."`,
		"a/../../x":              `must not contain ".."`,
		"a/..":                   `must not contain ".."`,
		"..data":                 `nor start with it`,
		"a\x00b":                 "NUL byte",
		strings.Repeat("a", 256): "too long",
	} {
		pod := MakePod("p").Volume("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: "s", Items: []corev1.KeyToPath{{Key: "key", Path: path}},
		}}).Mount("v", "/v").Obj()
		_, err := Orders(pod, volumeInputs())
		assert.ErrorContains(t, err, "invalid path", "%q", path)
		assert.ErrorContains(t, err, words, "%q", path)
	}
}

func TestVolumesRefuseAFileThatIsADirectory(t *testing.T) {
	pod := MakePod("p").Volume("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: []corev1.KeyToPath{
		{Key: "key", Path: "a"}, {Key: "key", Path: "a-b"}, {Key: "a", Path: "a/b/c"},
	}}}).Mount("v", "/v").Obj()
	_, err := Orders(pod, volumeInputs())
	assert.ErrorContains(t, err, `"a" would be both a file and a directory`)
}

func TestTokensArePrivateWhereKubeletWouldGiveThemAnOwner(t *testing.T) {
	user := func(id int64) *corev1.SecurityContext { return &corev1.SecurityContext{RunAsUser: &id} }
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   int32
	}{
		"by default they have the volume's mode": {func(*corev1.PodSpec) {}, 0o644},
		"with a group for files": {func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1)}
		}, 0o600},
		"with one user for the pod": {func(s *corev1.PodSpec) {
			s.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To[int64](1)}
		}, 0o600},
		"with one user for all containers": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext, s.Containers[1].SecurityContext = user(1), user(1)
		}, 0o600},
		"with a user for one container only": {func(s *corev1.PodSpec) { s.Containers[1].SecurityContext = user(1) }, 0o644},
		"with two users": {func(s *corev1.PodSpec) {
			s.Containers[0].SecurityContext, s.Containers[1].SecurityContext = user(1), user(2)
		}, 0o644},
	} {
		t.Run(name, func(t *testing.T) {
			pod := MakePod("p").Volume("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", Path: "token"}},
			}}}).Mount("v", "/v").Container("c").Spec(tc.change).Obj()
			orders, err := Orders(pod, volumeInputs())
			require.NoError(t, err)
			assert.Equal(t, tc.want, orders.Volumes[0].Files[0].Mode)
		})
	}
}

func TestAVolumeThatNobodyMountsIsNotMade(t *testing.T) {
	pod := MakePod("p").Volume("v", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "none"}}).Obj()
	orders, err := Orders(pod, Inputs{})
	require.NoError(t, err)
	assert.Empty(t, orders.Volumes)
}

func TestMounts(t *testing.T) {
	pod := func(mounts ...corev1.VolumeMount) *corev1.Pod {
		b := MakePod("p").Env("POD", "p-1").Env("EMPTY", "").Env("UP", "../x").Env("ROOT", "/x").
			Volume("dir", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}})
		for _, m := range mounts {
			m.Name = "dir"
			b.MountAs(m)
		}
		return b.Obj()
	}
	for name, tc := range map[string]struct {
		mounts []corev1.VolumeMount
		want   []spool.Mount
	}{
		"paths are cleaned and absolute": {
			[]corev1.VolumeMount{{MountPath: "data//x/"}}, []spool.Mount{{Path: "/data/x"}},
		},
		"parents come first, others keep their order": {
			[]corev1.VolumeMount{{MountPath: "/b/c/d"}, {MountPath: "/b/c"}, {MountPath: "/z"}, {MountPath: "/b"}},
			[]spool.Mount{{Path: "/z"}, {Path: "/b"}, {Path: "/b/c"}, {Path: "/b/c/d"}},
		},
		"a part of the volume": {
			[]corev1.VolumeMount{{MountPath: "/d", SubPath: "a/./b/", ReadOnly: true}}, []spool.Mount{{Path: "/d", SubPath: "a/b", ReadOnly: true}},
		},
		"a part that is all": {
			[]corev1.VolumeMount{{MountPath: "/d", SubPath: "./"}}, []spool.Mount{{Path: "/d"}},
		},
		"a part named by variables": {
			[]corev1.VolumeMount{{MountPath: "/d", SubPathExpr: "logs/$(POD)/$$(POD)/$(GANGLINE_RANK)"}},
			[]spool.Mount{{Path: "/d", SubPath: "logs/p-1/$(POD)/0"}},
		},
		"a name with two dots in it leads nowhere else": {
			[]corev1.VolumeMount{{MountPath: "/d", SubPath: "a..b/..c"}}, []spool.Mount{{Path: "/d", SubPath: "a..b/..c"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			orders, err := Orders(pod(tc.mounts...), Inputs{})
			require.NoError(t, err)
			for i := range tc.want {
				tc.want[i].Volume = "dir"
			}
			assert.Equal(t, tc.want, orders.Containers[0].Mounts)
		})
	}
	for name, tc := range map[string]struct {
		mount corev1.VolumeMount
		want  string
	}{
		"a part that leads out":                  {corev1.VolumeMount{SubPath: "a/../../b"}, `must not contain ".."`},
		"an absolute part":                       {corev1.VolumeMount{SubPath: "/etc"}, "must not be an absolute path"},
		"a variable that leads out":              {corev1.VolumeMount{SubPathExpr: "$(UP)"}, `must not contain ".."`},
		"a variable that is absolute":            {corev1.VolumeMount{SubPathExpr: "$(ROOT)"}, "must not be an absolute path"},
		"a variable that is empty":               {corev1.VolumeMount{SubPathExpr: "a/$(EMPTY)"}, "missing value for EMPTY"},
		"variables that are not set, each once":  {corev1.VolumeMount{SubPathExpr: "$(Z)/$(A)/$(Z)"}, "missing value for A, Z"},
		"a reference without a name, as kubelet": {corev1.VolumeMount{SubPathExpr: "$()"}, "missing value for "},
	} {
		t.Run(name, func(t *testing.T) {
			tc.mount.MountPath = "/d"
			_, err := Orders(pod(tc.mount), Inputs{})
			assert.ErrorContains(t, err, tc.want)
		})
	}
}

func TestHostfilesStandWhereThePodHasNoneOfItsOwn(t *testing.T) {
	in := Inputs{
		Hosts:      []mpi.Host{{Name: "a.pi", Slots: 4}, {Name: "b.pi", Slots: 4}},
		ConfigMaps: configMaps(configMap("pi-mpi-hostfile", map[string]string{"hostfile": "a.pi slots=4\n"})),
	}
	hostfileAt := func(path string) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: named("pi-mpi-hostfile"), Items: []corev1.KeyToPath{{Key: "hostfile", Path: path}},
		}}
	}
	hosts := hostfileAt("hostfile")
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	part := func(sub, at string) corev1.VolumeMount {
		return corev1.VolumeMount{Name: "v", MountPath: at, SubPath: sub}
	}
	const open, hydra = "/etc/mpi/hostfile", "/etc/mpi/hostfile.hydra"
	for name, tc := range map[string]struct {
		pod             *PodBuilder
		hosts           []mpi.Host
		ours            bool
		hostfile, hydra string
	}{
		"a pod that mounts nothing there": {MakePod("p"), in.Hosts, true, open, hydra},
		"a pod that mounts a neighbour": {
			MakePod("p").Volume("v", empty).Mount("v", "/etc/mpi2"), in.Hosts, true, open, hydra,
		},
		"a gang that has no hosts": {MakePod("p"), nil, false, "", ""},
		"a hostfile of the pod's own": {
			MakePod("p").Volume("v", hosts).Mount("v", "/etc/mpi/"), in.Hosts, false, open, "",
		},
		"a hostfile of the pod's own, by itself": {
			MakePod("p").Volume("v", hosts).MountAs(part("hostfile", open)), in.Hosts, false, open, "",
		},
		"a directory of the pod's own": {
			MakePod("p").Volume("v", empty).Mount("v", "/etc/mpi"), in.Hosts, false, "", "",
		},
		"something in the directory": {
			MakePod("p").Volume("v", empty).Mount("v", "/etc/mpi/x/y"), in.Hosts, false, "", "",
		},
		"something over the directory": {
			MakePod("p").Volume("v", empty).Mount("v", "/etc"), in.Hosts, false, "", "",
		},
		"a hostfile that another mount hides": {
			MakePod("p").Volume("v", hostfileAt("mpi/hostfile")).Volume("w", empty).Mount("w", "/etc/mpi").Mount("v", "/etc"),
			in.Hosts, false, "", "",
		},
		"a hostfile in a part of a volume": {
			MakePod("p").Volume("v", hostfileAt("a/hostfile.hydra")).MountAs(part("a", "/etc/mpi")), in.Hosts, false, "", hydra,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := in
			in.Hosts = tc.hosts
			orders, err := Orders(tc.pod.Obj(), in)
			require.NoError(t, err)
			c := orders.Containers[0]
			mounted := false
			for _, m := range c.Mounts {
				mounted = mounted || m.Volume == mpiVolumeName
			}
			assert.Equal(t, tc.ours, mounted)
			values := map[string]string{}
			for _, v := range c.Env {
				values[v.Name] = v.Value
			}
			assert.Equal(t, tc.hostfile, values["PRTE_MCA_prte_default_hostfile"])
			assert.Equal(t, tc.hydra, values["HYDRA_HOST_FILE"])
			assert.Equal(t, remoteShell, values["HYDRA_LAUNCHER_EXEC"])
		})
	}
	orders, err := Orders(MakePod("p").Obj(), in)
	require.NoError(t, err)
	assert.Equal(t, []spool.Volume{{Name: "gangline.mpi", Files: []spool.File{
		{Path: "hostfile", Mode: 0o444, Data: []byte("a.pi slots=4\nb.pi slots=4\n")},
		{Path: "hostfile.hydra", Mode: 0o444, Data: []byte("a.pi:4\nb.pi:4\n")},
	}}}, orders.Volumes)
}
