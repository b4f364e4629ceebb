/* dot_general as matrix products: dimensions are joined to one batch, m, n and k wherever the operands' layouts allow (a transposed
 * operand is only other strides), else the operand is copied first. Small products run on our own kernel, large ones in oneDNN, cut
 * into tasks along m. A product that is only read transposed is written that way at once, with the operands swapped where that makes its
 * rows run on.
 * Invariant: which kernel runs, and how the work is cut, follows from shapes and dtypes alone. */
#include "backend/native/native.h"
#include "backend/native/kernels/dnnl.h"
#include "backend/native/kernels/kernels.h"

#include <string.h>

/* Multiply-adds from which oneDNN is worth its overhead, and those of a task. */
#define LARGE_PRODUCT 4e6
#define TASK_PRODUCT  3.2e7

typedef struct side {
    mf_variable *root;
    mf_layout layout;
    int64_t batch_dims[MF_DNNL_BATCH], batch[MF_DNNL_BATCH]; /* strides, in elements */
    int batch_rank;
    int64_t free, contract, free_stride, contract_stride;
    int copy_rank; /* 0: read where it lies; else copied first, batch, free and contracted dimensions in turn */
    int64_t copy_dims[MF_RANK], from[MF_RANK], to[MF_RANK]; /* bytes */
} side;

typedef struct dot_step {
    mf_native_step step;
    mf_dtype dtype; /* of the product; operands of another one are converted */
    side a, b;
    mf_gemm shape;
    int64_t batch_count, c_batch[MF_DNNL_BATCH]; /* strides, in elements */
    mf_dtype from, to;                           /* stored */
    int64_t a_bytes, b_bytes;                    /* of the converted operands in scratch, else 0 */
    const mf_dnnl_primitive *whole, *rest;       /* of a task; of the last one */
    int64_t rows_a_task, tasks;
    size_t task_scratch;
} dot_step;

/* ------------------------------------------------------------------ shapes */

/* These dimensions as one; false when the layout does not run through them evenly. */
static bool join(const mf_layout *l, const int64_t *axes, int count, int64_t *size, int64_t *stride)
{
    *size = 1;
    *stride = 1;
    bool any = false;
    for (int i = count - 1; i >= 0; i--) {
        int64_t d = l->dims[axes[i]], s = l->strides[axes[i]];
        if (d == 1)
            continue;
        if (any && s != *stride * *size)
            return false;
        if (!any)
            *stride = s;
        any = true;
        *size *= d;
    }
    return true;
}

static int free_axes(int rank, const mf_intlist *contract, const mf_intlist *batch, int64_t *out)
{
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (!mf_ints_has(contract, i) && !mf_ints_has(batch, i))
            out[n++] = i;
    return n;
}

static bool describe(side *s, const mf_intlist *contract, const mf_intlist *batch)
{
    int64_t axes[MF_RANK];
    int count = free_axes(s->layout.rank, contract, batch, axes);
    if (!join(&s->layout, axes, count, &s->free, &s->free_stride) ||
        !join(&s->layout, contract->at, contract->count, &s->contract, &s->contract_stride))
        return false;
    s->batch_rank = batch->count;
    for (int i = 0; i < batch->count; i++) {
        s->batch_dims[i] = s->layout.dims[batch->at[i]];
        s->batch[i] = s->layout.strides[batch->at[i]];
    }
    return true;
}

static void append(side *s, const int64_t *axes, int count, const mf_layout *l, int64_t size)
{
    for (int i = 0; i < count; i++) {
        s->copy_dims[s->copy_rank] = l->dims[axes[i]];
        s->from[s->copy_rank++] = l->strides[axes[i]] * size;
    }
}

