/* A segment under construction: its variables, and the units - fused groups and steps - that make them (make_steps.c).
 * Invariants: an error sticks in b->error, and what follows does nothing; whoever adds a step says which variables it reads and makes, from
 * which the order of the units follows (buffer_assignment.c). */
#ifndef MF_BACKEND_NATIVE_SEGMENT_BUILD_H
#define MF_BACKEND_NATIVE_SEGMENT_BUILD_H

#include "backend/native/fusion/group.h"
#include "backend/native/step.h"
#include "base/memory/vector.h"

typedef enum mf_var_kind {
    MF_VAR_MEMORY, /* an operand, a constant, or a step's result */
    MF_VAR_VIEW,   /* lies in `root`'s memory as `layout` says; nothing has been made for it */
    MF_VAR_IOTA,   /* likewise, but the elements are the offsets of `layout` themselves */
    MF_VAR_NODE,   /* computed in a group; stored only when somebody asks */
} mf_var_kind;

typedef struct mf_var_state {
    mf_var_kind kind;
    int root;
    mf_layout layout; /* view, iota */
    int unit;         /* memory, node: who makes it; -1: an input or constant */
    int node;         /* in its unit's group, also once it is stored; or -1 */
    int reader;       /* one plus the last group that reads it, 0: none */
    int alias;        /* memory: begins `alias_bytes` into this variable's memory, or -1 */
    int64_t alias_bytes;
    const mf_eqn *only_reader; /* NULL: none, several, or a result of the program */
    int after;                 /* a barrier's unit that who reads it has to wait for, or -1 */
} mf_var_state;

typedef struct mf_unit {
    mf_group *group;      /* or */
    mf_native_step *step; /* what `in` and `out` name are variables until buffer_assignment.c numbers the values */
    bool dead;            /* merged into another */
    bool barrier;         /* only there to be depended on */
} mf_unit;

typedef struct mf_build {
    const mf_program *program;
    mf_arena *arena;    /* of the kernel */
    int fixed;          /* so many inputs, the first ones, are the same in all rounds of the loop whose body this is */
    mf_var_state *vars; /* by variable; then one for each result that is a copy, and those of `own` */
    mf_variable **own;  /* what steps hand to each other that is no variable of the program */
    int own_count, own_most;
    int unit_count, unit_capacity, dep_capacity;
    mf_unit *units;
    size_t words;                   /* of a row of `depends` */
    uint64_t *depends;              /* unit by unit: on which units it depends, also through others */
    MF_VECTOR(int) after;           /* barriers that the equation at hand waits for */
    struct mf_native_kernel *inner; /* kernels that steps run */
    struct mf_cleanup *cleanups;
    mf_error_object *error;
} mf_build;

/* What the kernel's steps use beside its arena is released with the kernel. */
typedef struct mf_cleanup {
    struct mf_cleanup *next;
    void (*release)(void *object);
    void *object;
} mf_cleanup;
bool mf_build_hold(mf_build *b, void (*release)(void *object), const void *object); /* false: b->error, and it is released */
void *mf_build_get(mf_build *b, size_t count, size_t size); /* zeroed, from the arena; NULL and an error when memory is out */
/* The variable's elements will be in memory, row by row. False: out of memory. */
bool mf_build_materialise(mf_build *b, mf_variable *v);
/* Where a variable's elements can be read: in root's memory (materialised by this call) with this layout. */
bool mf_build_read(mf_build *b, mf_variable *v, mf_variable **root, mf_layout *layout);
/* Appends a step for e (NULL is passed through as an error). It reads in[] and makes out[] (memory of their own). */
bool mf_build_step(mf_build *b, mf_native_step *s, mf_variable *const *in, int in_count, mf_variable *const *out, int out_count);
/* A variable for what two steps know of each other; its producer is the equation whose step makes it. At most one for each
 * select_and_scatter_add. */
mf_variable *mf_build_own(mf_build *b, const mf_type *t, mf_eqn *producer);
const mf_type *mf_build_type(const mf_build *b, int var);
/* A step of `size` bytes that starts like mf_native_step. */
void *mf_step_new(mf_build *b, size_t size, const mf_eqn *e);
int mf_unit_new(mf_build *b);
void mf_unit_depend(mf_build *b, int unit, int on);
static inline bool mf_unit_depends(const mf_build *b, int unit, int on)
{
    return b->depends ? b->depends[(size_t)unit * b->words + (size_t)on / 64] >> (on % 64) & 1 : on < unit;
}

/* Steps with kernels of their own: true when made (or failed: b->error), false when not theirs. */
bool mf_build_dot(mf_build *b, const mf_eqn *e);
bool mf_build_integer_dot(mf_build *b, const mf_eqn *e);
bool mf_build_conv(mf_build *b, const mf_eqn *e);
bool mf_build_pool(mf_build *b, const mf_eqn *e);
bool mf_build_window(mf_build *b, const mf_eqn *e);
/* A window reaches so far beyond the operand that nothing but the op's own evaluation, which keeps to what is inside, ends in time. */
bool mf_window_reaches_far(const mf_eqn *e, const mf_type *operand);
bool mf_build_reduce(mf_build *b, const mf_eqn *e);
bool mf_build_cut(mf_build *b, const mf_eqn *e);
bool mf_build_index(mf_build *b, const mf_eqn *e);
bool mf_build_line(mf_build *b, const mf_eqn *e);
bool mf_build_sort(mf_build *b, const mf_eqn *e);
bool mf_build_top_k(mf_build *b, const mf_eqn *e);
bool mf_build_loop(mf_build *b, const mf_eqn *e);
void mf_build_evaluate(mf_build *b, const mf_eqn *e);
void mf_build_program(mf_build *b); /* all equations, then the program's outputs are in memory */

/* The units on stderr, one a line: what MF_DUMP=fuse asks for (dump.c). */
void mf_native_dump(const mf_build *b);

/* A kernel for a step of b, which owns it; the first `fixed` inputs are the same in all runs of a loop over it. NULL: b->error. */
struct mf_native_kernel *mf_native_compile_inner(mf_build *b, const mf_program *p, int fixed);
void mf_native_drop_inner(mf_build *b); /* the newest, which no step runs */

#endif
