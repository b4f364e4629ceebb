#!/usr/bin/env bash
# The reference's multi-process example under each launcher, and the errors if processes cannot be joined to a job.
set -uo pipefail
here=$MF_SOURCE_DIR/tests/distributed
example=$MF_BUILD_DIR/examples/distributed
status=0
complain() { echo "$1, but the output is"; cat "$output"; status=1; }
output=$(mktemp)
traces=$(mktemp -d)
trap 'rm -rf "$output" "$traces"' EXIT
ulimit -c 0
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0 # of what MPI keeps until the end, one library under the launcher of the other

# job LAUNCHER VARIABLE=VALUE...: two processes of four devices run the example
job() {
    local launcher=$1
    shift
    env "$@" timeout 60 bash "$here/run_job.sh" "$launcher" 4+4 "$example" >"$output" 2>&1
}
# says TEXT COUNT WHAT
says() { [ "$(grep -c -- "$1" "$output")" = "$2" ] || complain "$3"; }
# names TEXT WHAT: a process says so; its end may be the other's, before that one has spoken (Open MPI 5's prterun)
names() { grep -q -- "$1" "$output" || complain "$2"; }

tried=0
for launcher in openmpi mpich; do
    job $launcher
    case $? in
    77) echo "SKIP: there is no mpirun.$launcher"; continue ;;
    0) ;;
    *) complain "the example fails under mpirun.$launcher" ;;
    esac
    tried=$((tried + 1))
    [ "$(sort "$output")" = "[28 29 30 31] # on process 0 of 2
[32 33 34 35] # on process 1 of 2" ] || complain "the example prints the reference's two rows under mpirun.$launcher"

    job $launcher MF_PROFILE="$traces/$launcher.json" || complain "the example is traced under mpirun.$launcher"
    for process in 0 1; do
        grep -q '"traceEvents"' "$traces/$launcher.$process.json" || complain "process $process writes a trace of its own under mpirun.$launcher"
    done

    job $launcher MF_DISTRIBUTED=off || complain "each process goes on alone with MF_DISTRIBUTED=off under mpirun.$launcher"
    says "^\[6 7 8 9\] # on process 0 of 1$" 2 "two processes work alone with MF_DISTRIBUTED=off under mpirun.$launcher"

    if [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null; then
        job $launcher MF_JOB_CORE=0 || complain "the example fails on one core under mpirun.$launcher"
        says "has bound this process to one core.*--bind-to none" 1 "the first process tells of its binding under mpirun.$launcher"
    fi

    job $launcher MF_MPI_LIBRARY=/nowhere/libmpi.so && complain "a library that is not there is an error under mpirun.$launcher"
    names "MF_MPI_LIBRARY=/nowhere/libmpi.so cannot be opened" "the library that is not there is named under mpirun.$launcher"

    job $launcher MF_MPI_LIBRARY=libz.so.1 && complain "a library that is no MPI is an error under mpirun.$launcher"
    names "libz.so.1 is no MPI library" "a library that is no MPI is named under mpirun.$launcher"
done
if [ $tried = 2 ] && [ -z "${SLURM_CONF:-}" ]; then # under Slurm Open MPI itself ends such a job
    job openmpi MF_MPI_LIBRARY=libmpich.so.12 && complain "MPICH's library under Open MPI's launcher is an error"
    says "started 2 processes, but MPICH knows 1" 2 "both processes say that MPICH's library does not fit Open MPI's launcher"
    job mpich MF_MPI_LIBRARY=libmpi.so.40 && complain "Open MPI's library under MPICH's launcher is an error"
    says "started 2 processes, but Open MPI knows 1" 2 "both processes say that Open MPI's library does not fit MPICH's launcher"
fi

# no launcher: nothing is opened
MF_MPI_LIBRARY=/nowhere/libmpi.so MF_NUM_CPU_DEVICES=2 "$example" >"$output" 2>&1 || complain "a program that is started alone opens no library"
OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0 MF_MPI_LIBRARY=/nowhere/libmpi.so "$example" >"$output" 2>&1 || complain "a job of one process opens no library"
exit $status
