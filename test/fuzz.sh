#!/usr/bin/env bash
# Runs each fuzzer of the tree, one after the other: test/fuzz.sh [TIME] [PATTERN].
# What one finds is left in the package's testdata/fuzz, where all later tests try it.
set -euo pipefail
cd "$(dirname "$0")/.."

# module is the directory of the module that a package is of: some are nested.
module() {
  local dir=$1
  until [[ -e $dir/go.mod ]]; do dir=$(dirname "$dir"); done
  echo "$dir"
}

time=${1:-30s}
pattern=${2:-.}
failed=0
trap 'exit 130' INT TERM # or the next one would begin
found=0
while IFS=: read -r file fuzzer; do
  [[ $fuzzer =~ $pattern ]] || continue
  found=1
  package=$(dirname "$file")
  echo "$fuzzer in ./$package, for $time"
  module=$(module "$package")
  go test -C "$module" -run '^$' -fuzz "^$fuzzer\$" -fuzztime "$time" -fuzzminimizetime 1x -parallel "${GOMAXPROCS:-2}" \
    "./$(realpath --relative-to="$module" "$package")" || failed=1
done < <(git ls-files --cached --others --exclude-standard '*_test.go' | grep -v '^bin/' | xargs grep -o '^func Fuzz[A-Za-z0-9_]*' | sed 's/func //')
if [[ $found -eq 0 ]]; then
  echo "no fuzzer fits $pattern" >&2
  exit 2
fi
exit "$failed"
