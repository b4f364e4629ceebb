#!/usr/bin/env bash
# gpu_check.sh [--plugin PATH] [--devices N] [--jax PYTHON] [--out FOLDER] [--build FOLDER] [--quick]
# Checks this tree on a machine's PJRT plugin.
# Needs the plugin (by default NVIDIA's, where pip installs it), gcc, python3, cmake and ninja or make; neither LLVM nor oneDNN. Builds in a
# separate folder, runs the conformance suite on the plugin, trains the CNN of `make train` and a GPT there, and measures dispatch, training
# steps and transfers, compared with JAX on the same device if there is a Python with jax. Continues after a part that fails.
# The report is Markdown, OUT/report.md, also printed; the exit status is the number of parts that failed.
#   --quick: fewer tests, one short epoch and few rounds, to try the script itself.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-plugin plugin='' devices='' jax='' out='' quick=''
while [ $# -gt 0 ]; do
    case "$1" in
    --plugin) plugin=$2 && shift 2 ;;
    --devices) devices=$2 && shift 2 ;;
    --jax) jax=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --build) build=$2 && shift 2 ;;
    --quick) quick=1 && shift ;;
    *) sed -n '2,8s/^# //p' "$0" >&2 && exit 64 ;;
    esac
done
out=${out:-$build/report}
mkdir -p "$out" || exit 65
out=$(cd "$out" && pwd)
report=$out/report.md
failed=0

say() { echo "$*" | tee -a "$report"; }
# part TITLE COMMAND…: runs the command with its output in a log; if it fails, the last lines go into the report.
part() {
    local title=$1 log start=$SECONDS status
    log=$out/$(tr -c 'a-z0-9\n' '_' <<<"${title,,}").log
    shift
    "$@" >"$log" 2>&1
    status=$?
    say "- **$title**: $([ $status = 0 ] && echo passed || echo "FAILED with status $status"), $((SECONDS - start)) s"
    [ $status = 0 ] && return 0
    failed=$((failed + 1))
    { echo '```' && tail -n 15 "$log" && echo '```'; } | tee -a "$report"
    return 1
}

# ---- the plugin, and its number of devices

# Looks where pip installs plugins: for the Python given by --jax, then for python3.
find_plugin() {
    local python found
    for python in ${jax:+"$jax"} python3; do
        found=$("$python" - <<'PYTHON' 2>/dev/null
import glob, os, site, sys
folders = dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()])
for pattern in ("jax_plugins/*/xla_cuda_plugin.so", "jax_plugins/*/xla_*_plugin.so"):
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, pattern))):
            print(path)
            sys.exit()
PYTHON
        )
        [ -n "$found" ] && echo "$found" && return
    done
    return 1
}
plugin=${plugin:-$(find_plugin)}
if [ ! -r "${plugin:-}" ]; then
    echo "gpu_check: no plugin: pip install jax-cuda13-pjrt puts one where it is found, or --plugin names one" >&2
    exit 66
fi
plugin=$(cd "$(dirname "$plugin")" && pwd)/$(basename "$plugin")
case "$(basename "$plugin")" in
*cpu*) kind=cpu ;;
*) kind=gpu ;;
esac
gpus=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>/dev/null)
[ "$kind" = cpu ] && devices=${devices:-8}
devices=${devices:-$(grep -c . <<<"${gpus:-one}")}
cores=$(nproc)

: >"$report"
say "# A plugin on $(date -u +%Y-%m-%d)"
say
say "- Plugin: $(basename "$plugin"), $devices device(s)"
say "- Machine: $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores cores, Linux $(uname -r)"
[ -n "$gpus" ] && say "- $(paste -sd ';' <<<"$gpus")"
say "- Tree: $(git -C "$root" describe --always --dirty --exclude='*' 2>/dev/null || echo 'of no repository'), $(gcc --version | head -n 1)"
say

