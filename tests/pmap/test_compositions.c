/* Nested transforms, control flow and collectives, on eight devices. The expected numbers are JAX 0.4.35's unless a comment says
 * otherwise. */
#include "numbers.h"

#define FN(name, expression) \
    static mf_value name(mf_value v) { return (expression); }
#define FN2(name, a, b, expression) \
    static mf_value name(mf_value a, mf_value b) { return (expression); }
/* A closure over an outer value w. */
#define OVER(name, argument, expression)              \
    static mf_value name(void *w_, mf_value argument) \
    {                                                 \
        mf_value w = *(mf_value *)w_;                 \
        return (expression);                          \
    }

#define X4  mf_arange(4, MF_F32)
#define XS  F32(1, 2, 3)
#define M42 mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2))
#define M34 mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(3, 4))
#define W   mf_scalar(3, MF_F32)

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

FN(sum, mf_psum(v, "i"))
FN(times_sum, mf_mul(v, mf_psum(v, "i")))
FN(plus_sum, mf_add(v, mf_psum(v, "i")))
FN(double_it, mf_mul(v, 2))

/* ---- jit, captures */

FN(around, mf_sub(mf_sum(mf_call(mf_pmap(times_sum, "i"), mf_add(v, 1))), 1))
OVER(with_outer, v, mf_add(mf_mul(v, w), mf_psum(mf_mul(w, v), "i")))
FN2(jit_capture, x, w, mf_call(mf_pmap(mf_closure(with_outer, &w), "i"), x))
OVER(jit_in_pmap, u, mf_add(mf_mul(u, w), mf_psum(u, "i")))
FN(pmap_jit_capture, mf_call(mf_jit(mf_closure(jit_in_pmap, &v)), mf_add(v, 1)))

TEST(jit_and_pmap)
{
    EXPECT(mf_call(mf_jit(around), mf_arange(8, MF_F32)), 1295);
    EXPECT(mf_call(mf_jit(jit_capture), X4, W), 18, 21, 24, 27);
    EXPECT(mf_call(mf_pmap(pmap_jit_capture, "i"), X4), 10, 12, 16, 22);
}

/* ---- forward derivatives, a vmap of a map: results that depend on no direction have no batch axis */

FN(mapped, mf_call(mf_pmap(times_sum, "i"), v))
FN(energy, mf_sum(mapped(v)))

TEST(jacobians_of_pmap)
{
    EXPECT(mf_call(mf_jacfwd(mapped), X4), 6, 0, 0, 0, 1, 7, 1, 1, 2, 2, 8, 2, 3, 3, 3, 9);
    EXPECT(mf_call(mf_jacrev(mapped), X4), 6, 0, 0, 0, 1, 7, 1, 1, 2, 2, 8, 2, 3, 3, 3, 9);
    EXPECT(mf_call(mf_hessian(energy), X4), 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2);
    EXPECT(mf_call(mf_vmap(mapped, .in_axes = MF_NONE, .out_axes = MF_NONE, .axis_size = 3), X4), 0, 6, 12, 18);
}

typedef struct two {
    mf_value w, v;
} two;
static mf_value product_of_all(void *c, mf_value u)
{
    two *t = c;
    return mf_mul(mf_mul(mf_mul(u, t->w), t->v), t->w);
}
static mf_value vmap_inside(void *w, mf_value v)
{
    two t = { *(mf_value *)w, v };
    return mf_call(mf_vmap(mf_closure(product_of_all, &t)), XS);
}
FN(two_levels, mf_sum(mf_call(mf_pmap(mf_closure(vmap_inside, &v), "i"), X4)))
static mf_value scan_step_outer(void *c, mf_value carry, mf_value u)
{
    two *t = c;
    return mf_tuple(mf_add(mf_mul(carry, t->w), mf_psum(mf_mul(u, t->v), "i")), carry);
}
static mf_value scan_inside(void *w, mf_value v)
{
    two t = { *(mf_value *)w, v };
    return mf_get(mf_scan(mf_closure(scan_step_outer, &t), v, XS), 0);
}
FN(three_levels, mf_sum(mf_call(mf_pmap(mf_closure(scan_inside, &v), "i"), X4)))
static mf_value innermost(void *c, mf_value x)
{
    mf_value *ab = c; /* a, b */
    return mf_add(mf_add(mf_mul(x, mf_sum(ab[0])), ab[1]), mf_add(mf_psum(x, "j"), mf_psum(ab[1], "i")));
}
OVER(inner_level, b, mf_call(mf_jit(mf_closure(innermost, (&(mf_value[2]){ w, b }))), mf_add(b, 1)))
FN(all_levels, mf_call(mf_pmap(mf_closure(inner_level, &v), "j"), v))

