/* Loops as steps of a kernel: double-buffered carries, stepping along arrays, and the loops left to the runtime, compared with plain loops
 * in C. */
#include "backend/native/fusion/loop_step.h"
#include "backend/native/llvm/tier_up.h"
#include "check.h"
#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"

#include <math.h>

/* Compiles and runs a text as one segment; false after a failed check. */
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

/* The carry is a running sum of x * w; the outputs are the previous sum and n + 1. */
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

/* Whether the engine accepts the loop in the text, which must be the program's last equation. */
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

/* ---- loops for parts of the rows */

/* The number of parts into which the rows of a scan with this body are cut. */
static int parts_of(const char *body)
{
    char text[2048];
    snprintf(text, sizeof text,
             "program (w: f32[4,4], m: f32[16,4], c: f32[16,4], x: f32[9,16,4]) {\n"
             " d: f32[16,4], y: f32[9,16,4] = scan[length=9, consts=2, carry=1,"
             " body=(w: f32[4,4], m: f32[16,4], c: f32[16,4], x: f32[16,4]) { %s }] w m c x\n return d, y }",
             body);
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    if (!CHECK(p))
        return CHECK_NOTE("%s\n%s", mf_error_text(error), text);
    const mf_scan_params *scan = p->eqns[0]->params;
    mf_arena arena = { 0 };
    mf_build b = { .arena = &arena };
    int parts = 0;
    mf_program *made = mf_loop_cut_rows(&b, scan->body, scan->consts, &parts);
    CHECK(!b.error && (parts > 1) == (made != NULL));
    for (int o = 0; made && o < made->out_count; o++)
        CHECK(made->out[o]->type->dims[0] == 16 / parts);
    for (int i = (int)scan->consts; made && i < made->in_count; i++)
        CHECK(made->in[i]->type->dims[0] == 16 / parts);
    mf_drop(made);
    mf_drop(p);
    mf_arena_free(&arena);
    return parts;
}

TEST(rows_that_have_nothing_to_do_with_each_other_are_cut)
{
    CHECK(parts_of(" t: f32[16,4] = dot_general[lhs_contract=(1), rhs_contract=(0)] c w\n d: f32[16,4] = add t x\n"
                   " a: f32[16,2] = slice[start=(0,2), limit=(16,4), strides=(1,1)] d\n"
                   " b: f32[16,2,1] = reshape[shape=(16,2,1)] a\n e: f32[16,1,2] = transpose[permutation=(0,2,1)] b\n"
                   " f: f32[16,1] = reduce_max[axes=(2)] e\n g: f32[16,4] = broadcast_in_dim[shape=(16,4), broadcast_dimensions=(0,1)] f\n"
                   " h: f32[16,4] = broadcast_in_dim[shape=(16,4), broadcast_dimensions=()] 2.0:f32[]\n i: f32[16,4] = mul g h\n"
                   " j: f32[16,2] = slice[start=(0,0), limit=(16,2), strides=(1,1)] i\n k: f32[16,4] = concatenate[axis=1] j a\n"
                   " l: f32[16,4] = pad[low=(0,2), high=(0,0), interior=(0,0)] j 0.0:f32[]\n n: f32[16,4] = add k l\n return d, n") == 2);
    const char *const others[] = { /* rows that are summed, transposed, moved, joined, a product's columns, or combined with all rows */
                                   " a: f32[4] = reduce_sum[axes=(0)] c\n"
                                   " d: f32[16,4] = broadcast_in_dim[shape=(16,4), broadcast_dimensions=(1)] a\n return d, x",
                                   " d: f32[16,4] = rev[axes=(0)] c\n return d, x",
                                   " a: f32[4,16] = transpose[permutation=(1,0)] c\n d: f32[16,4] = reshape[shape=(16,4)] a\n return d, x",
                                   " a: f32[8,4] = slice[start=(0,0), limit=(8,4), strides=(1,1)] c\n"
                                   " d: f32[16,4] = concatenate[axis=0] a a\n return d, x",
                                   " a: f32[16,16] = dot_general[lhs_contract=(1), rhs_contract=(1)] c x\n"
                                   " d: f32[16,4] = dot_general[lhs_contract=(1), rhs_contract=(0)] a x\n return d, x",
                                   " d: f32[16,4] = add c m\n return d, x",
                                   " d: f32[16,4] = pad[low=(1,0), high=(-1,0), interior=(0,0)] c 0.0:f32[]\n return d, x",
                                   " d: f32[16,4] = add c x\n return d, m"
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!CHECK(parts_of(others[i]) == 1))
            CHECK_NOTE("case %zu", i);
}

/* h' = x + h W for 16 sequences, in f64 so that the order of summation does not matter; the outputs are h' and the previous h. turned: a
 * sequence's outputs are contiguous. */
