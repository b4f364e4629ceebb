/* The builder, comparison and the verifier, tested through internals: what texts cannot express. */
#include "check.h"
#include "ops/params.h"
#include "ops/ops.h"

static const mf_type *f32x4(void) { return mf_type_get(MF_F32, false, 1, (int64_t[]){ 4 }); }

static mf_program *parse(const char *text, const mf_axis_env *env)
{
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, env, &error);
    if (!p)
        CHECK_NOTE("%s", error->message);
    return p;
}

/* Checks that the message contains `part`, and releases the error. */
static void check_error(mf_error_object *e, const char *part)
{
    REQUIRE(e);
    CHECK_CONTAINS(e->message, part);
    mf_error_handle(e);
    mf_drop(e);
}

TEST(a_constant_appears_once)
{
    mf_builder b;
    mf_builder_init(&b, NULL);
    mf_literal *literals[100];
    mf_variable *vars[100];
    for (int i = 0; i < 100; i++) {
        literals[i] = mf_literal_number(MF_F32, false, i);
        vars[i] = mf_builder_constant(&b, literals[i]);
    }
    for (int i = 0; i < 100; i++) {
        CHECK(mf_builder_constant(&b, literals[i]) == vars[i]);
        CHECK(mf_builder_number(&b, MF_F32, false, i) == vars[i]); /* small constants are found by their bits */
    }
    CHECK_EQ_INT(b.program->var_count, 100);
    mf_builder_abandon(&b);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ_INT(atomic_load(&literals[i]->object.count), 1);
        mf_drop(literals[i]);
    }
}

TEST(the_first_error_wins_and_rules_run_on)
{
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, NULL);
    mf_variable *x = mf_builder_input(&b, f32x4()), *y = mf_builder_input(&b, mf_type_scalar(MF_F32, false));
    mf_variable *bad = mf_emit(&b, &mf_op_add, NULL, 2, x, y);
    CHECK(bad && bad->type->rank == 0 && bad->type->dims[3] == 1);
    CHECK(mf_emit(&b, &mf_op_mul, NULL, 2, bad, x));
    mf_builder_fail(&b, mf_error_new(MF_ERROR_ARGUMENT, "a later one"));
    mf_variable *out[] = { mf_builder_input(&b, f32x4()) };
    CHECK(!mf_builder_finish(&b, out, 1, &error));
    check_error(error, "add");
}

TEST(operands_of_another_program_are_refused)
{
    mf_builder a, b;
    mf_error_object *error = NULL;
    mf_builder_init(&a, NULL);
    mf_builder_init(&b, NULL);
    mf_variable *stranger = mf_builder_input(&a, f32x4());
    mf_builder_input(&b, f32x4());
    mf_emit(&b, &mf_op_neg, NULL, 1, stranger);
    CHECK(!mf_builder_finish(&b, NULL, 0, &error));
    check_error(error, "another program");
    mf_builder_abandon(&a);
}

TEST(nested_programs_are_counted)
{
    mf_program *inner = parse("program (a: f32[4]) { b: f32[4] = neg a\n return b }", NULL);
    REQUIRE(inner);
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, NULL);
    mf_variable *x = mf_builder_input(&b, f32x4());
    mf_variable *y = mf_emit(&b, &mf_op_jit, &(mf_jit_params){ .program = inner, .name = mf_intern("f") }, 1, x);
    CHECK_EQ_INT(atomic_load(&inner->object.count), 2);
    mf_program *p = mf_builder_finish(&b, &y, 1, &error);
    REQUIRE(p);
    CHECK_EQ_INT(mf_params_program_count(&mf_op_jit, p->eqns[0]->params), 1);
    CHECK(*mf_params_program_at(&mf_op_jit, p->eqns[0]->params, 0) == inner);
    mf_drop(p);
    CHECK_EQ_INT(atomic_load(&inner->object.count), 1);
    mf_drop(inner);
}

TEST(inlining_gives_the_same_equations)
{
    mf_program *p = parse("program (a: f32[4], b: f32[4]) { c: f32[4] = add a b\n d: f32[4] = mul c c\n return d, a, 1.0:f32[] }", NULL);
    REQUIRE(p);
    mf_builder b;
    mf_error_object *error = NULL;
    mf_builder_init(&b, NULL);
    mf_variable *in[] = { mf_builder_input(&b, f32x4()), mf_builder_input(&b, f32x4()) }, *out[3];
    mf_inline(&b, p, in, out);
    mf_program *q = mf_builder_finish(&b, out, 3, &error);
    REQUIRE(q);
    CHECK(mf_program_equal(p, q));
    CHECK_EQ_UINT(mf_program_hash(p), mf_program_hash(q));
    mf_drop(p);
    mf_drop(q);
}

