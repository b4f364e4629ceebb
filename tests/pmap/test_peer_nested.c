/* Counterparts of the peer's tests of nested maps, and of its tests of which part of an array each device of a mesh gets. */
#include "peer.h"

FN(same, v)

TEST(axis_swapped_by_the_inner_map)
{
    mf_value x = WAVES(2, 4, 3); /* 3 inner replicas for each of 2 outer ones */
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(same, .in_axes = 1, .out_axes = 0)), x), mf_transpose(x, MF_INTS(0, 2, 1)));
}

FN(sum_of_sums, mf_psum(mf_psum(v, "i"), "j"))

TEST(sum_over_one_axis_then_the_other)
{
    mf_value x = FLOATS(4, 2, 4);
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(sum_of_sums, "i"), "j"), x), mf_broadcast_to(mf_sum(x, .axis = mf_axes(0, 1)), MF_SHAPE(4, 2, 4)));
    x = FLOATS(8, 1, 4);
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(sum_of_sums, "i"), "j"), x), mf_broadcast_to(mf_sum(x, .axis = mf_axes(0, 1)), MF_SHAPE(8, 1, 4)));
}

static const int meshes[3][2] = { { 1, 1 }, { 2, 4 }, { 4, 2 } };

TEST(sharding_and_stacking)
{
    for (int m = 0; m < 3; m++) {
        mf_value x = FLOATS(meshes[m][0], meshes[m][1], 4);
        EXPECT_SAME(mf_call(mf_pmap(mf_pmap(same, "i"), "j"), x), x);
    }
}

FN2(minus_sum, x, y, mf_sub(x, mf_psum(y, "i")))

TEST(partially_mapped)
{
    for (int m = 0; m < 3; m++) {
        mf_value y = FLOATS(meshes[m][0], meshes[m][1]);
        mf_function f = mf_pmap(mf_pmap(minus_sum, "i", .in_axes = mf_axes(MF_NONE, 0)), "j", .in_axes = mf_axes(MF_NONE, 0));
        EXPECT_SAME(mf_call(f, 3.0, y), mf_broadcast_to(mf_sub(3, mf_sum(y, .axis = 1, .keepdims = true)), mf_shape_of(y)));
    }
}

/* The gradient of a map of gradients of maps; every level captures values of those around it: mapped or batched. */
typedef struct outer {
    mf_value x, y;
} outer;
static mf_value innermost(void *context, mf_value z)
{
    const outer *o = context;
    return mf_mul(3, mf_exp(mf_mul(mf_mul(mf_sum(mf_sin(o->x)), mf_cos(o->y)), mf_tan(z))));
}
static mf_value sum_by_pmap(void *context, mf_value w) { return mf_sum(mf_call(mf_pmap(mf_closure(innermost, (outer *)context), "j"), w)); }
static mf_value sum_by_vmap(void *context, mf_value w) { return mf_sum(mf_call(mf_vmap(mf_closure(innermost, (outer *)context)), w)); }
static mf_value grad_by_pmap(mf_value x)
{
    outer o = { x, mf_sum(mf_sin(x)) };
    return mf_call(mf_grad(mf_closure(sum_by_pmap, &o)), x);
}
static mf_value grad_by_vmap(mf_value x)
{
    outer o = { x, mf_sum(mf_sin(x)) };
    return mf_call(mf_grad(mf_closure(sum_by_vmap, &o)), x);
}
FN(loss_by_pmap, mf_sum(mf_call(mf_pmap(grad_by_pmap, "i"), v)))
FN(loss_by_vmap, mf_sum(mf_call(mf_vmap(grad_by_vmap), v)))

TEST(closures_under_gradients)
{
    for (int m = 0; m < 3; m++) {
        mf_value x = mf_mul(0.1, FLOATS(meshes[m][0], meshes[m][1]));
        EXPECT_CLOSE(mf_call(mf_grad(loss_by_pmap), x), mf_call(mf_grad(loss_by_vmap), x), 1e-4);
    }
}

FN(minus_group, mf_sub(v, mf_psum(v, "i", .axis_index_groups = mf_list(mf_list(0, 1), mf_list(2, 3)))))
FN(minus_group_plus_one, mf_add(mf_call(mf_pmap(minus_group, "i"), v), 1))

