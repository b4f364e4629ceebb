/* Loops compiled to one function (llvm/emit/repeat.c), compared bit by bit with their steps: every kind of step, carried, stacked and
 * scanned arrays, nested loops, and calls that switch from steps to the function between two iterations. */
#include "backend/native/llvm/tier_up.h"

#include <manyfold/debug.h>

#include "check.h"

#include <time.h>

enum { MOST = 12 };

typedef struct buffers {
    int count;
    void *at[MOST];
    size_t bytes[MOST];
    void *scratch;
} buffers;

static mf_program *parse(const char *text)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, NULL, &error);
    if (!CHECK(p))
        CHECK_NOTE("%s\n%s", mf_error_text(error), text);
    return p;
}

static mf_kernel *compile(const mf_program *p, mf_tiers tiers)
{
    mf_kernel *k = NULL;
    mf_native_tiers = tiers;
    CHECK(!mf_segment_compiler_native.compile(&mf_segment_compiler_native, p, NULL, &k));
    mf_native_tiers = MF_TIERS_AS_ASKED;
    return k;
}

static void add(buffers *b, const mf_type *t, bool fill)
{
    unsigned char *at = malloc((size_t)t->bytes + 1);
    memset(at, 0x5a, (size_t)t->bytes + 1);
    for (int64_t i = 0; fill && i < t->size; i++) {
        double x = (double)((i * 7 + b->count * 5) % 23) / 4 - 2; /* including integers, zeros, and both signs */
        if (mf_dtype_is_float(t->dtype))
            mf_store_f64(t->dtype, at + i * mf_dtype_size(t->dtype), x);
        else
            mf_store_i64(t->dtype, at + i * mf_dtype_size(t->dtype), t->dtype == MF_BOOL ? i % 3 == 0 : (int64_t)(x * 2));
    }
    b->at[b->count] = at;
    b->bytes[b->count++] = (size_t)t->bytes;
}

static buffers make(mf_variable *const *vars, int count, bool fill)
{
    buffers b = { 0 };
    for (int i = 0; i < count; i++)
        add(&b, vars[i]->type, fill);
    return b;
}

static void drop(buffers *b)
{
    for (int i = 0; i < b->count; i++)
        free(b->at[i]);
}

static void run(mf_kernel *k, buffers *in, buffers *out)
{
    void *scratch = aligned_alloc(64, (k->scratch_bytes + 127) / 64 * 64);
    CHECK(!mf_segment_compiler_native.run(k, (const void *const *)in->at, out->at, scratch));
    free(scratch);
}

/* Checks that the last equation is a loop that is compiled, and gives the same result as its steps. */
static void agrees(const char *text)
{
    mf_program *p = parse(text);
    REQUIRE(p);
    mf_compiler_counters before = mf_compiler_read();
    mf_kernel *first = compile(p, MF_TIERS_FIRST), *loops = compile(p, MF_TIERS_LOOPS);
    mf_compiler_counters after = mf_compiler_read();
    if (!CHECK(after.failures == before.failures && after.loops > before.loops))
        CHECK_NOTE("%s", text);
    const mf_native_plan *plan = &((const mf_native_kernel *)(const void *)loops)->plan;
    bool compiled = false;
    for (int i = 0; i < plan->step_count; i++) {
        const mf_native_step *s = plan->steps[i];
        compiled |= s->eqn && s->eqn == ((const mf_native_kernel *)(const void *)loops)->program->eqns[p->eqn_count - 1] && s->up &&
                    mf_tier_up_loop(s->up);
    }
    if (!CHECK(compiled))
        CHECK_NOTE("%s", text);
    buffers in = make(p->in, p->in_count, true), expected = make(p->out, p->out_count, false), out = make(p->out, p->out_count, false);
    run(first, &in, &expected);
    run(loops, &in, &out);
    for (int o = 0; o < p->out_count; o++)
        if (!CHECK_BYTES(out.at[o], expected.at[o], out.bytes[o] + 1))
            CHECK_NOTE("result %d of %s", o, text);
    drop(&in);
    drop(&out);
    drop(&expected);
    mf_segment_compiler_native.destroy(first);
    mf_segment_compiler_native.destroy(loops);
    mf_drop(p);
}

