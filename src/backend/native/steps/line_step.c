/* Steps along one axis: cumulative results, arg-extremes; and the random cipher, which is elementwise but has two results.
 * Invariant: tasks are whole lines, so their number does not affect a result. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"

#include <string.h>

enum { TASK_ELEMENTS = 1 << 15, TASKS_FROM = 1 << 17 };

/* outer × n × inner elements; a line is n of them. */
typedef struct line_step {
    mf_native_step step;
    mf_dtype dtype, index_dtype;
    mf_reducer how;
    int sign; /* of the extreme */
    int64_t outer, n, inner;
    bool backwards;
    int64_t each; /* per task: lines if inner is 1, else columns within one outer block */
} line_step;

typedef struct line_task {
    const line_step *s;
    const char *in;
    char *out;
} line_task;

static void plan_lines(line_step *s, const mf_type *t, int64_t axis)
{
    s->dtype = t->dtype;
    s->outer = s->inner = 1;
    s->n = t->dims[axis];
    for (int i = 0; i < t->rank; i++)
        *(i < axis ? &s->outer : &s->inner) *= i == axis ? 1 : t->dims[i];
    int64_t lines = s->inner == 1 ? s->outer : s->inner;
    s->each = TASK_ELEMENTS / (s->n + 1) + 1;
    s->each = s->inner == 1 ? (s->each + 7) / 8 * 8 : (s->each + 63) / 64 * 64;
    if (t->size < TASKS_FROM || s->each > lines)
        s->each = lines;
}

/* The lines of a task: [*first, *first + *count) of the outer block that it returns (of all, if inner is 1). */
static int64_t task_lines(const line_step *s, int64_t index, int64_t *first, int64_t *count)
{
    int64_t lines = s->inner == 1 ? s->outer : s->inner, tasks = (lines + s->each - 1) / s->each;
    *first = index % tasks * s->each;
    *count = lines - *first < s->each ? lines - *first : s->each;
    return s->inner == 1 ? 0 : index / tasks;
}

static void run_tasks(const line_step *s, void (*fn)(void *, int64_t), line_task *t)
{
    int64_t lines = s->inner == 1 ? s->outer : s->inner, tasks = (lines + s->each - 1) / s->each * (s->inner == 1 ? 1 : s->outer);
    if (tasks > 1 && s->outer * s->n * s->inner >= TASKS_FROM)
        mf_parallel_for(tasks, fn, t);
    else
        for (int64_t i = 0; i < tasks; i++)
            fn(t, i);
}

/* ------------------------------------------------------------------ cumulative results */

static void run_running_task(void *context, int64_t index)
{
    const line_task *t = context;
    const line_step *s = t->s;
    int64_t first, count, block = task_lines(s, index, &first, &count), size = mf_dtype_size(s->dtype);
    int64_t step = s->backwards ? -s->inner : s->inner, last = s->backwards ? (s->n - 1) * s->inner : 0;
    int64_t at = (block * s->n * s->inner + first * (s->inner == 1 ? s->n : 1) + last) * size;
    if (s->inner == 1)
        mf_running_lines(s->how, s->dtype, t->in + at, t->out + at, count, s->n, s->n, step);
    else
        mf_running_columns(s->how, s->dtype, t->in + at, t->out + at, count, s->n, step);
}

static mf_error_object *run_running(const mf_native_step *step, void *const *values, char *scratch)
{
    line_task t = { (const line_step *)(const void *)step, mf_step_in(step, values, 0), mf_step_out(step, values, 0) };
    (void)scratch;
    run_tasks(t.s, run_running_task, &t);
    return NULL;
}

static void build_running(mf_build *b, const mf_eqn *e, mf_reducer how)
{
    const mf_cum_params *p = e->params;
    line_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return;
    plan_lines(s, e->in[0]->type, p->axis);
    s->how = how;
    s->backwards = p->reverse;
    s->step.run = run_running;
    s->step.cost = 20 + (double)e->in[0]->type->size * 0.5;
    mf_build_step(b, &s->step, e->in, 1, e->out, 1);
}

/* ------------------------------------------------------------------ arg-extremes */

static void store_places(const line_step *s, char *out, const int64_t *at, int64_t n)
{
    int64_t size = mf_dtype_size(s->index_dtype);
    for (int64_t i = 0; i < n; i++)
        mf_store_i64(s->index_dtype, out + i * size, at[i]);
}

static void run_arg_task(void *context, int64_t index)
{
    const line_task *t = context;
    const line_step *s = t->s;
    int64_t first, count, block = task_lines(s, index, &first, &count), size = mf_dtype_size(s->dtype);
    int64_t to_size = mf_dtype_size(s->index_dtype), at[MF_ARG_COLUMNS];
    for (int64_t end = first + count, n; first < end; first += n) {
        n = end - first < MF_ARG_COLUMNS ? end - first : MF_ARG_COLUMNS;
        if (s->inner == 1)
            mf_arg_lines(s->sign, s->dtype, t->in + first * s->n * size, n, s->n, at);
        else
            mf_arg_columns(s->sign, s->dtype, t->in + (block * s->n * s->inner + first) * size, n, s->n, s->inner, at);
        store_places(s, t->out + (block * s->inner + first) * to_size, at, n);
    }
}