/* Subtracts the sums of the first two and of the last two elements along `axis` of x, whose length is 4. */
static mf_value groups_taken_off(mf_value x, int axis)
{
    mf_value a = mf_slice_in_dim(x, 0, 2, 1, axis), b = mf_slice_in_dim(x, 2, 4, 1, axis);
    return mf_concatenate(
        mf_list(mf_sub(a, mf_sum(a, .axis = axis, .keepdims = true)), mf_sub(b, mf_sum(b, .axis = axis, .keepdims = true))), axis);
}

TEST(groups)
{
    mf_value inner = FLOATS(2, 4, 4), outer_axis = FLOATS(4, 2, 4);
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(minus_group, "i"), "j"), inner), groups_taken_off(inner, 1));
    EXPECT_SAME(mf_call(mf_pmap(minus_group_plus_one, "j"), inner), mf_add(groups_taken_off(inner, 1), 1));
    EXPECT_SAME(mf_call(mf_pmap(mf_pmap(minus_group, "j"), "i"), outer_axis), groups_taken_off(outer_axis, 0));
}

/* ---- explicit devices */

FN(sum_over_j, mf_psum(v, "j"))
FN(map_sum_over_j, mf_call(mf_pmap(sum_over_j, "j"), v))
FN(map_not, mf_call(mf_pmap(mf_logical_not), v))
FN(map_on_devices, mf_call(mf_pmap(sum_over_j, "j", .devices = mf_devices()), v))
FN(three, ((void)v, mf_i(3)))

/* JAX uses the devices of the outermost map for the whole mesh; in both, the inner map finds its own devices among them. */
TEST(devices_for_a_nested_map)
{
    EXPECT_SAME(mf_call(mf_pmap(map_sum_over_j, "i"), mf_ones(MF_SHAPE(4, 2), MF_F32)), mf_full(MF_SHAPE(4, 2), mf_scalar(2, MF_F32)));
    mf_value r = mf_call(mf_pmap(map_sum_over_j, "i", .devices = mf_devices()), mf_ones(MF_SHAPE(4, 2), MF_F32));
    EXPECT_SAME(r, mf_full(MF_SHAPE(4, 2), mf_scalar(2, MF_F32)));
}

TEST(devices_for_a_nested_map_of_bools)
{
    mf_value r = mf_call(mf_pmap(map_not, "i", .devices = mf_devices()), mf_ones(MF_SHAPE(4, 2), MF_BOOL));
    EXPECT_SAME(r, mf_zeros(MF_SHAPE(4, 2), MF_BOOL));
}

TEST(devices_for_the_inner_map_are_refused)
{
    EXPECT_ERROR(mf_call(mf_pmap(map_on_devices, "i"), mf_ones(MF_SHAPE(8, 1), MF_F32)), "Nested pmap with explicit devices argument");
    EXPECT_ERROR(mf_call(mf_pmap(map_on_devices, "i"), mf_ones(MF_SHAPE(1, 1), MF_F32)), "Nested pmap with explicit devices argument");
}

TEST(devices_for_a_nested_constant)
{
    mf_device order[6];
    static const int ids[6] = { 5, 0, 3, 1, 4, 2 };
    for (int i = 0; i < 6; i++)
        order[i] = mf_devices().at[ids[i]];
    mf_value r = mf_call(mf_pmap(mf_pmap(three), .devices = { 6, order }), INTS(2, 3, 3));
    EXPECT_SAME(r, mf_full(MF_SHAPE(2, 3), mf_i(3)));
    mf_device_list on = mf_devices_of_array(r);
    REQUIRE(CHECK_EQ_INT(on.count, 6));
    for (int i = 0; i < 6; i++)
        CHECK_EQ_INT(mf_device_id(on.at[i]), ids[i]);
}

FN(sum_over_both, mf_psum(v, "i", "j"))

TEST(too_few_devices_for_a_nested_map)
{
    mf_function f = mf_pmap(mf_pmap(sum_over_both, "j"), "i", .devices = mf_device_slice(mf_devices(), 0, 1));
    EXPECT_ERROR(mf_call(f, mf_ones(MF_SHAPE(1, 4), MF_F32)),
                 "requires 4 local devices to run due to nested pmapped or other parallel functions, but only 1 are available");
}

