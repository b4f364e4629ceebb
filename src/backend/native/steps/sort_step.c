/* sort and top_k as steps: lines are made contiguous if they are not, the keys determine each line's order, and the operands follow it.
 * Invariant: the order is total (stable, NaN last), so neither the division into tasks nor the kernel's algorithm affects a result. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

enum { MOST_OPERANDS = 16, TASKS = 16, TASKS_FROM = 1 << 13 };

typedef struct sort_step {
    mf_native_step step;
    int64_t outer, n, inner, lines, lines_a_task;
    int keys;
    mf_dtype dtype[MOST_OPERANDS];
    size_t task_workspace, contiguous_bytes; /* bytes: of a task's working memory; of all operands together, made contiguous */
} sort_step;

typedef struct sort_task {
    const sort_step *s;
    const char *in[MOST_OPERANDS];
    char *out[MOST_OPERANDS], *workspace;
} sort_task;

#define FOLLOW(size)                \
    for (int64_t i = 0; i < n; i++) \
    memcpy(out + i * (size), in + (int64_t)order[i] * (size), size)

static void follow(int size, char *restrict out, const char *restrict in, const uint32_t *order, int64_t n)
{
    switch (size) {
    case 1: FOLLOW(1); break;
    case 2: FOLLOW(2); break;
    case 4: FOLLOW(4); break;
    case 8: FOLLOW(8); break;
    default: FOLLOW(16); break;
    }
}

static void sort_line(const sort_task *t, int64_t line, void *workspace)
{
    const sort_step *s = t->s;
    const char *in[MOST_OPERANDS];
    for (int k = 0; k < s->step.in_count; k++)
        in[k] = t->in[k] + line * s->n * mf_dtype_size(s->dtype[k]);
    if (s->step.in_count == 1 && mf_sort_values(s->dtype[0], in[0], t->out[0] + line * s->n * mf_dtype_size(s->dtype[0]), s->n, workspace))
        return;
    const uint32_t *order = mf_sort_order(s->dtype, s->keys, in, s->n, workspace);
    for (int k = 0; k < s->step.in_count; k++) {
        int size = mf_dtype_size(s->dtype[k]);
        follow(size, t->out[k] + line * s->n * size, in[k], order, s->n);
    }
}

static void run_task(void *context, int64_t index)
{
    const sort_task *t = context;
    int64_t first = index * t->s->lines_a_task, end = first + t->s->lines_a_task < t->s->lines ? first + t->s->lines_a_task : t->s->lines;
    for (int64_t i = first; i < end; i++)
        sort_line(t, i, t->workspace + (size_t)index * t->s->task_workspace);
}

/* Copies between outer × n × inner and outer × inner × n. */
static void turn(const sort_step *s, int size, char *out, const char *in, bool back)
{
    const int64_t n = s->n, inner = s->inner, dims[3] = { s->outer, back ? n : inner, back ? inner : n };
    const int64_t to[3] = { n * inner * size, dims[2] * size, size }, from[3] = { n * inner * size, size, dims[1] * size };
    mf_native_copy(3, dims, size, out, to, in, from);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const sort_step *s = (const sort_step *)(const void *)step;
    sort_task t = { .s = s };
    char *workspace = scratch + step->scratch_offset;
    for (int k = 0; k < step->in_count; k++) {
        int size = mf_dtype_size(s->dtype[k]);
        size_t bytes = ((size_t)(s->lines * s->n * size) + 63) / 64 * 64;
        t.in[k] = mf_step_in(step, values, k);
        t.out[k] = mf_step_out(step, values, k);
        if (s->inner == 1)
            continue;
        turn(s, size, workspace, t.in[k], false);
        t.in[k] = workspace;
        t.out[k] = workspace + s->contiguous_bytes;
        workspace += bytes;
    }
    t.workspace = s->inner == 1 ? workspace : workspace + s->contiguous_bytes;
    int64_t tasks = (s->lines + s->lines_a_task - 1) / s->lines_a_task;
    mf_parallel_for(tasks, run_task, &t);
    for (int k = 0; k < step->in_count && s->inner > 1; k++)
        turn(s, mf_dtype_size(s->dtype[k]), mf_step_out(step, values, k), t.out[k], true);
    return NULL;
}

