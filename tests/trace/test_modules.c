/* Members of every kind, functions of any number of inputs, and views: other numbers over the same states. */
#include "check_values.h"

/* ---- inputs */

static mf_value none(mf_module self) { return mf_state_value(mf_member_state(self, "w")); }
static mf_value three(mf_module self, mf_value x, mf_value y, mf_value z)
{
    return mf_mul(mf_state_value(mf_member_state(self, "w")), mf_add(x, mf_mul(y, z)));
}
static mf_value sixteen(mf_module self, mf_value a, mf_value b, mf_value c, mf_value d, mf_value e, mf_value f, mf_value g, mf_value h,
                        mf_value i, mf_value j, mf_value k, mf_value l, mf_value m, mf_value n, mf_value o, mf_value p)
{
    (void)self;
    return mf_concatenate(mf_list(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p));
}
static mf_value any_number(mf_module self, const mf_value *inputs, int count)
{
    mf_value sum = mf_state_value(mf_member_state(self, "w"));
    for (int i = 0; i < count; i++)
        sum = mf_add(sum, inputs[i]);
    return sum;
}

TEST(a_function_takes_any_number_of_inputs)
{
    MF_SCOPE;
    mf_state w = mf_param_state(mf_scalar(2, MF_F32));
    CHECK_NEAR(mf_item_f64(mf_call(mf_module_new("None", none, "w", w))), 2, 0);
    CHECK_NEAR(mf_item_f64(mf_call(mf_module_new("Three", three, "w", w), 1, 2, 3)), 14, 0);
    mf_module any = mf_module_new("Any", any_number, "w", w), all = mf_module_new("All", sixteen, "w", w);
    CHECK_NEAR(mf_item_f64(mf_call(any)), 2, 0);
    CHECK_NEAR(mf_item_f64(mf_call(any, 1)), 3, 0);
    CHECK_NEAR(mf_item_f64(mf_call(mf_jit(any), 1, 2, 3, 4)), 12, 0);
    mf_value i[16];
    for (int k = 0; k < 16; k++)
        i[k] = mf_full(MF_SHAPE(1), mf_scalar(k, MF_F32));
    CHECK(mf_item_bool(mf_array_equal(mf_call_n(mf_fn(all), i, 16), mf_arange(16, MF_F32))));
    FAILS(mf_call(mf_module_new("Three", three, "w", w), 1, 2), "module Three takes 3 arguments but was called with 2");
    FAILS(mf_module_n("Bad", (mf_fm)none, 17, NULL, 0), "module Bad: a function takes between 0 and 16 inputs, not 17");
}

/* ---- members */

static mf_value twice(mf_value x) { return mf_mul(x, 2); }
static mf_value every(mf_module self, mf_value x)
{
    mf_value y = mf_call(mf_member_function(self, "act"), mf_mul(x, mf_member_value(self, "mask")));
    return mf_sum(y, .axis = mf_member_ints(self, "axes").at[0]);
}

