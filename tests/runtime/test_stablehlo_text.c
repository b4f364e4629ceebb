/* as_text("stablehlo"): what users and plugins get, as text. stablehlo/<name>.mlir holds the module of each program below. To write them
 * anew after a change that is meant: MF_GOLDEN_WRITE=1 build/tests/runtime/test_stablehlo_text; then read the difference, and have
 * ops/test_stablehlo_run read them. With MF_STABLEHLO_DIR=folder the modules of all programs are written there with arguments and results,
 * as ops/test_stablehlo does for rows. With MF_PJRT_PLUGIN=path,name all programs are run on that plugin beside our CPU, which is what
 * scripts/test_pjrt.sh does. */
#include "golden.h"

#include <manyfold.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

/* ---- the programs */

static mf_value affine(mf_value x, mf_value w) { return mf_add(mf_dot(x, w), 1); }
static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value loss(mf_value w, mf_value x, mf_value y) { return mf_mean(mf_square(mf_sub(mf_dot(x, w), y))); }
static mf_value step(mf_value w, mf_value x, mf_value y)
{
    mf_value g = mf_call(mf_grad(loss), w, x, y);
    return mf_sub(w, mf_mul(0.1, mf_pmean(g, "i")));
}
static mf_value in_groups(mf_value x)
{
    mf_value pairs = mf_list(mf_list(0, 2), mf_list(1, 3));
    return mf_psum(x, "i", .axis_index_groups = pairs);
}
static mf_value inner_sum(mf_value x) { return mf_add(mf_psum(x, "j"), mf_psum(x, "i", "j")); }
static mf_value outer(mf_value x) { return mf_call(mf_pmap(inner_sum, "j"), x); }
static mf_value small(mf_value x) { return mf_less(mf_sum(x), 100); }
static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static mf_value negated(mf_value x) { return mf_neg(x); }
static mf_value branch(mf_value x) { return mf_cond(mf_greater(mf_sum(x), 0), twice, negated, mf_while(small, twice, x)); }
static mf_value add_up(mf_value c, mf_value x)
{
    mf_value next = mf_add(c, x);
    return mf_tuple(next, next);
}
static mf_value running(mf_value c, mf_value xs) { return mf_scan(add_up, c, xs); }
static mf_value draw(mf_value key) { return mf_random_bits(key, MF_SHAPE(3), MF_U32); }
static mf_value twice_mapped(mf_value x)
{
    mf_function f = mf_pmap(normalize, "i");
    return mf_call(f, mf_call(f, x));
}
static mf_value told(mf_value x)
{
    mf_debug_print("{}", x);
    return x;
}

static mf_value cell(mf_value h, mf_value x)
{
    mf_value next = mf_tanh(mf_add(h, mf_psum(x, "i")));
    return mf_tuple(next, mf_sum(next));
}
static mf_value recurrent(mf_value h, mf_value xs) { return mf_scan(cell, h, xs, .reverse = true); }
static mf_value small_everywhere(mf_value x) { return mf_less(mf_psum(mf_sum(x), "i"), 100); }
static mf_value grow(mf_value x) { return mf_while(small_everywhere, twice, x); }
static mf_value choose(mf_value x) { return mf_cond(mf_greater(mf_psum(mf_sum(x), "i"), 0), twice, negated, x); }
static mf_value exchanged(mf_value x)
{
    mf_value swap = mf_list(mf_tuple(0, 1), mf_tuple(1, 0));
    return mf_tuple(mf_all_gather(x, 0, "i"), mf_ppermute(x, "i", swap), mf_psum_scatter(x, 0, "i"), mf_all_to_all(x, 0, 0, "i"),
                    mf_axis_index("i"));
}
static mf_value recurrence_loss(mf_value h, mf_value xs) { return mf_sum(mf_get(mf_scan(add_up, h, mf_tanh(xs)), 1)); }
static mf_value recurrence_gradient(mf_value h, mf_value xs) { return mf_call(mf_grad(recurrence_loss, .argnums = MF_INTS(1)), h, xs); }
static mf_value kept_again(mf_value x) { return mf_sum(mf_sin(mf_sin(x))); }
static mf_value remat_gradient(mf_value x) { return mf_call(mf_grad(mf_remat(kept_again)), x); }
static mf_value standardised(mf_value x)
{
    mf_value m = mf_mean(x, 0);
    return mf_div(mf_sub(x, m), mf_sqrt(mf_mean(mf_square(mf_sub(x, m)), 0)));
}
static mf_value drawn(mf_value x) { return mf_add(x, mf_random_normal(mf_random_key(3), mf_shape_of(x), MF_F32)); }

