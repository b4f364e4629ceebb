/* Ops with their own kernels in the engine, at sizes that are cut into tasks and blocks, and at odd sizes: the same bits as the reference
 * for every dtype, also with operands that are views or held once. NaN payloads may differ. */
#include "check.h"
#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"

#include <math.h>

enum { MOST = 16 };

static const mf_segment_compiler *const backends[] = { &mf_segment_compiler_reference, &mf_segment_compiler_native };

static uint32_t noise(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Few different values, so that there are ties; floats include zeros of both signs, infinities and NaN, integers the ends of their
 * range. */
static void fill(const mf_type *t, char *p, uint32_t seed)
{
    int size = mf_dtype_size(t->dtype), part = mf_dtype_is_complex(t->dtype) ? size / 2 : size;
    mf_dtype dtype = t->dtype == MF_C64 ? MF_F32 : t->dtype == MF_C128 ? MF_F64 : t->dtype;
    for (int64_t i = 0; i < t->size * (size / part); i++, p += part) {
        uint32_t x = noise(&seed), kind = x % 64;
        _Alignas(16) unsigned char element[16];
        if (mf_dtype_is_float(dtype))
            mf_store_f64(dtype, element,
                         kind == 0   ? -0.0
                         : kind == 1 ? 0.0
                         : kind == 2 ? (double)NAN
                         : kind == 3 ? (double)INFINITY
                                     : (double)(x >> 6) / (1 << 16) - 2);
        else if (kind < 2)
            memset(element, kind ? 0xff : 0x80, sizeof element);
        else
            mf_store_i64(dtype, element, (int64_t)(x >> 6) % 23 - (mf_dtype_is_signed(dtype) ? 11 : 0));
        if (dtype == MF_BOOL)
            element[0] &= 1;
        memcpy(p, element, (size_t)part);
    }
}

/* Fills an index operand with numbers in and around the range of an axis of this length. */
static void fill_indices(const mf_type *t, char *p, int64_t length, uint32_t seed)
{
    for (int64_t i = 0; i < t->size; i++)
        mf_store_i64(t->dtype, p + i * mf_dtype_size(t->dtype), (int64_t)(noise(&seed) % (uint32_t)(length + 3)) - 1);
}

static bool same(const mf_type *t, const char *a, const char *e, const char *text)
{
    bool complex = mf_dtype_is_complex(t->dtype);
    mf_dtype dtype = t->dtype == MF_C64 ? MF_F32 : t->dtype == MF_C128 ? MF_F64 : t->dtype;
    int size = mf_dtype_size(dtype);
    for (int64_t i = 0; i < t->size * (complex ? 2 : 1); i++, a += size, e += size) {
        if (!memcmp(a, e, (size_t)size))
            continue;
        if (mf_dtype_is_float(dtype) && isnan(mf_load_f64(dtype, a)) && isnan(mf_load_f64(dtype, e)))
            continue;
        CHECK_BYTES(a, e, (size_t)size);
        return CHECK_NOTE("element %lld of %s in\n%s", (long long)i, mf_type_name(t), text);
    }
    return true;
}

/* Runs both backends on one program. length: the second operand is indices into an axis of this length; 0: numbers like the others. */
static void compare(const char *text, int64_t length)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    char *in[MOST] = { 0 }, *out[2][MOST] = { { 0 } };
    if (!CHECK(p)) {
        CHECK_NOTE("%s\n%s", mf_error_text(error), text);
        return;
    }
    for (int i = 0; i < p->in_count; i++) {
        const mf_type *t = p->in[i]->type;
        in[i] = malloc((size_t)t->bytes + 1);
        if (length && i == 1)
            fill_indices(t, in[i], length, (uint32_t)i + 1);
        else
            fill(t, in[i], (uint32_t)i + 1);
    }
    for (int k = 0; k < 2; k++) {
        mf_kernel *kernel = NULL;
        for (int o = 0; o < p->out_count; o++)
            out[k][o] = malloc((size_t)p->out[o]->type->bytes + 1);
        error = backends[k]->compile(backends[k], p, NULL, &kernel);
        if (!CHECK(!error)) {
            CHECK_NOTE("%s\n%s", mf_error_text(error), text);
            continue;
        }
        void *scratch = aligned_alloc(64, (kernel->scratch_bytes + 127) / 64 * 64);
        error = backends[k]->run(kernel, (const void *const *)in, (void *const *)out[k], scratch);
        CHECK(!error);
        free(scratch);
        backends[k]->destroy(kernel);
    }
    for (int o = 0; o < p->out_count; o++) {
        same(p->out[o]->type, out[1][o], out[0][o], text);
        free(out[0][o]);
        free(out[1][o]);
    }
    for (int i = 0; i < p->in_count; i++)
        free(in[i]);
    mf_drop(p);
}

