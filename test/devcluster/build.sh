#!/usr/bin/env bash
# Builds devcluster: test/devcluster/build.sh OUT
#
# The first build compiles some 2,600 packages and takes minutes; this shows that it is alive. A build with nothing
# to do takes about two seconds.
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: $0 OUT" >&2
  exit 2
fi
out=$(realpath -m -- "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"

# No inlining and no debug data: this halves the build time. Every development build must use the same flags, or the
# packages are compiled once for each set. What is measured is built otherwise, by the Makefile.
export GOFLAGS="${GOFLAGS:--buildvcs=false '-gcflags=all=-l -dwarf=false' '-ldflags=-s -w'}"

# JobSet's manifests are embedded. Embedding cannot reach into the module cache.
go mod download sigs.k8s.io/jobset
jobset=$(go list -m -f '{{.Dir}}' sigs.k8s.io/jobset)
copy() {
  cmp -s -- "$1" "$2" || install -m 0644 -- "$1" "$2"
}
copy "$jobset/config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml" jobset-files/crd.yaml
copy "$jobset/config/components/webhook/manifests.yaml" jobset-files/webhooks.yaml

# The servers and kubectl report these. There is no build date, so that nothing is linked again without need.
version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
IFS=. read -r major minor _ <<<"${version#v}"
ldflags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
  ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
  ldflags+=" -X $package.gitCommit=from-go-modules -X $package.gitTreeState=clean"
done
ldflags+=" -X sigs.k8s.io/jobset/pkg/version.GitVersion=$(go list -m -f '{{.Version}}' sigs.k8s.io/jobset)"

log=$(mktemp)
build=
cleanup() {
  [ -z "$build" ] || kill "$build" 2>/dev/null || true
  rm -f -- "$log"
}
trap cleanup EXIT

# With -v, go names each package that it compiles; those that are in its cache already are not named.
compiled() { grep -c -v '^go: ' "$log" || true; }

mkdir -p -- "$(dirname -- "$out")"
go build -v -p "${DEVCLUSTER_BUILD_JOBS:-2}" -ldflags "$ldflags" -o "$out" . 2>"$log" &
build=$!
total=
# tail ends with the build, or timeout ends it to show a sign of life.
while ! timeout 15 tail --sleep-interval=0.2 --pid="$build" -f /dev/null; do
  total=${total:-$(go list -deps . | wc -l)}
  echo "devcluster: compiled $(compiled) of at most $total packages in $SECONDS s" >&2
done
if ! wait "$build"; then
  build=
  echo "devcluster: the build failed:" >&2
  tail -n 40 -- "$log" >&2
  exit 1
fi
build=
echo "devcluster: built $out in $SECONDS s ($(compiled) packages compiled)" >&2
