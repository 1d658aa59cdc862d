#!/usr/bin/env bash
# Installs the Debian packages that demo and tests need, if any is missing.
# With the argument "local" it leaves Slurm out.
set -euo pipefail

packages=(
  openmpi-bin libopenmpi-dev mpich libmpich-dev gcc libc6-dev
  openssh-client pdsh iproute2 util-linux procps
)
[ "${1:-slurm}" = local ] || packages+=(slurm-wlm slurm-client munge)
[ "${1:-slurm}" = local ] || packages+=(python3-torch python3-mpi4py python3-xgboost lammps) # what TestFrameworks runs

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ]; then
  echo "These Debian packages are missing: ${missing[*]}. Run as root, or: sudo apt-get install ${missing[*]}" >&2
  exit 1
fi
echo "installing ${missing[*]}"
# The services of these packages are not wanted: the dev Slurm runs its own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
