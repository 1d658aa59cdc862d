package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gangline/gangline/provider"
	"github.com/gangline/gangline/translate"
	"github.com/gangline/gangline/translate/wellknown"
)

// TestVolumes is what pods find in their files and their environment.
func TestVolumes(t *testing.T) {
	t.Parallel()
	env := environment(t, "volumes", "local", 2, func(c *provider.Config) {
		shared := filepath.Dir(filepath.Dir(c.Spool))
		c.HostPaths = []string{filepath.Join(shared, "scratch")}
		c.ReadOnlyHostPaths = []string{filepath.Join(shared, "scratch", "sets")}
		c.Volumes = provider.VolumesConfig{
			RefreshInterval: metav1.Duration{Duration: 4 * time.Second},
			Claims: []translate.ClaimRule{
				{StorageClass: "hpc", Path: filepath.Join(shared, "claims") + "/{user}/{namespace}/{claim}", Create: true},
				{NFS: &translate.NFSExport{Server: "nas", Path: "/export"}, Path: filepath.Join(shared, "nas") + "/{subdir}"},
			},
		}
	})
	shared := filepath.Dir(filepath.Dir(env.Node.Spool()))
	home := filepath.Join(shared, "scratch")
	require.NoError(t, errors.Join(
		os.MkdirAll(filepath.Join(home, "sets"), 0o777), os.WriteFile(filepath.Join(home, "sets", "one"), []byte("a set"), 0o644),
		os.MkdirAll(filepath.Join(shared, "claims"), 0o777), os.MkdirAll(filepath.Join(shared, "nas", "team"), 0o777),
		os.Chmod(home, 0o777), os.Chmod(filepath.Join(home, "sets"), 0o777),
		os.Chmod(filepath.Join(shared, "claims"), 0o777), os.Chmod(filepath.Join(shared, "nas", "team"), 0o777),
		os.Symlink("/etc", filepath.Join(home, "out")), os.Symlink("sets", filepath.Join(home, "link")),
	))
	// It ends the provider, so the others begin after it.
	t.Run("files follow their sources after a restart of the node, with new tokens", func(t *testing.T) {
		refreshAfterRestart(newWorld(t, env))
	})
	runAll(t, env, map[string]func(*world){
		"files follow ConfigMaps, Secrets and labels":          filesFollow,
		"what has gone stays, and is told once":                goneStays,
		"parts of volumes and immutable objects do not follow": someDoNotFollow,
		"items, modes and what is optional":                    itemsAndModes,
		"a pod waits for the ConfigMap of a volume":            waitsForVolume,
		"scratch space outlives containers, not the pod":       scratchSpace,
		"a pod that fills its scratch space is evicted":        evicted,
		"paths of the node":                                    hostPaths,
		"a pod waits for a path of the node":                   waitsForPath,
		"claims become directories":                            claims,
		"a pod waits until its claim is bound":                 waitsForClaim,
		"a claim that no rule maps is refused":                 unmappedClaim,
		"parts of volumes, nested and read-only":               nestedMounts,
		"two pods of a node have different files at one path":  samePath,
		"the environment, in order and from all sources":       wholeEnvironment,
		"host names": hostNames,
		"a pod waits for what its environment needs, and then starts": waitsForEnvironment,
	})
}

// podHead begins a pod's spec: the node is the group's.
const podHead = `restartPolicy: Never
  terminationGracePeriodSeconds: 2
  nodeSelector: {kubernetes.io/hostname: "@NODE@"}
  tolerations: [{key: "` + wellknown.TaintKey + `", operator: Exists}]`

// manifests has kubectl apply what is written, in which @HEAD@, @NODE@, @NS@ and @SHARED@ stand
// for what differs.
func (w *world) manifests(text string) {
	w.Helper()
	shared := filepath.Dir(filepath.Dir(w.env.Node.Spool()))
	text = strings.ReplaceAll(text, "@HEAD@", podHead)
	text = strings.NewReplacer("@NODE@", w.env.Name, "@NS@", w.namespace, "@SHARED@", shared).Replace(text)
	_, err := control.Kubectl(w.Context(), text, "-n", w.namespace, "apply", "-f", "-")
	require.NoError(w, err)
}

// sh runs a script in a pod that runs.
func (w *world) sh(pod, script string) string {
	w.Helper()
	return w.must("exec", pod, "--", "sh", "-c", script)
}

// keyOf names an object of the test's namespace.
func keyOf(w *world, name string) client.ObjectKey {
	return client.ObjectKey{Namespace: w.namespace, Name: name}
}

// eventuallySays waits until a script in a pod prints something.
func (w *world) eventuallySays(pod, script, want string) {
	w.Helper()
	w.eventually(fmt.Sprintf("%q in pod %s says %q", script, pod, want), func(context.Context) (bool, string) {
		out, err := w.kubectl("exec", pod, "--", "sh", "-c", script)
		return err == nil && out == want, fmt.Sprintf("%q %v", out, err)
	})
}

