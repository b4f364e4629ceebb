#!/usr/bin/env bash
# fetch_pjrt_plugin.sh [oldest]: downloads XLA's CPU as a PJRT plugin (one pinned version from PyPI, with its checksum verified) to out/pjrt, where
# `make test-pjrt` and the tests look for it; or the plugin with the oldest supported version of the C API. Nothing else needs them. Prints its
# path.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
package=lammps-jax-pjrt-cpu==0.11.2 file=pjrt_c_api_cpu_plugin.so plugin=$root/out/pjrt/pjrt_c_api_cpu_plugin.so
sum=1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1
if [ "${1-}" = oldest ]; then
    package=xla-cpu-pjrt==0.0.1 file=xla_cpu_pjrt.so plugin=$root/out/pjrt/oldest/xla_cpu_pjrt.so
    sum=55837b6b7b47daa717f2d9a5a03563ea0ceaa338d06a81a1e2d3f060d960decc
fi
if [ ! -e "$plugin" ]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$work" "$package" >&2
    echo "$sum  $(ls "$work"/*.whl)" | sha256sum --check --quiet >&2
    python3 -m zipfile -e "$work"/*.whl "$work/wheel"
    mkdir -p "$(dirname "$plugin")"
    mv "$(find "$work/wheel" -name "$file")" "$plugin.new"
    mv "$plugin.new" "$plugin"
fi
echo "$plugin"
