/* Fused steps over the same rows: the same bits as the separate steps, with tile kernels and compiled loops, for softmax, layer norm and
 * their gradients, and for similar programs that are not by rows. */
#include "backend/native/llvm/tier_up.h"
#include "check.h"
#include "ops/ops.h"
#include "runtime/compile/segment_compiler.h"

#include <unistd.h>

enum { MOST = 8 };

typedef struct trial {
    mf_program *p;
    void *in[MOST], *out[MOST];
} trial;

/* Between -2 and 2, or multiples of 1/8: sums of up to 2^13 products of these are exact in f32 in any order, whatever code multiplies
 * them. */
static void fill(const mf_type *t, char *at, uint32_t seed, bool coarse)
{
    for (int64_t i = 0; i < t->size; i++, at += mf_dtype_size(t->dtype)) {
        seed = seed * 1664525u + 1013904223u;
        if (mf_dtype_is_float(t->dtype))
            mf_store_f64(t->dtype, at, coarse ? (seed >> 27) / 8.0 - 2 : (double)(seed >> 8) / (1 << 22) - 2);
        else
            mf_store_i64(t->dtype, at, (seed >> 12) % 7);
    }
}

static bool start(trial *t, const char *text)
{
    bool coarse = strstr(text, "conv_general_dilated");
    mf_error_object *error = NULL;
    *t = (trial){ .p = mf_program_parse(text, NULL, &error) };
    if (!CHECK(t->p))
        return CHECK_NOTE("%s", mf_error_text(error));
    for (int i = 0; i < t->p->in_count; i++) {
        t->in[i] = malloc((size_t)t->p->in[i]->type->bytes + 1);
        fill(t->p->in[i]->type, t->in[i], (uint32_t)i + 7, coarse);
    }
    for (int o = 0; o < t->p->out_count; o++)
        t->out[o] = malloc((size_t)t->p->out[o]->type->bytes + 1);
    return true;
}

static void end(trial *t)
{
    for (int i = 0; t->p && i < t->p->in_count; i++)
        free(t->in[i]);
    for (int o = 0; t->p && o < t->p->out_count; o++)
        free(t->out[o]);
    mf_drop(t->p);
}

static bool run_on(const mf_segment_compiler *compiler, trial *t)
{
    mf_kernel *k = NULL;
    mf_error_object *error = compiler->compile(compiler, t->p, NULL, &k);
    if (!CHECK(!error))
        return CHECK_NOTE("%s", mf_error_text(error));
    for (int o = 0; o < t->p->out_count; o++)
        memset(t->out[o], 0x5a, (size_t)t->p->out[o]->type->bytes);
    void *scratch = aligned_alloc(64, (k->scratch_bytes + 127) / 64 * 64);
    memset(scratch, 0xa5, k->scratch_bytes);
    error = compiler->run(k, (const void *const *)t->in, t->out, scratch);
    free(scratch);
    compiler->destroy(k);
    return CHECK(!error);
}

static void check_near(const trial *a, const trial *reference)
{
    for (int o = 0; o < a->p->out_count; o++) {
        const mf_type *t = a->p->out[o]->type;
        double tolerance = t->dtype == MF_F64 ? 1e-12 : t->dtype == MF_F32 ? 2e-5 : t->dtype == MF_BOOL ? 0 : 2e-2;
        for (int64_t i = 0, size = mf_dtype_size(t->dtype); i < t->size; i++)
            if (!CHECK_NEAR(mf_load_f64(t->dtype, (char *)a->out[o] + i * size),
                            mf_load_f64(t->dtype, (char *)reference->out[o] + i * size), tolerance)) {
                CHECK_NOTE("result %d, element %lld", o, (long long)i);
                return;
            }
    }
}