static void check_ops(bool reverse, bool turned)
{
    enum { STEPS = 40, ROWS = 16, UNITS = 80 };
    char text[1024];
    snprintf(text, sizeof text,
             "program (w: f64[%d,%d], h: f64[%d,%d], x: f64[%d,%d,%d]) {\n"
             " d: f64[%d,%d], y: f64[%d,%d,%d] = scan[length=%d, consts=1, carry=1, reverse=%s,"
             " body=(w: f64[%d,%d], h: f64[%d,%d], x: f64[%d,%d]) {"
             " t: f64[%d,%d] = dot_general[lhs_contract=(1), rhs_contract=(0)] h w\n d: f64[%d,%d] = add t x\n return d, h }] w h x\n"
             " t: f64[%d,%d,%d] = transpose[permutation=(1,0,2)] y\n return d, %s }",
             UNITS, UNITS, ROWS, UNITS, STEPS, ROWS, UNITS, ROWS, UNITS, STEPS, ROWS, UNITS, STEPS, reverse ? "true" : "false", UNITS,
             UNITS, ROWS, UNITS, ROWS, UNITS, ROWS, UNITS, ROWS, UNITS, ROWS, STEPS, UNITS, turned ? "t" : "y");
    static double w[UNITS][UNITS], h[ROWS][UNITS], x[STEPS][ROWS][UNITS], d[ROWS][UNITS], y[STEPS * ROWS][UNITS], next[ROWS][UNITS];
    for (int i = 0; i < UNITS; i++)
        for (int k = 0; k < UNITS; k++)
            w[i][k] = ((i * 7 + k * 3) % 11 - 5) / 512.0;
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < UNITS; k++) {
            h[r][k] = (r * 5 + k) % 13 - 6;
            for (int n = 0; n < STEPS; n++)
                x[n][r][k] = (n * 3 + r + k) % 7 - 3;
        }
    const void *in[] = { w, h, x };
    void *out[] = { d, y };
    REQUIRE(run(text, in, out));
    for (int n = 0; n < STEPS; n++) {
        int at = reverse ? STEPS - 1 - n : n;
        for (int r = 0; r < ROWS; r++)
            for (int k = 0; k < UNITS; k++) {
                if (!CHECK_NEAR(y[turned ? r * STEPS + at : at * ROWS + r][k], h[r][k], 1e-9 * (1 + fabs(h[r][k]))))
                    return;
                next[r][k] = x[at][r][k];
                for (int i = 0; i < UNITS; i++)
                    next[r][k] += h[r][i] * w[i][k];
            }
        memcpy(h, next, sizeof h);
    }
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < UNITS; k++)
            CHECK(fabs(d[r][k] - h[r][k]) <= 1e-9 * (1 + fabs(h[r][k])));
}

TEST(parts_of_the_rows_run_apart)
{
    for (int i = 0; i < 4; i++)
        check_ops(i & 1, i & 2);
}

/* An inner loop whose rows are cut into parts, in an outer loop: machine code for the outer loop would process one part only. */
TEST(an_outer_loop_of_parts_computes_all_rows)
{
    enum { ROWS = 128, UNITS = 32 };
    static float w[UNITS][UNITS], h[ROWS][UNITS], first[ROWS][UNITS], second[ROWS][UNITS];
    const char *text = "program (w: f32[32,32], h: f32[128,32]) {\n"
                       " c: f32[128,32] = scan[length=50, consts=1, carry=1, body=(w: f32[32,32], h: f32[128,32]) {"
                       " d: f32[128,32] = scan[length=100, consts=1, carry=1, body=(w: f32[32,32], h: f32[128,32]) {"
                       " t: f32[128,32] = dot_general[lhs_contract=(1), rhs_contract=(0)] h w\n u: f32[128,32] = tanh t\n return u }] w h\n"
                       " e: f32[128,32] = neg d\n return e }] w h\n return c }";
    for (int i = 0; i < UNITS; i++)
        for (int k = 0; k < UNITS; k++)
            w[i][k] = (float)((i * 7 + k * 3) % 11 - 5) / 16;
    for (int r = 0; r < ROWS; r++)
        for (int k = 0; k < UNITS; k++)
            h[r][k] = (float)((r * 5 + k) % 13 - 6) / 8;
    const void *in[] = { w, h };
    void *out[] = { first };
    mf_native_tiers = MF_TIERS_FIRST;
    bool ran = run(text, in, out);
    out[0] = second;
    mf_native_tiers = MF_TIERS_LOOPS;
    ran = ran && run(text, in, out);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    REQUIRE(ran);
    CHECK(!memcmp(first, second, sizeof first));
}

/* ---- products that feed a loop */