func itemsAndModes(w *world) {
	w.manifests(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: text}
binaryData: {bin: AAH/}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {id: key, other: x}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  @HEAD@
  volumes:
  - name: settings
    configMap: {name: settings}
  - name: keys
    secret: {secretName: keys, defaultMode: 0440, items: [{key: id, path: deep/id, mode: 0400}, {key: other, path: other}]}
  - name: none
    secret: {secretName: none, optional: true}
  - name: nokey
    configMap: {name: settings, optional: true, items: [{key: nokey, path: x}, {key: a, path: b}]}
  - name: limits
    downwardAPI:
      items:
      - {path: cpu, resourceFieldRef: {containerName: main, resource: limits.cpu, divisor: 1m}}
      - {path: memory, mode: 0400, resourceFieldRef: {containerName: main, resource: requests.memory, divisor: 1Mi}}
  containers:
  - name: main
    image: host
    resources: {requests: {cpu: 500m, memory: 64Mi}, limits: {cpu: 1500m, memory: 64Mi}}
    command: [sh, -c]
    args:
    - |
      stat -L -c '%a %n' /settings/a /keys/deep/id /keys/other /limits/memory
      od -An -tx1 /settings/bin; ls /none /nokey; cat /limits/cpu /limits/memory; echo
      ! echo x > /settings/a || echo writable
    volumeMounts:
    - {name: settings, mountPath: /settings}
    - {name: keys, mountPath: /keys}
    - {name: none, mountPath: /none}
    - {name: nokey, mountPath: /nokey}
    - {name: limits, mountPath: /limits}
`)
	w.waitPhase("reader", corev1.PodSucceeded)
	assert.Equal(w, `644 /settings/a
400 /keys/deep/id
440 /keys/other
400 /limits/memory
 00 01 ff
/nokey:
b

/none:
150064
`, strings.ReplaceAll(w.must("logs", "reader"), "sh: 3: cannot create /settings/a: Read-only file system\n", ""))
}

func waitsForVolume(w *world) {
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  @HEAD@
  volumes:
  - name: late
    configMap: {name: late}
  containers:
  - {name: main, image: host, command: [cat, /late/a], volumeMounts: [{name: late, mountPath: /late}]}
`)
	w.waitEvent("reader", "FailedMount", `MountVolume.SetUp failed for volume "late" : configmap "late" not found`)
	pod := w.waitPod("reader", "waits", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting.Reason == "ContainerCreating"
	})
	assert.Equal(w, corev1.PodPending, pod.Status.Phase)
	w.must("create", "configmap", "late", "--from-literal=a=here")
	w.waitPhase("reader", corev1.PodSucceeded)
	assert.Equal(w, "here\n", w.must("logs", "reader"))
}

func scratchSpace(w *world) {
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: scratch}
spec:
  @HEAD@
  volumes:
  - name: disk
    emptyDir: {}
  - name: memory
    emptyDir: {medium: Memory, sizeLimit: 64Mi}
  initContainers:
  - {name: first, image: host, command: [sh, -c, "echo begun > /disk/runs"], volumeMounts: [{name: disk, mountPath: /disk}]}
  containers:
  - name: main
    image: host
    restartPolicy: OnFailure
    command: [sh, -c, "echo run >> /disk/runs; test $(grep -c run /disk/runs) -gt 1 || exit 1; exec sleep 600"]
    volumeMounts: [{name: disk, mountPath: /disk}, {name: memory, mountPath: /memory}]
  - {name: other, image: host, command: [sleep, "600"], volumeMounts: [{name: memory, mountPath: /memory}]}
