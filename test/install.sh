#!/usr/bin/env bash
# Installs the Debian packages that are needed, if any is missing. The argument
# says for what: "local" (the demo without Slurm), "slurm" (the demo), "tests"
# (the frameworks too), "bench" (OpenSSH's server too).
set -euo pipefail
purpose=${1:-slurm}

packages=(
  openmpi-bin libopenmpi-dev mpich libmpich-dev gcc libc6-dev
  openssh-client pdsh iproute2 util-linux procps
)
[ "$purpose" = local ] || packages+=(slurm-wlm slurm-client munge)
[ "$purpose" != tests ] || packages+=(
  python3-torch python3-mpi4py python3-xgboost lammps
  slurmrestd slurm-wlm-jwt-plugin slurmdbd mariadb-server
  squashfs-tools
)
[ "$purpose" != tests ] || packages+=(openssh-server sudo chromium lua5.3)
[ "$purpose" != tests ] || packages+=(bubblewrap charliecloud podman runc crun busybox-static fuse-overlayfs fuse3)
[ "$purpose" != bench ] || packages+=(openssh-server)

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
