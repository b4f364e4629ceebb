/* Functions: what mf_pmap, mf_jit, mf_grad and the others return. Interned by (class, inner function, option bytes): a C function's options
 * are its address, a closure's its address and the copied bytes of its context. The table holds functions weakly; handles and the cache's
 * entries keep them alive, so an equal closure made again finds its compiled programs (for a while, if it holds values: cache.c). A
 * transform is a class with one task: to make the program (mf_traced) for the abstract arguments of a call. dispatch does the rest. */
#ifndef MF_TRACE_FUNCTION_H
#define MF_TRACE_FUNCTION_H

#include <manyfold/function.h>
#include "trace/state/state.h"
#include "trace/trace.h"

#define MF_MAX_ARGUMENTS 16

/* MF_A<n>: a[0] to a[n-1] as the arguments of a C function. MF_ARITIES(X): X for each n. */
#define MF_A1         a[0]
#define MF_A2         MF_A1, a[1]
#define MF_A3         MF_A2, a[2]
#define MF_A4         MF_A3, a[3]
#define MF_A5         MF_A4, a[4]
#define MF_A6         MF_A5, a[5]
#define MF_A7         MF_A6, a[6]
#define MF_A8         MF_A7, a[7]
#define MF_A9         MF_A8, a[8]
#define MF_A10        MF_A9, a[9]
#define MF_A11        MF_A10, a[10]
#define MF_A12        MF_A11, a[11]
#define MF_A13        MF_A12, a[12]
#define MF_A14        MF_A13, a[13]
#define MF_A15        MF_A14, a[14]
#define MF_A16        MF_A15, a[15]
#define MF_ARITIES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)

typedef struct mf_function_object mf_function_object;

/* One leaf of a call's arguments. A static leaf is passed to the function unchanged and enters the key by its interned identity. */
typedef struct mf_leaf {
    const mf_type *type;  /* NULL for a static */
    mf_object *object;    /* the argument itself (borrowed); NULL for a typed leaf of which only the type is known */
    const void *identity; /* for a static; equal statics have equal pointers */
} mf_leaf;

/* Memory for the leaves of a call: MF_LEAVES(storage) declares it, to be freed at the end of the block. */
typedef struct mf_leaves {
    mf_leaf few[32], *more; /* more: used if few is too small; else NULL */
} mf_leaves;
static inline void mf_leaves_end(mf_leaves *storage)
{
    if (storage->more) /* tested here, so that the usual case makes no call */
        mf_free(storage->more);
}
#define MF_LEAVES(storage)                                     \
    __attribute__((cleanup(mf_leaves_end))) mf_leaves storage; \
    storage.more = NULL

/* The abstract side of a call: what the trace cache's key is made of. */
typedef struct mf_signature {
    const mf_axis_env *env;
    const mf_client *client;    /* the client of the committed arguments, else the enclosing trace's, else the default one */
    const mf_cell_rules *rules; /* how the maps being traced treat state cells; NULL outside maps */
    int arg_count;
    bool has_kwargs; /* the last argument is a dict of keyword arguments */
    const mf_structure *structures[MF_MAX_ARGUMENTS];
    int leaf_count;
    const mf_leaf *leaves;
} mf_signature;

/* The result of tracing: a closed program. Inputs: the typed leaves in order, then the captured tracers, then the values of the cells that
 * were touched. Outputs: the result's array leaves in order, then the new values of the cells that were written. */
typedef struct mf_touched_cell {
    mf_state_cell *cell;                 /* retained */
    const mf_structure *read_structure;  /* the structure of its consecutive inputs */
    const mf_type **read_types;          /* as seen outside all maps; compared by the cache */
    const mf_structure *write_structure; /* NULL if the cell is only read */
    const char *path;                    /* the path that filters of rules matched */
} mf_touched_cell;

typedef struct mf_traced {
    mf_object object;
    const char *name; /* interned name of the function; NULL if no function has this program */
    mf_program *program;
    const mf_structure *result;
    mf_object **result_statics; /* by result leaf: a static (retained), or NULL for an array; the list is NULL if there are no statics */
    int capture_count;
    mf_tracer **captures; /* retained */
    int cell_count;
    mf_touched_cell *cells;
    bool impure; /* never cached */
    bool own;    /* traced from one of the library's functions: each call gives the equations its own location */
    mf_arena arena;
    _Atomic(mf_object *) executable; /* made by dispatch at the first run; retained */
    _Atomic(mf_object *)
        halves[4]; /* by kind of derivative (transform/functions/vjp.c): the half that runs at once and the linear one; retained */
} mf_traced;
extern const mf_class mf_traced_class;

typedef struct mf_function_class {
    const char *name; /* "pmap", "jit", "grad", ... */
    mf_traced *(*trace)(mf_function_object *f, const mf_signature *s, mf_error_object **error);
    /* Calls without tracing (C functions outside transforms, pullbacks); NULL: dispatch traces, caches and runs. */
    mf_value (*call)(mf_function_object *f, const mf_value *arguments, int count);
    const char *(*name_of)(const void *options);                   /* an interned name; NULL: "class(inner)" */
    void (*destroy)(mf_function_object *f);                        /* drops what the options hold; may be NULL */
    int (*depth)(const void *options);                             /* the depth of the functions held by the options; NULL: none are held */
    const mf_ints *(*static_argnums)(const mf_function_object *f); /* NULL: none */
    const mf_ints *(*donate_argnums)(const mf_function_object *f); /* NULL: none */
    void (*print)(mf_text *t, const mf_function_object *f);        /* NULL: prints the name */
    const mf_intlist *(*devices)(const mf_function_object *f);     /* the devices that a map names; NULL: not a map over devices */
} mf_function_class;

