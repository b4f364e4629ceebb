/* cholesky and triangular_solve, batched over the leading dimensions, by LAPACK (lapack.c).
 * Invariant: cholesky is of the Hermitian part of its operand, (a + a^H) / 2, so its derivative holds for every tangent; the factor is lower
 * with zeros above, all NaN where the matrix is not positive definite. triangular_solve never reads the other triangle. */
#include "ops/lapack.h"
#include "ops/loops.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- pieces of matrices */
static bool is_matrix_dtype(mf_dtype d) { return d == MF_F32 || d == MF_F64 || mf_dtype_is_complex(d); }

static mf_error_object *check_square(const mf_type_context *c, const mf_type *t)
{
    if (!is_matrix_dtype(t->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "is defined for float32, float64 and complex numbers, not for %s", mf_dtype_name(t->dtype));
    if (t->rank < 2 || t->dims[t->rank - 1] != t->dims[t->rank - 2])
        return mf_type_error(c, MF_ERROR_SHAPE, "the last two dimensions must be those of a square matrix");
    if (t->dims[t->rank - 1] > INT_MAX)
        return mf_type_error(c, MF_ERROR_SHAPE, "the matrix is too large");
    return NULL;
}

/* x with its last two dimensions exchanged, and conjugated. */
static mf_variable *turned(mf_builder *b, mf_variable *x, bool conjugate)
{
    int order[MF_RANK], rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        order[i] = i < rank - 2 ? i : 2 * rank - 3 - i;
    x = e_transpose(b, x, order);
    return conjugate && mf_dtype_is_complex(x->type->dtype) ? e_unary(b, &mf_op_conj, x) : x;
}

/* Row index compared with column index, of x's shape. */
static mf_variable *where_row(mf_builder *b, const mf_op *how, const mf_variable *x)
{
    const mf_type *t = x->type;
    return e_compare(b, how, e_iota(b, MF_I32, t->rank, t->dims, t->rank - 2), e_iota(b, MF_I32, t->rank, t->dims, t->rank - 1));
}

static mf_variable *only_where(mf_builder *b, const mf_op *how, mf_variable *x)
{
    return e_select(b, where_row(b, how, x), x, e_zeros_like(b, x));
}

/* Products of the matrices in the last two dimensions. */
static mf_variable *matmul(mf_builder *b, mf_variable *x, mf_variable *y)
{
    int64_t batch[MF_RANK];
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++)
        batch[i] = i;
    const mf_intlist *leading = mf_ints_intern(batch, rank - 2);
    return e_dot_general(b, x, y, mf_ints_of(1, rank - 1), mf_ints_of(1, rank - 2), leading, leading);
}

static int64_t matrices(const mf_type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank - 2; i++)
        n *= t->dims[i];
    return n;
}

/* op(a) x = b or x op(a) = b; a conjugate without a transpose is taken beforehand. */
static mf_variable *solve(mf_builder *b, mf_variable *a, mf_variable *x, mf_solve_params p)
{
    if (p.conjugate_a && !p.transpose_a && mf_dtype_is_complex(a->type->dtype))
        a = e_unary(b, &mf_op_conj, a);
    p.conjugate_a = p.conjugate_a && p.transpose_a;
    return mf_emit(b, &mf_op_triangular_solve, &p, 2, a, x);
}

/* ---- cholesky */
static mf_error_object *cholesky_type(mf_type_context *c)
{
    c->out[0] = c->in[0];
    return check_square(c, c->in[0]);
}

/* The lower triangle with half of the diagonal: I. Murray, "Differentiation of the Cholesky decomposition", section 3.1. */
static mf_variable *half_lower(mf_builder *b, mf_variable *x)
{
    return e_select(b, where_row(b, &mf_op_eq, x), e_scale(b, x, 0.5), only_where(b, &mf_op_gt, x));
}

MF_JVP_RULE(cholesky_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *l = e_convert_type(b, out[0], tin[0]->type), *t = e_scale(b, e_add(b, tin[0], turned(b, tin[0], true)), 0.5);
    mf_variable *right = solve(b, l, t, (mf_solve_params){ .lower = true, .transpose_a = true, .conjugate_a = true });
    tout[0] = matmul(b, l, half_lower(b, solve(b, l, right, (mf_solve_params){ .left_side = true, .lower = true })));
}

MF_BATCH_RULE(leading_batch)
{
    mf_variable *moved[2] = { NULL, NULL };
    for (int i = 0; i < e->in_count && i < 2; i++)
        moved[i] = e_batched_at(c, in[i], in_axis[i], 0);
    mf_copy_eqn(c->b, e, moved, out);
    out_axis[0] = 0;
}

static mf_cost cholesky_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    const mf_type *t = e->in[0]->type;
    cost.flops = (double)t->size * (double)t->dims[t->rank - 1] / 3;
    return cost;
}

/* The lower triangle of (a + a^H) / 2, zeros above. parts: 1 or 2 numbers an element. */
#define LOWER_HALF(name, type)                                                         \
    static void name(const type *a, type *out, int64_t n, int parts)                   \
    {                                                                                  \
        memset(out, 0, (size_t)(n * n * parts) * sizeof *out);                         \
        for (int64_t i = 0; i < n; i++)                                                \
            for (int64_t k = 0; k <= i; k++) {                                         \
                const type *x = a + (i * n + k) * parts, *y = a + (k * n + i) * parts; \
                out[(i * n + k) * parts] = (x[0] + y[0]) * (type)0.5;                  \
                if (parts == 2)                                                        \
                    out[(i * n + k) * parts + 1] = (x[1] - y[1]) * (type)0.5;          \
            }                                                                          \
    }