export TF_CPP_MIN_LOG_LEVEL=3 MF_PJRT_PLUGIN=$plugin,xla
export MF_PJRT_OPTIONS=${MF_PJRT_OPTIONS-$([ "$kind" = cpu ] && echo "cpu_device_count=$devices")}

# ---- the parts

build_tree() {
    local generator=()
    command -v ninja >/dev/null && generator=(-G Ninja)
    local file targets=(all fake_plugin runtime_test_stablehlo_text bench_workloads bench_limits)
    for file in "$root"/tests/{pjrt,ops,pmap,random}/test_*.c; do
        targets+=("$(basename "$(dirname "$file")")_$(basename "$file" .c)")
    done
    cmake "${generator[@]}" -S "$root" -B "$build" -DMF_NATIVE=OFF -DCMAKE_BUILD_TYPE=RelWithDebInfo &&
        cmake --build "$build" --parallel "${JOBS:-$cores}" --target "${targets[@]}"
}

conformance() { # the tests of maps and the examples need eight devices
    local rooms="ops pmap random examples"
    [ "$devices" = 8 ] || rooms="ops random"
    [ -n "$quick" ] && rooms=random
    # shellcheck disable=SC2086
    "$root/scripts/test_pjrt.sh" "$build" "$plugin" $rooms
}

# The last epoch's accuracy must be that of `make train` on the CPU: at least 0.90 after three epochs.
train_cnn() {
    local most=0.90 short=()
    [ -n "$quick" ] && short=(--limit 6400 --epochs 1) && most=0.70
    MF_DEFAULT_BACKEND=xla "$build/examples/data_parallel" --devices "$devices" --out "$out/cnn" "${short[@]}" | tee "$out/cnn.txt" || return
    local accuracy
    accuracy=$(grep -oE 'test accuracy [0-9.]+' "$out/cnn.txt" | grep -oE '[0-9.]+$' | tail -n 1)
    echo "accuracy ${accuracy:-none}; at least $most is wanted"
    awk -v a="${accuracy:-0}" -v most="$most" 'BEGIN { exit !(a >= most) }'
}

train_gpt() {
    local short=(--steps 200) folder=$out/gpt${1:-}
    rm -rf "$folder" # an earlier run may have left checkpoints there
    [ -n "$quick" ] && short=(--steps 4 --layers 1 --features 32 --heads 2 --length 32 --batch $((2 * devices)) --accumulate 1)
    MF_DEFAULT_BACKEND=xla "$build/examples/gpt" --devices "$devices" --out "$folder" "${short[@]}" "$@"
}

measure() {
    local peers=() short=() rows=plugin
    [ -n "$jax" ] && peers=(--peer "$jax")
    [ -n "$quick" ] && short=(--repeat 3 --seconds 4) && rows='dispatch_*@plugin'
    [ "$kind" = cpu ] || peers+=(--platform cuda)
    python3 "$root/bench/compare.py" --build "$build" --out "$out/bench" --plugin "$plugin" --devices "$devices" --only "$rows" "${peers[@]}" \
        "${short[@]}"
}

if ! part "Build without LLVM and oneDNN" build_tree; then
    say "Nothing else can be tried without the programs."
    exit "$failed"
fi
part "Conformance suite on the plugin" conformance
say "  $(tail -n 1 "$out"/conformance_suite_on_the_plugin.log)"
part "Training the CNN" train_cnn
say "  $(tail -n 1 "$out"/training_the_cnn.log)"
part "Training a GPT" train_gpt
part "Training a GPT in bf16" train_gpt --bf16
jax=${jax:-$(python3 -c 'import jax, sys; print(sys.executable)' 2>/dev/null)}
[ -n "$jax" ] || say "- There is no Python with jax here: our side alone is measured (--jax names one)."
part "Measuring" measure
if [ -r "$out/bench/table.md" ]; then
    say
    sed -n '/^## On a plugin/,/^## Across/p' "$out/bench/table.md" | grep -v '^## Across' | tee -a "$report"
fi
say
say "$failed part(s) failed."
exit "$failed"
