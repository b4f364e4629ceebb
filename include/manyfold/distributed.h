/* manyfold/distributed.h - a program that runs as several processes, as jax.distributed and
 * jax.experimental.multihost_utils.
 *
 * Maps over the devices of several processes are mf_pmap's; this is how the processes find one
 * another, and how values of the host go between them: trees of any shapes and dtypes. Results
 * belong to the innermost scope; any thread, in one order everywhere. Errors: MF_ERROR_PEER names
 * the other process and what it is at. */
#ifndef MANYFOLD_DISTRIBUTED_H
#define MANYFOLD_DISTRIBUTED_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/device.h>

MF_BEGIN_

/* ---- a job of several processes */
/* `mpirun -n 2 ./program` is all it takes: the processes that an MPI launcher has started are
 * joined at the first use of a device or a map. Each has its own devices, mf_devices lists those
 * of all, process by process, and maps over them are jax.pmap's on several hosts: the same
 * program runs everywhere, each process gives the rows of its own devices, and collectives are
 * over all. libmpi is opened at run time: the launcher's (Open MPI, MPICH and its family, or one
 * with MPI 5's ABI), or the file that MF_MPI_LIBRARY names. A program that was started alone
 * opens nothing. MF_DISTRIBUTED=off in the environment: neither does one that was launched.
 * MPI is then initialised here and finalised when the process ends: a program that wants MPI
 * itself initialises it before (see communicator); afterwards that is MPI's own error, which
 * ends the job.
 * The processes make the same calls in the same order. Calls of several threads count in the
 * order in which they begin, so threads that call maps over processes at once keep to one order,
 * the same everywhere: where calls of different programs meet, their results are MF_ERROR_PEER
 * in each process; those of the same program cannot be told apart. What is still called after a
 * process has returned from main, or called exit, is MF_ERROR_PEER in the others; it ends when
 * they all do. A child of fork takes no part: after the first use of this library all of it is
 * an error there, and one that was forked before sets MF_DISTRIBUTED=off, or does not use it; a
 * program that a process starts (system, exec) inherits what the launcher set, and needs it too.
 * When joining fails, maps are MF_ERROR_PEER with the reason, there are no devices and no
 * processes, and mf_process_index is -1. */
typedef struct mf_distributed_options {
    mf_reserved begin_;
    /* Of a program that runs MPI itself, by its number (MPI_Comm_c2f, or MPI 5's MPI_Comm_toint):
     * the processes are its. MPI has to have been initialised, with MPI_THREAD_MULTIPLE, and is
     * neither initialised nor finalised here; MPI_Finalize ends this library's part */
    const int *communicator;
    double initialization_timeout; /* seconds to wait until all have joined; 0: 300 */
    /* Seconds that another process may let wait afterwards before that is an error here; 0: 300 */
    double timeout;
    mf_reserved reserved_;
} mf_distributed_options;
/* Joins, with options; every process of the job calls it, once, before its first use of a device
 * or a map. A program that was started alone and gives no communicator goes on alone.
 * MF_ERROR_ARGUMENT: too late, or a bad option; MF_ERROR_PEER: joining failed. */
mf_status mf_distributed_initialize_opt(const mf_distributed_options *o);
/* Leaves the job, once all processes do, and finalises MPI if it was initialised here; that also
 * happens when the process ends. What is still running over several processes, and maps over
 * them from then on, are MF_ERROR_PEER. MF_OK where nothing was joined. A process that leaves by
 * _exit or a signal leaves its launcher to end the others. */
mf_status mf_distributed_shutdown(void);

/* ---- host values between processes, as in JAX's multihost_utils; every process of the job calls
 * them, in the same order. They wait for the others as a map does, and are MF_ERROR_PEER for the
 * same reasons. Arrays of any backend go by the CPU's devices, and what is given is new and on no
 * device: any backend takes it. */
typedef struct mf_process_allgather_options {
    bool tiled;
    mf_reserved reserved_;
} mf_process_allgather_options;
/* tree of (...) -> tree of (processes, ...): of all processes, the same in each: leaves have a
 * new leading axis, a row for each process, or with .tiled are concatenated along their leading
 * one. Leaves have the same shapes and dtypes everywhere: MF_ERROR_PEER. */
mf_value mf_process_allgather_opt(mf_value tree, const mf_process_allgather_options *o);
/* tree -> tree: process 0's, whose leaves have the shapes and dtypes of everybody's */
mf_value mf_broadcast_one_to_all(mf_value tree);
/* Returns when all processes have called it. MF_ERROR_PEER: with other names. */
mf_status mf_sync_global_devices(const char *name);

MF_END_

#include <manyfold/lift/distributed.h>

#endif
