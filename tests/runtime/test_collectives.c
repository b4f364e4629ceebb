/* Every collective on 1, 3, 8 and 64 devices, over one name and several, in groups, inside control flow, and under maps of maps. */
#include "check.h"
#include "run_text.h"

static const int sizes[] = { 1, 3, 8, 64 };
#define EACH_SIZE(n) for (int at_ = 0, n; at_ < 4 && (n = sizes[at_], true); at_++)

static double got[65536];

/* Runs a map over i of size n with one input f32[n,*]; `body` is the body of the map. */
static bool mapped(int n, const char *in, const char *out, const char *body, int64_t count)
{
    char text[4096];
    snprintf(text, sizeof text,
             "program (a: f32[%d%s%s]) { b: f32[%d%s%s] = pmap[axis_name=i, axis_size=%d, in_axes=(0), out_axes=(0), "
             "program=(x: f32[%s]) { %s }] a\n return b }",
             n, *in ? "," : "", in, n, *out ? "," : "", out, n, in, body);
    return CHECK(run_text(text, 0, got, count)) || CHECK_NOTE("%s\n%s", run_error, text);
}

TEST(psum_divides)
{
    EACH_SIZE(n)
    {
        if (!mapped(n, "", "", "s: f32[] = psum[axes=(i)] x\n y: f32[] = div x s\n return y", n))
            continue;
        double sum = n * (n - 1) / 2.0;
        for (int d = 0; d < n; d++)
            CHECK_NEAR(got[d], n == 1 ? NAN : d / sum, 1e-6);
    }
}

TEST(psum_of_what_is_the_same_everywhere)
{
    EACH_SIZE(n)
    {
        if (mapped(n, "", "", "s: f32[] = psum[axes=(i)] 2.0:f32[]\n y: f32[] = add x s\n return y", n))
            for (int d = 0; d < n; d++)
                CHECK_NEAR(got[d], d + 2.0 * n, 0);
    }
}

TEST(extrema)
{
    EACH_SIZE(n)
    {
        if (mapped(n, "2", "2", "s: f32[2] = pmax[axes=(i)] x\n t: f32[2] = pmin[axes=(i)] x\n y: f32[2] = sub s t\n return y", 2 * n))
            for (int d = 0; d < 2 * n; d++)
                CHECK_NEAR(got[d], 2 * (n - 1), 0);
    }
}

TEST(large_sum_is_cut_without_a_difference)
{
    int n = 8, length = 4096;
    if (!mapped(n, "4096", "4096", "s: f32[4096] = psum[axes=(i)] x\n y: f32[4096] = add s x\n return y", n * length))
        return;
    for (int d = 0; d < n; d++)
        for (int k = 0; k < length; k += 97)
            CHECK_NEAR(got[d * length + k], n * k + length * 28.0 + d * length + k, 1e-6);
}

TEST(axis_index_counts)
{
    EACH_SIZE(n)
    {
        if (mapped(n, "", "",
                   "k: i32[] = axis_index[axes=(i)]\n y: f32[] = convert_element_type[dtype=f32] k\n z: f32[] = add y x\n return z", n))
            for (int d = 0; d < n; d++)
                CHECK_NEAR(got[d], 2 * d, 0);
    }
}

TEST(all_gather_stacks)
{
    char body[256], out[32];
    EACH_SIZE(n)
    {
        snprintf(out, sizeof out, "%d,2", n);
        snprintf(body, sizeof body, "y: f32[%s] = all_gather[axes=(i), axis=0, tiled=false] x\n return y", out);
        if (mapped(n, "2", out, body, (int64_t)n * n * 2))
            for (int d = 0; d < n; d++)
                for (int k = 0; k < 2 * n; k++)
                    CHECK_NEAR(got[d * 2 * n + k], k, 0);
        snprintf(out, sizeof out, "2,%d", n);
        snprintf(body, sizeof body, "y: f32[%s] = all_gather[axes=(i), axis=1, tiled=false] x\n return y", out);
        if (mapped(n, "2", out, body, (int64_t)n * n * 2))
            for (int k = 0; k < n; k++)
                CHECK(got[k] == 2 * k && got[n + k] == 2 * k + 1);
    }
}

