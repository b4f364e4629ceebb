#!/usr/bin/env bash
# A checkpoint saved by two processes of four devices is loaded by one process of eight, by four of two, by two of three and five; and the error
# for a missing part names it.
set -uo pipefail
here=$MF_SOURCE_DIR/tests/distributed
program=$MF_BUILD_DIR/tests/distributed/job_checkpoint
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
complain() { echo "$1"; cat "$work/said"; status=1; }

for launcher in openmpi mpich; do
    folder=$work/$launcher
    timeout 60 bash "$here/run_job.sh" $launcher 4+4 "$program" save "$folder" >"$work/said" 2>&1
    case $? in
    77) echo "SKIP: there is no mpirun.$launcher"; continue ;;
    0) ;;
    *) complain "saving under mpirun.$launcher fails"; continue ;;
    esac
    ls "$folder" | tr '\n' ' ' | grep -qx 'a-0.npz a-1.npz a-whole.npz index.npz ' || { ls "$folder"; complain "other files"; }
    MF_NUM_CPU_DEVICES=8 "$program" load "$folder" >"$work/said" 2>&1 || complain "one process does not read what two under mpirun.$launcher saved"
    for shares in 4+4 2+2+2+2 3+5; do
        timeout 60 bash "$here/run_job.sh" $launcher $shares "$program" load "$folder" >"$work/said" 2>&1 ||
            complain "$shares under mpirun.$launcher do not read what 4+4 saved"
    done
    # whenever one that saves without end is killed, the last complete checkpoint is there
    for i in 1 2 3 4 5 6; do
        timeout 60 bash "$here/run_job.sh" $launcher 4+4 "$program" again "$folder" $((i % 2)) $((i * 7)) >"$work/said" 2>&1 &&
            complain "nobody was killed under mpirun.$launcher"
        MF_NUM_CPU_DEVICES=8 "$program" load "$folder" >"$work/said" 2>&1 || complain "after a kill under mpirun.$launcher there is no checkpoint"
    done
    bash "$here/run_job.sh" $launcher 4+4 "$program" save "$folder" >"$work/said" 2>&1 || complain "saving after a kill fails under mpirun.$launcher"
    ls "$folder" | grep -vxc 'index.npz\|[ab]-[01].npz\|[ab]-whole.npz' >"$work/said" && { ls "$folder"; complain "files stay behind under mpirun.$launcher"; }
    [ "$(ls "$folder" | wc -l)" = 4 ] || { ls "$folder"; complain "files of two checkpoints are there under mpirun.$launcher"; }
    rm "$folder"/?-1.npz
    timeout 60 bash "$here/run_job.sh" $launcher 4+4 "$program" load "$folder" >"$work/said" 2>&1 && complain "a missing part is no error under mpirun.$launcher"
    grep -q "process 1: $folder/[ab]-1.npz: cannot be read" "$work/said" || complain "the missing part is not named under mpirun.$launcher"
    grep -q "process 0: .*process 1 could not read its part" "$work/said" || complain "the other process says nothing"
done

# and the other way round
MF_NUM_CPU_DEVICES=8 "$program" save "$work/one" >"$work/said" 2>&1 || complain "one process does not save"
for launcher in openmpi mpich; do
    timeout 60 bash "$here/run_job.sh" $launcher 3+5 "$program" load "$work/one" >"$work/said" 2>&1
    case $? in
    0 | 77) ;;
    *) complain "3+5 under mpirun.$launcher do not read what one process saved" ;;
    esac
done
exit $status
