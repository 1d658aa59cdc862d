package e2e

import (
	"context"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// variables are those that env(1) has printed, by name; a value is one line.
func variables(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		found[name] = value
	}
	return found
}

func wholeEnvironment(w *world) {
	w.manifests(`
apiVersion: v1
kind: ConfigMap
metadata: {name: base}
data: {A: base-a, B: base-b, 1bad: kept, dotted.name: kept too}
binaryData: {BINARY: AAH/}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: over}
data: {B: over-b, C: over-c, WEB_PORT: mine}
---
apiVersion: v1
kind: Secret
metadata: {name: keys}
stringData: {A: secret-a, WORD: sesame}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{name: http, port: 8080}, {name: dns, port: 53, protocol: UDP}]}
---
apiVersion: v1
kind: Service
metadata: {name: headless}
spec: {clusterIP: None, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: full, labels: {app.kubernetes.io/name: full}, annotations: {example.com/note: "a b"}}
spec:
  @HEAD@
  containers:
  - name: main
    image: host
    command: [env]
    envFrom:
    - configMapRef: {name: base}
    - configMapRef: {name: over}
    - secretRef: {name: keys}
      prefix: P_
    - configMapRef: {name: none, optional: true}
    - secretRef: {name: none, optional: true}
    resources: {requests: {cpu: 250m, memory: 100Mi}, limits: {memory: 200Mi}}
    env:
    - {name: FIRST, value: one}
    - {name: SECOND, value: "$(FIRST) $(B) $(LATER) $$(FIRST) $(P_WORD)"}
    - {name: LATER, value: late}
    - {name: C, value: "mine, not $(C)"}
    - {name: FIRST, value: "$(FIRST) again"}
    - {name: URL, value: "http://$(WEB_SERVICE_HOST):$(WEB_SERVICE_PORT_HTTP)"}
    - {name: EMPTY, value: ""}
    - {name: MAP_KEY, valueFrom: {configMapKeyRef: {name: base, key: A}}}
    - {name: SECRET_KEY, valueFrom: {secretKeyRef: {name: keys, key: WORD}}}
    - {name: NO_MAP, valueFrom: {configMapKeyRef: {name: none, key: A, optional: true}}}
    - {name: NO_KEY, valueFrom: {secretKeyRef: {name: keys, key: NONE, optional: true}}}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    - {name: UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
    - {name: LABEL, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app.kubernetes.io/name']"}}}
    - {name: NOTE, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['example.com/note']"}}}
    - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: ACCOUNT, valueFrom: {fieldRef: {fieldPath: spec.serviceAccountName}}}
    - {name: HOST_IP, valueFrom: {fieldRef: {fieldPath: status.hostIP}}}
    - {name: HOST_IPS, valueFrom: {fieldRef: {fieldPath: status.hostIPs}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: POD_IPS, valueFrom: {fieldRef: {fieldPath: status.podIPs}}}
    - {name: CPU_REQUEST, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}
    - {name: CPU_MILLIS, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: CPU_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: MEMORY_LIMIT, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: OTHERS_LIMIT, valueFrom: {resourceFieldRef: {containerName: words, resource: limits.memory}}}
    - {name: NODE_MEMORY, valueFrom: {resourceFieldRef: {containerName: words, resource: limits.memory, divisor: 1Gi}}}
  - name: words
    image: host
    command: [printf, "<%s>"]
    args: ["$(WORD)", "$$(WORD)", "$(UNKNOWN)", "a  b; echo no", "$(WEB_PORT)"]
    env:
    - {name: WORD, value: "two words"}
---
apiVersion: v1
kind: Pod
metadata: {name: unlinked}
spec:
  @HEAD@
  enableServiceLinks: false
  containers:
  - {name: main, image: host, command: [env]}
`)
	pod := w.waitPhase("full", corev1.PodSucceeded)
	web := &corev1.Service{}
	require.NoError(w, w.client.Get(w.Context(), keyOf(w, "web"), web))
	ip := web.Spec.ClusterIP
	got := variables(w.must("logs", "full", "-c", "main"))
	for name, value := range map[string]string{
		"A": "base-a", "B": "over-b", "1bad": "kept", "dotted.name": "kept too", "P_A": "secret-a", "P_WORD": "sesame",
		"FIRST": "one again", "SECOND": "one over-b $(LATER) $(FIRST) sesame", "LATER": "late", "C": "mine, not over-c", "EMPTY": "",
		"URL": "http://" + ip + ":8080", "MAP_KEY": "base-a", "SECRET_KEY": "sesame",
		"NAME": "full", "NAMESPACE": w.namespace, "UID": string(pod.UID), "LABEL": "full", "NOTE": "a b", "NODE": w.env.Name, "ACCOUNT": "default",
		"HOST_IP": pod.Status.HostIP, "HOST_IPS": pod.Status.HostIP, "POD_IP": pod.Status.PodIP, "POD_IPS": pod.Status.PodIP,
		"CPU_REQUEST": "1", "CPU_MILLIS": "250", "CPU_LIMIT": "8", "MEMORY_LIMIT": "200", "OTHERS_LIMIT": "17179869184", "NODE_MEMORY": "16",
		"WEB_SERVICE_HOST": ip, "WEB_SERVICE_PORT": "8080", "WEB_SERVICE_PORT_HTTP": "8080", "WEB_SERVICE_PORT_DNS": "53",
		"WEB_PORT_53_UDP": "udp://" + ip + ":53", "WEB_PORT_53_UDP_PROTO": "udp", "WEB_PORT_8080_TCP_PORT": "8080", "WEB_PORT_8080_TCP_ADDR": ip,
		"WEB_PORT":      "mine", // a Service's variable gives way to the pod's own
		"HOSTNAME":      "full", // kubelet's runtime sets it
		"GANGLINE_RANK": "0",
	} {
		value2, set := got[name]
		assert.True(w, set, name)
		assert.Equal(w, value, value2, name)
	}
	for _, name := range []string{"NO_MAP", "NO_KEY", "BINARY", "HEADLESS_SERVICE_HOST"} {
		assert.NotContains(w, got, name)
	}
	assert.Contains(w, got, "KUBERNETES_SERVICE_HOST")
	assert.NotEmpty(w, got["HOME"])
	assert.Equal(w, "<two words><$(WORD)><$(UNKNOWN)><a  b; echo no><tcp://"+ip+":8080>\n", w.must("logs", "full", "-c", "words"))

	w.waitPhase("unlinked", corev1.PodSucceeded)
	got = variables(w.must("logs", "unlinked"))
	assert.Contains(w, got, "KUBERNETES_SERVICE_HOST")
	assert.NotContains(w, got, "WEB_SERVICE_HOST")
}