enum { OPERANDS = 3, RESULTS = 5, ALL = -1 };
typedef struct program {
    const char *name;
    mf_function (*make)(void);
    int operands, results;
    int64_t shapes[OPERANDS][4]; /* ending with 0; what is 0 by itself is the key of random_bits */
    bool mapped;
    int in_axes[OPERANDS], out_axes[RESULTS]; /* ALL: the same everywhere */
    bool golden;
    int nested; /* maps that are right inside, of the axes that follow */
} program;

#define MAKE(name, ...) \
    static mf_function make_##name(void) { return __VA_ARGS__; }
MAKE(affine, mf_jit(affine))
MAKE(normalize, mf_pmap(normalize, "i"))
MAKE(step, mf_pmap(step, "i", .in_axes = mf_axes(MF_NONE, 0, 0), .out_axes = MF_NONE, .donate_argnums = MF_INTS(0)))
MAKE(in_groups, mf_pmap(in_groups, "i"))
MAKE(outer, mf_pmap(outer, "i"))
MAKE(running, mf_jit(running))
MAKE(draw, mf_jit(draw))
MAKE(branch, mf_jit(branch))
MAKE(twice_mapped, mf_jit(twice_mapped))
MAKE(recurrent, mf_pmap(recurrent, "i"))
MAKE(grow, mf_pmap(grow, "i"))
MAKE(choose, mf_pmap(choose, "i"))
MAKE(exchanged, mf_pmap(exchanged, "i"))
MAKE(recurrence_gradient, mf_jit(recurrence_gradient))
MAKE(remat_gradient, mf_jit(remat_gradient))
MAKE(standardised, mf_jit(standardised))
MAKE(drawn, mf_pmap(drawn))

static const program programs[] = {
    { "affine", make_affine, 2, 1, { { 2, 3 }, { 3 } }, .golden = true },
    { "normalize", make_normalize, 1, 1, { { 4, 8 } }, .mapped = true, .golden = true },
    { "regression_donated", make_step, 3, 1, { { 8 }, { 4, 16, 8 }, { 4, 16 } }, true, { ALL, 0, 0 }, { ALL }, true, 0 },
    { "groups", make_in_groups, 1, 1, { { 4, 2 } }, .mapped = true, .golden = true },
    { "nested", make_outer, 1, 1, { { 2, 3, 2 } }, .mapped = true, .golden = true, .nested = 1 },
    { "scan", make_running, 2, 2, { { 2 }, { 5, 2 } }, .golden = true },
    { "random_bits", make_draw, 1, 1, { { 0 } }, .golden = true },
    { "control_flow", make_branch, 1, 1, { { 3 } }, .golden = true },
    { "map_in_a_jit", make_twice_mapped, 1, 1, { { 4, 8 } }, .golden = true },
    { "recurrent", make_recurrent, 2, 2, { { 4, 8 }, { 4, 5, 8 } }, .mapped = true },
    { "grow", make_grow, 1, 1, { { 4, 3 } }, .mapped = true },
    { "choose", make_choose, 1, 1, { { 4, 3 } }, .mapped = true },
    { "exchanged", make_exchanged, 1, 5, { { 2, 2, 3 } }, .mapped = true },
    { "recurrence_gradient", make_recurrence_gradient, 2, 1, { { 2 }, { 5, 2 } }, .mapped = false },
    { "remat_gradient", make_remat_gradient, 1, 1, { { 7 } }, .mapped = false },
    { "standardised", make_standardised, 1, 1, { { 64, 10 } }, .mapped = false },
    { "drawn", make_drawn, 1, 1, { { 4, 9 } }, .mapped = true },
};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static int rank_of(const int64_t *shape)
{
    int rank = 0;
    while (rank < 4 && shape[rank])
        rank++;
    return rank;
}

/* Numbers about 1, each time the same ones. */
static mf_value operand(const program *p, int k)
{
    int rank = rank_of(p->shapes[k]);
    mf_shape shape = { .rank = rank };
    int64_t size = 1;
    for (int i = 0; i < rank; i++) {
        shape.dims[i] = p->shapes[k][i];
        size *= shape.dims[i];
    }
    if (!rank)
        return mf_random_key(0);
    return mf_reshape(mf_add(mf_sin(mf_arange(size, MF_F32)), 0.5 + k), shape);
}

