/* The step of joined steps, which row_fusion.c plans and rows_step.c runs. */
#ifndef MF_BACKEND_NATIVE_FUSION_ROWS_ROWS_STEP_H
#define MF_BACKEND_NATIVE_FUSION_ROWS_ROWS_STEP_H

#include "backend/native/llvm/tier_up.h"

typedef struct mf_rows_value {
    int outside;    /* number of the operand, or of the result counted after the operands; -1: in the task's own memory */
    int same;       /* the value that takes over its memory, or -1 */
    bool taken;     /* it has taken over a value's memory, or may take over an operand's */
    bool kept;      /* prepared by a part, in the memory that all tasks share */
    int64_t bytes;  /* per row, if it is inside */
    int64_t period; /* number of rows that its memory holds */
    size_t at;
} mf_rows_value;

typedef struct mf_rows_step {
    mf_native_step step;
    int64_t rows, rows_a_block, rows_a_task, tasks;
    int part_count, value_count;
    bool gathers;           /* a part folds all rows */
    mf_native_step **parts; /* their operands and results are numbers in `values` */
    mf_rows_value *values;
    size_t shared_bytes, task_bytes;
    size_t buffers_at; /* in a task's memory: the buffers of the second tier, a loop for all parts */
} mf_rows_step;

/* The step folds all rows, so its result does not belong to a row. */
static inline bool mf_step_gathers(const mf_native_step *s) { return s->parts && s->parts->finish; }
/* A part takes rows in multiples of its unit, and gets those of one multiple of its span in order (mf_row_parts). */
static inline int64_t mf_rows_unit(const mf_rows_step *s, const mf_native_step *part)
{
    return part->parts->unit ? part->parts->unit(part, s->rows) : 1;
}
static inline int64_t mf_rows_span(const mf_rows_step *s, const mf_native_step *part)
{
    return part->parts->span ? part->parts->span(part, s->rows) : 1;
}

mf_error_object *mf_rows_step_run(const mf_native_step *step, void *const *values, char *scratch);

#endif