struct mf_function_object {
    mf_object object;
    const mf_function_class *kind;
    mf_function_object *inner; /* retained; NULL for C functions */
    const char *name;          /* interned: "f", "pmap(f)" */
    uint64_t hash;
    int depth;                                 /* the depth of the nested functions */
    int cached;                                /* the number of the cache's references; guarded by its lock */
    _Atomic uint64_t kept;                     /* its handle without a scope; 0: none was asked for */
    _Atomic bool spreads;                      /* a program of it has mapped over processes; `spread` says which */
    _Atomic(const struct mf_intlist *) spread; /* the processes that took part; NULL: all */
    size_t options_size;
    void *options; /* owned bytes; pointers in it are interned or immortal, or dropped by the class's destroy */
};
extern const mf_class mf_function_object_class;

/* Returns the function of this class, inner function and options, as a handle in the innermost scope. `inner` may be NULL. */
mf_function mf_function_make(const mf_function_class *kind, mf_function_object *inner, const void *options, size_t size);
/* Borrowed. NULL and *error when the handle does not name a function. */
mf_function_object *mf_function_of(mf_function f, mf_error_object **error);

/* Whether its options hold objects, or contain a handle that has ended: then, once dropped, an equal function is unlikely to be made
 * again. */
bool mf_function_holds_values(const mf_function_object *f);

/* For a call or trace of f that fails: tells runtime/comm.h which processes it would have exchanged with, as far as f alone determines
 * them. */
void mf_function_expect(const mf_function_object *f);
bool mf_function_may_exchange(const mf_function_object *f); /* whether f may exchange with other processes, judged by f alone */

/* Makes the function of this class around f; all transforms go through this. */
mf_function mf_function_wrap(const mf_function_class *kind, mf_function f, const void *options, size_t size);
/* An mf_ints whose unused entries are zero, so that options compare as bytes; empty and *error set if the count is invalid. */
mf_ints mf_ints_plain(mf_ints list, const char *what, mf_error_object **error);

/* mf_trace_by opens a trace and calls f on tracers by `call`. mf_trace_by_calling uses the class's .call. */
typedef mf_value mf_caller(mf_function_object *f, const mf_value *arguments, int count);
mf_traced *mf_trace_by(mf_function_object *f, mf_caller *call, const mf_signature *s, mf_error_object **error);
mf_traced *mf_trace_by_calling(mf_function_object *f, const mf_signature *s, mf_error_object **error);

/* f's program for s, from the cache or traced now. One reference, or NULL and *error. */
mf_traced *mf_function_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error);

/* ---- helpers for the classes */
mf_value mf_function_arity_error(const mf_function_object *f, int wanted, int count);
int mf_signature_typed_count(const mf_signature *s);
/* The argument to which a leaf belongs; the leaf's path, "argument 1 ['w']", appended to t. */
int mf_signature_argument_of(const mf_signature *s, int leaf);
void mf_signature_leaf_path(mf_text *t, const mf_signature *s, int leaf);
int mf_traced_result_count(const mf_traced *t); /* number of array leaves of the result */
int mf_traced_read_count(const mf_traced *t);   /* number of inputs that come from cells */
int mf_traced_write_count(const mf_traced *t);
/* A traced function with another program and result structure, and the captures and cells of t. Takes the program's reference. */
mf_traced *mf_traced_with(const mf_traced *t, mf_program *program, const mf_structure *result, mf_object *const *statics);
/* A program of one equation: `op` on inputs of these types. */
mf_program *mf_program_of_eqn(const mf_axis_env *env, const mf_op *op, const void *params, const mf_type *const *in, int in_count,
                              mf_error_object **error);
/* Applies a traced program to leaves (the typed leaves of the call, in order): inlined when tracing, else compiled once and run. donated,
 * by leaf, may be NULL. */
mf_value mf_traced_apply(mf_traced *t, mf_object *const *leaves, const bool *donated);
/* The static arguments of f, and of its inner function; the latter are f's too if f passes its arguments on unchanged. NULL: none. */
const mf_ints *mf_function_statics(const mf_function_object *f);
const mf_ints *mf_inner_statics(const mf_function_object *f);
/* mf_decorate_n for a decorator that passes its arguments on unchanged: the static arguments of f are the decorated function's too. */
mf_function mf_decorate_alike(mf_function f, const char *name, mf_decorator call, const void *context, size_t size);
/* Makes the signature of a call: flattens the arguments and separates those of f's static_argnums; the leaves go into storage. An error
 * names the argument. */
mf_error_object *mf_signature_make(mf_signature *s, mf_leaves *storage, const mf_function_object *f, const mf_value *arguments, int count);
/* The same where only the arguments' types matter: structs may stand for arrays. */
mf_error_object *mf_signature_of_types(mf_signature *s, mf_leaves *storage, const mf_function_object *f, const mf_value *arguments,
                                       int count);
/* An error if an enclosing transform has turned a static argument of f into a traced value; else NULL. */
mf_error_object *mf_signature_known(const mf_signature *s, const mf_function_object *f);
/* Fills donated, by typed leaf: whether f's donate_argnums name its argument. */
mf_error_object *mf_signature_donated(const mf_signature *s, const mf_function_object *f, bool *donated);

#endif