static mf_function lowered_program(const program *p)
{
    mf_value in[OPERANDS];
    for (int k = 0; k < p->operands; k++)
        in[k] = operand(p, k);
    return mf_lower_n(p->make(), in, p->operands);
}

static mf_function lowered(const char *name)
{
    int i = 0;
    while (i + 1 < PROGRAMS && strcmp(programs[i].name, name) != 0)
        i++;
    return lowered_program(&programs[i]);
}

/* ---- comparing */

static void compare(const char *name)
{
    char file[128];
    snprintf(file, sizeof file, "runtime/stablehlo/%s.mlir", name);
    golden_compare(file, mf_as_text(lowered(name), MF_TEXT_STABLEHLO));
}

TEST(modules_are_as_they_were)
{
    SKIP_UNLESS_GCC();
    for (int i = 0; i < PROGRAMS; i++)
        if (programs[i].golden)
            compare(programs[i].name);
}

/* ---- for XLA */

static void write_array(FILE *f, const char *word, mf_value v, int axis, int nested)
{
    static unsigned char bytes[1 << 16];
    mf_dtype d = mf_dtype_of(v);
    mf_shape shape = mf_shape_of(v);
    size_t size = 4 * (size_t)mf_size(v);
    REQUIRE(CHECK(size <= sizeof bytes && (d == MF_F32 || d == MF_I32 || d == MF_U32)));
    CHECK(mf_to_host(v, d, bytes, (size_t)mf_size(v)) == MF_OK);
    /* sums of some hundred terms about 1, and functions of them */
    fprintf(f, "%s %s %d", word, d == MF_F32 ? "f32" : d == MF_I32 ? "i32" : "u32", axis);
    for (int k = 1; k <= nested; k++)
        fprintf(f, ",%d", axis + k);
    fputs(" 2e-5 ", f);
    for (int i = 0; i < shape.rank; i++)
        fprintf(f, "%s%lld", i ? "," : "", (long long)shape.dims[i]);
    fputs(" 0x", f);
    for (size_t i = 0; i < size; i++)
        fprintf(f, "%02x", bytes[i]);
    fputc('\n', f);
}

static void write_program(const program *p, const char *module, const char *folder)
{
    char path[1024];
    mf_value in[OPERANDS];
    snprintf(path, sizeof path, "%s/program_%s.txt", folder, p->name);
    FILE *f = fopen(path, "w");
    REQUIRE(CHECK(f));
    fprintf(f, "op %s %d %d\n", p->name, atoi(strstr(module, "mhlo.num_replicas = ") + 20), p->mapped);
    for (int k = 0; k < p->operands; k++) {
        in[k] = operand(p, k);
        write_array(f, "in", in[k], p->mapped ? p->in_axes[k] : ALL, p->nested);
    }
    mf_value out = mf_call_n(p->make(), in, p->operands);
    for (int o = 0; o < p->results; o++)
        write_array(f, "out", p->results > 1 ? mf_get(out, o) : out, p->mapped ? p->out_axes[o] : ALL, p->nested);
    fputs(module, f);
    fclose(f);
}

TEST(programs_become_modules)
{
    for (int i = 0; i < PROGRAMS; i++) {
        const char *text = mf_as_text(lowered_program(&programs[i]), MF_TEXT_STABLEHLO);
        CHECK_CONTAINS(text, "func.func public @main(");
        if (getenv("MF_STABLEHLO_DIR"))
            write_program(&programs[i], text, getenv("MF_STABLEHLO_DIR"));
    }
}

TEST(a_compiled_function_says_the_same)
{
    const char *text = mf_as_text(mf_compile(mf_jit(affine), mf_struct(MF_SHAPE(2, 3), MF_F32), mf_struct(MF_SHAPE(3), MF_F32)),
                                  MF_TEXT_STABLEHLO);
    CHECK_STR(text, mf_as_text(lowered("affine"), MF_TEXT_STABLEHLO));
}

TEST(what_has_none_is_named)
{
    const char *text = mf_as_text(mf_lower(mf_jit(told), mf_struct(MF_SHAPE(3, 3), MF_F32)), MF_TEXT_STABLEHLO);
    CHECK_CONTAINS(text, "debug_print has no StableHLO: ");
    CHECK(!strstr(text, "module"));
}

