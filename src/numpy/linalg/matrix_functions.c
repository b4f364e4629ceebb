/* Matrix functions: matrix_power, expm, matrix_rank, eigvalsh, svdvals, linalg_cond, multi_dot.
 * Invariant: they are composed of matmul, solve and svd, and get their derivatives from these. */
#include "numpy/floats.h"

#include <math.h>

static mf_value no_square(mf_value a, const char *op)
{
    return mf_is_error(a) ? a
                          : mf_make_error(MF_ERROR_SHAPE, "%s: a square matrix is needed, not the shape %s", op, mf_str(mf_shape_of(a)));
}

static bool is_square(mf_value a) { return mf_ndim(a) >= 2 && mf_dim(a, -1) == mf_dim(a, -2); }

mf_value(mf_matrix_power)(mf_value a, int n)
{
    MF_LAYER;
    if (!is_square(a))
        return no_square(a, "matrix_power");
    mf_value power = mf_broadcast_to(mf_eye(mf_dim(a, -1), mf_dtype_of(a)), mf_shape_of(a));
    if (n < 0)
        a = mf_inv(a);
    for (unsigned left = n < 0 ? -(unsigned)n : (unsigned)n; left; left >>= 1) {
        power = left & 1 ? mf_matmul(power, a) : power;
        a = left > 1 ? mf_matmul(a, a) : a;
    }
    return power;
}

/* ---- expm: Higham's scaling and squaring */
enum { SQUARINGS_MAX = 16 };

static mf_value combined(mf_value a6, double c6, mf_value a4, double c4, mf_value a2, double c2)
{
    return mf_add(mf_add(mf_mul(a6, c6), mf_mul(a4, c4)), mf_mul(a2, c2));
}

/* The Pade approximant of order 13. */
static mf_value pade(mf_value a)
{
    static const double b[] = { 64764752532480000,
                                32382376266240000,
                                7771770303897600,
                                1187353796428800,
                                129060195264000,
                                10559470521600,
                                670442572800,
                                33522128640,
                                1323241920,
                                40840800,
                                960960,
                                16380,
                                182,
                                1 };
    mf_value one = mf_eye(mf_dim(a, -1), mf_dtype_of(a)), a2 = mf_matmul(a, a), a4 = mf_matmul(a2, a2), a6 = mf_matmul(a4, a2);
    mf_value odd = mf_add(mf_matmul(a6, combined(a6, b[13], a4, b[11], a2, b[9])), combined(a6, b[7], a4, b[5], a2, b[3]));
    mf_value even = mf_add(mf_matmul(a6, combined(a6, b[12], a4, b[10], a2, b[8])), combined(a6, b[6], a4, b[4], a2, b[2]));
    odd = mf_matmul(a, mf_add(odd, mf_mul(one, b[1])));
    even = mf_add(even, mf_mul(one, b[0]));
    return mf_solve(mf_sub(even, odd), mf_add(even, odd));
}

static mf_value squared_while_scaled(mf_value i, mf_value carry)
{
    mf_value r = mf_get(carry, 0), squarings = mf_get(carry, 1);
    return mf_tuple(mf_where(mf_less(i, squarings), mf_matmul(r, r), r), squarings);
}

static mf_value expm(mf_value a)
{
    bool single = mf_dtype_of(a) == MF_F32 || mf_dtype_of(a) == MF_C64;
    mf_value norm = mf_stop_gradient(mf_norm(a, .ord = 1, .axis = mf_axes(-2, -1), .keepdims = true));
    mf_value squarings = mf_maximum(mf_ceil(mf_log2(mf_div(norm, single ? 3.925724783138660 : 5.371920351148152))), 0);
    mf_value scaled = mf_div(a, mf_exp2(mf_minimum(squarings, SQUARINGS_MAX)));
    mf_value loop = mf_fori_loop(0, SQUARINGS_MAX, squared_while_scaled, mf_tuple(pade(scaled), squarings));
    return mf_where(mf_less_equal(squarings, SQUARINGS_MAX), mf_get(loop, 0), (double)NAN);
}

mf_value(mf_expm)(mf_value a)
{
    MF_LAYER;
    a = numpy_float(a);
    if (!is_square(a))
        return no_square(a, "expm");
    return mf_size(a) ? mf_call(mf_jit(expm), a) : a;
}

