/* Small maps that one thread runs for all devices in lockstep, with every possible layout of operands and results. run_text also runs each
 * program on the pool, where every device is a separate fiber, and expects the same bits. */
#include "check.h"
#include "run_text.h"

static double got[4096];

static bool runs(const char *text, int which, int64_t count)
{
    return CHECK(run_text(text, which, got, count)) || CHECK_NOTE("%s\n%s", run_error, text);
}

TEST(elementwise_over_all_rows)
{
    if (runs("program (a: f32[8,3]) { b: f32[8,3] = pmap[axis_name=i, axis_size=8, in_axes=(0), out_axes=(0), program=(x: f32[3]) {"
             " y: f32[3] = mul x x\n z: f32[3] = add y {1.0, 1.0, 1.0}:f32[3]\n return z }] a\n return b }",
             0, 24))
        for (int i = 0; i < 24; i++)
            CHECK_NEAR(got[i], i * i + 1, 0);
}

TEST(scalars)
{
    if (runs(
            "program (a: f32[8]) { b: f32[8] = pmap[axis_name=i, axis_size=8, in_axes=(0), out_axes=(0), program=(x: f32[]) {"
            " u: f32[] = add x 1.0:f32[]\n s: f32[] = psum[axes=(i)] u\n y: f32[] = mul u x\n z: f32[] = add y s\n return z }] a\n return b }",
            0, 8))
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(got[i], (i + 1) * i + 36, 0);
}

TEST(columns_in_and_out)
{
    const char *text =
        "program (a: f32[2,4]) { b: f32[2,4], c: f32[4,2] = pmap[axis_name=i, axis_size=4, in_axes=(1), out_axes=(1,0),"
        " program=(x: f32[2]) { k: i32[] = axis_index[axes=(i)]\n f: f32[] = convert_element_type[dtype=f32] k\n"
        " g: f32[2] = broadcast_in_dim[shape=(2), broadcast_dimensions=()] f\n y: f32[2] = add x g\n return y, x }] a\n return b, c }";
    if (runs(text, 0, 8))
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(got[i], i + i % 4, 0);
    if (runs(text, 1, 8))
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(got[i], i / 2 + i % 2 * 4, 0);
}

/* Results: one per device, one for all devices, an unchanged operand, a constant, and one value twice. */
TEST(results_of_every_kind)
{
    const char *text =
        "program (a: f32[4,5], w: f32[5]) { p: f32[4,5], q: f32[5], r: f32[5], s: f32[4,5], t: f32[4,2], u: f32[4,5] = "
        "pmap[axis_name=i, axis_size=4, in_axes=(0,None), out_axes=(0,None,None,0,0,0), program=(x: f32[5], w: f32[5]) {"
        " v: f32[5] = add w {2.0, 2.0, 2.0, 2.0, 2.0}:f32[5]\n m: f32[5] = pmax[axes=(i)] x\n n: f32[5] = mul m v\n y: f32[5] = sub x n\n"
        " return y, n, w, x, {7.0, 7.0}:f32[2], y }] a w\n return p, q, r, s, t, u }";
    for (int which = 0; which < 6; which += 5)
        if (runs(text, which, 20))
            for (int i = 0; i < 20; i++)
                CHECK_NEAR(got[i], i - (15 + i % 5) * (i % 5 + 2), 0);
    for (int which = 1; which < 3; which++)
        if (runs(text, which, 5))
            for (int i = 0; i < 5; i++)
                CHECK_NEAR(got[i], which == 1 ? (15 + i) * (i + 2) : i, 0);
    if (runs(text, 3, 20))
        for (int i = 0; i < 20; i++)
            CHECK_NEAR(got[i], i, 0);
    if (runs(text, 4, 8))
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(got[i], 7, 0);
}

/* Intermediate values too large to keep for all devices at the same time: the devices run one after the other. */
TEST(large_intermediates)
{
    if (runs("program (a: f32[8,16384]) { b: f32[8] = pmap[axis_name=i, axis_size=8, in_axes=(0), out_axes=(0), program=(x: f32[16384]) {"
             " y: f32[16384] = sub x x\n s: f32[16384] = psum[axes=(i)] y\n z: f32[16384] = sub y s\n"
             " m: f32[16384] = psum[axes=(i)] z\n r: f32[] = reduce_max[axes=(0)] m\n k: i32[] = axis_index[axes=(i)]\n"
             " f: f32[] = convert_element_type[dtype=f32] k\n g: f32[] = add f r\n return g }] a\n return b }",
             0, 8))
        for (int i = 0; i < 8; i++)
            CHECK_NEAR(got[i], i, 0);
}