/* The same for a scan with this body, of c: type, w: type and x: type. */
static void agrees_on_body(const char *type, const char *stacked, const char *lines, const char *next)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        char text[4096];
        snprintf(
            text, sizeof text,
            "program (w: %s, c: %s, x: %s) {\n d: %s, y: %s = scan[length=5, consts=1, carry=1, reverse=%s, body=(w: %s, c: %s, x: %s) {\n"
            "%s\n return %s, c }] w c x\n return d, y }",
            type, type, stacked, type, stacked, reverse ? "true" : "false", type, type, type, lines, next);
        agrees(text);
    }
}

TEST(elementwise_of_every_size_and_dtype)
{
    static const int sizes[] = { 1, 2, 3, 7, 8, 16, 17, 40, 100 };
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16", "i32", "u32", "i64", "i8", "u16" };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
            char type[32], stacked[32], lines[512];
            snprintf(type, sizeof type, "%s[%d]", dtypes[d], sizes[s]);
            snprintf(stacked, sizeof stacked, "%s[5,%d]", dtypes[d], sizes[s]);
            snprintf(lines, sizeof lines, " a: %s = mul c w\n b: %s = add a x\n e: %s = max b w\n f: %s = div e x\n g: %s = sub f c", type,
                     type, type, type, type);
            agrees_on_body(type, stacked, lines, "g");
        }
}

TEST(functions_with_rare_lanes)
{
    agrees_on_body(
        "f32[5]", "f32[5,5]",
        " k: f32[5] = broadcast_in_dim[shape=(5), broadcast_dimensions=()] 1e30:f32[]\n b: f32[5] = mul c k\n s: f32[5] = sin b\n t: f32[5] = tanh x\n e: f32[5] = exp t\n l: f32[5] = add s e",
        "l");
    agrees_on_body("f32[16]", "f32[5,16]", " t: f32[16] = tanh c\n e: f32[16] = exp t\n l: f32[16] = log e\n m: f32[16] = add l x", "m");
}

TEST(views_and_scalars)
{
    agrees_on_body(
        "f32[3,5]", "f32[5,3,5]",
        " t: f32[5,3] = transpose[permutation=(1,0)] c\n r: f32[3,5] = reshape[shape=(3,5)] t\n v: f32[3,5] = rev[axes=(1)] r\n"
        " s: f32[1,5] = slice[start=(1,0), limit=(2,5), strides=(1,1)] w\n q: f32[5] = reshape[shape=(5)] s\n"
        " b: f32[3,5] = broadcast_in_dim[shape=(3,5), broadcast_dimensions=(1)] q\n a: f32[3,5] = add v b\n m: f32[3,5] = mul a x",
        "m");
    agrees_on_body(
        "f32[20]", "f32[5,20]",
        " a: f32[1] = slice[start=(7), limit=(8), strides=(1)] c\n s: f32[] = reshape[shape=()] a\n t: f32[] = tanh s\n"
        " b: f32[20] = broadcast_in_dim[shape=(20), broadcast_dimensions=()] t\n i: i32[20] = iota[dtype=i32, shape=(20), axis=0]\n"
        " j: f32[20] = convert_element_type[dtype=f32] i\n k: f32[20] = add b j\n m: f32[20] = mul k x",
        "m");
}

TEST(reductions)
{
    static const char *const ops[] = { "sum", "max", "min", "prod" };
    static const char *const dtypes[] = { "f32", "f64", "f16", "bf16", "i32", "u32", "i64" };
    static const struct {
        const char *dims, *left, *axes, *back;
    } shapes[] = { { "7", "", "0", "" },      { "40", "", "0", "" },          { "3,20", "3", "1", "0" },
                   { "20,3", "3", "0", "1" }, { "2,3,4", "2,4", "1", "0,2" }, { "2,3,4", "3", "0,2", "1" } };
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
            for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
                char type[32], stacked[32], lines[512];
                snprintf(type, sizeof type, "%s[%s]", dtypes[d], shapes[s].dims);
                snprintf(stacked, sizeof stacked, "%s[5,%s]", dtypes[d], shapes[s].dims);
                snprintf(lines, sizeof lines,
                         " m: %s = add x c\n r: %s[%s] = reduce_%s[axes=(%s)] m\n b: %s = broadcast_in_dim[shape=(%s), "
                         "broadcast_dimensions=(%s)] r\n n: %s = sub b w",
                         type, dtypes[d], shapes[s].left, ops[o], shapes[s].axes, type, shapes[s].dims, shapes[s].back, type);
                agrees_on_body(type, stacked, lines, "n");
            }
}

