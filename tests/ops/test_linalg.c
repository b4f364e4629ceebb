/* Linear algebra, in addition to JAX's answers (test_oracle.c) and the ops' samples: errors, corner cases, second derivatives, large
 * batches. */
#include "check.h"

#include <manyfold.h>

static mf_value random_matrices(mf_shape shape) { return mf_random_normal(mf_random_key(7), shape, MF_F64); }
static mf_value sum_of_squares(mf_value x) { return mf_sum(mf_square(x)); }
static mf_value wide_r(mf_value a) { return sum_of_squares(mf_qr(a, MF_QR_R)); }
static mf_value full_u(mf_value a) { return sum_of_squares(mf_get(mf_svd(a), 0)); }
static mf_value full_values(mf_value a) { return mf_sum(mf_get(mf_svd(a), 1)); }
static mf_value vectors(mf_value a) { return mf_get(mf_get(mf_get(mf_eigh(a), 1), 0), 0); }
static mf_value values(mf_value a) { return mf_sum(mf_get(mf_eigh(a), 0)); }

TEST(errors_say_what_is_wrong)
{
    mf_value wide = mf_ones(MF_SHAPE(2, 3), MF_F32), square = mf_eye(3, MF_F32), line = mf_ones(MF_SHAPE(3), MF_F32);
    CHECK_CONTAINS(mf_error(mf_solve(wide, line)), "solve: the last two dimensions must be those of a square matrix, not (2, 3)");
    CHECK_CONTAINS(mf_error(mf_solve(square, mf_ones(MF_SHAPE(2), MF_F32))), "does not fit the rows of b");
    CHECK_CONTAINS(mf_error(mf_inv(line)), "inv: the last two dimensions must be those of a square matrix");
    CHECK_CONTAINS(mf_error(mf_det(wide)), "det: the last two dimensions");
    CHECK_CONTAINS(mf_error(mf_slogdet(wide)), "slogdet: the last two dimensions");
    CHECK_CONTAINS(mf_error(mf_lu(wide)), "must be those of a square matrix");
    CHECK_CONTAINS(mf_error(mf_eigh(wide)), "must be those of a square matrix");
    CHECK_CONTAINS(mf_error(mf_eigh(wide, MF_TRIANGLE_LOWER)), "must be those of a square matrix");
    CHECK_CONTAINS(mf_error(mf_qr(line)), "a matrix needs two dimensions");
    CHECK_CONTAINS(mf_error(mf_svd(mf_f(2))), "a matrix needs two dimensions");
    CHECK_CONTAINS(mf_error(mf_pinv(line)), "a matrix needs two dimensions");
    CHECK_CONTAINS(mf_error(mf_svd(mf_astype(wide, MF_BF16))), "not for bfloat16");
    CHECK_CONTAINS(mf_error(mf_qr(square, 7)), "there is no mode 7");
    CHECK_CONTAINS(mf_error(mf_eigh(square, 9)), "there is no triangle 9");
    CHECK_CONTAINS(mf_error(mf_call(mf_grad(wide_r), wide)), "at least as many rows as columns");
    CHECK_CONTAINS(mf_error(mf_call(mf_grad(full_u), wide)), "full_matrices of a matrix that is not square");
    CHECK_CONTAINS(mf_error(mf_solve(mf_make_error(MF_ERROR_IO, "mine"), line)), "mine");
    CHECK_CONTAINS(mf_error(mf_solve(square, mf_make_error(MF_ERROR_IO, "mine"))), "mine");
}

TEST(values_alone_have_derivatives_where_vectors_have_none)
{
    mf_value wide = random_matrices(MF_SHAPE(2, 3)), one = mf_eye(3, MF_F64);
    CHECK(!mf_is_error(mf_call(mf_grad(values), one)));
    CHECK_NEAR(mf_item_f64(mf_sum(mf_call(mf_grad(values), one))), 3, 1e-12);
    CHECK(isnan(mf_item_f64(mf_sum(mf_call(mf_grad(vectors), one)))));
    CHECK_CONTAINS(mf_error(mf_call(mf_grad(full_values), wide)), "full_matrices");
}

