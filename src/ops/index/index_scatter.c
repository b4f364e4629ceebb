/* scatter, scatter_add, scatter_mul, scatter_min and scatter_max, with XLA's dimension numbers: operand, indices, updates.
 *
 * Invariant: updates are applied in row-major order of their index vectors: of several updates of one element scatter keeps the last, and
 * sums and products are computed in that order. A NaN wins in min and max. Updates out of bounds are dropped (index_windows.h). */
#include "ops/index/index_windows.h"
#include "ops/elementwise/loops.h"
#include "transform/rules/tangent.h"
#include <math.h>
#include <string.h>

/* The size of the window, by dimension of the operand. */
static void window_sizes(const index_numbers *d, const mf_type *operand, const mf_type *updates, int64_t *size)
{
    for (int i = 0, next = 0; i < operand->rank; i++)
        size[i] = index_is_kept(d, i) ? updates->dims[d->window->at[next++]] : 1;
}

static mf_error_object *scatter_type(mf_type_context *c)
{
    const index_numbers d = index_numbers_of_scatter(c->params);
    const mf_type *x = c->in[0], *indices = c->in[1], *u = c->in[2];
    int64_t size[MF_RANK];
    mf_error_object *e = index_check(c, &d, u->rank);
    if (e)
        return e;
    if (u->dtype != x->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "the updates' dtype must be the operand's");
    if (u->rank != indices->rank - 1 + d.window->count)
        return mf_type_error(c, MF_ERROR_SHAPE, "the updates must have rank %d", indices->rank - 1 + d.window->count);
    window_sizes(&d, x, u, size);
    for (int i = 0; i < x->rank; i++)
        if (index_is_kept(&d, i) && size[i] > x->dims[i])
            return mf_type_error(c, MF_ERROR_SHAPE, "the window is larger than the operand in dimension %d", i);
    for (int i = 0, next = 0; i < u->rank; i++)
        if (!mf_ints_has(d.window, i) && u->dims[i] != indices->dims[next++])
            return mf_type_error(c, MF_ERROR_SHAPE, "the updates' dimension %d must have the size of the indices' dimension %d", i,
                                 next - 1);
    c->out[0] = x->weak && !u->weak ? mf_type_strong(x) : x;
    return NULL;
}

/* scatter_add is linear in operand and updates together; so is scatter, as the last update of an element always wins. */
static void scatter_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                        mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = NULL;
    if (!tin[0] && !tin[2])
        return;
    tout[0] = mf_emit(b, e->op, e->params, 3, mf_tangent_or_zeros(b, tin[0], e->in[0]->type), in[1],
                      mf_tangent_or_zeros(b, tin[2], e->in[2]->type));
}

/* The elements of x in the places of the updates. */
static mf_variable *gathered(mf_builder *b, const mf_eqn *e, mf_variable *x, mf_variable *indices)
{
    const index_numbers d = index_numbers_of_scatter(e->params);
    int64_t size[MF_RANK];
    window_sizes(&d, e->in[0]->type, e->in[2]->type, size);
    mf_gather_params p = { d.window,
                           d.collapsed,
                           d.map,
                           d.operand_batching,
                           d.indices_batching,
                           mf_ints_intern(size, e->in[0]->type->rank),
                           d.mode == INDEX_CLIP ? INDEX_CLIP : INDEX_FILL_ZERO };
    return mf_emit(b, &mf_op_gather, &p, 2, x, indices);
}

static void scatter_add_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                  mf_variable **ct_in)
{
    if (linear[0])
        ct_in[0] = ct[0];
    if (linear[2])
        ct_in[2] = gathered(b, e, ct[0], in[1]);
}

/* Which updates were kept: numbers the updates, scatters the numbers, and tests which ones are still there. */
static mf_variable *winners(mf_builder *b, const mf_eqn *e, mf_variable *indices)
{
    const mf_type *u = e->in[2]->type;
    mf_dtype dtype = u->size < INT32_MAX ? MF_I32 : MF_I64;
    mf_variable *number = e_shift(b, e_reshape_type(b, e_iota(b, dtype, 1, &u->size, 0), u), 1);
    mf_variable *nothing = e_full(b, mf_type_with_dtype(e->in[0]->type, dtype), 0);
    mf_variable *left = gathered(b, e, mf_emit(b, &mf_op_scatter, e->params, 3, nothing, indices, number), indices);
    return e_compare(b, &mf_op_eq, left, number);
}

