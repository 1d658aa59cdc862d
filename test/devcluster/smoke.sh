#!/usr/bin/env bash
# Checks a built devcluster for real: test/devcluster/smoke.sh BINARY
#
# Starts two clusters at once, lets a JobSet become pods that the scheduler binds to a node, and makes sure that
# nothing is left when one is ended and the other is killed. Takes about 15 seconds.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: $0 BINARY" >&2
  exit 2
fi
devcluster=$(realpath -- "$1")
work=$(mktemp -d)
cleanup() {
  "$devcluster" down --dir "$work/a" || true
  "$devcluster" down --dir "$work/b" || true
  rm -rf -- "$work"
}
trap cleanup EXIT

step() { echo "smoke: $*" >&2; }
fail() {
  echo "smoke: FAILED: $*" >&2
  exit 1
}
kubectl() { "$devcluster" kubectl --kubeconfig "$work/a/kubeconfig" "$@"; }

step "two clusters at once"
"$devcluster" up --dir "$work/b" --detach >/dev/null &
other=$!
"$devcluster" up --dir "$work/a" --detach >/dev/null
wait "$other"

step "a JobSet becomes pods, and they are bound to a node"
kubectl apply -f - <<'EOF'
apiVersion: v1
kind: Node
metadata:
  name: smoke
---
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: smoke
spec:
  replicatedJobs:
  - name: leader
    template: {spec: {template: {spec: {containers: [{name: main, image: none}]}}}}
  - name: worker
    replicas: 2
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {containers: [{name: main, image: none}]}}}}
EOF
kubectl patch node smoke --subresource=status --type=merge -p '{"status": {
  "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "100"},
  "conditions": [{"type": "Ready", "status": "True"}]}}'
kubectl wait --for=create --timeout=30s job/smoke-leader-0 job/smoke-worker-0 job/smoke-worker-1
kubectl wait --for=jsonpath='{.status.active}'=2 --timeout=30s job/smoke-worker-0 job/smoke-worker-1
kubectl wait --for=condition=PodScheduled --timeout=30s pod -l jobset.sigs.k8s.io/jobset-name=smoke
bound=$(kubectl get pods -o jsonpath='{.items[*].spec.nodeName}' | wc -w)
[ "$bound" -eq 5 ] || fail "$bound of 5 pods are bound"

step "a node's credentials name its user"
"$devcluster" node-credentials --dir "$work/a" --name smoke --user smoke-node --out "$work/node"
who=$("$devcluster" kubectl --kubeconfig "$work/node/kubeconfig" auth whoami -o jsonpath='{.status.userInfo.username}')
[ "$who" = smoke-node ] || fail "the node is taken for $who"

step "down leaves nothing, and neither does killing the supervisor"
"$devcluster" down --dir "$work/a"
supervisor=$("$devcluster" status --dir "$work/b" | awk '$1 == "Supervisor" {print $3}')
kill -9 "$supervisor"
"$devcluster" down --dir "$work/b"
if pgrep -f "$work/" >&2; then
  fail "processes are left"
fi
step "passed"