TEST(products)
{
    agrees_on_body("f32[16,16]", "f32[5,16,16]",
                   " a: f32[16] = reduce_max[axes=(0)] c\n h: f32[16] = dot_general[lhs_contract=(1), rhs_contract=(0)] w a\n"
                   " g: f32[16] = dot_general[lhs_contract=(0), rhs_contract=(0)] h w\n t: f32[16] = tanh g\n"
                   " o: f32[16,16] = dot_general t h\n m: f32[16,16] = add o x",
                   "m");
    agrees_on_body("f32[5,5]", "f32[5,5,5]",
                   " m: f32[5,5] = dot_general[lhs_contract=(1), rhs_contract=(0)] c w\n t: f32[5,5] = transpose[permutation=(1,0)] m\n"
                   " n: f32[5,5] = dot_general[lhs_contract=(0), rhs_contract=(1)] t x\n k: f32[5,5] = tanh n",
                   "k");
    agrees_on_body("bf16[6,3,4]", "bf16[5,6,3,4]",
                   " m: bf16[6,3,3] = dot_general[lhs_contract=(2), rhs_contract=(2), lhs_batch=(0), rhs_batch=(0)] c w\n"
                   " n: bf16[6,3,4] = dot_general[lhs_contract=(2), rhs_contract=(1), lhs_batch=(0), rhs_batch=(0)] m x",
                   "n");
    agrees_on_body("f64[20]", "f64[5,20]",
                   " d: f64[] = dot_general[lhs_contract=(0), rhs_contract=(0)] c w\n"
                   " b: f64[20] = broadcast_in_dim[shape=(20), broadcast_dimensions=()] d\n e: f64[20] = mul b x\n f: f64[20] = tanh e",
                   "f");
}

/* A loop-invariant matrix is read along its rows or columns, in place or from a copy, in several dtypes. */
TEST(products_with_a_constant_matrix)
{
    static const int sizes[][2] = { { 64, 64 }, { 40, 50 }, { 5, 33 }, { 100, 3 } };
    static const char *const dtypes[] = { "f32", "f64", "bf16" };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes - (s < 2); d++) { /* in bf16 the function would be too long */
            char text[2048];
            int m = sizes[s][0], n = sizes[s][1];
            const char *t = dtypes[d];
            snprintf(
                text, sizeof text,
                "program (w: %s[%d,%d], c: %s[%d], g: %s[%d,%d]) {\n d: %s[%d], e: %s[%d,%d], y: %s[3,%d] = scan[length=3, consts=1, carry=2,"
                " body=(w: %s[%d,%d], c: %s[%d], g: %s[%d,%d]) {\n h: %s[%d] = dot_general[lhs_contract=(1), rhs_contract=(0)] w c\n"
                " a: %s[%d] = tanh h\n b: %s[%d] = dot_general[lhs_contract=(0), rhs_contract=(0)] w a\n f: %s[%d] = tanh b\n"
                " o: %s[%d,%d] = dot_general a f\n e: %s[%d,%d] = add g o\n return f, e, a }] w c g\n return d, e, y }",
                t, m, n, t, n, t, m, n, t, n, t, m, n, t, m, t, m, n, t, n, t, m, n, t, m, t, m, t, n, t, n, t, m, n, t, m, n);
            agrees(text);
        }
}

