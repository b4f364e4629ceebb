/* The passes on text: tests/passes/golden; ir/golden.h says how the files look and how they are written anew. */
#include "ir/golden.h"

TEST(golden_passes) { golden_folder("passes/golden"); }

/* Checks the variance masks of the outputs of a program whose first input varies over i (the outer axis) and whose second varies over j. */
static void check_variance(const char *text, const uint64_t *want)
{
    const mf_axis_env *env = mf_axis_env_push(mf_axis_env_push(NULL, mf_intern("i"), 4, 1), mf_intern("j"), 2, 1);
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, env, &error);
    if (!p)
        CHECK_NOTE("%s", error->message);
    REQUIRE(p);
    uint64_t in[] = { 1, 2 }, *mask = mf_variance_of(p, env, in);
    REQUIRE(mask);
    for (int i = 0; i < p->out_count; i++)
        CHECK_EQ_UINT(mask[p->out[i]->id], want[i]);
    mf_free(mask);
    mf_drop(p);
}

TEST(variance_follows_the_rows)
{
    check_variance("program (a: f32[4], b: f32[4]) {\n"
                   "  c: f32[4] = add a b\n"
                   "  d: f32[4] = psum[axes=(i)] c\n"
                   "  e: f32[4] = psum[axes=(i,j)] c\n"
                   "  f: i32[] = axis_index[axes=(j)]\n"
                   "  g: f32[4] = neg a\n"
                   "  return c, d, e, f, g, 1.0:f32[]\n}",
                   (uint64_t[]){ 3, 2, 0, 2, 1, 0 });
    check_variance("program (a: f32[4], b: f32[4]) {\n"
                   "  c: f32[4], d: f32[4] = jit[name=f, program=(a: f32[4], b: f32[4]) {\n"
                   "    c: f32[4] = psum[axes=(i)] a\n"
                   "    return c, b\n"
                   "  }] a b\n"
                   "  return c, d\n}",
                   (uint64_t[]){ 0, 2 });
}

TEST(a_step_verifies_and_lets_good_programs_pass)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse("program (a: f32[]) { b: f32[] = neg a\n return b }", NULL, &error);
    REQUIRE(p);
    CHECK(!mf_program_step(p, NULL, "trace"));
    mf_drop(p);
}
