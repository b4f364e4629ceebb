/* cholesky and triangular_solve, batched over the leading dimensions, by LAPACK (lapack.c). Invariant: cholesky uses the Hermitian part of
 * its operand, (a + a^H) / 2, so its derivative holds for every tangent; the factor is lower triangular with zeros above, and all NaN if
 * the matrix is not positive definite. triangular_solve never reads the other triangle. */
#include "ops/linalg/lapack.h"
#include "ops/elementwise/loops.h"
#include "ops/linalg/matrices.h"

#include <limits.h>
#include <string.h>

/* ---- cholesky */
static mf_error_object *cholesky_type(mf_type_context *c)
{
    c->out[0] = c->in[0];
    return mf_check_square(c, c->in[0]);
}

/* The lower triangle with half the diagonal: I. Murray, "Differentiation of the Cholesky decomposition", section 3.1. */
static mf_variable *half_lower(mf_builder *b, mf_variable *x)
{
    return e_select(b, e_where_row(b, &mf_op_eq, x), e_scale(b, x, 0.5), e_only_where(b, &mf_op_gt, x));
}

MF_JVP_RULE(cholesky_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *l = e_convert_type(b, out[0], tin[0]->type), *t = e_scale(b, e_add(b, tin[0], e_matrix_transpose(b, tin[0], true)), 0.5);
    mf_variable *right = e_triangular_solve(b, l, t, (mf_solve_params){ .lower = true, .transpose_a = true, .conjugate_a = true });
    tout[0] = e_matmul(b, l, half_lower(b, e_triangular_solve(b, l, right, (mf_solve_params){ .left_side = true, .lower = true })));
}

static mf_cost cholesky_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    const mf_type *t = e->in[0]->type;
    cost.flops = (double)t->size * (double)t->dims[t->rank - 1] / 3;
    return cost;
}

/* Fills the lower triangle with NaN. */
static void fill_nan(mf_dtype dtype, char *l, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        mf_fill_nan(dtype, l + i * n * mf_dtype_size(dtype), i + 1);
}

MF_EVALUATE_RULE(cholesky_evaluate)
{
    const mf_type *t = e->out[0]->type;
    int64_t n = t->dims[t->rank - 1], bytes = n * n * mf_dtype_size(t->dtype);
    mf_error_object *error = mf_lapack_load();
    for (int64_t i = 0; i < mf_matrix_count(t) && !error; i++) {
        const void *a = (const char *)in[0] + i * bytes;
        void *l = (char *)out[0] + i * bytes;
        mf_hermitian_lower(t->dtype, n, a, l);
        if (!mf_lapack_cholesky(t->dtype, (int)n, l))
            fill_nan(t->dtype, l, n);
    }
    return error;
}

static const char *const cholesky_samples[] = {
    "f32[2,2]{=4,2,2,10} -> f32[2,2]{=2,0,1,3}",
    "f64[2,2]{=4,0,4,10} -> f64[2,2]{=2,0,1,3}", /* uses the symmetric part */
    "f32[2,2]{=1,2,2,1} -> f32[2,2]{=nan,0,nan,nan}",
    "f64[3,3]{=4,1,0.5,1,5,-1,0.5,-1,6}",
    "f64[2,2,2]{=4,2,2,10,9,3,3,5} -> f64[2,2,2]{=2,0,1,3,3,0,1,2}",
    "c128[2,2]{=4,0,1,2,1,-2,5,0}",
    "f64[0,0]",
    "f32[0,2,2]",
    NULL,
};
/* Takes the Hermitian part first, and clears the other triangle afterwards, which XLA leaves unchanged. */
MF_HLO_RULE(cholesky_hlo)
{
    const mf_type *t = e->out[0]->type, *places = mf_type_with_dtype(t, MF_I32);
    int64_t order[MF_RANK];
    int n = t->rank;
    if (!t->size) {
        out[0] = h_full(h, t, 0);
        return;
    }
    for (int i = 0; i < n; i++)
        order[i] = i < n - 2 ? i : 2 * n - 3 - i;
    mf_hlo_value transposed = h_op(h, "transpose", t, in, 1, "permutation = %s", h_array(h, order, n));
    if (mf_dtype_is_complex(t->dtype))
        transposed = h_conjugate(h, transposed);
    mf_hlo_value half = h_binary(h, "multiply", h_binary(h, "add", in[0], transposed), h_full(h, t, 0.5));
    mf_hlo_value l = h_op(h, "cholesky", t, &half, 1, "lower = true");
    mf_hlo_value lower = h_compare(h, "GE", false, h_iota(h, places, n - 2), h_iota(h, places, n - 1));
    out[0] = h_select(h, lower, l, h_full(h, t, 0));
}

