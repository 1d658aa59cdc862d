#!/usr/bin/env bash
# Builds Kueue's manager from its module: test/kueue/build.sh OUT
#
# It is compiled with the versions of test/devcluster, newer by a minor than those that Kueue names: so what is compiled
# for it need not be compiled again, and minutes become one. Two of its dependencies do not know that minor yet:
# - scheduler-library, behind a feature gate that is off by default; Kueue has a tag to leave it out
# - Trainer's generated OpenAPI definitions, which nothing in Kueue asks for; they are left out of a copy of Trainer
set -euo pipefail

if [ $# -ne 1 ]; then
  echo "usage: $0 OUT" >&2
  exit 2
fi
out=$(realpath -m -- "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"

# Every development build must use the same flags, or the packages are compiled once for each set.
export GOFLAGS="-buildvcs=false '-gcflags=all=-l -dwarf=false' '-ldflags=-s -w'"

files=$out-files
version=$(go list -m -f '{{.Version}}' github.com/kubeflow/trainer/v2)
if [ ! -e "$files/trainer-$version" ]; then
  go mod download github.com/kubeflow/trainer/v2
  trainer=$(go list -m -f '{{.Dir}}' github.com/kubeflow/trainer/v2)
  rm -rf -- "$files"
  mkdir -p -- "$files/new/pkg"
  cp -r --no-preserve=mode -- "$trainer/pkg/." "$files/new/pkg"
  cp --no-preserve=mode -- "$trainer/go.mod" "$files/new/"
  rm -- "$files/new/pkg/apis/trainer/v1alpha1/zz_generated.openapi.go"
  mv -- "$files/new" "$files/trainer-$version"
fi
cp -- go.mod go.sum "$files/"
go mod edit -replace "github.com/kubeflow/trainer/v2=$files/trainer-$version" "$files/go.mod"
go build -modfile="$files/go.mod" -tags exclude_scheduler_library -o "$out" sigs.k8s.io/kueue/cmd/kueue