/* ---- which part each device gets: x cut by up to three nested maps, outermost first. A map cuts an axis of what the map around it left,
 * or none: then all its devices get the same. Result row d is what device d had. */

typedef struct cut {
    int size, axis; /* axis -1: none */
} cut;

static mf_value parts(mf_value x, const cut *cuts, int count)
{
    mf_function f = mf_fn(same);
    for (int i = count - 1; i >= 0; i--)
        f = mf_pmap(f, .in_axes = cuts[i].axis < 0 ? MF_NONE : cuts[i].axis, .axis_size = cuts[i].size);
    return count ? mf_call(f, x) : x;
}

/* x[from[0]:to[0], from[1]:to[1]], flat */
typedef struct range {
    int from0, to0, from1, to1;
} range;

static void check_parts(mf_value x, int columns, const cut *cuts, int count, const range *ranges, int devices)
{
    mf_value r = parts(x, cuts, count);
    REQUIRE(CHECK(!mf_is_error(r)) && CHECK_EQ_INT(mf_devices_of_array(r).count, count ? devices : 1));
    for (int d = 0; d < devices; d++) {
        double expected[64];
        int n = 0;
        for (int i = ranges[d].from0; i < ranges[d].to0; i++)
            for (int k = ranges[d].from1; k < ranges[d].to1; k++)
                expected[n++] = i * columns + k;
        mf_value held = mf_ravel(mf_shard(r, d));
        EXPECT_SAME(held, mf_array_n(MF_I32, MF_SHAPE(n), expected, n));
        if (count)
            CHECK_EQ_INT(mf_device_id(mf_devices_of_array(r).at[d]), d);
    }
}

#define CHECK_PARTS(x, columns, cuts, ...)                                                              \
    check_parts(x, columns, cuts, (int)(sizeof(cuts) / sizeof *(cuts)), (const range[]){ __VA_ARGS__ }, \
                (int)(sizeof((range[]){ __VA_ARGS__ }) / sizeof(range)))

#define QUARTERS INTS(2, 2, 2, 4) /* 4 x 8 in halves both ways: axes 0 and 2 are what can be cut */

TEST(parts_of_both_axes)
{
    const cut rows_then_columns[] = { { 2, 0 }, { 2, 1 } };
    CHECK_PARTS(QUARTERS, 8, rows_then_columns, { 0, 2, 0, 4 }, { 0, 2, 4, 8 }, { 2, 4, 0, 4 }, { 2, 4, 4, 8 });
}

TEST(parts_in_another_order)
{
    const cut columns_then_rows[] = { { 2, 2 }, { 2, 0 } };
    CHECK_PARTS(QUARTERS, 8, columns_then_rows, { 0, 2, 0, 4 }, { 2, 4, 0, 4 }, { 0, 2, 4, 8 }, { 2, 4, 4, 8 });
}

TEST(parts_in_another_order_and_replicated)
{
    const cut twice[] = { { 2, -1 }, { 2, 2 }, { 2, 0 } };
    CHECK_PARTS(QUARTERS, 8, twice, { 0, 2, 0, 4 }, { 2, 4, 0, 4 }, { 0, 2, 4, 8 }, { 2, 4, 4, 8 }, { 0, 2, 0, 4 }, { 2, 4, 0, 4 },
                { 0, 2, 4, 8 }, { 2, 4, 4, 8 });
}

TEST(parts_of_one_axis)
{
    const cut rows[] = { { 2, 0 } };
    CHECK_PARTS(INTS(2, 2, 8), 8, rows, { 0, 2, 0, 8 }, { 2, 4, 0, 8 });
}

TEST(no_parts) { check_parts(INTS(4, 8), 8, NULL, 0, &(range){ 0, 4, 0, 8 }, 1); }

TEST(parts_without_the_axis)
{
    const cut rows[] = { { 4, 0 } }, columns[] = { { 2, 1 } };
    CHECK_PARTS(INTS(4, 8), 8, rows, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 2, 3, 0, 8 }, { 3, 4, 0, 8 });
    CHECK_PARTS(INTS(2, 2), 2, columns, { 0, 2, 0, 1 }, { 0, 2, 1, 2 });
}

