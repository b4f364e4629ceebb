/* Sliding windows by the pooling kernels: dimensions before the first one with a window are the batch, dimensions behind the last one the
 * channels. If a program has a maximum and its gradient, the maximum stores the places of its maxima for the gradient: a byte per window,
 * in place of the operand, which then need not outlive the maximum.
 * Invariant: the batch is cut by shape alone; each image is computed by one kernel call. */
#include "backend/native/segment_build.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

enum { TASK_ELEMENTS = 1 << 18 };

typedef enum pool_kind { POOL_MAX, POOL_SUM, POOL_MAX_GRAD } pool_kind;

typedef struct pool_step {
    mf_native_step step;
    pool_kind kind;
    mf_dtype dtype;
    mf_pool pool;                /* of all images */
    bool places;                 /* a maximum stores the places of its maxima, and its gradient reads them in place of the operand */
    int64_t in_image, out_image; /* bytes of one image, in the operand and in the windows */
    int64_t images_a_task;
} pool_step;

static bool is_unpooled(const mf_window_params *p, int i)
{
    return p->window->at[i] == 1 && p->strides->at[i] == 1 && p->base_dilation->at[i] == 1 && p->padding_low->at[i] == 0 &&
           p->padding_high->at[i] == 0;
}

static bool describe(const mf_window_params *p, const mf_type *t, bool sum, mf_pool *pool)
{
    int first = 0, last = t->rank - 1;
    while (first < t->rank && is_unpooled(p, first))
        first++;
    while (last > first && is_unpooled(p, last))
        last--;
    if (first > last || last - first >= 3 || t->size == 0)
        return false;
    *pool = (mf_pool){ .spatial = last - first + 1, .batch = 1, .channels = 1 };
    for (int i = 0; i < t->rank; i++) {
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
        pool->base[i - first] = p->base_dilation->at[i];
        pool->pad_low[i - first] = p->padding_low->at[i];
        pool->pad_high[i - first] = p->padding_high->at[i];
        if (p->padding_low->at[i] < 0 || p->padding_high->at[i] < 0 || (!sum && p->base_dilation->at[i] != 1))
            return false;
    }
    return true;
}

static void run_images(const pool_step *s, void *const *values, int64_t from, int64_t to)
{
    const mf_native_step *step = &s->step;
    int64_t x = from * s->in_image, y = from * s->out_image, at = y / mf_dtype_size(s->dtype);
    char *out = mf_step_out(step, values, 0);
    mf_pool pool = s->pool;
    pool.batch = to - from;
    if (s->kind == POOL_MAX)
        mf_pool_max(s->dtype, &pool, mf_step_in(step, values, 0) + x, out + y,
                    s->places ? (uint8_t *)mf_step_out(step, values, 1) + at : NULL);
    else if (s->kind == POOL_SUM)
        mf_pool_sum(s->dtype, &pool, mf_step_in(step, values, 0) + x, out + y);
    else if (s->places)
        mf_pool_max_grad(s->dtype, &pool, NULL, (const uint8_t *)mf_step_in(step, values, 1) + at, mf_step_in(step, values, 0) + y,
                         out + x);
    else
        mf_pool_max_grad(s->dtype, &pool, mf_step_in(step, values, 1) + x, NULL, mf_step_in(step, values, 0) + y, out + x);
}

/* ------------------------------------------------------------------ by rows: a row is some images */

static const pool_step *of(const mf_native_step *step) { return (const pool_step *)(const void *)step; }
static bool can_part(const mf_native_step *step, int64_t rows) { return of(step)->pool.batch % rows == 0; }

static bool reads_own_row(const mf_native_step *step, int k, int64_t rows, int64_t elements)
{
    (void)rows;
    return elements == (of(step)->places && k ? step->eqn->in[0] : step->eqn->in[k])->type->size; /* one place per window */
}

static bool run_part(const mf_native_step *step, void *const *values, char *scratch, int64_t rows, int64_t from, int64_t to)
{
    const pool_step *s = of(step);
    int64_t each = s->pool.batch / rows;
    (void)scratch;
    run_images(s, values, from * each, to * each);
    return true;
}

static const mf_row_parts parts = { .can = can_part, .inside = reads_own_row, .run = run_part };

/* ------------------------------------------------------------------ as a whole */

typedef struct pool_task {
    const pool_step *s;
    void *const *values;
} pool_task;

static void run_task(void *context, int64_t index)
{
    const pool_task *t = context;
    int64_t from = index * t->s->images_a_task, left = t->s->pool.batch - from;
    run_images(t->s, t->values, from, left < t->s->images_a_task ? from + left : from + t->s->images_a_task);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const pool_step *s = of(step);
    pool_task t = { s, values };
    int64_t tasks = (s->pool.batch + s->images_a_task - 1) / s->images_a_task;
    (void)scratch;
    mf_parallel_for(tasks, run_task, &t);
    return NULL;
}

/* ------------------------------------------------------------------ a maximum and its gradient */

static bool is_gradient_of(const mf_eqn *gradient, const mf_eqn *e)
{
    return gradient->op == &mf_op_select_and_scatter_add && gradient->in[1] == e->in[0] &&
           mf_params_equal(e->op, gradient->params, e->params);
}

/* The variable for the places of maximum e, if the program has its gradient too. */
static mf_variable *new_places(mf_build *b, const mf_eqn *e, const mf_pool *pool)
{
    int64_t places = 1;
    for (int i = 0; i < pool->spatial; i++)
        places *= pool->window[i];
    for (int i = 0; i < b->program->eqn_count && places <= MF_POOL_PLACES; i++)
        if (is_gradient_of(b->program->eqns[i], e))
            return mf_build_own(b, mf_type_with_dtype(e->out[0]->type, MF_U8), e->out[0]->producer);
    return NULL;
}

/* The places that the step of e's maximum writes, or NULL. */
static mf_variable *find_places(const mf_build *b, const mf_eqn *e)
{
    for (int i = 0; i < b->own_count; i++)
        if (is_gradient_of(e, b->own[i]->producer))
            return b->own[i];
    return NULL;
}

bool mf_build_pool(mf_build *b, const mf_eqn *e)
{
    bool gradient = e->op == &mf_op_select_and_scatter_add, window = e->op->reduced == MF_REDUCED_WINDOWS;
    bool max = window && e->op->reducer == MF_REDUCE_MAX, sum = window && e->op->reducer == MF_REDUCE_SUM;
    if (!gradient && !max && !sum)
        return false;
    const mf_type *t = e->in[gradient]->type;
    mf_pool pool;
    if (!mf_dtype_is_float(t->dtype) || mf_window_reaches_far(e, t) || !describe(e->params, t, sum, &pool))
        return false;
    pool_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    s->kind = gradient ? POOL_MAX_GRAD : max ? POOL_MAX : POOL_SUM;
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
    mf_variable *in[2] = { e->in[0], gradient ? e->in[1] : NULL }, *out[2] = { e->out[0], NULL };
    mf_variable *places = gradient ? find_places(b, e) : s->kind == POOL_MAX ? new_places(b, e, &pool) : NULL;
    if (places)
        (gradient ? in : out)[1] = places;
    s->places = places != NULL;
    mf_build_step(b, &s->step, in, e->in_count, out, 1 + (places && !gradient));
    return true;
}
