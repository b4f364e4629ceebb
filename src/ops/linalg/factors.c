/* lu, qr, eigh and svd, batched over the leading dimensions, by LAPACK (lapack.c). Invariant: eigh uses the Hermitian part of its operand,
 * (a + a^H) / 2, so its derivative holds for every tangent. Eigenvalues and singular values are real. If the method does not converge, or
 * the operand of eigh or svd is not finite, the results are all NaN. Vectors have the sign, or phase, that LAPACK gives them; derivatives
 * keep the gauge of the cited references. */
#include "ops/linalg/factors_hlo.h"
#include "ops/linalg/lapack.h"
#include "ops/linalg/matrices.h"

#include <string.h>

static mf_dtype real_of(mf_dtype d) { return d == MF_C64 ? MF_F32 : d == MF_C128 ? MF_F64 : d; }

/* The type of a batch like a's of vectors (columns < 0) or matrices. */
static const mf_type *batch_of(const mf_type *a, mf_dtype dtype, int64_t rows, int64_t columns)
{
    int64_t dims[MF_RANK];
    int rank = a->rank - 2;
    memcpy(dims, a->dims, sizeof dims);
    dims[rank++] = rows;
    if (columns >= 0)
        dims[rank++] = columns;
    return mf_type_get(dtype, false, rank, dims);
}

static int64_t rows_of(const mf_type *t) { return t->dims[t->rank - 2]; }
static int64_t columns_of(const mf_type *t) { return t->dims[t->rank - 1]; }
static int64_t least_of(const mf_type *t) { return rows_of(t) < columns_of(t) ? rows_of(t) : columns_of(t); }

static mf_cost cost_of(const mf_eqn *e, double factor)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = factor * (double)e->in[0]->type->size * (double)least_of(e->in[0]->type);
    return cost;
}

/* Broadcasts a vector to x's shape, as a row or a column of the matrices. */
static mf_variable *broadcast_vector(mf_builder *b, mf_variable *vector, const mf_variable *x, bool as_column)
{
    int64_t where[MF_RANK];
    int rank = x->type->rank;
    for (int i = 0; i < rank - 1; i++)
        where[i] = i < rank - 2 ? i : as_column ? rank - 2 : rank - 1;
    return e_broadcast(b, vector, rank, x->type->dims, mf_ints_intern(where, rank - 1));
}

static mf_variable *as_dtype_of(mf_builder *b, mf_variable *x, const mf_variable *like) { return e_convert(b, x, like->type->dtype); }

static mf_variable *zero_where(mf_builder *b, mf_variable *mask, mf_variable *x) { return e_select(b, mask, e_zeros_like(b, x), x); }

/* 1 / x, and 0 where the mask holds. */
static mf_variable *reciprocal_but(mf_builder *b, mf_variable *mask, mf_variable *x)
{
    mf_variable *one = e_full(b, x->type, 1);
    return zero_where(b, mask, e_div(b, one, e_select(b, mask, one, x)));
}

/* ---- lu: both factors in one matrix, the row exchanged with each row (i32), the resulting permutation (i32) */

static mf_error_object *lu_type(mf_type_context *c)
{
    const mf_type *a = c->in[0];
    mf_error_object *e = mf_check_square(c, a);
    const mf_type **out = e ? NULL : mf_type_outputs(c, 3);
    if (out) {
        out[0] = mf_type_strong(a);
        out[1] = out[2] = batch_of(a, MF_I32, columns_of(a), -1);
    }
    return e;
}

static mf_variable *rows_permuted(mf_builder *b, mf_variable *x, mf_variable *permutation)
{
    return e_take_along(b, x, broadcast_vector(b, permutation, x, true), x->type->rank - 2);
}

/* With X = L^-1 P dA U^-1: dL = L tril(X, -1), dU = triu(X) U. F. R. de Hoog, R. S. Anderssen, M. A. Lukas, "Differentiation of matrix
 * functionals using triangular factorization", Mathematics of Computation 80 (2011), theorem 3. */
MF_JVP_RULE(lu_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *lu = out[0], *x = rows_permuted(b, e_convert_type(b, tin[0], lu->type), out[2]);
    x = e_triangular_solve(b, lu, x, (mf_solve_params){ .left_side = true, .lower = true, .unit_diagonal = true });
    x = e_triangular_solve(b, lu, x, (mf_solve_params){ 0 });
    mf_variable *l = e_add(b, e_only_where(b, &mf_op_gt, lu), e_eye(b, lu)), *u = e_only_where(b, &mf_op_le, lu);
    tout[0] = e_add(b, e_matmul(b, l, e_only_where(b, &mf_op_gt, x)), e_matmul(b, e_only_where(b, &mf_op_le, x), u));
    tout[1] = tout[2] = NULL;
}