TEST(what_moves)
{
    agrees_on_body("f32[9]", "f32[5,9]",
                   " a: f32[4] = slice[start=(0), limit=(4), strides=(1)] c\n b: f32[3] = slice[start=(1), limit=(7), strides=(2)] x\n"
                   " p: f32[2] = slice[start=(0), limit=(2), strides=(1)] w\n m: f32[9] = concatenate[axis=0] b a p",
                   "m");
    agrees_on_body("i32[4]", "i32[5,4]",
                   " p: i32[9] = pad[low=(1), high=(1), interior=(1)] c 7:i32[]\n s: i32[4] = slice[start=(2), limit=(6), strides=(1)] p\n"
                   " m: i32[4] = add s x",
                   "m");
    agrees_on_body("i32[12]", "i32[5,12]",
                   " z: i32[1] = slice[start=(3), limit=(4), strides=(1)] x\n i: i32[] = reshape[shape=()] z\n"
                   " a: i32[4] = dynamic_slice[sizes=(4)] w i\n b: i32[4] = dynamic_slice[sizes=(4)] c i\n d: i32[4] = add a b\n"
                   " m: i32[12] = dynamic_update_slice c d i",
                   "m");
    agrees_on_body("f32[4,3]", "f32[5,4,3]",
                   " z: f32[1,1] = slice[start=(3,1), limit=(4,2), strides=(1,1)] x\n y: f32[] = reshape[shape=()] z\n"
                   " i: i8[] = convert_element_type[dtype=i8] y\n t: f32[3,4] = transpose[permutation=(1,0)] w\n"
                   " a: f32[2,2] = dynamic_slice[sizes=(2,2)] t 1:i8[] i\n v: f32[2,2] = rev[axes=(0)] a\n"
                   " m: f32[4,3] = dynamic_update_slice c v i 1:i8[]",
                   "m");
}

/* Carries on the stack: changed in place, read after the change, swapped, in an inner loop. */
TEST(large_carries)
{
#define PLACES "a: f32[300], b: f32[300], i: i32[]"
    static const char *const bodies[] = {
        " u: f32[1] = dynamic_slice[sizes=(1)] b i\n t: f32[1] = tanh u\n c: f32[300] = dynamic_update_slice a t i\n d: f32[300] = sin b",
        " u: f32[7] = dynamic_slice[sizes=(7)] b i\n c: f32[300] = dynamic_update_slice a u i\n d: f32[300] = add a c",
        " u: f32[7] = dynamic_slice[sizes=(7)] b i\n d: f32[300] = dynamic_update_slice a u i\n c: f32[300] = dynamic_update_slice b u 3:i32[]",
        (" u: f32[7] = dynamic_slice[sizes=(7)] a 290:i32[]\n e: f32[300] = dynamic_update_slice b u i\n v: f32[2] = dynamic_slice[sizes=(2)] e i\n"
         " d: f32[300] = dynamic_update_slice e v 5:i32[]\n c: f32[300] = rev[axes=(0)] d"),
    };
    for (size_t k = 0; k < sizeof bodies / sizeof *bodies; k++) {
        char text[2048];
        snprintf(text, sizeof text,
                 "program (" PLACES
                 ") {\n p: f32[300], q: f32[300], n: i32[], y: f32[6,300] = scan[length=6, consts=0, carry=3, body=(" PLACES
                 ") {\n%s\n j: i32[] = add i 3:i32[]\n return c, d, j, a }] a b i\n return p, q, n, y }",
                 bodies[k]);
        agrees(text);
        snprintf(text, sizeof text,
                 "program (" PLACES ") {\n p: f32[300], q: f32[300], n: i32[] = scan[length=4, consts=0, carry=3, body=(" PLACES ") {\n"
                 " p: f32[300], q: f32[300], n: i32[] = scan[length=3, consts=0, carry=3, body=(" PLACES
                 ") {\n%s\n j: i32[] = add i 3:i32[]\n return c, d, j }] b a i\n r: f32[300] = add p a\n return r, q, n }] a b i\n"
                 " return p, q, n }",
                 bodies[k]);
        agrees(text);
    }
#undef PLACES
}

