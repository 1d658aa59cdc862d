#!/bin/bash
hosts='lammps-node-0-[0-2]'
broker='[access]
allow-guest-user = true
allow-root-owner = true

[resource]
path = "/mnt/flux/config/etc/flux/system/R"

[bootstrap]
curve_cert = "/mnt/flux/config/etc/curve/curve.cert"
default_port = 8050
default_bind = "tcp://ib0:%p"
default_connect = "tcp://%h.lammps.default.svc.cluster.local:%p"
hosts = [{ host = "lammps-node-0-[0-2]" }]

[archive]
dbpath = "/mnt/flux/config/var/lib/flux/job-archive.sqlite"
period = "1m"
busytimeout = "50s"

[sched-fluxion-qmanager]
queue-policy = "easy"'

# shellcheck shell=bash disable=SC2154
# Runs in the init container: puts Flux, and its configuration, where the
# training container finds them.
#
# hosts and broker are set before it.
set -euo pipefail

base=/mnt/flux
config=$base/config

mkdir -p "$config"/etc/{curve,flux/config,flux/system/cron.d} "$config"/{run,var/lib}/flux
printf '%s\n' "$hosts" >"$config/etc/flux/system/hostlist"
printf '%s\n' "$broker" >"$config/etc/flux/config/broker.toml"
# The training container may run as another user.
chmod -R a+rwX "$config"

# /opt/view leads to a directory that is named by its contents.
views=(/opt/views/._view/*/)
if [[ ! -d ${views[0]} ]]; then
  echo "There is no Flux in /opt/views/._view: FLUX_VIEW_IMAGE must name one of the flux-view images." >&2
  exit 1
fi
mkdir -p "$base"/{view,software}
cp -R "${views[0]}." "$base/view/"
if [[ -d /opt/software ]]; then
  cp -R /opt/software/. "$base/software/"
fi
touch "$base/flux-operator-done.txt"