static mf_cost lu_cost(const mf_eqn *e) { return cost_of(e, 2.0 / 3); }

MF_EVALUATE_RULE(lu_evaluate)
{
    const mf_type *t = e->in[0]->type;
    int64_t n = columns_of(t), bytes = n * n * mf_dtype_size(t->dtype), count = mf_matrix_count(t);
    mf_error_object *error = mf_lapack_load();
    for (int64_t i = 0; i < count && !error; i++) {
        int32_t *pivots = (int32_t *)out[1] + i * n, *order = (int32_t *)out[2] + i * n;
        error = mf_lapack_lu(t->dtype, (int)n, (const char *)in[0] + i * bytes, (char *)out[0] + i * bytes, pivots);
        for (int32_t k = 0; k < n; k++)
            order[k] = k;
        for (int32_t k = 0; k < n && !error; k++) {
            int32_t other = order[pivots[k]];
            order[pivots[k]] = order[k];
            order[k] = other;
        }
    }
    return error;
}

static const char *const lu_samples[] = {
    "f32[2,2]{=1,2,4,4} -> f32[2,2]{=4,4,0.25,1} i32[2]{=1,1} i32[2]{=1,0}",
    "f32[2,2,2]{=2,1,1,3,0,0,0,0} -> f32[2,2,2]{=2,1,0.5,2.5,0,0,0,0} i32[2,2]{=0,1,0,1} i32[2,2]{=0,1,0,1}",
    "f64[3,3]{=1,2,-1,4,1,0.5,2,-3,2}",
    "c128[2,2]{=0.5,0,1,2,3,-2,5,0}",
    "f32[2,2]{=1,nan,2,1} -> f32[2,2]{=2,1,0.5,nan} i32[2]{=1,1} i32[2]{=1,0}",
    "f64[0,0]",
    "f32[0,2,2]",
    NULL,
};
const mf_op mf_op_lu = {
    .name = "lu",
    .flags = MF_OP_FAILS,
    .operands = 1,
    .unit_rank = 2,
    .type_rule = lu_type,
    .jvp = lu_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = lu_cost,
    .lower = mf_lower_none,
    .evaluate = lu_evaluate,
    MF_HLO_BY(mf_lu_hlo),
    .samples = lu_samples,
};

/* ---- qr: q, r */

static mf_error_object *qr_type(mf_type_context *c)
{
    const mf_qr_params *p = c->params;
    const mf_type *a = c->in[0];
    mf_error_object *e = mf_check_matrix(c, a);
    const mf_type **out = e ? NULL : mf_type_outputs(c, 2);
    int64_t count = e ? 0 : p->full_matrices ? rows_of(a) : least_of(a);
    if (out) {
        out[0] = batch_of(a, a->dtype, rows_of(a), count);
        out[1] = batch_of(a, a->dtype, count, columns_of(a));
    }
    return e;
}

static void fail_jvp(mf_builder *b, const mf_eqn *e, const char *why, mf_variable **tout)
{
    for (int o = 0; o < e->out_count; o++)
        tout[o] = NULL;
    mf_builder_fail(
        b, mf_error_new_at(e->address, MF_ERROR_SHAPE, "%s of %s has no derivative: %s", e->op->name, mf_type_name(e->in[0]->type), why));
}

/* With Y = Q^H dA R^-1 and D = tril(Y, -1) - tril(Y, -1)^H + i Im diag(Y), which is antihermitian: dQ = Q (D - Y) + dA R^-1, dR = (Y -
 * D) R. S. F. Walter, L. Lehmann, R. Lamour, "On evaluating higher-order derivatives of the QR decomposition of tall matrices with full
 * column rank in forward and reverse mode algorithmic differentiation", Optimization Methods and Software 27 (2012). */