TEST(all_gather_tiled_joins)
{
    if (mapped(3, "2,2", "2,6", "y: f32[2,6] = all_gather[axes=(i), axis=1, tiled=true] x\n return y", 36)) {
        static const double expected[12] = { 0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11 };
        for (int k = 0; k < 36; k++)
            CHECK_NEAR(got[k], expected[k % 12], 0);
    }
}

TEST(psum_scatter_gives_parts)
{
    char body[256], in[32];
    EACH_SIZE(n)
    {
        snprintf(in, sizeof in, "%d", n);
        snprintf(body, sizeof body, "y: f32[] = psum_scatter[axes=(i), axis=0, tiled=false] x\n return y");
        if (mapped(n, in, "", body, n))
            for (int d = 0; d < n; d++)
                CHECK_NEAR(got[d], (double)n * d + (double)n * n * (n - 1) / 2, 1e-6);
    }
    if (mapped(3, "2,6", "2,2", "y: f32[2,2] = psum_scatter[axes=(i), axis=1, tiled=true] x\n return y", 12))
        for (int d = 0; d < 3; d++)
            for (int k = 0; k < 4; k++)
                CHECK_NEAR(got[d * 4 + k], 36 + 3 * (k / 2 * 6 + d * 2 + k % 2), 0);
}

TEST(all_to_all_exchanges)
{
    char body[256], in[32];
    EACH_SIZE(n)
    {
        snprintf(in, sizeof in, "%d", n);
        snprintf(body, sizeof body, "y: f32[%d] = all_to_all[axes=(i), split_axis=0, concat_axis=0, tiled=false] x\n return y", n);
        if (mapped(n, in, in, body, (int64_t)n * n))
            for (int d = 0; d < n; d++)
                for (int k = 0; k < n; k++)
                    CHECK_NEAR(got[d * n + k], k * n + d, 0);
    }
    if (mapped(2, "2,4", "4,2", "y: f32[4,2] = all_to_all[axes=(i), split_axis=1, concat_axis=0, tiled=true] x\n return y", 16)) {
        static const double expected[16] = { 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15 };
        for (int k = 0; k < 16; k++)
            CHECK_NEAR(got[k], expected[k], 0);
    }
}

TEST(ppermute_moves_and_leaves_zeros)
{
    if (mapped(8, "", "", "y: f32[] = ppermute[axes=(i), perm=(0,1,1,2,7,0)] x\n return y", 8)) {
        static const double expected[8] = { 7, 0, 1, 0, 0, 0, 0, 0 };
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], expected[k], 0);
    }
    if (mapped(3, "100", "100", "y: f32[100] = ppermute[axes=(i), perm=(0,1,1,2,2,0)] x\n return y", 300))
        for (int k = 0; k < 300; k++)
            CHECK_NEAR(got[k], (k + 200) % 300, 0);
}

TEST(groups)
{
    if (mapped(8, "", "", "y: f32[] = psum[axes=(i), groups=(0,2,4,6,1,3,5,7), group_size=4] x\n return y", 8))
        for (int d = 0; d < 8; d++)
            CHECK_NEAR(got[d], d % 2 ? 16 : 12, 0);
    if (mapped(4, "", "2", "y: f32[2] = all_gather[axes=(i), axis=0, groups=(3,0,1,2), group_size=2] x\n return y", 8)) {
        static const double expected[8] = { 3, 0, 1, 2, 1, 2, 3, 0 };
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], expected[k], 0);
    }
}

/* ---- maps of maps */

static const char nested[] =
    "program (a: f32[2,4]) { b: f32[2,4] = pmap[axis_name=i, axis_size=2, in_axes=(0), out_axes=(0), program=(r: f32[4]) {"
    " c: f32[4] = pmap[axis_name=j, axis_size=4, in_axes=(0), out_axes=(0), program=(x: f32[]) { %s }] r\n return c }] a\n return b }";

static bool nest(const char *body)
{
    char text[2048];
    snprintf(text, sizeof text, nested, body);
    return CHECK(run_text(text, 0, got, 8)) || CHECK_NOTE("%s", run_error);
}

