/* Executables: a top-level program made ready to run, and running it. See runtime/plan/plan.h for what compile makes and runtime/run.c for
 * how devices are stepped. Thread-safe: one executable runs from many threads at once. */
#ifndef MF_RUNTIME_EXECUTABLE_H
#define MF_RUNTIME_EXECUTABLE_H

#include "runtime/backend.h"

typedef struct mf_executable mf_executable; /* an mf_object */

/* p has no free axis names. backend: NULL for the one that its maps name, or else the default. donated[i] (may be NULL): input i's memory may
 * be reused. in (may be NULL): arrays that lie as those that it will run on: what they hold once is computed once. Such an executable runs only
 * on arrays that it fits; one without runs on any. One reference, or NULL and *error. */
mf_executable *mf_executable_compile(const mf_program *p, const mf_backend *backend, const bool *donated, mf_array *const *in,
                                     mf_error_object **error);
/* Whether these arrays lie as it supposes; and whether it supposes nothing, so that any do. */
bool mf_executable_fits(const mf_executable *x, mf_array *const *in);
bool mf_executable_fits_any(const mf_executable *x);
/* Executables of one program, for arrays that lie differently, are a list that only grows; the first holds the others. */
mf_executable *mf_executable_next(const mf_executable *x);
void mf_executable_append(mf_executable *first, mf_executable *x); /* takes the reference; one thread at a time */
/* Starts a run. in: ready or pending arrays of p's input types, any layout (retained as long as needed). moved (may be NULL): this run may
 * overwrite input i, which is ready and the caller's alone; what it took is marked deleted. out: new arrays, pending or ready; one
 * reference each. NULL, or an error when nothing was started. An error while running becomes the results' own. */
mf_error_object *mf_executable_run(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out);
bool mf_executable_may_fail(const mf_executable *x); /* other than for want of memory */
/* For messages about donated memory: the name of the function that was compiled, and what the caller calls input i ("argument 1['w']"); both
 * interned. Before the first run. */
void mf_executable_name_input(mf_executable *x, const char *function, int i, const char *words);
/* Many lines run x, a function of the library's or an op: its equations are at the place of each run. Before the first. */
void mf_executable_share_places(mf_executable *x);
bool mf_executable_shares_places(const mf_executable *x);
const mf_backend *mf_executable_backend(const mf_executable *x);
int mf_executable_in_count(const mf_executable *x);
int mf_executable_out_count(const mf_executable *x);
/* Runs whose estimated cost is below this are stepped on the calling thread; 0: none (for tests). */
void mf_executable_inline_below(double nanoseconds);
/* What the memory plan says, for the user: one line a fact. */
void mf_executable_describe(mf_text *t, const mf_executable *x);

/* Bytes of temporaries that each worker keeps, and of values that cross segments on each device. */
void mf_executable_memory(const mf_executable *x, int64_t *per_worker, int64_t *per_device);

/* Devices (runtime/device/devices.c): virtual CPU devices; ids 0 .. count-1. */
int mf_device_total(void);                   /* MF_NUM_CPU_DEVICES, a call before first use, or the usable cores */
mf_error_object *mf_device_set_total(int n); /* error once devices were used, or n < 1 */
int mf_core_count(void);                     /* that this process may use */
int mf_worker_count(void);                   /* MF_NUM_THREADS, or as many as cores */

#endif
