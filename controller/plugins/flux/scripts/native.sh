# shellcheck shell=bash disable=SC2034,SC2154
# Flux is the HPC node's own. Other pods of the job, and other jobs, may share the
# node: the port is the pod's own, its directories are in its private root, and
# its cores and GPUs are those that it was given.

# pause is how long a follower waits for a lead that may be starting or coming
# again, in seconds.
pause=2

prepare() {
  if ! command -v flux >/dev/null; then
    echo "There is no flux on the HPC node's PATH ($PATH): the site must install flux-core on its nodes," \
      "or the variable PATH of the training container name the directory where flux is." >&2
    exit 127
  fi
  # It tells those who look in where the instance is. To a broker it would be the
  # enclosing instance's.
  unset FLUX_URI
  # For pod.lua, which asks this process for its variables.
  echo "$$" >"$base/pid"
}

# below are the numbers below n as Flux writes them. It does not read 0-0.
below() {
  if (($1 == 1)); then echo 0; else echo "0-$(($1 - 1))"; fi
}

configure() {
  local cores system=$config/etc/flux/system
  mkdir -p "$config"/etc/flux/{config,system}
  # Flux counts the cores that it may use from 0, in every slot. Where there are
  # fewer than tasks, which Flux wants a core each for, they share them.
  cores=$(flux R encode --local | flux R decode --count=core)
  resources=(--cores="$(below $((cores > processes ? cores : processes)))")
  # So are GPUs; which ones they are pod.lua knows.
  if [[ ${CUDA_VISIBLE_DEVICES-} ]]; then
    local given
    IFS=, read -r -a given <<<"$CUDA_VISIBLE_DEVICES"
    gpus=${#given[@]}
  fi
  ((gpus == 0)) || resources+=(--gpus="$(below "$gpus")")
  flux R encode --hosts="$hosts" "${resources[@]}" >"$system/R"

  # The lead is the parent of all others, so it alone is connected to.
  local rest=
  [[ -z $followers ]] || rest=", { host = \"$followers\" }"
  cat >"$config/etc/flux/config/broker.toml" <<END
[resource]
path = "$system/R"
noverify = true

[bootstrap]
curve_cert = "$config/etc/curve/curve.cert"
hosts = [{ host = "$lead", bind = "tcp://$device:${GANGLINE_FLUX_LEAD##*:}", connect = "tcp://$GANGLINE_FLUX_LEAD" }$rest]

[sched-fluxion-qmanager]
queue-policy = "$policy"
END
  options=(
    --config-path="$config/etc/flux/config"
    -Stbon.topo=kary:0
    -Srundir="$config/run/flux"
    -Sstatedir="$config/var/lib/flux"
    -Slocal-uri="local://$config/run/flux/local"
    -Slog-stderr-mode=local
  )
}