`)
	w.eventuallySays("scratch", "cat /disk/runs", "begun\nrun\nrun\n")
	assert.Equal(w, "777 777 tmpfs\n", w.sh("scratch", "echo $(stat -c %a /disk /memory) $(stat -f -c %T /memory)"))
	w.sh("scratch", "echo shared > /memory/x")
	assert.Equal(w, "shared\n", w.must("exec", "scratch", "-c", "other", "--", "cat", "/memory/x"))
	uid := string(w.pod("scratch").UID)
	assert.NotEmpty(w, w.directoriesOf(uid), "the directories behind them")
	w.must("delete", "pod", "scratch")
	w.waitGone("scratch")
	assert.Empty(w, w.directoriesOf(uid))
}

// directoriesOf are a pod's directories on this machine, which stands for the HPC nodes.
func (w *world) directoriesOf(uid string) []string {
	var found []string
	for _, pattern := range []string{"/dev/shm/gangline-*/*/", "/tmp/gangline-*/*/"} {
		dirs, err := filepath.Glob(pattern + uid)
		require.NoError(w, err)
		found = append(found, dirs...)
	}
	return found
}

func evicted(w *world) {
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  @HEAD@
  volumes:
  - name: data
    emptyDir: {sizeLimit: 1Mi}
  containers:
  - name: main
    image: host
    command: [sh, -c, "head -c 3000000 /dev/zero > /data/x; echo full; exec sleep 600"]
    volumeMounts: [{name: data, mountPath: /data}]
---
apiVersion: v1
kind: Pod
metadata: {name: chatty}
spec:
  @HEAD@
  containers:
  - name: main
    image: host
    resources: {limits: {ephemeral-storage: 1Mi}}
    command: [sh, -c, "head -c 3000000 /dev/zero | tr '\\0' 'x' | fold; exec sleep 600"]
`)
	pod := w.waitPhase("greedy", corev1.PodFailed)
	assert.Equal(w, "Evicted", pod.Status.Reason)
	assert.Equal(w, `Usage of EmptyDir volume "data" exceeds the limit "1Mi".`, pod.Status.Message)
	assert.Empty(w, podCondition(pod, corev1.DisruptionTarget).Type, "it is the pod's own fault")
	assert.NotNil(w, pod.Status.ContainerStatuses[0].State.Terminated)
	w.waitEvent("greedy", "Evicted", `Usage of EmptyDir volume "data" exceeds the limit "1Mi".`)
	assert.Contains(w, w.must("logs", "greedy"), "full")

	pod = w.waitPhase("chatty", corev1.PodFailed)
	assert.Equal(w, "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi.", pod.Status.Message)
}

func nestedMounts(w *world) {
	w.manifests(`
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: inner}
---
apiVersion: v1
kind: Pod
metadata: {name: nested}
spec:
  @HEAD@
  volumes:
  - {name: outer, emptyDir: {}}
  - {name: inner, configMap: {name: settings}}
  - {name: shm, hostPath: {path: "@SHARED@/scratch/sets"}}
  containers:
  - name: main
    image: host
    env:
    - {name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    command: [sh, -c]
    args:
    - |
      echo 1 > /outer/x; cat /outer/deep/inner/a; echo
      echo part > /parts/y; ls /outer/logs
      touch /fixed/z 2>/dev/null || echo read-only
      touch /recursive/z 2>/dev/null || echo recursively; ls /recursive/logs/nested
      ! test -e /fixed/deep/inner/a && echo apart
    volumeMounts:
    # Children first: depth decides.
    - {name: inner, mountPath: /outer/deep/inner}
    - {name: outer, mountPath: /outer}
    - {name: outer, mountPath: /parts, subPathExpr: logs/$(POD)}
    - {name: outer, mountPath: /fixed, readOnly: true}
    - {name: outer, mountPath: /recursive, readOnly: true, recursiveReadOnly: Enabled}
---
apiVersion: v1
kind: Pod
metadata: {name: unset}
spec:
  @HEAD@
  volumes: [{name: outer, emptyDir: {}}]
  containers:
  - {name: main, image: host, command: ["true"], volumeMounts: [{name: outer, mountPath: /parts, subPathExpr: logs/$(NOBODY)}]}
`)
	w.waitPhase("nested", corev1.PodSucceeded)
	assert.Equal(w, "inner\nnested\nread-only\nrecursively\ny\napart\n", w.must("logs", "nested"))
	waits := w.waitPod("unset", "waits", func(p *corev1.Pod) bool { return strings.Contains(p.Status.Message, "NOBODY") })
	assert.Equal(w, "CreateContainerConfigError", waits.Status.ContainerStatuses[0].State.Waiting.Reason)
}

func samePath(w *world) {
	for _, name := range []string{"one", "two"} {
		w.must("create", "configmap", name, "--from-literal=a="+name)
		w.manifests(strings.ReplaceAll(`
apiVersion: v1
kind: Pod
metadata: {name: "@NAME@"}
spec:
  @HEAD@
  volumes:
  - {name: own, configMap: {name: "@NAME@"}}
  - {name: scratch, emptyDir: {}}
  containers:
  - name: main
    image: host
    command: [sh, -c, "cat /etc/own/a; echo; cat /etc/own/a > /scratch/a; exec sleep 600"]
    volumeMounts: [{name: own, mountPath: /etc/own}, {name: scratch, mountPath: /scratch}]
`, "@NAME@", name))
	}
	for _, name := range []string{"one", "two"} {
		w.waitPhase(name, corev1.PodRunning)
		w.waitLog(name, name)
	}
	for _, name := range []string{"one", "two"} {
		assert.Equal(w, name+name, w.sh(name, "cat /etc/own/a /scratch/a"))
	}
	assert.NoDirExists(w, "/etc/own")
}
