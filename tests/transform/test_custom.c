/* Custom derivatives, with rules given as texts. custom_jvp doubles the tangent, custom_vjp triples the cotangent, so a rule that is not
 * used is detected. */
#include "check.h"
#include "ops/control/custom.h"
#include "ops/params.h"
#include "ops/ops.h"
#include "transform/evaluate.h"
#include "transform/transform.h"

static mf_program *parsed(const char *text, mf_error_object **error) { return mf_program_parse(text, NULL, error); }

static mf_program *double_tangent(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error)
{
    (void)rule;
    CHECK(count == 2 && types[0]->rank == 1 && types[1]->dtype == MF_I32);
    return parsed("program (x: f64[3], n: i32[], t: f64[3]) {\n y: f64[3] = sin x\n u: f64[3] = add t t\n return y, u\n}\n", error);
}

static mf_program *forward(const mf_custom_rule *rule, const mf_type *const *types, int count, mf_error_object **error)
{
    (void)rule, (void)types;
    CHECK(count == 2);
    return parsed("program (x: f64[3], w: f64[3]) {\n y: f64[3] = mul x w\n return y, w\n}\n", error);
}

static mf_program *backward(const mf_custom_rule *rule, const mf_type *const *types, int count, const mf_type *const *primals,
                            int primal_count, mf_error_object **error)
{
    (void)rule, (void)types, (void)primals;
    CHECK(count == 2 && primal_count == 2);
    return parsed("program (w: f64[3], c: f64[3]) {\n a: f64[3] = mul c {3.0, 3.0, 3.0}:f64[3]\n b: f64[3] = mul w c\n return a, b\n}\n",
                  error);
}

static const mf_class rule_class = { "custom rule", NULL };

static mf_custom_rule *new_rule(bool jvp)
{
    mf_custom_rule *r = mf_object_new(&rule_class, sizeof *r);
    r->head.name = mf_intern("mine");
    r->trace_jvp = jvp ? double_tangent : NULL;
    r->trace_forward = jvp ? NULL : forward;
    r->trace_backward = jvp ? NULL : backward;
    return r;
}

/* One call of `body` under the rule, as a program. */
static mf_program *call(const mf_op *op, mf_custom_rule *rule, const char *body)
{
    mf_error_object *error = NULL;
    mf_program *p = parsed(body, &error);
    mf_builder b;
    mf_variable *in[8], *out[8];
    mf_builder_init(&b, NULL);
    for (int i = 0; i < p->in_count; i++)
        in[i] = mf_builder_input(&b, p->in[i]->type);
    mf_custom_params params = { p, rule, 0 };
    mf_eqn *e = mf_emit_eqn(&b, op, &params, in, p->in_count);
    for (int o = 0; o < p->out_count; o++)
        out[o] = e->out[o];
    mf_program *made = mf_builder_finish(&b, out, p->out_count, &error);
    mf_drop(p);
    return made;
}

static const char product[] = "program (x: f64[3], w: f64[3]) {\n y: f64[3] = mul x w\n return y\n}\n";

TEST(jvp_rule)
{
    mf_error_object *error = NULL;
    mf_custom_rule *rule = new_rule(true);
    mf_program *p = call(&mf_op_custom_jvp_call, rule, "program (x: f64[3], n: i32[]) {\n y: f64[3] = sin x\n return y\n}\n");
    mf_program *j = mf_jvp_program(p, NULL, (bool[]){ true, false }, (bool[]){ false }, &error);
    unsigned seed = 3;
    REQUIRE(j && j->in_count == 3 && j->out_count == 2);
    value in[3] = { value_random(j->in[0]->type, 1, &seed), value_random(j->in[1]->type, 1, &seed),
                    value_random(j->in[2]->type, 1, &seed) },
          out[2];
    REQUIRE(evaluate(j, NULL, in, out));
    for (int i = 0; i < 3; i++) {
        CHECK_NEAR(value_at(&out[0], 0, i), sin(value_at(&in[0], 0, i)), 1e-12);
        CHECK_NEAR(value_at(&out[1], 0, i), 2 * value_at(&in[2], 0, i), 1e-12);
    }
    value_free(in, 3);
    value_free(out, 2);
    mf_drop(j);
    mf_drop(p);
    mf_drop(rule);
}

