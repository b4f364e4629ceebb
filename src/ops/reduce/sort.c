/* sort: orders several operands along one axis by the first `keys` of them, ascending and stable. Invariant: -0 and 0 are equal and NaN
 * comes last, so the order is total and JAX's. The derivative gathers the tangents by the sorted positions. */
#include "ops/emit.h"

#include <math.h>
#include <string.h>

static mf_error_object *sort_type(mf_type_context *c)
{
    const mf_sort_params *p = c->params;
    const mf_type **out = mf_type_outputs(c, c->in_count);
    if (!out)
        return mf_error_out_of_memory();
    if (c->in_count < 1 || p->keys < 1 || p->keys > c->in_count)
        return mf_type_error(c, MF_ERROR_ARGUMENT, "needs operands, and between 1 and all of them as keys, not %lld", (long long)p->keys);
    if (p->axis < 0 || p->axis >= c->in[0]->rank)
        return mf_type_error(c, MF_ERROR_AXIS, "axis %lld is out of bounds", (long long)p->axis);
    for (int i = 0; i < p->keys; i++)
        if (c->in[i]->dtype == MF_KEY)
            return mf_type_error(c, MF_ERROR_DTYPE, "%s has no order to sort by", mf_dtype_name(c->in[i]->dtype));
    for (int i = 0; i < c->in_count; i++) {
        if (!mf_type_same_shape(c->in[i], c->in[0]))
            return mf_type_error(c, MF_ERROR_SHAPE, "operands must have one shape");
        out[i] = c->in[i];
    }
    return NULL;
}

/* Sorts the positions along with the operands, and gathers the tangents by them. */
static void sort_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    const mf_sort_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    mf_variable *operands[17] = { 0 };
    int n = e->in_count < 16 ? e->in_count : 16;
    memcpy(operands, in, (size_t)n * sizeof *operands);
    operands[n] = e_iota(b, MF_I32, t->rank, t->dims, (int)p->axis);
    mf_eqn *sorted = mf_emit_eqn(b, &mf_op_sort, p, operands, n + 1);
    if (!sorted || b->error) {
        for (int i = 0; i < n; i++)
            out[i] = in[i];
        return;
    }
    for (int i = 0; i < n; i++) {
        out[i] = sorted->out[i];
        tout[i] = tin[i] ? e_take_along(b, tin[i], sorted->out[n], (int)p->axis) : NULL;
    }
}

static void sort_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    const mf_sort_params *p = e->params;
    mf_sort_params wide = { p->axis + 1, p->keys };
    mf_variable *operands[17] = { 0 };
    int n = e->in_count < 17 ? e->in_count : 17;
    for (int i = 0; i < n; i++)
        operands[i] = e_batched_at(c, in[i], in_axis[i], 0);
    mf_eqn *sorted = mf_emit_eqn(c->b, &mf_op_sort, &wide, operands, n);
    for (int i = 0; i < n; i++) {
        out[i] = sorted ? sorted->out[i] : NULL;
        out_axis[i] = 0;
    }
}

static mf_cost sort_cost(const mf_eqn *e)
{
    mf_cost c = mf_cost_bytes(e);
    double n = (double)e->in[0]->type->size;
    c.flops = n > 1 ? n * log2(n) : n;
    return c;
}

typedef struct sort_line {
    const mf_eqn *e;
    const void *const *in;
    int64_t first, stride; /* in elements */
    int64_t keys;
} sort_line;

static int compare_at(mf_dtype d, const void *base, int64_t a, int64_t b)
{
    const char *p = base;
    int size = mf_dtype_size(d);
    if (mf_dtype_is_complex(d)) { /* by real part, then by imaginary part */
        mf_dtype part = d == MF_C64 ? MF_F32 : MF_F64;
        int order = compare_at(part, p, 2 * a, 2 * b);
        return order ? order : compare_at(part, p, 2 * a + 1, 2 * b + 1);
    }
    if (mf_dtype_is_float(d)) {
        double x = mf_load_f64(d, p + a * size), y = mf_load_f64(d, p + b * size);
        if (isnan(x) || isnan(y))
            return (isnan(x) != 0) - (isnan(y) != 0);
        return (x > y) - (x < y);
    }
    int64_t x = mf_load_i64(d, p + a * size), y = mf_load_i64(d, p + b * size);
    if (d == MF_U64)
        return ((uint64_t)x > (uint64_t)y) - ((uint64_t)x < (uint64_t)y);
    return (x > y) - (x < y);
}

static bool not_after(const sort_line *l, int64_t a, int64_t b)
{
    for (int64_t k = 0; k < l->keys; k++) {
        int order = compare_at(l->e->in[k]->type->dtype, l->in[k], l->first + a * l->stride, l->first + b * l->stride);
        if (order)
            return order < 0;
    }
    return true;
}

