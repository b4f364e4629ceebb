#!/usr/bin/env bash
# Fetches XLA's CPU as a PJRT plugin (from PyPI, one version, its sum checked) into out/pjrt, where `make test-pjrt` and the tests look for
# it. Nothing else needs it. Prints its path.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/out/pjrt
plugin=$folder/pjrt_c_api_cpu_plugin.so
if [ ! -e "$plugin" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work" lammps-jax-pjrt-cpu==0.11.2 >&2
    echo "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1  $(ls "$work"/*.whl)" | sha256sum --check --quiet >&2
    python3 -m zipfile -e "$work"/*.whl "$work/wheel"
    mkdir -p "$folder"
    mv "$work"/wheel/*/pjrt_c_api_cpu_plugin.so "$plugin.new"
    mv "$plugin.new" "$plugin"
fi
echo "$plugin"
