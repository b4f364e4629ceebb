/* Division by a loop invariant in a compiled loop, compared bit by bit with plain division, over the exponents of both operands and with
 * special values. */
#include "backend/native/llvm/tier_up.h"
#include "check.h"
#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"

#include <math.h>

enum { ROWS = 255, COLUMNS = 96 }; /* one row for each exponent */

static uint32_t next(uint32_t *seed) { return *seed = *seed * 1664525u + 1013904223u; }

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Random mantissas, or mantissas near one end of the range. */
static uint32_t mantissa(uint32_t *seed)
{
    uint32_t m = next(seed) >> 9;
    switch (next(seed) >> 30) {
    case 0: return m & 15;
    case 1: return 0x7ffff0 | (m & 15);
    default: return m;
    }
}

/* One row for each exponent, so that most vectors have only normal numbers; the first row is zero; the last third of each row contains
 * special values. */
static void fill(float x[ROWS][COLUMNS])
{
    static const float special[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-126f, 0x1.fffffep127f };
    uint32_t seed = 1;
    for (uint32_t r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++) {
            x[r][c] = from_bits((next(&seed) & 0x80000000u) | (r ? r << 23 | mantissa(&seed) : 0));
            if (c >= COLUMNS * 2 / 3 && next(&seed) >> 30 == 0)
                x[r][c] = special[next(&seed) >> 29];
        }
}

static mf_kernel *compile(const char *text)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    mf_kernel *kernel = NULL;
    if (!CHECK(p))
        return NULL;
    mf_native_tiers = MF_TIERS_LOOPS;
    error = mf_segment_compiler_native.compile(&mf_segment_compiler_native, p, NULL, &kernel);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    mf_drop(p);
    CHECK(!error);
    return kernel;
}

static void run(mf_kernel *kernel, const float *x, const float *y, float *z)
{
    const void *in[] = { x, y };
    void *out[] = { z }, *scratch = aligned_alloc(64, (kernel->scratch_bytes + 127) / 64 * 64);
    CHECK(!mf_segment_compiler_native.run(kernel, in, out, scratch));
    free(scratch);
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static bool same(float z, float x, float y) { return isnan(x / y) ? isnan(z) : bits_of(z) == bits_of(x / y); }

static void check_ops(float x[ROWS][COLUMNS], float z[ROWS][COLUMNS], const float *y, int step)
{
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLUMNS; c++)
            if (!CHECK(same(z[r][c], x[r][c], y[r * step]))) {
                CHECK_NOTE("%a / %a is not %a", (double)x[r][c], (double)y[r * step], (double)z[r][c]);
                return;
            }
}

static const float odd_divisors[] = { 1,
                                      3,
                                      0.1f,
                                      0.999f,
                                      0x1.fffffep-1f,
                                      0x1.000002p0f,
                                      0x1p-20f,
                                      0x1p20f,
                                      0x1.8p19f,
                                      0x1p-21f,
                                      0x1.fffffep19f,
                                      0x1.fffffep-21f,
                                      -1,
                                      -3,
                                      0,
                                      -0.0f,
                                      INFINITY,
                                      -INFINITY,
                                      NAN,
                                      0x1p-149f,
                                      0x1.8p-140f,
                                      0x1p-126f,
                                      0x1p127f,
                                      -0x1p100f,
                                      0x1p-100f,
                                      0x1.234p60f,
                                      0x1.234p-60f,
                                      7 };

static float divisor(int i, uint32_t *seed)
{
    int count = sizeof odd_divisors / sizeof *odd_divisors;
    return i < count ? odd_divisors[i] : from_bits((127 - 20 + next(seed) % 40) << 23 | mantissa(seed));
}

/* divisors: one, or one for each row. */
static void check_divided(const char *text, int divisors, int rounds)
{
    static float x[ROWS][COLUMNS], z[ROWS][COLUMNS];
    float y[ROWS];
    fill(x);
    mf_kernel *kernel = compile(text);
    REQUIRE(kernel);
    uint32_t seed = 5;
    for (int i = 0; i < rounds; i++) {
        for (int r = 0; r < divisors; r++)
            y[r] = divisor(divisors == 1 ? i : (r + i) % 50, &seed);
        run(kernel, &x[0][0], y, &z[0][0]);
        check_ops(x, z, y, divisors > 1);
    }
    mf_segment_compiler_native.destroy(kernel);
}

TEST(by_one_number)
{
    check_divided("program (x: f32[255,96], y: f32[]) {\n b: f32[255,96] = broadcast_in_dim[shape=(255,96), broadcast_dimensions=()] y\n"
                  " z: f32[255,96] = div x b\n return z }",
                  1, 200);
}

TEST(by_one_a_row)
{
    check_divided("program (x: f32[255,96], y: f32[255]) {\n"
                  " b: f32[255,96] = broadcast_in_dim[shape=(255,96), broadcast_dimensions=(0)] y\n z: f32[255,96] = div x b\n return z }",
                  ROWS, 100);
}

/* As in softmax: division by a reduction of the row. */
TEST(by_the_greatest_of_the_row)
{
    static float x[ROWS][COLUMNS], z[ROWS][COLUMNS];
    float most[ROWS];
    fill(x);
    mf_native_rows_use = MF_ROWS_ALWAYS;
    mf_kernel *kernel = compile("program (x: f32[255,96], y: f32[255,96]) {\n"
                                " s: f32[255] = reduce_max[axes=(1)] y\n"
                                " b: f32[255,96] = broadcast_in_dim[shape=(255,96), broadcast_dimensions=(0)] s\n"
                                " z: f32[255,96] = div x b\n return z }");
    mf_native_rows_use = MF_ROWS_WHERE_IT_PAYS;
    static float y[ROWS][COLUMNS];
    REQUIRE(kernel);
    uint32_t seed = 7;
    for (int i = 0; i < 50; i++) {
        for (int r = 0; r < ROWS; r++) {
            most[r] = divisor((r + i) % 60, &seed);
            for (int c = 0; c < COLUMNS; c++)
                y[r][c] = most[r];
        }
        run(kernel, &x[0][0], &y[0][0], &z[0][0]);
        check_ops(x, z, most, 1);
    }
    mf_segment_compiler_native.destroy(kernel);
}