static int64_t lines_a_task(int64_t elements, int64_t lines)
{
    int64_t tasks = elements < TASKS_FROM ? 1 : lines < TASKS ? lines : TASKS;
    return (lines + tasks - 1) / tasks;
}

static size_t task_workspace(const mf_dtype *key, int keys, int64_t n) { return (mf_sort_workspace_bytes(key, keys, n) + 63) / 64 * 64; }

bool mf_build_sort(mf_build *b, const mf_eqn *e)
{
    const mf_sort_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    if (e->op != &mf_op_sort || e->in_count > MOST_OPERANDS || t->size >= UINT32_MAX)
        return false;
    for (int k = 0; k < p->keys; k++)
        if (mf_dtype_is_complex(e->in[k]->type->dtype))
            return false;
    sort_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    s->outer = s->inner = 1;
    for (int i = 0; i < t->rank; i++)
        *(i < p->axis ? &s->outer : i > p->axis ? &s->inner : &s->n) = (i == p->axis ? 1 : i < p->axis ? s->outer : s->inner) * t->dims[i];
    s->lines = s->outer * s->inner;
    s->keys = (int)p->keys;
    s->lines_a_task = lines_a_task(t->size, s->lines);
    for (int k = 0; k < e->in_count; k++) {
        s->dtype[k] = e->in[k]->type->dtype;
        s->contiguous_bytes += s->inner > 1 ? ((size_t)e->in[k]->type->bytes + 63) / 64 * 64 : 0;
    }
    s->task_workspace = task_workspace(s->dtype, s->keys, s->n);
    s->step.scratch_bytes = 2 * s->contiguous_bytes + (size_t)((s->lines + s->lines_a_task - 1) / s->lines_a_task) * s->task_workspace;
    s->step.run = run;
    s->step.cost = 20 + (double)t->size * 8;
    mf_build_step(b, &s->step, e->in, e->in_count, e->out, e->in_count);
    return true;
}

/* ------------------------------------------------------------------ top_k */

typedef struct top_k_step {
    mf_native_step step;
    int64_t lines, n, k, lines_a_task;
    mf_dtype dtype;
    size_t task_workspace; /* bytes */
} top_k_step;

typedef struct top_k_task {
    const top_k_step *s;
    const char *in;
    char *values, *workspace;
    int32_t *positions;
} top_k_task;

static void run_top_k_task(void *context, int64_t index)
{
    const top_k_task *t = context;
    const top_k_step *s = t->s;
    int64_t first = index * s->lines_a_task, end = first + s->lines_a_task < s->lines ? first + s->lines_a_task : s->lines;
    int size = mf_dtype_size(s->dtype);
    for (int64_t i = first; i < end; i++)
        mf_top_k_line(s->dtype, t->in + i * s->n * size, s->n, s->k, t->values + i * s->k * size, t->positions + i * s->k,
                      t->workspace + (size_t)index * s->task_workspace);
}

static mf_error_object *run_top_k(const mf_native_step *step, void *const *values, char *scratch)
{
    const top_k_step *s = (const top_k_step *)(const void *)step;
    top_k_task t = { s, mf_step_in(step, values, 0), mf_step_out(step, values, 0), scratch + step->scratch_offset,
                     (int32_t *)(void *)mf_step_out(step, values, 1) };
    mf_parallel_for((s->lines + s->lines_a_task - 1) / s->lines_a_task, run_top_k_task, &t);
    return NULL;
}

bool mf_build_top_k(mf_build *b, const mf_eqn *e)
{
    const mf_type *t = e->in[0]->type;
    if (e->op != &mf_op_top_k || t->size >= UINT32_MAX)
        return false;
    top_k_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    s->k = ((const mf_top_k_params *)e->params)->k;
    s->n = t->dims[t->rank - 1];
    s->lines = t->size / s->n;
    s->dtype = t->dtype;
    s->lines_a_task = lines_a_task(t->size, s->lines);
    s->task_workspace = task_workspace(&s->dtype, 1, s->n);
    s->step.scratch_bytes = (size_t)((s->lines + s->lines_a_task - 1) / s->lines_a_task) * s->task_workspace;
    s->step.run = run_top_k;
    s->step.cost = 20 + (double)t->size;
    mf_build_step(b, &s->step, e->in, 1, e->out, 2);
    return true;
}
