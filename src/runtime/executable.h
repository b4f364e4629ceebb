/* Executables: a whole program loaded by a client's backend, and running it. Thread-safe: one executable runs from many threads at once. */
#ifndef MF_RUNTIME_EXECUTABLE_H
#define MF_RUNTIME_EXECUTABLE_H

#include "runtime/backend.h"

/* One reference, or NULL and *error. Such an executable runs only on arrays that it fits; one loaded for no arrays runs on any. */
mf_executable *mf_executable_load(const mf_load_request *load, mf_error_object **error);
/* Whom the program's maps name: *client and *compiler are NULL where they name none. An error: they name two. */
mf_error_object *mf_program_backend(const mf_program *p, const mf_client **client, const char **compiler);

static inline bool mf_executable_fits(const mf_executable *x, mf_array *const *in) { return !x->supposes || x->backend->fits(x, in); }
/* Starts a run. in: ready or pending arrays (retained as long as needed). moved (may be NULL): this run may
 * overwrite input i, which is ready and the caller's alone; what it took is marked deleted. out: new arrays, pending or ready; one
 * reference each. NULL, or an error when nothing was started. An error while running becomes the results' own. */
static inline mf_error_object *mf_executable_run(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out)
{
    return x->backend->execute(x, in, moved, out);
}

/* Executables of one program, for arrays that lie differently or on several clients, are a list that only grows; the first holds the
 * others. */
static inline mf_executable *mf_executable_next(const mf_executable *x)
{
    return atomic_load_explicit(&((mf_executable *)(uintptr_t)x)->next, memory_order_acquire);
}
void mf_executable_append(mf_executable *first, mf_executable *x); /* takes the reference; one thread at a time */
/* For messages about donated memory: the name of the function that was compiled, and what the caller calls input i ("argument 1['w']");
 * both interned. Before the first run. */
void mf_executable_name_input(mf_executable *x, int i, const char *words);
/* What the memory plan says, for the user: one line a fact. */
void mf_executable_describe(mf_text *t, const mf_executable *x);
/* What a run takes at its most beside its arguments and results, in this process. */
int64_t mf_executable_temporary_bytes(const mf_executable *x);
/* The CPU's runs whose estimated cost is below this are stepped on the calling thread; 0: none (for tests). */
void mf_executable_inline_below(double nanoseconds);

#endif