/* Separate and fused, with tiles and loops: the same bits, and nearly the reference's result. */
static void compare(const char *text)
{
    trial reference, alone, joined;
    if (!start(&reference, text) || !start(&alone, text) || !start(&joined, text))
        return;
    mf_native_tiers = MF_TIERS_FIRST;
    mf_native_rows_use = MF_ROWS_NEVER;
    if (run_on(&mf_segment_compiler_reference, &reference) && run_on(&mf_segment_compiler_native, &alone))
        check_near(&alone, &reference);
    for (int way = 0; way < 4; way++) {
        mf_native_tiers = way & 1 ? MF_TIERS_LOOPS : MF_TIERS_FIRST;
        mf_native_rows_use = way & 2 ? MF_ROWS_ALWAYS : MF_ROWS_WHERE_IT_PAYS;
        if (!run_on(&mf_segment_compiler_native, &joined))
            break;
        for (int o = 0; o < joined.p->out_count; o++)
            if (!CHECK_BYTES(joined.out[o], alone.out[o], (size_t)joined.p->out[o]->type->bytes))
                CHECK_NOTE("way %d, result %d of\n%s", way, o, text);
    }
    mf_native_tiers = MF_TIERS_AS_ASKED;
    mf_native_rows_use = MF_ROWS_WHERE_IT_PAYS;
    end(&reference);
    end(&alone);
    end(&joined);
}

static char *sized(const char *format, int rows, int columns)
{
    /* replaces R and C in the text by the numbers */
    static char text[8192];
    size_t n = 0;
    for (; *format && n < sizeof text - 24; format++)
        if (*format == 'R' || *format == 'C')
            n += (size_t)snprintf(text + n, sizeof text - n, "%d", *format == 'R' ? rows : columns);
        else
            text[n++] = *format;
    text[n] = 0;
    return text;
}