/* The text with every $ replaced by the dtype's name. */
static const char *write_for(const char *text, const char *name)
{
    static char out[4096];
    char *to = out;
    for (; *text; text++)
        if (*text == '$')
            to += sprintf(to, "%s", name);
        else
            *to++ = *text;
    *to = 0;
    return out;
}

static const char *const numbers[] = { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
static const char *const all[] = { "bool", "i8", "u16", "f32", "i64", "f64", "bf16", "c64", "c128" };
#define EACH(names, text, length)                             \
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) \
    compare(write_for(text, names[n]), length)

/* ------------------------------------------------------------------ cutting and joining */

TEST(copies)
{
    EACH(all,
         "program (x: $[67,131], y: $[6,50,33]) {\n a: $[131,67] = transpose[permutation=(1,0)] x\n"
         " b: $[33,6,50] = transpose[permutation=(2,0,1)] y\n c: $[6,33,50] = transpose[permutation=(0,2,1)] y\n"
         " d: $[67,131] = rev[axes=(1)] x\n e: $[67,131] = rev[axes=(0,1)] x\n"
         " f: $[34,26] = slice[start=(0,1), limit=(67,131), strides=(2,5)] x\n"
         " g: $[3,67,131] = broadcast_in_dim[shape=(3,67,131), broadcast_dimensions=(1,2)] x\n return a, b, c, d, e, f, g\n}",
         0);
    compare("program (x: f32[1024,300]) {\n a: f32[300,1024] = transpose[permutation=(1,0)] x\n"
            " b: f32[1024,300] = rev[axes=(1)] x\n return a, b\n}",
            0);
    compare("program (x: f64[7,40000]) {\n a: f64[40000,7] = transpose[permutation=(1,0)] x\n return a\n}", 0);
    compare("program (x: u8[700,900]) {\n a: u8[900,700] = transpose[permutation=(1,0)] x\n return a\n}", 0);
}

TEST(concatenations)
{
    EACH(all,
         "program (x: $[30,31], y: $[30,1], z: $[31,30]) {\n t: $[30,31] = transpose[permutation=(1,0)] z\n"
         " r: $[30,31] = rev[axes=(1)] x\n o: $[30,5] = broadcast_in_dim[shape=(30,5), broadcast_dimensions=(0,1)] y\n"
         " a: $[30,99] = concatenate[axis=1] x y t r o\n b: $[90,31] = concatenate[axis=0] t x x\n return a, b\n}",
         0);
    compare("program (x: f32[1000,200], y: f32[1000,300], z: f32[0,500]) {\n a: f32[1000,500] = concatenate[axis=1] x y\n"
            " b: f32[1000,500] = concatenate[axis=0] z a\n return a, b\n}",
            0);
}

TEST(pads)
{
    EACH(all,
         "program (x: $[30,7,11], v: $[]) {\n a: $[33,7,11] = pad[low=(1,0,0), high=(2,0,0), interior=(0,0,0)] x v\n"
         " b: $[30,9,11] = pad[low=(0,1,0), high=(0,1,0), interior=(0,0,0)] x v\n"
         " c: $[30,7,31] = pad[low=(0,0,0), high=(0,0,0), interior=(0,0,2)] x v\n"
         " d: $[61,13,9] = pad[low=(1,-1,-1), high=(1,1,-1), interior=(1,1,0)] x v\n"
         " e: $[10,3,12] = pad[low=(-40,0,0), high=(20,-4,1), interior=(0,0,0)] x v\n return a, b, c, d, e\n}",
         0);
    compare("program (x: f32[], v: f32[]) {\n a: f32[] = pad[low=(), high=(), interior=()] x v\n return a\n}", 0);
    compare("program (x: f32[500000], y: f32[400,500], v: f32[]) {\n a: f32[500009] = pad[low=(4), high=(5), interior=(0)] x v\n"
            " b: f32[999999] = pad[low=(0), high=(0), interior=(1)] x v\n"
            " c: f32[1198,502] = pad[low=(0,1), high=(0,1), interior=(2,0)] y v\n"
            " d: f32[398,1500] = pad[low=(-1,1), high=(-1,1), interior=(0,2)] y v\n return a, b, c, d\n}",
            0);
}