TEST(captures_at_every_level)
{
    EXPECT(mf_call(mf_grad(two_levels), W), 216);
    EXPECT(mf_call(mf_grad(three_levels), W), 354);
    EXPECT(mf_call(mf_pmap(all_levels, "i"), M42), 16, 22, 36, 46, 72, 86, 124, 142);
}

/* ---- gradients */

FN2(sum_of_products, v, u, mf_mul(mf_psum(mf_mul(v, u), "i"), v))
FN2(loss_and_aux, a, b, mf_tuple(mf_sum(mf_call(mf_pmap(sum_of_products, "i", .in_axes = mf_axes(0, MF_NONE)), a, b)), mf_mul(b, 2)))
FN2(inner_loss, a, b, mf_tuple(mf_mul(mf_psum(mf_mul(a, b), "i"), b), mf_dict("k", a)))
FN2(inner_value_and_grad, a, b, mf_call(mf_value_and_grad(inner_loss, .argnums = MF_INTS(1), .has_aux = true), a, b))

TEST(value_and_grad)
{
    EXPECT(mf_call(mf_value_and_grad(loss_and_aux, .argnums = MF_INTS(0, 1), .has_aux = true), X4, W), 108, 6, 36, 36, 36, 36, 36);
    EXPECT(mf_call(mf_pmap(inner_value_and_grad, "i"), X4, mf_add(X4, 1)), 20, 40, 60, 80, 0, 1, 2, 3, 20, 30, 40, 50);
}

FN(square_sum, mf_psum(mf_mul(v, v), "i"))
FN(nothing_mapped, mf_sum(mf_call(mf_pmap(square_sum, "i", .in_axes = MF_NONE, .axis_size = 4), v)))
FN2(weighted_square_sum, a, v, mf_psum(mf_mul(mf_mul(a, a), v), "i"))
FN(none_in_none_out, mf_call(mf_pmap(weighted_square_sum, "i", .in_axes = mf_axes(MF_NONE, 0), .out_axes = MF_NONE), v, X4))
FN(none_out, mf_call(mf_pmap(square_sum, "i", .out_axes = MF_NONE), v))
FN(all_none, mf_call(mf_pmap(square_sum, "i", .in_axes = MF_NONE, .out_axes = MF_NONE, .axis_size = 4), v))

TEST(gradients_through_axes_of_none) /* JAX does not have these; computed by hand */
{
    EXPECT(mf_call(mf_grad(nothing_mapped), W), 96);   /* 16 w^2 */
    EXPECT(mf_call(mf_grad(none_in_none_out), W), 36); /* 6 w^2 */
    EXPECT(mf_call(mf_grad(none_out), X4), 0, 2, 4, 6);
    EXPECT(mf_call(mf_grad(all_none), W), 24); /* 4 w^2 */
    EXPECT(mf_jvp(none_out, mf_tuple(X4), mf_tuple(mf_ones(MF_SHAPE(4), MF_F32))), 14, 12);
}

FN(cube_sum, mf_mul(mf_psum(mf_mul(mf_mul(v, v), v), "i"), v))
FN(cubes, mf_sum(mf_call(mf_pmap(cube_sum, "i"), v)))
FN(square_sum_times, mf_mul(mf_psum(mf_mul(v, v), "i"), v))
FN(squares, mf_sum(mf_call(mf_pmap(square_sum_times, "i"), v)))
FN(sum_of_grad, mf_sum(mf_call(mf_grad(squares), v)))

