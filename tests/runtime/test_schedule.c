/* On which side of a map an equation runs: uniform values are computed once, but views where they are read. */
#include "check.h"
#include "ir/program.h"
#include "runtime/compile/schedule/schedule.h"

/* Checks the sides of the equations' results, as letters in their order: d per device, o once for all. The first input is uniform. */
static void expect_sides(const char *text, const char *sides)
{
    mf_error_object *error = NULL;
    const mf_axis_env *env = mf_axis_env_push(NULL, mf_intern("i"), 4, 1);
    mf_program *p = mf_program_parse(text, env, &error);
    REQUIRE(CHECK(p) || CHECK_NOTE("%s", mf_error_text(error)));
    const bool once[8] = { true };
    mf_arena arena = { 0 };
    mf_schedule s;
    CHECK(mf_schedule_make(&s, mf_segment_compiler_default(), &arena, p, env, once, 0) == NULL);
    CHECK(mf_schedule_partition(&s, &arena));
    char found[64] = { 0 };
    for (int i = 0; i < p->eqn_count && i < 63; i++)
        found[i] = s.side[p->eqns[i]->out[0]->id] == MF_UNIFORM ? 'o' : 'd';
    CHECK(!strcmp(found, sides) || CHECK_NOTE("%s, not %s", found, sides));
    mf_schedule_free(&s);
    mf_arena_free(&arena);
    mf_drop(p);
}

TEST(what_is_uniform_is_computed_once)
{
    expect_sides("program (w: f32[4], x: f32[4]) {\n a: f32[4] = exp w\n b: f32[4] = mul x a\n s: f32[4] = psum[axes=(i)] b\n"
                 " c: f32[4] = sub w s\n return c, b }",
                 "odoo");
}

TEST(views_belong_to_their_readers)
{
    expect_sides(
        "program (w: f32[4], x: f32[3,4]) {\n a: f32[4] = exp w\n b: f32[3,4] = broadcast_in_dim[shape=(3,4), broadcast_dimensions=(1)] a\n"
        " c: f32[3,4] = mul x b\n return c }",
        "odd");
    /* through other views, and also from a constant */
    expect_sides(
        "program (w: f32[4], x: f32[3,4]) {\n a: f32[4] = rev[axes=(0)] w\n b: f32[3,4] = broadcast_in_dim[shape=(3,4), broadcast_dimensions=(1)] a\n"
        " z: f32[3,4] = broadcast_in_dim[shape=(3,4), broadcast_dimensions=()] 0:f32[]\n c: f32[3,4] = max x z\n"
        " d: f32[3,4] = mul c b\n return d }",
        "ddddd");
}

TEST(views_that_somebody_else_reads_stay)
{
    expect_sides("program (w: f32[4], x: f32[4]) {\n a: f32[4] = rev[axes=(0)] w\n b: f32[4] = exp a\n c: f32[4] = mul x a\n"
                 " return b, c }",
                 "ood");
    expect_sides("program (w: f32[4], x: f32[4]) {\n a: f32[4] = rev[axes=(0)] w\n c: f32[4] = mul x a\n return a, c }", "od");
    expect_sides("program (w: f32[4], x: f32[4]) {\n a: f32[4] = rev[axes=(0)] w\n s: f32[4] = psum[axes=(i)] a\n"
                 " c: f32[4] = mul x a\n return s, c }",
                 "ood");
}

/* ------------------------------------------------------------------ what moves to its readers */

/* Checks the operations of each item in order, with items separated by " | ". The first input is uniform. */
static void expect_order(const char *text, int64_t bucket, const char *items)
{
    mf_error_object *error = NULL;
    const mf_axis_env *env = mf_axis_env_push(NULL, mf_intern("i"), 4, 1);
    mf_program *p = mf_program_parse(text, env, &error);
    REQUIRE(CHECK(p) || CHECK_NOTE("%s", mf_error_text(error)));
    const bool once[8] = { true };
    mf_arena arena = { 0 };
    mf_schedule s;
    mf_text found = { 0 };
    CHECK(mf_schedule_make(&s, mf_segment_compiler_default(), &arena, p, env, once, bucket) == NULL);
    CHECK(mf_schedule_partition(&s, &arena));
    for (int i = 0; i < s.item_count; i++) {
        mf_text_put(&found, i ? " |" : "");
        for (int k = 0; k < s.items[i].count; k++)
            mf_text_add(&found, "%s%s", i || k ? " " : "", s.items[i].eqns[k]->op->name);
    }
    CHECK_STR(found.at, items);
    mf_text_free(&found);
    mf_schedule_free(&s);
    mf_arena_free(&arena);
    mf_drop(p);
}

