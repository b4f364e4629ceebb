/* Row fusion: joins steps over the same rows, so that what they hand on to each other stays in the cache (row_fusion.c says when). */
#ifndef MF_BACKEND_NATIVE_FUSION_ROWS_ROW_FUSION_H
#define MF_BACKEND_NATIVE_FUSION_ROWS_ROW_FUSION_H

#include "backend/native/segment_build.h"

typedef struct mf_steps {
    int count, var_count;
    mf_native_step **at;  /* in an order in which they can run; operands and results are variables */
    int *unit;            /* by step; -1: none */
    int *barriers;        /* by step: how many barriers stand before it */
    const int *root;      /* by variable: in whose memory it lies */
    const int64_t *shift; /* by variable: bytes from there */
    const int64_t *bytes; /* by variable */
    const bool *kept;     /* by variable: a root that somebody reads afterwards */
} mf_steps;
void mf_rows_join(mf_build *b, mf_steps *steps);
/* When steps are joined: where it pays, wherever it can be, or never. For tests; set before compiling. */
typedef enum mf_rows_use { MF_ROWS_WHERE_IT_PAYS, MF_ROWS_ALWAYS, MF_ROWS_NEVER } mf_rows_use;
extern mf_rows_use mf_native_rows_use;

/* The plan of joined steps as one graph over a row (row_fusion_plan.c). Nodes of a row have one value a row (what is reduced, and what
 * follows from it), the others one for each of its columns. A row is gone through in phases: what needs a reduction's result comes in a
 * phase behind it. */
typedef struct mf_rows_node {
    bool row, reduces; /* a reduction has one operand and is of the row */
    mf_reducer fold;
    int phase;
    int load, store;                           /* values, or -1 */
    int64_t offset, row_stride, column_stride; /* of loads and iotas, in elements */
    int buffer;                                /* bytes from the start of a row's buffers where it is kept for later phases, or -1 */
} mf_rows_node;

typedef struct mf_rows_plan {
    mf_group group;
    mf_rows_node *nodes; /* by node of the group */
    int64_t rows, columns;
    int phases, value_count;
    int at_once;         /* rows that go through a phase before the next phase begins; a power of two */
    size_t buffer_bytes; /* of a row */
} mf_rows_plan;
/* The plan of steps whose operands and results are numbers below value_count, of which those `outside` are in memory. NULL when they
 * are not of that form, when a loop of it has no text, or b->error. */
mf_rows_plan *mf_rows_plan_make(mf_build *b, mf_native_step *const *parts, int part_count, int64_t rows, int value_count,
                                const bool *outside);
bool mf_rows_keeps(const mf_rows_plan *plan, int node, int phase); /* in that phase it is read from memory: made before, and kept */

#endif
