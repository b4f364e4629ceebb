#!/usr/bin/env bash
# The ops' samples and some programs as StableHLO, parsed by MLIR and run by XLA's CPU client. MF_JAX_PYTHON names a Python with jax (by default
# python3); without one the test says that it is skipped.
set -euo pipefail
python=${MF_JAX_PYTHON:-python3}
if ! "$python" -c 'import jaxlib.mlir.dialects.stablehlo, jax' 2>/dev/null; then
    echo "skipped: $python has no jaxlib"
    exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for test in ops/test_stablehlo runtime/test_stablehlo_text; do
    MF_STABLEHLO_DIR=$folder "$MF_BUILD_DIR/tests/$test" > "$folder/log" || { cat "$folder/log"; exit 1; }
done
"$python" "$MF_SOURCE_DIR/scripts/check_stablehlo.py" "$folder"
