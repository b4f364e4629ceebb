/* top_k: the k greatest elements of each row along the last dimension, and their positions. Invariant: the greatest come first; equal
 * elements keep their order. Floats have IEEE's total order, as in XLA: NaN, inf, ..., 0, -0, ..., -inf, NaN with a sign. */
#include "ops/emit.h"
#include "ops/elementwise/loops.h"

#include <string.h>

static mf_error_object *top_k_type(mf_type_context *c)
{
    const mf_top_k_params *p = c->params;
    const mf_type **out = mf_type_outputs(c, 2);
    mf_error_object *e = out ? mf_check_operands(c, 1) : mf_error_out_of_memory();
    if (e)
        return e;
    const mf_type *t = c->in[0];
    int64_t dims[MF_RANK];
    if (mf_dtype_is_complex(t->dtype) || t->dtype == MF_KEY)
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for floats, integers and bool, not for %s", mf_dtype_name(t->dtype));
    if (t->rank == 0 || p->k < 0 || p->k > t->dims[t->rank - 1])
        return mf_type_error(c, MF_ERROR_ARGUMENT, "k is %lld, more than the last dimension has, or negative", (long long)p->k);
    memcpy(dims, t->dims, sizeof(int64_t) * (size_t)t->rank);
    dims[t->rank - 1] = p->k;
    out[0] = mf_type_get(t->dtype, t->weak, t->rank, dims);
    out[1] = mf_type_get(MF_I32, false, t->rank, dims);
    return out[0] && out[1] ? NULL : mf_error_out_of_memory();
}

MF_JVP_RULE(top_k_jvp)
{
    mf_eqn *top = mf_emit_eqn(b, e->op, e->params, in, 1);
    out[0] = top ? top->out[0] : in[0];
    out[1] = top ? top->out[1] : in[0];
    tout[0] = top && tin[0] ? e_take_along(b, tin[0], top->out[1], tin[0]->type->rank - 1) : NULL;
}

MF_BATCH_RULE(top_k_batch)
{
    mf_variable *x = e_batched_at(c, in[0], in_axis[0], 0);
    mf_eqn *top = mf_emit_eqn(c->b, e->op, e->params, &x, 1);
    for (int i = 0; i < 2; i++) {
        out[i] = top ? top->out[i] : NULL;
        out_axis[i] = 0;
    }
}

static mf_cost top_k_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = (double)e->in[0]->type->size;
    return cost;
}

/* A float's bits as an integer that is ordered as the floats are. */
static int64_t total(mf_dtype d, const char *p)
{
    int64_t bits = mf_load_i64(mf_dtype_size(d) == 2 ? MF_I16 : mf_dtype_size(d) == 4 ? MF_I32 : MF_I64, p);
    return bits < 0 ? bits ^ INT64_MAX : bits;
}

/* Whether q goes before p, which precedes it in the row. */
static bool beats(mf_dtype d, const char *q, const char *p)
{
    if (mf_dtype_is_float(d))
        return total(d, q) > total(d, p);
    int64_t x = mf_load_i64(d, q), y = mf_load_i64(d, p);
    return d == MF_U64 ? (uint64_t)x > (uint64_t)y : x > y;
}

MF_EVALUATE_RULE(top_k_evaluate)
{
    const mf_type *t = e->in[0]->type;
    int64_t k = ((const mf_top_k_params *)e->params)->k, n = t->dims[t->rank - 1], lines = k ? t->size / n : 0;
    int size = mf_dtype_size(t->dtype);
    for (int64_t l = 0; l < lines; l++) {
        const char *x = (const char *)in[0] + l * n * size;
        char *values = (char *)out[0] + l * k * size;
        int32_t *at = (int32_t *)out[1] + l * k;
        for (int64_t i = 0, count = 0; i < n; i++) {
            int64_t place = count;
            for (; place > 0 && beats(t->dtype, x + i * size, x + at[place - 1] * size); place--)
                if (place < k)
                    at[place] = at[place - 1];
            if (place < k)
                at[place] = (int32_t)i;
            count += count < k;
        }
        for (int64_t i = 0; i < k; i++)
            memcpy(values + i * size, x + at[i] * size, (size_t)size);
    }
    return NULL;
}