static mf_value log_determinant(mf_value a) { return mf_get(mf_slogdet(a), 1); }
static mf_value determinant(mf_value a) { return mf_det(a); }
static mf_value sum_of_solution(mf_value a) { return mf_sum(mf_solve(a, mf_ones(MF_SHAPE(4), MF_F64))); }

/* d2 f(a + s u + t v) / ds dt by differences of the gradient. */
static void check_second(mf_fn1 f, mf_value a, double tolerance)
{
    double step = 1e-5;
    mf_value u = random_matrices(MF_SHAPE(4, 4)), v = mf_cos(mf_mul(u, 3)), gradient[2];
    for (int i = 0; i < 2; i++)
        gradient[i] = mf_call(mf_grad(f), mf_add(a, mf_mul(u, i ? step : -step)));
    double slope = mf_item_f64(mf_sum(mf_mul(mf_sub(gradient[1], gradient[0]), v))) / (2 * step);
    mf_value hessian = mf_call(mf_hessian(f), a);
    CHECK_NEAR(mf_item_f64(mf_einsum("ijkl,ij,kl", hessian, u, v)), slope, tolerance);
}

TEST(second_derivatives)
{
    mf_value a = mf_add(random_matrices(MF_SHAPE(4, 4)), mf_mul(mf_eye(4, MF_F64), 4));
    check_second(log_determinant, a, 1e-6);
    check_second(determinant, a, 1e-6);
    check_second(sum_of_solution, a, 1e-6);
}

/* Batches that are cut into pieces give the same bits as single matrices. */
TEST(batches_have_the_bits_of_single_matrices)
{
    enum { COUNT = 40, N = 24 };
    mf_value all = random_matrices(MF_SHAPE(COUNT, N, N));
    mf_value whole[] = { mf_svd(all), mf_eigh(all), mf_qr(all), mf_lu(all) };
    for (int i = 0; i < COUNT; i += 13) {
        mf_value one = mf_get(all, i), single[] = { mf_svd(one), mf_eigh(one), mf_qr(one), mf_lu(one) };
        for (size_t f = 0; f < sizeof whole / sizeof *whole; f++)
            for (int k = 0; k < mf_len(single[f]); k++)
                if (!CHECK(mf_item_bool(mf_array_equal(mf_get(mf_get(whole[f], k), i), mf_get(single[f], k)))))
                    CHECK_NOTE("function %zu, result %d, matrix %d", f, k, i);
    }
}

TEST(factors_give_their_matrix_back)
{
    for (int rows = 1; rows < 6; rows++)
        for (int columns = 1; columns < 6; columns++) {
            mf_value a = random_matrices(MF_SHAPE(2, rows, columns));
            for (int full = 0; full < 2; full++) {
                mf_value qr = mf_qr(a, full ? MF_QR_COMPLETE : MF_QR_REDUCED);
                CHECK(mf_item_bool(mf_allclose(mf_matmul(mf_get(qr, 0), mf_get(qr, 1)), a)));
            }
            mf_value thin = mf_svd(a, .full_matrices = false), us = mf_mul(mf_get(thin, 0), mf_expand_dims(mf_get(thin, 1), 1)),
                     p = mf_pinv(a);
            CHECK(mf_item_bool(mf_allclose(mf_matmul(us, mf_get(thin, 2)), a)));
            CHECK(mf_item_bool(mf_allclose(mf_matmul(mf_matmul(a, p), a), a)));
        }
}

/* The numbers are those of jax.numpy.linalg, jax 0.10.2. */
static mf_value norm_2(mf_value a) { return mf_norm(a, .ord = 2); }
static mf_value nuclear(mf_value a) { return mf_norm(a, .ord = MF_NUCLEAR); }
static mf_value matrix_4_3(void) { return mf_array(MF_F32, MF_SHAPE(4, 3), 1, 2, 0, 3, -1, 4, 0, 5, 2, 1, 1, 1); }
static void near_all(mf_value v, const double *expected, double tolerance)
{
    mf_value flat = mf_ravel(v);
    for (int i = 0; i < mf_size(flat); i++)
        CHECK_NEAR(mf_item_f64(mf_get(flat, i)), expected[i], tolerance);
}

