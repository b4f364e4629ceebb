#!/usr/bin/env bash
# test_pjrt.sh BUILD PLUGIN [room...]: runs the tests of the plugin; the programs of runtime/test_stablehlo_text on it; the tests in ops, pmap and
# random and the examples, with the plugin as default backend and eight devices, except those that tests/pjrt/without.txt names, and those in
# pmap once more with every map as replicas; and random programs, compared with the CPU's reference backend. Prints a line for each program; the
# last line is "N passed, M failed". Rooms are the folders of tests.
# MF_PJRT_OPTIONS in the environment replaces the default of eight devices of XLA's CPU.
# XLA compiles each op for each shape: this takes most of an hour on two cores, and minutes once out/pjrt/programs has the compiled programs.
set -uo pipefail
build=$(cd "$1" && pwd)
root=$(cd "$(dirname "$0")/.." && pwd)
plugin=$2
shift 2
export MF_SOURCE_DIR=$root MF_BUILD_DIR=$build TERM=dumb LC_ALL=C.UTF-8 TF_CPP_MIN_LOG_LEVEL=3
export MF_COMPILATION_CACHE=${MF_COMPILATION_CACHE-$root/out/pjrt/programs}
export MF_PJRT_PLUGIN=$plugin,xla MF_PJRT_OPTIONS=${MF_PJRT_OPTIONS-cpu_device_count=8} MF_NUM_CPU_DEVICES=8
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0

run() { # ROOM/PROGRAM, and optionally the one test to run
    local without start=$SECONDS words
    mapfile -t without < <(sed -n "s|^$1:\([a-z0-9_]*\).*|-\1|p" "$root/tests/pjrt/without.txt")
    timeout 1800 "$build/tests/$1" "${without[@]}" ${2:+"$2"} >"$log" 2>&1
    local status=$?
    words=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1)
    passed=$((passed + ${words%% *} + 0)) failed=$((failed + $(sed 's/.*, \([0-9]*\) .*/\1/' <<<"${words:-, 1 }")))
    echo "$1: ${words:-ended with status $status}, $((SECONDS - start)) s"
    [ $status = 0 ] || { grep -v ' ok$' "$log" | tail -n 40; }
}

run_room() {
    for test in "$build"/tests/"$1"/test_*; do
        run "$1/$(basename "$test")"
    done
}

run_examples() { # each with the number of devices that it requests
    local file name count status start
    for file in "$root"/tests/examples/*.expected; do
        name=$(basename "$file" .expected)
        grep -qxF "examples/$name" "$root/tests/pjrt/without.txt" && continue
        count=$(sed -n 's/.*\(--devices \|MF_NUM_CPU_DEVICES=\)\([0-9]*\).*/\2/p' "${file%.expected}.cmd" 2>/dev/null | head -n 1)
        start=$SECONDS
        MF_PJRT_OPTIONS=cpu_device_count=${count:-8} MF_DEFAULT_BACKEND=xla timeout 1800 \
            bash "$root/tests/run_example.sh" "$build/examples/${name%%.*}" "$file" >"$log" 2>&1
        status=$?
        passed=$((passed + (status == 0))) failed=$((failed + (status != 0)))
        echo "examples/$name: $([ $status = 0 ] && echo passed || echo "ended with status $status"), $((SECONDS - start)) s"
        [ $status = 0 ] || tail -n 40 "$log"
    done
}

run pjrt/test_failures
run pjrt/test_steps
run runtime/test_stablehlo_text programs_give_the_same_on_a_plugin
for stack in 1 0; do
    MF_PJRT_STACK=$stack run pjrt/test_plugin
done
export MF_TEST_CLIENT=xla
for room in "${@:-ops pmap random differential examples}"; do
    for room in $room; do
        case $room in
        differential) MF_DEFAULT_BACKEND=xla run backend/test_differential a_plugin_agrees_with_the_reference ;;
        examples) run_examples ;;
        *) run_room "$room" ;;
        esac
        [ "$room" = ops ] && echo "ops, calls of the host in steps:" && MF_PJRT_HOST_CALLS=0 run ops/test_callback
        [ "$room" = pmap ] && echo "pmap, of replicas:" && MF_PJRT_STACK=0 run_room pmap
    done
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