TEST(sums_over_rows_columns_and_all)
{
    if (nest("s: f32[] = psum[axes=(j)] x\n return s"))
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], k < 4 ? 6 : 22, 0);
    if (nest("s: f32[] = psum[axes=(i)] x\n return s"))
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], 4 + 2 * (k % 4), 0);
    if (nest("s: f32[] = psum[axes=(i,j)] x\n return s"))
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], 28, 0);
    if (nest("s: i32[] = axis_index[axes=(j,i)]\n t: f32[] = convert_element_type[dtype=f32] s\n y: f32[] = add t x\n return y"))
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], k % 4 * 2 + k / 4 + k, 0);
    if (nest("s: f32[] = psum[axes=(j)] x\n t: f32[] = psum[axes=(i)] s\n u: f32[] = psum[axes=(i)] x\n y: f32[] = add t u\n return y"))
        for (int k = 0; k < 8; k++)
            CHECK_NEAR(got[k], 28 + 4 + 2 * (k % 4), 0);
}

/* Inside the inner map r is uniform: one fiber of each inner map represents all its devices. */
TEST(sums_of_what_only_the_outer_map_maps)
{
    const char *text =
        "program (a: f32[3], b: f32[4]) { c: f32[3,4], d: f32[3,4] = pmap[axis_name=i, axis_size=3, in_axes=(0,None), out_axes=(0,0), program=(r: f32[], q: f32[4]) {"
        " c: f32[4], d: f32[4] = pmap[axis_name=j, axis_size=4, in_axes=(None,0), out_axes=(0,0), program=(r: f32[], x: f32[]) {"
        " s: f32[] = psum[axes=(i)] r\n t: f32[] = add s r\n u: f32[] = psum[axes=(i,j)] r\n v: f32[] = add t x\n w: f32[] = sub u x\n return v, w }] r q\n"
        " return c, d }] a b\n return c, d }";
    REQUIRE(CHECK(run_text(text, 0, got, 12)) || CHECK_NOTE("%s", run_error));
    for (int k = 0; k < 12; k++)
        CHECK_NEAR(got[k], 3 + k / 4 + k % 4, 0);
    REQUIRE(CHECK(run_text(text, 1, got, 12)) || CHECK_NOTE("%s", run_error));
    for (int k = 0; k < 12; k++)
        CHECK_NEAR(got[k], 12 - k % 4, 0);
}

TEST(swapped_axes)
{
    const char *text =
        "program (a: f32[2,3]) { b: f32[3,2] = pmap[axis_name=i, axis_size=2, in_axes=(0), out_axes=(1), program=(r: f32[3]) {"
        " c: f32[3] = neg r\n return c }] a\n return b }";
    REQUIRE(CHECK(run_text(text, 0, got, 6)) || CHECK_NOTE("%s", run_error));
    for (int k = 0; k < 6; k++)
        CHECK_NEAR(got[k], -(k % 2 * 3 + k / 2), 0);
    text =
        "program (a: f32[2,3,4]) { b: f32[4,3,2] = pmap[axis_name=i, axis_size=3, in_axes=(1), out_axes=(1), program=(r: f32[2,4]) {"
        " c: f32[4,2] = pmap[axis_name=j, axis_size=4, in_axes=(1), out_axes=(0), program=(x: f32[2]) { y: f32[2] = neg x\n return y }] r\n"
        " return c }] a\n return b }";
    REQUIRE(CHECK(run_text(text, 0, got, 24)) || CHECK_NOTE("%s", run_error));
    for (int p = 0; p < 4; p++)
        for (int q = 0; q < 3; q++)
            for (int r = 0; r < 2; r++)
                CHECK_NEAR(got[p * 6 + q * 2 + r], -(r * 12 + q * 4 + p), 0);
}

TEST(many_devices)
{
    if (mapped(1024, "4", "4",
               "s: f32[4] = psum[axes=(i)] x\n y: f32[4] = sub x s\n t: f32[4] = pmax[axes=(i)] y\n z: f32[4] = sub t y\n return z", 4096))
        for (int k = 0; k < 4096; k++)
            CHECK_NEAR(got[k], 4 * (1023 - k / 4), 1e-3);
}

/* ---- control flow */