TEST(members_are_of_any_kind)
{
    MF_SCOPE;
    mf_module inner = mf_module_new("Inner", none, "w", mf_param_state(mf_scalar(7, MF_F32)));
    mf_value mask = mf_diag(mf_ones(MF_SHAPE(2), MF_F32));
    mf_module m = mf_module_new("Every", every, "mask", mask, "act", mf_fn(twice), "axes", MF_INTS(1, 0), "mode", "same", "rate", 0.5,
                                "deterministic", true, "dtype", MF_BF16, "inner", inner, "nothing", mf_none());
    CHECK_STR(mf_str(mf_call(m, mf_ones(MF_SHAPE(2, 2), MF_F32))), "[2. 2.]");
    CHECK_STR(mf_str(mf_call(mf_vmap(m), mf_ones(MF_SHAPE(1, 2, 2), MF_F32))), "[[2. 2.]]");
    CHECK_STR(mf_member_text(m, "mode"), "same");
    CHECK_EQ_INT(mf_member_ints(m, "axes").count, 2);
    CHECK_EQ_INT((int)mf_member_number(m, "dtype"), MF_BF16);
    CHECK_NEAR(mf_item_f64(mf_state_value(mf_member_state(m, "inner/w"))), 7, 0);
    CHECK_STR(mf_module_type(mf_member_module(m, "inner")), "Inner");
    CHECK_EQ_INT(mf_kind_of(mf_member_value(m, "nothing")), MF_KIND_NONE);
    CHECK_EQ_INT(mf_member_count(m), 9);
    CHECK_STR(mf_member_name(m, 8), "nothing");
    CHECK_STR(mf_member_name(m, 9), NULL);
    CHECK_EQ_INT(mf_member_kind(m, "axes"), MF_MEMBER_INTS);
    CHECK_EQ_INT(mf_member_kind(m, "inner/w"), MF_MEMBER_STATE);
    CHECK_EQ_INT(mf_member_kind(m, "inner/x"), MF_MEMBER_NONE);
    CHECK_EQ_INT(mf_state_type_of(mf_member_state(m, "inner/w")), MF_PARAM_STATE);
    CHECK(mf_state_same(mf_member_state(m, "inner/w"), mf_member_state(inner, "w")));
    CHECK(!mf_state_same(mf_member_state(m, "inner/w"), mf_param_state(mf_f(7))));
    CHECK_STR(mf_str(m), "Every(\n  mask=ShapedArray(float32[2,2]),\n  act=twice,\n  axes=(1, 0),\n  mode='same',\n  rate=0.5,\n"
                         "  deterministic=1,\n  dtype=11,\n  inner=Inner(\n    w=ParamState(\n      value=ShapedArray(float32[])\n    )\n"
                         "  ),\n  nothing=None\n)");
}

TEST(members_that_are_none_are_named)
{
    MF_SCOPE;
    mf_module m = mf_module_new("One", none, "w", mf_param_state(mf_f(1)));
    FAILS(mf_member_function(m, "w"), "module One has no function named w");
    FAILS(mf_member_value(m, "deep/w"), "module One has no value named deep/w");
    FAILS(mf_module_new("Bad", none, "w", (mf_value){ 0 }), "member w of a module is neither state");
    FAILS(mf_module_new("Bad", none, "w", mf_make_error(MF_ERROR_IO, "no file")), "no file");
    FAILS(mf_module_new("Bad", none, "w", ((mf_ints){ .count = 9 })), "between 0 and 8 entries, not 9");
    FAILS(mf_module_new("Bad", none, 3, 4), "pairs of a name");
}

/* ---- views */

static int traced;
static mf_value noisy(mf_module self, mf_value x)
{
    traced++;
    mf_value w = mf_state_value(mf_member_state(self, "w"));
    return mf_member_number(self, "quiet") != 0 ? mf_mul(x, w) : mf_neg(mf_mul(x, w));
}
static mf_value through(mf_module self, mf_value x)
{
    return mf_call(mf_member_module(self, "plain"), mf_call(mf_member_module(self, "noisy"), x));
}
static mf_value plain(mf_module self, mf_value x) { return mf_add(x, mf_state_value(mf_member_state(self, "b"))); }

static mf_module network(void)
{
    mf_module a = mf_module_new("Noisy", noisy, "w", mf_param_state(mf_scalar(3, MF_F32)), "quiet", false);
    mf_module b = mf_module_new("Plain", plain, "b", mf_param_state(mf_scalar(1, MF_F32)));
    return mf_module_new("Net", through, "noisy", a, "plain", b);
}

TEST(a_view_has_other_numbers_over_the_same_states)
{
    MF_SCOPE;
    mf_module net = network(), quiet = mf_module_view(net, "quiet", true);
    CHECK_NEAR(mf_item_f64(mf_call(net, 2)), -5, 0);
    CHECK_NEAR(mf_item_f64(mf_call(quiet, 2)), 7, 0);
    mf_state_set_value(mf_member_state(quiet, "noisy/w"), mf_scalar(4, MF_F32));
    CHECK_NEAR(mf_item_f64(mf_call(net, 2)), -7, 0);
    CHECK(mf_state_same(mf_member_state(quiet, "plain/b"), mf_member_state(net, "plain/b")));
    CHECK_STR(mf_str(mf_module_values(quiet, mf_everything())), mf_str(mf_module_values(net, mf_everything())));
    CHECK_NEAR(mf_member_number(net, "noisy/quiet"), 0, 0);
}