static void scatter_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                              mf_variable **ct_in)
{
    mf_variable *none = mf_tangent_zeros(b, e->in[2]->type);
    if (linear[0])
        ct_in[0] = mf_emit(b, e->op, e->params, 3, ct[0], in[1], none);
    if (linear[2])
        ct_in[2] = e_select(b, winners(b, e, in[1]), gathered(b, e, ct[0], in[1]), none);
}

static void scatter_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out,
                          int *out_axis)
{
    mf_scatter_params p = *(const mf_scatter_params *)e->params;
    mf_variable *x = e_batched_at(c, in[0], in_axis[0], 0), *u = e_batched_at(c, in[2], in_axis[2], 0), *i = in[1];
    p.update_window_dims = shape_shifted(p.update_window_dims, 0);
    p.inserted_window_dims = shape_shifted(p.inserted_window_dims, 0);
    p.scatter_dims_to_operand_dims = shape_shifted(p.scatter_dims_to_operand_dims, 0);
    p.operand_batching_dims = shape_shifted(p.operand_batching_dims, 0);
    if (in_axis[1] < 0)
        p.update_window_dims = shape_inserted(p.update_window_dims, 0, 0);
    else {
        i = e_move_axis(c->b, i, in_axis[1], 0);
        p.operand_batching_dims = shape_inserted(p.operand_batching_dims, 0, 0);
        p.scatter_indices_batching_dims = shape_inserted(shape_shifted(p.scatter_indices_batching_dims, 0), 0, 0);
    }
    out[0] = mf_emit(c->b, e->op, &p, 3, x, i, u);
    out_axis[0] = 0;
}

/* ---- evaluation */
static double joined_real(const mf_op *op, double x, double y)
{
    if (op == &mf_op_scatter_add)
        return x + y;
    if (op == &mf_op_scatter_mul)
        return x * y;
    return op == &mf_op_scatter_max ? mf_greater_real(x, y) : mf_lesser_real(x, y);
}

static int64_t joined_integer(const mf_op *op, mf_dtype dtype, int64_t x, int64_t y)
{
    if (op == &mf_op_scatter_add)
        return dtype == MF_BOOL ? x | y : (int64_t)((uint64_t)x + (uint64_t)y);
    if (op == &mf_op_scatter_mul)
        return (int64_t)((uint64_t)x * (uint64_t)y);
    bool less = dtype == MF_U64 ? (uint64_t)x < (uint64_t)y : x < y;
    return less == (op == &mf_op_scatter_max) ? y : x;
}

static void join_complex(const mf_op *op, mf_dtype part, char *out, const char *in)
{
    double x[2], y[2];
    mf_convert(MF_F64, x, part, out, 2);
    mf_convert(MF_F64, y, part, in, 2);
    double sum[2] = { x[0] + y[0], x[1] + y[1] }, product[2] = { x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0] };
    const double *joined = op == &mf_op_scatter_add   ? sum
                           : op == &mf_op_scatter_mul ? product
                           : op == &mf_op_scatter_max ? (mf_less_pair(y, x) ? x : y)
                                                      : (mf_less_pair(x, y) ? x : y);
    mf_convert(part, out, MF_F64, joined, 2);
}

/* Combines one element: out = out op in. f16 and bf16 are rounded each time. */
static void join_element(const mf_op *op, mf_dtype dtype, char *out, const char *in)
{
    if (dtype == MF_F32) {
        float x, y;
        memcpy(&x, out, sizeof x);
        memcpy(&y, in, sizeof y);
        x = (float)joined_real(op, (double)x, (double)y); /* exact in double, so rounded once */
        memcpy(out, &x, sizeof x);
    } else if (mf_dtype_is_complex(dtype))
        join_complex(op, dtype == MF_C64 ? MF_F32 : MF_F64, out, in);
    else if (mf_dtype_is_float(dtype))
        mf_store_f64(dtype, out, joined_real(op, mf_load_f64(dtype, out), mf_load_f64(dtype, in)));
    else
        mf_store_i64(dtype, out, joined_integer(op, dtype, mf_load_i64(dtype, out), mf_load_i64(dtype, in)));
}

static void join_row(const mf_op *op, mf_dtype dtype, int64_t n, char *out, int64_t out_step, const char *in, int64_t in_step)
{
    for (int64_t i = 0; i < n; i++)
        join_element(op, dtype, out + i * out_step, in + i * in_step);
}

static void join_window(const mf_op *op, const index_windows *w, int axis, char *out, const char *in)
{
    int last = w->operand->rank - 1;
    if (axis >= last) {
        join_row(op, w->operand->dtype, last < 0 ? 1 : w->size[last], out, last < 0 ? 0 : w->operand_strides[last], in,
                 last < 0 ? 0 : w->side_strides[last]);
        return;
    }
    for (int64_t i = 0; i < w->size[axis]; i++)
        join_window(op, w, axis + 1, out + i * w->operand_strides[axis], in + i * w->side_strides[axis]);
}

