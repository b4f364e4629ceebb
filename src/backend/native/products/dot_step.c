/* dot_general as matrix products: dimensions are joined to one batch, m, n and k where the operands' layouts allow (a transposed operand
 * only has other strides; rows in several runs are a batch of products that share b); otherwise the operand is copied first. product.c cuts
 * the work. A product that is only read transposed is written transposed, with the operands swapped if that makes its rows contiguous.
 * In a loop's body an operand that is the same in all rounds is packed before the first one.
 * Invariant: an operand of a step is read with its layout, or from a copy of its own. */
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"
#include "backend/native/products/product.h"

#include <string.h>

typedef struct dot_side {
    mf_variable *root;
    mf_layout layout;
    int64_t batch_dims[MF_PRODUCT_BATCH], batch[MF_PRODUCT_BATCH]; /* strides, in elements */
    int batch_rank;
    int64_t free, contract, free_stride, contract_stride;
    int64_t runs, run_stride; /* of a: number of runs of `free` rows each; 1: all rows are one run */
    bool runs_first;          /* the result's outer dimension is the run; else the row in it */
    int copy_rank;            /* 0: read in place; else copied first, with batch, free and contracted dimensions in this order */
    int64_t copy_dims[MF_RANK], from[MF_RANK], to[MF_RANK]; /* bytes */
} dot_side;

typedef struct dot_step {
    mf_native_step step;
    mf_product product; /* operands of another dtype are converted */
    dot_side a, b;
    mf_dtype from, to;     /* the stored dtypes */
    int64_t hoisted_piece; /* columns of b per task, if b is packed before a loop's rounds */
} dot_step;

/* ------------------------------------------------------------------ shapes */

/* Joins these dimensions into one. False: they do not have a single stride. */
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

/* Products of runs of fewer rows take longer than a copy of a. */
enum { ROWS_OF_RUN = 64 };

/* Joins free dimensions into two: the one with more rows belongs to a product, and the other one counts the products. */
static bool join_as_runs(dot_side *s, const int64_t *axes, int count)
{
    for (int first = 1; first < count; first++) {
        int64_t outer, outer_stride, inner, inner_stride;
        if (!join(&s->layout, axes, first, &outer, &outer_stride) || !join(&s->layout, axes + first, count - first, &inner, &inner_stride))
            continue;
        s->runs_first = outer < inner;
        s->free = s->runs_first ? inner : outer;
        s->free_stride = s->runs_first ? inner_stride : outer_stride;
        s->runs = s->runs_first ? outer : inner;
        s->run_stride = s->runs_first ? outer_stride : inner_stride;
        return s->free >= ROWS_OF_RUN && s->run_stride > 0;
    }
    return false;
}

static bool describe(dot_side *s, const mf_intlist *contract, const mf_intlist *batch, bool may_run)
{
    int64_t axes[MF_RANK];
    int count = free_axes(s->layout.rank, contract, batch, axes);
    s->runs = 1;
    if ((!join(&s->layout, axes, count, &s->free, &s->free_stride) && !(may_run && join_as_runs(s, axes, count))) ||
        !join(&s->layout, contract->at, contract->count, &s->contract, &s->contract_stride))
        return false;
    s->batch_rank = batch->count;
    for (int i = 0; i < batch->count; i++) {
        s->batch_dims[i] = s->layout.dims[batch->at[i]];
        s->batch[i] = s->layout.strides[batch->at[i]];
    }
    return true;
}

static void append(dot_side *s, const int64_t *axes, int count, const mf_layout *l, int64_t size)
{
    for (int i = 0; i < count; i++) {
        s->copy_dims[s->copy_rank] = l->dims[axes[i]];
        s->from[s->copy_rank++] = l->strides[axes[i]] * size;
    }
}

/* Plans a copy in which the dimensions join. */
static void plan_copy(dot_side *s, const mf_type *t, const mf_intlist *contract, const mf_intlist *batch)
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
    s->free = s->contract = s->runs = 1;
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

