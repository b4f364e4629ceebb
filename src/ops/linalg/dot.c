/* Products: dot_general with XLA's dimension numbers. Invariant: the result's dimensions are the batch dimensions in the order of
 * lhs_batch, then the free ones of lhs, then those of rhs. Evaluation sums over the contracted dimensions in ascending order, in f32 for
 * f16, bf16 and f32, in f64 for f64; integers wrap; bool is and/or. Everything is reduced to one batch of matrix products on packed
 * operands. */
#include "ops/shape/shape.h"

#include <string.h>

/* ---- dimensions */
static bool is_free(const mf_intlist *contract, const mf_intlist *batch, int64_t i)
{
    return !mf_ints_has(contract, i) && !mf_ints_has(batch, i);
}

static int free_axes(int rank, const mf_intlist *contract, const mf_intlist *batch, int64_t *out)
{
    int n = 0;
    for (int i = 0; i < rank; i++)
        if (is_free(contract, batch, i))
            out[n++] = i;
    return n;
}

static int append(int64_t *out, int n, const int64_t *more, int count)
{
    for (int i = 0; i < count; i++)
        out[n++] = more[i];
    return n;
}

/* ---- type */
static bool distinct_together(const mf_intlist *a, const mf_intlist *b, int rank)
{
    for (int i = 0; i < a->count; i++)
        if (mf_ints_has(b, a->at[i]))
            return false;
    return shape_distinct(a, rank) && shape_distinct(b, rank);
}

static mf_error_object *check_pairs(const mf_type_context *c, const mf_intlist *lhs, const mf_intlist *rhs, const char *what)
{
    if (lhs->count != rhs->count)
        return mf_type_error(c, MF_ERROR_SHAPE, "lhs and rhs must have equally many %s dimensions, not %d and %d", what, lhs->count,
                             rhs->count);
    for (int i = 0; i < lhs->count; i++) {
        int64_t m = c->in[0]->dims[lhs->at[i]], n = c->in[1]->dims[rhs->at[i]];
        if (m != n)
            return mf_type_error(c, MF_ERROR_SHAPE,
                                 "%s dimensions must have equal sizes, but dimension %lld of lhs has %lld and %lld of rhs has %lld", what,
                                 (long long)lhs->at[i], (long long)m, (long long)rhs->at[i], (long long)n);
    }
    return NULL;
}

static bool may_prefer(mf_dtype from, mf_dtype to)
{
    if (to == MF_DTYPE_DEFAULT || to == from)
        return true;
    return (mf_dtype_is_float(from) && mf_dtype_is_float(to)) || (mf_dtype_is_complex(from) && mf_dtype_is_complex(to)) ||
           (mf_dtype_is_int(from) && (mf_dtype_is_int(to) || mf_dtype_is_float(to)));
}

static mf_error_object *dot_type(mf_type_context *c)
{
    const mf_dot_params *p = c->params;
    const mf_type *x = c->in[0], *y = c->in[1];
    if (x->dtype != y->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "lhs and rhs must have one dtype");
    if (x->dtype == MF_KEY || !may_prefer(x->dtype, p->preferred))
        return mf_type_error(c, MF_ERROR_DTYPE, "a product of %s cannot be given as %s", mf_dtype_name(x->dtype),
                             p->preferred ? mf_dtype_name(p->preferred) : "the same");
    if (!distinct_together(p->lhs_contract, p->lhs_batch, x->rank) || !distinct_together(p->rhs_contract, p->rhs_batch, y->rank))
        return mf_type_error(c, MF_ERROR_AXIS, "contracting and batch dimensions must be distinct dimensions of their operand");
    mf_error_object *e = check_pairs(c, p->lhs_batch, p->rhs_batch, "batch");
    if (!e)
        e = check_pairs(c, p->lhs_contract, p->rhs_contract, "contracting");
    if (e)
        return e;
    int64_t dims[2 * MF_RANK];
    int rank = 0;
    for (int i = 0; i < p->lhs_batch->count; i++)
        dims[rank++] = x->dims[p->lhs_batch->at[i]];
    for (int i = 0; i < x->rank; i++)
        if (is_free(p->lhs_contract, p->lhs_batch, i))
            dims[rank++] = x->dims[i];
    for (int i = 0; i < y->rank; i++)
        if (is_free(p->rhs_contract, p->rhs_batch, i))
            dims[rank++] = y->dims[i];
    c->out[0] = mf_type_get(p->preferred ? p->preferred : x->dtype, x->weak && y->weak, rank, dims);
    return NULL;
}