TEST(windows_that_move)
{
    EACH(all,
         "program (x: $[40,50], i: i32[2], u: $[7,6]) {\n j: i32[1] = slice[start=(0), limit=(1), strides=(1)] i\n"
         " k: i32[1] = slice[start=(1), limit=(2), strides=(1)] i\n l: i32[] = reshape[shape=()] j\n m: i32[] = reshape[shape=()] k\n"
         " t: $[50,40] = transpose[permutation=(1,0)] x\n v: $[6,7] = transpose[permutation=(1,0)] u\n"
         " a: $[20,9] = dynamic_slice[sizes=(20,9)] x l m\n b: $[20,9] = dynamic_slice[sizes=(20,9)] t m l\n"
         " c: $[40,50] = dynamic_update_slice x u l m\n d: $[50,40] = dynamic_update_slice t v l m\n"
         " e: $[40,50] = dynamic_update_slice c u m l\n return a, b, c, d, e\n}",
         40);
    compare("program (x: f32[1000,300], i: i64[], u: f32[500,300]) {\n a: f32[500,300] = dynamic_slice[sizes=(500,300)] x i 0:i64[]\n"
            " b: f32[1000,300] = add x x\n c: f32[1000,300] = dynamic_update_slice b u i 0:i64[]\n"
            " d: f32[1000,300] = dynamic_update_slice c a i 0:i64[]\n return a, d\n}",
            1000);
    /* the update is a view of the operand itself */
    compare("program (x: f32[100], i: i32[]) {\n a: f32[100] = neg x\n b: f32[60] = slice[start=(20), limit=(80), strides=(1)] a\n"
            " c: f32[100] = dynamic_update_slice a b i\n return c\n}",
            100);
}

/* ------------------------------------------------------------------ indices */

TEST(gathers)
{
    for (int mode = 0; mode < 4; mode++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "program (x: $[40,13], i: i32[300,1], k: i32[300,2]) {\n"
                 " a: $[300,13] = gather[offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,13), mode=%d] x i\n"
                 " b: $[13,300] = gather[offset_dims=(0), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,13), mode=%d] x i\n"
                 " c: $[300] = gather[collapsed_slice_dims=(0,1), start_index_map=(1,0), slice_sizes=(1,1), mode=%d] x k\n"
                 " d: $[300,3,2] = gather[offset_dims=(1,2), start_index_map=(0,1), slice_sizes=(3,2), mode=%d] x k\n"
                 " return a, b, c, d\n}",
                 mode, mode, mode, mode);
        EACH(all, text, 40);
    }
    compare("program (x: f32[40,300], i: i64[2000,1]) {\n"
            " a: f32[2000,300] = gather[offset_dims=(1), collapsed_slice_dims=(0), start_index_map=(0), slice_sizes=(1,300), mode=1] x i\n"
            " return a\n}",
            40);
    compare("program (x: f32[50,1000], i: u8[50,70,1]) {\n a: f32[50,70] = gather[collapsed_slice_dims=(1), start_index_map=(1), "
            "operand_batching_dims=(0), start_indices_batching_dims=(0), slice_sizes=(1,1), mode=1] x i\n return a\n}",
            100);
    compare("program (x: f32[70,50], i: i32[50,70,1]) {\n a: f32[50,70] = gather[collapsed_slice_dims=(1), start_index_map=(1), "
            "operand_batching_dims=(0), start_indices_batching_dims=(1), slice_sizes=(1,1)] x i\n return a\n}",
            50);
}