static mf_error_object *scatter_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const index_numbers d = index_numbers_of_scatter(e->params);
    const mf_type *x = e->in[0]->type, *u = e->in[2]->type;
    int64_t size[MF_RANK], to, from;
    index_windows w;
    if (x->bytes && out[0] != in[0])
        memcpy(out[0], in[0], (size_t)x->bytes);
    if (u->size == 0)
        return NULL;
    window_sizes(&d, x, u, size);
    index_open(&w, &d, x, e->in[1]->type, in[1], u, NULL, size);
    for (int64_t i = 0; i < w.count; i++) {
        if (!index_next(&w, &to, &from))
            continue;
        if (e->op == &mf_op_scatter)
            mf_copy_strided(x->rank, w.size, mf_dtype_size(x->dtype), (char *)out[0] + to, w.operand_strides, (const char *)in[2] + from,
                            w.side_strides);
        else
            join_window(e->op, &w, 0, (char *)out[0] + to, (const char *)in[2] + from);
    }
    return NULL;
}

static const mf_param scatter_params[] = {
    MF_PARAM(mf_scatter_params, update_window_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, inserted_window_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, scatter_dims_to_operand_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, operand_batching_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, scatter_indices_batching_dims, MF_PARAM_INTS),
    MF_PARAM(mf_scatter_params, mode, MF_PARAM_INT),
    { 0 },
};
/* clang-format off */
#define SCATTER_SAMPLES                                                                                                                \
    "[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] "                                    \
    "f32[4,3]{-2:2} i32[4,1]{=2,0,2,9} f32[4,3]{-2:2}",                                                                                \
    "[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] "                                            \
    "f32[4,3]{-2:2} i32[4,1]{=2,-1,4,2} f32[4,3]{-2:2}",                                                                               \
    "[inserted_window_dims=(0,1), scatter_dims_to_operand_dims=(0,1), mode=1] f32[4,3]{-2:2} i32[3,2]{=0,1,3,2,0,1} f32[3]{-2:2}",     \
    "[update_window_dims=(1,2), scatter_dims_to_operand_dims=(0,1), mode=1] f64[4,3]{-2:2} i32[2,2]{=0,1,3,2} f64[2,2,2]{-2:2}",       \
    "[inserted_window_dims=(1), scatter_dims_to_operand_dims=(1), operand_batching_dims=(0), scatter_indices_batching_dims=(0)] "      \
    "f32[2,4]{-2:2} i32[2,3,1]{0:3} f32[2,3]{-2:2}",                                                                                   \
    "[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] "                                            \
    "f32[4,3]{-2:2} i64[0,1]{0:1} f32[0,3]{-2:2}",                                                                                     \
    "[update_window_dims=(0), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] i32[3,2]{-9:9} i32[1]{=1} i32[2]{-9:9}"
static const char *const scatter_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] f32[3]{=1,2,3} i32[4,1]{=0,5,0,2} f32[4]{=7,8,9,4} -> f32[3]{=9,2,4}",
    SCATTER_SAMPLES, NULL,
};
static const char *const scatter_add_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] i32[3]{=1,2,3} i32[4,1]{=0,5,0,2} i32[4]{=7,8,9,4} -> i32[3]{=17,2,7}",
    SCATTER_SAMPLES, NULL,
};
/* clang-format on */
/* Clamps index vectors so that their windows are inside. */
static mf_hlo_value clipped_hlo(mf_hlo *h, const mf_eqn *e, const index_numbers *d, mf_hlo_value indices)
{
    int64_t size[MF_RANK];
    window_sizes(d, e->in[0]->type, e->in[2]->type, size);
    mf_hlo_value wide = index_signed_hlo(h, indices);
    mf_hlo_value high = index_last_starts(h, d, e->in[0]->type, size, wide.type);
    return h_op(h, "clamp", wide.type, (mf_hlo_value[]){ h_full(h, wide.type, 0), wide, high }, 3, NULL);
}

