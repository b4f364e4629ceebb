/* The backend interface: what a client does with programs. A backend loads a whole optimised program (with the collectives and control flow
 * inside, and the devices that its maps name) and executes it on arrays of its client. Callers use runtime/executable.h. The CPU's backend
 * is runtime/execute/executable.c, and only it uses segment compilers, plans and fibers.
 * Contract: an executable never changes once loaded, and several threads may execute it at once. The caller has checked that the arrays
 * are the client's, have the dtypes and shapes of the program's inputs, and fit the executable. */
#ifndef MF_RUNTIME_BACKEND_H
#define MF_RUNTIME_BACKEND_H

#include "array/array.h"
#include "ir/program.h"

typedef struct mf_executable mf_executable;

typedef struct mf_load_request {
    const mf_client *client;
    const mf_program *program; /* optimised, with no free axis names */
    const char *function;      /* interned: the name of the function that it was traced from; NULL: unknown */
    const char *compiler;      /* which of the client's compilers, for the CPU "native" or "reference"; NULL: its default */
    const bool *donated;       /* by input: its memory may be reused; NULL: none */
    mf_array *const *in;       /* specialise for arrays that lie as these do; NULL: for any arrays */
} mf_load_request;

/* Backends embed it as the first member of their own. */
struct mf_executable {
    mf_object object;
    const mf_client *client;
    const struct mf_backend *backend; /* the client's */
    const mf_client *named;           /* the client, where the program's maps name it by their backend or devices; else NULL */
    mf_program *program;              /* retained */
    bool *donated;                    /* by input; NULL: none */
    bool may_fail;                    /* for reasons other than lack of memory */
    bool supposes;                    /* it was specialised for arrays that lie in one way, so not all arrays fit (mf_backend.fits) */
    bool shares_locations; /* a library function or an op, which many lines call: errors and profiles name the line of each run */
    _Atomic(mf_executable *) next;
    const char *function;     /* interned; NULL: unknown */
    const char **input_words; /* by input, what messages call the donated ones (mf_executable_name_input); NULL: unknown */
};
bool mf_executable_init(mf_executable *x, const mf_load_request *load); /* false: memory is out, and x can be dropped */
void mf_executable_end(mf_executable *x);                               /* frees what init and the list hold; for the backend's destroy */

typedef struct mf_backend {
    mf_error_object *(*load)(const mf_load_request *load, mf_executable **x);
    /* For a specialised executable: whether these arrays are sharded, and held once, as it supposes. in NULL: whether any arrays fit. */
    bool (*fits)(const mf_executable *x, mf_array *const *in);
    /* See mf_executable_run. */
    mf_error_object *(*execute)(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out);
    void (*describe)(mf_text *t, const mf_executable *x); /* one line per fact */
    int64_t (*temporary_bytes)(const mf_executable *x);   /* see mf_executable_temporary_bytes; NULL: unknown, reported as 0 */
} mf_backend;
extern const mf_backend mf_backend_cpu;

#endif
