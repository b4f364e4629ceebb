#!/usr/bin/env bash
# MF_DUMP prints the program after the steps it names, and no others.
set -euo pipefail
grep -q "MF_NATIVE:BOOL=ON" "$MF_BUILD_DIR/CMakeCache.txt" || exit 0 # fuse is the native step
[ "${MF_BACKEND:-}" = reference ] && exit 0
out=$(MF_DUMP=trace,grad,split,fuse "$MF_BUILD_DIR"/examples/linear_regression --devices 2 2>&1 >/dev/null)
for step in trace grad split fuse; do
    grep -q "^-- $step\$" <<<"$out" || { echo "no '-- $step' in the dump"; exit 1; }
done
grep -q "pmap\[" <<<"$out" || { echo "no pmap in the traced program"; exit 1; }
grep -q "loop over" <<<"$out" || { echo "no loop in what was fused"; exit 1; }
! grep -q "^-- cse" <<<"$out" || { echo "a step that was not asked for"; exit 1; }