/* One row and many; rows shorter than a vector, with a remainder, longer than a chunk of the reduction. */
static void compare_sizes(const char *format)
{
    static const int sizes[][2] = { { 1, 5 }, { 3, 1 }, { 7, 16 }, { 37, 100 }, { 5, 517 }, { 3, 4096 }, { 2, 9001 }, { 600, 64 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        compare(sized(format, sizes[i][0], sizes[i][1]));
}

/* ------------------------------------------------------------------ what people write */

static const char softmax[] =
    "program (b: f32[R,C]) {\n i: f32[R] = reduce_max[axes=(1)] b\n j: f32[R,1] = reshape[shape=(R,1)] i\n"
    " k: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] j\n l: f32[R,C] = sub b k\n"
    " m: f32[R,C] = exp l\n n: f32[R] = reduce_sum[axes=(1)] m\n o: f32[R,1] = reshape[shape=(R,1)] n\n"
    " q: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] o\n r: f32[R,C] = div m q\n return r\n}";

static const char cross_entropy[] =
    "program (a: i32[R], b: f32[R,C]) {\n c: i32[R,1] = reshape[shape=(R,1)] a\n d: i32[C] = iota[dtype=i32, shape=(C), axis=0]\n"
    " e: i32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(1)] d\n"
    " f: i32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] c\n g: bool[R,C] = eq f e\n"
    " h: f32[R,C] = convert_element_type[dtype=f32, weak=false] g\n i: f32[R] = reduce_max[axes=(1)] b\n"
    " j: f32[R,1] = reshape[shape=(R,1)] i\n k: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] j\n"
    " l: f32[R,C] = sub b k\n m: f32[R,C] = exp l\n n: f32[R] = reduce_sum[axes=(1)] m\n o: f32[R,1] = reshape[shape=(R,1)] n\n"
    " p: f32[R,1] = log o\n q: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] p\n r: f32[R,C] = sub l q\n"
    " s: f32[R,C] = mul h r\n t: f32[R] = reduce_sum[axes=(1)] s\n u: f32[R] = neg t\n v: f32[] = reduce_sum[axes=(0)] u\n"
    " w: f32[] = mul v 0.25:f32[]\n x: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=()] -0.25:f32[]\n"
    " y: f32[R,C] = mul h x\n z: f32[R,C] = neg y\n aa: f32[R] = reduce_sum[axes=(1)] z\n ab: f32[R,1] = reshape[shape=(R,1)] aa\n"
    " ac: f32[R,1] = div ab o\n ad: f32[R] = reshape[shape=(R)] ac\n"
    " ae: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0)] ad\n af: f32[R,C] = mul ae m\n ag: f32[R,C] = add y af\n"
    " return w, ag, t\n}";

static const char layer_norm[] =
    "program (a: f32[R,C], b: f32[C], c: f32[C]) {\n d: f32[R] = reduce_sum[axes=(1)] a\n e: f32[R,1] = reshape[shape=(R,1)] d\n"
    " f: f32[R,1] = broadcast_in_dim[shape=(R,1), broadcast_dimensions=()] 0.0078125:f32[]\n g: f32[R,1] = mul e f\n"
    " h: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] g\n i: f32[R,C] = sub a h\n j: f32[R,C] = square i\n"
    " k: f32[R] = reduce_sum[axes=(1)] j\n l: f32[R,1] = reshape[shape=(R,1)] k\n m: f32[R,1] = mul l f\n"
    " n: f32[R,1] = broadcast_in_dim[shape=(R,1), broadcast_dimensions=()] 1e-05:f32[]\n o: f32[R,1] = add m n\n p: f32[R,1] = rsqrt o\n"
    " q: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0,1)] p\n r: f32[R,C] = mul i q\n"
    " s: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(1)] b\n t: f32[R,C] = mul r s\n"
    " u: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(1)] c\n v: f32[R,C] = add t u\n"
    " w: f32[C] = reduce_sum[axes=(0)] r\n return v, w, p\n}";

TEST(softmax_of_any_size) { compare_sizes(softmax); }
TEST(cross_entropy_and_its_gradient) { compare_sizes(cross_entropy); }
TEST(layer_norm_with_a_sum_over_rows) { compare_sizes(layer_norm); }

/* NaN is the result of max and min, +0 is above -0. Which NaN it is may differ. */
TEST(extremes_of_nan_and_zeros)
{
    compare_sizes(
        "program (b: f32[R,C]) {\n n: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=()] 1.9:f32[]\n"
        " o: f32[R,C] = add b n\n c: f32[R,C] = sqrt o\n d: f32[R] = reduce_max[axes=(1)] c\n e: f32[R] = reduce_min[axes=(1)] c\n"
        " f: f32[R] = sub d e\n g: bool[R] = ne f f\n"
        " h: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=()] 0.0:f32[]\n i: f32[R,C] = mul b h\n"
        " j: f32[R] = reduce_max[axes=(1)] i\n k: f32[R] = reduce_min[axes=(1)] i\n"
        " l: f32[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0)] j\n m: f32[R,C] = mul l b\n return g, j, k, m\n}");
}

TEST(other_dtypes)
{
    static const char *const dtypes[] = { "f64", "f16", "bf16", "i32", "u8" };
    static const char text[] = "program (b: $[R,C]) {\n i: $[R] = reduce_max[axes=(1)] b\n"
                               " k: $[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0)] i\n l: $[R,C] = sub k b\n"
                               " n: $[R] = reduce_sum[axes=(1)] l\n o: $[R] = reduce_min[axes=(1)] l\n p: $[R] = add n o\n"
                               " q: $[R,C] = broadcast_in_dim[shape=(R,C), broadcast_dimensions=(0)] p\n r: $[R,C] = max q l\n"
                               " s: $[R] = reduce_prod[axes=(1)] r\n return r, s\n}";
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        char typed[2048];
        size_t n = 0;
        for (const char *c = text; *c; c++)
            n += (size_t)snprintf(typed + n, sizeof typed - n, *c == '$' ? "%s" : "%.1s", *c == '$' ? dtypes[d] : c);
        compare(sized(typed, 5, 77));
        compare(sized(typed, 130, 9));
    }
}

TEST(rows_of_several_dimensions)
{
    compare("program (a: f32[3,5,4,6]) {\n b: f32[3,5] = reduce_sum[axes=(2,3)] a\n"
            " c: f32[3,5,4,6] = broadcast_in_dim[shape=(3,5,4,6), broadcast_dimensions=(0,1)] b\n d: f32[3,5,4,6] = mul a c\n"
            " e: f32[3,5,4] = reduce_max[axes=(3)] d\n f: f32[15,4] = reshape[shape=(15,4)] e\n g: f32[15] = reduce_sum[axes=(1)] f\n"
            " h: f32[3,5] = reshape[shape=(3,5)] g\n i: f32[3,5] = add h b\n return i, d\n}");
}

/* ------------------------------------------------------------------ what is not by rows */

TEST(rows_in_another_order)
{
    compare("program (a: f32[40,30]) {\n b: f32[40] = reduce_sum[axes=(1)] a\n c: f32[40] = rev[axes=(0)] b\n"
            " d: f32[40,30] = broadcast_in_dim[shape=(40,30), broadcast_dimensions=(0)] c\n e: f32[40,30] = mul a d\n"
            " f: f32[40] = reduce_max[axes=(1)] e\n return f, e\n}");
    compare("program (a: f32[40,40]) {\n b: f32[40] = reduce_sum[axes=(1)] a\n"
            " d: f32[40,40] = broadcast_in_dim[shape=(40,40), broadcast_dimensions=(1)] b\n e: f32[40,40] = mul a d\n"
            " f: f32[40] = reduce_max[axes=(1)] e\n return f, e\n}");
    compare("program (a: f32[40,40]) {\n b: f32[40] = reduce_sum[axes=(1)] a\n"
            " c: f32[40,40] = broadcast_in_dim[shape=(40,40), broadcast_dimensions=(0)] b\n d: f32[40,40] = mul a c\n"
            " e: f32[40,40] = transpose[permutation=(1,0)] d\n f: f32[40,40] = add e a\n g: f32[40] = reduce_max[axes=(1)] f\n"
            " return g\n}");
}

TEST(rows_reversed_inside)
{
    compare("program (a: f32[40,30]) {\n b: f32[40] = reduce_sum[axes=(1)] a\n"
            " c: f32[40,30] = broadcast_in_dim[shape=(40,30), broadcast_dimensions=(0)] b\n d: f32[40,30] = mul a c\n"
            " g: f32[40] = reduce_max[axes=(1)] d\n e: f32[40,30] = rev[axes=(1)] d\n"
            " h: f32[40,30] = broadcast_in_dim[shape=(40,30), broadcast_dimensions=(0)] g\n f: f32[40,30] = add e h\n"
            " return f\n}");
}

/* Operands whose columns are not adjacent. */
TEST(columns_backwards_and_apart)
{
    static const char *const reads[] = {
        "x: f32[40,30]) {\n a: f32[40,30] = rev[axes=(1)] x\n",
        "x: f32[40,30]) {\n a: f32[40,30] = rev[axes=(0,1)] x\n",
        "x: f32[30]) {\n y: f32[30] = rev[axes=(0)] x\n a: f32[40,30] = broadcast_in_dim[shape=(40,30), broadcast_dimensions=(1)] y\n",
        "x: f32[40,60]) {\n a: f32[40,30] = slice[start=(0,0), limit=(40,60), strides=(1,2)] x\n",
        "x: f32[30,40]) {\n a: f32[40,30] = transpose[permutation=(1,0)] x\n",
    };
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "program (z: f32[40,30], %s b: f32[40,30] = mul a z\n c: f32[40] = reduce_sum[axes=(1)] b\n"
                 " d: f32[40,30] = broadcast_in_dim[shape=(40,30), broadcast_dimensions=(0)] c\n e: f32[40,30] = sub a d\n"
                 " return e\n}",
                 reads[i]);
        compare(text);
    }
}