/* ---- rank */
mf_value mf_matrix_rank_opt(mf_value a, const mf_matrix_rank_options *o)
{
    MF_LAYER;
    a = numpy_float(a);
    if (mf_ndim(a) < 2)
        return mf_is_error(a) ? a : mf_make_error(MF_ERROR_SHAPE, "matrix_rank: a matrix needs two dimensions, not %d", mf_ndim(a));
    int64_t rows = mf_dim(a, -2), columns = mf_dim(a, -1);
    mf_value values = mf_svd(a, .compute_uv = false);
    double rtol = (double)(rows > columns ? rows : columns) * numpy_epsilon(values);
    mf_value least = mf_mul(mf_max(values, -1, .keepdims = true), o && o->rtol > 0 ? o->rtol : rtol);
    return mf_sum(mf_greater(values, least), -1);
}

mf_value(mf_matrix_rank)(mf_value a) { return mf_matrix_rank_opt(a, NULL); }

/* ---- values of factorisations */
mf_value(mf_eigvalsh)(mf_value a)
{
    MF_LAYER;
    mf_value found = mf_eigh(a);
    return mf_is_error(found) ? found : mf_get(found, 0);
}

mf_value(mf_svdvals)(mf_value a)
{
    MF_LAYER;
    return mf_svd(a, .compute_uv = false);
}

/* The norm of the matrix times that of its inverse; of order 2 and -2 the quotient of the extreme singular values. */
mf_value(mf_linalg_cond)(mf_value a, double ord)
{
    MF_LAYER;
    if (mf_ndim(a) < 2)
        return mf_is_error(a) ? a : mf_make_error(MF_ERROR_SHAPE, "linalg_cond: a matrix needs two dimensions, not %d", mf_ndim(a));
    if (ord == 0 || ord == 2 || ord == -2) {
        mf_value s = mf_svdvals(a);
        mf_value most = mf_get(mf_moveaxis(s, -1, 0), 0), least = mf_get(mf_moveaxis(s, -1, 0), mf_dim(s, -1) - 1);
        return ord == -2 ? mf_div(least, most) : mf_div(most, least);
    }
    if (!is_square(a))
        return no_square(a, "linalg_cond");
    return mf_mul(mf_norm(a, mf_axes(-2, -1), .ord = ord), mf_norm(mf_inv(a), mf_axes(-2, -1), .ord = ord));
}

/* ---- multi_dot: in the order with the fewest multiplications */
enum { FACTORS = 16 };

typedef struct product_order {
    int64_t rows[FACTORS + 1]; /* matrix i has rows[i] rows and rows[i + 1] columns */
    int cut[FACTORS][FACTORS]; /* after which matrix the product of i to j is divided */
    double cost[FACTORS][FACTORS];
} product_order;

static void find_order(product_order *p, int count)
{
    for (int length = 1; length < count; length++)
        for (int i = 0; i + length < count; i++) {
            int j = i + length;
            p->cost[i][j] = (double)INFINITY;
            for (int k = i; k < j; k++) {
                double size = (double)p->rows[i] * (double)p->rows[k + 1] * (double)p->rows[j + 1];
                double cost = p->cost[i][k] + p->cost[k + 1][j] + size;
                if (cost < p->cost[i][j]) {
                    p->cost[i][j] = cost;
                    p->cut[i][j] = k;
                }
            }
        }
}

static mf_value product_of(const product_order *p, mf_value arrays, int i, int j)
{
    if (i == j)
        return mf_get(arrays, i);
    int k = p->cut[i][j];
    return mf_matmul(product_of(p, arrays, i, k), product_of(p, arrays, k + 1, j));
}

mf_value(mf_multi_dot)(mf_value arrays)
{
    MF_LAYER;
    int count = mf_len(arrays);
    product_order p = { .rows = { 0 } };
    if (mf_is_error(arrays) || count < 2 || count > FACTORS)
        return mf_is_error(arrays) ? arrays
                                   : mf_make_error(MF_ERROR_ARGUMENT, "multi_dot: 2 to %d arrays are needed, not %d", FACTORS, count);
    for (int i = 0; i < count; i++) {
        mf_value a = mf_get(arrays, i);
        bool end = i == 0 || i == count - 1;
        if (mf_is_error(a))
            return a;
        if (mf_ndim(a) != 2 && !(end && mf_ndim(a) == 1))
            return mf_make_error(MF_ERROR_SHAPE, "multi_dot: array %d has %d dimensions; matrices are needed, and vectors at the ends", i,
                                 mf_ndim(a));
        p.rows[i] = i == 0 && mf_ndim(a) == 1 ? 1 : mf_dim(a, 0);
        p.rows[i + 1] = i > 0 && mf_ndim(a) == 1 ? 1 : mf_dim(a, -1);
    }
    find_order(&p, count);
    return product_of(&p, arrays, 0, count - 1);
}