/* Dimensions that do not join get a copy in which they do. */
static void plan_copy(side *s, const mf_type *t, const mf_intlist *contract, const mf_intlist *batch)
{
    int64_t axes[MF_RANK], size = mf_dtype_size(t->dtype), bytes = size;
    int count = free_axes(t->rank, contract, batch, axes);
    append(s, batch->at, batch->count, &s->layout, size);
    append(s, axes, count, &s->layout, size);
    append(s, contract->at, contract->count, &s->layout, size);
    for (int d = s->copy_rank - 1; d >= 0; d--) {
        s->to[d] = bytes;
        bytes *= s->copy_dims[d];
    }
    s->free = s->contract = 1;
    for (int i = 0; i < contract->count; i++)
        s->contract *= s->layout.dims[contract->at[i]];
    for (int i = 0; i < count; i++)
        s->free *= s->layout.dims[axes[i]];
    s->contract_stride = 1;
    s->free_stride = s->contract;
    s->batch_rank = batch->count;
    int64_t step = s->free * s->contract;
    for (int i = batch->count - 1; i >= 0; i--) {
        s->batch_dims[i] = s->layout.dims[batch->at[i]];
        s->batch[i] = step;
        step *= s->batch_dims[i];
    }
}

static bool read_side(mf_build *b, mf_variable *v, side *s, const mf_intlist *contract, const mf_intlist *batch)
{
    if (batch->count > MF_DNNL_BATCH)
        return false;
    const mf_var_state *state = &b->vars[v->id];
    if (state->kind == MF_VAR_VIEW) {
        s->layout = state->layout;
        s->root = b->program->vars[state->root];
        if (describe(s, contract, batch) && s->free_stride > 0 && s->contract_stride > 0)
            return mf_build_materialise(b, s->root);
    }
    s->root = v;
    mf_layout_contiguous(&s->layout, v->type);
    if (!describe(s, contract, batch))
        plan_copy(s, v->type, contract, batch);
    return mf_build_materialise(b, v);
}

/* ------------------------------------------------------------------ running */

typedef struct dot_task {
    const dot_step *s;
    const char *a, *b;
    char *out, *scratch;
} dot_task;

static void run_own(const dot_step *s, const char *a, const char *b, char *out)
{
    if (s->dtype == MF_F64)
        mf_gemm_f64(&s->shape, (const double *)(const void *)a, (const double *)(const void *)b, (double *)(void *)out);
    else
        mf_gemm_f32(&s->shape, (const float *)(const void *)a, (const float *)(const void *)b, (float *)(void *)out);
}

static void run_batches(const dot_step *s, const char *a, const char *b, char *out)
{
    int64_t index[MF_DNNL_BATCH] = { 0 }, size = mf_dtype_size(s->dtype);
    for (int64_t g = 0; g < s->batch_count; g++) {
        int64_t at = 0, bt = 0, ct = 0;
        for (int i = 0; i < s->a.batch_rank; i++) {
            at += index[i] * s->a.batch[i];
            bt += index[i] * s->b.batch[i];
            ct += index[i] * s->c_batch[i];
        }
        run_own(s, a + at * size, b + bt * size, out + ct * size);
        for (int i = s->a.batch_rank - 1; i >= 0 && ++index[i] == s->a.batch_dims[i]; i--)
            index[i] = 0;
    }
}

static void run_task(void *context, int64_t index)
{
    const dot_task *t = context;
    const dot_step *s = t->s;
    int64_t size = mf_dtype_size(s->dtype), first = index * s->rows_a_task;
    const mf_dnnl_primitive *p = index == s->tasks - 1 && s->rest ? s->rest : s->whole;
    mf_dnnl_run(p, t->a + first * s->shape.a[0] * size, t->b, t->out + first * s->shape.c[0] * size,
                t->scratch + (size_t)index * s->task_scratch);
}

static size_t aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

/* The operand as the product takes it; room moves on behind what had to be written. */
static const char *prepared(const dot_step *s, const side *x, const char *in, char **room)
{
    const mf_type *t = x->root->type;
    if (x->copy_rank) {
        mf_native_copy(x->copy_rank, x->copy_dims, mf_dtype_size(t->dtype), *room, x->to, in, x->from);
        in = *room;
        *room += aligned(t->bytes);
    }
    if (s->from != s->dtype) {
        mf_native_convert(s->dtype, *room, s->from, in, t->size);
        in = *room;
        *room += aligned(t->size * mf_dtype_size(s->dtype));
    }
    return in + x->layout.offset * mf_dtype_size(s->dtype);
}