static mf_value above_one(mf_value x) { return mf_greater(mf_sum(x), 1); }
static mf_value half(mf_value x) { return mf_div(x, 2); }
static mf_value unchanged(mf_value x) { return x; }
static mf_value halved(mf_value x) { return mf_while(above_one, half, x); }
static mf_value halved_at_times(mf_value x) { return mf_cond(mf_less(mf_sum(x), 100), halved, unchanged, x); }
static mf_value three_then_four(mf_value x, mf_value y) { return mf_tuple(mf_call(mf_pmap(twice), x), mf_call(mf_pmap(twice), y)); }
static mf_value loops_then_four(mf_value x, mf_value y)
{
    return mf_tuple(mf_call(mf_pmap(halved_at_times), x), mf_call(mf_pmap(twice), y));
}

TEST(maps_that_share_no_replicas_are_rows)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(3, 2), MF_F32), y = mf_ones(MF_SHAPE(4, 2), MF_F32);
    const char *text = mf_as_text(mf_lower(mf_jit(three_then_four), x, y), MF_TEXT_STABLEHLO);
    CHECK_CONTAINS(text, "mhlo.num_replicas = 4");
    CHECK_CONTAINS(text, "\"stablehlo.multiply\"(%arg0, %2) : (tensor<3x2xf32>, tensor<3x2xf32>) -> (tensor<3x2xf32>)");
    text = mf_as_text(mf_lower(mf_jit(loops_then_four), x, y), MF_TEXT_STABLEHLO); /* rows that do not loop would never end */
    CHECK_CONTAINS(text, "a map over 3 devices stands where there are 4");
}

/* ---- on a plugin */
enum { MOST_NUMBERS = 1 << 12 };
typedef struct numbers {
    double at[RESULTS][MOST_NUMBERS];
    int64_t count[RESULTS];
} numbers;

static bool run(const program *p, const mf_value *in, numbers *out)
{
    mf_value all = mf_call_n(p->make(), in, p->operands);
    for (int o = 0; o < p->results; o++) {
        mf_value one = p->results > 1 ? mf_get(all, o) : all;
        out->count[o] = mf_size(one);
        if (out->count[o] > MOST_NUMBERS || mf_to_host(mf_astype(one, MF_F64), MF_F64, out->at[o], (size_t)out->count[o]) != MF_OK)
            return CHECK_NOTE("%s: %s", p->name, mf_is_error(one) ? mf_error(one) : "too many numbers");
    }
    return true;
}

static bool same_numbers(const program *p, const numbers *got, const numbers *want)
{
    for (int o = 0; o < p->results; o++) {
        if (got->count[o] != want->count[o])
            return CHECK_NOTE("%s: result %d has %lld numbers", p->name, o, (long long)got->count[o]);
        for (int64_t i = 0; i < want->count[o]; i++) {
            double x = got->at[o][i], y = want->at[o][i];
            if (!(fabs(x - y) <= 2e-5 * fmax(1, fabs(y))))
                return CHECK_NOTE("%s: number %lld of result %d is %.9g, not %.9g", p->name, (long long)i, o, x, y);
        }
    }
    return true;
}

TEST(programs_give_the_same_on_a_plugin)
{
    const char *plugin = getenv("MF_PJRT_PLUGIN"), *comma = plugin ? strrchr(plugin, ',') : NULL;
    static numbers want, got;
    if (!plugin)
        SKIP("no plugin is named");
    for (int i = 0; i < PROGRAMS; i++) {
        MF_SCOPE;
        mf_value in[OPERANDS], again[OPERANDS]; /* one of them is donated */
        CHECK_EQ_INT(mf_set_default_backend("cpu"), MF_OK);
        for (int k = 0; k < programs[i].operands; k++) {
            in[k] = operand(&programs[i], k);
            again[k] = operand(&programs[i], k);
        }
        bool ran = run(&programs[i], in, &want);
        CHECK_EQ_INT(mf_set_default_backend(comma ? comma + 1 : "pjrt"), MF_OK);
        CHECK(ran && run(&programs[i], again, &got) && same_numbers(&programs[i], &got, &want));
    }
    CHECK_EQ_INT(mf_set_default_backend("cpu"), MF_OK);
}