TEST(equal_views_share_their_traces)
{
    MF_SCOPE;
    mf_module net = network();
    traced = 0;
    for (int i = 0; i < 5; i++) {
        MF_SCOPE;
        CHECK_NEAR(mf_item_f64(mf_call(mf_jit(mf_module_view(net, "quiet", true)), 2)), 7, 0);
        CHECK_NEAR(mf_item_f64(mf_call(mf_jit(mf_module_view(mf_module_view(net, "quiet", true), "quiet", false)), 2)), -5, 0);
    }
    CHECK_EQ_INT(traced, 2);
}

TEST(a_view_keeps_the_paths)
{
    MF_SCOPE;
    mf_module net = network(), outer = mf_module_new("Outer", through, "noisy", mf_module_view(net, "quiet", true), "plain", network());
    CHECK_STR(mf_str(mf_module_values(outer, mf_path_contains("noisy/noisy"))), "{'noisy': {'noisy': {'w': 3.0}}}");
    CHECK_STR(mf_str_state(mf_member_state(net, "noisy/w")), mf_str_state(mf_member_state(outer, "noisy/noisy/w")));
}

TEST(what_a_view_cannot_set_is_named)
{
    MF_SCOPE;
    mf_module net = network();
    FAILS(mf_module_view(net, "quite", true), "neither module Net nor one in it has a member named quite");
    FAILS(mf_module_view(net, "quiet", "yes"), "member quiet is of another kind");
    FAILS(mf_module_view(net, "w", mf_param_state(mf_f(1))), "states and modules stay as they are");
    FAILS(mf_module_view_n(net, NULL, -2), "pairs of a name and a value");
    FAILS(mf_module_view(((mf_module){ 0 }), "quiet", true), "this is not a module");
    FAILS(mf_module_view(net, 1, true), "pairs of a name and a value");
}

static mf_value around(mf_module self, mf_value x) { return mf_call(mf_member_function(self, "f"), x); }

TEST(functions_in_modules_have_a_greatest_depth)
{
    MF_SCOPE;
    mf_function f = mf_fn(twice);
    mf_module m = { 0 };
    for (int i = 0; i < 300 && !mf_is_error((mf_value){ m.handle }); i++) {
        m = mf_module_new("Around", around, "f", f);
        f = mf_jit(m);
    }
    FAILS(m, "deep");
}

TEST(flags_are_set_by_name)
{
    MF_SCOPE;
    mf_module a = mf_module_new("A", none, "w", mf_param_state(mf_f(1)), "deterministic", false, "use_running_average", false);
    mf_module m = mf_module_new("M", none, "a", a, "w", mf_param_state(mf_f(1)));
    mf_module both = mf_nn_eval(m), one = mf_nn_view(m, .deterministic = true), again = mf_nn_view(both, .use_running_average = false);
    CHECK_NEAR(mf_member_number(both, "a/deterministic"), 1, 0);
    CHECK_NEAR(mf_member_number(both, "a/use_running_average"), 1, 0);
    CHECK_NEAR(mf_member_number(one, "a/deterministic"), 1, 0);
    CHECK_NEAR(mf_member_number(one, "a/use_running_average"), 0, 0);
    CHECK_NEAR(mf_member_number(again, "a/deterministic"), 1, 0);
    CHECK_NEAR(mf_member_number(again, "a/use_running_average"), 0, 0);
    CHECK_NEAR(mf_member_number(mf_nn_train(both), "a/deterministic"), 0, 0);
    FAILS(mf_nn_view(m, .decode = true), "has a member named decode");
    CHECK(!mf_is_error((mf_value){ mf_nn_eval(mf_module_new("None", none, "w", mf_param_state(mf_f(1)))).handle }));
}

TEST(a_merged_view_keeps_what_it_has)
{
    MF_SCOPE;
    mf_module net = mf_module_view(network(), "quiet", true);
    mf_module again = mf_module_merge(net, mf_tree_map(mf_neg, mf_module_values(net, mf_everything())));
    CHECK_NEAR(mf_item_f64(mf_call(again, 2)), -7, 0);
    mf_module m = mf_module_new("Every", every, "mask", mf_ones(MF_SHAPE(2), MF_F32), "act", mf_fn(twice), "axes", MF_INTS(0), "mode", "a");
    CHECK_NEAR(mf_item_f64(mf_call(mf_module_merge(m, mf_module_values(m, mf_everything())), mf_ones(MF_SHAPE(2), MF_F32))), 4, 0);
}
