/* Executables: loading a whole program by a client's backend, and running it. Thread-safe: several threads may run one executable at
 * once. */
#ifndef MF_RUNTIME_EXECUTABLE_H
#define MF_RUNTIME_EXECUTABLE_H

#include "runtime/backend.h"

/* One reference, or NULL and *error. An executable that was loaded for given arrays runs only on arrays that it fits. */
mf_executable *mf_executable_load(const mf_load_request *load, mf_error_object **error);
/* The backend that the program's maps name: *client and *compiler are NULL if they name none. An error: they name two. */
mf_error_object *mf_program_backend(const mf_program *p, const mf_client **client, const char **compiler);

static inline bool mf_executable_fits(const mf_executable *x, mf_array *const *in) { return !x->supposes || x->backend->fits(x, in); }
/* Starts a run. in: ready or pending arrays, retained as long as needed. moved (may be NULL): the run may overwrite input i, which is
 * ready and which only the caller holds; an input that it overwrites is marked deleted. out: new arrays, pending or ready, with one
 * reference each. Returns NULL, or an error if nothing was started; an error while running becomes the results' own. */
static inline mf_error_object *mf_executable_run(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out)
{
    return x->backend->execute(x, in, moved, out);
}

/* The executables of one program, for arrays that lie differently or for several clients, are a list that only grows; the first one owns
 * the others. */
static inline mf_executable *mf_executable_next(const mf_executable *x)
{
    return atomic_load_explicit(&((mf_executable *)(uintptr_t)x)->next, memory_order_acquire);
}
void mf_executable_append(mf_executable *first, mf_executable *x); /* takes the reference; one thread at a time */
/* For messages about donated memory: what the caller calls input i ("argument 1['w']"), interned. Before the first run. */
void mf_executable_name_input(mf_executable *x, int i, const char *words);
/* Describes the memory plan for the user: one line per fact. */
void mf_executable_describe(mf_text *t, const mf_executable *x);
/* The peak memory of a run in this process, not counting its arguments and results. */
int64_t mf_executable_temporary_bytes(const mf_executable *x);
/* Runs on the CPU whose estimated cost is below this run on the calling thread; 0: none (for tests). */
void mf_executable_inline_below(double nanoseconds);

#endif
