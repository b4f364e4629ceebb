#!/usr/bin/env bash
# A training job in which a process is killed resumes from its checkpoint when it is restarted, also with another number of processes, and ends
# with the parameters of an uninterrupted run.
set -uo pipefail
here=$MF_SOURCE_DIR/tests/distributed
program=$MF_BUILD_DIR/examples/data_parallel
status=0
complain() { echo "$1"; cat "$work/said"; status=1; }
export work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ulimit -c 0
options=(--epochs 2 --batch 80 --data "$work/data")
python3 "$MF_SOURCE_DIR/tests/examples/tiny_fashion_mnist.py" "$work/data" 2400 50

timeout 100 "$program" --devices 8 "${options[@]}" --out "$work/whole" >"$work/said" 2>&1 || complain "training in one process fails"
same() { cmp "$work/whole/fashion_mnist_cnn.npz" "$work/$1/fashion_mnist_cnn.npz" || complain "$2: other parameters"; }

# job FOLDER COMMAND...: runs the job as 4+4; each process writes its process id to pid.RANK
job() {
    local folder=$1
    shift
    timeout 100 "$@" bash -c 'echo $$ >"$work/pid.${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-$SLURM_PROCID}}"; exec "$0" --devices "$MF_NUM_CPU_DEVICES" "$@"' "$program" "${options[@]}" \
        --checkpoint 3 --out "$work/$folder" >"$work/said" 2>&1
}

# kill_one FOLDER: kills process 1 as soon as FOLDER has a checkpoint
kill_one() {
    for _ in $(seq 3000); do
        [ ! -e "$work/$1/checkpoint/index.npz" ] || break
        sleep 0.02
    done
    kill -KILL "$(cat "$work/pid.1")"
}

for launcher in openmpi mpich; do
    command -v mpirun.$launcher >/dev/null && [ "${MF_SANITIZE:-}" != thread ] || { echo "SKIP: mpirun.$launcher"; continue; }
    run=(bash "$here/run_job.sh" $launcher 4+4)

    kill_one $launcher.one &
    job $launcher.one "${run[@]}" && complain "the job under mpirun.$launcher does not fail when a process is killed"
    wait $!
    [ ! -e "$work/$launcher.one/fashion_mnist_cnn.npz" ] || complain "the job under mpirun.$launcher was through before its process was killed"
    timeout 100 "$program" --devices 8 "${options[@]}" --checkpoint 3 --out "$work/$launcher.one" >"$work/said" 2>&1 ||
        complain "one process does not go on with what two under mpirun.$launcher began"
    grep -q "Going on from .*/checkpoint, after [0-9]* steps" "$work/said" || complain "it begins anew"
    same $launcher.one "one process went on with what two under mpirun.$launcher began"

    kill_one $launcher.two &
    job $launcher.two bash "$MF_SOURCE_DIR/scripts/restart_on_failure.sh" --wait 0 2 "${run[@]}" || complain "restarting under mpirun.$launcher fails"
    wait $!
    grep -q "restart 1 of 2" "$work/said" || complain "the job under mpirun.$launcher was not started again"
    grep -q "Going on from .*/checkpoint, after [0-9]* steps" "$work/said" || complain "it begins anew under mpirun.$launcher"
    same $launcher.two "two processes under mpirun.$launcher went on"
done

# what has ended is not trained again, and what is another run's is not gone on with
timeout 100 "$program" --devices 8 "${options[@]}" --checkpoint 3 --out "$work/through" >"$work/said" 2>&1 || complain "saving checkpoints fails"
same through "saving checkpoints"
timeout 100 "$program" --devices 8 "${options[@]}" --checkpoint 3 --out "$work/through" >"$work/said" 2>&1 || complain "a run that was through does not end well"
grep -q "after 60 steps" "$work/said" || complain "a run that was through goes on"
timeout 100 "$program" --devices 8 "${options[@]}" --seed 1 --checkpoint 3 --out "$work/through" >"$work/said" 2>&1 && complain "another seed is no error"
grep -q "another --seed" "$work/said" || complain "the seed is not named"
exit $status
