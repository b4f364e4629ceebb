/* What JAX's answers do not cover of the public functions: options, None, trees, composites, error messages. */
#include <manyfold.h>

#include "check.h"

static mf_value matrix(void) { return mf_array(MF_F32, MF_SHAPE(2, 3), 1, 2, 3, 4, 5, 6); }
static mf_value left_column(void) { return mf_array(MF_BOOL, MF_SHAPE(1, 3), 1, 0, 0); }

TEST(masks_choose_what_is_reduced)
{
    MF_SCOPE;
    mf_value x = matrix(), where = left_column();
    CHECK_EQ_INT(mf_item_f64(mf_sum(x, .where = where)), 5);
    CHECK_EQ_INT(mf_item_f64(mf_prod(x, .where = where)), 4);
    CHECK_EQ_INT(mf_item_f64(mf_max(x, .where = where)), 4);
    CHECK_EQ_INT(mf_item_f64(mf_min(x, .where = where)), 1);
    CHECK_NEAR(mf_item_f64(mf_mean(x, .where = where)), 2.5, 1e-7);
    CHECK_NEAR(mf_item_f64(mf_var(x, .where = where)), 2.25, 1e-7);
    CHECK_NEAR(mf_item_f64(mf_std(x, .where = where)), 1.5, 1e-7);
    CHECK(mf_item_bool(mf_any(mf_less(x, 2), .where = where)));
    CHECK(!mf_item_bool(mf_all(mf_less(x, 2), .where = where)));
}

TEST(reductions_take_axes_dims_and_dtypes)
{
    MF_SCOPE;
    mf_value x = matrix();
    CHECK_STR(mf_str(mf_sum(x, 0)), "[5. 7. 9.]");
    CHECK_STR(mf_str(mf_sum(x, .axis = -1, .keepdims = true)), "[[ 6.]\n [15.]]");
    CHECK_EQ_INT(mf_item_f64(mf_sum(x, .axis = mf_axes(1, 0))), 21);
    CHECK_EQ_INT(mf_ndim(mf_mean(x, .keepdims = true)), 2);
    CHECK_EQ_INT(mf_dtype_of(mf_sum(x, .dtype = MF_F64)), MF_F64);
    CHECK_EQ_INT(mf_dtype_of(mf_sum(mf_greater(x, 2))), MF_I32);
    CHECK_EQ_INT(mf_dtype_of(mf_mean(mf_arange(4, MF_I32))), MF_F32);
    CHECK_EQ_INT(mf_item_f64((mf_sum)(x)), 21);
    CHECK_EQ_INT(mf_item_f64(mf_sum_opt(x, NULL)), 21);
}

TEST(a_number_that_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value x = mf_arange(2, MF_I32), small = mf_arange(2, MF_U8);
    mf_value bad[] = { mf_add(x, 3000000000),
                       mf_less(3000000000, x),
                       mf_where(mf_greater(x, 0), x, 3000000000),
                       mf_floor_divide(x, -3000000000),
                       mf_add(mf_arange(2, MF_U32), 5000000000),
                       mf_add(small, 3000000000),
                       mf_at_set(x, 3000000000, 0) };
    for (int i = 0; i < 7; i++)
        CHECK_CONTAINS(mf_error(bad[i]), "000000000 is out of bounds for");
    CHECK_CONTAINS(mf_error(mf_add(mf_arange(2, MF_I64), 18446744073709551615ull)), "18446744073709551615 is out of bounds for int64");
    CHECK_STR(mf_str(mf_add(mf_arange(2, MF_U32), 3000000000)), "[3000000000 3000000001]");
    CHECK_STR(mf_str(mf_add(mf_arange(2, MF_I64), 3000000000)), "[3000000000 3000000001]");
    CHECK_STR(mf_str(mf_add(mf_arange(2, MF_F32), 3000000000)), "[3.e+09 3.e+09]");
    CHECK_STR(mf_str(mf_add(x, -2147483648ll)), "[-2147483648 -2147483647]");
    CHECK_STR(mf_str(mf_add(small, 300)), "[44 45]"); /* as in JAX */
}

static mf_value one_more(mf_value x) { return mf_expand_dims(x, 0); }

