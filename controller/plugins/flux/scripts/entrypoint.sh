# shellcheck shell=bash disable=SC2154
# Runs in the training container: completes the configuration, then becomes one
# broker of the Flux instance. The lead's broker runs the command; the others'
# do what it says.
#
# Before it stand what differs between jobs (hosts, lead, tasks, arguments, …) and
# what differs by where Flux comes from (pause, prepare, configure).
set -euo pipefail

base=/mnt/flux
config=$base/config
# Here a follower finds the exit status of a command that failed.
failed=$base/failed-status
complete=$base/flux-operator-complete.txt

# run is the lead's program inside the instance. An instance that ends takes its
# followers along with status 0, whatever the command's was: they would succeed,
# and a lead that is tried again would wait for them for ever. So they are told.
run() {
  local status=0
  flux run "${tasks[@]}" -- "$@" || status=$?
  if ((status != 0)); then
    # shellcheck disable=SC2016 # the followers' shell expands it
    timeout 60 flux exec --noinput /bin/bash -c 'echo "$1" >"$2"' tell "$status" "$failed" ||
      echo "The followers could not be told that the command failed." >&2
  fi
  touch "$complete"
  return "$status"
}

# begin forgets an instance that was here before the container restarted.
begin() {
  rm -rf "$failed" "$complete" "$config/run/flux" "$config/var/lib/flux"
  mkdir -p "$config"/etc/curve "$config"/{run,var/lib}/flux
  # Flux wants its key readable by its user alone.
  (umask 077 && cp -f /curve/curve.cert "$config/etc/curve/curve.cert")
}

# stop ends a follower. Its broker does so within a second or two, unless the lead is
# dead: it would take leave of it for a minute.
stop() {
  kill -TERM "$child" 2>/dev/null || true
  timeout 5 tail --pid="$child" -f /dev/null || kill -KILL "$child" 2>/dev/null || true
  exit 143
}

# follow runs the broker until it has ended well or the command has failed: while
# the lead is not there yet, or comes again, a broker gives up. A broker that was
# killed takes the pod along.
follow() {
  local status
  child=
  trap stop TERM INT
  while true; do
    status=0
    "$@" &
    child=$!
    wait "$child" || status=$?
    if ((status == 0)) || [[ -e $failed ]]; then
      break
    fi
    ((status < 128)) || exit "$status"
    echo "The lead $lead does not answer; trying again in $pause s." >&2
    sleep "$pause" &
    child=$!
    wait "$child"
  done
  touch "$complete"
  if [[ -e $failed ]]; then
    # The first pod to fail is the end of the others, and the lead has the log: it goes
    # first, and takes this one along.
    sleep 12 &
    child=$!
    wait "$child"
    exit "$(<"$failed")"
  fi
  exit 0
}

if [[ ${1-} == --run ]]; then
  shift
  run "$@"
  exit
fi

# Kubernetes appends the runtime's args, also when the TrainJob has args of its
# own, which take their place: so many arguments are meant.
set -- "${@:1:arguments}"
if [[ ${1-} == -- ]]; then
  command=("${@:2}")
else
  # Words without blanks come joined, as Kubeflow has it.
  IFS=' ' read -r -a command < <(printf '%s\n' "${1-}")
  command+=("${@:2}")
fi

prepare
begin
configure

host=$(uname -n)
if [[ ${host%%.*} != "$lead" ]]; then
  follow flux broker "${options[@]}"
fi
if ((${#command[@]} == 0)); then
  # An instance to connect to; without a terminal Flux would refuse to start.
  [[ -t 0 ]] || options+=(-Sbroker.rc2_none)
  exec flux broker "${options[@]}"
fi
exec flux broker "${options[@]}" /bin/bash "$0" --run "${command[@]}"
