/* Loops as steps of a kernel: what they carry by turns, walk along, and leave to the runtime, against plain loops in C. */
#include "check.h"
#include "ops/rows.h"
#include "runtime/compile/segment_compiler.h"

/* Compiles and runs text as one segment; false after a failed check. */
static bool run(const char *text, const void *const *in, void *const *out)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    if (!CHECK(p))
        return CHECK_NOTE("%s\n%s", mf_error_text(error), text);
    mf_kernel *kernel = NULL;
    error = mf_segment_compiler_native.compile(&mf_segment_compiler_native, p, NULL, &kernel);
    mf_drop(p);
    if (!CHECK(!error))
        return CHECK_NOTE("%s\n%s", mf_error_text(error), text);
    void *scratch = aligned_alloc(64, (kernel->scratch_bytes + 127) / 64 * 64);
    for (int again = 0; again < 2; again++)
        CHECK(!mf_segment_compiler_native.run(kernel, in, out, scratch));
    free(scratch);
    mf_segment_compiler_native.destroy(kernel);
    return true;
}

#define FIBONACCI                                                                                                \
    "program (m: i32[], n: i32[], a: f64[3], b: f64[3], k: f64[3]) {\n"                                          \
    " i: i32[], c: f64[3], d: f64[3], e: f64[3] = while[cond_consts=1, body_consts=1,"                           \
    " cond=(m: i32[], n: i32[], a: f64[3], b: f64[3], k: f64[3]) { p: bool[] = lt n m\n return p },"             \
    " body=(s: f64[3], n: i32[], a: f64[3], b: f64[3], k: f64[3]) {"                                             \
    " j: i32[] = add n 1:i32[]\n t: f64[3] = add a b\n u: f64[3] = mul t s\n return j, b, u, k }] m a n a b k\n" \
    " return i, c, d, e }"

TEST(carries_change_places)
{
    for (int32_t turns = 0; turns < 20; turns++) {
        const int32_t zero = 0;
        const double a[3] = { 1, 0.5, -1 }, b[3] = { 1, 2, 3 }, k[3] = { 7, 8, 9 };
        int32_t count = -1;
        double c[3], d[3], kept[3];
        const void *in[] = { &turns, &zero, a, b, k };
        void *out[] = { &count, c, d, kept };
        REQUIRE(run(FIBONACCI, in, out));
        CHECK(count == turns);
        for (int i = 0; i < 3; i++) {
            double x = a[i], y = b[i];
            for (int n = 0; n < turns; n++) {
                double next = (x + y) * a[i];
                x = y;
                y = next;
            }
            CHECK(c[i] == x && d[i] == y && kept[i] == k[i]);
        }
    }
}

/* The carry is a running sum of x w; what comes out is the sum before, and n + 1. */
static void check_scan(int length, bool reverse)
{
    char text[1024];
    snprintf(text, sizeof text,
             "program (w: f64[3], c: f64[3], x: f64[%d,3], n: i8[%d]) {\n"
             " d: f64[3], y: f64[%d,3], m: i8[%d] = scan[length=%d, consts=1, carry=1, reverse=%s,"
             " body=(w: f64[3], c: f64[3], x: f64[3], n: i8[]) {"
             " t: f64[3] = mul x w\n d: f64[3] = add c t\n m: i8[] = add n 1:i8[]\n return d, c, m }] w c x n\n return d, y, m }",
             length, length, length, length, length, reverse ? "true" : "false");
    double w[3] = { 2, -1, 0.5 }, c[3] = { 10, 20, 30 }, x[7][3], d[3], y[8][3];
    int8_t n[7], m[8];
    for (int i = 0; i < 7; i++) {
        n[i] = (int8_t)(5 * i);
        for (int k = 0; k < 3; k++)
            x[i][k] = i * 3 + k;
    }
    memset(y, 0x55, sizeof y);
    memset(m, 0x55, sizeof m);
    const void *in[] = { w, c, x, n };
    void *out[] = { d, y, m };
    REQUIRE(run(text, in, out));
    for (int i = 0; i < length; i++) {
        int at = reverse ? length - 1 - i : i;
        CHECK(m[at] == n[at] + 1);
        for (int k = 0; k < 3; k++) {
            CHECK(y[at][k] == c[k]);
            c[k] += x[at][k] * w[k];
        }
    }
    CHECK(d[0] == c[0] && d[1] == c[1] && d[2] == c[2]);
    CHECK(m[length] == 0x55);
}

