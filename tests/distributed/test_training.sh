#!/usr/bin/env bash
# The example's training as a job: each process loads its part, process 0 prints and saves, and the parameters are those of one process.
set -uo pipefail
here=$MF_SOURCE_DIR/tests/distributed
program=$MF_BUILD_DIR/examples/data_parallel
status=0
complain() { echo "$1"; cat "$work/said"*; status=1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0

# train FOLDER COMMAND...: one epoch over few images; what is printed is in said
train() {
    local folder=$1
    shift
    timeout 100 "$@" --epochs 1 --limit 400 --batch 80 --out "$work/$folder" >"$work/said" 2>&1
}

train one "$program" --devices 8 || complain "training in one process fails"
grep -v -e Seconds -e '^ *1  ' -e saved -e 'images/s' "$work/said" >"$work/said.one"
for launcher in openmpi mpich; do
    for shares in 4+4 3+5; do
        rm -rf "$work/two"
        train two bash "$here/run_job.sh" $launcher $shares bash -c 'exec "$0" --devices "$MF_NUM_CPU_DEVICES" "$@"' "$program"
        case $? in
        77) echo "SKIP: there is no mpirun.$launcher"; break ;;
        0) ;;
        *) complain "training as $shares under mpirun.$launcher fails"; continue ;;
        esac
        cmp "$work/one/fashion_mnist_cnn.npz" "$work/two/fashion_mnist_cnn.npz" || complain "$shares under mpirun.$launcher trains other parameters"
        grep -v -e Seconds -e '^ *1  ' -e saved -e 'images/s' "$work/said" | diff "$work/said.one" - ||
            complain "$shares under mpirun.$launcher tells something else"
    done
done
exit $status