TEST(half_of_the_rows)
{
    compare("program (a: f32[40,30], z: f32[20,30]) {\n b: f32[40] = reduce_sum[axes=(1)] a\n"
            " c: f32[40,30] = broadcast_in_dim[shape=(40,30), broadcast_dimensions=(0)] b\n d: f32[40,30] = mul a c\n"
            " e: f32[20,30] = slice[start=(20,0), limit=(40,30), strides=(1,1)] d\n f: f32[20,30] = add e z\n"
            " g: f32[20] = reduce_max[axes=(1)] f\n h: f32[20] = slice[start=(0), limit=(40), strides=(2)] b\n i: f32[20] = add g h\n"
            " return i\n}");
}

/* Two reductions; one needs a sum over everything that the other computed. */
TEST(a_sum_over_all_in_between)
{
    compare("program (a: f32[50,20]) {\n b: f32[50] = reduce_sum[axes=(1)] a\n c: f32[] = reduce_sum[axes=(0)] b\n"
            " d: f32[50,20] = broadcast_in_dim[shape=(50,20), broadcast_dimensions=()] c\n e: f32[50,20] = mul a d\n"
            " f: f32[50] = reduce_max[axes=(1)] e\n g: f32[50] = sub f b\n"
            " h: f32[50,20] = broadcast_in_dim[shape=(50,20), broadcast_dimensions=(0)] g\n i: f32[50,20] = div e h\n"
            " return i, c\n}");
}

