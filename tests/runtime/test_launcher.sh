#!/usr/bin/env bash
# A program that a launcher started several times is told once, by its first process, that one is supported.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat > "$work/one.c" <<'C'
#include <manyfold.h>
int main(void)
{
    for (int i = 0; i < 3; i++)
        mf_block_until_ready(mf_call(mf_jit(mf_neg), mf_arange(mf_device_count() + i, MF_F32)));
    return mf_exit_status();
}
C
sanitize=${MF_SANITIZE:+-fsanitize=$MF_SANITIZE}
"$MF_CC" -std=c11 $sanitize -I"$MF_SOURCE_DIR/include" "$work/one.c" -o "$work/one" "$MF_BUILD_DIR/libmanyfold.so" -Wl,-rpath,"$MF_BUILD_DIR"
# says COUNT LAUNCHER VARIABLE=VALUE...
says() {
    local count=$1 launcher=$2
    shift 2
    said=$(env "$@" "$work/one" 2>&1)
    [ "$(grep -c "warning: $launcher started .* processes, but only one is supported so far" <<<"$said" || true)" = "$count" ] || { echo "$*: $said"; exit 1; }
}
says 1 mpirun OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0
says 0 mpirun OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=1
says 0 mpirun OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0
says 1 mpiexec PMI_SIZE=2 PMI_RANK=0
says 1 srun SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0
says 0 srun MF_X=1
