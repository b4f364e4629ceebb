/* manyfold/profiler.h - where the time goes, as jax.profiler: what each thread, each device, the
 * compiler and the collectives are at.
 *
 * A file of slices by thread and device, for a viewer; no values, no shapes. Any thread; one
 * trace at a time. Errors: MF_ERROR_IO and MF_ERROR_ARGUMENT as the functions say. */
#ifndef MANYFOLD_PROFILER_H
#define MANYFOLD_PROFILER_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* Records what runs from now on, to be written to `path` as a Chrome trace (chrome://tracing,
 * ui.perfetto.dev): a track for each thread that calls, for the compiler, for the collectives and
 * for every device; each slice has its operations' names and the lines of your code that asked
 * for them. MF_ERROR_IO when the file cannot be written, MF_ERROR_ARGUMENT when a trace is under
 * way. Any thread.
 * Without a call: MF_PROFILE=trace.json in the environment records the whole program; process 1 of
 * a job that mpirun has started writes trace.1.json. */
mf_status mf_profiler_start_trace(const char *path);
/* Waits for what is running, then writes the file. MF_ERROR_ARGUMENT when no trace is under way,
 * MF_ERROR_IO when writing fails. */
mf_status mf_profiler_stop_trace(void);
/* Something of your own in the trace, as jax.profiler.TraceAnnotation: on this thread's track, from
 * began on, which mf_profiler_begin gave on this thread (0 while nobody records: then nothing is
 * written, at the cost of a load):
 *     int64_t began = mf_profiler_begin();  ...  mf_profiler_end(began, "load");
 * Names are kept as long as the process lives: a few, not one a step. */
int64_t mf_profiler_begin(void);
void mf_profiler_end(int64_t began, const char *name);

MF_END_

#include <manyfold/lift/profiler.h>

#endif