static int joined_steps(const char *text)
{
    /* the dump tells how many steps were fused */
    trial t;
    if (!start(&t, text))
        return -1;
    char path[] = "/tmp/mf_rows_XXXXXX", line[256];
    int file = mkstemp(path), stderr_copy = dup(2), count = 0;
    fflush(stderr);
    dup2(file, 2);
    setenv("MF_DUMP", "fuse", 1);
    bool ran = run_on(&mf_segment_compiler_native, &t);
    unsetenv("MF_DUMP");
    fflush(stderr);
    dup2(stderr_copy, 2);
    close(stderr_copy);
    close(file);
    FILE *f = ran ? fopen(path, "r") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        const char *colon = strstr(line, "rows in blocks") ? strrchr(line, ':') : NULL;
        count = colon ? atoi(colon + 1) : count;
    }
    if (f)
        fclose(f);
    unlink(path);
    end(&t);
    return count;
}

TEST(large_ones_are_joined_by_themselves)
{
    CHECK(joined_steps(sized(softmax, 512, 1000)) >= 4);
    CHECK(joined_steps(sized(layer_norm, 512, 1024)) >= 5);
    CHECK_EQ_INT(joined_steps(sized(softmax, 4, 8)), 0);
}

/* ------------------------------------------------------------------ images */

#define ONES \
    "rhs_dilation=(1,1), feature_group_count=1, batch_group_count=1, padding_low=(1,1), padding_high=(1,1), lhs_dilation=(1,1), window_strides=(1,1)"
#define PLAIN \
    "window=(1,2,2,1), strides=(1,2,2,1), padding_low=(0,0,0,0), padding_high=(0,0,0,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)"

#define CONVOLVED "lhs_spec=(0,3,1,2), rhs_spec=(2,3,0,1), out_spec=(0,3,1,2), " ONES

