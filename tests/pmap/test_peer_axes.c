/* Counterparts of the peer's tests of in_axes and out_axes, good and bad. */
#include "peer.h"

FN2(plus, x, y, mf_add(x, y))
FN2(first, x, y, ((void)y, x))
FN2(wave_of_sum, x, y, mf_sin(mf_add(x, y)))
FN2(wave_and_double, x, y, mf_tuple(mf_sin(mf_add(x, y)), mf_mul(y, 2)))
FN(as_dict, mf_dict("a", v))
FN2(nested_result, x, y, ((void)y, mf_tuple(mf_tuple(x, x), x)))

TEST(sizes_that_differ)
{
    mf_value v = mf_call(mf_pmap(plus), FLOATS(8), FLOATS(7));
    EXPECT_ERROR(v, "pmap got inconsistent sizes for array axes to be mapped");
    EXPECT_ERROR(v, "one axis had size 8: axis 0 of argument 0");
    EXPECT_ERROR(v, "one axis had size 7: axis 0 of argument 1");
}

TEST(in_axes_that_are_no_prefix)
{
    mf_value x = F32(3.14);
    mf_function f = mf_pmap(first, .in_axes = mf_axes(mf_axes(0, 0, 0), 0));
    EXPECT_ERROR(mf_call(f, mf_tuple(x, x), x), "pmap in_axes must be a tree prefix of the corresponding value: at [0]");
}

static mf_value of_keywords(mf_value arguments) { return mf_get(arguments, "y"); }

TEST(in_axes_with_keywords)
{
    mf_value x = F32(3.14);
    mf_function f = mf_pmap(of_keywords, .in_axes = mf_axes(mf_axes(0, 0), 0));
    mf_value v = mf_call(f, mf_kwargs("x", mf_tuple(x, x), "y", x));
    EXPECT_ERROR(v, "in_axes");
    EXPECT_ERROR(v, "keyword");
}

TEST(out_axes_that_are_no_prefix)
{
    mf_value x = F32(3.14);
    EXPECT_ERROR(mf_call(mf_pmap(nested_result, .out_axes = mf_axes(mf_axes(0, 0, 0), 0)), x, x),
                 "pmap out_axes must be a tree prefix of the corresponding value: at [0]");
}

TEST(in_axes)
{
    mf_value x = FLOATS(2, 8, 4), y = FLOATS(2, 4, 8);
    EXPECT_CLOSE(mf_call(mf_pmap(wave_of_sum, .in_axes = mf_axes(1, 2)), x, y),
                 mf_sin(mf_add(mf_transpose(x, MF_INTS(1, 0, 2)), mf_transpose(y, MF_INTS(2, 0, 1)))), 1e-5);
}

TEST(out_axes)
{
    mf_value x = FLOATS(2, 8, 4), y = FLOATS(2, 4);
    mf_value r = mf_call(mf_pmap(wave_and_double, .in_axes = mf_axes(1, MF_NONE), .out_axes = mf_axes(2, MF_NONE)), x, y);
    mf_value wave = mf_transpose(mf_sin(mf_add(mf_transpose(x, MF_INTS(1, 0, 2)), y)), MF_INTS(1, 2, 0));
    EXPECT_CLOSE(r, mf_tuple(wave, mf_mul(y, 2)), 1e-5);
}

TEST(out_axes_of_a_dict) { EXPECT_SAME(mf_call(mf_pmap(as_dict, .out_axes = mf_axes_dict({ "a", 0 })), INTS(8)), mf_dict("a", INTS(8))); }
