/* Sliding windows by the pooling kernels: dimensions before the first with a window are the batch, those behind the last the channels.
 * Invariant: the batch is cut by shape alone; every image is one kernel call's own. */
#include "backend/native/native.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

enum { TASK_ELEMENTS = 1 << 18 };

typedef enum pool_kind { POOL_MAX, POOL_SUM, POOL_MAX_GRAD } pool_kind;

typedef struct pool_step {
    mf_native_step step;
    pool_kind kind;
    mf_dtype dtype;
    mf_pool pool;                /* of all images */
    int64_t in_image, out_image; /* bytes of one, operand and windows */
    int64_t images_a_task;
} pool_step;

static bool is_still(const mf_window_params *p, int i)
{
    return p->window->at[i] == 1 && p->strides->at[i] == 1 && p->padding_low->at[i] == 0 && p->padding_high->at[i] == 0;
}

static bool describe(const mf_window_params *p, const mf_type *t, mf_pool *pool)
{
    int first = 0, last = t->rank - 1;
    while (first < t->rank && is_still(p, first))
        first++;
    while (last > first && is_still(p, last))
        last--;
    if (first > last || last - first >= 3 || t->size == 0)
        return false;
    *pool = (mf_pool){ .spatial = last - first + 1, .batch = 1, .channels = 1 };
    for (int i = 0; i < t->rank; i++) {
        if (p->base_dilation->at[i] != 1)
            return false;
        if (i < first)
            pool->batch *= t->dims[i];
        if (i > last)
            pool->channels *= t->dims[i];
        if (i < first || i > last)
            continue;
        pool->in[i - first] = t->dims[i];
        pool->window[i - first] = p->window->at[i];
        pool->stride[i - first] = p->strides->at[i];
        pool->dilation[i - first] = p->window_dilation->at[i];
        pool->pad_low[i - first] = p->padding_low->at[i];
        pool->pad_high[i - first] = p->padding_high->at[i];
        if (p->padding_low->at[i] < 0 || p->padding_high->at[i] < 0)
            return false;
    }
    return true;
}

/* Images [from, to). */
static void run_images(const pool_step *s, const char *x, const char *dy, char *out, int64_t from, int64_t to)
{
    mf_pool pool = s->pool;
    pool.batch = to - from;
    if (s->kind == POOL_MAX)
        mf_pool_max(s->dtype, &pool, x + from * s->in_image, out + from * s->out_image);
    else if (s->kind == POOL_SUM)
        mf_pool_sum(s->dtype, &pool, x + from * s->in_image, out + from * s->out_image);
    else
        mf_pool_max_grad(s->dtype, &pool, x + from * s->in_image, dy + from * s->out_image, out + from * s->in_image);
}

/* ------------------------------------------------------------------ by rows: some images */

static const pool_step *of(const mf_native_step *step) { return (const pool_step *)(const void *)step; }
static int64_t any_rows(const mf_native_step *step) { return (void)step, 0; }
static bool can_part(const mf_native_step *step, int64_t rows) { return of(step)->pool.batch % rows == 0; }

static bool reads_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    (void)rows;
    return elements == step->eqn->in[k]->type->size;
}

static bool run_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const pool_step *s = of(step);
    bool gradient = s->kind == POOL_MAX_GRAD;
    int64_t each = s->pool.batch / rows;
    (void)scratch;
    run_images(s, mf_step_in(step, values, gradient), gradient ? mf_step_in(step, values, 0) : NULL, mf_step_out(step, values, 0),
               from * each, to * each);
    return true;
}

static const mf_row_parts parts = { .rows = any_rows, .can = can_part, .inside = reads_own_row, .run = run_part };

/* ------------------------------------------------------------------ as a whole */

typedef struct pool_task {
    const pool_step *s;
    const char *x, *dy;
    char *out;
} pool_task;

static void run_task(void *context, int64_t index)
{
    const pool_task *t = context;
    int64_t from = index * t->s->images_a_task, left = t->s->pool.batch - from;
    run_images(t->s, t->x, t->dy, t->out, from, left < t->s->images_a_task ? from + left : from + t->s->images_a_task);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const pool_step *s = of(step);
    bool gradient = s->kind == POOL_MAX_GRAD;
    pool_task t = { s, mf_step_in(step, values, gradient), gradient ? mf_step_in(step, values, 0) : NULL, mf_step_out(step, values, 0) };
    int64_t tasks = (s->pool.batch + s->images_a_task - 1) / s->images_a_task;
    (void)scratch;
    mf_native_parallel(tasks, run_task, &t);
    return NULL;
}

bool mf_build_pool(mf_build *b, const mf_eqn *e)
{
    bool gradient = e->op == &mf_op_select_and_scatter_add;
    if (!gradient && e->op != &mf_op_reduce_window_max && e->op != &mf_op_reduce_window_sum)
        return false;
    const mf_type *t = e->in[gradient]->type;
    mf_pool pool;
    if (!mf_dtype_is_float(t->dtype) || !describe(e->params, t, &pool))
        return false;
    pool_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    s->kind = gradient ? POOL_MAX_GRAD : e->op == &mf_op_reduce_window_max ? POOL_MAX : POOL_SUM;
    s->dtype = t->dtype;
    s->pool = pool;
    s->in_image = t->bytes / pool.batch;
    s->out_image = (gradient ? e->in[0] : e->out[0])->type->bytes / pool.batch;
    int64_t image = t->size / pool.batch;
    s->images_a_task = image >= TASK_ELEMENTS ? 1 : (TASK_ELEMENTS + image - 1) / image;
    if (t->size < 4 * TASK_ELEMENTS)
        s->images_a_task = pool.batch;
    s->step.run = run;
    s->step.parts = &parts;
    s->step.cost = 30 + (double)t->size * (gradient ? 1.0 : 0.3);
    mf_build_step(b, &s->step, e->in, e->in_count, e->out, 1);
    return true;
}
