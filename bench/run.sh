#!/usr/bin/env bash
# Runs the workloads, alternating with the peers whose Pythons are given in PEER ("venv/bin/python other/bin/python").
# Without one, or without any Python, prints our side alone. ARGS go to compare.py.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
ours=${MF_BUILD_DIR:-build}/bench/workloads
peers=()
for python in ${PEER:-}; do
    peers+=(--peer "$python $here/peers/jax_bench.py")
done
if command -v python3 >/dev/null; then
    exec python3 "$here/compare.py" "$ours" "${peers[@]}" ${ARGS:-}
fi
for name in $("$ours" --list); do
    "$ours" --only "$name"
done
