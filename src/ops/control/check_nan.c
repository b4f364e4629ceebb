/* check_nan: its first operands are results of an equation, the others what that was given. A NaN in the former where the latter have none
 * was born there: an error that names the op, at the user's line. Invariant: the checks' pass alone emits it, when all transforms are done. */
#include "ops/elementwise/loops.h"
#include "ops/control/nested.h"

#include "ir/number_text.h"

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
            return mf_error_new_at(e->address, MF_ERROR_ARGUMENT,
                                   "invalid value (nan) encountered in %s: element %lld of %s, of operands without one", p->op,
                                   (long long)at, mf_type_name(e->in[i]->type));
    }
    return NULL;
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
    MF_NO_HLO("it stops the program with an error, which only the host can"),
    .samples = nested_no_samples,
};