TEST(scan_with_a_sum_in_its_body)
{
    EACH_SIZE(n)
    {
        if (mapped(
                n, "", "",
                "c: f32[] = scan[length=5, carry=1, body=(x: f32[]) { s: f32[] = psum[axes=(i)] x\n y: f32[] = sub s x\n return y }] x\n return c",
                n)) {
            double state[64], next[64];
            for (int d = 0; d < n; d++)
                state[d] = d;
            for (int t = 0; t < 5; t++) {
                double sum = 0;
                for (int d = 0; d < n; d++)
                    sum += state[d];
                for (int d = 0; d < n; d++)
                    next[d] = sum - state[d];
                memcpy(state, next, sizeof state);
            }
            for (int d = 0; d < n; d++)
                CHECK_NEAR(got[d], state[d], 1e-5);
        }
    }
}

TEST(a_loop_may_name_one_value_as_constant_and_carry)
{
    const char *text =
        "program (a: f32[8]) { n: f32[8] = neg a\n c: f32[8] = scan[length=3, consts=1, carry=1, body=(k: f32[8], x: f32[8]) { y: f32[8] = add k x\n return y }] n n\n return c }";
    REQUIRE(CHECK(run_text(text, 0, got, 8)) || CHECK_NOTE("%s", run_error));
    for (int k = 0; k < 8; k++)
        CHECK_NEAR(got[k], -4 * k, 0);
}

TEST(scan_stacks_and_reverses)
{
    const char *text =
        "program (a: f32[], xs: f32[3,2]) { c: f32[], ys: f32[3,2] = scan[length=3, carry=1, reverse=true, body=(c: f32[], x: f32[2]) {"
        " b: f32[2] = broadcast_in_dim[shape=(2), broadcast_dimensions=()] c\n y: f32[2] = add b x\n s: f32[] = reduce_sum[axes=(0)] y\n return s, y }] a xs\n return c, ys }";
    REQUIRE(CHECK(run_text(text, 1, got, 6)) || CHECK_NOTE("%s", run_error));
    CHECK_NEAR(got[4], 4, 0), CHECK_NEAR(got[5], 5, 0);
    CHECK_NEAR(got[2], 11, 0), CHECK_NEAR(got[3], 12, 0);
    CHECK_NEAR(got[0], 23, 0), CHECK_NEAR(got[1], 24, 0);
}

TEST(while_runs_as_long_on_every_device_as_it_must)
{
    EACH_SIZE(n)
    {
        if (mapped(
                n, "", "",
                "c: f32[] = while[cond=(x: f32[]) { p: bool[] = lt x 20.0:f32[]\n return p }, body=(x: f32[]) { y: f32[] = add x 7.0:f32[]\n return y }] x\n return c",
                n))
            for (int d = 0; d < n; d++)
                CHECK_NEAR(got[d], d >= 20 ? d : d + 7 * ((20 - d + 6) / 7), 0);
    }
}

TEST(while_with_collectives)
{
    if (mapped(8, "", "",
               "c: f32[] = while[cond=(x: f32[]) { s: f32[] = psum[axes=(i)] x\n p: bool[] = lt s 1000.0:f32[]\n return p },"
               " body=(x: f32[]) { m: f32[] = pmax[axes=(i)] x\n y: f32[] = add x m\n return y }] x\n return c",
               8)) {
        double state[8], sum, most;
        for (int d = 0; d < 8; d++)
            state[d] = d;
        for (;;) {
            sum = most = 0;
            for (int d = 0; d < 8; d++) {
                sum += state[d];
                most = fmax(most, state[d]);
            }
            if (sum >= 1000)
                break;
            for (int d = 0; d < 8; d++)
                state[d] += most;
        }
        for (int d = 0; d < 8; d++)
            CHECK_NEAR(got[d], state[d], 1e-5);
    }
}

TEST(cond_differs_between_devices)
{
    EACH_SIZE(n)
    {
        if (mapped(
                n, "", "",
                "k: i32[] = axis_index[axes=(i)]\n j: i32[] = rem k 3:i32[]\n"
                " y: f32[] = cond[branches=[(x: f32[]) { return x }, (x: f32[]) { y: f32[] = neg x\n return y }, (x: f32[]) { y: f32[] = add x x\n return y }]] j x\n return y",
                n))
            for (int d = 0; d < n; d++)
                CHECK_NEAR(got[d], d % 3 == 0 ? d : d % 3 == 1 ? -d : 2 * d, 0);
    }
}