TEST(a_rank_above_8_is_an_error)
{
    MF_SCOPE;
    mf_shape nine = { .rank = 9 };
    mf_ints many = { .count = 9 };
    mf_value x = mf_ones(MF_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), MF_F32), five = mf_ones(MF_SHAPE(1, 1, 1, 1, 1), MF_F32), key = mf_random_key(0);
    mf_value bad[] = { mf_zeros(nine, MF_F32),
                       mf_full(nine, mf_f(1)),
                       mf_reshape(x, nine),
                       mf_broadcast_to(x, nine),
                       mf_iota(MF_F32, nine, 0),
                       mf_dynamic_slice(x, mf_list(0), nine),
                       mf_struct(nine, MF_F32),
                       mf_tile(x, many),
                       mf_transpose(x, many),
                       mf_slice_in(x, many, many, many),
                       mf_pad(x, 0, many, many, many),
                       mf_tensordot_axes(x, x, many, many),
                       mf_random_bits(key, nine, MF_U32),
                       mf_random_normal(key, nine, MF_F32),
                       mf_random_randint(key, nine, mf_i(0), mf_i(3), MF_I32),
                       mf_random_choice(key, mf_ones(MF_SHAPE(3), MF_F32), nine),
                       mf_random_gamma(key, 1.0, nine, MF_F32),
                       mf_random_categorical(key, mf_ones(MF_SHAPE(3), MF_F32), 0, nine),
                       mf_expand_dims(x, 0),
                       mf_get(x, mf_none()),
                       mf_stack(mf_list(x, x)),
                       mf_tensordot(five, five, 0),
                       mf_one_hot(mf_astype(x, MF_I32), 3),
                       mf_take(x, mf_zeros(MF_SHAPE(1, 1), MF_I32), 0),
                       mf_call(mf_jit(one_more), x),
                       mf_call(mf_vmap(one_more), mf_stack(mf_list(five, five))),
                       mf_call(mf_vmap(one_more), x),
                       mf_call(mf_pmap(one_more), x) };
    for (int i = 0; i < (int)(sizeof bad / sizeof *bad); i++) {
        bool fits = i == 25; /* 5 + 1 + 1 dimensions */
        if (!CHECK(mf_is_error(bad[i]) != fits))
            CHECK_NOTE("number %d", i);
        (void)mf_error(bad[i]);
    }
    CHECK_EQ_INT(mf_ndim(mf_call(mf_vmap(mf_square), x)), 8);
    CHECK_STR(mf_str(mf_zeros(MF_SHAPE(), MF_F32)), "0.0");
    CHECK_EQ_INT(MF_INTS().count, 0);
}

TEST(lists_stand_for_arrays_and_arrays_for_lists)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_quantile(mf_arange(5, MF_F32), mf_list(0.25, 0.5), 0)), "[1. 2.]");
    CHECK_STR(mf_str(mf_stack(mf_arange(2, MF_I32), 0)), "[0 1]");
    CHECK_CONTAINS(mf_error(mf_stack(mf_f(1), 0)), "at least one array is needed");
    CHECK_CONTAINS(mf_error(mf_concatenate(mf_arange(2, MF_I32), 0)), "without dimensions");
    CHECK_CONTAINS(mf_error(mf_stack(matrix(), 2)), "axis 2 is out of bounds");
}

TEST(the_norm_of_a_tree_is_that_of_all_its_leaves)
{
    MF_SCOPE;
    mf_value tree = mf_dict("w", mf_array(MF_F32, MF_SHAPE(2), 3, 4), "b", mf_tuple(mf_f(12), mf_none()));
    CHECK_STR(mf_str(mf_global_norm(tree)), "13.0");
    CHECK_STR(mf_str(mf_call(mf_grad(mf_global_norm), mf_array(MF_F32, MF_SHAPE(2), 3, 4))), "[0.6 0.8]");
}

static mf_value sum_of_runs(mf_value x) { return mf_sum(mf_cumlogsumexp(x, 0)); }

/* As in JAX. cumlogsumexp pads with -inf, which must not affect its derivatives. */
TEST(the_slopes_of_logaddexp_of_two_minus_infinities_are_nan)
{
    MF_SCOPE;
    mf_function slopes = mf_grad(mf_logaddexp, .argnums = MF_INTS(0, 1));
    CHECK_STR(mf_str(mf_call(slopes, -INFINITY, -INFINITY)), "(nan, nan)");
    CHECK_STR(mf_str(mf_call(slopes, INFINITY, -INFINITY)), "(1.0, 0.0)");
    CHECK_STR(mf_str(mf_call(slopes, 1.0, -INFINITY)), "(1.0, 0.0)");
    CHECK_STR(mf_str(mf_call(mf_grad(sum_of_runs), mf_array(MF_F32, MF_SHAPE(3), 0, -INFINITY, -INFINITY))), "[3. 0. 0.]");
}

