# shellcheck shell=bash disable=SC2034,SC2154
# Flux comes with the pod: the init container has copied it from its image.

view=/mnt/flux/view
# pause is how long a follower waits for a lead that may be starting or coming
# again, in seconds.
pause=15

# prepare makes the copied view work in this container.
prepare() {
  cp -Rf "$base/software/." /opt/software/

  # Behind the container's own, so that its programs go before the view's.
  export PATH=$PATH:$view/bin
  local python version
  for python in "$view"/lib/python3*/; do
    [[ -d $python ]] || continue
    export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}${python}site-packages
    # The view's own links lead to where it was built.
    version=$(basename "$python")
    if [[ -f $view/bin/$version ]]; then
      ln -sf "$version" "$view/bin/python3"
      ln -sf "$version" "$view/bin/python"
    fi
  done
  export FLUX_RC_EXTRA=$view/etc/flux/rc1.d

  # For whoever opens a shell in the pod.
  {
    printf 'export PATH=%q\n' "$PATH"
    printf 'export PYTHONPATH=%q\n' "${PYTHONPATH-}"
    printf 'export LD_LIBRARY_PATH=%q\n' "${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$view/lib"
    printf 'export fluxsocket=%q\n' "local://$config/run/flux/local"
  } >"$base/flux-view.sh"
  printf 'flux module %s\n' 'remove sched-simple' 'load sched-fluxion-resource' 'load sched-fluxion-qmanager' \
    >"$base/load-fluxion.sh"
}

# configure adds to the init container's files what only this container knows.
configure() {
  flux R encode --hosts="$hosts" "${resources[@]}" >"$config/etc/flux/system/R"
  options=(
    --config-path="$config/etc/flux/config"
    -Scron.directory="$config/etc/flux/system/cron.d"
    -Stbon.fanout=256
    -Srundir="$config/run/flux"
    -Sstatedir="$config/var/lib/flux"
    -Slocal-uri="local://$config/run/flux/local"
    -Slog-stderr-level=0
    -Slog-stderr-mode=local
  )
}

