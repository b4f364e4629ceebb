/* The backend interface: what a client does with programs. A backend loads a whole optimised program (collectives and control flow
 * inside, and which devices its maps name) and executes it on arrays of its client. runtime/executable.h is for whoever uses it; the
 * CPU's backend is runtime/execute/executable.c, and segment compilers, plans and fibers are nobody's business but its.
 * Contract: an executable never changes once loaded, and executes from several threads at once. Who executes has seen to it that the
 * arrays are the client's, of the dtypes and shapes of the program's inputs, and fit the executable. */
#ifndef MF_RUNTIME_BACKEND_H
#define MF_RUNTIME_BACKEND_H

#include "array/array.h"
#include "ir/program.h"

typedef struct mf_executable mf_executable;

/* What is to be loaded. */
typedef struct mf_load_request {
    const mf_client *client;
    const mf_program *program; /* optimised, of no free axis names */
    const char *function;      /* interned: the name of the function that it was traced from; NULL: unknown */
    const char *compiler;      /* which of the client's compilers: of the CPU's "native" or "reference"; NULL: its default */
    const bool *donated;       /* by input: its memory may be reused; NULL: none */
    mf_array *const *in;       /* it will run on arrays that lie as these do; NULL: on any */
} mf_load_request;

/* Backends embed it at the front of their own. */
struct mf_executable {
    mf_object object;
    const mf_client *client;
    const struct mf_backend *backend; /* the client's */
    const mf_client *named;           /* the client, where the program's maps name it by their backend or devices; else NULL */
    mf_program *program;              /* retained */
    bool *donated;                    /* by input; NULL: none */
    bool may_fail;                    /* for other reasons than memory */
    bool supposes;                    /* it was compiled for arrays that lie in one way: not all fit (mf_backend.fits) */
    bool shares_locations; /* a function of the library, or an op, which many lines run: errors and profiles name the line of each run */
    _Atomic(mf_executable *) next;
    const char *function;     /* interned; NULL: unknown */
    const char **input_words; /* by input, how a message calls the donated ones (mf_executable_name_input); NULL: unknown */
};
bool mf_executable_init(mf_executable *x, const mf_load_request *load); /* false: memory is out, and x can be dropped */
void mf_executable_end(mf_executable *x);                               /* what init and the list hold; for the backend's destroy */

typedef struct mf_backend {
    mf_error_object *(*load)(const mf_load_request *load, mf_executable **x);
    /* Of an executable that supposes something: whether these arrays are sharded, and held once, as it supposes. in NULL: whether it is for
     * any arrays. */
    bool (*fits)(const mf_executable *x, mf_array *const *in);
    /* As mf_executable_run. */
    mf_error_object *(*execute)(mf_executable *x, mf_array *const *in, const bool *moved, mf_array **out);
    void (*describe)(mf_text *t, const mf_executable *x); /* one line a fact */
    int64_t (*temporary_bytes)(const mf_executable *x);   /* mf_executable_temporary_bytes; NULL: nobody knows, which counts as 0 */
} mf_backend;
extern const mf_backend mf_backend_cpu;

#endif