TEST(groups_may_part_ways)
{
    if (mapped(4, "", "",
               "k: i32[] = axis_index[axes=(i)]\n j: i32[] = div k 2:i32[]\n"
               " y: f32[] = cond[branches=[(x: f32[]) { y: f32[] = psum[axes=(i), groups=(0,1,2,3), group_size=2] x\n return y }"
               ", (x: f32[]) { y: f32[] = pmax[axes=(i), groups=(0,1,2,3), group_size=2] x\n return y }]] j x\n return y",
               4)) {
        static const double expected[4] = { 1, 1, 3, 3 };
        for (int d = 0; d < 4; d++)
            CHECK_NEAR(got[d], expected[d], 0);
    }
}

TEST(a_map_inside_a_loop_inside_a_map)
{
    if (mapped(
            2, "3", "3",
            "c: f32[3] = scan[length=4, carry=1, body=(x: f32[3]) {"
            " y: f32[3] = pmap[axis_name=j, axis_size=3, in_axes=(0), out_axes=(0), program=(z: f32[]) { s: f32[] = psum[axes=(i)] z\n t: f32[] = psum[axes=(j)] z\n"
            " u: f32[] = sub s t\n return u }] x\n return y }] x\n return c",
            6)) {
        double state[2][3], next[2][3];
        for (int k = 0; k < 6; k++)
            state[k / 3][k % 3] = k;
        for (int t = 0; t < 4; t++) {
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++)
                    next[i][j] = state[0][j] + state[1][j] - (state[i][0] + state[i][1] + state[i][2]);
            memcpy(state, next, sizeof state);
        }
        for (int k = 0; k < 6; k++)
            CHECK_NEAR(got[k], state[k / 3][k % 3], 1e-5);
    }
}

/* ---- a part of an axis, as jax.pmap in several processes: operands and results have the rows of this process, everything else is
 * global. */

#define PART(rest) "pmap[axis_name=i, axis_size=8, local=(4,5,6), in_axes=(0), out_axes=(0), program=(x: f32[2]) {" rest "}] a\n return b }"

TEST(a_map_over_a_part_of_its_axis)
{
    static double out[6];
    REQUIRE(run_text("program (a: f32[3,2]) { b: f32[3] = " PART(
                         "k: i32[] = axis_index[axes=(i)]\n f: f32[] = convert_element_type[dtype=f32] k\n return f"),
                     0, out, 3) ||
            CHECK_NOTE("%s", run_error));
    CHECK(out[0] == 4 && out[1] == 5 && out[2] == 6);
    REQUIRE(run_text("program (a: f32[3,2]) { b: f32[3,2] = " PART("y: f32[2] = add x x\n return y"), 0, out, 6) ||
            CHECK_NOTE("%s", run_error));
    CHECK(out[0] == 0 && out[5] == 10);
    CHECK(!run_text("program (a: f32[3,2]) { b: f32[3,2] = " PART("y: f32[2] = psum[axes=(i)] x\n return y"), 0, out, 6));
    CHECK_CONTAINS(run_error, "the axis 'i' spans processes");
    CHECK(!run_text("program (a: f32[8,2]) { b: f32[8,2] = " PART("y: f32[2] = add x x\n return y"), 0, out, 6));
    CHECK_CONTAINS(run_error, "has size 8 along its mapped axis 0, the map 3");
}

TEST(a_part_lies_in_its_axis)
{
    static double out[6];
    static const char *const parts[] = { "local=(0,1,8)", "local=(-1,0,1)", "local=(1,1,2)", "local=(2,1,0)" };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char text[512];
        snprintf(
            text, sizeof text,
            "program (a: f32[3]) { b: f32[3] = pmap[axis_name=i, axis_size=8, %s, in_axes=(0), out_axes=(0), program=(x: f32[]) { return x }] a\n return b }",
            parts[i]);
        CHECK(!run_text(text, 0, out, 3));
        CHECK_CONTAINS(run_error, "indices along an axis of size 8 ascend");
    }
}
