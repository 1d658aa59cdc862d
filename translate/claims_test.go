package translate

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gangline/gangline/provider/spool"
	. "github.com/gangline/gangline/translate/translatetest"
)

// bound is a claim "data" of the namespace "default" that is bound to a volume.
func bound(change func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume)) Claim {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName: "pv-1", StorageClassName: ptr.To("scratch"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-1"},
		Spec: corev1.PersistentVolumeSpec{
			ClaimRef: &corev1.ObjectReference{Namespace: "default", Name: "data", UID: "u"},
		},
	}
	if change != nil {
		change(claim, volume)
	}
	return Claim{Claim: claim, Volume: volume}
}

func csi(driver, handle string) func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	return func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	}
}

func nfs(server, path string) func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	return func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
		v.Spec.NFS = &corev1.NFSVolumeSource{Server: server, Path: path}
	}
}

func onNode(path string) func(*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	return func(_ *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	}
}

func TestClaimsAreMapped(t *testing.T) {
	byClass := ClaimRule{StorageClass: "scratch", Path: "/scratch/{user}/{namespace}/{claim}"}
	for name, tc := range map[string]struct {
		claim Claim
		rules []ClaimRule
		dir   string
		host  spool.Host
		wrong string // why no rule maps it
	}{
		"by the claim's class": {
			claim: bound(nil), rules: []ClaimRule{byClass},
			dir: "/scratch/alice/default/data", host: spool.Host{Type: corev1.HostPathDirectory, Allowed: []spool.AllowedDir{{Path: "/scratch"}}},
		},
		"by the volume's class, where the claim names none": {
			claim: bound(func(c *corev1.PersistentVolumeClaim, v *corev1.PersistentVolume) {
				c.Spec.StorageClassName, v.Spec.StorageClassName = nil, "scratch"
			}),
			rules: []ClaimRule{byClass},
			dir:   "/scratch/alice/default/data", host: spool.Host{Type: corev1.HostPathDirectory, Allowed: []spool.AllowedDir{{Path: "/scratch"}}},
		},
		"by the first rule that fits, which may make the directory": {
			claim: bound(csi("lustre.csi.example.com", "vol_7")),
			rules: []ClaimRule{
				{StorageClass: "other", Path: "/other"},
				{StorageClass: "scratch", CSIDriver: "lustre.csi.example.com", Path: "/lustre/k8s/{volumeHandle}/{volume}", Create: true, ReadOnly: true},
				byClass,
			},
			dir:  "/lustre/k8s/vol_7/pv-1",
			host: spool.Host{Type: corev1.HostPathDirectoryOrCreate, Allowed: []spool.AllowedDir{{Path: "/lustre/k8s"}}, ReadOnly: true},
		},
		"by an NFS export, of which a volume may be a part": {
			claim: bound(nfs("nas", "/export/home/alice/")),
			rules: []ClaimRule{{NFS: &NFSExport{Server: "nas", Path: "/export/home"}, Path: "/home/{subdir}"}},
			dir:   "/home/alice", host: spool.Host{Type: corev1.HostPathDirectory, Allowed: []spool.AllowedDir{{Path: "/home"}}},
		},
		"by a path of the cluster's nodes": {
			claim: bound(onNode("/mnt/data")),
			rules: []ClaimRule{{HostPath: "/mnt/data", Path: "/data/{subdir}"}},
			dir:   "/data", host: spool.Host{Type: corev1.HostPathDirectory, Allowed: []spool.AllowedDir{{Path: "/data"}}},
		},
		"to one directory for all": {
			claim: bound(nil), rules: []ClaimRule{{StorageClass: "scratch", Path: "/data/sets"}},
			dir: "/data/sets", host: spool.Host{Type: corev1.HostPathDirectory, Allowed: []spool.AllowedDir{{Path: "/data/sets"}}},
		},
		"read-only, where nobody may write it": {
			claim: bound(func(c *corev1.PersistentVolumeClaim, _ *corev1.PersistentVolume) {
				c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
			}),
			rules: []ClaimRule{{StorageClass: "scratch", Path: "/d"}},
			dir:   "/d", host: spool.Host{Type: corev1.HostPathDirectory, Allowed: []spool.AllowedDir{{Path: "/d"}}, ReadOnly: true},
		},
		"by the default, with the mode of what is made": {
			claim: bound(csi("d", "h")),
			rules: []ClaimRule{{CSIDriver: "other", Path: "/o"}, {Default: true, Path: "/scratch/{namespace}/{claim}", Create: true, Mode: "2770"}},
			dir:   "/scratch/default/data",
			host:  spool.Host{Type: corev1.HostPathDirectoryOrCreate, Allowed: []spool.AllowedDir{{Path: "/scratch"}}, Mode: ptr.To[int32](0o2770)},
		},
		"not by a rule for another server": {
			claim: bound(nfs("nas2", "/export/home/alice")), rules: []ClaimRule{{NFS: &NFSExport{Server: "nas", Path: "/export"}, Path: "/home/{subdir}"}},
			wrong: `no rule of the site is for volume pv-1: storageClass "scratch", nfs nas2:/export/home/alice`,
		},
		"not by a rule for a directory that only begins alike": {
			claim: bound(nfs("nas", "/export2")), rules: []ClaimRule{{NFS: &NFSExport{Server: "nas", Path: "/export"}, Path: "/home/{subdir}"}},
			wrong: "no rule of the site",
		},
		"not where the volume's path climbs": {
			claim: bound(onNode("/mnt/data/../../etc")), rules: []ClaimRule{{HostPath: "/mnt/data", Path: "/data/{subdir}"}},
			wrong: "no rule of the site",
		},
		"not where a handle is no name": {
			claim: bound(csi("d", "../../etc")), rules: []ClaimRule{{CSIDriver: "d", Path: "/lustre/{volumeHandle}"}},
			wrong: `{volumeHandle} is "../../etc", which cannot be the name of a directory`,
		},
		"not where a handle is hidden": {
			claim: bound(csi("d", ".ssh")), rules: []ClaimRule{{CSIDriver: "d", Path: "/home/alice/{volumeHandle}"}},
			wrong: `{volumeHandle} is ".ssh"`,
		},
		"not where a handle is a path": {
			claim: bound(csi("d", "a/b")), rules: []ClaimRule{{CSIDriver: "d", Path: "/lustre/{volumeHandle}"}},
			wrong: `{volumeHandle} is "a/b"`,
		},
		"not where there is no rule": {claim: bound(nil), wrong: "no rule of the site"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range tc.rules {
				require.NoError(t, r.Validate())
			}
			site := Site{ClaimRules: tc.rules, User: "alice"}
			dir, host, err := site.mapClaim(tc.claim)
			if tc.wrong != "" {
				assert.ErrorContains(t, err, tc.wrong)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tc.dir, dir)
			assert.Equal(t, tc.host, host)
		})
	}
}