TEST(scatters)
{
    static const char *const rows[] = { "scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max" };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[1200];
        snprintf(text, sizeof text,
                 "program (x: $[40,13], i: i32[300,1], u: $[300,13], k: i32[300,2], v: $[300]) {\n"
                 " a: $[40,13] = %s[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] x i u\n"
                 " b: $[40,13] = %s[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] x i u\n"
                 " c: $[40,13] = %s[inserted_window_dims=(0,1), scatter_dims_to_operand_dims=(0,1), mode=1] x k v\n"
                 " w: $[13,300] = transpose[permutation=(1,0)] u\n"
                 " d: $[40,13] = %s[update_window_dims=(0), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] x i w\n"
                 " return a, b, c, d\n}",
                 rows[r], rows[r], rows[r], rows[r]);
        EACH(numbers, text, 40);
        if (r < 3)
            EACH(all, text, 40);
        snprintf(text, sizeof text,
                 "program (x: f32[40,700], i: i32[2000,1], u: f32[2000,700]) {\n"
                 " a: f32[40,700] = %s[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0), mode=1] x i u\n"
                 " return a\n}",
                 rows[r]);
        compare(text, 40);
    }
}

/* A scatter that overwrites its operand: one that is made in the program, read by others, twice over, or made by another scatter. */
TEST(scatters_over_what_was_made)
{
    compare("program (x: f32[40,700], i: i32[300,1], u: f32[300,700]) {\n y: f32[40,700] = mul x x\n"
            " a: f32[40,700] = scatter_add[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] y i u\n"
            " return a\n}",
            40);
    compare("program (x: f32[40,700], i: i32[300,1], u: f32[300,700]) {\n y: f32[40,700] = mul x x\n"
            " a: f32[40,700] = scatter_add[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] y i u\n"
            " b: f32[40,700] = scatter[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] a i u\n"
            " c: f32[40,700] = scatter[update_window_dims=(1), inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] y i u\n"
            " return a, b, c, y\n}",
            40);
    compare(
        "program (x: f32[28000], i: i32[3000,1], u: f32[3000]) {\n y: f32[28000] = mul x x\n z: f32[40,700] = reshape[shape=(40,700)] y\n"
        " a: f32[28000] = scatter_add[inserted_window_dims=(0), scatter_dims_to_operand_dims=(0)] y i u\n"
        " return a, z\n}",
        28000);
}

/* ------------------------------------------------------------------ lines */

TEST(running_results)
{
    static const char *const rows[] = { "cumsum", "cumprod", "cummax", "cummin" };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "program (x: $[19,37,3]) {\n a: $[19,37,3] = %s[axis=0] x\n b: $[19,37,3] = %s[axis=1, reverse=true] x\n"
                 " c: $[19,37,3] = %s[axis=2] x\n d: $[19,37,3] = %s[axis=2, reverse=true] x\n e: $[19,37,3] = %s[axis=0, reverse=true] x\n"
                 " return a, b, c, d, e\n}",
                 rows[r], rows[r], rows[r], rows[r], rows[r]);
        EACH(numbers, text, 0);
        snprintf(text, sizeof text,
                 "program (x: f32[701,300]) {\n a: f32[701,300] = %s[axis=0] x\n b: f32[701,300] = %s[axis=1, reverse=true] x\n"
                 " y: f32[210300] = reshape[shape=(210300)] x\n c: f32[210300] = %s[axis=0] y\n return a, b, c\n}",
                 rows[r], rows[r], rows[r]);
        compare(text, 0);
    }
}

TEST(places_of_extremes)
{
    static const char *const types[] = { "bool", "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    for (int greatest = 0; greatest < 2; greatest++) {
        const char *row = greatest ? "argmax" : "argmin";
        char text[1024];
        snprintf(text, sizeof text,
                 "program (x: $[29,37,3]) {\n a: i32[37,3] = %s[axis=0, index_dtype=i32] x\n b: i64[29,3] = %s[axis=1, index_dtype=i64] x\n"
                 " c: u8[29,37] = %s[axis=2, index_dtype=u8] x\n y: $[3219] = reshape[shape=(3219)] x\n"
                 " d: i32[] = %s[axis=0, index_dtype=i32] y\n return a, b, c, d\n}",
                 row, row, row, row);
        EACH(types, text, 0);
        snprintf(text, sizeof text,
                 "program (x: i32[701,300], y: f32[3,300,500]) {\n a: i32[300] = %s[axis=0, index_dtype=i32] x\n"
                 " b: i32[701] = %s[axis=1, index_dtype=i32] x\n c: i32[3,500] = %s[axis=1, index_dtype=i32] y\n return a, b, c\n}",
                 row, row, row);
        compare(text, 0);
    }
}