/* ---- derivatives */
/* Contracts ct with y over y's free dimensions, whose positions in `ct` are behind the batch and, for lhs, behind lhs's own free ones. */
static mf_variable *cotangent_of(mf_builder *b, mf_variable *ct, const mf_type *x, mf_variable *y, const mf_intlist *x_contract,
                                 const mf_intlist *y_contract, const mf_intlist *x_batch, const mf_intlist *y_batch, bool is_lhs)
{
    int64_t x_free[MF_RANK], y_free[MF_RANK], ct_free[MF_RANK], ct_batch[MF_RANK], place[MF_RANK];
    int xs = free_axes(x->rank, x_contract, x_batch, x_free), ys = free_axes(y->type->rank, y_contract, y_batch, y_free);
    int first = x_batch->count + (is_lhs ? xs : 0), order[MF_RANK], n = 0;
    for (int i = 0; i < ys; i++)
        ct_free[i] = first + i;
    for (int i = 0; i < x_batch->count; i++)
        ct_batch[i] = i;
    mf_variable *t = e_dot_general(b, ct, e_convert(b, y, ct->type->dtype), mf_ints_intern(ct_free, ys), mf_ints_intern(y_free, ys),
                                   mf_ints_intern(ct_batch, x_batch->count), y_batch);
    /* t's dimensions: the batch, x's free ones, then the contracted ones in y's order */
    n = append(place, n, x_batch->at, x_batch->count);
    n = append(place, n, x_free, xs);
    for (int i = 0; i < y->type->rank; i++) {
        int64_t at = shape_position(y_contract, i);
        if (at >= 0)
            place[n++] = x_contract->at[at];
    }
    for (int i = 0; i < n; i++)
        order[place[i]] = i;
    return e_convert(b, b->error ? t : e_transpose(b, t, order), x->dtype);
}

static void dot_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                          mf_variable **ct_in)
{
    const mf_dot_params *p = e->params;
    if (linear[0] && linear[1]) {
        mf_transpose_none(b, e, linear, in, ct, ct_in);
        return;
    }
    if (linear[0])
        ct_in[0] = cotangent_of(b, ct[0], e->in[0]->type, in[1], p->lhs_contract, p->rhs_contract, p->lhs_batch, p->rhs_batch, true);
    if (linear[1])
        ct_in[1] = cotangent_of(b, ct[0], e->in[1]->type, in[0], p->rhs_contract, p->lhs_contract, p->rhs_batch, p->lhs_batch, false);
}

/* ---- batching: a dimension of both becomes a batch dimension, a dimension of one becomes a free one */
static int free_before(const mf_type *t, const mf_intlist *contract, const mf_intlist *batch, int axis)
{
    int n = 0;
    for (int i = 0; i < t->rank && i < axis; i++)
        n += is_free(contract, batch, i);
    return n;
}

static void dot_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    mf_dot_params p = *(const mf_dot_params *)e->params;
    const mf_type *x = e->in[0]->type, *y = e->in[1]->type;
    int lhs = in_axis[0], rhs = in_axis[1], batch = p.lhs_batch->count;
    if (lhs >= 0 && rhs >= 0)
        out_axis[0] = 0;
    else if (lhs >= 0)
        out_axis[0] = batch + free_before(x, p.lhs_contract, p.lhs_batch, lhs);
    else
        out_axis[0] = x->rank - p.lhs_contract->count + free_before(y, p.rhs_contract, p.rhs_batch, rhs);
    if (lhs >= 0) {
        p.lhs_contract = shape_shifted(p.lhs_contract, lhs);
        p.lhs_batch = shape_shifted(p.lhs_batch, lhs);
    }
    if (rhs >= 0) {
        p.rhs_contract = shape_shifted(p.rhs_contract, rhs);
        p.rhs_batch = shape_shifted(p.rhs_batch, rhs);
    }
    if (lhs >= 0 && rhs >= 0) {
        p.lhs_batch = shape_inserted(p.lhs_batch, 0, lhs);
        p.rhs_batch = shape_inserted(p.rhs_batch, 0, rhs);
    }
    out[0] = mf_emit(c->b, e->op, &p, 2, in[0], in[1]);
}

/* ---- cost and evaluation */
static int64_t product(const mf_type *t, const int64_t *axes, int count)
{
    int64_t n = 1;
    for (int i = 0; i < count; i++)
        n *= t->dims[axes[i]];
    return n;
}

static mf_cost dot_cost(const mf_eqn *e)
{
    const mf_dot_params *p = e->params;
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = 2.0 * (double)e->out[0]->type->size * (double)product(e->in[0]->type, p->lhs_contract->at, p->lhs_contract->count);
    return cost;
}

