#!/usr/bin/env bash
# Prints how many seconds mpirun takes to run hostname. Usage: launch.sh RANKS [OPTIONS OF MPIRUN]
ranks=$1
shift
began=$EPOCHREALTIME
hosts=$(mpirun -np "$ranks" --bind-to none "$@" hostname) || exit
ended=$EPOCHREALTIME
lines=$(wc -l <<<"$hosts")
different=$(sort -u <<<"$hosts" | wc -l)
if [ "$lines" != "$ranks" ] || [ "$different" != 4 ]; then
  echo "$lines ranks on $different nodes: $hosts" >&2
  exit 1
fi
echo $((${ended/./} - ${began/./})) | sed 's/^/000000/; s/\(......\)$/.\1/'