static size_t prepared_bytes(const dot_step *s, const side *x)
{
    const mf_type *t = x->root->type;
    return (x->copy_rank ? aligned(t->bytes) : 0) + (s->from != s->dtype ? aligned(t->size * mf_dtype_size(s->dtype)) : 0);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const dot_step *s = (const dot_step *)(const void *)step;
    char *room = scratch + step->scratch_offset, *out = mf_step_out(step, values, 0), *result = out;
    const char *a = prepared(s, &s->a, mf_step_in(step, values, 0), &room), *b = prepared(s, &s->b, mf_step_in(step, values, 1), &room);
    int64_t size = mf_dtype_size(s->dtype), count = s->batch_count * s->shape.m * s->shape.n;
    if (s->to != s->dtype) {
        result = room;
        room += aligned(count * size);
    }
    if (s->whole) {
        dot_task task = { s, a, b, result, room };
        if (s->tasks == 1)
            run_task(&task, 0);
        else
            mf_native_parallel(s->tasks, run_task, &task);
    } else {
        run_batches(s, a, b, result);
    }
    if (result != out)
        mf_native_convert(s->to, out, s->dtype, result, count);
    return NULL;
}

/* ------------------------------------------------------------------ compilation */

static const mf_dnnl_primitive *make_primitive(const dot_step *s, int64_t rows)
{
    mf_dnnl_matmul d = { .dtype = s->dtype, .batch_rank = s->a.batch_rank, .m = rows, .n = s->shape.n, .k = s->shape.k };
    for (int i = 0; i < s->a.batch_rank; i++) {
        d.batch[i] = s->a.batch_dims[i];
        d.a_strides[i] = s->a.batch[i];
        d.b_strides[i] = s->b.batch[i];
        d.c_strides[i] = s->c_batch[i];
    }
    memcpy(d.a_strides + d.batch_rank, s->shape.a, sizeof s->shape.a);
    memcpy(d.b_strides + d.batch_rank, s->shape.b, sizeof s->shape.b);
    memcpy(d.c_strides + d.batch_rank, s->shape.c, sizeof s->shape.c);
    return mf_dnnl_matmul_create(&d);
}

static double task_work(const dot_step *s) { return (double)s->shape.m * (double)s->shape.n * (double)s->shape.k; }

static bool is_large(const dot_step *s)
{
    return task_work(s) * (double)s->batch_count >= LARGE_PRODUCT && s->dtype == MF_F32 && mf_dnnl_supports(s->dtype);
}

static void plan_large(dot_step *s)
{
    double work = task_work(s);
    if (!is_large(s))
        return;
    s->tasks = s->a.batch_rank == 0 && work > TASK_PRODUCT ? (int64_t)(work / TASK_PRODUCT) + 1 : 1;
    s->rows_a_task = (s->shape.m + s->tasks - 1) / s->tasks;
    s->rows_a_task = s->tasks == 1 ? s->shape.m : (s->rows_a_task + 47) / 48 * 48;
    s->tasks = (s->shape.m + s->rows_a_task - 1) / s->rows_a_task;
    int64_t last = s->shape.m - (s->tasks - 1) * s->rows_a_task;
    s->whole = make_primitive(s, s->rows_a_task);
    s->rest = last != s->rows_a_task ? make_primitive(s, last) : NULL;
    if (!s->whole || (last != s->rows_a_task && !s->rest)) {
        s->whole = s->rest = NULL;
        return;
    }
    s->task_scratch = mf_dnnl_scratch_bytes(s->whole);
    if (s->rest && mf_dnnl_scratch_bytes(s->rest) > s->task_scratch)
        s->task_scratch = mf_dnnl_scratch_bytes(s->rest);
    s->task_scratch = (s->task_scratch + 63) / 64 * 64;
    s->step.scratch_bytes += (size_t)s->tasks * s->task_scratch;
}