static mf_dtype accumulator(mf_dtype in, mf_dtype out)
{
    if (mf_dtype_is_complex(in))
        return MF_C128;
    if (in == MF_F64 || out == MF_F64)
        return MF_F64;
    if (mf_dtype_is_float(in))
        return MF_F32;
    return mf_dtype_is_float(out) ? MF_F64 : MF_I64;
}

typedef struct matrices {
    int64_t batch, m, n, k;
} matrices;

/* c[batch, m, n] += a[batch, m, k] b[batch, k, n], with k ascending for every element; the inner loop runs along rows. */
#define MULTIPLY(name, type)                                                   \
    static void name(const matrices *s, const type *a, const type *b, type *c) \
    {                                                                          \
        for (int64_t g = 0; g < s->batch; g++, b += s->k * s->n)               \
            for (int64_t i = 0; i < s->m; i++, a += s->k, c += s->n)           \
                for (int64_t k = 0; k < s->k; k++) {                           \
                    type left = a[k];                                          \
                    const type *row = b + k * s->n;                            \
                    for (int64_t j = 0; j < s->n; j++)                         \
                        c[j] += left * row[j];                                 \
                }                                                              \
    }
MULTIPLY(multiply_f32, float)
MULTIPLY(multiply_f64, double)
MULTIPLY(multiply_u64, uint64_t)

static void multiply_c128(const matrices *s, const double *a, const double *b, double *c)
{
    for (int64_t g = 0; g < s->batch; g++, b += 2 * s->k * s->n)
        for (int64_t i = 0; i < s->m; i++, a += 2 * s->k, c += 2 * s->n)
            for (int64_t k = 0; k < s->k; k++)
                for (int64_t j = 0; j < s->n; j++) {
                    const double *x = a + 2 * k, *y = b + 2 * (k * s->n + j);
                    c[2 * j] += x[0] * y[0] - x[1] * y[1];
                    c[2 * j + 1] += x[0] * y[1] + x[1] * y[0];
                }
}

static void multiply(mf_dtype dtype, const matrices *s, const void *a, const void *b, void *c)
{
    if (dtype == MF_F32)
        multiply_f32(s, a, b, c);
    if (dtype == MF_F64)
        multiply_f64(s, a, b, c);
    if (dtype == MF_I64)
        multiply_u64(s, a, b, c);
    if (dtype == MF_C128)
        multiply_c128(s, a, b, c);
}

static void give(const mf_type *t, void *out, mf_dtype dtype, void *sum)
{
    int64_t *x = sum;
    if (dtype != MF_I64) {
        mf_convert(t->dtype, out, dtype, sum, t->size);
        return;
    }
    int element = mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->size; i++)
        mf_store_i64(t->dtype, (char *)out + i * element, t->dtype == MF_BOOL ? x[i] != 0 : x[i]);
}

static mf_error_object *dot_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_dot_params *p = e->params;
    const mf_type *x = e->in[0]->type, *y = e->in[1]->type, *t = e->out[0]->type;
    mf_dtype dtype = accumulator(x->dtype, t->dtype);
    int64_t x_free[MF_RANK], y_free[MF_RANK], x_order[MF_RANK], y_order[MF_RANK];
    int xs = free_axes(x->rank, p->lhs_contract, p->lhs_batch, x_free), ys = free_axes(y->rank, p->rhs_contract, p->rhs_batch, y_free), n;
    matrices s = { product(x, p->lhs_batch->at, p->lhs_batch->count), product(x, x_free, xs), product(y, y_free, ys),
                   product(x, p->lhs_contract->at, p->lhs_contract->count) };
    n = append(x_order, 0, p->lhs_batch->at, p->lhs_batch->count);
    n = append(x_order, n, x_free, xs);
    append(x_order, n, p->lhs_contract->at, p->lhs_contract->count);
    n = append(y_order, 0, p->rhs_batch->at, p->rhs_batch->count);
    n = append(y_order, n, p->rhs_contract->at, p->rhs_contract->count);
    append(y_order, n, y_free, ys);
    void *a = shape_packed(x, in[0], x_order, dtype), *b = shape_packed(y, in[1], y_order, dtype);
    void *sum = mf_calloc((size_t)t->size + 1, (size_t)mf_dtype_size(dtype));
    bool fine = a && b && sum;
    if (fine) {
        multiply(dtype, &s, a, b, sum);
        give(t, out[0], dtype, sum);
    }
    mf_free(a);
    mf_free(b);
    mf_free(sum);
    return fine ? NULL : mf_error_out_of_memory();
}

