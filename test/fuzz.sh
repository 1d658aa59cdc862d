#!/usr/bin/env bash
# Runs each fuzzer of the tree, one after the other: test/fuzz.sh [TIME] [PATTERN].
# What one finds is left in the package's testdata/fuzz, where all later tests try it.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${1:-30s}
pattern=${2:-.}
failed=0
while IFS=: read -r file fuzzer; do
  echo "$fuzzer in ./$(dirname "$file"), for $time"
  go test -run '^$' -fuzz "^$fuzzer\$" -fuzztime "$time" -fuzzminimizetime 5s -parallel "${GOMAXPROCS:-2}" "./$(dirname "$file")" || failed=1
done < <(git ls-files --cached --others --exclude-standard '*_test.go' | grep -v '^bin/' | xargs grep -o '^func Fuzz[A-Za-z0-9_]*' | sed 's/func //' | grep -E ":.*$pattern")
exit "$failed"