TEST(random_words)
{
    compare("program (k: u32[], l: u32[], x: u32[70000], y: u32[70000]) {\n"
            " a: u32[70000] = broadcast_in_dim[shape=(70000)] k\n b: u32[70000] = broadcast_in_dim[shape=(70000)] l\n"
            " c: u32[70000] = iota[dtype=u32, shape=(70000), axis=0]\n d: u32[70000] = broadcast_in_dim[shape=(70000)] 0:u32[]\n"
            " e: u32[70000], f: u32[70000] = threefry2x32 a b d c\n g: u32[70000], h: u32[70000] = threefry2x32 x y y c\n"
            " m: u32[70000], n: u32[70000] = threefry2x32 a y c x\n return e, f, g, h, m, n\n}",
            0);
    compare("program (k: u32[1], x: u32[5,7]) {\n a: u32[5,7] = broadcast_in_dim[shape=(5,7), broadcast_dimensions=(1)] k\n"
            " b: u32[5,7] = rev[axes=(1)] x\n c: u32[5,7], d: u32[5,7] = threefry2x32 a b x b\n"
            " e: u32[1], f: u32[1] = threefry2x32 k k k k\n return c, d, e, f\n}",
            0);
}

TEST(sorts)
{
    static const char *const types[] = { "bool", "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    EACH(types,
         "program (x: $[19,300], y: $[40,7], z: $[900]) {\n a: $[19,300] = sort[axis=1, keys=1] x\n"
         " i: i32[19,300] = iota[dtype=i32, shape=(19,300), axis=1]\n b: $[19,300], j: i32[19,300] = sort[axis=1, keys=1] x i\n"
         " c: $[19,300] = sort[axis=0, keys=1] x\n d: $[40,7] = sort[axis=1, keys=1] y\n e: $[900] = sort[axis=0, keys=1] z\n"
         " return a, b, j, c, d, e\n}",
         0);
    EACH(types,
         "program (x: $[5,300,3], y: i8[5,300,3], z: f64[5,300,3], w: c64[5,300,3]) {\n"
         " a: $[5,300,3], b: i8[5,300,3], c: f64[5,300,3], d: c64[5,300,3] = sort[axis=1, keys=2] x y z w\n"
         " f: i8[5,300,3], g: f64[5,300,3], h: $[5,300,3] = sort[axis=1, keys=3] y z x\n return a, b, c, d, f, g, h\n}",
         0);
    compare("program (x: f32[100000], y: i32[100000], z: u32[70,1000]) {\n a: f32[100000] = sort[axis=0, keys=1] x\n"
            " b: i32[100000] = sort[axis=0, keys=1] y\n c: u32[70,1000] = sort[axis=0, keys=1] z\n"
            " d: f32[100000] = abs x\n f: f32[100000] = sort[axis=0, keys=1] d\n return a, b, c, f\n}",
            0);
}

TEST(the_greatest)
{
    static const char *const types[] = { "bool", "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    EACH(types,
         "program (x: $[19,300], y: $[40,7], z: $[90000]) {\n a: $[19,5], b: i32[19,5] = top_k[k=5] x\n"
         " c: $[19,16], d: i32[19,16] = top_k[k=16] x\n e: $[19,17], f: i32[19,17] = top_k[k=17] x\n"
         " g: $[40,7], h: i32[40,7] = top_k[k=7] y\n i: $[40,1], j: i32[40,1] = top_k[k=1] y\n"
         " k: $[33], l: i32[33] = top_k[k=33] z\n m: $[300], n: i32[300] = top_k[k=300] z\n"
         " return a, b, c, d, e, f, g, h, i, j, k, l, m, n\n}",
         0);
    compare("program (x: f32[64,1000]) {\n a: f32[64,1000] = floor x\n b: f32[64,10], c: i32[64,10] = top_k[k=10] a\n"
            " d: f32[64,1000] = div a a\n e: f32[64,10], f: i32[64,10] = top_k[k=10] d\n return b, c, e, f\n}",
            0);
}

/* Every 16th element, which a sample of the line consists of, is one of the greatest or of the least; and lines with many equal
 * elements. */
