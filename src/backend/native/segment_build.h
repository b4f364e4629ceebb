/* A segment under construction: its variables, and the units (fused groups and steps) that make them (make_steps.c).
 * Invariants: the first error sticks in b->error, and what follows does nothing; a step is added with the variables that it reads and
 * makes, which determine the order of the units (buffer_assignment.c). */
#ifndef MF_BACKEND_NATIVE_SEGMENT_BUILD_H
#define MF_BACKEND_NATIVE_SEGMENT_BUILD_H

#include "backend/native/fusion/group.h"
#include "backend/native/step.h"
#include "base/memory/vector.h"

typedef enum mf_var_kind {
    MF_VAR_MEMORY, /* an operand, a constant, or a step's result */
    MF_VAR_VIEW,   /* lies in `root`'s memory with `layout`; nothing is computed for it */
    MF_VAR_IOTA,   /* the same, but the elements are the offsets of `layout` themselves */
    MF_VAR_NODE,   /* computed in a group; stored only on demand */
} mf_var_kind;

typedef struct mf_var_state {
    mf_var_kind kind;
    int root;
    mf_layout layout; /* view, iota */
    int unit;         /* memory, node: the unit that makes it; -1: an input or constant */
    int node;         /* in its unit's group, even after it was stored; or -1 */
    int reader;       /* 1 + the last group that reads it; 0: none */
    int alias;        /* of memory: the variable in whose memory it lies, at `alias_bytes`; or -1 */
    int64_t alias_bytes;
    const mf_eqn *only_reader; /* NULL: none, several, or a result of the program */
    int after;                 /* a barrier's unit for which readers have to wait, or -1 */
} mf_var_state;

typedef struct mf_unit {
    mf_group *group;      /* or */
    mf_native_step *step; /* its `in` and `out` name variables until buffer_assignment.c numbers the values */
    bool dead;            /* merged into another */
    bool barrier;         /* has no work, only dependencies */
} mf_unit;

typedef struct mf_build {
    const mf_program *program;
    mf_arena *arena;    /* of the kernel */
    int fixed;          /* of a loop's body: the first so many inputs are the same in all rounds */
    mf_var_state *vars; /* by variable; then one for each result that is a copy, and those of `own` */
    mf_variable **own;  /* variables by which steps hand values to each other that are not the program's */
    int own_count, own_most;
    int unit_count, unit_capacity, dep_capacity;
    mf_unit *units;
    size_t words;                   /* of a row of `depends` */
    uint64_t *depends;              /* by unit: the units that it depends on, transitively closed */
    MF_VECTOR(int) after;           /* barriers for which the current equation waits */
    struct mf_native_kernel *inner; /* kernels that steps run */
    struct mf_cleanup *cleanups;
    mf_error_object *error;
} mf_build;

/* An object that a kernel's steps use, apart from its arena; it is released with the kernel. */
typedef struct mf_cleanup {
    struct mf_cleanup *next;
    void (*release)(void *object);
    void *object;
} mf_cleanup;
bool mf_build_hold(mf_build *b, void (*release)(void *object), const void *object); /* false: b->error, and the object is released */
void *mf_build_alloc(mf_build *b, size_t count, size_t size); /* zeroed, from the arena; NULL with b->error when memory is out */
/* Makes sure that the variable will be in memory, contiguous. False: out of memory. */
bool mf_build_materialise(mf_build *b, mf_variable *v);
/* Finds where a variable's elements can be read: in root's memory (which this call materialises) with this layout. */
bool mf_build_read(mf_build *b, mf_variable *v, mf_variable **root, mf_layout *layout);
/* Appends a step for e (s NULL: passes the error on). It reads in[] and makes out[], which get memory of their own. */
bool mf_build_step(mf_build *b, mf_native_step *s, mf_variable *const *in, int in_count, mf_variable *const *out, int out_count);
/* A variable that one step makes for another; `producer` is the equation of the step that makes it. At most one for each
 * select_and_scatter_add. */
mf_variable *mf_build_own(mf_build *b, const mf_type *t, mf_eqn *producer);
const mf_type *mf_build_type(const mf_build *b, int var);
/* A new step of `size` bytes, which begins with an mf_native_step. */
void *mf_step_new(mf_build *b, size_t size, const mf_eqn *e);
int mf_unit_new(mf_build *b);
void mf_unit_depend(mf_build *b, int unit, int on);
static inline bool mf_unit_depends(const mf_build *b, int unit, int on)
{
    return b->depends ? b->depends[(size_t)unit * b->words + (size_t)on / 64] >> (on % 64) & 1 : on < unit;
}

/* Steps with kernels of their own. True: made, or failed with b->error. False: the equation is of another kind. */
bool mf_build_dot(mf_build *b, const mf_eqn *e);
bool mf_build_integer_dot(mf_build *b, const mf_eqn *e);
bool mf_build_conv(mf_build *b, const mf_eqn *e);
bool mf_build_pool(mf_build *b, const mf_eqn *e);
bool mf_build_window(mf_build *b, const mf_eqn *e);
/* Whether windows reach so far beyond the operand that only the op's own evaluation, which visits elements inside only, ends in time. */
bool mf_window_reaches_far(const mf_eqn *e, const mf_type *operand);
bool mf_build_reduce(mf_build *b, const mf_eqn *e);
bool mf_build_cut(mf_build *b, const mf_eqn *e);
bool mf_build_index(mf_build *b, const mf_eqn *e);
bool mf_build_line(mf_build *b, const mf_eqn *e);
bool mf_build_sort(mf_build *b, const mf_eqn *e);
bool mf_build_top_k(mf_build *b, const mf_eqn *e);
bool mf_build_loop(mf_build *b, const mf_eqn *e);
void mf_build_evaluate(mf_build *b, const mf_eqn *e);
void mf_build_program(mf_build *b); /* all equations; materialises the program's outputs */

/* Prints the units on stderr, one per line, for MF_DUMP=fuse (dump.c). */
void mf_native_dump(const mf_build *b);

/* Compiles a kernel for a step of b, which owns the kernel. The first `fixed` inputs are the same in all rounds of a loop. NULL:
 * b->error. */
struct mf_native_kernel *mf_native_compile_inner(mf_build *b, const mf_program *p, int fixed);
void mf_native_drop_inner(mf_build *b); /* the newest one, which no step runs */

#endif
