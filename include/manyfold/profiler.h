/* manyfold/profiler.h - profiling, as jax.profiler: records what each thread, each device, the
 * compiler and the collectives are doing, and when.
 *
 * The result is a file for a trace viewer; no values and no shapes are involved. Any thread; one
 * trace at a time. Errors: MF_ERROR_IO and MF_ERROR_ARGUMENT, as stated. */
#ifndef MANYFOLD_PROFILER_H
#define MANYFOLD_PROFILER_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* Starts recording; mf_profiler_stop_trace writes the file, a Chrome trace for
 * https://ui.perfetto.dev or chrome://tracing. It has a track for each calling thread, for the
 * compiler, for the collectives and for each device; each slice has the names of its operations and
 * the lines of your program that asked for them. MF_ERROR_IO when the file cannot be written,
 * MF_ERROR_ARGUMENT when a trace is being recorded already.
 * MF_PROFILE=trace.json in the environment records the whole program, without any call. In a job of
 * several processes, process 1 writes trace.1.json, and so on. */
mf_status mf_profiler_start_trace(const char *path);
/* Waits for work in progress, then writes the file. MF_ERROR_ARGUMENT when nothing is being
 * recorded, MF_ERROR_IO when writing fails. */
mf_status mf_profiler_stop_trace(void);
/* A slice of your own, as jax.profiler.TraceAnnotation: on the calling thread's track, from
 * mf_profiler_begin to mf_profiler_end on the same thread:
 *     int64_t began = mf_profiler_begin();
 *     load();
 *     mf_profiler_end(began, "load");
 * While nothing is recorded began is 0 and nothing is written; the cost is one load from memory.
 * Names are kept as long as the process lives, so use a few, not a new one in each step. */
int64_t mf_profiler_begin(void);
void mf_profiler_end(int64_t began, const char *name);

MF_END_

#include <manyfold/lift/profiler.h>

#endif
