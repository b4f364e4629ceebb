/* Ops over sliding windows: reduce_window_sum, _max, _min, and the ops of their derivatives: select_and_scatter_add (the gradient of a
 * maximum goes to where it came from) and select_and_gather_add (its transpose). The public functions are in lax/array/window_wrap.c;
 * window_evaluate.c iterates over the windows.
 *
 * Invariant: places in the padding and between dilated elements are skipped, so they act as 0, the lowest or the highest value. Complex
 * numbers have maxima and minima in JAX's order and, as there, no derivatives of them. The derivative of a minimum is that of the maximum
 * of the negated operand, so both select ops choose by `ge` only. */
#include "ops/reduce/window_evaluate.h"
#include "ops/reduce/window_hlo.h"
#include "ops/shape/shape.h"

/* ---- types */
static mf_error_object *check_window(const mf_type_context *c, const mf_window_params *p, int rank)
{
    const mf_intlist *lists[] = { p->window, p->strides, p->padding_low, p->padding_high, p->base_dilation, p->window_dilation };
    static const char *const names[] = { "window", "strides", "padding_low", "padding_high", "base_dilation", "window_dilation" };
    for (int k = 0; k < 6; k++) {
        if (lists[k]->count != rank)
            return mf_type_error(c, MF_ERROR_SHAPE, "%s must have one entry for each of the operand's %d dimensions, not %d", names[k],
                                 rank, lists[k]->count);
        mf_error_object *e = shape_check_steps(c, names[k], lists[k], k != 2 && k != 3);
        if (e)
            return e;
    }
    return NULL;
}

int64_t mf_window_count(const mf_window_params *p, int i, int64_t size)
{
    return shape_windows(size, p->padding_low->at[i], p->padding_high->at[i], p->base_dilation->at[i], p->window->at[i],
                         p->window_dilation->at[i], p->strides->at[i]);
}

static const mf_type *window_result(const mf_window_params *p, const mf_type *t)
{
    int64_t dims[MF_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = mf_window_count(p, i, t->dims[i]);
    return mf_type_with_shape(t, t->rank, dims);
}

static mf_error_object *window_type(mf_type_context *c)
{
    mf_error_object *e = check_window(c, c->params, c->in[0]->rank);
    if (e)
        return e;
    if (c->in[0]->dtype == MF_KEY)
        return mf_type_error(c, MF_ERROR_DTYPE, "it is not defined for %s", mf_dtype_name(c->in[0]->dtype));
    c->out[0] = window_result(c->params, c->in[0]);
    return NULL;
}

/* (source, operand): source has one element per window of operand. */
static mf_error_object *scatter_type(mf_type_context *c)
{
    const mf_type *x = c->in[1];
    mf_error_object *e = check_window(c, c->params, x->rank);
    if (e)
        return e;
    if (c->in[0]->dtype != x->dtype || !mf_dtype_is_float(x->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "source and operand must have one floating dtype");
    const mf_type *want = window_result(c->params, x);
    if (!want || !mf_type_same_shape(want, c->in[0]))
        return mf_type_error(c, MF_ERROR_SHAPE, "the source must have the shape of the windows, %s",
                             want ? mf_type_name(want) : "which is too large");
    c->out[0] = mf_type_strong(x);
    return NULL;
}

/* (tangents, operand): both of one shape. */
static mf_error_object *gather_type(mf_type_context *c)
{
    mf_error_object *e = check_window(c, c->params, c->in[1]->rank);
    if (e)
        return e;
    if (c->in[0]->dtype != c->in[1]->dtype || !mf_dtype_is_float(c->in[0]->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "tangents and operand must have one floating dtype");
    if (!mf_type_same_shape(c->in[0], c->in[1]))
        return mf_type_error(c, MF_ERROR_SHAPE, "tangents and operand must have one shape");
    const mf_type *t = window_result(c->params, c->in[1]);
    c->out[0] = t ? mf_type_strong(t) : NULL;
    return NULL;
}

/* ---- derivatives */
/* The cotangent, dilated by the strides and padded, is summed over windows that start at every base_dilation-th place. If some padding is
 * negative, padding is a separate equation. */
static void sum_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                          mf_variable **ct_in)
{
    const mf_window_params *p = e->params;
    const mf_type *x = e->in[0]->type, *y = e->out[0]->type;
    int64_t low[MF_RANK], high[MF_RANK], interior[MF_RANK], zeros[MF_RANK] = { 0 }, ones[MF_RANK];
    bool cuts = false;
    for (int i = 0; i < x->rank; i++) {
        int64_t window = shape_dilated(p->window->at[i], p->window_dilation->at[i]);
        low[i] = window - p->padding_low->at[i] - 1;
        high[i] = shape_dilated(x->dims[i], p->base_dilation->at[i]) + window - 1 - shape_dilated(y->dims[i], p->strides->at[i]) - low[i];
        interior[i] = p->strides->at[i] - 1;
        ones[i] = 1;
        cuts |= low[i] < 0 || high[i] < 0;
    }
    (void)linear, (void)in;
    mf_variable *padded = cuts ? e_pad(b, ct[0], 0, low, high, interior) : ct[0];
    mf_window_params back = { p->window,
                              p->base_dilation,
                              mf_ints_intern(cuts ? zeros : low, x->rank),
                              mf_ints_intern(cuts ? zeros : high, x->rank),
                              cuts ? mf_ints_intern(ones, x->rank) : p->strides,
                              p->window_dilation };
    ct_in[0] = mf_emit(b, &mf_op_reduce_window_sum, &back, 1, padded);
}

static void max_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = mf_emit(b, &mf_op_select_and_gather_add, e->params, 2, tin[0], e_convert(b, in[0], in[0]->type->dtype));
}

static void min_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = mf_emit(b, &mf_op_select_and_gather_add, e->params, 2, tin[0], e_neg(b, in[0]));
}

