/* A fused loop as a step, and how it runs by tile kernels: a block of at most MF_TILE elements at a time goes through all nodes. */
#ifndef MF_BACKEND_NATIVE_FUSION_TILE_LOOP_H
#define MF_BACKEND_NATIVE_FUSION_TILE_LOOP_H

#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"

/* Where a node's block lies while it is computed. */
typedef enum mf_tile_place { MF_TILE_NONE, MF_TILE_MEMORY, MF_TILE_BUFFER, MF_TILE_RESULT, MF_TILE_SAME } mf_tile_place;

typedef struct mf_tile_node {
    mf_tile_place place;
    int buffer;      /* MF_TILE_BUFFER: number; MF_TILE_SAME: the node whose block it is */
    int out;         /* the step's result that it is stored in, or -1 */
    mf_tile_fn *run; /* NULL: a load, a constant */
    int in_count, in[3];
    bool fixed; /* the same in every block: filled once */
    int size;   /* of an element */
} mf_tile_node;

typedef struct mf_fused_loop {
    mf_native_step step;
    mf_group_plan plan;
    mf_group group; /* the nodes that are needed, in the arena */
    mf_tile_node *tiles;
    int64_t tile;                    /* elements in a block */
    size_t buffer_bytes, task_bytes; /* of scratch: a buffer, a task's */
    int64_t tasks, elements_a_task;  /* by tiles */
    bool soon;                       /* it is sure to have a loop before long */
    int64_t rows, rows_a_task;       /* by loops */
    double loop_cost;
    void (*parallel)(int64_t count, void (*fn)(void *context, int64_t index), void *context);
} mf_fused_loop;

/* A node that goes over its memory, or over indices, as its layout says. */
static inline bool mf_node_walks(const mf_node *x) { return x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA; }

/* Finds a kernel and a place for each node: fills s->tiles, s->tile and the sizes of scratch. False: b->error. */
bool mf_tiles_make(mf_build *b, mf_fused_loop *s);
/* Elements [from, to), in a task's memory. */
void mf_tiles_run(const mf_fused_loop *s, void *const *values, char *buffers, int64_t from, int64_t to);
mf_error_object *mf_tiles_run_all(const mf_native_step *step, void *const *values, char *scratch); /* in s->tasks tasks */

#endif
