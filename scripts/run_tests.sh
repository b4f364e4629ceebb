#!/usr/bin/env bash
# run_tests.sh BUILD [ctest options]: runs the tests, one per core at a time. The last line is "N passed, M failed"; it is also written to
# BUILD/test-summary.
set -uo pipefail
build=$1
shift
log=$build/test-log
rm -f "$build/test-summary"
ctest --test-dir "$build" --no-label-summary --output-on-failure --no-tests=error -j "$(nproc)" "$@" </dev/null | tee "$log"
status=$?
summary=$(sed -n 's/^[0-9]*% tests passed, \([0-9]*\) tests failed out of \([0-9]*\)$/\1 \2/p' "$log" | tail -n 1)
if [ -n "$summary" ]; then
    read -r failed all <<<"$summary"
    echo "$((all - failed)) passed, $failed failed" | tee "$build/test-summary"
fi
exit $status
