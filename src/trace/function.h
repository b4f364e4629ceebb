/* Functions: what mf_pmap, mf_jit, mf_grad and the others return. Interned by (class, inner function, option bytes): a C function's
 * options are its address, a closure's its address and the copied bytes of its context. The table holds them weakly; handles and the
 * cache's entries keep them alive, so an equal closure made again finds its compiled programs (for a while, if it holds values: cache.c).
 * A transform is a class with one duty: given the abstract arguments of a call, make the program (mf_traced). dispatch does the rest. */
#ifndef MF_TRACE_FUNCTION_H
#define MF_TRACE_FUNCTION_H

#include <manyfold/function.h>
#include "trace/state/state.h"
#include "trace/trace.h"

#define MF_MAX_ARGUMENTS 16

/* The first n of the values in `a`, as a C function's arguments; and X for each number of them. */
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

/* One leaf of a call's arguments. A static leaf is passed to the function as it is and enters the key by its interned identity. */
typedef struct mf_leaf {
    const mf_type *type;  /* NULL for a static */
    mf_object *object;    /* the argument itself (borrowed); for a typed leaf NULL when only its type is known */
    const void *identity; /* of a static: equal statics have equal pointers */
} mf_leaf;

/* Room for the leaves of a call: MF_LEAVES(room) declares some that ends with the block. */
typedef struct mf_leaves {
    mf_leaf few[32], *more; /* more: when those were too few; else NULL */
} mf_leaves;
static inline void mf_leaves_end(mf_leaves *room)
{
    if (room->more) /* seldom, and no call then */
        mf_free(room->more);
}
#define MF_LEAVES(room)                                     \
    __attribute__((cleanup(mf_leaves_end))) mf_leaves room; \
    room.more = NULL

/* The abstract side of a call. */
typedef struct mf_signature {
    const mf_axis_env *env;
    const mf_client *client;    /* that its committed arrays are on, else that of the trace around it, else the default one */
    const mf_cell_rules *rules; /* how the maps being traced treat state cells; NULL outside maps */
    int arg_count;
    bool has_kwargs; /* the last argument is a dict of keyword arguments */
    const mf_structure *structures[MF_MAX_ARGUMENTS];
    int leaf_count;
    const mf_leaf *leaves;
} mf_signature;

/* The outcome of tracing: a closed program. Inputs: the typed leaves in order, then the captured tracers, then the values of the cells
 * that were touched. Outputs: the result's array leaves in order, then the new values of the cells that were written. */
typedef struct mf_touched_cell {
    mf_state_cell *cell;                 /* retained */
    const mf_structure *read_structure;  /* its consecutive inputs */
    const mf_type **read_types;          /* as seen around all maps: what the cache compares */
    const mf_structure *write_structure; /* NULL when only read */
    const char *path;                    /* what the filters of rules were asked about */
} mf_touched_cell;

typedef struct mf_traced {
    mf_object object;
    const char *name; /* interned: of the function; NULL: of none that is called */
    mf_program *program;
    const mf_structure *result;
    mf_object **result_statics; /* by result leaf: a static (retained), or NULL for an array leaf; NULL when there is none at all */
    int capture_count;
    mf_tracer **captures; /* retained */
    int cell_count;
    mf_touched_cell *cells;
    bool impure; /* never cached */
    bool own;    /* one of the library's functions: its equations have the location of each call, not of the one that was traced */
    mf_arena arena;
    _Atomic(mf_object *) executable; /* made by dispatch at the first run; retained */
    _Atomic(mf_object *)
        halves[4]; /* by kind of derivative (transform/functions/vjp.c): what runs at once, and the linear rest; retained */
} mf_traced;
extern const mf_class mf_traced_class;

typedef struct mf_function_class {
    const char *name; /* "pmap", "jit", "grad", ... */
    mf_traced *(*trace)(mf_function_object *f, const mf_signature *s, mf_error_object **error);
    /* Calls without tracing (C functions outside transforms, pullbacks); NULL: traced, cached and run by dispatch. */
    mf_value (*call)(mf_function_object *f, const mf_value *arguments, int count);
    const char *(*name_of)(const void *options);                   /* interned; NULL: "class(inner)" */
    void (*destroy)(mf_function_object *f);                        /* what the options hold; may be NULL */
    int (*depth)(const void *options);                             /* of the functions that the options hold; NULL: they hold none */
    const mf_ints *(*static_argnums)(const mf_function_object *f); /* NULL: none */
    const mf_ints *(*donate_argnums)(const mf_function_object *f); /* NULL: none */
    void (*print)(mf_text *t, const mf_function_object *f);        /* NULL: the name */
    const mf_intlist *(*devices)(const mf_function_object *f);     /* that a map names; NULL: it is no map over devices */
} mf_function_class;

