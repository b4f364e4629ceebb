/* Fused loops. A group is a straight line of primitive operations over n elements, which fuse.c and lower.c collect; fused_loop.c then
 * makes one step of it, which runs by tile kernels first and as machine code later (llvm/tier_up.h).
 * Invariant: operands come first among a group's nodes, and every node comes after its operands. */
#ifndef MF_BACKEND_NATIVE_FUSION_GROUP_H
#define MF_BACKEND_NATIVE_FUSION_GROUP_H

#include "backend/native/fusion/layout.h"

typedef struct mf_native_step mf_native_step;
typedef struct mf_build mf_build; /* segment_build.h */

typedef enum mf_graph_kind {
    MF_NODE_LOAD,
    MF_NODE_IOTA,
    MF_NODE_CONSTANT,
    MF_NODE_CALL,
    MF_NODE_SELECT,
    MF_NODE_CONVERT,
    MF_NODE_BITCAST
} mf_graph_kind;

/* Values have their stored dtype; f16 and bf16 are converted to f32 before arithmetic, and back after each equation. */
typedef struct mf_node {
    mf_graph_kind kind;
    mf_dtype dtype;
    const char *name; /* of a call: a name known to mf_tile_lookup; also comparisons */
    int weight;       /* of that name's row */
    int in_count, in[3];
    int64_t bits;       /* of a constant, in its dtype */
    int var;            /* load: the variable whose memory is read */
    mf_layout layout;   /* load, iota: over n elements with the shape layout.dims; an iota's element is its offset */
    int out_var;        /* the variable in whose memory it is stored, or -1 */
    int f32, f16, bf16; /* the node converted to these, or itself; -1: none so far */
    bool is_bf16;       /* f32: a value that bf16 can represent; conversion to bf16: from such a value, so nothing is rounded */
} mf_node;

typedef struct mf_group {
    int64_t n;
    bool complex;       /* complex numbers and their parts; never mixed with other groups, which can become loops */
    mf_factors factors; /* refine the shapes of all loads */
    int count, capacity;
    mf_node *nodes; /* operands first */
} mf_group;

/* Makes e part of a group (fuse.c). False: it cannot be, or memory is out (b->error). */
bool mf_fuse(mf_build *b, const mf_eqn *e);
void mf_fuse_copy(mf_build *b, mf_variable *v); /* stores a view or iota, by a group of one load */
/* Appends e's operations on these nodes (lower.c). Returns the result's node, or -1 if an operation has no kernel. */
int mf_lower(mf_build *b, mf_group *g, const mf_eqn *e, const int *in);
bool mf_touches_complex(const mf_eqn *e);                          /* in an operand or the result: its kernel has the op's own name */
int mf_node_append(mf_build *b, mf_group *g, const mf_node *node); /* -1: out of memory */

/* The step of a finished group (fused_loop.c). */
mf_native_step *mf_group_step(mf_build *b, mf_group *g);
bool mf_group_copies(const mf_native_step *s); /* a group's step that only moves elements */
/* Whether the group may overwrite the memory of `var` with a result: it reads there only the same elements at the same places. */
bool mf_group_in_place(const mf_group *g, int var, int out_dtype_size, const mf_program *p);

/* ---- finished groups */

typedef struct mf_load {
    int slot;       /* in step->in; -1: iota */
    int64_t offset; /* elements */
    int64_t strides[MF_FACTORS];
    bool flat, splat; /* flat: element i is at offset + i; splat: all are at offset */
} mf_load;

typedef struct mf_group_plan {
    const mf_group *group;
    int64_t n;
    int rank;
    int64_t dims[MF_FACTORS]; /* the factors, joined with neighbours where all loads allow it */
    mf_load *loads;           /* by node */
    int *out_slot;            /* by node: number in step->out, or -1 */
} mf_group_plan;

#endif