static const mf_param dot_params[] = {
    MF_PARAM(mf_dot_params, lhs_contract, MF_PARAM_INTS), MF_PARAM(mf_dot_params, rhs_contract, MF_PARAM_INTS),
    MF_PARAM(mf_dot_params, lhs_batch, MF_PARAM_INTS),    MF_PARAM(mf_dot_params, rhs_batch, MF_PARAM_INTS),
    MF_PARAM(mf_dot_params, preferred, MF_PARAM_DTYPE),   { 0 },
};
static const char *const dot_samples[] = {
    "[lhs_contract=(1), rhs_contract=(0)] f32[2,2]{=1,2,3,4} f32[2,1]{=10,1} -> f32[2,1]{=12,34}",
    "[lhs_contract=(1), rhs_contract=(1)] f32[2,3]{-2:2} f32[4,3]{-2:2}",
    "[lhs_contract=(0), rhs_contract=(0)] f32[4]{-2:2} f32[4]{-2:2}",
    "[lhs_contract=(2), rhs_contract=(1), lhs_batch=(0), rhs_batch=(0)] f32[2,3,4]{-2:2} f32[2,4,5]{-2:2}",
    "[lhs_contract=(2), rhs_contract=(0), lhs_batch=(0), rhs_batch=(2)] f64[4,2,3]{-2:2} f64[3,5,4]{-2:2}",
    "[lhs_contract=(1,2), rhs_contract=(1,0)] f32[2,3,4]{-2:2} f32[4,3,5]{-2:2}",
    "[lhs_batch=(0), rhs_batch=(0)] f32[3,2]{-2:2} f32[3,4]{-2:2}",
    "[] f32[2]{-2:2} f32[3]{-2:2}",
    "[] f32[]{-2:2} f32[2,2]{-2:2}",
    "[lhs_contract=(1), rhs_contract=(0)] f32[2,0]{-2:2} f32[0,3]{-2:2}",
    "[lhs_contract=(1), rhs_contract=(0), preferred=f32] bf16[2,3]{-2:2} bf16[3,2]{-2:2}",
    "[lhs_contract=(1), rhs_contract=(0)] f16[2,3]{-2:2} f16[3,2]{-2:2}",
    "[lhs_contract=(0), rhs_contract=(0)] i32[2]{=2147483647,1} i32[2]{=2,5} -> i32[]{=3}",
    "[lhs_contract=(0), rhs_contract=(0), preferred=i32] i8[2]{=-128,127} i8[2]{=-128,127} -> i32[]{=32513}",
    "[lhs_contract=(1), rhs_contract=(0)] c64[2,3]{-2:2} c64[3,2]{-2:2}",
    "[lhs_contract=(0), rhs_contract=(0)] c64[2]{=1,2,3,4} c64[2]{=1,0,0,1} -> c64[]{=-3,5}",
    "[lhs_contract=(1), rhs_contract=(0)] bool[2,2]{=1,0,0,0} bool[2,2]{=0,1,1,1} -> bool[2,2]{=0,1,0,0}",
    NULL,
};
MF_HLO_RULE(dot_hlo)
{
    const mf_dot_params *p = e->params;
    const mf_type *type = e->out[0]->type;
    mf_hlo_value operands[2];
    for (int i = 0; i < 2; i++)
        operands[i] = h_convert(h, in[i], h_product_dtype(h, in[i].type->dtype));
    out[0] = h_op(h, "dot_general", mf_type_with_dtype(type, h_product_dtype(h, type->dtype)), operands, 2,
                  "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = %s, rhs_batching_dimensions = %s, "
                  "lhs_contracting_dimensions = %s, rhs_contracting_dimensions = %s>, "
                  "precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]",
                  h_list(h, p->lhs_batch), h_list(h, p->rhs_batch), h_list(h, p->lhs_contract), h_list(h, p->rhs_contract));
    out[0] = h_convert(h, out[0], type->dtype);
}

const mf_op mf_op_dot_general = {
    .name = "dot_general",
    .approximate = true,
    .operands = 2,
    .params = dot_params,
    .params_size = sizeof(mf_dot_params),
    .type_rule = dot_type,
    .jvp = e_jvp_bilinear,
    .transpose = dot_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = dot_batch,
    .variance = mf_variance_join,
    .cost = dot_cost,
    .lower = mf_lower_none,
    .evaluate = dot_evaluate,
    MF_HLO_BY(dot_hlo),
    .samples = dot_samples,
};
