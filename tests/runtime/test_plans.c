/* The compiler's decisions, as text: which equations share a segment, what is computed once for all devices, which memory is reused, when a
 * value is last used. plans/<name>.<backend>.plan has the plan of each program below; a lost fusion or alias is noticed here. To update the
 * files after an intended change: MF_GOLDEN_WRITE=1 build/tests/runtime/test_plans, and again with MF_BACKEND=reference; then review the
 * difference. Every plan survives a round trip as the same text and passes the verifier, which rejects the plans at the end. */
#include "golden.h"

#include "runtime/plan/plan.h"

#include <manyfold.h>

#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

/* ---- the programs */

static mf_value f32(mf_shape s) { return mf_struct(s, MF_F32); }

static mf_value normalize(mf_value x) { return mf_div(x, mf_psum(x, "i")); }
static mf_value softmax_rows(mf_value x) { return mf_softmax(x, -1); }
static mf_value affine_loss(mf_value w, mf_value x, mf_value y) { return mf_mean(mf_square(mf_sub(mf_dot(x, w), y))); }
static mf_value regression_step(mf_value w, mf_value x, mf_value y)
{
    mf_value g = mf_call(mf_grad(affine_loss), w, x, y);
    return mf_sub(w, mf_mul(0.1, mf_pmean(g, "i")));
}
static mf_value two_layers(mf_value p, mf_value x)
{
    return mf_sum(mf_square(mf_dot(mf_tanh(mf_add(mf_dot(x, mf_get(p, "a")), mf_get(p, "b"))), mf_get(p, "c"))));
}
static mf_value two_layers_step(mf_value p, mf_value x)
{
    mf_value g = mf_pmean(mf_call(mf_grad(two_layers), p, x), "i");
    return mf_dict("a", mf_sub(mf_get(p, "a"), mf_get(g, "a")), "b", mf_sub(mf_get(p, "b"), mf_get(g, "b")), "c",
                   mf_sub(mf_get(p, "c"), mf_get(g, "c")));
}
static mf_value layers(void) { return mf_dict("a", f32(MF_SHAPE(4, 8, 16)), "b", f32(MF_SHAPE(4, 16)), "c", f32(MF_SHAPE(4, 16, 2))); }
static mf_value cell(mf_value h, mf_value x)
{
    mf_value next = mf_tanh(mf_add(h, mf_psum(x, "i")));
    return mf_tuple(next, mf_sum(next));
}
static mf_value recurrent(mf_value h, mf_value xs) { return mf_scan(cell, h, xs); }
static mf_value less(mf_value x) { return mf_less(mf_psum(mf_sum(x), "i"), 100); }
static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static mf_value grow(mf_value x) { return mf_while(less, twice, x); }
static mf_value negated(mf_value x) { return mf_neg(x); }
static mf_value choose(mf_value x) { return mf_cond(mf_greater(mf_psum(mf_sum(x), "i"), 0), twice, negated, x); }
static mf_value inner_sum(mf_value x) { return mf_add(mf_psum(x, "j"), mf_psum(x, "i")); }
static mf_value outer(mf_value x) { return mf_call(mf_pmap(inner_sum, "j"), x); }
static mf_value shared(mf_value x, mf_value w) { return mf_mul(x, mf_exp(w)); }
static mf_value map_twice(mf_value x)
{
    mf_function f = mf_pmap(normalize, "i");
    return mf_call(f, mf_call(f, x));
}
static mf_value gathered(mf_value x)
{
    mf_value swap = mf_list(mf_tuple(0, 1), mf_tuple(1, 0));
    return mf_tuple(mf_all_gather(x, 0, "i"), mf_ppermute(x, "i", swap));
}

static mf_value column_norms(mf_value x)
{
    mf_value m = mf_mean(x, 0);
    return mf_div(mf_sub(x, m), mf_sqrt(mf_mean(mf_square(mf_sub(x, m)), 0)));
}

