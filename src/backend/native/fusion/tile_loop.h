/* A fused loop as a step, and how it runs by tile kernels: blocks of at most MF_TILE elements go through all nodes, one block at a time. */
#ifndef MF_BACKEND_NATIVE_FUSION_TILE_LOOP_H
#define MF_BACKEND_NATIVE_FUSION_TILE_LOOP_H

#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"

/* Where a node's block is while it is computed. */
typedef enum mf_tile_place { MF_TILE_NONE, MF_TILE_MEMORY, MF_TILE_BUFFER, MF_TILE_RESULT, MF_TILE_SAME } mf_tile_place;

typedef struct mf_tile_node {
    mf_tile_place place;
    int buffer;      /* MF_TILE_BUFFER: its number; MF_TILE_SAME: the node whose block it shares */
    int out;         /* the step's result in which it is stored, or -1 */
    mf_tile_fn *run; /* NULL: a load or a constant */
    int in_count, in[3];
    bool fixed; /* the same in every block: filled once */
    int size;   /* of an element */
} mf_tile_node;

typedef struct mf_fused_loop {
    mf_native_step step;
    mf_group_plan plan;
    mf_group group; /* only the nodes that are needed, in the arena */
    mf_tile_node *tiles;
    int64_t tile;                    /* elements of a block */
    size_t buffer_bytes, task_bytes; /* scratch: of a buffer; of a task */
    int64_t tasks, elements_a_task;  /* when running by tiles */
    bool soon;                       /* a compiled loop is certain to come soon */
    int64_t rows, rows_a_task;       /* when running by compiled loops */
    double loop_cost;
    void (*parallel)(int64_t count, void (*fn)(void *context, int64_t index), void *context);
} mf_fused_loop;

/* Whether the node walks over memory, or over indices, by its layout. */
static inline bool mf_node_walks(const mf_node *x) { return x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA; }

/* Finds a kernel and a place for each node: sets s->tiles, s->tile and the sizes of scratch. False: b->error. */
bool mf_tiles_make(mf_build *b, mf_fused_loop *s);
/* Runs elements [from, to) in a task's memory. */
void mf_tiles_run(const mf_fused_loop *s, void *const *values, char *buffers, int64_t from, int64_t to);
mf_error_object *mf_tiles_run_all(const mf_native_step *step, void *const *values, char *scratch); /* in s->tasks tasks */

#endif