static void expect_items(const char *text, const char *items) { expect_order(text, 0, items); }

TEST(a_broadcast_is_made_in_every_segment_that_reads_it)
{
    expect_items("program (w: f32[4], x: f32[4]) {\n b: f32[4] = broadcast_in_dim[shape=(4), broadcast_dimensions=()] 2.0:f32[]\n"
                 " c: f32[4] = mul x b\n s: f32[4] = psum[axes=(i)] c\n d: f32[4] = mul x s\n e: f32[4] = exp d\n f: f32[4] = add e b\n"
                 " return f }",
                 "broadcast_in_dim mul | psum | broadcast_in_dim mul exp add");
    /* a result is computed in place, and again where it is read */
    expect_items("program (w: f32[4], x: f32[4]) {\n b: f32[4] = broadcast_in_dim[shape=(4), broadcast_dimensions=()] 2.0:f32[]\n"
                 " c: f32[4] = mul x b\n s: f32[4] = psum[axes=(i)] c\n d: f32[4] = add s b\n e: f32[4] = mul d x\n return e, b }",
                 "broadcast_in_dim | broadcast_in_dim mul | psum | broadcast_in_dim add | mul");
}

TEST(what_one_later_segment_reads_is_computed_there)
{
    /* Adam's first moment: the old value is available before the gradients */
    expect_items("program (m: f32[4], x: f32[4]) {\n a: f32[4] = mul m m\n g: f32[4] = exp x\n s: f32[4] = psum[axes=(i)] g\n"
                 " c: f32[4] = add a s\n return c }",
                 " | exp | psum | mul add");
    /* a chain moves as a whole */
    expect_items("program (m: f32[4], x: f32[4]) {\n a: f32[4] = mul x x\n b: f32[4] = neg a\n g: f32[4] = exp x\n"
                 " s: f32[4] = psum[axes=(i)] g\n c: f32[4] = mul x s\n d: f32[4] = add b c\n return d }",
                 "exp | psum | mul neg mul add");
}

TEST(what_would_carry_more_stays)
{
    /* the sum is smaller than its operand */
    expect_items("program (m: f32[4], x: f32[4,8]) {\n a: f32[4] = reduce_sum[axes=(1)] x\n b: f32[4] = exp a\n"
                 " s: f32[4] = psum[axes=(i)] a\n c: f32[4] = mul b s\n return c, b }",
                 "reduce_sum exp | psum | mul");
    expect_items("program (m: f32[4], x: f32[4]) {\n p: f32[4] = sort[axis=0, keys=1] x\n q: f32[4] = rev[axes=(0)] p\n"
                 " a: f32[4] = mul p q\n t: f32[4] = exp p\n s: f32[4] = psum[axes=(i)] t\n c: f32[4] = mul a s\n return c, t }",
                 "sort rev mul exp | psum | mul");
}

/* x -> t by `operation`; t is summed over the devices after `summed`, and read again after that. */
#define READ_TWICE(n, type, operation, summed, read)                                                           \
    "program (w: f32[4], x: f32[" n "]) {\n t: " type "[" n "] = " operation "\n u: f32[" n "] = " summed "\n" \
    " a: f32[] = reduce_sum[axes=(0)] u\n s: f32[] = psum[axes=(i)] a\n"                                       \
    " b: f32[" n "] = broadcast_in_dim[shape=(" n "), broadcast_dimensions=()] s\n c: f32[" n "] = " read "\n return c"