TEST(scans_walk_along)
{
    for (int length = 1; length <= 7; length++)
        for (int reverse = 0; reverse < 2; reverse++)
            check_scan(length, reverse);
}

TEST(loops_within_loops)
{
    const int32_t zero = 0;
    const double x = 1, steps[4] = { 1, 2, 3, 4 };
    double y = 0;
    int32_t n = 0;
    const void *in[] = { &zero, &x, steps };
    void *out[] = { &n, &y };
    REQUIRE(run("program (n: i32[], x: f64[], s: f64[4]) {\n i: i32[], y: f64[] = while[cond_consts=0, body_consts=1,"
                " cond=(n: i32[], x: f64[]) { p: bool[] = lt n 3:i32[]\n return p },"
                " body=(s: f64[4], n: i32[], x: f64[]) { j: i32[] = add n 1:i32[]\n"
                " y: f64[] = scan[length=4, carry=1, body=(c: f64[], s: f64[]) { d: f64[] = mul c s\n return d }] x s\n"
                " return j, y }] s n x\n return i, y }",
                in, out));
    CHECK(n == 3 && y == 24.0 * 24 * 24);
}

/* Whether the engine takes the loop in text, the program's last equation. */
static bool taken(const char *text)
{
    mf_error_object *error = NULL;
    const mf_axis_env *env = mf_axis_env_push(NULL, mf_intern("i"), 4, 1);
    mf_program *p = mf_program_parse(text, env, &error);
    if (!CHECK(p))
        return CHECK_NOTE("%s", mf_error_text(error));
    bool takes = mf_segment_compiler_native.takes_loop(p->eqns[p->eqn_count - 1]);
    mf_drop(p);
    return takes;
}

TEST(other_loops_are_left_to_the_runtime)
{
    CHECK(taken(
        "program (x: f32[9]) { y: f32[9] = scan[length=5, carry=1, body=(x: f32[9]) { y: f32[9] = sin x\n return y }] x\n return y }"));
    CHECK(taken("program (x: f32[], z: f32[5000,9]) { y: f32[] = scan[length=5000, carry=1, body=(x: f32[], z: f32[9]) {"
                " s: f32[] = reduce_sum[axes=(0)] z\n y: f32[] = add x s\n return y }] x z\n return y }"));
    CHECK(!taken(
        "program (x: f32[50000]) { y: f32[50000] = scan[length=5, carry=1, body=(x: f32[50000]) { y: f32[50000] = sin x\n return y }] x\n"
        " return y }"));
    CHECK(
        taken("program (w: f32[300,300], x: f32[300]) { y: f32[300] = scan[length=5, consts=1, carry=1,"
              " body=(w: f32[300,300], x: f32[300]) { y: f32[300] = dot_general[lhs_contract=(1), rhs_contract=(0)] w x\n return y }] w x\n"
              " return y }"));
    CHECK(taken("program (x: f32[5000], i: i32[]) { y: f32[5000] = scan[length=5, consts=1, carry=1, body=(i: i32[], x: f32[5000]) {"
                " y: f32[5000] = neg x\n return y }] i x\n return y }"));
    CHECK(!taken("program (x: f32[5000], i: i32[]) { y: f32[5000] = scan[length=5, consts=1, carry=1, body=(i: i32[], x: f32[5000]) {"
                 " u: f32[1] = slice[start=(3), limit=(4), strides=(1)] x\n y: f32[5000] = dynamic_update_slice x u i\n return y }] i x\n"
                 " return y }"));
    CHECK(!taken("program (x: f32[5000], z: f32[]) { y: f32[5000], u: f32[] = scan[length=5, carry=2, body=(x: f32[5000], z: f32[]) {"
                 " u: f32[] = neg z\n return x, u }] x z\n return y, u }"));
    CHECK(!taken("program (x: f32[]) { y: f32[] = scan[length=5, carry=1, body=(x: f32[]) { y: f32[] = psum[axes=(i)] x\n return y }] x\n"
                 " return y }"));
    CHECK(!taken("program (x: f32[]) { y: f32[] = scan[length=5, carry=1, body=(x: f32[]) {"
                 " z: f32[] = scan[length=5, carry=1, body=(x: f32[]) { y: f32[] = psum[axes=(i)] x\n return y }] x\n return z }] x\n"
                 " return y }"));
}