const mf_op mf_op_cholesky = {
    .name = "cholesky",
    .flags = MF_OP_FAILS,
    .operands = 1,
    .unit_rank = 2,
    .type_rule = cholesky_type,
    .jvp = cholesky_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = cholesky_cost,
    .lower = mf_lower_none,
    .evaluate = cholesky_evaluate,
    MF_HLO_BY(cholesky_hlo),
    .samples = cholesky_samples,
};

/* ---- triangular_solve: a, b */
static mf_error_object *solve_type(mf_type_context *c)
{
    const mf_solve_params *p = c->params;
    const mf_type *a = c->in[0], *x = c->in[1];
    mf_error_object *e = mf_check_square(c, a);
    if (e)
        return e;
    if (x->dtype != a->dtype)
        return mf_type_error(c, MF_ERROR_DTYPE, "a and b must have one dtype");
    bool fits = x->rank == a->rank;
    for (int i = 0; fits && i < a->rank - 2; i++)
        fits = a->dims[i] == x->dims[i];
    if (!fits)
        return mf_type_error(c, MF_ERROR_SHAPE, "the leading dimensions of a and b must be equal");
    if (x->dims[x->rank - (p->left_side ? 2 : 1)] != a->dims[a->rank - 1] || x->dims[x->rank - 1] > INT_MAX ||
        x->dims[x->rank - 2] > INT_MAX)
        return mf_type_error(c, MF_ERROR_SHAPE, "a does not fit the %s of b", p->left_side ? "rows" : "columns");
    c->out[0] = mf_type_get(x->dtype, a->weak && x->weak, x->rank, x->dims);
    return NULL;
}

/* d(op(a)^-1 b) = op(a)^-1 (db - op(da) x), where da is restricted to a's triangle. */
MF_JVP_RULE(solve_jvp)
{
    const mf_solve_params *p = e->params;
    mf_copy_eqn(b, e, in, out);
    mf_variable *right = tin[1];
    if (tin[0]) {
        const mf_op *keep = p->lower ? (p->unit_diagonal ? &mf_op_gt : &mf_op_ge) : p->unit_diagonal ? &mf_op_lt : &mf_op_le;
        mf_variable *da = e_only_where(b, keep, tin[0]), *x = e_convert_type(b, out[0], mf_type_strong(out[0]->type));
        if (p->transpose_a)
            da = e_matrix_transpose(b, da, p->conjugate_a);
        mf_variable *moved = e_neg(b, p->left_side ? e_matmul(b, da, x) : e_matmul(b, x, da));
        right = right ? e_add(b, right, moved) : moved;
    }
    tout[0] = e_triangular_solve(b, e_convert_type(b, in[0], mf_type_strong(in[0]->type)), right, *p);
}

MF_TRANSPOSE_RULE(solve_transpose)
{
    mf_solve_params p = *(const mf_solve_params *)e->params;
    p.transpose_a = !p.transpose_a;
    if (linear[0])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[1] = e_triangular_solve(b, in[0], ct[0], p);
}

static mf_cost solve_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = (double)e->out[0]->type->size * (double)e->in[0]->type->dims[e->in[0]->type->rank - 1];
    return cost;
}