TEST(programs_differ)
{
    static const char *const texts[] = {
        "program (a: f32[4], b: f32[4]) { c: f32[4] = add a b\n return c }",
        "program (a: f32[4], b: f32[4]) { c: f32[4] = add b a\n return c }",
        "program (a: f32[4], b: f32[4]) { c: f32[4] = mul a b\n return c }",
        "program (a: f32[4], b: f32[4]) { c: f32[4] = add a b\n return a }",
        "program (a: f32[4], b: f32[4]) { c: f32[4] = add a b\n return c, c }",
        "program (a: f32[5], b: f32[5]) { c: f32[5] = add a b\n return c }",
        "program (a: f32[4]) { c: f32[4] = add a {1.0, 1.0, 1.0, 1.0}:f32[4]\n return c }",
        "program (a: f32[4]) { c: f32[4] = add a {1.0, 1.0, 1.0, 2.0}:f32[4]\n return c }",
        "program (a: f32[4]) { c: f32[] = reduce_sum[axes=(0)] a\n return c }",
        "program (a: f32[]) { b: f32[] = add a 0.0:f32[]\n return b }",
        "program (a: f32[]) { b: f32[] = add a -0.0:f32[]\n return b }",
    };
    enum { COUNT = sizeof texts / sizeof texts[0] };
    mf_program *p[COUNT], *again[COUNT];
    for (int i = 0; i < COUNT; i++) {
        p[i] = parse(texts[i], NULL);
        again[i] = parse(texts[i], NULL);
        REQUIRE(p[i] && again[i]);
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < COUNT; k++) {
            if (!CHECK(mf_program_equal(p[i], again[k]) == (i == k)))
                CHECK_NOTE("texts %d and %d", i, k);
            if (i == k)
                CHECK_EQ_UINT(mf_program_hash(p[i]), mf_program_hash(again[k]));
        }
    for (int i = 0; i < COUNT; i++) {
        mf_drop(p[i]);
        mf_drop(again[i]);
    }
}

TEST(the_verifier_sees_what_is_wrong)
{
    mf_program *p = parse("program (a: f32[4]) { b: f32[4] = neg a\n c: f32[4] = exp b\n return c }", NULL);
    REQUIRE(p);
    CHECK(!mf_program_verify(p, NULL));
    mf_eqn *first = p->eqns[0];
    p->eqns[0] = p->eqns[1];
    p->eqns[1] = first;
    check_error(mf_program_verify(p, NULL), "used before it is defined");
    p->eqns[1] = p->eqns[0];
    p->eqns[0] = first;
    const mf_type *type = first->out[0]->type;
    first->out[0]->type = mf_type_scalar(MF_I32, false);
    check_error(mf_program_verify(p, NULL), "another type");
    first->out[0]->type = type;
    p->vars[1]->id = 0;
    check_error(mf_program_verify(p, NULL), "another id");
    p->vars[1]->id = 1;
    CHECK(!mf_program_verify(p, NULL));
    mf_drop(p);
}

TEST(environments_are_interned)
{
    const char *i = mf_intern("i"), *j = mf_intern("j");
    const mf_axis_env *outer = mf_axis_env_push(NULL, i, 8, 1), *inner = mf_axis_env_push(outer, j, 4, 0);
    CHECK(outer == mf_axis_env_push(NULL, i, 8, 1));
    CHECK(outer != mf_axis_env_push(NULL, i, 4, 1));
    CHECK(outer != mf_axis_env_push(NULL, i, 8, 0));
    CHECK(inner != mf_axis_env_push(NULL, j, 4, 0));
    CHECK(mf_axis_env_find(inner, i) == outer);
    CHECK(mf_axis_env_find(inner, j) == inner);
    CHECK(!mf_axis_env_find(outer, j));
    CHECK_EQ_INT(mf_axis_env_depth(inner, outer), 0);
    CHECK_EQ_INT(mf_axis_env_depth(inner, inner), 1);
    CHECK_EQ_INT(mf_axis_env_depth(outer, inner), -1);
    const mf_axis_env *shadow = mf_axis_env_push(inner, i, 2, 1);
    CHECK(mf_axis_env_find(shadow, i) == shadow);
}

TEST(params_are_read_alone)
{
    mf_arena arena = { 0 };
    mf_error_object *error = NULL;
    const char *text = "[axes=(0,2)] rest";
    const mf_axes_params *p = mf_params_parse(&arena, &mf_op_reduce_sum, NULL, &text, &error);
    REQUIRE(p);
    CHECK(p->axes == mf_ints_of(2, 0, 2));
    CHECK_STR(text, " rest");
    text = "f32[3]";
    p = mf_params_parse(&arena, &mf_op_reduce_sum, NULL, &text, &error);
    CHECK(p && p->axes->count == 0);
    text = "[axes=0]";
    CHECK(!mf_params_parse(&arena, &mf_op_reduce_sum, NULL, &text, &error));
    check_error(error, "line 1, column 7: expected '('");
    mf_arena_free(&arena);
}
