#!/usr/bin/env bash
# Installs the missing Debian packages of packages.txt. Silent and quick if there is nothing to do.
#   scripts/setup.sh [group…]      default: build
set -euo pipefail
list=$(dirname "$0")/../packages.txt
groups=" ${*:-build} "

packages=$(awk -v groups="$groups" '
    { sub(/#.*/, ""); gsub(/[ \t]+/, "") }
    /^\[.*\]$/ { wanted = index(groups, " " substr($0, 2, length($0) - 2) " "); next }
    wanted && $0 != "" { print }' "$list")
[ -n "$packages" ] || { echo "setup: packages.txt has no group named:$groups" >&2; exit 1; }

command -v dpkg-query >/dev/null || {
    [ -n "${MF_NO_SETUP:-}" ] && exit 0
    echo "setup: this is not a Debian system. Install the equivalents of: $(echo $packages)" >&2
    echo "       and run again with MF_NO_SETUP=1." >&2
    exit 1
}

missing=
installed=" $(dpkg-query -W -f '${db:Status-Status}:${Package} ' $packages 2>/dev/null || true) "
for package in $packages; do
    case "$installed" in *" installed:$package "*) ;; *) missing="$missing $package" ;; esac
done
[ -n "$missing" ] || exit 0
[ -z "${MF_NO_SETUP:-}" ] || { echo "setup: MF_NO_SETUP is set; going on without:$missing" >&2; exit 0; }

give_up() {
    echo "setup: $1. These packages are missing; install them and run again:" >&2
    echo "    apt-get install$missing" >&2
    exit 1
}
if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
elif command -v sudo >/dev/null && [ -t 0 ]; then
    as_root=sudo # asks for the password
else
    give_up "neither root nor able to use sudo"
fi

echo "setup: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get -qq update </dev/null || give_up "apt-get update failed"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install $missing </dev/null >/dev/null ||
    give_up "apt-get install failed"