static bool is_ours(const mf_eqn *e)
{
    mf_dtype from = e->in[0]->type->dtype, to = e->out[0]->type->dtype;
    return e->op == &mf_op_dot_general && mf_dtype_is_float(from) && mf_dtype_is_float(to) && e->in[0]->type->size && e->in[1]->type->size;
}

static void plan_shape(dot_step *s)
{
    s->shape = (mf_gemm){
        s->a.free,       s->b.free, s->a.contract, { s->a.free_stride, s->a.contract_stride }, { s->b.contract_stride, s->b.free_stride },
        { s->b.free, 1 }
    };
    s->batch_count = 1;
    for (int i = s->a.batch_rank - 1; i >= 0; i--) {
        s->c_batch[i] = s->batch_count * s->shape.m * s->shape.n;
        s->batch_count *= s->a.batch_dims[i];
    }
    int64_t count = s->batch_count * s->shape.m * s->shape.n;
    s->step.scratch_bytes = prepared_bytes(s, &s->a) + prepared_bytes(s, &s->b);
    if (s->to != s->dtype)
        s->step.scratch_bytes += aligned(count * mf_dtype_size(s->dtype));
}

/* The transpose that alone reads e's result, when the product can be written as it wants: then the step makes the transpose's result. */
static const mf_eqn *plan_transposed(dot_step *s, const mf_build *b, const mf_eqn *e)
{
    const mf_eqn *t = b->vars[e->out[0]->id].only_reader;
    if (!t || t->op != &mf_op_transpose || (s->a.batch_rank && is_large(s)))
        return NULL;
    const mf_dot_params *p = e->params;
    const mf_intlist *from = ((const mf_permutation_params *)t->params)->permutation;
    mf_layout wanted, l; /* of the transpose's result; the product's dimensions in it */
    mf_layout_contiguous(&wanted, t->out[0]->type);
    mf_layout_contiguous(&l, e->out[0]->type);
    for (int i = 0; i < from->count; i++)
        l.strides[from->at[i]] = wanted.strides[i];
    int64_t axes[MF_RANK], size, row, column;
    int first = s->a.batch_rank, a_count = e->in[0]->type->rank - p->lhs_contract->count - first;
    for (int i = 0; i < l.rank; i++)
        axes[i] = i;
    if (!join(&l, axes + first, a_count, &size, &row) || !join(&l, axes + first + a_count, l.rank - first - a_count, &size, &column) ||
        (row != 1 && column != 1))
        return NULL;
    if (column != 1) {
        side a = s->a;
        s->a = s->b;
        s->b = a;
        plan_shape(s);
    }
    s->shape.c[0] = column != 1 ? column : row;
    for (int i = 0; i < first; i++)
        s->c_batch[i] = l.strides[i];
    return t;
}

bool mf_build_dot(mf_build *b, const mf_eqn *e)
{
    if (!is_ours(e))
        return false;
    const mf_dot_params *p = e->params;
    dot_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    s->from = e->in[0]->type->dtype;
    s->to = e->out[0]->type->dtype;
    s->dtype = s->from == MF_F64 || s->to == MF_F64 ? MF_F64 : MF_F32;
    if (!read_side(b, e->in[0], &s->a, p->lhs_contract, p->lhs_batch) || !read_side(b, e->in[1], &s->b, p->rhs_contract, p->rhs_batch))
        return b->error != NULL; /* too many batch dimensions: the row's own evaluation */
    plan_shape(s);
    const mf_eqn *transposed = plan_transposed(s, b, e);
    plan_large(s);
    s->step.run = run;
    s->step.cost = 20 + e->op->cost(e).flops / 40;
    mf_variable *in[2] = { s->a.root, s->b.root };
    mf_build_step(b, &s->step, in, 2, transposed ? transposed->out : e->out, 1);
    return true;
}