struct mf_function_object {
    mf_object object;
    const mf_function_class *kind;
    mf_function_object *inner; /* retained; NULL for C functions */
    const char *name;          /* interned: "f", "pmap(f)" */
    uint64_t hash;
    int depth;                                 /* of the functions in it */
    int cached;                                /* references of the cache; guarded by its lock */
    _Atomic uint64_t kept;                     /* its handle that no scope owns; 0: nobody has asked for one */
    _Atomic bool spreads;                      /* a program of it had maps over processes, and these took part */
    _Atomic(const struct mf_intlist *) spread; /* NULL: all */
    size_t options_size;
    void *options; /* owned bytes; pointers inside are interned or immortal, or given up by the class's destroy */
};
extern const mf_class mf_function_object_class;

/* The function of this class, inner and options; a handle in the innermost scope. `inner` may be NULL. */
mf_function mf_function_make(const mf_function_class *kind, mf_function_object *inner, const void *options, size_t size);
/* NULL with an error when the handle names no function. Borrowed. */
mf_function_object *mf_function_of(mf_function f, mf_error_object **error);

/* Whether its options hold objects, or a handle in its context has ended: who lets go of it will hardly make an equal one. */
bool mf_function_holds_values(const mf_function_object *f);

/* A call of f, or its trace, fails: with whom it would exchange (runtime/comm.h), as far as f alone tells. */
void mf_function_expect(const mf_function_object *f);
bool mf_function_may_exchange(const mf_function_object *f); /* with other processes, as far as f alone tells */

/* The function of this class around f; the way of every transform. */
mf_function mf_function_wrap(const mf_function_class *kind, mf_function f, const void *options, size_t size);
/* An mf_ints without the bytes that do not count, so that options compare as bytes; empty, and an error, where the count is none. */
mf_ints mf_ints_plain(mf_ints list, const char *what, mf_error_object **error);

/* Opens a trace and calls f on tracers, by `call`; of a class that has .call, by that. */
typedef mf_value mf_caller(mf_function_object *f, const mf_value *arguments, int count);
mf_traced *mf_trace_by(mf_function_object *f, mf_caller *call, const mf_signature *s, mf_error_object **error);
mf_traced *mf_trace_by_calling(mf_function_object *f, const mf_signature *s, mf_error_object **error);

/* f's program for s, from the cache or traced now. One reference; NULL and *error. */
mf_traced *mf_function_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error);

/* ---- helpers for the classes */
mf_value mf_function_arity_error(const mf_function_object *f, int wanted, int count);
int mf_signature_typed_count(const mf_signature *s);
/* The argument of a leaf, and its path: "argument 1 ['w']", appended to t. */
int mf_signature_argument_of(const mf_signature *s, int leaf);
void mf_signature_leaf_path(mf_text *t, const mf_signature *s, int leaf);
int mf_traced_result_count(const mf_traced *t); /* array leaves of the result */
int mf_traced_read_count(const mf_traced *t);   /* inputs that come from cells */
int mf_traced_write_count(const mf_traced *t);
/* A traced with another program and result structure but the captures and cells of t. Takes the program's reference. */
mf_traced *mf_traced_with(const mf_traced *t, mf_program *program, const mf_structure *result, mf_object *const *statics);
/* A program of one equation of `op` over inputs of these types. */
mf_program *mf_program_of_eqn(const mf_axis_env *env, const mf_op *op, const void *params, const mf_type *const *in, int in_count,
                              mf_error_object **error);
/* Runs or inlines a traced program on these leaves (the typed leaves of the call in order): in a trace it is inlined, outside compiled
 * once and run. donated (may be NULL): by leaf. */
mf_value mf_traced_apply(mf_traced *t, mf_object *const *leaves, const bool *donated);
/* The arguments of f that are static, and those of the function inside it, which are f's too where it hands arguments on as they are;
 * NULL: none. */
const mf_ints *mf_function_statics(const mf_function_object *f);
const mf_ints *mf_inner_statics(const mf_function_object *f);
/* mf_decorate_n for a decorator that hands its arguments on as they are: what f takes as a static, the decorated function does. */
mf_function mf_decorate_alike(mf_function f, const char *name, mf_decorator call, const void *context, size_t size);
/* The signature of a call: arguments flattened, those of f's static_argnums set aside as statics; its leaves are in the room. An error
 * names the argument. */
mf_error_object *mf_signature_make(mf_signature *s, mf_leaves *room, const mf_function_object *f, const mf_value *arguments, int count);
/* Likewise, where the arguments serve for their types alone: structs may stand for arrays. */
mf_error_object *mf_signature_of_types(mf_signature *s, mf_leaves *room, const mf_function_object *f, const mf_value *arguments, int count);
/* An error where a static of f has come through a transform around it, which traced it. NULL: none. */
mf_error_object *mf_signature_known(const mf_signature *s, const mf_function_object *f);
/* By typed leaf: whether f's donate_argnums name its argument. */
mf_error_object *mf_signature_donated(const mf_signature *s, const mf_function_object *f, bool *donated);

#endif