TEST(replicas_within_parts)
{
    const cut cuts[] = { { 2, 0 }, { 3, -1 } };
    CHECK_PARTS(INTS(2, 8), 8, cuts, { 0, 1, 0, 8 }, { 0, 1, 0, 8 }, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 1, 2, 0, 8 }, { 1, 2, 0, 8 });
}

TEST(replicas_last)
{
    const cut cuts[] = { { 2, 0 }, { 2, 0 }, { 2, -1 } };
    CHECK_PARTS(INTS(2, 2, 4), 8, cuts, { 0, 1, 0, 4 }, { 0, 1, 0, 4 }, { 0, 1, 4, 8 }, { 0, 1, 4, 8 }, { 1, 2, 0, 4 }, { 1, 2, 0, 4 },
                { 1, 2, 4, 8 }, { 1, 2, 4, 8 });
}

TEST(replicas_between)
{
    const cut cuts[] = { { 2, 0 }, { 2, -1 }, { 2, 0 } };
    CHECK_PARTS(INTS(2, 2, 4), 8, cuts, { 0, 1, 0, 4 }, { 0, 1, 4, 8 }, { 0, 1, 0, 4 }, { 0, 1, 4, 8 }, { 1, 2, 0, 4 }, { 1, 2, 4, 8 },
                { 1, 2, 0, 4 }, { 1, 2, 4, 8 });
}

TEST(replicas_first)
{
    const cut cuts[] = { { 3, -1 }, { 2, 0 } };
    CHECK_PARTS(INTS(2, 8), 8, cuts, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 0, 1, 0, 8 }, { 1, 2, 0, 8 });
}

TEST(replicas_twice)
{
    const cut cuts[] = { { 2, -1 }, { 2, 0 }, { 2, -1 } };
    CHECK_PARTS(INTS(2, 8), 8, cuts, { 0, 1, 0, 8 }, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 1, 2, 0, 8 }, { 0, 1, 0, 8 }, { 0, 1, 0, 8 },
                { 1, 2, 0, 8 }, { 1, 2, 0, 8 });
}

TEST(replicas_of_a_scalar)
{
    mf_value r = mf_call(mf_pmap(same, .in_axes = MF_NONE, .axis_size = 3), mf_i(7));
    CHECK_EQ_INT(mf_devices_of_array(r).count, 3);
    for (int d = 0; d < 3; d++) {
        EXPECT(mf_shard(r, d), 7);
        CHECK_STR(mf_str(mf_shape_of(mf_shard(r, d))), "()");
    }
}

/* The same for arrays of the host and for arrays that a map has spread already in another way. */
TEST(arguments_in_parts)
{
    const cut rows[] = { { 4, 0 } }, columns[] = { { 2, 1 } }, mixed[] = { { 2, 0 }, { 3, -1 } };
    mf_value spread = mf_call(mf_pmap(same, .in_axes = 1, .out_axes = 1), INTS(4, 8));
    for (int k = 0; k < 2; k++)
        CHECK_PARTS(k ? spread : INTS(4, 8), 8, rows, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 2, 3, 0, 8 }, { 3, 4, 0, 8 });
    for (int k = 0; k < 2; k++)
        CHECK_PARTS(k ? mf_call(mf_pmap(same), INTS(2, 2)) : INTS(2, 2), 2, columns, { 0, 2, 0, 1 }, { 0, 2, 1, 2 });
    for (int k = 0; k < 2; k++)
        CHECK_PARTS(k ? mf_call(mf_pmap(same, .in_axes = 1, .out_axes = 1), INTS(2, 8)) : INTS(2, 8), 8, mixed, { 0, 1, 0, 8 },
                    { 0, 1, 0, 8 }, { 0, 1, 0, 8 }, { 1, 2, 0, 8 }, { 1, 2, 0, 8 }, { 1, 2, 0, 8 });
    mf_value r = mf_call(mf_pmap(mf_pmap(same, .in_axes = MF_NONE, .axis_size = 3), .in_axes = MF_NONE, .axis_size = 2), mf_i(5));
    EXPECT(r, 5, 5, 5, 5, 5, 5);
}