TEST(an_integer_as_exponent_makes_products)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_pow(matrix(), 2)), "[[ 1.  4.  9.]\n [16. 25. 36.]]");
    CHECK_EQ_INT(mf_dtype_of(mf_pow(mf_arange(3, MF_I32), 3)), MF_I32);
    CHECK_EQ_INT(mf_dtype_of(mf_pow(mf_arange(3, MF_I32), -1)), MF_F32);
    CHECK_CONTAINS(mf_program_text(mf_square, matrix()), "square");
}

static mf_value cubed(mf_value x) { return mf_pow(x, 3); }
static mf_value rooted(mf_value x) { return mf_pow(x, 0.5); }

TEST(powers_stay_what_they_are_while_tracing)
{
    MF_SCOPE;
    CHECK_CONTAINS(mf_program_text(cubed, matrix()), "integer_pow[y=3]");
    CHECK_CONTAINS(mf_program_text(rooted, matrix()), " pow ");
}

TEST(bool_adds_by_or_and_multiplies_by_and)
{
    MF_SCOPE;
    mf_value a = mf_array(MF_BOOL, MF_SHAPE(2), 1, 0), b = mf_array(MF_BOOL, MF_SHAPE(2), 1, 1);
    CHECK_STR(mf_str(mf_add(a, b)), "[ True  True]");
    CHECK_STR(mf_str(mf_mul(a, b)), "[ True False]");
    CHECK_STR(mf_str(mf_floor(mf_arange(2, MF_I32))), "[0 1]");
    CHECK_STR(mf_str(mf_isnan(mf_arange(2, MF_I32))), "[False False]");
}

TEST(clip_has_open_sides)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_clip(matrix(), 2, mf_none())), "[[2. 2. 3.]\n [4. 5. 6.]]");
    CHECK_STR(mf_str(mf_clip(matrix(), mf_none(), 2.5)), "[[1.  2.  2.5]\n [2.5 2.5 2.5]]");
}

static mf_value stopped(mf_value x) { return mf_sum(mf_mul(mf_get(mf_stop_gradient(mf_dict("x", x, "name", "me")), "x"), x)); }

TEST(stop_gradient_goes_over_trees)
{
    MF_SCOPE;
    CHECK_STR(mf_str(mf_call(mf_grad(stopped), matrix())), "[[1. 2. 3.]\n [4. 5. 6.]]");
}

TEST(arrays_compare_whole)
{
    MF_SCOPE;
    mf_value x = matrix();
    CHECK(mf_item_bool(mf_array_equal(x, matrix())));
    CHECK(!mf_item_bool(mf_array_equal(x, mf_arange(6, MF_F32))));
    CHECK(mf_item_bool(mf_allclose(x, mf_mul(x, 1.000001))));
    CHECK(!mf_item_bool(mf_allclose(x, mf_mul(x, 1.0001))));
    CHECK(mf_item_bool(mf_allclose(mf_f(INFINITY), mf_f(INFINITY))));
    CHECK(!mf_item_bool(mf_allclose(mf_f(NAN), mf_f(NAN))));
}

TEST(softmax_does_not_overflow)
{
    MF_SCOPE;
    mf_value x = mf_array(MF_F32, MF_SHAPE(2), 1000, 1000);
    CHECK_STR(mf_str(mf_softmax(x, 0)), "[0.5 0.5]");
    CHECK_NEAR(mf_item_f64(mf_logsumexp(x, -1)), 1000.6931, 1e-6);
    CHECK_EQ_INT(mf_item_f64(mf_softplus(mf_f(1000))), 1000);
    CHECK_EQ_INT(mf_item_f64(mf_logsumexp(mf_array(MF_F32, MF_SHAPE(2), -INFINITY, -INFINITY), 0)) == -INFINITY, 1);
}

TEST(errors_say_what_is_wrong)
{
    MF_SCOPE;
    CHECK_CONTAINS(mf_error(mf_sum(matrix(), 2)), "sum: axis 2 is out of bounds");
    CHECK_CONTAINS(mf_error(mf_max(mf_zeros(MF_SHAPE(0, 2), MF_F32), 0)), "max of no elements");
    CHECK_CONTAINS(mf_error(mf_add(matrix(), mf_arange(2, MF_F32))), "add got incompatible shapes");
    CHECK_CONTAINS(mf_error(mf_bitwise_and(matrix(), matrix())), "integers and bool");
    CHECK_CONTAINS(mf_error(mf_bitcast(matrix(), MF_F64)), "not of one width");
    CHECK_CONTAINS(mf_error(mf_integer_pow(mf_dict("x", 1), 2)), "integer_pow");
    CHECK_CONTAINS(mf_error(mf_mean(mf_make_error(MF_ERROR_SHAPE, "the first"))), "the first");
    CHECK_CONTAINS(mf_error(mf_remainder(mf_make_error(MF_ERROR_SHAPE, "the first"), 2)), "the first");
}

