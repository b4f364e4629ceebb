#!/usr/bin/env bash
# run_example.sh PROGRAM EXPECTED: runs an example and compares what it prints, byte by byte.
# EXPECTED's sibling with the ending .cmd, when there is one, is a shell script that runs "$EXAMPLE" as it likes, with "$SCRATCH" as an empty
# folder to write to; it may end in 2>&1 or deal with an exit status. Otherwise stdout counts and the program must exit with 0.
# MF_UPDATE_EXPECTED=1 writes what was printed into EXPECTED instead.
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
