#!/usr/bin/env bash
# Measures the rows of bench/rows.py, compared with the peers whose Python interpreters are in PEER ("venv/bin/python other/bin/python").
# Without a peer it measures only Manyfold; without any Python it prints the workloads' raw figures. ARGS are passed to compare.py.
set -euo pipefail
set -f # compare.py expands the patterns in ARGS
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