/* A stable bottom-up merge sort of positions. */
static void sort_positions(const sort_line *l, int64_t *at, int64_t *spare, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        at[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t low = 0; low < n; low += 2 * width) {
            int64_t middle = low + width < n ? low + width : n, high = low + 2 * width < n ? low + 2 * width : n;
            for (int64_t i = low, k = middle, out = low; out < high; out++)
                spare[out] = k >= high || (i < middle && not_after(l, at[i], at[k])) ? at[i++] : at[k++];
        }
        memcpy(at, spare, (size_t)n * sizeof *at);
    }
}

static mf_error_object *sort_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_sort_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    int64_t n = t->dims[p->axis], inner = 1;
    for (int i = (int)p->axis + 1; i < t->rank; i++)
        inner *= t->dims[i];
    int64_t lines = n ? t->size / n : 0, *at = mf_alloc((size_t)(2 * n + 1) * sizeof *at);
    if (!at)
        return mf_error_out_of_memory();
    for (int64_t line = 0; line < lines; line++) {
        sort_line l = { e, in, line / inner * inner * n + line % inner, inner, p->keys };
        sort_positions(&l, at, at + n, n);
        for (int k = 0; k < e->in_count; k++) {
            size_t size = (size_t)mf_dtype_size(e->in[k]->type->dtype);
            for (int64_t i = 0; i < n; i++)
                memcpy((char *)out[k] + (size_t)(l.first + i * inner) * size,
                       (const char *)in[k] + (size_t)(l.first + at[i] * inner) * size, size);
        }
    }
    mf_free(at);
    return NULL;
}

static const mf_param sort_params[] = { MF_PARAM(mf_sort_params, axis, MF_PARAM_INT), MF_PARAM(mf_sort_params, keys, MF_PARAM_INT), { 0 } };
static const char *const sort_samples[] = {
    "[axis=0, keys=1] f32[5]{=3,1,2,-1,0} -> f32[5]{=-1,0,1,2,3}",
    "[axis=0, keys=1] i32[4]{=3,1,3,1} i32[4]{=0,1,2,3} -> i32[4]{=1,1,3,3} i32[4]{=1,3,0,2}",
    "[axis=1, keys=1] f32[3,4]{-2:2}",
    "[axis=0, keys=1] c64[5]{=nan,1,1,2,1,-1,1,nan,0,5} -> c64[5]{=0,5,1,-1,1,2,1,nan,nan,1}",
    "[axis=0, keys=1] u32[6]{0:1000}",
    "[axis=0, keys=1] f32[0]",
    "[axis=1, keys=1] f32[2,0]",
    "[axis=0, keys=1] f32[2,0]",
    NULL,
};
/* Maps -0 to 0 and all NaNs to one, so that IEEE's total order is sort's. */
static mf_hlo_value sort_key(mf_hlo *h, mf_hlo_value x)
{
    if (!mf_dtype_is_float(x.type->dtype))
        return x;
    mf_hlo_value zero = h_full(h, x.type, 0);
    x = h_select(h, h_compare(h, "EQ", false, x, zero), zero, x);
    return h_select(h, h_compare(h, "NE", false, x, x), h_full(h, x.type, NAN), x);
}

/* Whether x comes before y; for equal keys, `rest` decides (false if it has no type). */
static mf_hlo_value sort_before(mf_hlo *h, mf_hlo_value x, mf_hlo_value y, mf_hlo_value rest)
{
    mf_hlo_value kx = sort_key(h, x), ky = sort_key(h, y), less = h_compare(h, "LT", true, kx, ky);
    return rest.type ? h_binary(h, "or", less, h_binary(h, "and", h_compare(h, "EQ", true, kx, ky), rest)) : less;
}

MF_HLO_RULE(sort_hlo)
{
    const mf_sort_params *p = e->params;
    mf_hlo_value *pairs = h_alloc(h, 2 * (int64_t)e->in_count, sizeof *pairs), before = { 0, NULL };
    if (!pairs)
        return;
    for (int i = 0; i < 2 * e->in_count; i++)
        pairs[i].type = mf_type_scalar(e->in[i / 2]->type->dtype, false);
    h_open(h, "sort", in, e->in_count, out, e->out_count, "dimension = %lld : i64, is_stable = true", (long long)p->axis);
    h_region(h, pairs, 2 * e->in_count);
    for (int k = (int)p->keys - 1; k >= 0; k--) {
        mf_hlo_value *x = &pairs[2 * k];
        if (!mf_dtype_is_complex(x[0].type->dtype)) {
            before = sort_before(h, x[0], x[1], before);
            continue;
        }
        before = sort_before(h, h_part(h, "imag", x[0]), h_part(h, "imag", x[1]), before);
        before = sort_before(h, h_part(h, "real", x[0]), h_part(h, "real", x[1]), before);
    }
    h_return(h, &before, 1);
    h_close(h, in, e->in_count, out, e->out_count);
}

const mf_op mf_op_sort = {
    .name = "sort",
    .params = sort_params,
    .params_size = sizeof(mf_sort_params),
    .type_rule = sort_type,
    .jvp = sort_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = sort_batch,
    .variance = mf_variance_join,
    .cost = sort_cost,
    .lower = mf_lower_none,
    .evaluate = sort_evaluate,
    MF_HLO_BY(sort_hlo),
    .samples = sort_samples,
};
