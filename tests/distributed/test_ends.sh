#!/usr/bin/env bash
# Processes that end early or late, or make the others wait: the error that each process gets, and that none hangs. See job_ends.c.
set -uo pipefail
here=$MF_SOURCE_DIR/tests/distributed
program=$MF_BUILD_DIR/tests/distributed/job_ends
status=0
output=$(mktemp)
trap 'rm -f "$output" "$output".*' EXIT
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # in a child, what the parent's threads have would be leaks

# Launchers and kinds of memory wait at the same time: beside COMMAND HOW... runs COMMAND HOW for each, its output in files of its own.
beside() {
    local command=$1 how count=0 jobs=()
    shift
    for how in "$@"; do
        (status=0 output=$output.$count; $command $how; exit $status) &
        jobs+=($!) count=$((count + 1))
    done
    for job in "${jobs[@]}"; do
        wait "$job" || status=1
    done
    rm -f "$output".*
}

# way NAME [OPTION]: what two processes of two devices print, in any order, is on stdin; a time is N s, a place PLACE. With shared memory and
# without; under Open MPI also with the option.
way() {
    name=$1 expected=$(LC_ALL=C sort)
    beside way_under "openmpi on" "openmpi off" "mpich on" "mpich off" ${2:+"openmpi on $2"}
}
way_under() {
    local launcher=$1 memory=$2
    MF_MPIRUN_OPTIONS=${3:-} MF_JOB_MEMORY=${memory#on} MF_JOB_OUTPUT=$output timeout 40 bash "$here/run_job.sh" $launcher 2+2 "$program" "$name" >"$output" 2>&1
    local code=$?
    [ $code != 77 ] || { echo "SKIP: $(cat "$output")"; return; }
    [ $code = 0 ] || { echo "$name under mpirun.$launcher $memory ends with $code"; status=1; }
    cat "$output" "$output".[01] | sed -E 's/[0-9.]+ s( |:|;|$)/N s\1/g; s/[^ (]*job_ends(\.c:|\+0x)[0-9a-f]+/PLACE/g' | LC_ALL=C sort | diff - <(echo "$expected") >"$output.diff" ||
        { echo "$name under mpirun.$launcher $memory prints, and should not, or should, and does not:"; cat "$output.diff"; status=1; }
}

way nothing_else <<'E'
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way early_return --enable-recovery <<'E'
process 0: process 1: the process exits; psum of float32[3] over 'i' (pmap(sum), PLACE) in call 0 waits for it
E
way exit_in_callback --enable-recovery <<'E'
process 0: process 1: the process exits; psum of float32[3] over 'i' (pmap(sum), PLACE) in call 0 waits for it
E
way late_work <<'E'
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way fork_before <<'E'
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way fork_after <<'E'
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way shutdown_first <<'E'
left
left
process 0: this process has left the job: mf_distributed_shutdown was called
process 1: this process has left the job: mf_distributed_shutdown was called
E
way late <<'E'
process 0: process 1 has not begun call 1, pmap(sum) (PLACE), for N s: its last was call 0, pmap(sum) (PLACE), N s ago; its last collective was psum of float32[3] over 'i' (pmap(sum), PLACE), N s ago
process 1: [4. 4. 4.]
E
way late_inside <<'E'
process 0: process 1 is N s late for psum of float32[3] over 'i' (pmap(slow), PLACE) in call 1: its last was call 1, pmap(slow) (PLACE), N s ago; its last collective was psum of float32[3] over 'i' (pmap(sum), PLACE), N s ago
process 1: [4. 4. 4.]
E
way late_but_in_time <<'E'
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way stopped --enable-recovery <<'E'
process 0: process 1 has not answered for N s: it is stopped or gone; its last message was of call 1, pmap(sum) (PLACE); psum of float32[3] over 'i' (pmap(sum), PLACE) in call 2 waits for it
process 1: [4. 4. 4.]
E
way threads_in_any_order --enable-recovery <<'E'
ended
ended
E
way twice <<'E'
1 1
1 1
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way own_mpi <<'E'
finalised: 0
finalised: 0
process 0: [4. 4. 4.]
process 0: this process has left the job: MPI_Finalize was called
process 1: [4. 4. 4.]
process 1: this process has left the job: MPI_Finalize was called
E
way own_mpi_null <<'E'
argument: 1
argument: 1
E
way own_mpi_unsaid <<'E'
finalised: 0
finalised: 0
process 0: [4. 4. 4.]
process 1: [4. 4. 4.]
E
way own_mpi_without_threads <<'E'
process -1: MPI was initialised with thread level 0: it takes MPI_THREAD_MULTIPLE, for messages travel on threads of this library's
process -1: MPI was initialised with thread level 0: it takes MPI_THREAD_MULTIPLE, for messages travel on threads of this library's
E
for launcher in openmpi mpich; do
    MF_JOB_OUTPUT=$output timeout 40 bash "$here/run_job.sh" $launcher 2+2+2 "$program" own_mpi_part >"$output" 2>&1
    code=$?
    [ $code != 77 ] || { echo "SKIP: $(cat "$output")"; continue; }
    [ $code = 0 ] && cat "$output".[012] | LC_ALL=C sort | diff - <(printf '%s\n' "process 0: [2. 2. 2.]" "process 0: [4. 4. 4.]" "process 1: [4. 4. 4.]" \
        "rank 0 is process 0 of 1" "rank 1 is process 1 of 2" "rank 2 is process 0 of 2") ||
        { echo "own_mpi_part under mpirun.$launcher ends with $code"; status=1; }
    rm -f "$output".*
done
# MPI itself ends a job that initialises it after this library; its own words may be cut off by the launcher.
for launcher in openmpi mpich; do
    timeout 40 bash "$here/run_job.sh" $launcher 2+2 "$program" own_mpi_after >"$output" 2>&1
    code=$?
    [ $code != 77 ] || { echo "SKIP: $(cat "$output")"; continue; }
    if [ $code = 0 ] || [ $code = 124 ] || [ "$(grep -c "^process 0: " "$output")" -gt 1 ]; then
        echo "own_mpi_after under mpirun.$launcher ends with $code, and says:"; cat "$output"; status=1
    fi
done
# Calls of a part of the processes have numbers of their own, so whose they are is said.
for launcher in openmpi mpich; do
    timeout 40 bash "$here/run_job.sh" $launcher 1+1+1 "$program" circle_of_parts >"$output" 2>&1
    code=$?
    [ $code != 77 ] || { echo "SKIP: $(cat "$output")"; continue; }
    says="has not begun call 0 of processes [01] and [12], pmap(sum).*its last was call 0 of processes [01] and [12]"
    if [ $code = 124 ] || [ "$(grep -c "$says" "$output")" != 3 ]; then
        echo "circle_of_parts under mpirun.$launcher ends with $code, and says:"; cat "$output"; status=1
    fi
done
# A process that never joins keeps the others as long as they said; whether the launcher calls that a failure is its own matter.
for launcher in openmpi mpich; do
    [ -z "${SLURM_CONF:-}" ] || continue # whose processes have their numbers from it
    timeout 40 bash "$here/run_job.sh" $launcher 2+2 "$program" never_joins >"$output" 2>&1
    code=$?
    [ $code != 77 ] || { echo "SKIP: $(cat "$output")"; continue; }
    if [ $code = 124 ] || [ "$(grep -c "^process -1: the other processes have not joined within 1 s" "$output")" != 1 ]; then
        echo "never_joins under mpirun.$launcher ends with $code, and says:"; cat "$output"; status=1
    fi
done
# dies NAME RANK: of three processes that one is killed; the others say so and end. Launchers end a job by themselves then, MPICH's before anybody
# can say a word; Open MPI's leaves it alone where it is told to.
dies() {
    name=$1 rank=$2
    beside dies_under "openmpi on" "openmpi off" "openmpi a+b" "openmpi on --enable-recovery" "openmpi off --enable-recovery" \
        "openmpi a+b --enable-recovery" "mpich on" "mpich off"
}
dies_under() {
    local launcher=$1 memory=$2 options=${3:-}
    MF_JOB_MEMORY=${memory#on} MF_MPIRUN_OPTIONS=$options timeout 40 bash "$here/run_job.sh" $launcher 2+2+2 "$program" "$name" >"$output" 2>&1
    local code=$?
    [ $code != 77 ] || { echo "SKIP: $(cat "$output")"; return; }
    [ $code != 124 ] || { echo "$name under mpirun.$launcher $options $memory does not end"; status=1; }
    [ -z "$options" ] || [ "$(grep -o "process [012]: process $rank has died" "$output" | sort -u | wc -l)" = 2 ] ||
        { echo "both that are left say that process $rank has died ($name under mpirun.$launcher), but the output is"; cat "$output"; status=1; }
}
dies killed 1
dies first_killed 0
dies killed_moving 1
dies killed_waiting 1

# Of more processes than meet each other one is killed: all others say so, of both their calls, and end.
if command -v mpirun.openmpi >/dev/null && [ "${MF_SANITIZE:-}" != thread ]; then
    MF_MPIRUN_OPTIONS=--enable-recovery timeout 60 bash "$here/run_job.sh" openmpi 1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1+1 "$program" killed >"$output" 2>&1
    [ $? != 124 ] || { echo "seventeen processes do not end when one is killed"; status=1; }
    [ "$(grep -c "^process [0-9]*: .*process 1 has died" "$output")" = 32 ] || { echo "not all of sixteen say twice that process 1 has died:"; cat "$output"; status=1; }
fi
exit $status
