/* check_nan: its first operands are results of an equation, the others are that equation's operands. A NaN in the former without one in the
 * latter originated in the equation: an error names the op, at the user's line. Invariant: only the check pass emits it, after all
 * transforms. */
#include "ops/checks.h"
#include "ops/elementwise/loops.h"
#include "ops/control/nested.h"

#include "ir/text/number_text.h"

static const mf_param check_nan_params[] = { MF_PARAM(mf_check_nan_params, op, MF_PARAM_NAME),
                                             MF_PARAM(mf_check_nan_params, results, MF_PARAM_INT),
                                             { 0 } };

static mf_error_object *check_nan_type(mf_type_context *c)
{
    const mf_check_nan_params *p = c->params;
    c->out[0] = mf_type_scalar(MF_BOOL, false);
    for (int i = 0; i < c->in_count; i++)
        if (!mf_dtype_is_inexact(c->in[i]->dtype))
            return mf_type_error(c, MF_ERROR_DTYPE, "operand %d has no NaN", i);
    return p->results >= 1 && p->results <= c->in_count ? NULL : mf_type_error(c, MF_ERROR_ARGUMENT, "it looks at results");
}

/* The position of the first element that is a NaN, or -1. */
static int64_t first_nan(const mf_type *t, const void *data)
{
    int numbers;
    mf_dtype dtype = mf_number_dtype(t->dtype, &numbers);
    size_t size = (size_t)mf_dtype_size(dtype);
    for (int64_t i = 0; i < t->size * numbers; i++) {
        double x = mf_load_f64(dtype, (const char *)data + (size_t)i * size);
        if (x != x)
            return i / numbers;
    }
    return -1;
}

mf_error_object *mf_nan_error(const mf_eqn *e, const void *location, int operand, int64_t element)
{
    return mf_error_new_at(location ? location : e->address, MF_ERROR_ARGUMENT,
                           "invalid value (nan) encountered in %s: element %lld of %s, of operands without one",
                           ((const mf_check_nan_params *)e->params)->op, (long long)element, mf_type_name(e->in[operand]->type));
}

MF_EVALUATE_RULE(check_nan_evaluate)
{
    const mf_check_nan_params *p = e->params;
    *(bool *)out[0] = false;
    for (int i = 0; i < p->results; i++) {
        int64_t at = first_nan(e->in[i]->type, in[i]);
        for (int k = (int)p->results; k < e->in_count && at >= 0; k++)
            if (first_nan(e->in[k]->type, in[k]) >= 0)
                at = -1;
        if (at >= 0)
            return mf_nan_error(e, NULL, i, at);
    }
    return NULL;
}

/* The index of the first NaN in row-major order; all bits set if there is none. */
static mf_hlo_value index_of_nan(mf_hlo *h, mf_hlo_value x)
{
    const mf_type *number = mf_type_scalar(MF_U64, false), *row = mf_type_get(MF_U64, false, 1, &x.type->size);
    mf_hlo_value is = h_compare(h, "NE", false, x, x), none = h_bytes(h, row, &(uint64_t){ UINT64_MAX });
    if (!x.type->size)
        return h_bytes(h, number, &(uint64_t){ UINT64_MAX });
    is = h_reshape(h, is, mf_type_with_dtype(row, MF_BOOL));
    return h_reduce(h, MF_REDUCE_MIN, h_select(h, is, h_iota(h, row, 0), none), mf_ints_of(1, 0));
}

/* The host reports it after the program has run. */
MF_HLO_RULE(check_nan_hlo)
{
    const mf_check_nan_params *p = e->params;
    mf_hlo_value no = h_scalar(h, MF_BOOL, 0), given = no, any;
    out[0] = no;
    if (!h_looks_at(h, e))
        return;
    mf_hlo_value none = h_bytes(h, mf_type_scalar(MF_U64, false), &(uint64_t){ UINT64_MAX });
    for (int i = (int)p->results; i < e->in_count; i++)
        given = h_binary(h, "or", given, h_compare(h, "NE", false, index_of_nan(h, in[i]), none));
    for (int i = 0; i < p->results; i++) {
        mf_hlo_value index = index_of_nan(h, in[i]);
        any = h_binary(h, "and", h_compare(h, "NE", false, index, none), h_unary(h, "not", given));
        h_find(h, e, i, any, h_select(h, any, index, h_scalar(h, MF_U64, 0)), NULL);
    }
}

const mf_op mf_op_check_nan = {
    .name = "check_nan",
    .flags = MF_OP_EFFECT | MF_OP_HOST,
    .params = check_nan_params,
    .params_size = sizeof(mf_check_nan_params),
    .type_rule = check_nan_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_elementwise,
    .variance = mf_variance_join,
    .cost = mf_cost_bytes,
    .lower = mf_lower_none,
    .evaluate = check_nan_evaluate,
    MF_HLO_BY(check_nan_hlo),
    .samples = nested_no_samples,
};
