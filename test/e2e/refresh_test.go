package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
)

const following = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue, old: "1"}
---
apiVersion: v1
kind: Secret
metadata: {name: password}
stringData: {word: open-sesame}
---
apiVersion: v1
kind: Pod
metadata:
  name: reader
  labels: {stage: first}
  annotations: {note: "say \"hi\""}
spec:
  @HEAD@
  volumes:
  - name: settings
    configMap: {name: settings}
  - name: all
    projected:
      sources:
      - configMap: {name: settings, items: [{key: colour, path: map/colour}]}
      - secret: {name: password, items: [{key: word, path: secret/word, mode: 0400}]}
      - downwardAPI:
          items:
          - {path: labels, fieldRef: {fieldPath: metadata.labels}}
          - {path: note, fieldRef: {fieldPath: "metadata.annotations['note']"}}
      - serviceAccountToken: {path: token, audience: vault, expirationSeconds: 600}
  containers:
  - name: main
    image: host
    command: [sleep, "600"]
    volumeMounts:
    - {name: settings, mountPath: /etc/settings}
    - {name: all, mountPath: /etc/all}
`

func filesFollow(w *world) {
	w.manifests(following)
	w.waitPhase("reader", corev1.PodRunning)
	assert.Equal(w, "blue1", w.sh("reader", "cat /etc/settings/colour /etc/settings/old"))
	assert.Equal(w, "blueopen-sesame400", w.sh("reader", "cat /etc/all/map/colour /etc/all/secret/word; printf %s $(stat -c %a /etc/all/..data/secret/word)"))
	assert.Contains(w, w.sh("reader", "cat /etc/all/labels"), `stage="first"`)
	assert.Equal(w, `say "hi"`, w.sh("reader", "cat /etc/all/note"))
	assert.Equal(w, "..data/colour", strings.TrimSpace(w.sh("reader", "readlink /etc/settings/colour")))

	began := time.Now()
	w.must("label", "pod", "reader", "stage=second", "--overwrite")
	w.eventuallySays("reader", "grep stage /etc/all/labels", "stage=\"second\"\n")
	w.Log("a label took", time.Since(began))

	began = time.Now()
	w.must("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"colour":"red","old":null,"new":"2"}}`)
	w.must("patch", "secret", "password", "--type=merge", "-p", `{"stringData":{"word":"shut-sesame"}}`)
	w.eventuallySays("reader", "cat /etc/settings/colour /etc/settings/new /etc/all/map/colour; ls /etc/settings", "red2redcolour\nnew\n")
	w.eventuallySays("reader", "cat /etc/all/secret/word", "shut-sesame")
	w.Log("a ConfigMap and a Secret took", time.Since(began))
	data := w.sh("reader", "readlink /etc/all/..data")
	w.eventuallySays("reader", "ls -d /etc/all/..2*", "/etc/all/"+data)
	assert.Empty(w, grep(w, w.env.Node.Spool(), "sesame"))
}

func refreshAfterRestart(w *world) {
	w.manifests(following)
	w.waitPhase("reader", corev1.PodRunning)
	token := w.sh("reader", "cat /etc/all/token")
	require.NoError(w, w.env.Node.Kill())
	w.must("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"colour":"green"}}`)
	require.NoError(w, w.env.Node.Start(w.Context()))
	w.eventuallySays("reader", "cat /etc/settings/colour", "green")
	w.eventually("the pod has a new token", func(context.Context) (bool, string) {
		return w.sh("reader", "cat /etc/all/token") != token, ""
	})
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{
		Token: w.sh("reader", "cat /etc/all/token"), Audiences: []string{"vault"},
	}}
	require.NoError(w, w.client.Create(w.Context(), review))
	require.True(w, review.Status.Authenticated, review.Status.Error)
	assert.Equal(w, authenticationv1.ExtraValue{"reader"}, review.Status.User.Extra["authentication.kubernetes.io/pod-name"], "bound to the pod")
	w.must("delete", "pod", "reader", "--wait=false")
}

func goneStays(w *world) {
	w.manifests(following)
	w.waitPhase("reader", corev1.PodRunning)
	w.must("delete", "configmap", "settings")
	w.waitEvent("reader", "FailedMount", `MountVolume.SetUp failed for volume "settings" : configmap "settings" not found`)
	w.must("label", "pod", "reader", "stage=second", "--overwrite") // the volumes are looked at once more
	w.must("patch", "secret", "password", "--type=merge", "-p", `{"stringData":{"word":"still"}}`)
	assert.Equal(w, "blue", w.sh("reader", "cat /etc/settings/colour"))
	w.must("create", "configmap", "settings", "--from-literal=colour=white")
	w.eventuallySays("reader", "cat /etc/settings/colour /etc/all/map/colour /etc/all/secret/word", "whitewhitestill")
	assert.Equal(w, 1, strings.Count(w.events("reader"), `volume "settings" : configmap`), w.events("reader"))
}

func someDoNotFollow(w *world) {
	w.manifests(`
apiVersion: v1
kind: ConfigMap
metadata: {name: changes}
data: {a: first, dir-a: first}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fixed}
immutable: true
data: {a: first}
---
apiVersion: v1
kind: Pod
metadata: {name: reader}
spec:
  @HEAD@
  volumes:
  - name: changes
    configMap: {name: changes, items: [{key: a, path: a}, {key: dir-a, path: dir/a}]}
  - name: fixed
    configMap: {name: fixed}
  containers:
  - name: main
    image: host
    command: [sh, -c, "while sleep 0.2; do cat /part /dir/a /fixed/a /all/a; echo; done"]
    volumeMounts:
    - {name: changes, mountPath: /all}
    - {name: changes, mountPath: /part, subPath: a}
    - {name: changes, mountPath: /dir, subPath: dir}
    - {name: fixed, mountPath: /fixed}
`)
	w.waitPhase("reader", corev1.PodRunning)
	w.must("delete", "configmap", "fixed")
	w.must("create", "configmap", "fixed", "--from-literal=a=second")
	// What is read for the second of these is younger than the new "fixed".
	for _, value := range []string{"second", "third"} {
		w.must("patch", "configmap", "changes", "--type=merge", "-p", fmt.Sprintf(`{"data":{"a":%[1]q,"dir-a":%[1]q}}`, value))
		w.waitLog("reader", "firstfirstfirst"+value+"\n")
	}
	assert.Equal(w, "firstfirstfirst", w.sh("reader", "cat /part /dir/a /fixed/a"), "sessions see what the container sees")
}
