/* Every parameter of pmap with valid and invalid input, and sizes, in the order of the reference. Eight devices. */
#include "check.h"

#include <manyfold.h>
#include <stdio.h>
#include <string.h>

#define F32(...) mf_array(MF_F32, MF_SHAPE((int64_t)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))), __VA_ARGS__)

static void start(void) { mf_set_num_cpu_devices(8); /* the first test sets it; later calls are errors that do not matter */ }

static mf_value square(mf_value x) { return mf_mul(x, x); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value total(mf_value x) { return mf_psum(x, "i"); }
static mf_value same(mf_value x) { return x; }
static mf_value add(mf_value x, mf_value y) { return mf_add(x, y); }
static mf_value sums(mf_value x, mf_value y) { return mf_tuple(mf_add(x, y), mf_mul(y, 2.0)); }
static mf_value with_total(mf_value x) { return mf_dict("each", x, "sum", mf_psum(x, "i")); }

#define EXPECT_TEXT(v, text)         \
    do {                             \
        mf_value t_ = (v);           \
        CHECK_STR(mf_str(t_), text); \
    } while (0)
#define EXPECT_ERROR(v, text)                   \
    do {                                        \
        mf_value e_ = (v);                      \
        CHECK(mf_is_error(e_));                 \
        if (mf_is_error(e_))                    \
            CHECK_CONTAINS(mf_error(e_), text); \
    } while (0)

TEST(maps_over_the_leading_axis)
{
    start();
    EXPECT_TEXT(mf_call(mf_pmap(square), mf_arange(8, MF_I32)), "[ 0  1  4  9 16 25 36 49]");
    EXPECT_TEXT(mf_call(mf_pmap(square), mf_arange(3, MF_I32)), "[0 1 4]");
    EXPECT_TEXT(mf_call(mf_pmap(normalize, "i"), mf_arange(4, MF_F32)), "[0.         0.16666667 0.33333334 0.5       ]");
}

TEST(unbound_name_lists_those_in_scope)
{
    start();
    EXPECT_ERROR(mf_call(mf_pmap(normalize, .axis_name = "j"), mf_arange(4, MF_F32)), "unbound axis name: i");
    EXPECT_ERROR(mf_call(mf_pmap(normalize, .axis_name = "j"), mf_arange(4, MF_F32)), "j");
    EXPECT_ERROR(mf_call(mf_pmap(normalize), mf_arange(4, MF_F32)), "unbound axis name: i");
}

TEST(in_axes)
{
    start();
    EXPECT_TEXT(mf_call(mf_pmap(sums, .in_axes = mf_axes(0, MF_NONE)), mf_arange(2, MF_F32), 4.0), "([4. 5.], [8. 8.])");
    mf_value x = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3));
    EXPECT_TEXT(mf_call(mf_pmap(same, .in_axes = 1), x), "[[0. 3.]\n [1. 4.]\n [2. 5.]]");
    EXPECT_TEXT(mf_call(mf_pmap(same, .in_axes = -1), x), "[[0. 3.]\n [1. 4.]\n [2. 5.]]");
    EXPECT_ERROR(mf_call(mf_pmap(same, .in_axes = 2), x), "rank 2");
    EXPECT_ERROR(mf_call(mf_pmap(add, .in_axes = mf_axes(0, 0, 0)), x, x), "in_axes");
}

TEST(out_axes)
{
    start();
    mf_value x = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3));
    EXPECT_TEXT(mf_call(mf_pmap(same, .out_axes = 1), x), "[[0. 3.]\n [1. 4.]\n [2. 5.]]");
    EXPECT_TEXT(mf_call(mf_pmap(total, "i", .out_axes = MF_NONE), mf_arange(4, MF_F32)), "6.0");
    EXPECT_ERROR(mf_call(mf_pmap(same, "i", .out_axes = MF_NONE), mf_arange(4, MF_F32)), "varies");
    EXPECT_ERROR(mf_call(mf_pmap(same, "i", .out_axes = MF_NONE), mf_arange(4, MF_F32)), "argument 0");
    mf_function f = mf_pmap(with_total, "i", .out_axes = mf_axes_dict({ "each", 0 }, { "sum", MF_NONE }));
    EXPECT_TEXT(mf_get(mf_call(f, mf_arange(3, MF_F32)), "sum"), "3.0");
}

TEST(nothing_mapped_takes_all_devices)
{
    start();
    mf_value r = mf_call(mf_pmap(same, .in_axes = MF_NONE, .out_axes = 0), F32(1, 2));
    CHECK_EQ_INT(mf_dim(r, 0), mf_local_device_count());
    r = mf_call(mf_pmap(same, .in_axes = MF_NONE, .axis_size = 3), F32(1, 2));
    CHECK_EQ_INT(mf_dim(r, 0), 3);
}

