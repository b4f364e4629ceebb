/* argmax and argmin: the position of the greatest or least element along an axis. Invariant: the first of equal elements wins; a NaN beats
 * every number, and the first NaN wins. */
#include "ops/elementwise/loops.h"
#include <math.h>

static mf_error_object *arg_type(mf_type_context *c)
{
    const mf_arg_params *p = c->params;
    mf_error_object *e = mf_check_operands(c, 1);
    if (e)
        return e;
    const mf_type *t = c->in[0];
    if (p->axis < 0 || p->axis >= t->rank)
        return mf_type_error(c, MF_ERROR_AXIS, "axis %lld is no dimension of the operand, which has rank %d", (long long)p->axis, t->rank);
    if (t->dims[p->axis] == 0)
        return mf_type_error(c, MF_ERROR_SHAPE, "dimension %lld is empty and has no greatest or least element", (long long)p->axis);
    if (mf_dtype_is_complex(t->dtype) || t->dtype == MF_KEY)
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for floats, integers and bool, not for %s", mf_dtype_name(t->dtype));
    if (!mf_dtype_is_int(p->index_dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "the index must be an integer, not %s", mf_dtype_name(p->index_dtype));
    c->out[0] = mf_type_with_dtype(mf_type_without_axis(t, (int)p->axis), p->index_dtype);
    return NULL;
}

MF_BATCH_RULE(arg_batch)
{
    mf_arg_params wide = *(const mf_arg_params *)e->params;
    out_axis[0] = in_axis[0] - (in_axis[0] > wide.axis);
    wide.axis += wide.axis >= in_axis[0];
    out[0] = mf_emit(c->b, e->op, &wide, 1, in[0]);
}

static mf_cost arg_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = (double)e->in[0]->type->size;
    return cost;
}

/* Whether q beats p; sign is 1 for the greatest, -1 for the least. */
static bool beats(mf_dtype d, const char *q, const char *p, int sign)
{
    if (mf_dtype_is_float(d)) {
        double x = mf_load_f64(d, q), y = mf_load_f64(d, p);
        return y == y && (x != x || (sign > 0 ? x > y : x < y));
    }
    int64_t x = mf_load_i64(d, q), y = mf_load_i64(d, p);
    if (d == MF_U64)
        return sign > 0 ? (uint64_t)x > (uint64_t)y : (uint64_t)x < (uint64_t)y;
    return sign > 0 ? x > y : x < y;
}

static mf_error_object *find(const mf_eqn *e, const char *in, char *out, int sign)
{
    const mf_arg_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    int64_t strides[MF_RANK], n = t->dims[p->axis], size = mf_dtype_size(p->index_dtype);
    mf_contiguous_strides(t, strides);
    int64_t step = strides[p->axis], inner = step / mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < e->out[0]->type->size; i++) {
        const char *column = in + i / inner * n * step + i % inner * mf_dtype_size(t->dtype);
        int64_t best = 0;
        for (int64_t j = 1; j < n; j++)
            if (beats(t->dtype, column + j * step, column + best * step, sign))
                best = j;
        mf_store_i64(p->index_dtype, out + i * size, best);
    }
    return NULL;
}

MF_EVALUATE_RULE(argmax_evaluate) { return find(e, in[0], out[0], 1); }
MF_EVALUATE_RULE(argmin_evaluate) { return find(e, in[0], out[0], -1); }

static const mf_param arg_params[] = {
    MF_PARAM(mf_arg_params, axis, MF_PARAM_INT),
    MF_PARAM(mf_arg_params, index_dtype, MF_PARAM_DTYPE),
    { 0 },
};