MF_JVP_RULE(qr_jvp)
{
    const mf_type *t = e->in[0]->type;
    mf_copy_eqn(b, e, in, out);
    if (rows_of(t) < columns_of(t) || rows_of(out[0]->type) != columns_of(t) + rows_of(t) - columns_of(out[0]->type)) {
        fail_jvp(b, e, "it needs at least as many rows as columns, and for full matrices as many", tout);
        return;
    }
    mf_variable *q = out[0], *r = out[1], *da = e_convert_type(b, tin[0], mf_type_strong(t));
    mf_variable *x = e_triangular_solve(b, r, da, (mf_solve_params){ 0 }), *y = e_matmul(b, e_matrix_transpose(b, q, true), x);
    mf_variable *low = e_only_where(b, &mf_op_gt, y), *d = e_sub(b, low, e_matrix_transpose(b, low, true));
    if (mf_dtype_is_complex(t->dtype)) {
        mf_variable *diagonal = e_only_where(b, &mf_op_eq, y);
        d = e_add(b, d, e_sub(b, diagonal, as_dtype_of(b, e_real_part(b, diagonal), diagonal)));
    }
    tout[0] = e_add(b, e_matmul(b, q, e_sub(b, d, y)), x);
    tout[1] = e_matmul(b, e_sub(b, y, d), r);
}

static mf_cost qr_cost(const mf_eqn *e) { return cost_of(e, 4); }

MF_EVALUATE_RULE(qr_evaluate)
{
    const mf_qr_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    int64_t count = mf_matrix_count(t), size = mf_dtype_size(t->dtype), m = rows_of(t), n = columns_of(t);
    int64_t q = rows_of(e->out[0]->type) * columns_of(e->out[0]->type) * size, r = rows_of(e->out[1]->type) * n * size;
    mf_error_object *error = mf_lapack_load();
    for (int64_t i = 0; i < count && !error; i++)
        error = mf_lapack_qr(t->dtype, (int)m, (int)n, p->full_matrices, (const char *)in[0] + i * m * n * size, (char *)out[0] + i * q,
                             (char *)out[1] + i * r);
    return error;
}

static const mf_param qr_params[] = { MF_PARAM(mf_qr_params, full_matrices, MF_PARAM_BOOL), { 0 } };
static const char *const qr_samples[] = {
    "f64[2,2]{=3,1,4,2}",
    "f32[3,2]{-2:2}",
    "f64[3,2]{=1,2,-1,4,1,0.5}",
    "f32[2,3]{=1,2,-1,4,1,0.5}",
    "[full_matrices=true] f32[3,2]{=1,2,-1,4,1,0.5}",
    "[full_matrices=true] f64[2,2,2]{=1,2,-3,4,0.5,1,2,-1}",
    "c128[3,2]{=1,2,-1,4,1,0.5,2,-3,2,0,1,1}",
    "[full_matrices=true] f32[3,0]{=}",
    "f32[0,3]{=}",
    "f64[0,2,2]",
    NULL,
};
const mf_op mf_op_qr = {
    .name = "qr",
    .flags = MF_OP_FAILS,
    .params = qr_params,
    .params_size = sizeof(mf_qr_params),
    .operands = 1,
    .unit_rank = 2,
    .type_rule = qr_type,
    .jvp = qr_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = qr_cost,
    .lower = mf_lower_none,
    .evaluate = qr_evaluate,
    MF_HLO_BY(mf_qr_hlo),
    .samples = qr_samples,
};

/* ---- eigh: w (ascending), v */

static mf_error_object *eigh_type(mf_type_context *c)
{
    const mf_type *a = c->in[0];
    mf_error_object *e = mf_check_square(c, a);
    const mf_type **out = e ? NULL : mf_type_outputs(c, 2);
    if (out) {
        out[0] = batch_of(a, real_of(a->dtype), columns_of(a), -1);
        out[1] = mf_type_strong(a);
    }
    return e;
}

/* dw = diag(v^H dA v), dv = v (F * (v^H dA v)) with F_ij = 1 / (w_j - w_i), 0 on the diagonal. M. B. Giles, "An extended collection of
 * matrix derivative results for forward and reverse mode algorithmic differentiation", Oxford NA-08-01 (2008), section 3.1. The vectors of
 * equal eigenvalues have no derivative: it becomes infinite or NaN. */
MF_JVP_RULE(eigh_jvp)
{
    mf_copy_eqn(b, e, in, out);
    mf_variable *w = out[0], *v = out[1], *da = e_convert_type(b, tin[0], v->type);
    da = e_scale(b, e_add(b, da, e_matrix_transpose(b, da, true)), 0.5);
    mf_variable *inside = e_matmul(b, e_matrix_transpose(b, v, true), e_matmul(b, da, v));
    mf_variable *gap = e_sub(b, broadcast_vector(b, w, v, false), broadcast_vector(b, w, v, true));
    mf_variable *f = reciprocal_but(b, e_where_row(b, &mf_op_eq, v), gap);
    tout[0] = e_real_part(b, e_diagonal(b, inside));
    tout[1] = e_matmul(b, v, e_mul(b, as_dtype_of(b, f, v), inside));
}

