/* Functions composed of several ops: their errors, and complex numbers and linear algebra in transforms. Their values are tested in
 * test_oracle.c. */
#include <manyfold.h>

#include "check.h"

static bool says(mf_value v, const char *part)
{
    const char *text = mf_error(v);
    if (text && strstr(text, part))
        return true;
    CHECK_NOTE("\"%s\" does not say \"%s\"", text ? text : "no error", part);
    return false;
}

TEST(einsum_names_the_subscript)
{
    MF_SCOPE;
    mf_value a = mf_ones(MF_SHAPE(2, 3), MF_F32), b = mf_ones(MF_SHAPE(3, 4), MF_F32);
    CHECK(says(mf_einsum("ij,jk->il", a, b), "output subscript 'l' is in no operand"));
    CHECK(says(mf_einsum("ij,ik->jk", a, b), "subscript 'i' has size 3 in operand 1, but 2 before"));
    CHECK(says(mf_einsum("ij,jk->ii", a, b), "subscript 'i' stands twice in the output"));
    CHECK(says(mf_einsum("ij,j1", a, b), "'1' is no subscript"));
    CHECK(says(mf_einsum("ij,jk", a), "not for 1 operand"));
    CHECK(says(mf_einsum("ijk,jk", a, b), "\"ijk\" has 3 subscripts, but operand 0 has 2 dimensions"));
    CHECK(says(mf_einsum("...i,...j", mf_ones(MF_SHAPE(2, 3), MF_F32), mf_ones(MF_SHAPE(4, 3), MF_F32)), "do not broadcast"));
}

TEST(wrong_arguments_are_refused)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(2, 3), MF_F32), v = mf_ones(MF_SHAPE(3), MF_F32);
    CHECK(says(mf_top_k(x, 4, -1), "top_k: k must lie between 0 and 3"));
    CHECK(says(mf_quantile(mf_ones(MF_SHAPE(0), MF_F32), 0.5, MF_ALL), "no elements"));
    CHECK(says(mf_searchsorted(x, v, false), "one dimension"));
    CHECK(says(mf_repeat(x, -1, 0), "must not be negative"));
    CHECK(says(mf_repeat(x, 2, 2), "axis 2 is out of bounds"));
    CHECK(says(mf_diag(mf_ones(MF_SHAPE(1, 1, 1), MF_F32), 0), "one or two dimensions"));
    CHECK(says(mf_trace(v), "two dimensions"));
    CHECK(says(mf_tensordot(x, v, 3), "3 axes"));
    CHECK(says(mf_cumlogsumexp(x, 2), "axis 2 is out of bounds"));
    CHECK(says(mf_cholesky(x), "square matrix"));
    CHECK(says(mf_cholesky(mf_ones(MF_SHAPE(2, 2), MF_F16)), "float16"));
    CHECK(says(mf_triangular_solve(mf_ones(MF_SHAPE(2, 2), MF_F32), x), "columns of b"));
    CHECK(says(mf_norm(x, .ord = 3), "a matrix norm"));
    CHECK(says(mf_norm(mf_ones(MF_SHAPE(1, 1, 1), MF_F32), .ord = 1), "one axis or two"));
}

/* ---- complex numbers */
/* Ordered by the real parts, then by the imaginary parts; the values are JAX 0.10.2's. */
static mf_value real_of_max(mf_value z) { return mf_real(mf_max(z)); }
static mf_value imag_of_least(mf_value z) { return mf_imag(mf_get(mf_sort(z, 0), 0)); }
static mf_value last_running(mf_value z) { return mf_real(mf_get(mf_cummax(z, 0), 3)); }
static mf_value greater(mf_value z, mf_value w) { return mf_maximum(z, w); }