static const char *const argmax_samples[] = {
    "[axis=1, index_dtype=i32] f32[2,3]{=1,3,3,nan,9,nan} -> i32[2]{=1,0}",
    "[axis=0, index_dtype=i32] i32[3,2]{=1,-5,1,-2,0,-2} -> i32[2]{=0,1}",
    "[axis=0, index_dtype=i64] bool[3]{=0,1,1} -> i64[]{=1}",
    "[axis=1, index_dtype=i32] f64[2,3,4]{-2:2}",
    "[axis=0, index_dtype=i32] bf16[3]{=-0.0,0,-0.0} -> i32[]{=0}",
    "[axis=0, index_dtype=u8] u64[2]{=5,18446744073709551615} -> u8[]{=1}",
    NULL,
};
/* Whether the first of two pairs of value and index is the result. floats: the dtype has NaNs. */
static mf_hlo_value first_wins(mf_hlo *h, const char *direction, bool floats, const mf_hlo_value *x, const mf_hlo_value *y)
{
    mf_hlo_value beats = h_compare(h, direction, false, x[0], y[0]), same = h_compare(h, "EQ", false, x[0], y[0]);
    if (floats) {
        mf_hlo_value x_nan = h_compare(h, "NE", false, x[0], x[0]), y_nan = h_compare(h, "NE", false, y[0], y[0]);
        beats = h_binary(h, "or", beats, h_binary(h, "and", x_nan, h_unary(h, "not", y_nan)));
        same = h_binary(h, "or", same, h_binary(h, "and", x_nan, y_nan));
    }
    return h_binary(h, "or", beats, h_binary(h, "and", same, h_compare(h, "LT", false, x[1], y[1])));
}

MF_HLO_RULE(arg_hlo)
{
    const mf_arg_params *p = e->params;
    bool most = e->op == &mf_op_argmax;
    const mf_type *t = in[0].type, *value = mf_type_scalar(t->dtype, false), *index = mf_type_scalar(p->index_dtype, false);
    mf_hlo_value operands[4] = { in[0], h_iota(h, mf_type_with_dtype(t, p->index_dtype), p->axis),
                                 h_identity(h, most ? MF_REDUCE_MAX : MF_REDUCE_MIN, value), h_full(h, index, 0) };
    mf_hlo_value results[2] = { { 0, mf_type_with_dtype(e->out[0]->type, t->dtype) }, { 0, e->out[0]->type } };
    mf_hlo_value in_pairs[4] = { { 0, value }, { 0, index }, { 0, value }, { 0, index } }, chosen[2];
    h_open(h, "reduce", operands, 4, results, 2, "dimensions = %s", h_array(h, &p->axis, 1));
    h_region(h, in_pairs, 4);
    mf_hlo_value first = first_wins(h, most ? "GT" : "LT", mf_dtype_is_float(t->dtype), in_pairs, in_pairs + 2);
    for (int i = 0; i < 2; i++)
        chosen[i] = h_select(h, first, in_pairs[i], in_pairs[2 + i]);
    h_return(h, chosen, 2);
    h_close(h, operands, 4, results, 2);
    out[0] = results[1];
}

const mf_op mf_op_argmax = {
    .name = "argmax",
    .params = arg_params,
    .params_size = sizeof(mf_arg_params),
    .type_rule = arg_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = arg_batch,
    .variance = mf_variance_join,
    .cost = arg_cost,
    .lower = mf_lower_none,
    .evaluate = argmax_evaluate,
    MF_HLO_BY(arg_hlo),
    .samples = argmax_samples,
};

static const char *const argmin_samples[] = {
    "[axis=1, index_dtype=i32] f32[2,3]{=3,1,1,2,nan,nan} -> i32[2]{=1,1}",
    "[axis=0, index_dtype=i32] i32[3,2]{=1,-5,1,-2,0,-5} -> i32[2]{=2,0}",
    "[axis=2, index_dtype=i32] f64[2,3,4]{-2:2}",
    "[axis=0, index_dtype=i32] f16[3]{=1,0,-0.0} -> i32[]{=1}",
    NULL,
};
const mf_op mf_op_argmin = {
    .name = "argmin",
    .params = arg_params,
    .params_size = sizeof(mf_arg_params),
    .type_rule = arg_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = arg_batch,
    .variance = mf_variance_join,
    .cost = arg_cost,
    .lower = mf_lower_none,
    .evaluate = argmin_evaluate,
    MF_HLO_BY(arg_hlo),
    .samples = argmin_samples,
};
