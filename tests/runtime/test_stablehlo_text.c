/* as_text("stablehlo"): what users and plugins get, as text. stablehlo/<name>.mlir holds the module of each program below. To write them
 * anew after a change that is meant: MF_GOLDEN_WRITE=1 build/tests/runtime/test_stablehlo_text; then read the difference, and have
 * ops/test_stablehlo_run read them. */
#include "check.h"

#include <manyfold.h>

#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

/* ---- the programs */

static mf_value f32(mf_shape s) { return mf_struct(s, MF_F32); }

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
static mf_value factors(mf_value x) { return mf_qr(x); }

static mf_function lowered(const char *name)
{
    if (!strcmp(name, "affine"))
        return mf_lower(mf_jit(affine), f32(MF_SHAPE(2, 3)), f32(MF_SHAPE(3)));
    if (!strcmp(name, "normalize"))
        return mf_lower(mf_pmap(normalize, "i"), f32(MF_SHAPE(4, 8)));
    if (!strcmp(name, "regression_donated"))
        return mf_lower(mf_pmap(step, "i", .in_axes = mf_axes(MF_NONE, 0, 0), .out_axes = MF_NONE, .donate_argnums = MF_INTS(0)),
                        f32(MF_SHAPE(8)), f32(MF_SHAPE(4, 16, 8)), f32(MF_SHAPE(4, 16)));
    if (!strcmp(name, "groups"))
        return mf_lower(mf_pmap(in_groups, "i"), f32(MF_SHAPE(4, 2)));
    if (!strcmp(name, "nested"))
        return mf_lower(mf_pmap(outer, "i"), f32(MF_SHAPE(2, 3, 2)));
    if (!strcmp(name, "control_flow"))
        return mf_lower(mf_jit(branch), f32(MF_SHAPE(3)));
    if (!strcmp(name, "scan"))
        return mf_lower(mf_jit(running), f32(MF_SHAPE(2)), f32(MF_SHAPE(5, 2)));
    if (!strcmp(name, "random_bits"))
        return mf_lower(mf_jit(draw), mf_random_key(0));
    return mf_lower(mf_jit(twice_mapped), f32(MF_SHAPE(4, 8)));
}

static const char *const names[] = { "affine", "normalize",   "regression_donated", "groups",      "nested",
                                     "scan",   "random_bits", "control_flow",       "map_in_a_jit" };

/* ---- comparing */

static void read_file(const char *path, char *buffer, size_t size)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(buffer, 1, size - 1, f) : 0;
    buffer[n] = 0;
    if (f)
        fclose(f);
}

static void compare(const char *name)
{
    static char expected[1 << 16];
    char path[512];
    const char *found = mf_as_text(lowered(name), MF_TEXT_STABLEHLO);
    snprintf(path, sizeof path, "%s/runtime/stablehlo/%s.mlir", MF_TESTS_DIR, name);
    if (getenv("MF_GOLDEN_WRITE")) {
        FILE *f = fopen(path, "wb");
        REQUIRE(CHECK(f));
        fputs(found, f);
        fclose(f);
    }
    read_file(path, expected, sizeof expected);
    CHECK_STR(found, expected);
}

TEST(modules_are_as_they_were)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare(names[i]);
}

TEST(a_compiled_function_says_the_same)
{
    const char *text = mf_as_text(mf_compile(mf_jit(affine), f32(MF_SHAPE(2, 3)), f32(MF_SHAPE(3))), MF_TEXT_STABLEHLO);
    CHECK_STR(text, mf_as_text(lowered("affine"), MF_TEXT_STABLEHLO));
}

TEST(what_has_none_is_named)
{
    const char *text = mf_as_text(mf_lower(mf_jit(factors), f32(MF_SHAPE(3, 3))), MF_TEXT_STABLEHLO);
    CHECK_CONTAINS(text, "qr has no StableHLO: a factorisation");
    CHECK(!strstr(text, "module"));
}

static mf_value three_then_four(mf_value x, mf_value y) { return mf_tuple(mf_call(mf_pmap(twice), x), mf_call(mf_pmap(twice), y)); }

TEST(maps_that_share_no_replicas_are_refused)
{
    const char *text = mf_as_text(mf_lower(mf_jit(three_then_four), f32(MF_SHAPE(3, 2)), f32(MF_SHAPE(4, 2))), MF_TEXT_STABLEHLO);
    CHECK_CONTAINS(text, "a map over 3 devices stands where there are 4");
}