/* The part of a row that is read is followed in memory by the rest of the row, not by the next part. */
TEST(parts_of_rows)
{
    if (runs("program (a: f32[3,4]) { b: f32[3,3] = pmap[axis_name=i, axis_size=3, in_axes=(0), out_axes=(0), program=(x: f32[4]) {"
             " y: f32[3] = slice[start=(0), limit=(3), strides=(1)] x\n z: f32[3] = mul y y\n return z }] a\n return b }",
             0, 9))
        for (int i = 0; i < 9; i++)
            CHECK_NEAR(got[i], (i / 3 * 4 + i % 3) * (i / 3 * 4 + i % 3), 0);
}

/* An operand that is passed twice: a result in its memory would overwrite the other operand. */
TEST(one_value_as_two_operands)
{
    const char *text =
        "program (a: f32[3]) { p: f32[4,2,3], q: f32[4,2,6] = pmap[axis_name=i, axis_size=4, in_axes=(None), out_axes=(0,0), program=(x: f32[3]) {"
        " y: f32[2,3] = broadcast_in_dim[shape=(2,3), broadcast_dimensions=(1)] x\n"
        " p: f32[2,3], q: f32[2,6] = pmap[axis_name=j, axis_size=2, in_axes=(0,0), out_axes=(0,0), program=(c: f32[3], d: f32[3]) {"
        " e: f32[3] = sub d {10.0, 10.0, 10.0}:f32[3]\n f: f32[3] = neg c\n g: f32[6] = concatenate[axis=0] f c\n return e, g }] y y\n"
        " return p, q }] a\n return p, q }";
    if (runs(text, 0, 24))
        for (int i = 0; i < 24; i++)
            CHECK_NEAR(got[i], i % 3 - 10, 0);
    if (runs(text, 1, 48))
        for (int i = 0; i < 48; i++)
            CHECK_NEAR(got[i], (i % 6 < 3 ? -1 : 1) * (i % 3), 0);
}

/* A result that is returned twice, in memory from an inner map. */
TEST(one_value_as_two_results)
{
    const char *text =
        "program (a: f32[2,3]) { p: f32[3,3,2], q: f32[2,3,3] = pmap[axis_name=i, axis_size=2, in_axes=(0), out_axes=(2,0), program=(x: f32[3]) {"
        " y: f32[3,3] = broadcast_in_dim[shape=(3,3), broadcast_dimensions=(1)] x\n"
        " z: f32[3,3] = pmap[axis_name=j, axis_size=3, in_axes=(0), out_axes=(0), program=(c: f32[3]) {"
        " d: f32[3] = ppermute[axes=(i), perm=(0,1,1,0)] c\n return d }] y\n w: f32[3,3] = add z z\n return w, w }] a\n return p, q }";
    if (runs(text, 0, 18))
        for (int i = 0; i < 18; i++)
            CHECK_NEAR(got[i], 2 * (i / 2 % 3 + (i % 2 ? 0 : 3)), 0);
    if (runs(text, 1, 18))
        for (int i = 0; i < 18; i++)
            CHECK_NEAR(got[i], 2 * (i % 3 + (i < 9 ? 3 : 0)), 0);
}

/* A uniform value is computed once and read through a barrier that also holds per-device values. */
TEST(read_once_through_a_barrier)
{
    const char *text = "program (a: f32[4,3]) { b: f32[4] = pmap[axis_name=i, axis_size=4, in_axes=(0), out_axes=(0), program=(x: f32[3]) {"
                       " u: f32[5] = broadcast_in_dim[shape=(5), broadcast_dimensions=()] 2.0:f32[]\n"
                       " y: f32[3] = mul x x\n v: f32[5], z: f32[3] = optimization_barrier u y\n s: f32[] = reduce_sum[axes=(0)] z\n"
                       " t: f32[] = reduce_sum[axes=(0)] v\n w: f32[] = add s t\n return w }] a\n return b }";
    if (runs(text, 0, 4))
        for (int i = 0; i < 4; i++)
            CHECK_NEAR(got[i], 27 * i * i + 18 * i + 5 + 10, 0);
}
