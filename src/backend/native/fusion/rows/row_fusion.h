/* Row fusion: joins steps over the same rows, so that what they hand to each other stays in the cache (row_fusion.c). */
#ifndef MF_BACKEND_NATIVE_FUSION_ROWS_ROW_FUSION_H
#define MF_BACKEND_NATIVE_FUSION_ROWS_ROW_FUSION_H

#include "backend/native/segment_build.h"

typedef struct mf_steps {
    int count, var_count;
    mf_native_step **at;  /* in an order in which they can run; operands and results are variables */
    int *unit;            /* by step; -1: none */
    int *barriers;        /* by step: number of barriers before it */
    const int *root;      /* by variable: the variable in whose memory it is */
    const int64_t *shift; /* by variable: bytes from the beginning of that */
    const int64_t *bytes; /* by variable */
    const bool *kept;     /* by variable: a root that is read afterwards */
} mf_steps;
void mf_rows_join(mf_build *b, mf_steps *steps);
/* When steps are joined: where it pays, wherever possible, or never. Set by tests, before compiling. */
typedef enum mf_rows_use { MF_ROWS_WHERE_IT_PAYS, MF_ROWS_ALWAYS, MF_ROWS_NEVER } mf_rows_use;
extern mf_rows_use mf_native_rows_use;

/* The plan of joined steps as one graph over a row (row_fusion_plan.c). Row nodes have one value per row (reductions, and what is
 * computed from them); the others have one for each column. A row is processed in phases: what needs a reduction's result is in a later
 * phase. */
typedef struct mf_rows_node {
    bool row, reduces; /* row: one value per row. A reduction is a row node with one operand */
    mf_reducer fold;
    int phase;
    int load, store;                           /* values, or -1 */
    int64_t offset, row_stride, column_stride; /* of loads and iotas, in elements */
    int buffer;                                /* offset in a row's buffers, in bytes, if it is kept for later phases; or -1 */
} mf_rows_node;

typedef struct mf_rows_plan {
    mf_group group;
    mf_rows_node *nodes; /* by node of the group */
    int64_t rows, columns;
    int phases, value_count;
    int at_once;         /* rows that go through a phase before the next phase begins; a power of two */
    size_t buffer_bytes; /* per row */
} mf_rows_plan;
/* The plan of steps whose operands and results are numbers below value_count; those `outside` are in memory. NULL: the steps are not of
 * this form, there is no loop for them, or b->error. */
mf_rows_plan *mf_rows_plan_make(mf_build *b, mf_native_step *const *parts, int part_count, int64_t rows, int value_count,
                                const bool *outside);
bool mf_rows_keeps(const mf_rows_plan *plan, int node, int phase); /* it was computed before that phase, and is read from memory there */

#endif