static mf_cost eigh_cost(const mf_eqn *e) { return cost_of(e, 9); }

MF_EVALUATE_RULE(eigh_evaluate)
{
    const mf_type *t = e->in[0]->type;
    mf_dtype real = real_of(t->dtype);
    int64_t n = columns_of(t), bytes = n * n * mf_dtype_size(t->dtype), count = mf_matrix_count(t);
    mf_error_object *error = mf_lapack_load();
    char *lower = mf_alloc((size_t)bytes + 1);
    for (int64_t i = 0; i < count && !error && lower; i++) {
        const char *a = (const char *)in[0] + i * bytes;
        char *w = (char *)out[0] + i * n * mf_dtype_size(real), *v = (char *)out[1] + i * bytes;
        bool good = mf_all_finite(t->dtype, a, n * n);
        mf_hermitian_lower(t->dtype, n, a, lower);
        if (good)
            error = mf_lapack_eigh(t->dtype, (int)n, lower, w, v, &good);
        if (!good) {
            mf_fill_nan(real, w, n);
            mf_fill_nan(t->dtype, v, n * n);
        }
    }
    if (!lower && !error)
        error = mf_error_out_of_memory();
    mf_free(lower);
    return error;
}

static const char *const eigh_samples[] = {
    "f32[2,2]{=2,0,0,5} -> f32[2]{=2,5} f32[2,2]{=1,0,0,1}",
    "f32[2,2]{=1,nan,2,1} -> f32[2]{=nan,nan} f32[2,2]{=nan,nan,nan,nan}",
    "f32[2,2]{=1,inf,inf,1} -> f32[2]{=nan,nan} f32[2,2]{=nan,nan,nan,nan}",
    "f64[3,3]{=4,1,0.5,1,5,-1,0.5,-1,1}",
    "f64[2,3,3]{=4,1,0.5,2,5,-1,0.5,-1,1,1,2,3,4,0,6,7,8,-9}", /* uses the symmetric part */
    "f32[1,1]{=-3} -> f32[1]{=-3} f32[1,1]{=1}",
    "c64[2,2]{=1,0,2,3,2,-3,-1,0}",
    "f64[0,0]",
    "f32[0,2,2]",
    NULL,
};
const mf_op mf_op_eigh = {
    .name = "eigh",
    .flags = MF_OP_FAILS,
    .operands = 1,
    .unit_rank = 2,
    .type_rule = eigh_type,
    .jvp = eigh_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = eigh_cost,
    .lower = mf_lower_none,
    .evaluate = eigh_evaluate,
    MF_HLO_BY(mf_eigh_hlo),
    .samples = eigh_samples,
};

/* ---- svd: s (descending), and with compute_uv u and v^H */

static mf_error_object *svd_type(mf_type_context *c)
{
    const mf_svd_params *p = c->params;
    const mf_type *a = c->in[0];
    mf_error_object *e = mf_check_matrix(c, a);
    const mf_type **out = e ? NULL : mf_type_outputs(c, p->compute_uv ? 3 : 1);
    if (!out)
        return e;
    int64_t m = rows_of(a), n = columns_of(a), k = least_of(a);
    out[0] = batch_of(a, real_of(a->dtype), k, -1);
    if (p->compute_uv) {
        out[1] = batch_of(a, a->dtype, m, p->full_matrices ? m : k);
        out[2] = batch_of(a, a->dtype, p->full_matrices ? n : k, n);
    }
    return NULL;
}

/* The component of the derivative of u's columns outside their span: (dA v - u u^H dA v) / s. */
static mf_variable *outside(mf_builder *b, mf_variable *u, mf_variable *dav, mf_variable *s)
{
    mf_variable *rest = e_sub(b, dav, e_matmul(b, u, e_matmul(b, e_matrix_transpose(b, u, true), dav)));
    return e_div(b, rest, as_dtype_of(b, broadcast_vector(b, s, rest, false), rest));
}

