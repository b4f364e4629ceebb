#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS [TARGET]: runs each fuzzer of tests/fuzz for SECONDS. Their corpus grows in BUILD/corpus; crashing inputs are written to
# BUILD/crashes (fix the bug, and add them to tests/fuzz/corpus/TARGET).
set -euo pipefail
build=$1
seconds=$2
only=${3:-}
source=$(cd "$(dirname "$0")/.." && pwd)
export ASAN_OPTIONS=allocator_may_return_null=1:detect_stack_use_after_return=1:intercept_tls_get_addr=0
export UBSAN_OPTIONS=print_stacktrace=1
export LSAN_OPTIONS="suppressions=$source/tests/lsan.supp:print_suppressions=0"
for file in "$source"/tests/fuzz/fuzz_*.c; do
    target=$(basename "$file" .c)
    target=${target#fuzz_}
    if [ -n "$only" ] && [ "$only" != "$target" ]; then
        continue
    fi
    mkdir -p "$build/corpus/$target" "$build/crashes"
    echo "fuzz $target: $seconds seconds"
    log=$build/fuzz-$target.log
    status=0
    "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$build/crashes/$target-" "$build/corpus/$target" "$source/tests/fuzz/corpus/$target" >"$log" 2>&1 || status=$?
    grep -E "ERROR|SUMMARY|runtime error|stat::number_of_executed|Test unit written" "$log" || true
    if [ "$status" -ne 0 ]; then
        echo "fuzz $target: failed; see $log"
        exit 1
    fi
done