TEST(what_several_segments_read_is_computed_again_where_that_moves_less)
{
    /* as in a normalisation and its gradient: both segments need x, so t need not be passed between them */
    expect_items(READ_TWICE("65536", "f32", "neg x", "mul t t", "mul t b") " }", "neg mul reduce_sum | psum | neg broadcast_in_dim mul");
    expect_items(READ_TWICE("65536", "f32", "neg x", "mul t x", "mul u b") " }",
                 "neg mul reduce_sum | psum | neg mul broadcast_in_dim mul");
}

TEST(what_would_move_or_work_more_is_computed_once)
{
    const char *once = "neg mul reduce_sum | psum | broadcast_in_dim mul";
    expect_items(READ_TWICE("64", "f32", "neg x", "mul t t", "mul t b") " }", once);       /* it fits in a cache */
    expect_items(READ_TWICE("65536", "f32", "neg x", "mul t t", "mul t b") ", t }", once); /* it is a result, so it is written anyway */
    expect_items(READ_TWICE("65536", "f32", "tan x", "mul t t", "mul t b") " }", "tan mul reduce_sum | psum | broadcast_in_dim mul");
    /* a mask is a fourth of its operand's size */
    expect_items(READ_TWICE("262144", "bool", "is_finite x", "select_n t x x", "select_n t b b") " }",
                 "is_finite select_n reduce_sum | psum | broadcast_in_dim select_n");
}

/* A product that feeds a scan, which waits for a collective, is in the scan's segment, where it may be computed in the iterations. */
TEST(what_feeds_a_loop_stands_beside_it)
{
    if (!mf_segment_compiler_find("native") || !mf_segment_compiler_default()->feeds)
        SKIP("the native engine does not run here");
    const char *text =
        "program (w: f32[64,64], x: f32[16,2000,64], v: f32[64,64], g: f32[16,64]) {\n"
        " e: f32[2000,16,64] = transpose[permutation=(1,0,2)] x\n"
        " f: f32[2000,16,64] = dot_general[lhs_contract=(2), rhs_contract=(0)] e v\n s: f32[16,64] = psum[axes=(i)] g\n"
        " d: f32[16,64] = scan[length=2000, consts=1, carry=1, body=(w: f32[64,64], h: f32[16,64], x: f32[16,64]) {"
        " t: f32[16,64] = dot_general[lhs_contract=(1), rhs_contract=(0)] h w\n u: f32[16,64] = add t x\n return u }] w s f\n"
        " return d }";
    const char *longer =
        "program (w: f32[80,80], x: f32[16,2000,80], v: f32[80,80], g: f32[16,80]) {\n"
        " e: f32[2000,16,80] = transpose[permutation=(1,0,2)] x\n"
        " f: f32[2000,16,80] = dot_general[lhs_contract=(2), rhs_contract=(0)] e v\n s: f32[16,80] = psum[axes=(i)] g\n"
        " d: f32[16,80] = scan[length=2000, consts=1, carry=1, body=(w: f32[80,80], h: f32[16,80], x: f32[16,80]) {"
        " t: f32[16,80] = dot_general[lhs_contract=(1), rhs_contract=(0)] h w\n u: f32[16,80] = add t x\n return u }] w s f\n"
        " return d }";
    expect_items(text, "transpose dot_general | psum | scan"); /* too little work in an iteration */
    expect_items(longer, " | psum | transpose dot_general scan");
}

/* ------------------------------------------------------------------ collectives that begin early */

#define TWO_SUMS(type)                                                                                                 \
    "program (w: f32[], x: " type ") {\n a: " type " = exp x\n b: " type " = sin a\n t: " type " = psum[axes=(i)] b\n" \
    " s: " type " = psum[axes=(i)] a\n c: " type " = mul s x\n d: " type " = add c t\n return d }"

TEST(a_collective_may_begin_before_what_it_does_not_need)
{
    expect_order(TWO_SUMS("f32[262144]"), 0, "exp sin | psum psum | mul add");
    expect_order(TWO_SUMS("f32[262144]"), 1 << 20, "exp | psum | sin | psum | mul add");
    expect_order(TWO_SUMS("f32[4]"), 1 << 20, "exp sin | psum psum | mul add"); /* small sums are sent together */
}