MF_HLO_RULE(scatter_hlo)
{
    const mf_scatter_params *p = e->params;
    const index_numbers d = index_numbers_of_scatter(e->params);
    mf_hlo_value operands[3] = { in[0], p->mode == INDEX_CLIP && in[2].type->size ? clipped_hlo(h, e, &d, in[1]) : in[1], in[2] };
    out[0].type = e->out[0]->type;
    h_open(h, "scatter", operands, 3, out, 1,
           "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = %s, inserted_window_dims = %s, "
           "input_batching_dims = %s, scatter_indices_batching_dims = %s, scatter_dims_to_operand_dims = %s, index_vector_dim = %d>, "
           "unique_indices = false",
           h_list(h, p->update_window_dims), h_list(h, p->inserted_window_dims), h_list(h, p->operand_batching_dims),
           h_list(h, p->scatter_indices_batching_dims), h_list(h, p->scatter_dims_to_operand_dims), e->in[1]->type->rank - 1);
    h_reducer_region(h, e->op->reducer, e->out[0]->type->dtype);
    h_close(h, operands, 3, out, 1);
}

const mf_op mf_op_scatter = {
    .name = "scatter",
    .reduced = MF_REDUCED_INDICES,
    .reducer = MF_REDUCE_SET,
    .operands = 3,
    .params = scatter_params,
    .params_size = sizeof(mf_scatter_params),
    .type_rule = scatter_type,
    .jvp = scatter_jvp,
    .transpose = scatter_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = scatter_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = scatter_evaluate,
    MF_HLO_BY(scatter_hlo),
    .samples = scatter_samples,
};

const mf_op mf_op_scatter_add = {
    .name = "scatter_add",
    .reduced = MF_REDUCED_INDICES,
    .reducer = MF_REDUCE_SUM,
    .operands = 3,
    .params = scatter_params,
    .params_size = sizeof(mf_scatter_params),
    .type_rule = scatter_type,
    .jvp = scatter_jvp,
    .transpose = scatter_add_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = scatter_batch,
    .variance = mf_variance_join,
    .cost = mf_cost_elementwise,
    .lower = mf_lower_none,
    .evaluate = scatter_evaluate,
    MF_HLO_BY(scatter_hlo),
    .samples = scatter_add_samples,
};

/* ---- scatter_mul: linear in the operand; the derivative with respect to an update is the product of all other factors in its place */
static void scatter_mul_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                                  mf_variable **ct_in)
{
    if (linear[2])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[0] = mf_emit(b, e->op, e->params, 3, ct[0], in[1], in[2]);
}

/* The product of the other updates in each update's place. Zeros are handled by a product of the nonzero updates and a count of zeros. */
static mf_variable *other_factors(mf_builder *b, const mf_eqn *e, mf_variable *indices, mf_variable *updates)
{
    const mf_type *x = mf_type_strong(e->in[0]->type);
    mf_variable *zero = e_zeros_like(b, updates), *one = e_full(b, updates->type, 1), *is_zero = e_compare(b, &mf_op_eq, updates, zero);
    mf_variable *solid = e_select(b, is_zero, one, updates), *ones = e_full(b, x, 1), *none = e_full(b, x, 0);
    mf_variable *product = gathered(b, e, mf_emit(b, &mf_op_scatter_mul, e->params, 3, ones, indices, solid), indices);
    mf_variable *zeros = gathered(b, e, mf_emit(b, &mf_op_scatter_add, e->params, 3, none, indices, e_select(b, is_zero, one, zero)),
                                  indices);
    mf_variable *alone = e_compare(b, &mf_op_eq, zeros, e_select(b, is_zero, one, zero)); /* no zeros, or only its own */
    return e_select(b, alone, e_div(b, product, solid), zero);
}

static void scatter_mul_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                            mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *by_x = tin[0] ? mf_emit(b, e->op, e->params, 3, tin[0], in[1], in[2]) : NULL;
    tout[0] = by_x;
    if (!tin[2])
        return;
    mf_variable *updates = e_convert_type(b, in[2], mf_type_strong(in[2]->type));
    mf_variable *x = e_convert_type(b, gathered(b, e, in[0], in[1]), updates->type);
    mf_variable *slope = e_mul(b, x, other_factors(b, e, in[1], updates));
    tout[0] = mf_emit(b, &mf_op_scatter_add, e->params, 3, by_x ? by_x : mf_tangent_zeros(b, e->in[0]->type), in[1],
                      e_mul(b, tin[2], slope));
}

