package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gangline/gangline/translate/wellknown"
)

func hostPaths(w *world) {
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: paths}
spec:
  @HEAD@
  volumes:
  - {name: made, hostPath: {path: "@SHARED@/scratch/@NS@/new", type: DirectoryOrCreate}}
  - {name: file, hostPath: {path: "@SHARED@/scratch/@NS@-file", type: FileOrCreate}}
  - {name: sets, hostPath: {path: "@SHARED@/scratch/sets", type: Directory}}
  - {name: link, hostPath: {path: "@SHARED@/scratch/link"}}
  containers:
  - name: main
    image: host
    command: [sh, -c]
    args:
    - |
      echo made > /made/x; echo file > /file; cat /sets/one /link/one; echo
      touch /sets/x 2>/dev/null || echo read-only
      touch /link/x 2>/dev/null || echo read-only too
      touch /part/y && ls /made
    volumeMounts:
    - {name: made, mountPath: /made}
    - {name: made, mountPath: /part, subPath: a/b}
    - {name: file, mountPath: /file}
    - {name: sets, mountPath: /sets}
    - {name: link, mountPath: /link}
---
apiVersion: v1
kind: Pod
metadata: {name: astray}
spec:
  @HEAD@
  volumes:
  - {name: out, hostPath: {path: "@SHARED@/scratch/out"}}
  containers:
  - {name: main, image: host, command: [ls, /out], volumeMounts: [{name: out, mountPath: /out}]}
---
apiVersion: v1
kind: Pod
metadata: {name: forbidden}
spec:
  @HEAD@
  volumes:
  - {name: etc, hostPath: {path: /etc}}
  containers:
  - {name: main, image: host, command: [ls, /host], volumeMounts: [{name: etc, mountPath: /host}]}
`)
	w.waitPhase("paths", corev1.PodSucceeded)
	assert.Equal(w, "a seta set\nread-only\nread-only too\na\nx\n", w.must("logs", "paths"))
	shared := filepath.Dir(filepath.Dir(w.env.Node.Spool()))
	data, err := os.ReadFile(filepath.Join(shared, "scratch", w.namespace+"-file"))
	require.NoError(w, err)
	assert.Equal(w, "file\n", string(data))

	w.waitEvent("astray", "FailedMount", "/scratch/out is /etc, which is not in a directory that the site allows")
	assert.Equal(w, corev1.PodPending, w.pod("astray").Status.Phase)
	refused := w.waitPhase("forbidden", corev1.PodFailed)
	assert.Equal(w, "UnsupportedHostPath", refused.Status.Reason)
	w.must("delete", "pod", "astray")
	w.waitGone("astray")
}

func waitsForPath(w *world) {
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: patient}
spec:
  @HEAD@
  volumes:
  - {name: late, hostPath: {path: "@SHARED@/scratch/@NS@-late", type: Directory}}
  containers:
  - {name: main, image: host, command: [echo, here], volumeMounts: [{name: late, mountPath: /late}]}
`)
	shared := filepath.Dir(filepath.Dir(w.env.Node.Spool()))
	path := filepath.Join(shared, "scratch", w.namespace+"-late")
	w.waitEvent("patient", "FailedMount", fmt.Sprintf(
		`MountVolume.SetUp failed for volume "late" : hostPath type check failed, %[1]s is not a directory, unable to determine its type: path %[1]q does not exist`, path))
	require.NoError(w, os.Mkdir(path, 0o755))
	w.waitPhase("patient", corev1.PodSucceeded)
}

const volumeAndClaim = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: "@NS@-@NAME@"}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteMany, ReadOnlyMany]
  persistentVolumeReclaimPolicy: Retain
  claimRef: {namespace: "@NS@", name: "@NAME@"}
  @SOURCE@
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: "@NAME@"}
spec:
  volumeName: "@NS@-@NAME@"
  accessModes: [@MODE@]
  resources: {requests: {storage: 1Gi}}
  storageClassName: "@CLASS@"