/* With K = u^H dA v: ds = diag(K); du = u (F * (K S + S K^H) + (K - K^H) / (2 S) on the diagonal), dv = v (F * (S K + K^H S)), where F_ij =
 * 1 / (s_j^2 - s_i^2), plus the components outside u and v. J. Townsend, "Differentiating the singular value decomposition" (2016); for the
 * diagonal of complex matrices: Z.-Q. Wan, S.-X. Zhang, arXiv:1909.02659. The vectors of equal singular values have no derivative. */
static void svd_tangents(mf_builder *b, mf_variable *da, mf_variable *s, mf_variable *u, mf_variable *vt, mf_variable **tout)
{
    mf_variable *v = e_matrix_transpose(b, vt, true), *dav = e_matmul(b, da, v), *k = e_matmul(b, e_matrix_transpose(b, u, true), dav);
    mf_variable *row = broadcast_vector(b, s, k, false), *column = broadcast_vector(b, s, k, true),
                *diagonal = e_where_row(b, &mf_op_eq, k);
    mf_variable *ks = e_mul(b, k, as_dtype_of(b, row, k)), *sk = e_mul(b, k, as_dtype_of(b, column, k));
    mf_variable *f = as_dtype_of(b, reciprocal_but(b, diagonal, e_mul(b, e_add(b, row, column), e_sub(b, row, column))), k);
    mf_variable *du = e_mul(b, f, e_add(b, ks, e_matrix_transpose(b, ks, true))),
                *dv = e_mul(b, f, e_add(b, sk, e_matrix_transpose(b, sk, true)));
    if (mf_dtype_is_complex(k->type->dtype)) {
        mf_variable *inverse = reciprocal_but(b, e_compare(b, &mf_op_eq, row, e_zeros_like(b, row)), row);
        mf_variable *turn = e_mul(b, e_scale(b, e_sub(b, k, e_matrix_transpose(b, k, true)), 0.5), as_dtype_of(b, inverse, k));
        du = e_add(b, du, e_only_where(b, &mf_op_eq, turn));
    }
    tout[0] = e_real_part(b, e_diagonal(b, k));
    du = e_matmul(b, u, du);
    dv = e_matmul(b, v, dv);
    if (rows_of(u->type) > columns_of(u->type))
        du = e_add(b, du, outside(b, u, dav, s));
    if (rows_of(v->type) > columns_of(v->type))
        dv = e_add(b, dv, outside(b, v, e_matmul(b, e_matrix_transpose(b, da, true), u), s));
    tout[1] = du;
    tout[2] = e_matrix_transpose(b, dv, true);
}

MF_JVP_RULE(svd_jvp)
{
    mf_svd_params p = *(const mf_svd_params *)e->params;
    const mf_type *t = e->in[0]->type;
    mf_variable *made[3], *tangents[3];
    if (p.compute_uv && p.full_matrices && rows_of(t) != columns_of(t)) {
        mf_copy_eqn(b, e, in, out);
        fail_jvp(b, e, "full_matrices of a matrix that is not square", tout);
        return;
    }
    p.full_matrices = p.full_matrices && p.compute_uv;
    bool wanted = p.compute_uv;
    p.compute_uv = true;
    mf_eqn *vectors = mf_emit_eqn(b, &mf_op_svd, &p, &in[0], 1);
    for (int o = 0; o < 3; o++)
        made[o] = vectors ? vectors->out[o] : in[0];
    if (!vectors)
        return;
    svd_tangents(b, e_convert_type(b, tin[0], mf_type_strong(t)), made[0], made[1], made[2], tangents);
    for (int o = 0; o < (wanted ? 3 : 1); o++) {
        out[o] = made[o];
        tout[o] = tangents[o];
    }
}

static mf_cost svd_cost(const mf_eqn *e) { return cost_of(e, ((const mf_svd_params *)e->params)->compute_uv ? 20 : 4); }

/* Without vectors the singular values cost a fifth. */
static bool svd_dce(const mf_eqn *e, const bool *used_out, bool *used_in, const void **params)
{
    const mf_svd_params *p = e->params;
    if (!p->compute_uv || used_out[1] || used_out[2])
        return false;
    mf_svd_params *values = mf_calloc(1, sizeof *values);
    used_in[0] = true;
    *params = values;
    return values;
}