TEST(loops_within)
{
    agrees("program (n: i32[], x: f32[3], s: f32[4,3]) {\n i: i32[], y: f32[3], k: f32[4,3] = while[cond_consts=1, body_consts=2,"
           " cond=(z: f32[3], n: i32[], x: f32[3], k: f32[4,3]) { p: bool[] = lt n 3:i32[]\n return p },"
           " body=(z: f32[3], s: f32[4,3], n: i32[], x: f32[3], k: f32[4,3]) { j: i32[] = add n 1:i32[]\n"
           " y: f32[3], l: f32[4,3] = scan[length=4, consts=1, carry=1, body=(z: f32[3], c: f32[3], s: f32[3], t: f32[3]) {"
           " d: f32[3] = mul c s\n e: f32[3] = add d t\n f: f32[3] = tanh e\n g: f32[3] = sub f z\n return g, e }] z x s k\n"
           " return j, y, l }] x x s n x s\n return i, y, k }");
    agrees(
        "program (h: i32[7], n: i32[7], m: i32[]) {\n i: i32[7], o: i32[] = while[cond_consts=1, body_consts=1,"
        " cond=(h: i32[7], n: i32[7], m: i32[]) { q: bool[7] = lt n h\n p: bool[] = reduce_or[axes=(0)] q\n return p },"
        " body=(h: i32[7], n: i32[7], m: i32[]) { q: bool[7] = lt n h\n b: i32[7] = broadcast_in_dim[shape=(7), broadcast_dimensions=()] m\n"
        " j: i32[7] = add n b\n l: i32[7] = select_n q n j\n a: i32[] = add m 1:i32[]\n return l, a }] h h n m\n return i, o }");
}

/* ------------------------------------------------------------------ going over */

#define COUNTING                                                                                              \
    "program (m: i32[], n: i32[], s: i64[3]) {\n i: i32[], t: i64[3] = while[cond_consts=1, body_consts=0,"   \
    " cond=(m: i32[], n: i32[], s: i64[3]) { p: bool[] = lt n m\n return p },"                                \
    " body=(n: i32[], s: i64[3]) { j: i32[] = add n 1:i32[]\n k: i64[] = convert_element_type[dtype=i64] j\n" \
    " b: i64[3] = broadcast_in_dim[shape=(3), broadcast_dimensions=()] k\n t: i64[3] = add s b\n return j, t }] m n s\n return i, t }"

static void counts(mf_kernel *k, int32_t from, int32_t to)
{
    int32_t n = -1;
    int64_t s[3] = { 1, 20, 300 }, t[3];
    void *scratch = aligned_alloc(64, (k->scratch_bytes + 127) / 64 * 64);
    CHECK(!mf_segment_compiler_native.run(k, (const void *[]){ &to, &from, s }, (void *[]){ &n, t }, scratch));
    free(scratch);
    int64_t last = to > from ? to : from, sum = last * (last + 1) / 2 - (int64_t)from * (from + 1) / 2;
    CHECK_EQ_INT(n, last);
    for (int i = 0; i < 3; i++)
        CHECK_EQ_INT(t[i], s[i] + sum);
}

/* A call that is still running when its loop has been compiled continues in the compiled loop: with steps only it would take half a
 * minute. */
TEST(a_call_goes_over_between_two_rounds)
{
    mf_program *p = parse(COUNTING);
    REQUIRE(p);
    mf_kernel *k = compile(p, MF_TIERS_BACKGROUND);
    int64_t before = mf_compiler_read().loops;
    counts(k, 5, 5);
    counts(k, 0, 300000000);
    CHECK(mf_compiler_read().loops > before);
    for (int32_t n = 0; n < 200; n++)
        counts(k, 0, n);
    mf_segment_compiler_native.destroy(k);
    mf_drop(p);
}

/* Kernels are destroyed while their loops are being emitted or compiled; the steps inside are gone with them. */
TEST(kernels_end_meanwhile)
{
    for (int i = 0; i < 12; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "program (x: f32[]) {\n y: f32[] = scan[length=100000, carry=1, body=(x: f32[]) { a: f32[] = mul x %d.5:f32[]\n"
                 " b: f32[] = tanh a\n return b }] x\n return y }",
                 i);
        mf_program *p = parse(text);
        REQUIRE(p);
        mf_kernel *k = compile(p, MF_TIERS_BACKGROUND);
        buffers in = make(p->in, 1, true), out = make(p->out, 1, false);
        run(k, &in, &out);
        if (i % 3)
            nanosleep(&(struct timespec){ 0, (i / 3 * 9 + 20) * 1000000L }, NULL);
        mf_segment_compiler_native.destroy(k);
        drop(&in);
        drop(&out);
        mf_drop(p);
    }
    mf_tier_up_drain();
    CHECK_EQ_INT(mf_compiler_read().waiting, 0);
}
