/* The native engine, compared with the reference: programs as text are compiled by both; and the promises of the engine alone: donated
 * memory, unaligned operands, the same bits by every path, LLVM loaded only where it pays. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/llvm/tier_up.h"
#include "backend/native/steps/copy_step.h"
#include "check.h"
#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"

#include <link.h>
#include <math.h>
#include <pthread.h>

enum { MOST = 16 };

typedef struct bench {
    mf_program *p;
    void *in[MOST], *out[2][MOST]; /* the operands; the results of the reference, of the native engine */
    mf_kernel *kernel[2];
    int shift;   /* the bytes by which operands and results are misaligned */
    bool coarse; /* floats are multiples of 1/16 */
} bench;

static const mf_segment_compiler *const backends[] = { &mf_segment_compiler_reference, &mf_segment_compiler_native };

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Floats between -2 and 2; small integers of both signs. Sums of up to 2^14 products of coarse floats are exact in f32 in any order, so
 * they do not depend on the code that a machine uses. */
static void fill(const mf_type *t, void *p, uint32_t seed, bool coarse)
{
    int size = mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->size; i++, p = (char *)p + size) {
        uint32_t x = noise(&seed);
        _Alignas(16) unsigned char element[16];
        if (mf_dtype_is_float(t->dtype))
            mf_store_f64(t->dtype, element, coarse ? (x >> 18) / 16.0 - 2 : (double)x / (1 << 22) - 2);
        else
            mf_store_i64(t->dtype, element, t->dtype == MF_BOOL ? x & 1 : (int64_t)(x % 15) - (mf_dtype_is_signed(t->dtype) ? 7 : 0));
        memcpy(p, element, (size_t)size);
    }
}

static void *room(const bench *b, const mf_type *t)
{
    char *p = aligned_alloc(64, ((size_t)t->bytes + 127) / 64 * 64);
    memset(p, 0x5a, (size_t)t->bytes + 64);
    return p + b->shift;
}

static bool begin(bench *b, const char *text, const bool *donatable)
{
    mf_error_object *error = NULL;
    b->p = mf_program_parse(text, NULL, &error);
    if (!CHECK(b->p))
        return CHECK_NOTE("%s", mf_error_text(error));
    for (int i = 0; i < b->p->in_count; i++) {
        b->in[i] = room(b, b->p->in[i]->type);
        fill(b->p->in[i]->type, b->in[i], (uint32_t)i + 1, b->coarse);
    }
    for (int k = 0; k < 2; k++) {
        error = backends[k]->compile(backends[k], b->p, donatable, &b->kernel[k]);
        if (!CHECK(!error))
            return CHECK_NOTE("%s", mf_error_text(error));
        for (int o = 0; o < b->p->out_count; o++)
            b->out[k][o] = room(b, b->p->out[o]->type);
    }
    return true;
}

static void end(bench *b)
{
    if (!b->p)
        return;
    for (int i = 0; i < b->p->in_count; i++)
        free((char *)b->in[i] - b->shift);
    for (int k = 0; k < 2; k++) {
        for (int o = 0; o < b->p->out_count; o++)
            free((char *)b->out[k][o] - b->shift);
        if (b->kernel[k])
            backends[k]->destroy(b->kernel[k]);
    }
    mf_drop(b->p);
}

static bool run(bench *b, int k, void *const *in, void *const *out)
{
    void *scratch = aligned_alloc(64, (b->kernel[k]->scratch_bytes + 127) / 64 * 64);
    memset(scratch, 0xa5, b->kernel[k]->scratch_bytes);
    mf_error_object *error = backends[k]->run(b->kernel[k], (const void *const *)in, out, scratch);
    free(scratch);
    return CHECK(!error) || CHECK_NOTE("%s", mf_error_text(error));
}

static double tolerance_of(mf_dtype d) { return d == MF_F16 ? 2e-3 : d == MF_BF16 ? 2e-2 : d == MF_F32 ? 1e-5 : d == MF_F64 ? 1e-12 : 0; }

static bool near(const mf_type *t, const void *a, const void *e, double scale)
{
    int size = mf_dtype_size(t->dtype);
    for (int64_t i = 0; i < t->size; i++) {
        double x = mf_load_f64(t->dtype, (const char *)a + i * size), y = mf_load_f64(t->dtype, (const char *)e + i * size);
        if (x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= scale * tolerance_of(t->dtype) * fmax(1, fabs(y)))
            continue;
        CHECK(x == y);
        return CHECK_NOTE("element %lld of %s: %.9g, the reference has %.9g", (long long)i, mf_type_name(t), x, y);
    }
    return true;
}

/* Runs both backends on the same operands; scale widens the tolerance. */
static void compare_with(bench b, const char *text, double scale)
{
    if (begin(&b, text, NULL) && run(&b, 0, b.in, b.out[0]) && run(&b, 1, b.in, b.out[1]))
        for (int o = 0; o < b.p->out_count; o++)
            if (!near(b.p->out[o]->type, b.out[1][o], b.out[0][o], scale))
                CHECK_NOTE("result %d of\n%s", o, text);
    end(&b);
}

static void compare_at(const char *text, int shift, double scale) { compare_with((bench){ .shift = shift }, text, scale); }
static void compare_products(const char *text, int shift) { compare_with((bench){ .shift = shift, .coarse = true }, text, 1); }

/* Sums of n products of a number up to 2 and a logarithm up to 2.8 are not exact. Two such sums in different orders differ by at most 2 n u
 * (n 5.6). */
static void compare_sums(const char *text, double n)
{
    compare_with((bench){ .coarse = true }, text, 2 * n * n * 5.6 * 0x1p-24 / tolerance_of(MF_F32));
}

/* Tile kernels and compiled loops give the same bits. */
static void compare_ways(const char *text)
{
    bench tiles = { 0 }, loops = { .shift = 8 };
    mf_native_tiers = MF_TIERS_FIRST;
    bool begun = begin(&tiles, text, NULL);
    mf_native_tiers = MF_TIERS_LOOPS;
    if (begun && begin(&loops, text, NULL) && run(&tiles, 1, tiles.in, tiles.out[1]) && run(&loops, 1, loops.in, loops.out[1]))
        for (int o = 0; o < tiles.p->out_count; o++)
            if (!CHECK_BYTES(loops.out[1][o], tiles.out[1][o], (size_t)tiles.p->out[o]->type->bytes))
                CHECK_NOTE("result %d of\n%s", o, text);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    end(&tiles);
    end(&loops);
}

/* Compares with tile kernels and with compiled loops, aligned and unaligned. */
static void compare(const char *text)
{
    mf_native_tiers = MF_TIERS_FIRST;
    compare_at(text, 0, 1);
    mf_native_tiers = MF_TIERS_LOOPS;
    compare_at(text, 8, 1);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    compare_ways(text);
}

/* ------------------------------------------------------------------ fused chains */