MF_EVALUATE_RULE(solve_evaluate)
{
    const mf_solve_params *p = e->params;
    const mf_type *a = e->in[0]->type, *t = e->out[0]->type;
    int64_t rows = t->dims[t->rank - 2], columns = t->dims[t->rank - 1], n = a->dims[a->rank - 1], size = mf_dtype_size(t->dtype);
    mf_lapack_solve how = { p->left_side, p->lower, p->transpose_a, p->conjugate_a, p->unit_diagonal, (int)rows, (int)columns };
    mf_error_object *error = mf_lapack_load();
    if (t->bytes && out[0] != in[1])
        memcpy(out[0], in[1], (size_t)t->bytes);
    for (int64_t i = 0; i < mf_matrix_count(t) && !error; i++)
        mf_lapack_triangular_solve(t->dtype, &how, (const char *)in[0] + i * n * n * size, (char *)out[0] + i * rows * columns * size);
    return error;
}

static const mf_param solve_params[] = {
    MF_PARAM(mf_solve_params, left_side, MF_PARAM_BOOL),     MF_PARAM(mf_solve_params, lower, MF_PARAM_BOOL),
    MF_PARAM(mf_solve_params, transpose_a, MF_PARAM_BOOL),   MF_PARAM(mf_solve_params, conjugate_a, MF_PARAM_BOOL),
    MF_PARAM(mf_solve_params, unit_diagonal, MF_PARAM_BOOL), { 0 },
};
static const char *const solve_samples[] = {
    "[left_side=true, lower=true] f32[2,2]{=2,9,1,4} f32[2,1]{=2,9} -> f32[2,1]{=1,2}",
    "[lower=true] f32[2,2]{=2,9,1,4} f32[1,2]{=4,8} -> f32[1,2]{=1,2}",
    "[left_side=true, lower=true] f64[3,3]{0.5:2} f64[3,2]{-2:2}",
    "[left_side=true] f64[3,3]{0.5:2} f64[3,2]{-2:2}",
    "[left_side=true, lower=true, transpose_a=true] f64[3,3]{0.5:2} f64[3,2]{-2:2}",
    "[transpose_a=true] f64[3,3]{0.5:2} f64[2,3]{-2:2}",
    "[lower=true, unit_diagonal=true] f64[3,3]{0.5:2} f64[2,3]{-2:2}",
    "[left_side=true, unit_diagonal=true] f64[2,3,3]{0.5:2} f64[2,3,1]{-2:2}",
    "[left_side=true, lower=true, transpose_a=true, conjugate_a=true] c128[2,2]{0.5:2} c128[2,3]{-2:2}",
    "[lower=true, transpose_a=true] c128[2,2]{0.5:2} c128[3,2]{-2:2}",
    "[left_side=true, lower=true] c128[2,2]{0.5:2} c128[2,2]{-2:2}",
    "[left_side=true] f64[2,0,0] f64[2,0,3]",
    NULL,
};
MF_HLO_RULE(solve_hlo)
{
    const mf_solve_params *p = e->params;
    if (!e->out[0]->type->size) {
        out[0] = h_full(h, e->out[0]->type, 0);
        return;
    }
    out[0] = h_op(h, "triangular_solve", e->out[0]->type, in, 2,
                  "left_side = %s, lower = %s, transpose_a = #stablehlo<transpose %s>, unit_diagonal = %s", p->left_side ? "true" : "false",
                  p->lower ? "true" : "false",
                  !p->transpose_a  ? "NO_TRANSPOSE"
                  : p->conjugate_a ? "ADJOINT"
                                   : "TRANSPOSE",
                  p->unit_diagonal ? "true" : "false");
}

const mf_op mf_op_triangular_solve = {
    .name = "triangular_solve",
    .flags = MF_OP_FAILS,
    .params = solve_params,
    .params_size = sizeof(mf_solve_params),
    .operands = 2,
    .unit_rank = 2,
    .type_rule = solve_type,
    .jvp = solve_jvp,
    .transpose = solve_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = solve_cost,
    .lower = mf_lower_none,
    .evaluate = solve_evaluate,
    MF_HLO_BY(solve_hlo),
    .samples = solve_samples,
};
