/* manyfold/distributed.h - a program that runs as several processes, as jax.distributed and
 * jax.experimental.multihost_utils. docs/DISTRIBUTED.md is the guide.
 *
 * Maps over the devices of several processes are mf_pmap's; this header is about how the processes
 * find one another, and how host values are exchanged: trees of any shapes and dtypes. Results
 * belong to the innermost scope; any thread, but calls that involve several processes are made in
 * one order, the same in each. Errors: MF_ERROR_PEER, which names the other process and what it is
 * doing. */
#ifndef MANYFOLD_DISTRIBUTED_H
#define MANYFOLD_DISTRIBUTED_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/device.h>

MF_BEGIN_

/* ---- a job of several processes
 * Start the program with an MPI launcher, `mpirun -n 2 ./program`; nothing else is needed. The
 * processes join at the first use of a device or a map. Each has its own devices, mf_devices lists
 * those of all processes, and maps over them behave as JAX's pmap on several hosts: the same
 * program runs everywhere, each process passes the rows of its own devices, and collectives span
 * all of them.
 * MPI: libmpi is opened at run time: the launcher's (Open MPI, MPICH and its derivatives, or one
 * with the standard ABI of MPI 5), or the file that MF_MPI_LIBRARY names. It is initialised here
 * and finalised when the process ends. A program that uses MPI itself initialises it first (see
 * communicator); to do so afterwards is an error of MPI, which ends the job. A program that was
 * started without a launcher opens no MPI library; nor does any with MF_DISTRIBUTED=off in the
 * environment.
 * Order: the processes make the same calls in the same order. Calls count in the order in which
 * they begin, so threads that call maps over several processes concurrently must agree on one
 * order, the same in all processes. Where calls of different programs meet, their results are
 * MF_ERROR_PEER in every process; calls of the same program cannot be told apart.
 * End: a process that has returned from main or called exit takes no further part: calls that need
 * it are MF_ERROR_PEER in the others. It ends when they all do.
 * Child processes take no part. A forked child can use nothing of this library if the parent has
 * used it before; one forked earlier must set MF_DISTRIBUTED=off before it does. So must a program
 * started by system or exec, which inherits the launcher's environment.
 * When joining fails, maps are MF_ERROR_PEER with the reason, there are no devices,
 * mf_process_count is 0 and mf_process_index is -1. */
typedef struct mf_distributed_options {
    mf_reserved begin_;
    /* For a program that initialises MPI itself, with MPI_THREAD_MULTIPLE: the job's communicator
     * as an integer (MPI_Comm_c2f, or MPI 5's MPI_Comm_toint). Its processes are the job. MPI is
     * then neither initialised nor finalised here, and MPI_Finalize ends this library's part.
     * NULL: all processes that the launcher started */
    const int *communicator;
    double initialization_timeout; /* seconds to wait until all have joined; 0: 300 */
    /* After joining, the seconds that a call waits for another process before it is an error;
     * 0: 300 */
    double timeout;
    mf_reserved reserved_;
} mf_distributed_options;
/* Joins with options: every process of the job calls this once, before its first use of a device or
 * a map. A program that was started without a launcher and gives no communicator continues alone.
 * MF_ERROR_ARGUMENT when it is too late, or an option is wrong; MF_ERROR_PEER when joining
 * failed. */
mf_status mf_distributed_initialize_opt(const mf_distributed_options *o);
/* Leaves the job, once all processes do so, and finalises MPI if it was initialised here; this also
 * happens when the process ends. Calls over several processes that are still running, and later
 * ones, are MF_ERROR_PEER. MF_OK when nothing was joined. When a process ends by _exit or a signal,
 * ending the others is up to the launcher. */
mf_status mf_distributed_shutdown(void);

/* ---- exchanging host values, as JAX's multihost_utils. Every process of the job calls these
 * functions, in the same order; they wait for the others as a map does, with the same errors.
 * Arrays of any backend are exchanged through the CPU, and results are new and uncommitted, so that
 * any backend takes them. */
typedef struct mf_process_allgather_options {
    bool tiled;
    mf_reserved reserved_;
} mf_process_allgather_options;
/* tree of (...) -> tree of (processes, ...): the trees of all processes, the same result in each:
 * stacked along a new leading axis, or with .tiled concatenated along the existing one.
 * MF_ERROR_PEER unless the leaves have the same shapes and dtypes everywhere */
mf_value mf_process_allgather_opt(mf_value tree, const mf_process_allgather_options *o);
/* tree -> tree: that of process 0; the leaves of all processes have its shapes and dtypes */
mf_value mf_broadcast_one_to_all(mf_value tree);
/* Returns once all processes have called it, with the same name (else MF_ERROR_PEER) */
mf_status mf_sync_global_devices(const char *name);

MF_END_

#include <manyfold/lift/distributed.h>

#endif