static mf_value sum_of_relu(mf_value x) { return mf_sum(mf_relu(x)); }

TEST(relu_slopes_where_it_is_positive_alone)
{
    mf_value x = mf_array(MF_F32, MF_SHAPE(6), -1, 0, 1, NAN, INFINITY, -0.0);
    CHECK_STR(mf_str(mf_relu(x)), "[ 0.  0.  1. nan inf  0.]");
    CHECK_STR(mf_str(mf_call(mf_grad(sum_of_relu), x)), "[0. 0. 1. 0. 1. 0.]");
}

/* 1 - x^2 must not be computed from x^2: near the ends most of its bits would be rounding errors. The values are from mpmath. */
static void check_erf_inv(const char *backend)
{
    static const double at[] = { 0x1.8p-1,
                                 -0x1.ff7ced916872bp-1,
                                 0x1.fff2e48e8a71ep-1,
                                 0x1.ffffde7210be9p-1,
                                 0x1.ffffffaa19c47p-1,
                                 0x1.ffffffff24190p-1,
                                 0x1.fffffffffffffp-1 };
    static const double is[] = { 0x1.a07890f6b2ba1p-1, -0x1.29d311405cdb4p+1, 0x1.6022dcb01ea50p+1, 0x1.babd964830d58p+1,
                                 0x1.0357dae0de3e0p+2, 0x1.24a92a03d21cdp+2,  0x1.7744f8f74e94ap+2 };
    MF_SCOPE;
    if (mf_set_default_backend(backend) != MF_OK) /* the native engine needs AVX2 or NEON */
        return;
    mf_value got = mf_erf_inv(mf_from_host(MF_F64, MF_SHAPE(7), at));
    for (int i = 0; i < 7; i++)
        CHECK_NEAR(mf_item_f64(mf_get(got, i)) / is[i], 1, 8 * 0x1p-53);
}

TEST(inverse_error_function_is_accurate_to_the_ends)
{
    check_erf_inv("reference");
    check_erf_inv("native");
}

#define CHECK_ERROR(v, status, part)                    \
    do {                                                \
        mf_value checked = (v);                         \
        CHECK_EQ_INT(mf_error_status(checked), status); \
        CHECK_CONTAINS(mf_error(checked), part);        \
    } while (0)

TEST(indexing_takes_numbers_and_modes)
{
    MF_SCOPE;
    mf_value x = mf_arange(4, MF_F32);
    CHECK_STR(mf_str(mf_index_add(x, 1, 2)), "[0. 3. 2. 3.]");
    CHECK_STR(mf_str(mf_index_update(x, -1, 9.5)), "[0.  1.  2.  9.5]");
    CHECK_STR(mf_str(mf_pad(x, 7, MF_INTS(1), MF_INTS(-2), MF_INTS0)), "[7. 0. 1.]");
    CHECK_STR(mf_str(mf_dynamic_slice_in_dim(x, 1, 2, 0)), "[1. 2.]");
    CHECK_STR(mf_str(mf_dynamic_update_slice_in_dim(x, mf_zeros(MF_SHAPE(2), MF_F32), 3, 0)), "[0. 1. 0. 0.]");
    CHECK_STR(mf_str(mf_take(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)), mf_array(MF_I32, MF_SHAPE(4), 0, 4, -1, 6))),
              "[ 0.  4.  5. nan]"); /* no axis: flattened */
    CHECK_STR(mf_str(mf_take(3.0f, 0)), "3.0");
    CHECK_STR(mf_str(mf_take(x, 5, 0, .mode = MF_TAKE_CLIP)), "3.0");
    CHECK_STR(mf_str(mf_take(x, -5, 0, MF_TAKE_WRAP)), "3.0");
    CHECK_STR(mf_str((mf_take)(x, mf_i(-1), 0)), "3.0");
    CHECK_STR(mf_str(mf_one_hot(1, 3)), "[0. 1. 0.]");
    CHECK_STR(mf_str((mf_one_hot)(mf_i(1), 3)), "[0. 1. 0.]");
    CHECK_STR(mf_str((mf_eye)(2, MF_I32)), "[[1 0]\n [0 1]]");
    CHECK_ERROR(mf_take(x, 0, 0, .mode = (mf_take_mode)9), MF_ERROR_ARGUMENT, "9 is no mode");
    CHECK_ERROR(mf_take(mf_zeros(MF_SHAPE(0), MF_F32), 0, 0, .mode = MF_TAKE_CLIP), MF_ERROR_SHAPE, "nothing to take");
    CHECK_ERROR(mf_take(mf_zeros(MF_SHAPE(0, 3), MF_F32), 0, 0), MF_ERROR_SHAPE, "nothing to take");
    CHECK_ERROR(mf_take(mf_zeros(MF_SHAPE(0, 3), MF_F32), 0), MF_ERROR_SHAPE, "nothing to take");
    CHECK_EQ_INT(mf_dim(mf_take(mf_zeros(MF_SHAPE(0, 3), MF_F32), mf_zeros(MF_SHAPE(0), MF_I32), 0), 0), 0);
    CHECK_ERROR(mf_one_hot(1, 3, .axis = 1), MF_ERROR_AXIS, "one_hot");
    CHECK_ERROR(mf_eye(2, MF_F32, .columns = -1), MF_ERROR_SHAPE, "2 by -1");
}