func hostNames(w *world) {
	long := strings.Repeat("abcde-", 12) + "end"
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: "` + long + `"}
spec:
  @HEAD@
  containers:
  - {name: main, image: host, command: [sh, -c, "hostname; echo $HOSTNAME"]}
---
apiVersion: v1
kind: Pod
metadata: {name: named}
spec:
  @HEAD@
  hostname: alpha
  subdomain: beta
  hostAliases: [{ip: 192.0.2.7, hostnames: [database, db.example.com]}]
  containers:
  - name: main
    image: host
    workingDir: /lab/deep
    command: [sh, -c, "hostname; pwd; getent hosts database | awk '{print $1}'; getent hosts alpha.beta.@NS@.svc.cluster.local | awk '{print $1}'"]
---
apiVersion: v1
kind: Pod
metadata: {name: qualified}
spec:
  @HEAD@
  hostname: alpha
  subdomain: beta
  setHostnameAsFQDN: true
  containers:
  - {name: main, image: host, command: [hostname]}
`)
	w.waitPhase(long, corev1.PodSucceeded)
	cut := strings.TrimRight(long[:63], "-.")
	assert.Equal(w, cut+"\n"+cut+"\n", w.must("logs", long))
	pod := w.waitPhase("named", corev1.PodSucceeded)
	assert.Equal(w, "alpha\n/lab/deep\n192.0.2.7\n"+pod.Status.PodIP+"\n", w.must("logs", "named"))
	w.waitPhase("qualified", corev1.PodSucceeded)
	assert.Equal(w, "alpha.beta."+w.namespace+".svc.cluster.local\n", w.must("logs", "qualified"))
}

func waitsForEnvironment(w *world) {
	w.manifests(`
apiVersion: v1
kind: Pod
metadata: {name: needy}
spec:
  @HEAD@
  containers:
  - name: main
    image: host
    command: [sh, -c, "echo $COLOUR $WORD"]
    env:
    - {name: COLOUR, valueFrom: {configMapKeyRef: {name: settings, key: colour}}}
    - {name: WORD, valueFrom: {secretKeyRef: {name: password, key: word}}}
`)
	waits := func(message string) {
		w.Helper()
		pod := w.waitPod("needy", "waits for "+message, func(p *corev1.Pod) bool { return strings.Contains(p.Status.Message, message) })
		waiting := pod.Status.ContainerStatuses[0].State.Waiting
		require.NotNil(w, waiting)
		assert.Equal(w, "CreateContainerConfigError", waiting.Reason)
		assert.Contains(w, waiting.Message, message)
		assert.Equal(w, corev1.PodPending, pod.Status.Phase)
		w.waitEvent("needy", "Failed", "Error: ")
	}
	waits(`configmap "settings" not found`)
	w.must("create", "configmap", "settings", "--from-literal=shape=round")
	waits("couldn't find key colour in ConfigMap " + w.namespace + "/settings")
	w.must("patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"colour":"blue"}}`)
	waits(`secret "password" not found`)
	w.must("create", "secret", "generic", "password", "--from-literal=word=sesame")
	w.waitPhase("needy", corev1.PodSucceeded)
	w.eventually("its log says so", func(context.Context) (bool, string) {
		log := w.must("logs", "needy")
		return log == "blue sesame\n", log
	})
}