static mf_value cnn_call(mf_module self, mf_value x)
{
    x = mf_relu(mf_call(mf_member_module(self, "conv"), x));
    x = mf_max_pool(x, .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    return mf_call(mf_member_module(self, "dense"), mf_reshape(x, MF_SHAPE(mf_dim(x, 0), -1)));
}
typedef struct cnn_context {
    mf_module model;
    mf_value images, labels;
} cnn_context;
static mf_value cnn_loss(void *context, mf_value params)
{
    cnn_context *c = context;
    return mf_mean(mf_softmax_cross_entropy(mf_apply(c->model, params, c->images), mf_one_hot(c->labels, 10)));
}
static mf_value descend(mf_value p, mf_value g) { return mf_sub(p, mf_mul(0.01, g)); }
static mf_value cnn_step(void *context, mf_value params, mf_value images, mf_value labels)
{
    cnn_context c = { *(mf_module *)context, images, labels };
    return mf_tree_map(descend, params, mf_pmean(mf_call(mf_grad(mf_closure(cnn_loss, &c)), params), "i"));
}
static mf_function cnn(void)
{
    mf_state rngs = mf_random_state(0);
    mf_module conv = mf_nn_conv(rngs, 1, 8, .kernel_size = MF_INTS(3, 3)), dense = mf_nn_linear(rngs, 14 * 14 * 8, 10);
    mf_module model = mf_module_new("CNN", cnn_call, "conv", conv, "dense", dense);
    mf_value params = mf_replicate(mf_module_values(model, mf_everything()), mf_device_slice(mf_devices(), 0, 2));
    return mf_compile(mf_pmap(mf_closure(cnn_step, &model), "i"), params, mf_zeros(MF_SHAPE(2, 4, 28, 28, 1), MF_F32),
                      mf_zeros(MF_SHAPE(2, 4), MF_I32));
}

static mf_function compiled(const char *name)
{
    mf_value x48 = f32(MF_SHAPE(4, 8));
    if (!strcmp(name, "normalize"))
        return mf_compile(mf_pmap(normalize, "i"), x48);
    if (!strcmp(name, "softmax"))
        return mf_compile(mf_jit(softmax_rows), f32(MF_SHAPE(64, 100)));
    if (!strcmp(name, "column_norms"))
        return mf_compile(mf_jit(column_norms), f32(MF_SHAPE(64, 100)));
    if (!strcmp(name, "regression"))
        return mf_compile(mf_pmap(regression_step, "i", .in_axes = mf_axes(MF_NONE, 0, 0), .out_axes = MF_NONE), f32(MF_SHAPE(8)),
                          f32(MF_SHAPE(4, 16, 8)), f32(MF_SHAPE(4, 16)));
    if (!strcmp(name, "two_layers"))
        return mf_compile(mf_pmap(two_layers_step, "i"), layers(), f32(MF_SHAPE(4, 32, 8)));
    if (!strcmp(name, "two_layers_donated"))
        return mf_compile(mf_pmap(two_layers_step, "i", .donate_argnums = MF_INTS(0)), layers(), f32(MF_SHAPE(4, 32, 8)));
    if (!strcmp(name, "recurrent"))
        return mf_compile(mf_pmap(recurrent, "i"), x48, f32(MF_SHAPE(4, 5, 8)));
    if (!strcmp(name, "while"))
        return mf_compile(mf_pmap(grow, "i"), x48);
    if (!strcmp(name, "cond"))
        return mf_compile(mf_pmap(choose, "i"), x48);
    if (!strcmp(name, "nested"))
        return mf_compile(mf_pmap(outer, "i"), f32(MF_SHAPE(2, 2, 8)));
    if (!strcmp(name, "shared"))
        return mf_compile(mf_pmap(shared, .in_axes = mf_axes(0, MF_NONE)), x48, f32(MF_SHAPE(8)));
    if (!strcmp(name, "held_once"))
        return mf_compile(mf_pmap(shared), mf_broadcast_to(mf_arange(8, MF_F32), MF_SHAPE(4, 8)),
                          mf_broadcast_to(mf_arange(8, MF_F32), MF_SHAPE(4, 8)));
    if (!strcmp(name, "map_twice"))
        return mf_compile(mf_jit(map_twice), x48);
    if (!strcmp(name, "cnn"))
        return cnn();
    return mf_compile(mf_pmap(gathered, "i"), f32(MF_SHAPE(2, 8)));
}

static const char *const names[] = { "normalize", "softmax",  "column_norms", "regression", "two_layers", "two_layers_donated",
                                     "recurrent", "while",    "cond",         "nested",     "shared",     "held_once",
                                     "map_twice", "gathered", "cnn" };

/* ---- comparing */

/* The plan alone, without what the text says around it: in `buffer`. */
static char *plan_of(const char *name, char *buffer, size_t size)
{
    mf_function f = compiled(name);
    const char *text = mf_as_text(f, MF_TEXT_PLAN), *from = text ? strstr(text, "plan {") : NULL, *to = from ? strstr(from, "\n}\n") : NULL;
    if (!CHECK(to) || !CHECK((size_t)(to + 3 - from) < size)) {
        CHECK_NOTE("%s: %s", name, text ? text : "no text");
        return NULL;
    }
    memcpy(buffer, from, (size_t)(to + 3 - from));
    buffer[to + 3 - from] = 0;
    return buffer;
}

static void compare(const char *name)
{
    static char found[1 << 18];
    char file[128];
    snprintf(file, sizeof file, "runtime/plans/%s.%s.plan", name, mf_default_backend());
    if (plan_of(name, found, sizeof found))
        golden_compare(file, found);
}

TEST(plans_are_as_they_were)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        compare(names[i]);
}