TEST(the_greatest_where_a_sample_is_wrong)
{
    static const char *const types[] = { "f32", "f64", "i32" };
    EACH(types,
         "program (x: $[3,8192]) {\n i: i32[3,8192] = iota[dtype=i32, shape=(3,8192), axis=1]\n"
         " s: i32[3,8192] = broadcast_in_dim[shape=(3,8192), broadcast_dimensions=()] 16:i32[]\n"
         " o: i32[3,8192] = broadcast_in_dim[shape=(3,8192), broadcast_dimensions=()] 0:i32[]\n"
         " r: i32[3,8192] = rem i s\n m: bool[3,8192] = eq r o\n v: $[3,8192] = convert_element_type[dtype=$] i\n"
         " n: $[3,8192] = neg v\n h: $[3,8192] = select_n m n v\n l: $[3,8192] = select_n m v n\n f: $[3,8192] = sub x x\n"
         " a: $[3,9], b: i32[3,9] = top_k[k=9] h\n c: $[3,100], d: i32[3,100] = top_k[k=100] h\n"
         " e: $[3,600], g: i32[3,600] = top_k[k=600] l\n p: $[3,16], q: i32[3,16] = top_k[k=16] l\n"
         " t: $[3,5000], u: i32[3,5000] = top_k[k=5000] l\n w: $[3,70], y: i32[3,70] = top_k[k=70] f\n"
         " return a, b, c, d, e, g, p, q, t, u, w, y\n}",
         0);
}

TEST(sliding_windows)
{
    static const char *const types[] = { "f32", "f64", "f16", "bf16", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    static const char *const rows[] = { "reduce_window_sum", "reduce_window_max", "reduce_window_min" };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "program (x: $[9,41,3], y: $[5,1301]) {\n"
                 " a: $[9,39,3] = %s[window=(1,3,1), strides=(1,1,1), padding_low=(0,0,0), padding_high=(0,0,0), "
                 "base_dilation=(1,1,1), window_dilation=(1,1,1)] x\n"
                 " b: $[5,21,3] = %s[window=(3,2,1), strides=(2,2,1), padding_low=(1,1,0), padding_high=(2,1,0), "
                 "base_dilation=(1,1,1), window_dilation=(1,1,1)] x\n"
                 " c: $[9,41,3] = %s[window=(3,3,3), strides=(1,1,1), padding_low=(1,2,1), padding_high=(1,2,1), "
                 "base_dilation=(1,1,1), window_dilation=(1,2,1)] x\n"
                 " d: $[5,434] = %s[window=(1,4), strides=(1,3), padding_low=(0,1), padding_high=(0,1), "
                 "base_dilation=(1,1), window_dilation=(1,1)] y\n"
                 " f: $[5,1301] = %s[window=(2,1301), strides=(1,1), padding_low=(1,1300), padding_high=(0,0), "
                 "base_dilation=(1,1), window_dilation=(1,1)] y\n"
                 " g: $[9,39,3] = %s[window=(1,3,1), strides=(1,2,1), padding_low=(0,1,0), padding_high=(0,-2,0), "
                 "base_dilation=(1,2,1), window_dilation=(1,1,1)] x\n"
                 " h: $[6,866] = %s[window=(2,3), strides=(2,3), padding_low=(-1,-3), padding_high=(1,2), "
                 "base_dilation=(3,2), window_dilation=(1,2)] y\n"
                 " i: $[5,128] = %s[window=(1,7), strides=(1,10), padding_low=(0,0), padding_high=(0,0), "
                 "base_dilation=(1,1), window_dilation=(1,4)] y\n"
                 " return a, b, c, d, g, h, i\n}",
                 rows[r], rows[r], rows[r], rows[r], rows[r], rows[r], rows[r], rows[r]);
        EACH(types, text, 0);
        snprintf(text, sizeof text,
                 "program (x: i32[3,200,300], y: f32[2,3,1500], z: f32[2,50000]) {\n"
                 " a: i32[3,200,300] = %s[window=(1,3,3), strides=(1,1,1), padding_low=(0,1,1), padding_high=(0,1,1), "
                 "base_dilation=(1,1,1), window_dilation=(1,1,1)] x\n"
                 " b: f32[2,2,1500] = %s[window=(1,2,1), strides=(1,1,1), padding_low=(0,0,0), padding_high=(0,0,0), "
                 "base_dilation=(1,1,1), window_dilation=(1,1,1)] y\n"
                 " c: f32[1,50001] = %s[window=(2,3), strides=(1,1), padding_low=(0,2), padding_high=(0,1), "
                 "base_dilation=(1,1), window_dilation=(1,1)] z\n return a, b, c\n}",
                 rows[r], rows[r], rows[r]);
        compare(text, 0);
    }
    static const char *const complex[] = { "c64", "c128" };
    EACH(complex,
         "program (x: $[9,41,3], y: $[130,70]) {\n a: $[9,41,3] = reduce_window_sum[window=(3,3,1), strides=(1,1,1), padding_low=(1,2,0), "
         "padding_high=(1,0,0), base_dilation=(1,1,1), window_dilation=(1,1,1)] x\n"
         " b: $[65,35] = reduce_window_sum[window=(2,2), strides=(2,2), padding_low=(0,0), padding_high=(0,0), "
         "base_dilation=(1,1), window_dilation=(1,1)] y\n return a, b\n}",
         0);
}