/* R images of C channels. Some fit several into a call, some need several calls; one is too small for its own block. */
static void compare_images(const char *format)
{
    static const int sizes[][2] = { { 1, 8 }, { 6, 8 }, { 5, 8 }, { 7, 32 }, { 4, 1 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        compare(sized(format, sizes[i][0], sizes[i][1]));
}

TEST(convolved_rectified_pooled)
{
    compare_images(
        "program (x: f32[R,16,16,C], w: f32[3,3,C,16], b: f32[16]) {\n"
        " y: f32[R,16,16,16] = conv_general_dilated[lhs_spec=(0,3,1,2), rhs_spec=(3,2,0,1), out_spec=(0,3,1,2), " ONES "] x w\n"
        " c: f32[R,16,16,16] = broadcast_in_dim[shape=(R,16,16,16), broadcast_dimensions=(3)] b\n"
        " d: f32[R,16,16,16] = add y c\n z: f32[R,16,16,16] = broadcast_in_dim[shape=(R,16,16,16), broadcast_dimensions=()] 0:f32[]\n"
        " e: f32[R,16,16,16] = max d z\n m: bool[R,16,16,16] = le d z\n"
        " f: f32[R,8,8,16] = reduce_window_max[" PLAIN "] e\n"
        " return e, m, f\n}");
}

TEST(back_through_a_pool_and_a_convolution)
{
    compare_images("program (e: f32[R,16,16,16], g: f32[R,8,8,16], w: f32[3,3,C,16]) {\n"
                   " h: f32[R,16,16,16] = select_and_scatter_add[" PLAIN "] g e\n k: f32[R,16,16,16] = mul h e\n"
                   " r: f32[3,3,C,16] = rev[axes=(0,1)] w\n"
                   " y: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] k r\n"
                   " t: f32[R,16,16,C] = tanh y\n return t, k\n}");
}

/* If a program has both, the maximum records positions, so ties and padding matter: the first in the window wins. */
TEST(a_maximum_and_its_gradient)
{
    static const char *const windows[] = {
        PLAIN, "window=(1,3,3,1), strides=(1,2,2,1), padding_low=(0,1,1,0), padding_high=(0,0,0,0), base_dilation=(1,1,1,1), "
               "window_dilation=(1,1,1,1)"
    };
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        char format[2048];
        snprintf(format, sizeof format,
                 "program (x: f32[R,16,16,C], g: f32[R,8,8,16], w: f32[3,3,C,16]) {\n"
                 " y: f32[R,16,16,16] = conv_general_dilated[lhs_spec=(0,3,1,2), rhs_spec=(3,2,0,1), out_spec=(0,3,1,2), " ONES "] x w\n"
                 " z: f32[R,16,16,16] = broadcast_in_dim[shape=(R,16,16,16), broadcast_dimensions=()] 0:f32[]\n"
                 " e: f32[R,16,16,16] = max y z\n f: f32[R,8,8,16] = reduce_window_max[%s] e\n"
                 " s: f32[R,8,8,16] = broadcast_in_dim[shape=(R,8,8,16), broadcast_dimensions=()] 0.0009765625:f32[]\n"
                 " t: f32[R,8,8,16] = mul g s\n a: f32[R,8,8,16] = mul f t\n b: f32[R,16,16,16] = select_and_scatter_add[%s] a e\n"
                 " r: f32[3,3,C,16] = rev[axes=(0,1)] w\n h: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] b r\n"
                 " c: f32[R,8,8,16] = sort[axis=0, keys=1] a\n d: f32[R,16,16,16] = select_and_scatter_add[%s] c e\n return f, h, d\n}",
                 windows[i], windows[i], windows[i]);
        compare_images(format);
    }
}

/* e is last used in the fused step, and a result takes its memory: one computed elementwise from it, or after it was read. But not if every
 * row reads e's first row, if e is read again later, or if an element needs its neighbours. */
TEST(what_is_made_lies_where_an_operand_lay)
{
    static const char *const bodies[] = {
        " k: f32[R,16,16,16] = mul h e\n y: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] k r\n l: f32[R,16,16,16] = tanh k\n",
        " k: f32[R,16,16,16] = mul h h\n y: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] k r\n l: f32[R,16,16,16] = add y y\n",
        " k: f32[R,16,16,16] = mul h v\n y: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] k r\n"
        " l: f32[R,16,16,16] = select_and_scatter_add[" PLAIN "] g y\n",
        " y: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] h r\n l: f32[R,16,16,16] = select_and_scatter_add[" PLAIN "] g e\n",
        " y: f32[R,16,16,C] = conv_general_dilated[" CONVOLVED "] e r\n l: f32[R,16,16,16] = tanh h\n"
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char format[2048];
        snprintf(format, sizeof format,
                 "program (p: f32[R,16,16,16], g: f32[R,8,8,16], w: f32[3,3,C,16]) {\n"
                 " e: f32[R,16,16,16] = sort[axis=0, keys=1] p\n"
                 " u: f32[1,16,16,16] = slice[start=(0,0,0,0), limit=(1,16,16,16), strides=(1,1,1,1)] e\n"
                 " v: f32[R,16,16,16] = broadcast_in_dim[shape=(R,16,16,16), broadcast_dimensions=(0,1,2,3)] u\n"
                 " h: f32[R,16,16,16] = select_and_scatter_add[" PLAIN "] g e\n r: f32[3,3,C,16] = rev[axes=(0,1)] w\n%s"
                 " m: f32[R,16,16,C] = sort[axis=0, keys=1] y\n n: f32[R,16,16,16] = sort[axis=0, keys=1] l\n return m, n\n}",
                 bodies[i]);
        compare(sized(format, 26, 16)); /* several blocks */
    }
}

/* ------------------------------------------------------------------ sums over all images */

#define OVER_IMAGES "lhs_spec=(3,0,1,2), rhs_spec=(3,0,1,2), out_spec=(2,3,0,1), " ONES

/* A batch whose images take one slot, several, or a remainder in the last call. */
static void compare_sums(const char *format)
{
    static const int sizes[][2] = { { 1, 8 }, { 5, 8 }, { 24, 8 }, { 33, 4 }, { 64, 16 }, { 70, 1 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        compare(sized(format, sizes[i][0], sizes[i][1]));
}

/* The cotangent k of `side` x `side` images, which a pooling reduces to `pooled` x `pooled`. */
#define BACK(side, pooled)                                                                                                              \
    "program (e: f32[R," side "," side ",16], g: f32[R," pooled "," pooled ",16], x: f32[R," side "," side ",C], w: f32[3,3,C,16]) {\n" \
    " z: f32[R," side "," side ",16] = broadcast_in_dim[shape=(R," side "," side ",16), broadcast_dimensions=()] 0.0078125:f32[]\n"     \
    " a: f32[R," pooled "," pooled ",16] = broadcast_in_dim[shape=(R," pooled "," pooled                                                \
    ",16), broadcast_dimensions=()] 0.0078125:f32[]\n b: f32[R," pooled "," pooled ",16] = mul g a\n"                                   \
    " k: f32[R," side "," side ",16] = select_and_scatter_add[" PLAIN "] b e\n r: f32[3,3,C,16] = rev[axes=(0,1)] w\n"                  \
    " s: f32[16] = reduce_sum[axes=(0,1,2)] k\n d: f32[3,3,C,16] = conv_general_dilated[" OVER_IMAGES "] x k\n"
#define TO_IMAGES(side) " y: f32[R," side "," side ",C] = conv_general_dilated[" CONVOLVED "] "

TEST(sums_over_images) { compare_sums(BACK("16", "8") TO_IMAGES("16") "k r\n t: f32[R,16,16,C] = tanh y\n return s, d, t\n}"); }

/* A fold needs more images than are available at a time, so its operands are kept until then. */
TEST(sums_over_large_images)
{
    static const char text[] = BACK("64", "32") TO_IMAGES("64") "k r\n return s, d, y\n}";
    compare(sized(text, 12, 1));
    compare(sized(text, 7, 1));
}

/* An operand that waits for a sum is not overwritten by values computed from it, even if nothing else reads it. */
TEST(sums_of_what_others_could_overwrite)
{
    static const char text[] = BACK("64", "32") " l: f32[R,64,64,16] = tanh k\n" TO_IMAGES("64") "l r\n return s, d, y\n}";
    compare(sized(text, 12, 1));
    /* an operand that is not needed afterwards, either */
    compare(sized("program (p: f32[R,64,64,C], e: f32[R,64,64,16], g: f32[R,32,32,16], w: f32[3,3,C,16]) {\n"
                  " a: f32[R,64,64,C] = broadcast_in_dim[shape=(R,64,64,C), broadcast_dimensions=()] 0.0078125:f32[]\n"
                  " b: f32[R,64,64,C] = mul p a\n x: f32[R,64,64,C] = sort[axis=0, keys=1] b\n"
                  " k: f32[R,64,64,16] = select_and_scatter_add[" PLAIN "] g e\n"
                  " d: f32[3,3,C,16] = conv_general_dilated[" OVER_IMAGES "] x k\n"
                  " l: f32[R,64,64,C] = tanh x\n" TO_IMAGES("64") "k w\n v: f32[R,64,64,C] = sort[axis=0, keys=1] l\n return d, y, v\n}",
                  12, 1));
}

/* Unread sums still have their own memory, each time. */
TEST(sums_that_nobody_reads) { compare_sums(BACK("16", "8") TO_IMAGES("16") "k r\n t: f32[R,16,16,C] = tanh y\n return t\n}"); }

/* A sum whose length equals the number of images is still not by rows. */
TEST(sums_that_are_used_afterwards)
{
    compare(sized(BACK("16", "8")
                      TO_IMAGES("16") "k r\n n: f32[16] = tanh s\n"
                                      " o: f32[16,16,16,16] = broadcast_in_dim[shape=(16,16,16,16), broadcast_dimensions=(0)] n\n"
                                      " q: f32[16,16,16,16] = mul o k\n return q, d, y\n}",
                  16, 8));
}

/* The padding zeros are multiplied with a cotangent that is NaN or infinite. */
TEST(sums_of_what_is_no_number)
{
    compare_sums(BACK("16", "8") " c: f32[R,16,16,16] = broadcast_in_dim[shape=(R,16,16,16), broadcast_dimensions=()] 1.9999:f32[]\n"
                                 " f: f32[R,16,16,16] = add e c\n h: f32[R,16,16,16] = sqrt f\n l: f32[R,16,16,16] = add h k\n" TO_IMAGES(
                                     "16") "l r\n m: f32[3,3,C,16] = conv_general_dilated[" OVER_IMAGES
                                           "] x l\n n: bool[3,3,C,16] = ne m m\n"
                                           " o: bool[R,16,16,C] = ne y y\n return n, d, o\n}");
}

TEST(sums_are_joined_by_themselves) { CHECK(joined_steps(sized(BACK("16", "8") TO_IMAGES("16") "k r\n return s, d, y\n}", 512, 16)) >= 4); }