/* For both select ops: linear in the first operand; the choice itself has no derivative. */
static void select_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                       mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = tin[0] ? mf_emit(b, e->op, e->params, 2, tin[0], in[1]) : NULL;
}

static void scatter_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                              mf_variable **ct_in)
{
    if (linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[0] = mf_emit(b, &mf_op_select_and_gather_add, e->params, 2, ct[0], in[1]);
}

static void gather_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                             mf_variable **ct_in)
{
    if (linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[0] = mf_emit(b, &mf_op_select_and_scatter_add, e->params, 2, ct[0], in[1]);
}

/* ---- batching: a window of 1 along the new dimension */
static mf_window_params widened(const mf_window_params *p, int at)
{
    return (mf_window_params){ shape_inserted(p->window, at, 1),        shape_inserted(p->strides, at, 1),
                               shape_inserted(p->padding_low, at, 0),   shape_inserted(p->padding_high, at, 0),
                               shape_inserted(p->base_dilation, at, 1), shape_inserted(p->window_dilation, at, 1) };
}

static void window_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    int at = in_axis[0] >= 0 ? in_axis[0] : in_axis[e->in_count - 1];
    mf_window_params p = widened(e->params, at);
    mf_variable *moved[2] = { NULL, NULL };
    for (int i = 0; i < e->in_count && i < 2; i++)
        moved[i] = e_batched_at(c, in[i], in_axis[i], at);
    out[0] = mf_emit_eqn(c->b, e->op, &p, moved, e->in_count)->out[0];
    out_axis[0] = at;
}

static mf_cost window_cost(const mf_eqn *e)
{
    const mf_window_params *p = e->params;
    mf_cost cost = mf_cost_bytes(e);
    const mf_type *windows = e->op == &mf_op_select_and_scatter_add ? e->in[0]->type : e->out[0]->type;
    cost.flops = (double)windows->size;
    for (int i = 0; i < p->window->count; i++)
        cost.flops *= (double)p->window->at[i];
    return cost;
}

/* ---- ops */
static const mf_param window_params[] = {
    MF_PARAM(mf_window_params, window, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, strides, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, padding_low, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, padding_high, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, base_dilation, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, window_dilation, MF_PARAM_INTS),
    { 0 },
};
/* clang-format off */
#define POOL_2X2 "[window=(1,2,2,1), strides=(1,2,2,1), padding_low=(0,0,0,0), padding_high=(0,0,0,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] "
#define POOL_3X3 "[window=(1,3,3,1), strides=(1,2,1,1), padding_low=(0,1,0,0), padding_high=(0,1,2,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] "
#define LINE(window, stride, low, high, base, dilation) \
    "[window=(" window "), strides=(" stride "), padding_low=(" low "), padding_high=(" high "), base_dilation=(" base "), window_dilation=(" dilation ")] "
#define WINDOW_SAMPLES \
    POOL_2X2 "f32[1,4,4,2]{-2:2}", \
    POOL_3X3 "f32[2,5,4,1]{-2:2}", \
    LINE("3", "2", "1", "1", "1", "1") "f32[7]{-2:2}", \
    LINE("2", "1", "0", "0", "1", "3") "f64[7]{-2:2}", \
    LINE("2", "1", "1", "0", "2", "1") "f32[4]{-2:2}", \
    LINE("2", "3", "-1", "2", "1", "1") "f32[6]{-2:2}", \
    LINE("2", "1", "0", "0", "1", "1") "i32[5]{-9:9}", \
    LINE("2", "1", "0", "0", "1", "1") "u8[5]{0:255}", \
    LINE("2", "1", "1", "1", "1", "1") "bf16[5]{-2:2}", \
    LINE("4", "1", "0", "0", "1", "1") "f32[3]{-2:2}", \
    LINE("2", "1", "1", "1", "1", "1") "i32[0]{-2:2}", \
    "[] f32[]{-2:2}"