TEST(plans_read_back_and_are_sound)
{
    static char text[1 << 18];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        mf_error_object *error = NULL;
        mf_text again = { 0 };
        if (!plan_of(names[i], text, sizeof text))
            continue;
        mf_plan *plan = mf_plan_parse(text, &error);
        if (CHECK(plan) || CHECK_NOTE("%s: %s", names[i], mf_error_text(error))) {
            mf_plan_print(&again, plan);
            CHECK_STR(again.at, text);
            error = mf_plan_verify(plan);
            CHECK(!error || CHECK_NOTE("%s: %s", names[i], mf_error_text(error)));
        }
        mf_drop(error);
        mf_text_free(&again);
        mf_plan_free(plan);
    }
}

/* ---- what the verifier and the parser refuse */

static const struct {
    const char *text, *words;
} bad[] = {
    { "plan { program { r0: f32[2] input 0 r1: f32[2] segment 0 [neg] (r1) -> (r0) return (r0) } }", "r1 is read but holds nothing" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] segment 0 [neg] (r0) -> (r0) return (r1) } }", "r0 is written twice" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] segment 0 [neg] (r0!) -> (r1) return (r1) } }",
      "r0 is moved, but this is not its last" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] segment 0 [add] (r0! r0) -> (r1) last (r0) return (r1) } }",
      "before it is read again" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] segment 0 [neg] (r0) -> (r1 over 0) return (r1) } }", "operand that stays" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] segment 0 [neg] (r0) -> (r1) last (r0) return (r0) } }",
      "its end: r0 is read but holds" },
    { "plan { program { r0: f32[2] input 0 return (r7) } }", "r7 does not exist" },
    { "plan { program { r0: f32[2] input 0 destination 1 return (r0) } }", "a result that it is not" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] map 0 map 0 (r0) -> (r1) return (r1) } map 0 { size 2 input 0: f32[2] shard f32[] axis 0"
      " output 0: f32[2] shard f32[] stacked device { r0: f32[] input 0 r1: f32[] segment 1 [mul] (r0 ~r0) -> (r1) return (r1) }"
      " uniform { r0: f32[] return () } } }",
      "~r0 is read, but nobody waited" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] map 0 map 0 (r0 r0) -> (r1) return (r1) } map 0 { size 2 input 0: f32[2] shard f32[] axis 0"
      " output 0: f32[2] shard f32[] stacked device { r0: f32[] input 0 return (r0) } uniform { return () } } }",
      "other operands or results" },
    { "plan { program { r0: f32[2] input 0 r1: f32[2] map 0 map 0 (r0) -> (r1) return (r1) } map 0 { size 2 input 0: f32[2] shard f32[] axis None"
      " output 0: f32[2] shard f32[] stacked donor 0 device { r0: f32[] input 0 return (r0) } uniform { return () } } }",
      "takes the memory of input 0" },
    { "plan { program { return () }", "expected '}'" },
    { "plan { program { r1: f32[2] return () } }", "registers in order" },
    { "plan { program { r0: f99[2] return () } }", "expected a type" },
    { "plan { program { hop 0 () -> () return () } }", "expected an instruction" },
    { "plan { program { map 0 map 3 () -> () return () } }", "the map that an instruction names" },
    { "plan { program { segment 99999999999 [] () -> () return () } }", "a smaller number" },
    { "", "expected 'plan'" },
};

TEST(unsound_plans_are_refused)
{
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mf_error_object *error = NULL;
        mf_plan *plan = mf_plan_parse(bad[i].text, &error);
        if (plan)
            error = mf_plan_verify(plan);
        if (CHECK(error) || CHECK_NOTE("%s", bad[i].text))
            CHECK_CONTAINS(mf_error_text(error), bad[i].words);
        mf_drop(error);
        mf_plan_free(plan);
    }
}