static mf_error_object *run_arg(const mf_native_step *step, void *const *values, char *scratch)
{
    line_task t = { (const line_step *)(const void *)step, mf_step_in(step, values, 0), mf_step_out(step, values, 0) };
    (void)scratch;
    run_tasks(t.s, run_arg_task, &t);
    return NULL;
}

static void build_arg(mf_build *b, const mf_eqn *e, int sign)
{
    const mf_arg_params *p = e->params;
    line_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return;
    plan_lines(s, e->in[0]->type, p->axis);
    s->sign = sign;
    s->index_dtype = p->index_dtype;
    s->step.run = run_arg;
    s->step.cost = 20 + (double)e->in[0]->type->size * 0.3;
    mf_build_step(b, &s->step, e->in, 1, e->out, 1);
}

/* ------------------------------------------------------------------ threefry */

enum { WORDS = 512, CIPHER_TASK = 1 << 14, CIPHER_TASKS_FROM = 1 << 15 };

typedef struct cipher_operand {
    bool one;      /* one word for all elements */
    bool counts;   /* word i is first + i * step, without memory */
    int64_t first; /* or where the words begin */
    int64_t step;
} cipher_operand;

typedef struct cipher_step {
    mf_native_step step;
    int64_t n;
    cipher_operand in[4];
} cipher_step;

typedef struct cipher_task {
    const cipher_step *s;
    void *const *values;
} cipher_task;

/* Words [at, at + n) of an operand, in `filled` if they are not in memory. */
static const uint32_t *words(const cipher_step *s, int k, void *const *values, int64_t at, int64_t n, uint32_t *filled)
{
    const cipher_operand *o = &s->in[k];
    const uint32_t *memory = (const uint32_t *)(const void *)mf_step_in(&s->step, values, k);
    if (!o->one && !o->counts)
        return memory + o->first + at;
    for (int64_t i = 0; i < n; i++)
        filled[i] = o->one ? memory[o->first] : (uint32_t)(o->first + (at + i) * o->step);
    return filled;
}

static void run_cipher_task(void *context, int64_t index)
{
    const cipher_task *t = context;
    const cipher_step *s = t->s;
    uint32_t filled[4][WORDS];
    uint32_t *y0 = (uint32_t *)(void *)mf_step_out(&s->step, t->values, 0), *y1 = (uint32_t *)(void *)mf_step_out(&s->step, t->values, 1);
    int64_t at = index * CIPHER_TASK, end = at + CIPHER_TASK < s->n ? at + CIPHER_TASK : s->n;
    bool one_key = s->in[0].one && s->in[1].one;
    for (int64_t n; at < end; at += n) {
        const uint32_t *in[4];
        n = end - at < WORDS ? end - at : WORDS;
        for (int k = 0; k < 4; k++)
            in[k] = words(s, k, t->values, at, k < 2 && one_key ? 1 : n, filled[k]);
        mf_threefry_words(in[0], in[1], one_key, in[2], in[3], y0 + at, y1 + at, n);
    }
}

static mf_error_object *run_cipher(const mf_native_step *step, void *const *values, char *scratch)
{
    cipher_task t = { (const cipher_step *)(const void *)step, values };
    int64_t tasks = (t.s->n + CIPHER_TASK - 1) / CIPHER_TASK;
    (void)scratch;
    if (t.s->n >= CIPHER_TASKS_FROM)
        mf_parallel_for(tasks, run_cipher_task, &t);
    else
        for (int64_t i = 0; i < tasks; i++)
            run_cipher_task(&t, i);
    return NULL;
}

/* Reads a view that repeats one word, or that counts, without materialising it. */
static mf_variable *read_words(mf_build *b, mf_variable *v, cipher_operand *o)
{
    const mf_var_state *s = &b->vars[v->id];
    const mf_layout *l = &s->layout;
    bool one = true;
    for (int i = 0; i < l->rank; i++)
        one &= l->strides[i] == 0 || l->dims[i] == 1;
    if (s->kind == MF_VAR_VIEW && (one || mf_layout_is_contiguous(l))) {
        *o = (cipher_operand){ .one = one && v->type->size > 1, .first = l->offset };
        return b->program->vars[s->root];
    }
    *o = (cipher_operand){ .one = v->type->size == 1 };
    return v;
}

static void build_cipher(mf_build *b, const mf_eqn *e)
{
    cipher_step *s = mf_step_new(b, sizeof *s, e);
    mf_variable *in[4];
    if (!s)
        return;
    s->n = e->out[0]->type->size;
    for (int k = 0; k < 4; k++)
        in[k] = read_words(b, e->in[k], &s->in[k]);
    s->step.run = run_cipher;
    s->step.cost = 20 + (double)s->n * 3;
    mf_build_step(b, &s->step, in, 4, e->out, 2);
}

bool mf_build_line(mf_build *b, const mf_eqn *e)
{
    if (e->op == &mf_op_threefry2x32) {
        build_cipher(b, e);
        return true;
    }
    if (e->in_count != 1 || !mf_line_knows(e->in[0]->type->dtype))
        return false;
    if (e->op->reduced == MF_REDUCED_PREFIXES) {
        build_running(b, e, e->op->reducer);
        return true;
    }
    if ((e->op != &mf_op_argmax && e->op != &mf_op_argmin) || e->in[0]->type->size > INT32_MAX)
        return false;
    build_arg(b, e, e->op == &mf_op_argmax ? 1 : -1);
    return true;
}