func TestAPodWaitsForItsClaims(t *testing.T) {
	type claim = *corev1.PersistentVolumeClaim
	type volume = *corev1.PersistentVolume
	pod := MakePod("p").Volume("v", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}).
		Mount("v", "/data").Obj()
	in := func(c Claim) Inputs {
		return Inputs{Claims: map[string]Claim{"data": c}, Site: Site{ClaimRules: []ClaimRule{{StorageClass: "scratch", Path: "/scratch/{claim}"}}}}
	}
	for name, tc := range map[string]struct {
		claim Claim
		want  string
	}{
		"that do not exist":  {Claim{}, `failed to fetch PVC from API server: persistentvolumeclaims "data" not found`},
		"that are not bound": {bound(func(c claim, _ volume) { c.Status.Phase = corev1.ClaimPending }), "PVC is not bound"},
		"that are going": {
			bound(func(c claim, _ volume) { c.DeletionTimestamp = ptr.To(metav1.Now()) }), "PVC is being deleted",
		},
		"whose volume is not known": {bound(func(c claim, _ volume) { c.Spec.VolumeName = "" }), "PVC has empty pvc.Spec.VolumeName"},
		"whose volume is gone": {
			Claim{Claim: bound(nil).Claim}, `failed to fetch PV pv-1 from API server: persistentvolumes "pv-1" not found`,
		},
		"whose volume does not know them": {bound(func(_ claim, v volume) { v.Spec.ClaimRef = nil }), "nil pv.Spec.ClaimRef"},
		"whose volume is another's": {
			bound(func(_ claim, v volume) { v.Spec.ClaimRef.UID = "x" }), "pv.Spec.ClaimRef.UID x does not point to claim.UID u",
		},
		"whose volume is a device": {
			bound(func(_ claim, v volume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }), "volume pv-1 has volumeMode Block, but is specified in volumeMounts",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Orders(pod, in(tc.claim))
			var missing *MissingError
			require.ErrorAs(t, err, &missing)
			assert.Equal(t, missing, UnusableClaim(pod, map[string]Claim{"data": tc.claim}))
			reason, text := missing.Event()
			assert.Equal(t, "FailedMount", reason)
			assert.Contains(t, text, "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]: error processing PVC default/data: ")
			assert.Contains(t, text, tc.want)
			assert.Nil(t, CheckClaims(pod, Site{ClaimRules: in(Claim{}).Site.ClaimRules, Claims: map[string]Claim{"data": tc.claim}}), "nobody can tell yet")
		})
	}
	protected := bound(func(c claim, _ volume) {
		c.DeletionTimestamp, c.Finalizers = ptr.To(metav1.Now()), []string{"kubernetes.io/pvc-protection"}
	})
	for _, usable := range []Claim{bound(nil), protected} {
		orders, err := Orders(pod, in(usable))
		require.NoError(t, err)
		assert.Equal(t, "/scratch/data", orders.Volumes[0].HostPath)
		assert.Nil(t, UnusableClaim(pod, map[string]Claim{"data": usable}))
	}
	assert.Equal(t, []string{"data"}, References(pod).Claims)
}

func TestClaimsThatNoRuleMapsAreRefused(t *testing.T) {
	pod := MakePod("p").Volume("v", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}).Obj()
	site := Site{ClaimRules: []ClaimRule{{StorageClass: "other", Path: "/o"}}, Claims: map[string]Claim{"data": bound(csi("d", "h"))}}
	for _, got := range []*Rejection{Admit(pod, site), CheckClaims(pod, site)} {
		require.NotNil(t, got)
		assert.Equal(t, "UnsupportedPersistentVolumeClaim", got.Reason)
		assert.Equal(t, "spec.volumes[0].persistentVolumeClaim", got.Field)
		assert.Contains(t, got.Message, `claim "data": no rule of the site is for volume pv-1: storageClass "scratch", csiDriver "d"`)
		assert.Contains(t, got.Message, "Ask the site for a rule under volumes.claims")
	}
	site.ClaimRules[0].StorageClass = "scratch"
	assert.Nil(t, Admit(pod, site))
	site.Claims = nil
	assert.Nil(t, Admit(pod, site), "a claim that is not known yet may be mapped one day")
}
