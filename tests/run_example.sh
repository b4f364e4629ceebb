#!/usr/bin/env bash
# run_example.sh PROGRAM EXPECTED: runs an example and compares its output with EXPECTED, byte by byte.
# If there is a file with the same name and the ending .cmd, it is a shell script that runs "$EXAMPLE", with "$SCRATCH" as an empty folder; it may
# use 2>&1 or handle an exit status. Without it, only stdout is compared, and the program must exit with 0.
# MF_UPDATE_EXPECTED=1 writes the output to EXPECTED instead.
set -u
EXAMPLE=$1
expected=$2
command=${expected%.expected}.cmd
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT
export EXAMPLE SCRATCH
actual=$SCRATCH.actual
trap 'rm -rf "$SCRATCH" "$actual"' EXIT

cd "$SCRATCH" || exit 1
if [ -f "$command" ]; then
    bash -eu "$command" >"$actual" </dev/null
else
    "$EXAMPLE" >"$actual" </dev/null
fi
status=$?
# devices are named, and a sum of fractions may be off by a rounding; no more may differ
[ -z "${MF_TEST_CLIENT:-}" ] ||
    sed -i 's/\(Fake\|Xla\)Device(/CpuDevice(/g; s/ \(fake\|xla\) devices/ CPU devices/g; s/^1\.0000001$/1.0/' "$actual"
if [ -n "${MF_UPDATE_EXPECTED:-}" ]; then
    cp "$actual" "$expected"
elif ! diff -u --label expected --label printed "$expected" "$actual"; then
    status=1
fi
[ $status = 0 ] || echo "$(basename "$EXAMPLE"): exit status $status, output compared with $expected"
exit $status