LOWER_HALF(lower_half_f32, float)
LOWER_HALF(lower_half_f64, double)

/* NaN in the lower triangle; parts as above. */
static void fill_nan(mf_dtype part, char *l, int64_t n, int parts)
{
    int size = mf_dtype_size(part);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < (i + 1) * parts; k++)
            mf_store_f64(part, l + (i * n * parts + k) * size, NAN);
}

MF_EVALUATE_RULE(cholesky_evaluate)
{
    const mf_type *t = e->out[0]->type;
    int64_t n = t->dims[t->rank - 1], bytes = n * n * mf_dtype_size(t->dtype);
    int parts = mf_dtype_is_complex(t->dtype) ? 2 : 1;
    bool single = t->dtype == MF_F32 || t->dtype == MF_C64;
    mf_error_object *error = mf_lapack_load();
    for (int64_t i = 0; i < matrices(t) && !error; i++) {
        const void *a = (const char *)in[0] + i * bytes;
        void *l = (char *)out[0] + i * bytes;
        if (single)
            lower_half_f32(a, l, n, parts);
        else
            lower_half_f64(a, l, n, parts);
        if (!mf_lapack_cholesky(t->dtype, (int)n, l))
            fill_nan(single ? MF_F32 : MF_F64, l, n, parts);
    }
    return error;
}

static const char *const cholesky_samples[] = {
    "f32[2,2]{=4,2,2,10} -> f32[2,2]{=2,0,1,3}",
    "f64[2,2]{=4,0,4,10} -> f64[2,2]{=2,0,1,3}", /* of the symmetric part */
    "f32[2,2]{=1,2,2,1} -> f32[2,2]{=nan,0,nan,nan}",
    "f64[3,3]{=4,1,0.5,1,5,-1,0.5,-1,6}",
    "f64[2,2,2]{=4,2,2,10,9,3,3,5} -> f64[2,2,2]{=2,0,1,3,3,0,1,2}",
    "c128[2,2]{=4,0,1,2,1,-2,5,0}",
    "f64[0,0]",
    "f32[0,2,2]",
    NULL,
};
const mf_op mf_op_cholesky = {
    .name = "cholesky",
    .operands = 1,
    .type_rule = cholesky_type,
    .jvp = cholesky_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = leading_batch,
    .variance = mf_variance_join,
    .cost = cholesky_cost,
    .lower = mf_lower_none,
    .evaluate = cholesky_evaluate,
    .samples = cholesky_samples,
};

/* ---- triangular_solve: a, b */
static mf_error_object *solve_type(mf_type_context *c)
{
    const mf_solve_params *p = c->params;
    const mf_type *a = c->in[0], *x = c->in[1];
    mf_error_object *e = check_square(c, a);
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

/* d(op(a)^-1 b) = op(a)^-1 (db - op(da) x), where da has a's triangle. */
MF_JVP_RULE(solve_jvp)
{
    const mf_solve_params *p = e->params;
    mf_copy_eqn(b, e, in, out);
    mf_variable *right = tin[1];
    if (tin[0]) {
        const mf_op *keep = p->lower ? (p->unit_diagonal ? &mf_op_gt : &mf_op_ge) : p->unit_diagonal ? &mf_op_lt : &mf_op_le;
        mf_variable *da = only_where(b, keep, tin[0]), *x = e_convert_type(b, out[0], mf_type_strong(out[0]->type));
        if (p->transpose_a)
            da = turned(b, da, p->conjugate_a);
        mf_variable *moved = e_neg(b, p->left_side ? matmul(b, da, x) : matmul(b, x, da));
        right = right ? e_add(b, right, moved) : moved;
    }
    tout[0] = solve(b, e_convert_type(b, in[0], mf_type_strong(in[0]->type)), right, *p);
}

MF_TRANSPOSE_RULE(solve_transpose)
{
    mf_solve_params p = *(const mf_solve_params *)e->params;
    p.transpose_a = !p.transpose_a;
    if (linear[0])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[1] = solve(b, in[0], ct[0], p);
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
    for (int64_t i = 0; i < matrices(t) && !error; i++)
        mf_lapack_triangular_solve(t->dtype, &how, (const char *)in[0] + i * n * n * size, (char *)out[0] + i * rows * columns * size);
    return error;
}

static const mf_param solve_params[] = {
    MF_PARAM(mf_solve_params, left_side, MF_PARAM_BOOL),     MF_PARAM(mf_solve_params, lower, MF_PARAM_BOOL),
    MF_PARAM(mf_solve_params, transpose_a, MF_PARAM_BOOL),   MF_PARAM(mf_solve_params, conjugate_a, MF_PARAM_BOOL),
    MF_PARAM(mf_solve_params, unit_diagonal, MF_PARAM_BOOL), { NULL, 0, 0 },
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
const mf_op mf_op_triangular_solve = {
    .name = "triangular_solve",
    .params = solve_params,
    .params_size = sizeof(mf_solve_params),
    .operands = 2,
    .type_rule = solve_type,
    .jvp = solve_jvp,
    .transpose = solve_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = leading_batch,
    .variance = mf_variance_join,
    .cost = solve_cost,
    .lower = mf_lower_none,
    .evaluate = solve_evaluate,
    .samples = solve_samples,
};