TEST(a_chain)
{
    compare("program (a: f32[5,7], b: f32[5,7]) {\n c: f32[5,7] = add a b\n d: f32[5,7] = tanh c\n e: f32[5,7] = mul d a\n return e, c\n}");
    compare("program (a: f32[3000], b: f32[3000]) {\n c: f32[3000] = exp a\n d: f32[3000] = sub c b\n e: f32[3000] = logistic d\n"
            " return d, e\n}");
    compare("program (a: f64[1000]) {\n c: f64[1000] = exp a\n d: f64[1000] = sin c\n return d\n}");
}

TEST(broadcasts)
{
    compare("program (x: f32[6,10], b: f32[10], s: f32[]) {\n"
            " c: f32[6,10] = broadcast_in_dim[shape=(6,10), broadcast_dimensions=(1)] b\n"
            " d: f32[6,10] = add x c\n e: f32[6,10] = broadcast_in_dim[shape=(6,10)] s\n f: f32[6,10] = mul d e\n"
            " g: f32[6,10] = broadcast_in_dim[shape=(6,10)] 0.0:f32[]\n h: f32[6,10] = max f g\n return h\n}");
    compare("program (x: f32[4,33,17], r: f32[4,17]) {\n"
            " c: f32[4,33,17] = broadcast_in_dim[shape=(4,33,17), broadcast_dimensions=(0,2)] r\n"
            " d: f32[4,33,17] = sub x c\n e: f32[4,33,17] = exp d\n f: f32[132,17] = reshape[shape=(132,17)] e\n"
            " g: f32[132,17] = add f f\n return g, e\n}");
}

TEST(views)
{
    compare("program (x: f32[6,10], y: f32[10,6]) {\n a: f32[6,10] = transpose[permutation=(1,0)] y\n b: f32[6,10] = add x a\n"
            " c: f32[2,4] = slice[start=(1,2), limit=(5,10), strides=(2,2)] b\n d: f32[2,4] = rev[axes=(0,1)] c\n"
            " e: f32[2,4] = mul d c\n f: f32[8] = reshape[shape=(8)] d\n return e, f, a\n}");
    compare("program (x: f32[8,3]) {\n a: f32[4,2,3] = reshape[shape=(4,2,3)] x\n b: f32[2,4,3] = transpose[permutation=(1,0,2)] a\n"
            " c: f32[8,3] = reshape[shape=(8,3)] b\n d: f32[8,3] = add c x\n return d\n}");
    compare("program () {\n a: i32[3,5] = iota[dtype=i32, shape=(3,5), axis=1]\n b: i32[5,3] = transpose[permutation=(1,0)] a\n"
            " c: i32[3,5] = mul a a\n return a, b, c\n}");
}

/* No operand is read. Covers the dtypes in which loops count, and the others. */
TEST(numbers_in_order_of_every_dtype)
{
    static const char *const dtypes[] = { "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64" };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char text[256];
        const char *d = dtypes[i];
        snprintf(text, sizeof text,
                 "program (x: %s[2,50]) {\n a: %s[2,50] = iota[dtype=%s, shape=(2,50), axis=1]\n b: %s[2,50] = add a x\n return a, b\n}", d,
                 d, d, d);
        compare(text);
    }
}

TEST(results_that_are_something_else_too)
{
    compare(
        "program (a: f32[4], b: f32[4]) {\n c: f32[4] = add a b\n d: f32[2,2] = reshape[shape=(2,2)] c\n return a, c, c, d, 3.0:f32[]\n}");
    compare("program (a: f32[4]) {\n return a, a\n}");
}

/* A loaded operand is a result, too, and another result of the same loop overwrites the memory it was loaded from. */
TEST(results_that_are_what_was_loaded)
{
    compare("program (a: f32[3]) {\n b: f32[120,3] = broadcast_in_dim[shape=(120,3), broadcast_dimensions=(1)] a\n"
            " c: f32[360] = reshape[shape=(360)] b\n d: f32[360] = checkpoint_name[name=x] c\n e: f32[360] = tanh d\n"
            " f: f32[3] = slice[start=(134), limit=(137), strides=(1)] e\n g: f32[3] = sin f\n return d, g\n}");
    compare("program (a: f32[3]) {\n b: f32[120,3] = broadcast_in_dim[shape=(120,3), broadcast_dimensions=(1)] a\n"
            " c: f32[360] = reshape[shape=(360)] b\n d: i32[360] = bitcast_convert_type[dtype=i32] c\n e: f32[360] = tanh c\n"
            " f: f32[3] = slice[start=(134), limit=(137), strides=(1)] e\n g: f32[3] = sin f\n return d, g\n}");
    /* one element, rank 0 */
    compare("program (a: f32[]) {\n d: f32[] = checkpoint_name[name=x] a\n e: f32[] = sin d\n return d, e\n}");
    compare("program (a: f32[]) {\n d: i32[] = bitcast_convert_type[dtype=i32] a\n e: f32[] = sin a\n return d, e\n}");
}

/* Copies the text with every $ replaced by the dtype's name. */
static void write_for(char *out, const char *text, const char *name)
{
    for (; *text; text++)
        if (*text == '$')
            out += sprintf(out, "%s", name);
        else
            *out++ = *text;
    *out = 0;
}

TEST(dtypes)
{
    static const char *const names[] = { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[1024];
        write_for(text,
                  "program (a: $[700], b: $[700]) {\n c: $[700] = add a b\n d: $[700] = mul c b\n e: bool[700] = lt d a\n"
                  " f: $[700] = select_n e c d\n g: $[700] = max f a\n h: f32[700] = convert_element_type[dtype=f32] g\n"
                  " k: $[700] = sub g a\n l: $[700] = abs k\n m: $[700] = div c b\n return g, e, h, l, m\n}",
                  names[i]);
        compare(text);
    }
    compare("program (a: f16[700], b: bf16[700]) {\n c: f16[700] = exp a\n d: f16[700] = tanh c\n e: bf16[700] = log1p b\n"
            " f: bf16[700] = mul e e\n return d, f\n}");
    compare("program (a: bool[9], b: bool[9]) {\n c: bool[9] = and a b\n d: bool[9] = xor c a\n e: bool[9] = not d\n return e\n}");
}

/* A constant that comes late in a group of several blocks, and is set in the first block, must still be set in the second. */
TEST(late_constants)
{
    compare(
        "program (a: f32[700]) {\n b: f32[700] = exp2 a\n c: f32[700] = broadcast_in_dim[shape=(700)] 2.0:f32[]\n d: f32[700] = tanh b\n"
        " e: f32[700] = broadcast_in_dim[shape=(700)] 0.5:f32[]\n f: f32[700] = mul c d\n g: f32[700] = add f e\n return g\n}");
    compare("program (a: f32[700], s: f32[]) {\n b: f32[700] = exp2 a\n d: f32[700] = tanh b\n"
            " e: f32[700] = broadcast_in_dim[shape=(700)] s\n f: f32[700] = mul e d\n return f\n}");
}

TEST(empty_arrays)
{
    compare("program (a: f32[0,4], b: f32[3,0]) {\n c: f32[0,4] = exp a\n d: f32[4] = reduce_sum[axes=(0)] a\n"
            " e: f32[3,4] = dot_general[lhs_contract=(1), rhs_contract=(0)] b a\n return c, d, e\n}");
}