TEST(sizes)
{
    start();
    EXPECT_ERROR(mf_call(mf_pmap(square), mf_arange(9, MF_I32)), "requires 9 replicas, but only 8");
    EXPECT_ERROR(mf_call(mf_pmap(square), mf_arange(9, MF_I32)), "devices are available");
    EXPECT_ERROR(mf_call(mf_pmap(square), mf_zeros(MF_SHAPE(0), MF_F32)), "size 0");
    mf_value e = mf_call(mf_pmap(add), mf_arange(4, MF_F32), mf_arange(3, MF_F32));
    EXPECT_ERROR(e, "pmap got inconsistent sizes for array axes to be mapped:");
    EXPECT_ERROR(e, "argument 1");
    EXPECT_ERROR(e, "float32[3]");
    EXPECT_ERROR(mf_call(mf_pmap(square, .axis_size = 3), mf_arange(4, MF_F32)), "3");
    EXPECT_ERROR(mf_call(mf_pmap(square, .axis_size = 3), mf_arange(4, MF_F32)), "4");
    EXPECT_ERROR(mf_call(mf_pmap(same), 1.0), "rank 0");
}

TEST(devices)
{
    start();
    mf_device_list all = mf_devices();
    mf_function f1 = mf_pmap(normalize, "i", .devices = mf_device_slice(all, 0, 6));
    EXPECT_TEXT(mf_call(f1, mf_arange(6, MF_F32)), "[0.         0.06666667 0.13333334 0.2        0.26666668 0.33333334]");
    mf_function f2 = mf_pmap(total, "i", .devices = mf_device_slice(all, -2, MF_END));
    EXPECT_TEXT(mf_call(f2, F32(4, 9)), "[13. 13.]");
    mf_device twice[] = { all.at[0], all.at[0] };
    EXPECT_ERROR(mf_call(mf_pmap(square, .devices = (mf_device_list){ 2, twice }), mf_arange(2, MF_F32)), "twice");
    EXPECT_ERROR(mf_call(mf_pmap(square, .devices = (mf_device_list){ 0, twice }), mf_arange(2, MF_F32)), "empty");
    EXPECT_ERROR(mf_call(mf_pmap(square, .devices = (mf_device_list){ 2, NULL }), mf_arange(2, MF_F32)), "no list: 2 devices at NULL");
    EXPECT_ERROR(mf_call(mf_pmap(square, .devices = (mf_device_list){ -2, twice }), mf_arange(2, MF_F32)), "no list: -2 devices");
    EXPECT_ERROR(mf_call(mf_pmap(square, .devices = all), mf_arange(1, MF_F32)),
                 "Leading axis size of input to pmapped function must equal the number of local devices passed to pmap. Got axis_size=1, "
                 "num_local_devices=8.");
}

TEST(backend)
{
    start();
    EXPECT_TEXT(mf_call(mf_pmap(square, .backend = "cpu"), mf_arange(2, MF_I32)), "[0 1]");
    EXPECT_ERROR(mf_call(mf_pmap(square, .backend = "quantum"), mf_arange(2, MF_I32)), "'cpu'");
    mf_function f = mf_pmap(square, .backend = "reference");
    EXPECT_TEXT(mf_call(f, mf_arange(2, MF_I32)), "[0 1]");
    CHECK_CONTAINS(mf_as_text(mf_compile(f, mf_arange(2, MF_I32)), MF_TEXT_PLAN), "backend reference");
    CHECK_CONTAINS(mf_as_text(mf_compile(mf_pmap(square, .backend = "cpu"), mf_arange(2, MF_I32)), MF_TEXT_PLAN), mf_default_backend());
}

static mf_value on_reference(mf_value x) { return mf_call(mf_pmap(square, .backend = "reference"), x); }
static mf_value on_two(mf_value x) { return mf_call(mf_pmap(square, .backend = "native"), on_reference(x)); }

TEST(one_program_has_one_backend)
{
    start();
    CHECK_CONTAINS(mf_as_text(mf_compile(mf_jit(on_reference), mf_arange(2, MF_I32)), MF_TEXT_PLAN), "backend reference");
    if (strcmp(mf_default_backend(), "native") == 0)
        EXPECT_ERROR(mf_call(mf_jit(on_two), mf_arange(2, MF_I32)), "its maps name 'reference' and 'native'");
}

static int traces;
static mf_value power(mf_value x, mf_value n)
{
    traces++;
    return mf_pow(x, n);
}

TEST(static_arguments)
{
    start();
    traces = 0;
    mf_function f = mf_pmap(power, .static_broadcasted_argnums = MF_INTS(1));
    EXPECT_TEXT(mf_call(f, F32(1, 2, 3), 2), "[1. 4. 9.]");
    EXPECT_TEXT(mf_call(f, F32(1, 2, 3), 2), "[1. 4. 9.]");
    CHECK_EQ_INT(traces, 1);
    EXPECT_TEXT(mf_call(f, F32(1, 2, 3), 3), "[ 1.  8. 27.]");
    CHECK_EQ_INT(traces, 2);
    EXPECT_ERROR(mf_call(f, F32(1, 2)),
                 "pmapped function has static_broadcasted_argnums=(1,) but was called with only 1 positional argument. "
                 "All static broadcasted arguments must be passed positionally.");
    EXPECT_ERROR(mf_call(f, F32(1, 2), F32(1, 2)), "static argument 1");
}