static const mf_param top_k_params[] = { MF_PARAM(mf_top_k_params, k, MF_PARAM_INT), { 0 } };
static const char *const top_k_samples[] = {
    "[k=2] f32[2,4]{=1,3,3,2,nan,9,-1,nan} -> f32[2,2]{=3,3,nan,nan} i32[2,2]{=1,2,0,3}",
    "[k=3] i32[5]{=3,1,3,-7,3} -> i32[3]{=3,3,3} i32[3]{=0,2,4}",
    "[k=2] bf16[3]{=-0.0,0,-1} -> bf16[2]{=0,-0.0} i32[2]{=1,0}",
    "[k=8] f32[8]{=-0.0,0,-nan,-1,nan,inf,-inf,-0.0} -> f32[8]{=nan,inf,0,-0.0,-0.0,-1,-inf,nan} i32[8]{=4,5,1,0,7,3,6,2}",
    "[k=5] f16[5]{=-nan,0,-0.0,nan,-1} -> f16[5]{=nan,0,-0.0,-1,nan} i32[5]{=3,1,2,4,0}",
    "[k=5] f64[5]{=-nan,3,-0.0,nan,-1} -> f64[5]{=nan,3,-0.0,-1,nan} i32[5]{=3,1,2,4,0}",
    "[k=1] u64[2]{=5,18446744073709551615} -> u64[1]{=18446744073709551615} i32[1]{=1}",
    "[k=2] bool[3]{=0,1,1} -> bool[2]{=1,1} i32[2]{=1,2}",
    "[k=3] f32[2,3,7]{-2:2}",
    "[k=40] f64[2,60]{-2:2}",
    "[k=8] f16[3,300]{-2:2}",
    "[k=0] f32[2,3]",
    "[k=0] f32[2,0]",
    NULL,
};
/* Sorts whole rows and cuts them, as XLA's own expansion does. */
MF_HLO_RULE(top_k_hlo)
{
    const mf_type *t = in[0].type, *value = mf_type_scalar(t->dtype, false), *index = mf_type_scalar(MF_I32, false);
    int64_t zeros[MF_RANK] = { 0 }, ones[MF_RANK];
    mf_hlo_value lines[2] = { in[0], h_iota(h, mf_type_with_dtype(t, MF_I32), t->rank - 1) };
    mf_hlo_value sorted[2] = { { 0, mf_type_strong(t) }, { 0, mf_type_with_dtype(t, MF_I32) } };
    mf_hlo_value pairs[4] = { { 0, value }, { 0, value }, { 0, index }, { 0, index } };
    for (int i = 0; i < t->rank; i++)
        ones[i] = 1;
    h_open(h, "sort", lines, 2, sorted, 2, "dimension = %d : i64, is_stable = true", t->rank - 1);
    h_region(h, pairs, 4);
    mf_hlo_value first = h_compare(h, "GT", true, pairs[0], pairs[1]);
    h_return(h, &first, 1);
    h_close(h, lines, 2, sorted, 2);
    for (int i = 0; i < 2; i++)
        out[i] = h_slice(h, sorted[i], e->out[i]->type, zeros, e->out[i]->type->dims, ones);
}

const mf_op mf_op_top_k = {
    .name = "top_k",
    .params = top_k_params,
    .params_size = sizeof(mf_top_k_params),
    .type_rule = top_k_type,
    .jvp = top_k_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = top_k_batch,
    .variance = mf_variance_join,
    .cost = top_k_cost,
    .lower = mf_lower_none,
    .evaluate = top_k_evaluate,
    MF_HLO_BY(top_k_hlo),
    .samples = top_k_samples,
};