/* A group must not include a step that needs its results through another step. */
TEST(no_circles)
{
    compare("program (x: f32[8,8], w: f32[8,8]) {\n a: f32[8,8] = exp x\n s: f32[8] = reduce_sum[axes=(1)] a\n"
            " t: f32[8,8] = broadcast_in_dim[shape=(8,8), broadcast_dimensions=(0)] s\n b: f32[8,8] = div a t\n"
            " c: f32[8,8] = dot_general[lhs_contract=(1), rhs_contract=(0)] b w\n d: f32[8,8] = mul c a\n e: f32[8,8] = add d b\n"
            " f: f32[8,8] = transpose[permutation=(1,0)] a\n g: f32[8,8] = add f e\n return g, b\n}");
}

TEST(functions)
{
    static const char *const names[] = { "exp", "exp2", "expm1", "log",  "log1p", "tanh", "logistic", "erf",  "erf_inv", "sin", "cos",
                                         "tan", "sqrt", "rsqrt", "cbrt", "floor", "ceil", "round",    "sign", "abs",     "neg", "square" };
    static const char *const dtypes[] = { "f32", "f16", "bf16", "f64" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        for (size_t d = 0; d < 4; d++) {
            char text[256];
            snprintf(text, sizeof text, "program (a: %s[300]) {\n b: %s[300] = %s a\n return b\n}", dtypes[d], dtypes[d], names[i]);
            compare(text);
        }
    compare("program (a: f32[300], b: f32[300]) {\n c: f32[300] = pow a b\n d: bool[300] = is_finite c\n e: f32[300] = integer_pow[y=3] a\n"
            " f: f32[300] = min e b\n return c, d, f\n}");
    compare("program (a: i32[300], b: i32[300]) {\n c: i32[300] = rem a b\n d: i32[300] = shift_left a b\n"
            " e: i32[300] = shift_right_arithmetic a b\n f: i32[300] = shift_right_logical a b\n g: i32[300] = xor d e\n"
            " h: i32[300] = sign f\n i: i8[300] = convert_element_type[dtype=i8] g\n k: u16[300] = convert_element_type[dtype=u16] a\n"
            " l: f32[300] = bitcast_convert_type[dtype=f32] g\n return c, g, h, i, k, l\n}");
    /* exact conversions truncate, also zeros of both signs, infinities and NaN; numbers between bf16's are rounded */
    compare_ways("program (a: bf16[300], b: bf16[300]) {\n z: bf16[300] = broadcast_in_dim[shape=(300), broadcast_dimensions=()] 0:bf16[]\n"
                 " c: bf16[300] = add a b\n d: bf16[300] = max c z\n m: bool[300] = gt c z\n e: bf16[300] = neg d\n f: bf16[300] = abs c\n"
                 " g: bf16[300] = select_n m e f\n h: bf16[300] = mul g a\n i: bf16[300] = min h z\n j: bf16[300] = div i d\n"
                 " k: bf16[300] = max j h\n l: bf16[300] = log k\n n: bf16[300] = min l e\n o: bf16[300] = abs n\n"
                 " return d, e, g, i, j, k, n, o\n}");
    compare("program (a: bf16[300], b: bf16[300]) {\n z: bf16[300] = broadcast_in_dim[shape=(300), broadcast_dimensions=()] 0:bf16[]\n"
            " k: bf16[300] = broadcast_in_dim[shape=(300), broadcast_dimensions=()] 0.7:bf16[]\n c: bf16[300] = mul a b\n"
            " d: bf16[300] = max c z\n m: bool[300] = gt c k\n e: bf16[300] = neg d\n g: bf16[300] = select_n m e k\n"
            " h: bf16[300] = min g b\n i: bf16[300] = mul h h\n j: bf16[300] = abs i\n return d, e, g, h, j\n}");
    /* where the functions vary too quickly for the reference: only the ways are compared */
    compare_ways("program (a: f32[300]) {\n s: f32[300] = exp a\n t: f32[300] = exp s\n u: f32[300] = exp t\n c: f32[300] = sin u\n"
                 " i: i32[300] = convert_element_type[dtype=i32] u\n j: u8[300] = convert_element_type[dtype=u8] a\n return c, i, j\n}");
}

/* ------------------------------------------------------------------ steps of their own */

TEST(reductions)
{
    compare("program (x: f32[7,5,9]) {\n a: f32[7,5] = reduce_sum[axes=(2)] x\n b: f32[5,9] = reduce_max[axes=(0)] x\n"
            " c: f32[7,9] = reduce_min[axes=(1)] x\n d: f32[5] = reduce_sum[axes=(0,2)] x\n e: f32[] = reduce_prod[axes=(0,1,2)] x\n"
            " return a, b, c, d, e\n}");
    compare("program (x: f32[40000], y: bf16[9000,3]) {\n a: f32[] = reduce_sum[axes=(0)] x\n b: bf16[3] = reduce_sum[axes=(0)] y\n"
            " return a, b\n}");
    compare("program (x: bool[6,4], y: i32[6,4]) {\n a: bool[4] = reduce_or[axes=(0)] x\n b: bool[6] = reduce_and[axes=(1)] x\n"
            " c: i32[] = reduce_sum[axes=(0,1)] y\n d: i32[6] = argmax[axis=1, index_dtype=i32] y\n return a, b, c, d\n}");
}

/* Reduces columns within each image, then over the images; in f32 if that is the dtype of the computation. */
static void reduce_images(mf_reducer how, mf_dtype dtype, const char *in, char *out, int64_t images, int64_t n, int64_t columns)
{
    mf_dtype computed = mf_dtype_size(dtype) == 2 ? MF_F32 : dtype;
    int64_t size = columns * mf_dtype_size(computed);
    char *made = malloc((size_t)((images + 1) * size)), *result = made + images * size;
    for (int64_t i = 0; i < images; i++)
        mf_reduce_columns(how, dtype, in + i * n * columns * mf_dtype_size(dtype), made + i * size, (size_t)n, (size_t)columns, columns,
                          true);
    mf_reduce_columns(how, computed, made, result, (size_t)images, (size_t)columns, columns, false);
    mf_native_convert(dtype, out, computed, result, columns);
    free(made);
}

/* Cut along the reduced axis: the bits are those of the kernel that reduces the whole array, or image by image. */
TEST(long_reductions_in_pieces)
{
    static const struct {
        const char *dtype, *dims, *axes, *left;
        int64_t rows, n, columns, images;
    } cases[] = { { "f32", "700001", "0", "", 1, 700001, 1, 0 },           { "bf16", "700001", "0", "", 1, 700001, 1, 0 },
                  { "f16", "3,300000", "1", "3", 3, 300000, 1, 0 },        { "i32", "3,300000", "1", "3", 3, 300000, 1, 0 },
                  { "f32", "13000,50", "0", "50", 1, 13000, 50, 0 },       { "bf16", "13000,50", "0", "50", 1, 13000, 50, 0 },
                  { "f32", "130,100,50", "0,1", "50", 1, 13000, 50, 130 }, { "bf16", "1,130,64,9", "0,1,2", "9", 1, 8320, 9, 130 },
                  { "i32", "5,7,40,70", "0,1,2", "70", 1, 1400, 70, 5 },   { "f64", "2,9000,40", "1", "2,40", 2, 9000, 40, 0 },
                  { "u8", "2,9000,40", "1", "2,40", 2, 9000, 40, 0 } };
    static const char *const ops[] = { "sum", "max", "min" };
    static const mf_reducer folds[] = { MF_REDUCE_SUM, MF_REDUCE_MAX, MF_REDUCE_MIN };
    for (size_t i = 0; i < 3 * (sizeof cases / sizeof *cases); i++) {
        char text[256];
        const int k = (int)i / 3;
        snprintf(text, sizeof text, "program (x: %s[%s]) {\n y: %s[%s] = reduce_%s[axes=(%s)] x\n return y\n}", cases[k].dtype,
                 cases[k].dims, cases[k].dtype, cases[k].left, ops[i % 3], cases[k].axes);
        bench b = { 0 };
        if (begin(&b, text, NULL) && run(&b, 1, b.in, b.out[1])) {
            mf_dtype dtype = b.p->in[0]->type->dtype;
            int64_t size = mf_dtype_size(dtype), n = cases[k].n, columns = cases[k].columns;
            for (int64_t r = 0; r < cases[k].rows; r++) {
                const char *in = (char *)b.in[0] + r * n * columns * size;
                char *out = (char *)b.out[0][0] + r * columns * size;
                if (cases[k].images)
                    reduce_images(folds[i % 3], dtype, in, out, cases[k].images, n / cases[k].images, columns);
                else if (columns == 1)
                    mf_reduce_rows(folds[i % 3], dtype, in, out, 1, (size_t)n, 0, false);
                else
                    mf_reduce_columns(folds[i % 3], dtype, in, out, (size_t)n, (size_t)columns, columns, false);
            }
            if (!CHECK_BYTES(b.out[1][0], b.out[0][0], (size_t)b.p->out[0]->type->bytes))
                CHECK_NOTE("%s", text);
        }
        end(&b);
    }
}

/* The summands are products computed on the fly: the bits are those of the products, reduced image by image. */
static void check_sum_of_products(const char *product)
{
    enum { IMAGES = 33, N = 99, COLUMNS = 77 };
    char text[512];
    snprintf(text, sizeof text,
             "program (x: f32[33,9,11,77], y: f32[33,9,11,77]) {\n p: f32[33,9,11,77] = %s\n z: f32[77] = reduce_sum[axes=(0,1,2)] p\n"
             " return z\n}",
             product);
    bench b = { 0 };
    if (begin(&b, text, NULL) && run(&b, 1, b.in, b.out[1])) {
        const float *x = b.in[0], *y = strcmp(product, "square x") == 0 ? x : b.in[1];
        float *products = malloc(sizeof *products * IMAGES * N * COLUMNS), sum[COLUMNS];
        for (int i = 0; i < IMAGES * N * COLUMNS; i++)
            products[i] = x[i] * y[i];
        reduce_images(MF_REDUCE_SUM, MF_F32, (char *)products, (char *)sum, IMAGES, N, COLUMNS);
        CHECK_BYTES(b.out[1][0], sum, sizeof sum);
        CHECK_EQ_INT(b.kernel[1]->work.steps, 1); /* the products are not stored */
        free(products);
    }
    end(&b);
}

TEST(sums_of_products_multiply_as_they_go)
{
    check_sum_of_products("square x");
    check_sum_of_products("mul x y");
    check_sum_of_products("mul y x");
}

TEST(products)
{
    compare("program (a: f32[3,5], b: f32[5,4], c: f32[4,3]) {\n d: f32[3,4] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
            " t: f32[3,4] = transpose[permutation=(1,0)] c\n e: f32[3,3] = dot_general[lhs_contract=(1), rhs_contract=(1)] d t\n"
            " return d, e\n}");
    compare("program (a: f32[2,3,4], b: f32[2,4,5]) {\n d: f32[2,3,5] = dot_general[lhs_contract=(2), rhs_contract=(1), lhs_batch=(0),"
            " rhs_batch=(0)] a b\n e: f32[2,4] = reduce_sum[axes=(1)] a\n return d, e\n}");
    compare(
        "program (a: f32[4,3,2], b: f32[2,3,5]) {\n d: f32[4,5] = dot_general[lhs_contract=(1,2), rhs_contract=(1,0)] a b\n return d\n}");
    compare("program (a: f32[4,3,2,5], b: f32[3,4,2,5]) {\n"
            " d: f32[2,3,3] = dot_general[lhs_contract=(0,3), rhs_contract=(1,3), lhs_batch=(2), rhs_batch=(2)] a b\n return d\n}");
    compare("program (a: bf16[4,3,5], b: bf16[5,4,2]) {\n d: bf16[3,2] = dot_general[lhs_contract=(2,0), rhs_contract=(0,1)] a b\n"
            " return d\n}");
    compare("program (a: bf16[8,9], b: bf16[9,7], c: f64[8,9], d: f64[9]) {\n"
            " e: bf16[8,7] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
            " f: f32[8,7] = dot_general[lhs_contract=(1), rhs_contract=(0), preferred=f32] a b\n"
            " g: f64[8] = dot_general[lhs_contract=(1), rhs_contract=(0)] c d\n return e, f, g\n}");
    compare_products(
        "program (a: f32[200,300], b: f32[300,100]) {\n d: f32[200,100] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n return d\n}",
        0);
}

/* Batches that are cut into tasks: of tiny, small and large products; the last task of large ones is smaller. */
TEST(batches_of_products)
{
    compare_products(
        "program (a: f32[9001,3,3], b: f32[9001,3,3], c: f32[9001,3,2], d: f64[9001,4,3], e: f64[9001,4,4]) {\n"
        " f: f32[9001,3,3] = dot_general[lhs_contract=(2), rhs_contract=(1), lhs_batch=(0), rhs_batch=(0)] a b\n"
        " g: f32[9001,3,2] = dot_general[lhs_contract=(1), rhs_contract=(1), lhs_batch=(0), rhs_batch=(0)] a c\n"
        " h: f64[9001,3,4] = dot_general[lhs_contract=(1), rhs_contract=(2), lhs_batch=(0), rhs_batch=(0)] d e\n return f, g, h\n}",
        0);
    compare_products(
        "program (a: f32[5,17,20,30], b: f32[17,5,30,21]) {\n"
        " d: f32[5,17,20,21] = dot_general[lhs_contract=(3), rhs_contract=(2), lhs_batch=(0,1), rhs_batch=(1,0)] a b\n return d\n}",
        0);
    compare_products(
        "program (a: f32[1,23,128,128], b: f32[23,1,128,128]) {\n"
        " d: f32[1,23,128,128] = dot_general[lhs_contract=(3), rhs_contract=(2), lhs_batch=(0,1), rhs_batch=(1,0)] a b\n return d\n}",
        0);
}

/* Cut along rows, columns and the batch, with a smaller last task; with results of both dtypes; with transposed operands and results; with
 * NaN and infinity. */
TEST(products_of_bf16)
{
    compare_products("program (a: bf16[600,610], b: bf16[610,100]) {\n"
                     " d: bf16[600,100] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
                     " e: f32[600,100] = dot_general[lhs_contract=(1), rhs_contract=(0), preferred=f32] a b\n return d, e\n}",
                     0);
    compare_products(
        "program (a: bf16[1000,40], b: bf16[900,1000]) {\n d: bf16[40,900] = dot_general[lhs_contract=(0), rhs_contract=(1)] a b\n"
        " t: bf16[900,40] = transpose[permutation=(1,0)] d\n return t\n}",
        2);
    compare_products(
        "program (a: bf16[7,130,300], b: bf16[300,7,140], c: bf16[130,300]) {\n"
        " d: f32[7,130,140] = dot_general[lhs_contract=(2), rhs_contract=(0), lhs_batch=(0), rhs_batch=(1), preferred=f32] a b\n"
        " r: bf16[7,130,300] = broadcast_in_dim[shape=(7,130,300), broadcast_dimensions=(1,2)] c\n"
        " e: bf16[7,130,140] = dot_general[lhs_contract=(2), rhs_contract=(0), lhs_batch=(0), rhs_batch=(1)] r b\n return d, e\n}",
        0);
    compare_products(
        "program (v: bf16[200,300], b: bf16[300,100]) {\n z: bf16[200,300] = broadcast_in_dim[shape=(200,300),"
        " broadcast_dimensions=()] 0:bf16[]\n k: bf16[200,300] = broadcast_in_dim[shape=(200,300), broadcast_dimensions=()] 1.9375:bf16[]\n"
        " s: bf16[200,300] = max v z\n h: bool[200,300] = ge v k\n i: bf16[200,300] = div s z\n a: bf16[200,300] = select_n h s i\n"
        " d: bf16[200,100] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n return d\n}",
        0);
}

/* The rows of a consist of several contiguous runs: many short ones, few long ones, too short ones; small products, with a smaller last
 * piece, in every dtype; and all products of a batch share b. */
TEST(products_of_runs)
{
    static const struct runs {
        const char *dtype;
        int dims[2], depth, columns;
    } rows[] = { { "f32", { 5, 70 }, 33, 40 },   { "f32", { 70, 5 }, 33, 40 },    { "f32", { 6, 9 }, 33, 40 },
                 { "f32", { 70, 200 }, 33, 40 }, { "f32", { 4, 300 }, 64, 128 },  { "f32", { 300, 4 }, 64, 128 },
                 { "f64", { 4, 300 }, 64, 64 },  { "bf16", { 300, 4 }, 64, 128 }, { "bf16", { 3, 520 }, 200, 300 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct runs *r = &rows[i];
        char text[512];
        snprintf(text, sizeof text,
                 "program (a: %s[%d,%d,%d], w: %s[%d,%d]) {\n t: %s[%d,%d,%d] = transpose[permutation=(1,0,2)] a\n"
                 " d: %s[%d,%d,%d] = dot_general[lhs_contract=(2), rhs_contract=(0)] t w\n return d\n}",
                 r->dtype, r->dims[0], r->dims[1], r->depth, r->dtype, r->depth, r->columns, r->dtype, r->dims[1], r->dims[0], r->depth,
                 r->dtype, r->dims[1], r->dims[0], r->columns);
        compare_products(text, 0);
    }
    compare_products("program (a: f32[6,200,64], w: f32[64,128]) {\n b: f32[6,64,128] = broadcast_in_dim[shape=(6,64,128),"
                     " broadcast_dimensions=(1,2)] w\n"
                     " d: f32[6,200,128] = dot_general[lhs_contract=(2), rhs_contract=(1), lhs_batch=(0), rhs_batch=(0)] a b\n return d\n}",
                     0);
    compare_products("program (a: f32[5,70,64], w: f32[64,128]) {\n t: f32[70,5,64] = transpose[permutation=(1,0,2)] a\n"
                     " d: f32[70,5,128] = dot_general[lhs_contract=(2), rhs_contract=(0)] t w\n"
                     " u: f32[128,70,5] = transpose[permutation=(2,0,1)] d\n return u\n}",
                     0);
}

/* A product is written transposed if nothing else reads it: rows and columns swapped, batches moved, both, neither possible, two
 * readers. */
TEST(transposed_products)
{
    compare("program (a: f32[7,5], b: f32[5,9]) {\n d: f32[7,9] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
            " t: f32[9,7] = transpose[permutation=(1,0)] d\n return t\n}");
    compare("program (a: f32[2,3,5,4], b: f32[2,3,6,4]) {\n"
            " d: f32[2,3,5,6] = dot_general[lhs_contract=(3), rhs_contract=(3), lhs_batch=(0,1), rhs_batch=(0,1)] a b\n"
            " t: f32[2,5,3,6] = transpose[permutation=(0,2,1,3)] d\n u: f32[10,18] = reshape[shape=(10,18)] t\n return u\n}");
    compare("program (a: f32[2,3,5,4], b: f32[2,3,6,4]) {\n"
            " d: f32[2,3,5,6] = dot_general[lhs_contract=(3), rhs_contract=(3), lhs_batch=(0,1), rhs_batch=(0,1)] a b\n"
            " t: f32[3,6,2,5] = transpose[permutation=(1,3,0,2)] d\n return t\n}");
    compare("program (a: f32[3,5,4], b: f32[3,6,4]) {\n"
            " d: f32[3,5,6] = dot_general[lhs_contract=(2), rhs_contract=(2), lhs_batch=(0), rhs_batch=(0)] a b\n"
            " t: f32[5,6,3] = transpose[permutation=(1,2,0)] d\n return t\n}");
    compare(
        "program (a: f32[3,5,4], b: f32[4,6,2]) {\n d: f32[3,5,6,2] = dot_general[lhs_contract=(2), rhs_contract=(0)] a b\n"
        " t: f32[6,2,3,5] = transpose[permutation=(2,3,0,1)] d\n e: f32[3,5,6,2] = dot_general[lhs_contract=(2), rhs_contract=(0)] a b\n"
        " u: f32[5,3,6,2] = transpose[permutation=(1,0,2,3)] e\n return t, u\n}");
    compare("program (a: f32[7,5], b: f32[5,9]) {\n d: f32[7,9] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
            " t: f32[9,7] = transpose[permutation=(1,0)] d\n s: f32[7] = reduce_sum[axes=(1)] d\n return t, s\n}");
    compare("program (a: bf16[7,5], b: bf16[5,9]) {\n d: bf16[7,9] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
            " t: bf16[9,7] = transpose[permutation=(1,0)] d\n return t\n}");
    compare_products(
        "program (a: f32[200,300], b: f32[300,100]) {\n d: f32[200,100] = dot_general[lhs_contract=(1), rhs_contract=(0)] a b\n"
        " t: f32[100,200] = transpose[permutation=(1,0)] d\n return t\n}",
        0);
}

#define SPECS "lhs_spec=(0,3,1,2), rhs_spec=(3,2,0,1), out_spec=(0,3,1,2), feature_group_count=1, batch_group_count=1"

TEST(convolutions)
{
    compare_products("program (x: f32[2,9,8,3], w: f32[3,3,3,4]) {\n y: f32[2,9,8,4] = conv_general_dilated[window_strides=(1,1),"
                     " padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1), rhs_dilation=(1,1), " SPECS "] x w\n return y\n}",
                     0);
    compare_products("program (x: f32[2,9,8,3], w: f32[3,3,3,4]) {\n y: f32[2,4,3,4] = conv_general_dilated[window_strides=(2,2),"
                     " padding_low=(0,0), padding_high=(0,0), lhs_dilation=(1,1), rhs_dilation=(1,1), " SPECS "] x w\n return y\n}",
                     4);
    /* gradient by the operand: stride 2, then stride 1 */
    compare_products(
        "program (g: f32[2,4,3,4], w: f32[3,3,3,4]) {\n r: f32[3,3,3,4] = rev[axes=(0,1)] w\n"
        " y: f32[2,9,8,3] = conv_general_dilated[window_strides=(1,1), padding_low=(2,2), padding_high=(2,3), lhs_dilation=(2,2),"
        " rhs_dilation=(1,1), lhs_spec=(0,3,1,2), rhs_spec=(2,3,0,1), out_spec=(0,3,1,2), feature_group_count=1,"
        " batch_group_count=1] g r\n return y\n}",
        0);
    compare_products(
        "program (g: f32[2,9,8,4], w: f32[3,3,3,4]) {\n r: f32[3,3,3,4] = rev[axes=(0,1)] w\n"
        " y: f32[2,9,8,3] = conv_general_dilated[window_strides=(1,1), padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1),"
        " rhs_dilation=(1,1), lhs_spec=(0,3,1,2), rhs_spec=(2,3,0,1), out_spec=(0,3,1,2), feature_group_count=1,"
        " batch_group_count=1] g r\n return y, r\n}",
        0);
    /* transposed convolutions, whose kernel is not reversed */
    static const char *const types[] = { "f32", "bf16", "f16" };
    for (int i = 0; i < 3; i++) {
        char text[1024];
        write_for(text,
                  "program (x: $[2,4,3,4], w: $[3,2,4,5]) {\n"
                  " y: $[2,9,8,5] = conv_general_dilated[window_strides=(1,1), padding_low=(2,1), padding_high=(2,3), lhs_dilation=(2,2),"
                  " rhs_dilation=(1,1), " SPECS "] x w\n"
                  " z: $[2,11,6,5] = conv_general_dilated[window_strides=(1,1), padding_low=(3,0), padding_high=(2,0), lhs_dilation=(3,3),"
                  " rhs_dilation=(2,1), " SPECS "] x w\n return y, z, w\n}",
                  types[i]);
        compare_products(text, 0);
    }
    /* gradient by the kernel: the forward stride becomes a dilation */
    compare_products(
        "program (x: f32[2,9,8,3], g: f32[2,4,3,4]) {\n"
        " y: f32[3,3,3,4] = conv_general_dilated[window_strides=(1,1), padding_low=(0,0), padding_high=(0,-1), lhs_dilation=(1,1),"
        " rhs_dilation=(2,2), lhs_spec=(3,0,1,2), rhs_spec=(3,0,1,2), out_spec=(2,3,0,1), feature_group_count=1,"
        " batch_group_count=1] x g\n return y\n}",
        0);
    compare_products("program (x: bf16[2,5,5,3], w: bf16[3,3,3,4]) {\n y: bf16[2,5,5,4] = conv_general_dilated[window_strides=(1,1),"
                     " padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1), rhs_dilation=(1,1), " SPECS "] x w\n return y\n}",
                     0);
}

/* The zeros that a gradient's padding and dilation add count if the kernel is not finite: in both gradients, and in a batch. */
TEST(zeros_of_convolutions_count)
{
    compare_sums("program (g: f32[2,4,3,4], v: f32[3,3,3,4]) {\n a: f32[3,3,3,4] = log v\n w: f32[3,3,3,4] = copy a\n"
                 " r: f32[3,3,3,4] = rev[axes=(0,1)] w\n"
                 " y: f32[2,9,8,3] = conv_general_dilated[window_strides=(1,1), padding_low=(2,2), padding_high=(2,3), lhs_dilation=(2,2),"
                 " rhs_dilation=(1,1), lhs_spec=(0,3,1,2), rhs_spec=(2,3,0,1), out_spec=(0,3,1,2), feature_group_count=1,"
                 " batch_group_count=1] g r\n return y\n}",
                 36);
    compare_sums("program (x: f32[2,4,3,4], v: f32[3,3,4,5]) {\n w: f32[3,3,4,5] = log v\n"
                 " y: f32[2,9,8,5] = conv_general_dilated[window_strides=(1,1), padding_low=(2,2), padding_high=(2,3), lhs_dilation=(2,2),"
                 " rhs_dilation=(1,1), " SPECS "] x w\n return y\n}",
                 36);
    compare_sums(
        "program (x: f32[2,9,8,3], v: f32[2,9,8,5]) {\n a: f32[2,9,8,5] = mul v v\n b: f32[2,9,8,5] = neg a\n"
        " k: f32[2,9,8,5] = broadcast_in_dim[shape=(2,9,8,5), broadcast_dimensions=()] 3.9:f32[]\n c: f32[2,9,8,5] = add b k\n g: f32[2,9,8,5] = log c\n"
        " y: f32[3,3,3,5] = conv_general_dilated[window_strides=(1,1), padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1),"
        " rhs_dilation=(1,1), lhs_spec=(3,0,1,2), rhs_spec=(3,0,1,2), out_spec=(2,3,0,1), feature_group_count=1,"
        " batch_group_count=1] x g\n return y\n}",
        144);
    static const char *const types[] = { "f32", "bf16", "f16" };
    for (int i = 0; i < 3; i++) {
        char text[1024];
        write_for(
            text,
            "program (x: $[40,6,6,3], v: $[3,3,3,40]) {\n a: $[3,3,3,40] = mul v v\n b: $[3,3,3,40] = neg a\n"
            " k: $[3,3,3,40] = broadcast_in_dim[shape=(3,3,3,40), broadcast_dimensions=()] 3.9375:$[]\n c: $[3,3,3,40] = add b k\n w: $[3,3,3,40] = log c\n"
            " y: $[40,6,6,40] = conv_general_dilated[window_strides=(1,1), padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1),"
            " rhs_dilation=(1,1), lhs_spec=(0,3,1,2), rhs_spec=(3,2,0,1), out_spec=(0,3,1,2), feature_group_count=1,"
            " batch_group_count=1] x w\n return y\n}",
            types[i]);
        compare_sums(text, 27);
    }
}

/* Large enough to be cut into tasks. */
TEST(large_convolutions)
{
    static const char *const types[] = { "f32", "bf16", "f16" };
    for (int i = 0; i < 3; i++) {
        char text[2048];
        write_for(text,
                  "program (x: $[20,16,16,32], w: $[3,3,32,64], g: $[20,16,16,64]) {\n"
                  " y: $[20,16,16,64] = conv_general_dilated[window_strides=(1,1), padding_low=(1,1), padding_high=(1,1),"
                  " lhs_dilation=(1,1), rhs_dilation=(1,1), " SPECS "] x w\n"
                  " d: $[3,3,32,64] = conv_general_dilated[window_strides=(1,1), padding_low=(1,1), padding_high=(1,1),"
                  " lhs_dilation=(1,1), rhs_dilation=(1,1), lhs_spec=(3,0,1,2), rhs_spec=(3,0,1,2), out_spec=(2,3,0,1),"
                  " feature_group_count=1, batch_group_count=1] x g\n"
                  " r: $[3,3,32,64] = rev[axes=(0,1)] w\n"
                  " u: $[20,16,16,32] = conv_general_dilated[window_strides=(1,1), padding_low=(1,1), padding_high=(1,1),"
                  " lhs_dilation=(1,1), rhs_dilation=(1,1), lhs_spec=(0,3,1,2), rhs_spec=(2,3,0,1), out_spec=(0,3,1,2),"
                  " feature_group_count=1, batch_group_count=1] g r\n return y, d, u\n}",
                  types[i]);
        compare_products(text, 0);
    }
}

/* Winograd convolutions with single infinities: these reach only the results that they contribute to. Forward, by the operand and by the
 * kernel; some images have none. */
TEST(infinities_in_tiles)
{
    static const char infinite[] = " z: f32[3,12,10,16] = broadcast_in_dim[shape=(3,12,10,16), broadcast_dimensions=()] 0:f32[]\n"
                                   " k: f32[3,12,10,16] = broadcast_in_dim[shape=(3,12,10,16), broadcast_dimensions=()] 1.9375:f32[]\n"
                                   " h: bool[3,12,10,16] = ge v k\n i: f32[3,12,10,16] = div k z\n x: f32[3,12,10,16] = select_n h v i\n"
                                   " n: f32[3,12,10,16] = copy x\n";
    char text[2048];
#define AROUND " padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1), rhs_dilation=(1,1), "
    snprintf(text, sizeof text,
             "program (v: f32[3,12,10,16], w: f32[3,3,16,32], u: f32[3,3,48,16], g: f32[3,12,10,32]) {\n%s"
             " y: f32[3,12,10,32] = conv_general_dilated[window_strides=(1,1)," AROUND SPECS "] n w\n"
             " r: f32[3,3,48,16] = rev[axes=(0,1)] u\n"
             " b: f32[3,12,10,48] = conv_general_dilated[window_strides=(1,1)," AROUND
             "lhs_spec=(0,3,1,2), rhs_spec=(2,3,0,1), out_spec=(0,3,1,2), feature_group_count=1, batch_group_count=1] n r\n"
             " d: f32[3,3,16,32] = conv_general_dilated[window_strides=(1,1)," AROUND
             "lhs_spec=(3,0,1,2), rhs_spec=(3,0,1,2), out_spec=(2,3,0,1), feature_group_count=1, batch_group_count=1] n g\n"
             " return y, b, d\n}",
             infinite);
    compare_products(text, 0);
    compare_products(text, 4);
#undef AROUND
}

TEST(pools)
{
    compare("program (x: f32[2,8,6,5]) {\n y: f32[2,4,3,5] = reduce_window_max[window=(1,2,2,1), strides=(1,2,2,1), padding_low=(0,0,0,0),"
            " padding_high=(0,0,0,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] x\n"
            " z: f32[2,8,6,5] = select_and_scatter_add[window=(1,2,2,1), strides=(1,2,2,1), padding_low=(0,0,0,0),"
            " padding_high=(0,0,0,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] y x\n"
            " w: f32[2,8,6,5] = reduce_window_sum[window=(1,3,3,1), strides=(1,1,1,1), padding_low=(0,1,1,0),"
            " padding_high=(0,1,1,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] x\n return y, z, w\n}");
}

/* ------------------------------------------------------------------ promises of the engine */

TEST(donated_operands_are_written_over)
{
    const char *text =
        "program (p: f32[1000], g: f32[1000], s: f32[]) {\n b: f32[1000] = broadcast_in_dim[shape=(1000)] s\n a: f32[1000] = mul g b\n"
        " c: f32[1000] = sub p a\n d: f32[1000] = mul c p\n return c, d\n}";
    bench b = { 0 };
    bool donatable[] = { true, true, false };
    if (begin(&b, text, donatable) && run(&b, 0, b.in, b.out[0])) {
        const int *alias = b.kernel[1]->alias;
        void *out[2] = { b.out[1][0], b.out[1][1] };
        CHECK(alias[0] >= 0 && alias[1] >= 0 && alias[0] != alias[1]);
        for (int o = 0; o < 2; o++)
            if (alias[o] >= 0)
                out[o] = b.in[alias[o]];
        if (run(&b, 1, b.in, out))
            for (int o = 0; o < 2; o++)
                near(b.p->out[o]->type, out[o], b.out[0][o], 1);
    }
    end(&b);
}

/* The same elements in one array and cut into several give the same bits. */
/* Result 0 may use the operand's memory; result 1 is the operand, unchanged. */
TEST(a_donated_operand_that_is_a_result_too)
{
    bench b = { 0 };
    mf_native_tiers = MF_TIERS_FIRST;
    if (begin(&b, "program (a: f32[700]) {\n b: f32[700] = tanh a\n c: f32[700] = checkpoint_name[name=x] a\n return b, c\n}",
              (const bool[]){ true })) {
        int aliased = 0;
        void *out[2];
        for (int o = 0; o < 2; o++) {
            bool same = b.kernel[1]->alias && b.kernel[1]->alias[o] == 0;
            out[o] = same ? b.in[0] : b.out[1][o];
            aliased += same;
        }
        CHECK(aliased <= 1);
        CHECK(run(&b, 0, b.in, b.out[0]) && run(&b, 1, b.in, out));
        for (int o = 0; o < 2; o++)
            CHECK(near(b.p->out[o]->type, out[o], b.out[0][o], 1));
    }
    mf_native_tiers = MF_TIERS_AS_ASKED;
    end(&b);
}

TEST(bits_do_not_depend_on_the_size)
{
    bench whole = { 0 }, part = { .shift = 4 };
    if (begin(&whole,
              "program (a: f32[200000]) {\n b: f32[200000] = exp a\n c: f32[200000] = tanh b\n d: f32[200000] = sin a\n"
              " e: f32[200000] = mul c d\n f: f32[200000] = log1p b\n g: f32[200000] = add e f\n return g\n}",
              NULL) &&
        begin(&part,
              "program (a: f32[37]) {\n b: f32[37] = exp a\n c: f32[37] = tanh b\n d: f32[37] = sin a\n"
              " e: f32[37] = mul c d\n f: f32[37] = log1p b\n g: f32[37] = add e f\n return g\n}",
              NULL) &&
        run(&whole, 1, whole.in, whole.out[1]))
        for (int at = 0; at + 37 <= 200000; at += 4001) {
            memcpy(part.in[0], (float *)whole.in[0] + at, 37 * sizeof(float));
            if (!run(&part, 1, part.in, part.out[1]) || !CHECK_BYTES(part.out[1][0], (float *)whole.out[1][0] + at, 37 * sizeof(float)))
                break;
        }
    end(&whole);
    end(&part);
}

TEST(sums_over_members)
{
    float in[8][100], expected[2][100], got[100];
    const void *pointers[8];
    uint32_t state = 7;
    for (int m = 0; m < 8; m++) {
        pointers[m] = in[m];
        for (int i = 0; i < 100; i++)
            in[m][i] = (float)noise(&state) / 1000;
    }
    for (mf_reducer how = MF_REDUCE_SUM; how <= MF_REDUCE_MIN; how++) {
        mf_segment_compiler_reference.reduce(how, MF_F32, pointers, 8, expected[0], 100, 0, 100);
        mf_segment_compiler_native.reduce(how, MF_F32, pointers, 8, got, 100, 0, 37);
        mf_segment_compiler_native.reduce(how, MF_F32, pointers, 8, got, 100, 37, 100);
        CHECK_BYTES(got, expected[0], sizeof got);
    }
}

/* One kernel on several threads at the same time, each with its own scratch memory and results. */
typedef struct runner {
    bench *b;
    pthread_t thread;
    void *out[2], *scratch;
    bool fine;
} runner;

static void *run_often(void *context)
{
    runner *r = context;
    r->fine = true;
    for (int i = 0; i < 50 && r->fine; i++) {
        mf_error_object *error = mf_segment_compiler_native.run(r->b->kernel[1], (const void *const *)r->b->in, r->out, r->scratch);
        r->fine = !error && !memcmp(r->out[0], r->b->out[1][0], (size_t)r->b->p->out[0]->type->bytes) &&
                  !memcmp(r->out[1], r->b->out[1][1], (size_t)r->b->p->out[1]->type->bytes);
    }
    return NULL;
}

TEST(threads_share_a_kernel)
{
    bench b = { 0 };
    runner runners[4] = { { .b = &b }, { .b = &b }, { .b = &b }, { .b = &b } };
    if (begin(&b,
              "program (x: f32[2,9,8,3], w: f32[3,3,3,4], a: f32[5,5000]) {\n y: f32[2,9,8,4] = conv_general_dilated[window_strides=(1,1),"
              " padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1), rhs_dilation=(1,1), " SPECS "] x w\n"
              " c: f32[5,5000] = exp a\n d: f32[5,5000] = tanh c\n e: f32[5000] = reduce_sum[axes=(0)] d\n return y, e\n}",
              NULL) &&
        run(&b, 1, b.in, b.out[1])) {
        for (int i = 0; i < 4; i++) {
            runners[i].out[0] = room(&b, b.p->out[0]->type);
            runners[i].out[1] = room(&b, b.p->out[1]->type);
            runners[i].scratch = aligned_alloc(64, (b.kernel[1]->scratch_bytes + 127) / 64 * 64);
            pthread_create(&runners[i].thread, NULL, run_often, &runners[i]);
        }
        for (int i = 0; i < 4; i++) {
            pthread_join(runners[i].thread, NULL);
            CHECK(runners[i].fine);
            free(runners[i].out[0]);
            free(runners[i].out[1]);
            free(runners[i].scratch);
        }
    }
    end(&b);
}

/* Operands of a collective: numbers that need rounding, both zeros and, for extrema, NaN of both signs. */
static void fill_member(mf_dtype dtype, bool extremum, void *p, int count, uint32_t *state)
{
    for (int i = 0; i < count; i++) {
        uint32_t x = noise(state);
        void *at = (char *)p + i * mf_dtype_size(dtype);
        if (mf_dtype_is_int(dtype))
            mf_store_i64(dtype, at, (int64_t)x * x);
        else if (x % 4 == 0)
            mf_store_f64(dtype, at, x & 64 ? 0.0 : -0.0);
        else if (extremum && x % 32 == 1)
            mf_store_f64(dtype, at, x & 64 ? NAN : -NAN);
        else
            mf_store_f64(dtype, at, (double)x / 3e5 - 20);
    }
}

TEST(both_backends_reduce_over_members_to_the_same_bits)
{
    enum { MEMBERS = 9, N = 5003, LARGE = 1 << 25 };
    static const mf_dtype dtypes[] = { MF_F32, MF_F64, MF_F16, MF_BF16, MF_I32, MF_I8, MF_U64 };
    static double x[MEMBERS][N], out[2][N];
    const void *in[MEMBERS];
    uint32_t state = 5;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (mf_reducer how = MF_REDUCE_SUM; how <= MF_REDUCE_MIN; how++)
            for (int n = 1; n <= MEMBERS; n++) {
                for (int i = 0; i < n; i++)
                    fill_member(dtypes[d], how >= MF_REDUCE_MAX, x[i], N, &state);
                for (int i = 0; i < n; i++)
                    in[i] = x[i];
                for (int k = 0; k < 2; k++) { /* cut at different places, and with non-temporal stores */
                    backends[k]->reduce(how, dtypes[d], in, n, out[k], N, 0, k ? 1001 : N);
                    if (k)
                        backends[k]->reduce(how, dtypes[d], in, n, out[k], LARGE, 1001, N);
                }
                if (!CHECK_BYTES(out[1], out[0], (size_t)(N * mf_dtype_size(dtypes[d]))))
                    CHECK_NOTE("%s, reducer %d, %d members", mf_dtype_name(dtypes[d]), how, n);
            }
}

static int find_llvm(struct dl_phdr_info *info, size_t size, void *found)
{
    (void)size;
    *(bool *)found |= info->dlpi_name && strstr(info->dlpi_name, "libLLVM") != NULL;
    return 0;
}

static bool llvm_is_loaded(void)
{
    bool found = false;
    dl_iterate_phdr(find_llvm, &found);
    return found;
}

/* Set before all tests, because later ones may load LLVM. */
static bool loaded_by_tiny;
__attribute__((constructor)) static void try_tiny(void)
{
    bench b = { 0 };
    if (begin(&b, "program (a: f32[4]) {\n b: f32[4] = square a\n return b\n}", NULL) || b.p)
        loaded_by_tiny = llvm_is_loaded();
    end(&b);
}

TEST(tiny_programs_need_no_llvm)
{
    CHECK(!loaded_by_tiny);
    mf_native_tiers = MF_TIERS_LOOPS;
    compare_at("program (a: f32[4]) {\n b: f32[4] = square a\n return b\n}", 0, 1);
    mf_native_tiers = MF_TIERS_AS_ASKED;
    CHECK(llvm_is_loaded());
}
