/* On which side of a map an equation runs: what is the same everywhere once, but views where they are read. */
#include "check.h"
#include "ir/program.h"
#include "runtime/plan.h"

/* The sides of the results of the equations, as letters in their order: d a device's, o once for all. The first input is uniform. */
static void expect_sides(const char *text, const char *sides)
{
    mf_error_object *error = NULL;
    const mf_axis_env *env = mf_axis_env_push(NULL, mf_intern("i"), 4, 1);
    mf_program *p = mf_program_parse(text, env, &error);
    REQUIRE(CHECK(p) || CHECK_NOTE("%s", mf_error_text(error)));
    const bool once[8] = { true };
    mf_arena arena = { 0 };
    mf_schedule s;
    CHECK(mf_schedule_make(&s, &arena, p, env, once) == NULL);
    char found[64] = { 0 };
    for (int i = 0; i < p->eqn_count && i < 63; i++)
        found[i] = s.side[p->eqns[i]->out[0]->id] == MF_ONCE ? 'o' : 'd';
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
    /* through others, and also where it comes from a number */
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