TEST(integer_products)
{
    static const char *const types[] = { "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64" };
    EACH(types,
         "program (x: $[37,70], y: $[70,131], z: $[5,9,7], w: $[9,5,7]) {\n"
         " a: $[37,131] = dot_general[lhs_contract=(1), rhs_contract=(0)] x y\n"
         " b: $[9,5,5] = dot_general[lhs_contract=(2), rhs_contract=(2), lhs_batch=(1), rhs_batch=(0)] z w\n"
         " t: $[70,37] = transpose[permutation=(1,0)] x\n c: $[37,131] = dot_general[lhs_contract=(0), rhs_contract=(0)] t y\n"
         " return a, b, c\n}",
         0);
    compare("program (x: i8[300,100], y: i8[100,90]) {\n"
            " a: i32[300,90] = dot_general[lhs_contract=(1), rhs_contract=(0), preferred=i32] x y\n"
            " b: i64[300,90] = dot_general[lhs_contract=(1), rhs_contract=(0), preferred=i64] x y\n return a, b\n}",
            0);
}

TEST(complex_numbers)
{
    static const char *const types[] = { "c64", "c128" };
    EACH(types,
         "program (x: $[70000], y: $[70000]) {\n a: $[70000] = add x y\n b: $[70000] = mul x y\n c: $[70000] = conj b\n"
         " d: $[70000] = sub c x\n e: $[70000] = neg d\n f: $[70000] = square x\n g: $[70000] = div x y\n"
         " return a, b, c, d, e, f, g\n}",
         0);
    EACH(types,
         "program (x: $[60,90], y: $[90], s: $[]) {\n t: $[90,60] = transpose[permutation=(1,0)] x\n"
         " u: $[90,60] = broadcast_in_dim[shape=(90,60), broadcast_dimensions=(0)] y\n a: $[90,60] = mul t u\n"
         " v: $[90,60] = broadcast_in_dim[shape=(90,60), broadcast_dimensions=()] s\n b: $[90,60] = sub v a\n"
         " r: $[60,90] = rev[axes=(1)] x\n c: $[60,90] = add x r\n d: $[60,90] = conj c\n"
         " f: $[5400] = reshape[shape=(5400)] d\n g: $[5400] = mul f f\n return b, c, g\n}",
         0);
    compare("program (x: f32[70000], y: f32[70000]) {\n a: c64[70000] = complex x y\n b: f32[70000] = real a\n c: f32[70000] = imag a\n"
            " d: f32[70000] = abs a\n return a, b, c, d\n}",
            0);
    compare("program (x: c64[5000], y: c128[777]) {\n a: c64[5000] = exp x\n b: c64[5000] = mul x x\n c: c64[5000] = mul b b\n"
            " d: c64[5000] = mul c c\n e: c64[5000] = exp d\n f: f32[5000] = abs d\n g: f64[777] = abs y\n"
            " return a, e, f, g\n}",
            0);
    compare("program (x: f64[7], y: f64[7]) {\n a: c128[7] = complex x y\n b: f64[7] = real a\n c: f64[7] = imag a\n return a, b, c\n}", 0);
}

/* ------------------------------------------------------------------ ops without a kernel */

TEST(evaluation_in_pieces)
{
    static const char *const types[] = { "f32", "f64" };
    EACH(types,
         "program (x: $[70001], y: $[70001], a: $[130,19,19], b: $[130,19,7]) {\n d: $[70001] = lgamma x\n"
         " e: $[70001] = atan2 x y\n s: $[130,19,19] = mul a a\n f: $[130,19,19] = cholesky s\n"
         " g: $[130,19,7] = triangular_solve[left_side=true, lower=true, unit_diagonal=true] a b\n return d, e, f, g\n}",
         0);
}