static mf_value keyword(mf_value x, mf_value kwargs) { return mf_add(x, mf_get(kwargs, "y")); }

TEST(keyword_arguments_map_over_axis_0)
{
    start();
    mf_value y = mf_kwargs("y", F32(10, 20));
    EXPECT_TEXT(mf_call(mf_pmap(keyword), F32(1, 2), y), "[11. 22.]");
}

TEST(donation)
{
    start();
    mf_value x = F32(1, 2, 3, 4);
    mf_function f = mf_pmap(square, .donate_argnums = MF_INTS(0));
    EXPECT_TEXT(mf_call(f, x), "[ 1.  4.  9. 16.]");
    CHECK(mf_is_deleted(x));
    EXPECT_ERROR(mf_add(x, 1), "Array has been deleted with shape=float32[4].");
    EXPECT_ERROR(mf_call(mf_pmap(square, .donate_argnums = MF_INTS(3)), F32(1, 2)), "donate_argnums");
    mf_value y = F32(1, 2);
    EXPECT_ERROR(mf_call(mf_pmap(add, .donate_argnums = MF_INTS(0, 1)), y, y), "donate");
    EXPECT_TEXT(y, "[1. 2.]");
}

static mf_value grid(mf_value x)
{
    return mf_tuple(mf_div(x, mf_psum(x, "rows")), mf_div(x, mf_psum(x, "cols")), mf_div(x, mf_psum(x, "rows", "cols")));
}

TEST(nested_maps)
{
    start();
    mf_function f = mf_pmap(mf_pmap(grid, .axis_name = "cols"), .axis_name = "rows");
    mf_value r, c, d;
    mf_unpack(mf_call(f, mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2))), &r, &c, &d);
    EXPECT_TEXT(mf_sum(r, .axis = 0), "[1. 1.]");
    EXPECT_TEXT(mf_sum(c, .axis = 1), "[1. 1. 1. 1.]");
    EXPECT_TEXT(mf_sum(d, .axis = mf_axes(0, 1)), "1.0");
    EXPECT_ERROR(
        mf_call(f, mf_zeros(MF_SHAPE(4, 4), MF_F32)),
        "pmapped function requires 16 local devices to run due to nested pmapped or other parallel functions, but only 8 are available.");
}

TEST(trees_and_bad_leaves)
{
    start();
    mf_value tree = mf_dict("a", F32(1, 2), "b", mf_tuple(F32(3, 4), mf_none()));
    EXPECT_TEXT(mf_call(mf_pmap(same), tree), "{'a': [1. 2.], 'b': ([3. 4.], None)}");
    EXPECT_ERROR(mf_call(mf_pmap(same), mf_dict("a", F32(1, 2), "b", "text")), "['b']");
}

static mf_value fails(mf_value x) { return mf_add(x, mf_make_error(MF_ERROR_ARGUMENT, "no luck")); }

TEST(an_error_inside_is_the_result)
{
    start();
    EXPECT_ERROR(mf_call(mf_pmap(fails), F32(1, 2)), "no luck");
    EXPECT_ERROR(mf_call(mf_pmap(square), mf_make_error(MF_ERROR_IO, "before")), "before");
}

TEST(ten_thousand_calls_unread)
{
    start();
    mf_function f = mf_pmap(normalize, "i");
    mf_value last = { 0 };
    for (int i = 0; i < 10000; i++) {
        MF_SCOPE;
        mf_assign(&last, mf_call(f, mf_arange(8, MF_F32)));
    }
    CHECK_NEAR(mf_item_f64(mf_sum(last)), 1, 1e-6);
}

/* NULL options are all defaults. */
TEST(options_may_be_absent)
{
    start();
    mf_value x = mf_arange(2, MF_F32);
    mf_function f = mf_fn(square);
    EXPECT_TEXT(mf_call(mf_pmap_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_pmap2_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_vmap_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_vmap2_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_stateful_mapping_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_jit_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_remat_opt(f, NULL), x), "[0. 1.]");
    EXPECT_TEXT(mf_call(mf_grad_opt(f, NULL), 3.0), "6.0");
    EXPECT_TEXT(mf_get(mf_call(mf_value_and_grad_opt(f, NULL), 3.0), 1), "6.0");
    EXPECT_ERROR(mf_psum_opt(x, NULL), "psum");
    EXPECT_ERROR(mf_pmin_opt(x, NULL), "pmin");
    EXPECT_ERROR(mf_all_gather_opt(x, 0, NULL), "all_gather");
    EXPECT_ERROR(mf_pswapaxes_opt(x, 0, NULL), "axis name");
    EXPECT_ERROR(mf_pargmax_opt(x, NULL), "axis name");
    EXPECT_ERROR(mf_axis_index_opt(NULL), "axis_index");
    EXPECT_ERROR(mf_axis_size_opt(NULL), "axis_size");
}
