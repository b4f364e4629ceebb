#!/usr/bin/env bash
# Measures the rows of bench/rows.py beside the peers whose Pythons are given in PEER ("venv/bin/python other/bin/python").
# Without a peer it prints our side alone; without any Python, our workloads' bare figures. ARGS go to compare.py.
set -euo pipefail
set -f # the patterns in ARGS are compare.py's
here=$(cd "$(dirname "$0")" && pwd)
build=${MF_BUILD_DIR:-build}
peers=()
for python in ${PEER:-}; do
    peers+=(--peer "$python")
done
if command -v python3 >/dev/null; then
    # shellcheck disable=SC2086
    exec python3 "$here/compare.py" --build "$build" "${peers[@]}" ${ARGS:-}
fi
for name in $("$build/bench/workloads" --list); do
    "$build/bench/workloads" --repeat 3 --only "$name"
done
