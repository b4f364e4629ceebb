/* Devices that do not agree get an error that names them; nothing hangs. */
#include "check.h"
#include "run_text.h"

static double got[64];

static void expect(const char *body, const char *first, const char *second)
{
    char text[2048];
    snprintf(
        text, sizeof text,
        "program (a: f32[4]) { b: f32[4] = pmap[axis_name=i, axis_size=4, in_axes=(0), out_axes=(0), program=(x: f32[]) { %s }] a\n return b }",
        body);
    CHECK(!run_text(text, 0, got, 4));
    CHECK_CONTAINS(run_error, first);
    CHECK_CONTAINS(run_error, second);
}

TEST(some_never_come)
{
    expect("k: i32[] = axis_index[axes=(i)]\n j: i32[] = rem k 2:i32[]\n"
           " y: f32[] = cond[branches=[(x: f32[]) { y: f32[] = psum[axes=(i)] x\n return y }, (x: f32[]) { return x }]] j x\n return y",
           "psum over 'i' was reached by devices 0, 2", "but devices 1, 3");
}

TEST(some_go_elsewhere)
{
    expect(
        "k: i32[] = axis_index[axes=(i)]\n j: i32[] = rem k 2:i32[]\n"
        " y: f32[] = cond[branches=[(x: f32[]) { y: f32[] = psum[axes=(i)] x\n return y }, (x: f32[]) { y: f32[] = pmax[axes=(i)] x\n return y }]] j x\n return y",
        "over 'i' was reached by devices", "waits in another p");
}

TEST(loops_of_different_length)
{
    expect(
        "y: f32[] = while[cond=(x: f32[]) { p: bool[] = lt x 3.0:f32[]\n return p }, body=(x: f32[]) { s: f32[] = psum[axes=(i)] x\n y: f32[] = add x 1.0:f32[]\n z: f32[] = max y s\n w: f32[] = min y z\n return w }] x\n return y",
        "psum over 'i' was reached by devices 0, 1, 2", "but devices 3 never come to it");
}

TEST(the_executable_lives_on)
{
    const char *text =
        "program (a: f32[4]) { b: f32[4] = pmap[axis_name=i, axis_size=4, in_axes=(0), out_axes=(0), program=(x: f32[]) {"
        " p: bool[] = lt x 8.0:f32[]\n j: i32[] = convert_element_type[dtype=i32] p\n"
        " y: f32[] = cond[branches=[(x: f32[]) { return x }, (x: f32[]) { y: f32[] = psum[axes=(i)] x\n return y }]] j x\n return y }] a\n return b }";
    mf_error_object *error = NULL;
    mf_executable *x = executable_of(text, NULL, &error);
    REQUIRE(x);
    mf_array *good = counting("f32[4]", 0), *bad = counting("f32[4]", 6), *out[1];
    for (int round = 0; round < 20; round++) {
        CHECK(!start(x, &bad, out));
        CHECK_CONTAINS(run_error, "disagree");
        if (CHECK(start(x, &good, out))) {
            CHECK(read_array(out[0], got, 4));
            CHECK_NEAR(got[3], 6, 0);
            mf_drop(out[0]);
        }
    }
    mf_drop(good);
    mf_drop(bad);
    mf_drop(x);
}