/* ---- scatter_min, scatter_max: elements equal to the result, the operand's included, share its tangent equally */
static void scatter_extreme_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                                mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    const mf_type *t = mf_type_strong(e->in[0]->type), *u = mf_type_strong(e->in[2]->type);
    mf_variable *is_nan = e_compare(b, &mf_op_ne, in[0], in[0]);
    mf_variable *same = e_compare(b, &mf_op_eq, in[0], e_convert_type(b, out[0], in[0]->type));
    mf_variable *stays = e_convert(b, e_binary(b, &mf_op_or, is_nan, same), t->dtype);
    mf_variable *best = e_convert_type(b, gathered(b, e, out[0], in[1]), in[2]->type);
    mf_variable *wins = e_convert(b, e_compare(b, &mf_op_eq, in[2], best), u->dtype);
    mf_variable *count = mf_emit(b, &mf_op_scatter_add, e->params, 3, stays, in[1], wins);
    mf_variable *kept = tin[0] ? e_mul(b, tin[0], stays) : mf_tangent_zeros(b, e->in[0]->type);
    mf_variable *sum = tin[2] ? mf_emit(b, &mf_op_scatter_add, e->params, 3, kept, in[1], e_mul(b, tin[2], wins)) : kept;
    tout[0] = e_div(b, sum, e_max(b, count, e_full(b, t, 1)));
}

static mf_error_object *scatter_ordered_type(mf_type_context *c)
{
    if (c->in[0]->dtype == MF_KEY)
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for floats, integers, complex numbers and bool, not for %s",
                             mf_dtype_name(c->in[0]->dtype));
    return scatter_type(c);
}

/* clang-format off */
static const char *const scatter_mul_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] i32[3]{=1,2,3} i32[4,1]{=0,5,0,2} i32[4]{=7,8,9,4} -> i32[3]{=63,2,12}",
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] f64[3]{=1,2,3} i32[4,1]{=0,1,0,2} f64[4]{=0,8,9,4}",
    SCATTER_SAMPLES, NULL,
};
static const char *const scatter_min_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] i32[3]{=8,2,3} i32[4,1]{=0,5,0,2} i32[4]{=7,8,9,4} -> i32[3]{=7,2,3}",
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] f32[3]{=8,nan,3} i32[3,1]{=0,1,2} f32[3]{=nan,1,-4} -> f32[3]{=nan,nan,-4}",
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] f32[3]{=0,-0.0,0} i32[3,1]{=0,1,2} f32[3]{=-0.0,0,0} -> f32[3]{=-0.0,-0.0,0}",
    SCATTER_SAMPLES, NULL,
};
static const char *const scatter_max_samples[] = {
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] i32[3]{=8,2,3} i32[4,1]{=0,5,0,2} i32[4]{=7,8,9,4} -> i32[3]{=9,2,4}",
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] u64[2]{=18446744073709551615,5} i32[2,1]{=0,1} u64[2]{=7,8} "
    "-> u64[2]{=18446744073709551615,8}",
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] f32[3]{=0,-0.0,-0.0} i32[3,1]{=0,1,2} f32[3]{=-0.0,0,-0.0} -> f32[3]{=0,0,-0.0}",
    "[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] c64[2]{=1,2,1,-1} i32[2,1]{=0,1} c64[2]{=1,3,0,9} -> c64[2]{=1,3,1,-1}",
    SCATTER_SAMPLES, NULL,
};
/* clang-format on */

#define SCATTER_ROW                                                                                                                 \
    .params = scatter_params, .params_size = sizeof(mf_scatter_params), .partial_eval = mf_partial_eval_all_or_nothing,             \
    .dce = mf_dce_whole, .batch = scatter_batch, .variance = mf_variance_join, .cost = mf_cost_elementwise, .lower = mf_lower_none, \
    .evaluate = scatter_evaluate, MF_HLO_BY(scatter_hlo)
const mf_op mf_op_scatter_mul = {
    .name = "scatter_mul",
    .reduced = MF_REDUCED_INDICES,
    .reducer = MF_REDUCE_PROD,
    .operands = 3,
    SCATTER_ROW,
    .type_rule = scatter_type,
    .jvp = scatter_mul_jvp,
    .transpose = scatter_mul_transpose,
    .samples = scatter_mul_samples,
};

const mf_op mf_op_scatter_min = {
    .name = "scatter_min",
    .reduced = MF_REDUCED_INDICES,
    .reducer = MF_REDUCE_MIN,
    .operands = 3,
    SCATTER_ROW,
    .type_rule = scatter_ordered_type,
    .jvp = scatter_extreme_jvp,
    .transpose = mf_transpose_none,
    .samples = scatter_min_samples,
};

const mf_op mf_op_scatter_max = {
    .name = "scatter_max",
    .reduced = MF_REDUCED_INDICES,
    .reducer = MF_REDUCE_MAX,
    .operands = 3,
    SCATTER_ROW,
    .type_rule = scatter_ordered_type,
    .jvp = scatter_extreme_jvp,
    .transpose = mf_transpose_none,
    .samples = scatter_max_samples,
};