---
`

// claim makes a claim and the volume that it binds to, which goes with the test.
func (w *world) claim(name, class, mode, source string) {
	w.Helper()
	if class != "" {
		source = "storageClassName: " + class + "\n  " + source
	}
	w.manifests(strings.NewReplacer("@NAME@", name, "@CLASS@", class, "@MODE@", mode, "@SOURCE@", source).Replace(volumeAndClaim))
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
		assert.NoError(w, w.client.Delete(ctx, volume))
	})
}

func claims(w *world) {
	w.claim("data", "hpc", "ReadWriteMany", "csi: {driver: lustre.example.com, volumeHandle: v1}")
	w.claim("team", "", "ReadWriteMany", "nfs: {server: nas, path: /export/team}")
	w.claim("archive", "hpc", "ReadOnlyMany", "csi: {driver: lustre.example.com, volumeHandle: v2}")
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: writer}
spec:
  @HEAD@
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: data}}
  - {name: team, persistentVolumeClaim: {claimName: team}}
  - {name: archive, persistentVolumeClaim: {claimName: archive}}
  - {name: again, persistentVolumeClaim: {claimName: data, readOnly: true}}
  containers:
  - name: main
    image: host
    command: [sh, -c]
    args:
    - |
      id -un > /data/who; echo part > /part/x; echo team > /team/@NS@
      touch /archive/x 2>/dev/null || echo read-only
      touch /again/x 2>/dev/null || echo read-only too
      cat /again/a/x
    volumeMounts:
    - {name: data, mountPath: /data}
    - {name: data, mountPath: /part, subPath: a}
    - {name: team, mountPath: /team}
    - {name: archive, mountPath: /archive}
    - {name: again, mountPath: /again}
`)
	w.waitPhase("writer", corev1.PodSucceeded)
	assert.Equal(w, "read-only\nread-only too\npart\n", w.must("logs", "writer"))
	shared := filepath.Dir(filepath.Dir(w.env.Node.Spool()))
	who, err := filepath.Glob(filepath.Join(shared, "claims", "*", w.namespace, "data", "who"))
	require.NoError(w, err)
	require.Len(w, who, 1)
	user, err := os.ReadFile(who[0])
	require.NoError(w, err)
	assert.Equal(w, filepath.Join(shared, "claims", strings.TrimSpace(string(user)), w.namespace, "data", "who"), who[0], "{user} is who it runs as")
	assert.FileExists(w, filepath.Join(shared, "nas", "team", w.namespace))
}

func waitsForClaim(w *world) {
	// Bound to the node by hand: the scheduler would wait as well.
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: early}
spec:
  nodeName: "@NODE@"
  restartPolicy: Never
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: late}}
  containers:
  - {name: main, image: host, command: [touch, /data/x], volumeMounts: [{name: data, mountPath: /data}]}
`)
	const text = "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[], failed to process volumes=[data]: error processing PVC "
	w.waitEvent("early", "FailedMount", text+w.namespace+`/late: failed to fetch PVC from API server: persistentvolumeclaims "late" not found`)
	w.manifests(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: late}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}, storageClassName: hpc, volumeName: "@NS@-late"}
`)
	w.waitEvent("early", "FailedMount", text+w.namespace+"/late: PVC is not bound")
	pod := w.pod("early")
	assert.Equal(w, corev1.PodPending, pod.Status.Phase)
	assert.Empty(w, pod.Annotations[wellknown.AnnotationAllocation], "no HPC node waits with it")
	w.claim("late", "hpc", "ReadWriteMany", "hostPath: {path: /somewhere/else}")
	w.waitPhase("early", corev1.PodSucceeded)
}

func unmappedClaim(w *world) {
	w.claim("foreign", "fast", "ReadWriteMany", "csi: {driver: block.example.com, volumeHandle: v9}")
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: lost}
spec:
  @HEAD@
  volumes:
  - {name: data, persistentVolumeClaim: {claimName: foreign}}
  containers:
  - {name: main, image: host, command: ["true"], volumeMounts: [{name: data, mountPath: /data}]}
`)
	pod := w.waitPhase("lost", corev1.PodFailed)
	assert.Equal(w, "UnsupportedPersistentVolumeClaim", pod.Status.Reason)
	for _, part := range []string{`claim "foreign"`, `storageClass "fast", csiDriver "block.example.com"`, "Ask the site for a rule under volumes.claims"} {
		assert.Contains(w, pod.Status.Message, part)
	}
	w.waitEvent("lost", "UnsupportedPersistentVolumeClaim", "volumes.claims")
}