/* A C number is weakly typed, but keeps its digits beside float64, as in NumPy, and in JAX with 64 bits enabled. */
TEST(numbers_keep_their_digits_beside_float64)
{
    MF_SCOPE;
    mf_value one = mf_ones(MF_SHAPE(2), MF_F64);
    CHECK_NEAR(mf_item_f64(mf_get(mf_mul(one, 0.1), 0)), 0.1, 0);
    CHECK_NEAR(mf_item_f64(mf_get(mf_where(mf_greater(one, 2), one, 0.1), 0)), 0.1, 0);
    CHECK_NEAR(mf_item_f64(mf_get(mf_full_like(one, mf_f(0.1)), 0)), 0.1, 0);
    CHECK_NEAR(mf_item_f64(mf_astype(mf_f(0.1), MF_F64)), 0.1, 0);
    CHECK_NEAR(mf_item_f64(mf_mul(mf_scalar(3, MF_F64), mf_neg(mf_f(0.1)))), 3 * -(double)0.1F, 0); /* computed from it: a float32 */
    CHECK_NEAR(mf_item_f64(mf_get(mf_real(mf_mul(mf_ones(MF_SHAPE(1), MF_C128), mf_c(0.1, 0.2))), 0)), 0.1, 0);
    CHECK_NEAR(mf_item_f64(mf_get(mf_imag(mf_mul(mf_ones(MF_SHAPE(1), MF_C128), mf_c(0.1, 0.2))), 0)), 0.2, 0);
    CHECK_NEAR(mf_item_f64(mf_mul(mf_ones(MF_SHAPE(), MF_F32), 0.1)), 0.1F, 0);
}

/* Parameters with defaults may be omitted, or given by position or name. */
TEST(parameters_with_defaults_go_by_name)
{
    MF_SCOPE;
    mf_value x = mf_reshape(mf_arange(6), MF_SHAPE(2, 3));
    CHECK_STR(mf_str(x), "[[0 1 2]\n [3 4 5]]");
    CHECK_STR(mf_str(mf_arange(2, .dtype = MF_F32)), "[0. 1.]");
    CHECK_STR(mf_str(mf_arange_opt(2, 5)), "[2 3 4]");
    CHECK_STR(mf_str((mf_arange)(2, MF_DTYPE_DEFAULT)), "[0 1]");
    CHECK_STR(mf_str(mf_argmax(x)), "5");
    CHECK_STR(mf_str(mf_argmax(x, .axis = -1)), "[2 2]");
    CHECK_STR(mf_str(mf_argmax(mf_argmax(x, .axis = 0), .axis = mf_ndim(x) - 2)), "0");
    CHECK_STR(mf_str(mf_stack(mf_list(1, 2), .axis = 0)), "[1 2]");
    CHECK_STR(mf_str(mf_diff(mf_square(x), .axis = 0)), "[[ 9 15 21]]");
    CHECK_STR(mf_str(mf_diff(mf_square(x), 2)), "[[2]\n [2]]");
    CHECK_STR(mf_str(mf_diff(mf_square(x), 1, .axis = 1)), "[[1 3]\n [7 9]]");
    CHECK_STR(mf_str(mf_take(x, 1, .axis = 0)), "[3 4 5]");
    CHECK_STR(mf_str(mf_take(x, 9, .axis = 0, .mode = MF_TAKE_CLIP)), "[3 4 5]");
    CHECK_STR(mf_str(mf_leaky_relu(-1.0, .negative_slope = 0.5)), "-0.5");
}