static const char *const max_samples[] = {
    WINDOW_SAMPLES,
    POOL_2X2 "f32[1,2,2,2]{=-0.0,0,0,-0.0,-0.0,-0.0,-0.0,-0.0} -> f32[1,1,1,2]{=0,0}",
    LINE("2", "1", "1", "0", "1", "1") "f32[4]{=-0.0,0,-0.0,-0.0} -> f32[4]{=-0.0,0,0,-0.0}",
    LINE("2", "1", "0", "0", "1", "1") "bf16[4]{=0,-0.0,-0.0,nan} -> bf16[3]{=0,-0.0,nan}",
    NULL,
};
static const char *const min_samples[] = {
    WINDOW_SAMPLES,
    POOL_2X2 "f32[1,2,2,2]{=-0.0,0,0,-0.0,0,0,0,0} -> f32[1,1,1,2]{=-0.0,-0.0}",
    LINE("2", "1", "1", "0", "1", "1") "f16[4]{=0,-0.0,0,0} -> f16[4]{=0,-0.0,-0.0,0}",
    NULL,
};
static const char *const sum_samples[] = {
    WINDOW_SAMPLES,
    POOL_3X3 "c64[2,5,4,1]{-2:2}",
    LINE("2", "1", "1", "0", "2", "1") "c128[4]{-2:2}",
    NULL,
};
/* source, operand */
static const char *const scatter_samples[] = {
    LINE("2", "2", "0", "0", "1", "1") "f32[2]{=5,7} f32[4]{=1,1,2,3} -> f32[4]{=5,0,0,7}",
    LINE("2", "2", "0", "0", "1", "1") "f32[2]{=5,7} f32[4]{=-0.0,0,0,-0.0} -> f32[4]{=5,0,7,0}",
    LINE("2", "1", "0", "0", "1", "1") "f32[3]{=1,2,4} f32[4]{=0,3,3,0} -> f32[4]{=0,3,4,0}",
    LINE("2", "1", "0", "1", "1", "1") "f32[2]{=1,2} f32[2]{=1,nan} -> f32[2]{=0,1}",
    LINE("2", "1", "1", "1", "1", "1") "f32[4]{=1,2,3,4} f32[3]{=-inf,-inf,1} -> f32[3]{=2,0,7}",
    POOL_2X2 "f32[1,2,2,2]{-2:2} f32[1,4,4,2]{-2:2}",
    POOL_3X3 "f32[1,3,4,1]{-2:2} f32[1,5,4,1]{-2:2}",
    LINE("2", "1", "0", "0", "1", "3") "f64[4]{-2:2} f64[7]{-2:2}",
    LINE("2", "1", "2", "2", "1", "1") "bf16[6]{-2:2} bf16[3]{-2:2}",
    NULL,
};
/* tangents, operand */
static const char *const gather_samples[] = {
    LINE("2", "2", "0", "0", "1", "1") "f32[4]{=5,6,7,8} f32[4]{=1,1,2,3} -> f32[2]{=5,8}",
    LINE("2", "1", "0", "1", "1", "1") "f32[2]{=1,2} f32[2]{=1,nan} -> f32[2]{=2,2}",
    LINE("2", "1", "1", "1", "1", "1") "f32[3]{=1,2,3} f32[3]{=-inf,-inf,1} -> f32[4]{=0,0,3,3}",
    POOL_2X2 "f32[1,4,4,2]{-2:2} f32[1,4,4,2]{-2:2}",
    POOL_3X3 "f32[1,5,4,1]{-2:2} f32[1,5,4,1]{-2:2}",
    LINE("2", "1", "0", "0", "1", "3") "f64[7]{-2:2} f64[7]{-2:2}",
    LINE("2", "1", "2", "2", "1", "1") "f32[3]{-2:2} f32[3]{-2:2}",
    NULL,
};
/* clang-format on */

const mf_op mf_op_reduce_window_sum = {
    .name = "reduce_window_sum",
    .reduced = MF_REDUCED_WINDOWS,
    .reducer = MF_REDUCE_SUM,
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = window_type,
    .jvp = mf_jvp_linear,
    .transpose = sum_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = mf_window_evaluate,
    MF_HLO_BY(mf_window_hlo),
    .samples = sum_samples,
};

const mf_op mf_op_reduce_window_max = {
    .name = "reduce_window_max",
    .reduced = MF_REDUCED_WINDOWS,
    .reducer = MF_REDUCE_MAX,
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = window_type,
    .jvp = max_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = mf_window_evaluate,
    MF_HLO_BY(mf_window_hlo),
    .samples = max_samples,
};

const mf_op mf_op_reduce_window_min = {
    .name = "reduce_window_min",
    .reduced = MF_REDUCED_WINDOWS,
    .reducer = MF_REDUCE_MIN,
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = window_type,
    .jvp = min_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = mf_window_evaluate,
    MF_HLO_BY(mf_window_hlo),
    .samples = min_samples,
};

const mf_op mf_op_select_and_scatter_add = {
    .name = "select_and_scatter_add",
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = scatter_type,
    .jvp = select_jvp,
    .transpose = scatter_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = mf_select_scatter_evaluate,
    MF_HLO_BY(mf_select_scatter_hlo),
    .samples = scatter_samples,
};

const mf_op mf_op_select_and_gather_add = {
    .name = "select_and_gather_add",
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = gather_type,
    .jvp = select_jvp,
    .transpose = gather_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = mf_select_gather_evaluate,
    MF_HLO_BY(mf_select_gather_hlo),
    .samples = gather_samples,
};