TEST(the_order_of_complex_numbers)
{
    MF_SCOPE;
    const float first[] = { 1, 2, 1, -1, 0, 5, 2, 0 }, second[] = { 1, 1, 1, -1, 3, 0, -1, 0 };
    mf_value z = mf_from_host(MF_C64, MF_SHAPE(4), first), w = mf_from_host(MF_C64, MF_SHAPE(4), second);
    CHECK_STR(mf_str(mf_maximum(z, w)), "[1.+2.j 1.-1.j 3.+0.j 2.+0.j]");
    CHECK_STR(mf_str(mf_minimum(z, w)), "[ 1.+1.j  1.-1.j  0.+5.j -1.+0.j]");
    CHECK_STR(mf_str(mf_less(z, w)), "[False False  True False]");
    CHECK_STR(mf_str(mf_greater_equal(z, w)), "[ True  True False  True]");
    CHECK_STR(mf_str(mf_tuple(mf_max(z), mf_min(z))), "((2+0j), 5j)");
    CHECK_STR(mf_str(mf_sort(z, 0)), "[0.+5.j 1.-1.j 1.+2.j 2.+0.j]");
    CHECK_STR(mf_str(mf_argsort(z, 0)), "[2 1 0 3]");
    CHECK_STR(mf_str(mf_argsort_descending(z, 0)), "[3 0 1 2]");
    CHECK_STR(mf_str(mf_searchsorted(mf_sort(z, 0), w, false)), "[2 1 4 0]");
    CHECK_STR(mf_str(mf_cummax(z, 0)), "[1.+2.j 1.+2.j 1.+2.j 2.+0.j]");
    CHECK_STR(mf_str(mf_cummin(z, 0)), "[1.+2.j 1.-1.j 0.+5.j 0.+5.j]");
    CHECK_STR(mf_str(mf_call(mf_grad(real_of_max), z)), "[0.+0.j 0.+0.j 0.+0.j 1.+0.j]");
    CHECK_STR(mf_str(mf_call(mf_grad(last_running), z)), "[0.+0.j 0.+0.j 0.+0.j 1.+0.j]");
    CHECK_STR(mf_str(mf_call(mf_grad(imag_of_least), z)), "[0.+0.j 0.+0.j 0.-1.j 0.+0.j]");
    mf_function pullback;
    mf_vjp(greater, mf_tuple(z, w), &pullback);
    CHECK_STR(mf_str(mf_get(mf_call(pullback, mf_ones_like(z)), 0)), "[1. +0.j 0.5+0.j 0. +0.j 1. +0.j]");
    CHECK(says(mf_argmax(z, 0), "complex64"));
    CHECK(says(mf_top_k(z, 2, 0), "complex64"));
    CHECK(says(mf_floor(z), "complex64"));
    CHECK(says(mf_bitwise_and(z, z), "complex64"));
}

static mf_value total(mf_value z) { return mf_psum(z, "i"); }
static mf_value extremes(mf_value z) { return mf_tuple(mf_pmax(z, "i"), mf_pmin(z, "i")); }

TEST(complex_numbers_over_devices)
{
    MF_SCOPE;
    const float parts[] = { 1, 2 };
    mf_value z = mf_from_host(MF_C64, MF_SHAPE(1), parts);
    float sum[2] = { 0, 0 };
    CHECK(mf_to_host(mf_call(mf_pmap(total, "i"), z), MF_C64, sum, 1) == MF_OK && sum[0] == 1 && sum[1] == 2);
    const float many[] = { 1, 2, 3, -4, 0.5f, 8 };
    CHECK(mf_to_host(mf_get(mf_call(mf_vmap(total, "i"), mf_from_host(MF_C64, MF_SHAPE(3), many)), 0), MF_C64, sum, 1) == MF_OK);
    CHECK(sum[0] == 4.5f && sum[1] == 6);
    mf_value found = mf_call(mf_pmap(extremes, "i", .out_axes = MF_NONE), mf_from_host(MF_C64, MF_SHAPE(2), many));
    CHECK_STR(mf_str(found), "((3-4j), (1+2j))");
    found = mf_call(mf_vmap(extremes, "i"), mf_from_host(MF_C64, MF_SHAPE(3), many));
    CHECK_STR(mf_str(mf_get(found, 1)), "[0.5+8.j 0.5+8.j 0.5+8.j]");
}

static mf_value holomorphic(mf_value z) { return mf_mul(mf_exp(z), z); }
static mf_value distance(mf_value z) { return mf_square(mf_abs(z)); }

TEST(gradients_of_complex_functions)
{
    MF_SCOPE;
    const float parts[] = { 0, 2 };
    float g[2] = { 0, 0 };
    mf_value z = mf_from_host(MF_C64, MF_SHAPE0, parts), expected = mf_mul(mf_exp(z), mf_add(z, 1));
    CHECK(mf_item_bool(mf_allclose(mf_call(mf_grad(holomorphic, .holomorphic = true), z), expected)));
    CHECK(mf_to_host(mf_call(mf_grad(distance), z), MF_C64, g, 1) == MF_OK && g[0] == 0 && g[1] == -4);
    CHECK(says(mf_call(mf_grad(holomorphic), z), ".holomorphic = true"));
    CHECK(says(mf_call(mf_grad(holomorphic, .holomorphic = true), mf_scalar(1, MF_F32)), "complex inputs"));
    CHECK(says(mf_call(mf_grad(distance, .holomorphic = true), z), "complex outputs"));
}

/* ---- linear algebra */
static mf_value solution(mf_value a, mf_value b) { return mf_solve_spd(a, b); }

TEST(maps_solve_each_system)
{
    MF_SCOPE;
    mf_value a = mf_array(MF_F32, MF_SHAPE(2, 2, 2), 4, 2, 2, 10, 9, 3, 3, 5), b = mf_array(MF_F32, MF_SHAPE(2, 2), 1, 2, 3, 4);
    mf_value mapped = mf_call(mf_vmap(solution), a, b),
             shared = mf_call(mf_vmap(solution, .in_axes = mf_axes(MF_NONE, 0)), mf_get(a, 0), b);
    for (int i = 0; i < 2; i++) {
        CHECK(mf_item_bool(mf_allclose(mf_get(mapped, i), mf_solve_spd(mf_get(a, i), mf_get(b, i)))));
        CHECK(mf_item_bool(mf_allclose(mf_get(shared, i), mf_solve_spd(mf_get(a, 0), mf_get(b, i)))));
    }
}