/* may_run: its rows may be in several runs. */
static bool read_side(mf_build *b, mf_variable *v, dot_side *s, const mf_intlist *contract, const mf_intlist *batch, bool may_run)
{
    if (batch->count > MF_PRODUCT_BATCH)
        return false;
    const mf_var_state *state = &b->vars[v->id];
    if (state->kind == MF_VAR_VIEW) {
        s->layout = state->layout;
        s->root = b->program->vars[state->root];
        if (describe(s, contract, batch, may_run) && s->free_stride > 0 && s->contract_stride > 0)
            return mf_build_materialise(b, s->root);
    }
    s->root = v;
    mf_layout_contiguous(&s->layout, v->type);
    if (!describe(s, contract, batch, false))
        plan_copy(s, v->type, contract, batch);
    return mf_build_materialise(b, v);
}

/* ------------------------------------------------------------------ running */

static size_t aligned(int64_t bytes) { return ((size_t)bytes + 63) / 64 * 64; }

/* The operand as the product takes it; advances workspace past what was written. */
static const char *prepared(const dot_step *s, const dot_side *x, const char *in, char **workspace)
{
    const mf_type *t = x->root->type;
    if (x->copy_rank) {
        mf_native_copy(x->copy_rank, x->copy_dims, mf_dtype_size(t->dtype), *workspace, x->to, in, x->from);
        in = *workspace;
        *workspace += aligned(t->bytes);
    }
    if (s->from != s->product.dtype) {
        mf_native_convert(s->product.dtype, *workspace, s->from, in, t->size);
        in = *workspace;
        *workspace += aligned(t->size * mf_dtype_size(s->product.dtype));
    }
    return in + x->layout.offset * mf_dtype_size(s->product.dtype);
}

static size_t prepared_bytes(const dot_step *s, const dot_side *x)
{
    const mf_type *t = x->root->type;
    return (x->copy_rank ? aligned(t->bytes) : 0) + (s->from != s->product.dtype ? aligned(t->size * mf_dtype_size(s->product.dtype)) : 0);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const dot_step *s = (const dot_step *)(const void *)step;
    char *workspace = scratch + step->scratch_offset, *out = mf_step_out(step, values, 0), *result = out;
    const char *a = prepared(s, &s->a, mf_step_in(step, values, 0), &workspace),
               *b = prepared(s, &s->b, mf_step_in(step, values, 1), &workspace);
    const mf_product *p = &s->product;
    int64_t count = p->count * p->shape.m * p->shape.n;
    if (s->to != p->result) {
        result = workspace;
        workspace += aligned(count * mf_dtype_size(p->result));
    }
    if (!mf_product_run(p, a, b, result, workspace))
        return mf_error_out_of_memory();
    if (result != out)
        mf_native_convert(s->to, out, p->result, result, count);
    return NULL;
}

/* ------------------------------------------------------------------ in a loop's body, with b packed before the loop */

/* HELD_ROWS: the most rows of such a product. HELD_WORK: multiply-adds of a task. HOISTED_DEPTH: the deepest product whose columns can
 * be cut, because of the order of packing. */
enum { HELD_ROWS = 256, HELD_WORK = 1000000, HOISTED_DEPTH = MF_GEMM_DEPTH };

/* A run over pieces of b's columns, which are packed one behind the other. */
typedef struct hoisted_job {
    const mf_product *p;
    int64_t piece;
    const char *a, *packed;
    char *c;
} hoisted_job;

static void run_hoisted_piece(void *context, int64_t index)
{
    const hoisted_job *j = context;
    mf_gemm g = j->p->shape;
    int64_t from = index * j->piece, size = mf_dtype_size(j->p->dtype);
    g.n = g.n - from < j->piece ? g.n - from : j->piece;
    mf_gemm_rows(j->p->dtype, &g, j->a, j->packed + from * g.k * size, j->c + from * g.c[1] * size, 0, g.m);
}

static mf_error_object *run_hoisted(const mf_native_step *step, void *const *values, char *scratch)
{
    const dot_step *s = (const dot_step *)(const void *)step;
    if (!step->prepared)
        return run(step, values, scratch);
    char *workspace = scratch + step->scratch_offset;
    hoisted_job j = { &s->product, s->hoisted_piece, prepared(s, &s->a, mf_step_in(step, values, 0), &workspace), values[step->prepared],
                      mf_step_out(step, values, 0) };
    int64_t pieces = (s->product.shape.n + s->hoisted_piece - 1) / s->hoisted_piece;
    if (pieces == 1)
        run_hoisted_piece(&j, 0);
    else
        mf_parallel_for(pieces, run_hoisted_piece, &j);
    return NULL;
}