/* Checks the gradients of the sum of the call's result: 3 by x and x by w, as the rule defines. */
static void check_gradient(mf_program *p, int examples, bool shared)
{
    mf_error_object *error = NULL;
    mf_program *f, *b;
    int residuals = 0;
    unsigned seed = 3;
    value in[2], out[8], back[8], grads[2];
    REQUIRE(mf_vjp_program(p, NULL, p->in_count, NULL, &f, &b, &residuals, &error));
    for (int i = 0; i < 2; i++)
        in[i] = value_random(p->in[i]->type, 1, &seed);
    REQUIRE(evaluate(f, NULL, in, out));
    for (int i = 0; i < residuals; i++)
        back[i] = out[1 + i];
    back[residuals] = value_random(p->out[0]->type, 1, &seed);
    REQUIRE(evaluate(b, NULL, back, grads));
    for (int i = 0; i < 3; i++) {
        double by_w = 0;
        for (int k = 0; k < examples; k++) {
            double w = value_at(&in[1], 0, shared ? i : k * 3 + i), ct = value_at(&back[residuals], 0, k * 3 + i);
            CHECK_NEAR(value_at(&grads[0], 0, k * 3 + i), 3 * ct, 1e-12);
            by_w += w * ct;
            if (!shared)
                CHECK_NEAR(value_at(&grads[1], 0, k * 3 + i), w * ct, 1e-12);
        }
        if (shared)
            CHECK_NEAR(value_at(&grads[1], 0, i), by_w, 1e-12);
    }
    value_free(in, 2);
    value_free(&back[residuals], 1);
    value_free(out, f->out_count);
    value_free(grads, 2);
    mf_drop(f);
    mf_drop(b);
}

TEST(vjp_rule)
{
    mf_custom_rule *rule = new_rule(false);
    mf_program *p = call(&mf_op_custom_vjp_call, rule, product);
    check_gradient(p, 1, false);
    mf_drop(p);
    mf_drop(rule);
}

TEST(vjp_rule_under_vmap)
{
    mf_error_object *error = NULL;
    mf_custom_rule *rule = new_rule(false);
    mf_program *p = call(&mf_op_custom_vjp_call, rule, product);
    for (int shared = 0; shared < 2; shared++) {
        mf_program *b = mf_batch_program(p, NULL, NULL, 2, (int[]){ 0, shared ? -1 : 0 }, (int[]){ 0 }, &error);
        REQUIRE(b);
        check_gradient(b, 2, shared);
        mf_drop(b);
    }
    mf_drop(p);
    mf_drop(rule);
}

TEST(vjp_rule_inside_vmap)
{
    mf_error_object *error = NULL;
    mf_custom_rule *rule = new_rule(false);
    mf_program *p = call(&mf_op_custom_vjp_call, rule, product);
    bool gives[1] = { false };
    mf_program *j = mf_jvp_program(p, NULL, (bool[]){ true, true }, gives, &error);
    REQUIRE(j && gives[0]);
    mf_program *v = mf_batch_program(j, NULL, NULL, 2, (int[]){ 0, -1, -1, 0 }, (int[]){ 0, 0 }, &error);
    REQUIRE(v);
    REQUIRE(!mf_program_verify(v, NULL));
    bool known_out[2];
    mf_partial_result r;
    REQUIRE(mf_partial_eval_program(v, NULL, (bool[]){ true, true, false, false }, NULL, known_out, &r, &error));
    CHECK(known_out[0] && !known_out[1] && r.residual_count == 1);
    mf_drop(r.known);
    mf_drop(r.unknown);
    mf_drop(v);
    mf_drop(j);
    mf_drop(p);
    mf_drop(rule);
}

/* Its tangents exist only to be transposed. */
TEST(no_forward_mode)
{
    mf_error_object *error = NULL;
    mf_custom_rule *rule = new_rule(false);
    mf_program *p = call(&mf_op_custom_vjp_call, rule, product);
    mf_program *j = mf_jvp_program(p, NULL, (bool[]){ true, true }, (bool[]){ false }, &error);
    REQUIRE(j);
    const mf_eqn *last = j->eqns[j->eqn_count - 1];
    CHECK(last->op == &mf_op_custom_linear);
    error = last->op->evaluate(last, NULL, NULL);
    REQUIRE(error);
    CHECK_CONTAINS(error->message, "can't apply forward-mode differentiation (jvp) to a custom_vjp function.");
    mf_error_handle(error);
    mf_drop(error);
    mf_drop(j);
    mf_drop(p);
    mf_drop(rule);
}
