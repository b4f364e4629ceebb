#!/usr/bin/env bash
# run_job.sh LAUNCHER SHARES PROGRAM...: runs the program as a job under mpirun.LAUNCHER, with the devices given by SHARES: 3+5 is two processes
# with three and five devices. Without such a launcher, says so and exits with 77.
set -eu
if [ "$1" = --process ]; then
    IFS=+ read -ra shares <<<"$2"
    rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-${SLURM_PROCID:-}}}
    shift 2
    # what Open MPI keeps until the end is not freed, and nobody knows from where
    [ -z "${OMPI_COMM_WORLD_RANK:-}" ] || export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0"
    # MF_JOB_CORE: bound to it as if the machine were this process's
    [ -z "${MF_JOB_CORE:-}" ] || { unset OMPI_COMM_WORLD_LOCAL_SIZE MPI_LOCALNRANKS; set -- taskset -c "$MF_JOB_CORE" "$@"; }
    # MF_JOB_MEMORY: each process's MF_SHARED_MEMORY, from the beginning again where there are more: a+b are two groups, as if on two machines
    IFS=+ read -ra memory <<<"${MF_JOB_MEMORY:-}"
    [ ${#memory[@]} = 0 ] || export MF_SHARED_MEMORY=${memory[$((rank % ${#memory[@]}))]}
    # MF_JOB_OUTPUT: each process writes to a file of its own, for launchers may mix what several write at once
    [ -z "${MF_JOB_OUTPUT:-}" ] || exec >>"$MF_JOB_OUTPUT.$rank" 2>&1
    MF_NUM_CPU_DEVICES=${shares[$rank]} exec "$@"
fi
launcher=mpirun.$1
shares=$2
shift 2
[ "${MF_SANITIZE:-}" != thread ] || { echo "skipped: the hooks of MPI's libraries and the thread checker do not bear each other"; exit 77; }
command -v "$launcher" >/dev/null || { echo "skipped: there is no $launcher"; exit 77; }
options=()
if [ "$launcher" = mpirun.openmpi ]; then
    # containers may forbid one process to read another's memory, and let only root in
    options=(--oversubscribe --bind-to none --mca btl_vader_single_copy_mechanism none)
    [ "$(id -u)" != 0 ] || options+=(--allow-run-as-root)
fi
IFS=+ read -ra all <<<"$shares"
exec "$launcher" "${options[@]}" ${MF_MPIRUN_OPTIONS:-} -n ${#all[@]} bash "$(dirname "$0")/run_job.sh" --process "$shares" "$@"