static size_t hoisted_bytes(const mf_native_step *step)
{
    const mf_product *p = &((const dot_step *)(const void *)step)->product;
    return (size_t)(mf_gemm_packed(&p->shape) * mf_dtype_size(p->dtype));
}

static void hoist(const mf_native_step *step, const void *operand, void *to)
{
    const dot_step *s = (const dot_step *)(const void *)step;
    const mf_product *p = &s->product;
    mf_gemm_pack(p->dtype, &p->shape, (const char *)operand + s->b.layout.offset * mf_dtype_size(p->dtype), to, 0, p->shape.n);
}

static const mf_step_hoisted hoisted_b = { 1, hoisted_bytes, hoist };

static bool is_fixed(const mf_build *b, const mf_variable *v)
{
    for (int i = 0; i < b->fixed; i++)
        if (b->program->in[i] == v)
            return true;
    return false;
}

/* Whether the product is one of our packed kernel, whose bits do not depend on when b is packed. */
static bool can_hoist(const mf_build *b, const dot_step *s)
{
    const mf_gemm *g = &s->product.shape;
    double work = (double)g->m * (double)g->n * (double)g->k;
    bool real = s->from == s->to && (s->from == MF_F32 || s->from == MF_F64);
    return real && is_fixed(b, s->b.root) && !s->b.copy_rank && !s->product.batch_rank && g->m > 1 && g->m <= HELD_ROWS &&
           g->n >= MF_GEMM_COLUMNS / 4 && g->k > 0 && (g->k <= HOISTED_DEPTH || work < 2 * HELD_WORK);
}

static void plan_hoisted(dot_step *s)
{
    const mf_gemm *g = &s->product.shape;
    int64_t each = HELD_WORK / (g->m * g->k) / MF_GEMM_COLUMNS * MF_GEMM_COLUMNS;
    s->hoisted_piece = g->k > HOISTED_DEPTH || each >= g->n ? g->n : each < MF_GEMM_COLUMNS ? MF_GEMM_COLUMNS : each;
    s->step.hoisted = &hoisted_b;
    s->step.run = run_hoisted;
}

/* ------------------------------------------------------------------ compilation */

static bool is_ours(const mf_eqn *e)
{
    mf_dtype from = e->in[0]->type->dtype, to = e->out[0]->type->dtype;
    return e->op == &mf_op_dot_general && mf_dtype_is_float(from) && mf_dtype_is_float(to) && e->in[0]->type->size && e->in[1]->type->size;
}

static void plan_shape(dot_step *s)
{
    mf_product *p = &s->product;
    p->shape = (mf_gemm){
        s->a.free,       s->b.free, s->a.contract, { s->a.free_stride, s->a.contract_stride }, { s->b.contract_stride, s->b.free_stride },
        { s->b.free, 1 }
    };
    p->batch_rank = s->a.batch_rank;
    int64_t step = p->shape.m * p->shape.n;
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        p->batch[i] = s->a.batch_dims[i];
        p->a_batch[i] = s->a.batch[i];
        p->b_batch[i] = s->b.batch[i];
        p->c_batch[i] = step;
        step *= p->batch[i];
    }
    if (s->a.runs > 1) { /* there is no other batch */
        p->batch_rank = 1;
        p->batch[0] = s->a.runs;
        p->a_batch[0] = s->a.run_stride;
        p->b_batch[0] = 0;
        p->c_batch[0] = s->a.runs_first ? s->a.free * s->b.free : s->b.free;
        p->shape.c[0] = s->a.runs_first ? s->b.free : s->a.runs * s->b.free;
    }
}

static void plan_scratch(dot_step *s)
{
    const mf_product *p = &s->product;
    size_t result = s->to == p->result ? 0 : aligned(p->count * p->shape.m * p->shape.n * mf_dtype_size(p->result));
    s->step.scratch_bytes = prepared_bytes(s, &s->a) + prepared_bytes(s, &s->b) + result + p->scratch_bytes;
}