TEST(second_order)
{
    EXPECT(mf_jvp(mf_grad(cubes), mf_tuple(X4), mf_tuple(mf_ones(MF_SHAPE(4), MF_F32))), 36, 54, 108, 198, 42, 90, 162, 258);
    EXPECT(mf_call(mf_grad(sum_of_grad), X4), 24, 32, 40, 48);
}

FN(to_tree, mf_dict("a", mf_mul(v, v), "b", mf_tuple(mf_psum(v, "i"), v)))
FN(mapped_tree, mf_call(mf_pmap(to_tree, "i"), v))
FN(shift_twice, mf_mul(mf_ppermute(v, "i", mf_list(mf_tuple(0, 1), mf_tuple(1, 2))), 2))
FN(scatter, mf_psum_scatter(v, 0, "i", .tiled = true))
FN(scatter_loss, mf_sum(mf_mul(mf_call(mf_pmap(scatter, "i"), v), mf_reshape(F32(1, 2, 3, 4), MF_SHAPE(4, 1)))))
FN(exchange, mf_all_to_all(v, 0, 0, "i"))
FN(exchange_loss, mf_sum(mf_mul(mf_call(mf_pmap(exchange, "i"), v), mf_reshape(mf_arange(16, MF_F32), MF_SHAPE(4, 4)))))