static mf_error_object *svd_one(const mf_eqn *e, const void *a, char *s, char *u, char *vt)
{
    const mf_svd_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    mf_lapack_vectors which = !p->compute_uv ? MF_LAPACK_NONE : p->full_matrices ? MF_LAPACK_FULL : MF_LAPACK_THIN;
    int m = (int)rows_of(t), n = (int)columns_of(t);
    bool good = mf_all_finite(t->dtype, a, (int64_t)m * n);
    mf_error_object *error = good ? mf_lapack_svd(t->dtype, m, n, which, a, s, u, vt, &good) : NULL;
    if (good || error)
        return error;
    mf_fill_nan(real_of(t->dtype), s, least_of(t));
    if (p->compute_uv) {
        mf_fill_nan(t->dtype, u, m * columns_of(e->out[1]->type));
        mf_fill_nan(t->dtype, vt, n * rows_of(e->out[2]->type));
    }
    return NULL;
}

/* For a matrix without elements u and v^H are identities. */
static void identities(const mf_type *t, void *out)
{
    int64_t rows = rows_of(t), columns = columns_of(t), size = mf_dtype_size(t->dtype);
    mf_dtype part = real_of(t->dtype);
    if (t->bytes)
        memset(out, 0, (size_t)t->bytes);
    for (int64_t i = 0; i < mf_matrix_count(t); i++)
        for (int64_t k = 0; k < least_of(t); k++)
            mf_store_f64(part, (char *)out + ((i * rows + k) * columns + k) * size, 1);
}

MF_EVALUATE_RULE(svd_evaluate)
{
    const mf_svd_params *p = e->params;
    const mf_type *t = e->in[0]->type;
    int64_t size = mf_dtype_size(t->dtype), m = rows_of(t), n = columns_of(t), k = least_of(t), count = mf_matrix_count(t);
    int64_t left = p->compute_uv ? m * columns_of(e->out[1]->type) * size : 0,
            right = p->compute_uv ? n * rows_of(e->out[2]->type) * size : 0;
    mf_error_object *error = mf_lapack_load();
    if (k == 0 && p->compute_uv) {
        identities(e->out[1]->type, out[1]);
        identities(e->out[2]->type, out[2]);
    }
    for (int64_t i = 0; i < count && k && !error; i++)
        error = svd_one(e, (const char *)in[0] + i * m * n * size, (char *)out[0] + i * k * mf_dtype_size(real_of(t->dtype)),
                        p->compute_uv ? (char *)out[1] + i * left : NULL, p->compute_uv ? (char *)out[2] + i * right : NULL);
    return error;
}

static const mf_param svd_params[] = {
    MF_PARAM(mf_svd_params, full_matrices, MF_PARAM_BOOL),
    MF_PARAM(mf_svd_params, compute_uv, MF_PARAM_BOOL),
    { 0 },
};
static const char *const svd_samples[] = {
    "f32[2,2]{=0,0,0,0} -> f32[2]{=0,0}",
    "f32[2,2]{=1,nan,2,1} -> f32[2]{=nan,nan}",
    "[compute_uv=true] f32[1,2]{=1,inf} -> f32[1]{=nan} f32[1,1]{=nan} f32[1,2]{=nan,nan}",
    "f64[3,2]{=1,2,-1,4,1,0.5}",
    "[compute_uv=true] f64[3,2]{=1,2,-1,4,1,0.5}",
    "[compute_uv=true] f64[2,3]{=1,2,-1,4,1,0.5}",
    "[compute_uv=true, full_matrices=true] f64[2,2,2]{=1,2,-3,4,0.5,1,2,-1}",
    "[compute_uv=true, full_matrices=true] f32[3,2]{=1,2,-1,4,1,0.5}",
    "[compute_uv=true, full_matrices=true] c64[2,3]{=1,2,-1,4,1,0.5,1,1,2,0,-3,1}",
    "c64[2,3]{-2:2}",
    "[compute_uv=true, full_matrices=true] f32[2,0]{=} -> f32[0] f32[2,2]{=1,0,0,1} f32[0,0]",
    "[compute_uv=true] f64[0,2,2]",
    NULL,
};
const mf_op mf_op_svd = {
    .name = "svd",
    .flags = MF_OP_FAILS,
    .params = svd_params,
    .params_size = sizeof(mf_svd_params),
    .operands = 1,
    .unit_rank = 2,
    .type_rule = svd_type,
    .jvp = svd_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = svd_dce,
    .batch = mf_batch_leading,
    .variance = mf_variance_join,
    .cost = svd_cost,
    .lower = mf_lower_none,
    .evaluate = svd_evaluate,
    MF_HLO_BY(mf_svd_hlo),
    .samples = svd_samples,
};