/* The transpose that is the only reader of e's result, if the product can be written transposed; then the step makes the transpose's
 * result. */
static const mf_eqn *plan_transposed(dot_step *s, const mf_build *b, const mf_eqn *e)
{
    const mf_eqn *t = b->vars[e->out[0]->id].only_reader;
    if (!t || s->a.runs > 1 || t->op != &mf_op_transpose)
        return NULL;
    const mf_dot_params *p = e->params;
    const mf_intlist *from = ((const mf_permutation_params *)t->params)->permutation;
    mf_layout wanted, l; /* wanted: of the transpose's result; l: the product's dimensions in it */
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
        dot_side a = s->a;
        s->a = s->b;
        s->b = a;
        plan_shape(s);
    }
    s->product.shape.c[0] = column != 1 ? column : row;
    for (int i = 0; i < first; i++)
        s->product.c_batch[i] = l.strides[i];
    return t;
}

/* Plans the product on the stored dtypes if there is a kernel for them, else on converted operands. False: b->error. */
static bool plan_product(mf_build *b, dot_step *s)
{
    mf_product *p = &s->product;
    p->dtype = s->from;
    p->result = s->to;
    if (!mf_product_plan(p) && !p->no_memory) {
        p->dtype = p->result = s->from == MF_F64 || s->to == MF_F64 ? MF_F64 : MF_F32;
        mf_product_plan(p);
    }
    if (p->no_memory)
        b->error = mf_error_out_of_memory();
    bool held = !p->whole || mf_build_hold(b, mf_dnnl_release, p->whole);
    return (!p->rest || mf_build_hold(b, mf_dnnl_release, p->rest)) && held && !b->error;
}

/* The index along a dimension of the result, which is dense, from an element's number. */
static int64_t index_along(int64_t element, int64_t stride, int64_t size) { return size > 1 ? element / stride % size : 0; }

static int64_t place(const mf_native_step *step, int operand, int64_t result, int64_t k)
{
    const dot_step *s = (const dot_step *)(const void *)step;
    const mf_product *p = &s->product;
    const mf_gemm *g = &p->shape;
    const dot_side *x = operand ? &s->b : &s->a;
    int64_t at = operand ? k * g->b[0] + index_along(result, g->c[1], g->n) * g->b[1]
                         : k * g->a[1] + index_along(result, g->c[0], g->m) * g->a[0];
    for (int i = 0; i < p->batch_rank; i++)
        at += index_along(result, p->c_batch[i], p->batch[i]) * (operand ? p->b_batch[i] : p->a_batch[i]);
    if (x->copy_rank)
        at = mf_place_in_copy(x->copy_rank, x->copy_dims, x->from, at) / mf_dtype_size(x->root->type->dtype);
    return at + x->layout.offset;
}

static void form_of(const mf_native_step *step, mf_form *f)
{
    const dot_step *s = (const dot_step *)(const void *)step;
    f->kind = MF_FORM_PRODUCT;
    f->dtype = s->product.dtype;
    f->count = s->product.count * s->product.shape.m * s->product.shape.n;
    f->length = s->product.shape.k;
    f->lanes = s->product.shape.m == 1 || s->product.shape.n == 1 ? MF_REDUCE_LANES : 1;
    f->place = place;
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
    bool may_run = !p->lhs_batch->count && s->from == s->to && !is_fixed(b, e->in[1]);
    if (!read_side(b, e->in[0], &s->a, p->lhs_contract, p->lhs_batch, may_run) ||
        !read_side(b, e->in[1], &s->b, p->rhs_contract, p->rhs_batch, false))
        return b->error != NULL; /* too many batch dimensions: the op's own evaluation runs */
    plan_shape(s);
    const mf_eqn *transposed = plan_transposed(s, b, e);
    if (!plan_product(b, s))
        return true;
    plan_scratch(s);
    s->step.run = run;
    if (can_hoist(b, s))
        plan_hoisted(s);
    s->step.form = mf_product_is_ours(&s->product) ? form_of : NULL;
    s->step.cost = 20 + e->op->cost(e).flops / 40;
    mf_variable *in[2] = { s->a.root, s->b.root };
    mf_build_step(b, &s->step, in, 2, transposed ? transposed->out : e->out, 1);
    return true;
}