enum { FED_ROWS = 16, FED_UNITS = 80 };

/* h' = x v + h W for 16 sequences of `steps` steps; `product` computes f from e, and `more` is a further result. */
static void write_fed(char *text, size_t size, int steps, bool reverse, const char *product, const char *state, const char *more)
{
    snprintf(text, size,
             "program (w: f64[80,80], v: f64[80,80], h: f64[16,80], x: f64[16,%d,80]) {\n"
             " e: f64[%d,16,80] = transpose[permutation=(1,0,2)] x\n f: f64[%d,16,80] = %s\n"
             " d: f64[16,80], y: f64[%d,16,80] = scan[length=%d, consts=1, carry=1, reverse=%s,"
             " body=(w: f64[80,80], h: f64[16,80], x: f64[16,80]) {"
             " t: f64[16,80] = dot_general[lhs_contract=(1), rhs_contract=(0)] h w\n u: f64[16,80] = add x t\n d: f64[16,80] = %s\n"
             " return d, h }] w h f\n return d, y%s }",
             steps, steps, steps, product, steps, steps, reverse ? "true" : "false", state, more);
}

/* Whether the product is computed in the iterations of the loop. */
static bool is_fed(int steps, const char *product, const char *state, const char *more)
{
    char text[1024];
    mf_error_object *error = NULL;
    write_fed(text, sizeof text, steps, false, product, state, more);
    mf_program *p = mf_program_parse(text, NULL, &error), *made = p ? mf_feed_loops(p, &error) : NULL;
    if (!CHECK(made))
        return CHECK_NOTE("%s\n%s", mf_error_text(error), text);
    bool found = true;
    for (int i = 0; i < made->eqn_count; i++)
        found = found && made->eqns[i]->op != &mf_op_dot_general;
    mf_drop(made);
    mf_drop(p);
    return found;
}

#define PRODUCT "dot_general[lhs_contract=(2), rhs_contract=(0)] e v"

TEST(a_product_that_feeds_a_loop_is_computed_in_its_rounds)
{
    CHECK(is_fed(1000, PRODUCT, "tanh u", ""));
    CHECK(!is_fed(100, PRODUCT, "tanh u", ""));           /* too few steps */
    CHECK(!is_fed(1000, PRODUCT, "tanh u", ", f"));       /* it has another reader */
    CHECK(!is_fed(1000, PRODUCT, "rev[axes=(0)] u", "")); /* the rows are mixed */
}

TEST(fed_loops_read_their_rows_where_they_lie)
{
    enum { STEPS = 660 };
    static double w[FED_UNITS][FED_UNITS], v[FED_UNITS][FED_UNITS], h[FED_ROWS][FED_UNITS], x[FED_ROWS][STEPS][FED_UNITS];
    static double d[FED_ROWS][FED_UNITS], y[STEPS][FED_ROWS][FED_UNITS], next[FED_ROWS][FED_UNITS];
    for (int reverse = 0; reverse < 2; reverse++) {
        for (int i = 0; i < FED_UNITS; i++)
            for (int k = 0; k < FED_UNITS; k++) {
                w[i][k] = ((i * 7 + k * 3) % 11 - 5) / 512.0;
                v[i][k] = ((i * 5 + k * 2) % 9 - 4) / 16.0;
            }
        for (int r = 0; r < FED_ROWS; r++)
            for (int k = 0; k < FED_UNITS; k++) {
                h[r][k] = (r * 5 + k) % 13 - 6;
                for (int n = 0; n < STEPS; n++)
                    x[r][n][k] = (n * 3 + r + k) % 7 - 3;
            }
        char text[1024];
        const void *in[] = { w, v, h, x };
        void *out[] = { d, y };
        write_fed(text, sizeof text, STEPS, reverse, PRODUCT, "add u u", "");
        REQUIRE(is_fed(STEPS, PRODUCT, "add u u", "") && run(text, in, out));
        for (int n = 0; n < STEPS; n++) {
            int at = reverse ? STEPS - 1 - n : n;
            for (int r = 0; r < FED_ROWS; r++)
                for (int k = 0; k < FED_UNITS; k++) {
                    REQUIRE(CHECK_NEAR(y[at][r][k], h[r][k], 1e-9 * (1 + fabs(h[r][k]))));
                    next[r][k] = 0;
                    for (int i = 0; i < FED_UNITS; i++)
                        next[r][k] += 2 * (x[r][at][i] * v[i][k] + h[r][i] * w[i][k]);
                }
            memcpy(h, next, sizeof h);
        }
        for (int r = 0; r < FED_ROWS; r++)
            for (int k = 0; k < FED_UNITS; k++)
                CHECK(fabs(d[r][k] - h[r][k]) <= 1e-9 * (1 + fabs(h[r][k])));
    }
}