TEST(norms_by_singular_values)
{
    mf_value a = matrix_4_3(), x = mf_stack(mf_list(a, mf_mul(2, a), mf_mul(a, a)), 0);
    CHECK_NEAR(mf_item_f64(norm_2(a)), 6.0425754, 1e-5);
    CHECK_NEAR(mf_item_f64(mf_norm(a, .ord = -2)), 1.2316189, 1e-5);
    CHECK_NEAR(mf_item_f64(nuclear(a)), 12.2712345, 1e-5);
    near_all(mf_call(mf_grad(norm_2), a),
             (double[]){ 0.08952718, 0.22310083, 0.17569852, 0.12504636, 0.31161425, 0.24540548, 0.24513793, 0.61088127, 0.48108712,
                         0.08160564, 0.20336041, 0.16015236 },
             1e-5);
    near_all(mf_call(mf_grad(nuclear), a),
             (double[]){ 0.7087129, 0.44488704, -0.42143017, 0.53852135, -0.2714956, 0.7751482, -0.28353387, 0.832554, 0.46899334,
                         0.35683283, 0.18766838, 0.03983599 },
             1e-5);
    near_all(mf_norm(x, .axis = mf_axes(2, 0), .ord = 2), (double[]){ 6.4434676, 21.459972, 27.932644, 4.242641 }, 1e-5);
    near_all(mf_norm(x, .axis = mf_axes(2, 0), .ord = MF_NUCLEAR), (double[]){ 7.1375246, 24.193037, 30.33421, 4.242641 }, 1e-5);
    CHECK_STR(mf_str(mf_shape_of(mf_norm(x, .axis = mf_axes(0, 2), .ord = 2, .keepdims = true))), "(1, 4, 1)");
    CHECK(mf_is_error(mf_norm(a, .ord = 3)));
}

TEST(least_squares)
{
    mf_value a = matrix_4_3(), b = mf_array(MF_F32, MF_SHAPE(4), 1, 2, 3, 4), r = mf_lstsq(a, b);
    near_all(mf_get(r, 0), (double[]){ 0.7932032, 0.5733912, 0.17498197 }, 1e-5);
    near_all(mf_get(r, 1), (double[]){ 7.2306576 }, 1e-5);
    CHECK_EQ_INT(mf_item_i64(mf_get(r, 2)), 3);
    near_all(mf_get(r, 3), (double[]){ 6.042575, 4.99704, 1.2316188 }, 1e-5);
    r = mf_lstsq(a, mf_stack(mf_list(b, mf_mul(b, b)), 1));
    near_all(mf_get(r, 0), (double[]){ 0.7932032, 1.9356472, 0.5733912, 1.7693421, 0.17498197, 0.5929139 }, 1e-5);
    near_all(mf_get(r, 1), (double[]){ 7.2306576, 163.82936 }, 1e-5);
    mf_value c = mf_array(MF_F32, MF_SHAPE(3, 2), 1, 2, 2, 4, 3, 6), three = mf_array(MF_F32, MF_SHAPE(3), 1, 2, 3);
    near_all(mf_get(mf_lstsq(mf_transpose(a, MF_INTS0), three), 0), (double[]){ -0.33044103, 0.4374548, 0.6160519, 0.01807661 }, 1e-5);
    r = mf_lstsq(c, three); /* of many solutions, the one with the smallest norm */
    near_all(mf_get(r, 0), (double[]){ 0.2, 0.4 }, 1e-5);
    CHECK_EQ_INT(mf_item_i64(mf_get(r, 2)), 1);
    CHECK_EQ_INT(mf_item_i64(mf_get(mf_lstsq(c, three, .rcond = 1e-12), 2)) >= 1, 1);
    CHECK_CONTAINS(mf_error(mf_lstsq(a, three)), "lstsq: a matrix and a vector");
}