TEST(vjp)
{
    mf_function pull;
    EXPECT(mf_vjp(mapped_tree, mf_tuple(X4), &pull), 0, 1, 4, 9, 6, 6, 6, 6, 0, 1, 2, 3);
    EXPECT(mf_call(pull, mf_dict("a", mf_ones(MF_SHAPE(4), MF_F32), "b", mf_tuple(X4, X4))), 6, 9, 12, 15);
    mf_vjp(mf_pmap(shift_twice, "i"), mf_tuple(X4), &pull);
    EXPECT(mf_call(pull, mf_add(X4, 1)), 4, 6, 0, 0);
    EXPECT(mf_call(pull, X4), 2, 4, 0, 0); /* and again */
    EXPECT_ERROR(mf_call(mf_grad(mf_pmap(sum, "i")), X4), "scalar");
    mf_value ones = mf_ones(MF_SHAPE(4, 4), MF_F32);
    EXPECT(mf_call(mf_grad(scatter_loss), ones), 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4);
    EXPECT(mf_call(mf_grad(exchange_loss), ones), 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/* ---- vmap */

FN2(scaled_plus_sum, v, u, mf_add(mf_mul(v, u), mf_psum(v, "i")))
FN(over_both, mf_add(mf_psum(v, "b", "i"), mf_psum(v, "b")))
FN(interleaved, mf_psum(v, "i", .axis_index_groups = mf_list(mf_list(0, 2), mf_list(1, 3))))

TEST(vmap_of_pmap)
{
    EXPECT(mf_call(mf_vmap(mf_pmap(plus_sum, "i")), M34), 6, 7, 8, 9, 26, 27, 28, 29, 46, 47, 48, 49);
    EXPECT(mf_call(mf_vmap(mf_pmap(plus_sum, "i"), .in_axes = 1, .out_axes = 1), M42), 12, 17, 14, 19, 16, 21, 18, 23);
    mf_function none = mf_pmap(scaled_plus_sum, "i", .in_axes = mf_axes(0, MF_NONE)), both = mf_pmap(scaled_plus_sum, "i");
    EXPECT(mf_call(mf_vmap(none, .in_axes = mf_axes(0, MF_NONE)), M34, W), 6, 9, 12, 15, 34, 37, 40, 43, 62, 65, 68, 71);
    EXPECT(mf_call(mf_vmap(both, .in_axes = mf_axes(0, MF_NONE), .out_axes = 1), M34, X4), 6, 22, 38, 7, 27, 47, 10, 34, 58, 15, 43, 71);
    EXPECT(mf_call(mf_vmap(mf_pmap(over_both, "i"), "b"), M34), 78, 81, 84, 87, 78, 81, 84, 87, 78, 81, 84, 87);
    EXPECT(mf_call(mf_vmap(mf_pmap(interleaved, "i")), M34), 2, 4, 2, 4, 10, 12, 10, 12, 18, 20, 18, 20);
}

FN(vmap_rows, mf_call(mf_vmap(mf_pmap(times_sum, "i")), v))
FN(vmap_rows_sum, mf_sum(vmap_rows(v)))
FN(square_times_sum, mf_mul(mf_mul(v, v), mf_psum(v, "i")))

TEST(vmap_of_pmap_differentiated)
{
    EXPECT(mf_call(mf_grad(vmap_rows_sum), M34), 12, 12, 12, 12, 44, 44, 44, 44, 76, 76, 76, 76);
    EXPECT(mf_call(mf_jit(mf_vmap(mf_pmap(mf_grad(square_times_sum), "i"))), M34), 14, 26, 38, 50, 302, 346, 390, 434, 974, 1050, 1126,
           1202);
}

TEST(a_second_call_compiles_nothing)
{
    mf_function f = mf_vmap(mf_pmap(times_sum, "i"), .in_axes = 1);
    mf_value x = M42;
    mf_block_until_ready(mf_call(f, x));
    mf_cache_counters before = mf_cache_read();
    for (int i = 0; i < 20; i++)
        mf_block_until_ready(mf_call(mf_vmap(mf_pmap(times_sum, "i"), .in_axes = 1), x));
    mf_cache_counters after = mf_cache_read();
    CHECK_EQ_INT(after.compilations, before.compilations);
    CHECK_EQ_INT(after.traces, before.traces);
    CHECK_EQ_INT(after.entries, before.entries);
    CHECK(after.hits > before.hits);
}

TEST(pmap_of_vmap)
{
    mf_function inner = mf_vmap(scaled_plus_sum, .in_axes = mf_axes(0, MF_NONE));
    EXPECT(mf_call(mf_pmap(inner, "i", .in_axes = mf_axes(1, MF_NONE), .out_axes = 1), M34, W), 6, 9, 12, 15, 34, 37, 40, 43, 62, 65, 68,
           71);
}

/* ---- nested maps */

FN(three_sums, mf_add(mf_add(mf_mul(v, 10), mf_psum(v, "j")), mf_mul(100, mf_psum(v, "i"))))
FN2(product, a, b, mf_mul(a, b))
FN(shadowing, mf_add(mf_psum(v, "i"), mf_call(mf_pmap(sum, "i"), v)))
FN(outermost_innermost, mf_add(v, mf_psum(v, "a", "e")))

TEST(nested_maps)
{
    EXPECT(mf_call(mf_pmap(mf_pmap(three_sums, "j"), "i", .in_axes = 1, .out_axes = 1), M42), 112, 126, 532, 546, 952, 966, 1372, 1386);
    mf_function rows = mf_pmap(mf_pmap(product, .in_axes = mf_axes(MF_NONE, 0)), .in_axes = mf_axes(0, MF_NONE));
    EXPECT(mf_call(rows, X4, F32(1, 10)), 0, 0, 1, 10, 2, 20, 3, 30);
    EXPECT(mf_call(mf_pmap(shadowing, "i"), M42), 13, 17, 17, 21, 21, 25, 25, 29);
    mf_value five = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(2, 2, 2, 1, 1));
    mf_function deep = mf_pmap(mf_pmap(mf_pmap(mf_pmap(mf_pmap(outermost_innermost, "e"), "d"), "c"), "b"), "a");
    EXPECT(mf_call(deep, five), 4, 7, 10, 13, 8, 11, 14, 17);
}

/* ---- control flow */

OVER(plus_outer, u, mf_add(u, w))
OVER(size_times, u, mf_mul(mf_mul(u, mf_psum(1.0, "i")), w))
static mf_value negate(mf_value u) { return mf_neg(u); }
FN2(three_ways, v, k, mf_switch(k, mf_add(v, 1), mf_closure(plus_outer, &v), mf_closure(size_times, &v), negate))
FN(square, mf_mul(v, v))
FN(size_times_it, mf_mul(v, mf_psum(1.0, "i")))
FN2(three_plain_ways, v, k, mf_switch(k, v, square, size_times_it, negate))
FN(switched, mf_sum(mf_call(mf_pmap(three_plain_ways, "i"), v, I32(0, 1, 2, 7))))

TEST(switch_differs_between_devices)
{
    EXPECT(mf_call(mf_pmap(three_ways, "i"), X4, I32(0, 1, 2, 7)), 1, 8, -3, -4);
    EXPECT(mf_call(mf_grad(switched), X4), 0, 4, -1, -1);
}

FN(pair_sum, mf_psum(v, "i", .axis_index_groups = mf_list(mf_list(0, 1), mf_list(2, 3))))
OVER(below, c, mf_less(pair_sum(c), pair_sum(w)))
FN(plus_pair, mf_add(v, pair_sum(v)))
FN2(while_in_groups, v, limit, mf_while(mf_closure(below, &limit), plus_pair, v))
FN(below_20, mf_less(mf_psum(v, "j"), 20))
FN(plus_row, mf_add(v, mf_psum(v, "j")))
FN(while_in_rows, mf_while(below_20, plus_row, v))
FN(row_sum, mf_psum(v, "j"))
FN(row_max, mf_mul(mf_pmax(v, "j"), 100))
FN(cond_in_rows, mf_cond(mf_equal(mf_remainder(mf_axis_index("i"), 2), 0), row_sum, row_max, v))

TEST(trip_counts_differ_between_groups)
{
    EXPECT(mf_call(mf_pmap(while_in_groups, "i"), mf_add(X4, 1), F32(10, 10, 500, 500)), 13, 14, 850, 851);
    EXPECT(mf_call(mf_pmap(mf_pmap(while_in_rows, "j"), "i"), M42), 13, 14, 22, 23, 13, 14, 19, 20);
    EXPECT(mf_call(mf_pmap(mf_pmap(cond_in_rows, "j"), "i"), M42), 1, 1, 300, 300, 9, 9, 700, 700);
}

static mf_value index_below_2(void) { return mf_less(mf_axis_index("i"), 2); }
FN(same, v)
FN(sum_for_some, mf_cond(index_below_2(), sum, same, v))
FN(below_3, mf_less(v, 3))
FN(one_more_after_sum, mf_add(v, mf_minimum(1, mf_maximum(1, mf_psum(v, "i")))))
FN(loops_apart, mf_while(below_3, one_more_after_sum, v))

TEST(disagreement_names_devices)
{
    mf_value e = mf_call(mf_pmap(sum_for_some, "i"), X4);
    mf_block_until_ready(e);
    EXPECT_ERROR(e, "psum over 'i'");
    EXPECT_ERROR(e, "devices 0, 1");
    EXPECT_ERROR(e, "devices 2, 3");
    EXPECT_ERROR(mf_sum(mf_call(mf_pmap(loops_apart, "i"), X4)), "device");
    EXPECT(mf_call(mf_pmap(plus_sum, "i"), X4), 6, 7, 8, 9); /* later calls work */
}

static mf_value scan_pmap_step(mf_value c, mf_value t) { return mf_tuple(mf_call(mf_pmap(mf_closure(with_outer, &t), "i"), c), mf_sum(c)); }
FN(sum_below_1000, mf_less(mf_sum(v), 1000))
FN(mapped_plus_sum, mf_call(mf_pmap(plus_sum, "i"), v))
OVER(times_sum_outer, v, mf_mul(mf_mul(v, mf_psum(v, "i")), w))
static mf_value scan_grad_step(mf_value c, mf_value t)
{
    return mf_tuple(mf_call(mf_pmap(mf_closure(times_sum_outer, &t), "i"), c), mf_none());
}
FN(scan_loss, mf_sum(mf_get(mf_scan(scan_grad_step, v, XS), 0)))
static mf_value fori_pmap_step(mf_value i, mf_value c)
{
    (void)i;
    return mapped_plus_sum(c);
}

TEST(pmap_inside_control_flow)
{
    /* c w + psum(w c), w = 1, 2, 3: by hand */
    EXPECT(mf_scan(scan_pmap_step, X4, XS), 1116, 1122, 1128, 1134, 6, 30, 300);
    EXPECT(mf_while(sum_below_1000, mapped_plus_sum, X4), 936, 937, 938, 939);
    EXPECT(mf_cond(true, mapped_plus_sum, double_it, X4), 6, 7, 8, 9);
    EXPECT(mf_cond(false, mapped_plus_sum, double_it, X4), 0, 2, 4, 6);
    EXPECT(mf_call(mf_grad(scan_loss), mf_mul(X4, 0.5)), 209952, 209952, 209952, 209952);
    EXPECT(mf_fori_loop(0, 2, fori_pmap_step, X4), 36, 37, 38, 39);
    EXPECT(mf_fori_loop(0, 0, fori_pmap_step, X4), 0, 1, 2, 3);
}

static mf_value decay_step(mf_value c, mf_value t) { return mf_tuple(mf_add(mf_mul(c, t), mf_psum(c, "i")), c); }
FN(decayed, mf_get(mf_scan(decay_step, v, XS), 0))
FN(sum_below_100, mf_less(mf_psum(v, "i"), 100))
FN(twice_plus_sum, mf_add(mf_mul(v, 2), mf_psum(v, "i")))
FN(while_100, mf_while(sum_below_100, twice_plus_sum, v))

TEST(forward_mode_through_loops)
{
    EXPECT(mf_jvp(mf_pmap(decayed, "i"), mf_tuple(X4), mf_tuple(mf_add(X4, 1))), 306, 312, 318, 324, 516, 522, 528, 534);
    EXPECT(mf_jvp(mf_pmap(while_100, "i"), mf_tuple(X4), mf_tuple(mf_add(X4, 1))), 48, 52, 56, 60, 84, 88, 92, 96);
    EXPECT_ERROR(mf_call(mf_pmap(mf_grad(while_100), "i"), X4), "Reverse-mode differentiation does not work");
}

OVER(square_times_outer, u, mf_mul(mf_mul(u, u), w))
FN(three_times, mf_mul(v, 3))
FN(branch_by_index, mf_add(mf_cond(index_below_2(), mf_closure(square_times_outer, &v), three_times, v), mf_psum(v, "i")))
FN(branch_loss, mf_sum(mf_call(mf_pmap(branch_by_index, "i"), v)))
FN(ten_times, mf_mul(v, 10))
FN(above_3, mf_cond(mf_greater(v, 3), ten_times, negate, v))

TEST(cond_under_transforms)
{
    EXPECT(mf_call(mf_grad(branch_loss), X4), 4, 7, 7, 7);
    EXPECT(mf_call(mf_pmap(mf_vmap(above_3), "i"), M42), 0, -1, -2, -3, 40, 50, 60, 70);
    EXPECT(mf_call(mf_vmap(mf_pmap(above_3, "i")), M34), 0, -1, -2, -3, 40, 50, 60, 70, 80, 90, 100, 110);
}

/* ---- custom rules and remat */

FN(wave, mf_sin(v))
FN2(wave_rule, p, t, mf_tuple(mf_mul(mf_get(p, 0), 2), mf_add(mf_mul(mf_get(t, 0), 7), mf_psum(mf_get(t, 0), "i"))))
FN(own_jvp, mf_call(mf_custom_jvp(wave, wave_rule), v))
FN(jvp_of_own, mf_jvp(own_jvp, mf_tuple(v), mf_tuple(mf_add(v, 1))))
FN(own_jvp_times, mf_mul(own_jvp(v), v))
FN(own_jvp_loss, mf_sum(mf_call(mf_pmap(own_jvp_times, "i"), v)))
FN(forward, mf_tuple(mf_mul(v, 3), v))
FN2(backward, r, ct, mf_tuple(mf_add(mf_mul(ct, r), mf_psum(ct, "i"))))
FN(own_vjp, mf_call(mf_custom_vjp(three_times, forward, backward), v))
FN(own_vjp_twice, mf_mul(own_vjp(v), 2))
FN(own_vjp_loss, mf_sum(mf_call(mf_pmap(own_vjp_twice, "i"), v)))

TEST(custom_rules_with_collectives)
{
    EXPECT(mf_call(mf_pmap(jvp_of_own, "i"), X4), 0, 2, 4, 6, 17, 24, 31, 38);
    EXPECT(mf_call(mf_pmap(mf_grad(own_jvp_times), "i"), X4), 6, 15, 24, 33);
    EXPECT(mf_call(mf_grad(own_jvp_loss), X4), 6, 15, 24, 33);
    EXPECT(mf_call(mf_pmap(own_vjp, "i"), X4), 0, 3, 6, 9);
    EXPECT(mf_call(mf_pmap(mf_grad(own_vjp_twice), "i"), X4), 8, 10, 12, 14);
    EXPECT(mf_call(mf_grad(own_vjp_loss), X4), 8, 10, 12, 14);
}

FN(remat_loss, mf_sum(mf_call(mf_pmap(mf_remat(square_sum_times), "i"), v)))

TEST(remat)
{
    EXPECT(mf_call(mf_grad(remat_loss), X4), 14, 26, 38, 50);
    EXPECT(mf_call(mf_grad(mf_remat(squares)), X4), 14, 26, 38, 50);
}

/* ---- values */

static mf_value constants(mf_value v)
{
    (void)v;
    return mf_tuple(mf_psum(1, "i"), mf_psum(2.5, "i"), mf_pmean(3, "i"), mf_pmax(7, "i"),
                    mf_psum(mf_dict("a", 2, "b", mf_scalar(1.5, MF_F32)), "i"), mf_psum(true, "i"));
}

TEST(constants_fold)
{
    mf_value r = mf_call(mf_pmap(constants, "i"), X4);
    EXPECT(r, 4, 4, 4, 4, 10, 10, 10, 10, 3, 3, 3, 3, 7, 7, 7, 7, 8, 8, 8, 8, 6, 6, 6, 6, 4, 4, 4, 4);
    CHECK_EQ_INT(mf_dtype_of(mf_get(r, 0)), MF_I32);
    CHECK_EQ_INT(mf_dtype_of(mf_get(r, 2)), MF_F32);
    CHECK_EQ_INT(mf_dtype_of(mf_get(r, 5)), MF_I32);
    const char *text = mf_program_text(mf_pmap(constants, "i"), X4);
    CHECK(!strstr(text, "psum["));
}

static mf_value booleans(mf_value v)
{
    mf_value b = mf_greater(v, 1);
    return mf_tuple(mf_psum(b, "i"), mf_pmax(b, "i"), mf_pmin(b, "i"), mf_all_gather(b, 0, "i"),
                    mf_ppermute(b, "i", mf_list(mf_tuple(3, 0), mf_tuple(0, 3))));
}

TEST(bool)
{
    mf_value r = mf_call(mf_pmap(booleans, "i"), X4);
    EXPECT(r, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0);
    CHECK_EQ_INT(mf_dtype_of(mf_get(r, 0)), MF_I32);
    CHECK_EQ_INT(mf_dtype_of(mf_get(r, 1)), MF_BOOL);
    CHECK_EQ_INT(mf_dtype_of(mf_get(r, 3)), MF_BOOL);
}

FN(mixed_results, mf_tuple(3.0, mf_zeros(MF_SHAPE(2), MF_F32), v, v, mf_none(), mf_dict_n(NULL, 0)))
FN(sum_and_total, mf_tuple(mf_psum(v, "i"), mf_sum(v)))

TEST(trees_constants_and_nothing)
{
    mf_value r = mf_call(mf_pmap(mixed_results, "i"), X4);
    EXPECT(r, 3, 3, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 0, 1, 2, 3);
    CHECK_STR(mf_str(mf_get(r, 4)), "None");
    r = mf_call(mf_pmap(sum_and_total, "i"), mf_zeros(MF_SHAPE(4, 0), MF_F32));
    EXPECT(r, 0, 0, 0, 0);
    CHECK_STR(mf_str(mf_shape_of(mf_get(r, 0))), "(4, 0)");
}

FN(one_more, mf_add(v, 1))
FN(total, mf_sum(v))

TEST(results_are_arrays_like_others)
{
    mf_value a = mf_call(mf_pmap(one_more), M42);
    EXPECT(mf_call(mf_pmap(double_it), a), 2, 4, 6, 8, 10, 12, 14, 16);
    EXPECT(mf_call(mf_pmap(total, .in_axes = 1), a), 16, 20);
    EXPECT(mf_get(a, 1), 3, 4);
    EXPECT(mf_transpose(a, MF_INTS0), 1, 3, 5, 7, 2, 4, 6, 8);
    EXPECT(mf_sum(a, 0), 16, 20);
    EXPECT(mf_call(mf_jit(mf_pmap(double_it)), a), 2, 4, 6, 8, 10, 12, 14, 16);
}

/* ---- loops whose carry is a C number, or without iterations */

FN2(plus_x, c, x, mf_tuple(mf_add(c, x), c))
FN(below_ten, mf_less(v, 10))
FN(times_one_and_a_half, mf_mul(v, 1.5))
FN2(plus_one_and_a_half, i, c, mf_add(c, mf_mul(mf_add(mf_mul(i, 0), 1), 1.5)))
FN2(twice, i, c, mf_add(mf_mul(c, 2.0), mf_mul(i, 0)))
FN2(positive, i, c, mf_greater(mf_add(c, i), 0))
FN(no_round, mf_fori_loop(3, 3, twice, v))
FN(below_no_round, mf_fori_loop(5, 2, twice, v))

TEST(a_number_in_a_carry_becomes_what_the_body_makes_of_it)
{
    mf_value sums = mf_scan(plus_x, 0, X4);
    EXPECT(mf_get(sums, 0), 6);
    EXPECT(mf_get(sums, 1), 0, 0, 1, 3);
    EXPECT(mf_while(below_ten, times_one_and_a_half, 1), 11.390625);
    EXPECT(mf_fori_loop(0, 3, plus_one_and_a_half, 1), 5.5);
    const char *words = "the body's carry output and carry input must have equal types";
    CHECK_CONTAINS(mf_error(mf_fori_loop(0, 3, plus_one_and_a_half, mf_scalar(1, MF_I32))), words);
    CHECK_CONTAINS(mf_error(mf_fori_loop(0, 3, positive, 1)), words);
}

FN(grown_kernel, mf_set(v, mf_mul(mf_get(v, "kernel"), 0.5), "kernel"))
FN(kernel_below, mf_less(mf_get(v, "kernel"), 3))
FN(is_low, mf_less(v, 3))

TEST(the_part_of_a_carry_that_changes_its_type_is_named_by_its_path)
{
    mf_value carry = mf_dict("bias", 0, "kernel", mf_scalar(1, MF_I32));
    CHECK_CONTAINS(mf_error(mf_while(kernel_below, grown_kernel, carry)), "carry['kernel'] went in as int32[] and came out as float32[]");
    CHECK_CONTAINS(mf_error(mf_while(is_low, times_one_and_a_half, mf_scalar(1, MF_I32))),
                   "carry went in as int32[] and came out as float32[]");
}

TEST(a_loop_without_rounds_has_a_gradient)
{
    EXPECT(no_round(mf_f(7)), 7);
    EXPECT(mf_call(mf_grad(no_round), mf_f(7)), 1);
    EXPECT(mf_call(mf_grad(below_no_round), mf_f(7)), 1);
    EXPECT(mf_call(mf_jit(below_no_round), XS), 1, 2, 3);
}
