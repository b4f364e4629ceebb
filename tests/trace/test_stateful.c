/* Stateful maps: rules for states in pmap and vmap, random states, mapping functions of one's own, what is said of a map. */
#include "check_values.h"
#include "warnings.h"

#include <pthread.h>

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

static mf_value ones(int n) { return mf_ones(MF_SHAPE(n), MF_F32); }

static mf_value add_to(mf_module self, mf_value delta)
{
    mf_state weight = mf_member_state(self, "weight");
    return mf_state_set_value(weight, mf_add(mf_state_value(weight), delta));
}
static mf_module affine(mf_value weight) { return mf_module_new("Affine", add_to, "weight", mf_param_state(weight)); }
static mf_value weight_of(mf_module m) { return mf_state_value(mf_member_state(m, "weight")); }
static mf_state_axis_rules params(mf_axis axis) { return MF_STATE_AXES(axis, mf_of_type(MF_PARAM_STATE)); }

static mf_value same(mf_value x) { return x; }

/* ---- vmap2 */

TEST(vmap2_follows_rules)
{
    mf_module m = affine(mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3)));
    mf_value r = mf_call(mf_vmap2(m, .state_in_axes = params(1), .state_out_axes = params(1)), mf_arange(3, MF_F32));
    TEXT(r, "[[0. 3.]\n [2. 5.]\n [4. 7.]]");
    TEXT(weight_of(m), "[[0. 2. 4.]\n [3. 5. 7.]]");
    r = mf_call(mf_vmap2(m, .state_in_axes = params(-1), .state_out_axes = params(0), .out_axes = 1), ones(3));
    TEXT(r, "[[1. 3. 5.]\n [4. 6. 8.]]");
    TEXT(weight_of(m), "[[1. 4.]\n [3. 6.]\n [5. 8.]]");
    mf_module other = affine(ones(2));
    FAILS(mf_call(mf_vmap2(other, .devices = mf_devices()), ones(2)), "they are pmap's");
    FAILS(mf_call(mf_vmap2(other, .donate_argnums = MF_INTS(0)), ones(2)), "they are pmap's");
}

TEST(both_maps_in_one)
{
    mf_module m = affine(mf_zeros(MF_SHAPE(4, 3), MF_F32));
    mf_function inner = mf_vmap2(m, .state_in_axes = params(0), .state_out_axes = params(0)),
                f = mf_pmap2(inner, .state_in_axes = params(0), .state_out_axes = params(0));
    mf_value x = mf_reshape(mf_arange(12, MF_F32), MF_SHAPE(4, 3));
    SAME(mf_call(f, x), x);
    SAME(weight_of(m), x);
    SAME(mf_call(mf_jit(f), x), mf_mul(x, 2));
    mf_value cut = mf_get(x, mf_range(0, 2)), w = mf_get(weight_of(m), mf_range(0, 2));
    mf_module small = affine(w);
    f = mf_pmap2(mf_pmap2(small, "i", .state_in_axes = params(0), .state_out_axes = params(0)), "j", .state_in_axes = params(1),
                 .state_out_axes = params(1), .in_axes = 1, .out_axes = 1);
    SAME(mf_call(f, cut), mf_add(w, cut));
    SAME(weight_of(small), mf_add(w, cut));
}

/* A map without rules inside one with rules shares what the outer one gave it. */
static mf_value plus_weight(void *weight, mf_value x) { return mf_add(x, mf_state_value(*(mf_state *)weight)); }
static mf_value plain_map(void *weight, mf_value x) { return mf_call(mf_pmap(mf_closure(plus_weight, (mf_state *)weight)), x); }
static mf_value plain_vmap(void *weight, mf_value x) { return mf_call(mf_vmap(mf_closure(plus_weight, (mf_state *)weight)), x); }

TEST(plain_maps_inside)
{
    mf_state weight = mf_param_state(mf_mul(mf_arange(4, MF_F32), 10));
    mf_value x = mf_reshape(mf_arange(8, MF_F32), MF_SHAPE(4, 2)), sum = mf_add(x, mf_reshape(mf_state_value(weight), MF_SHAPE(4, 1)));
    SAME(mf_call(mf_pmap2(mf_closure(plain_map, &weight), "i", .state_in_axes = params(0)), x), sum);
    SAME(mf_call(mf_pmap2(mf_closure(plain_vmap, &weight), "i", .state_in_axes = params(0)), x), sum);
    SAME(mf_call(mf_vmap2(mf_closure(plain_vmap, &weight), "i", .state_in_axes = params(0)), x), sum);
}

TEST(a_state_of_another_size_is_an_error)
{
    mf_module m = affine(ones(3));
    FAILS(mf_call(mf_pmap2(m, .state_in_axes = params(0), .state_out_axes = params(0)), ones(4)),
          "state weight of type float32[3] has size 3 along axis 0, but the mapped axis has size 4");
    FAILS(mf_call(mf_vmap2(m, .state_in_axes = params(-1), .state_out_axes = params(0)), ones(4)), "has size 3 along axis 0");
    FAILS(mf_call(mf_vmap2(m, .state_in_axes = params(1), .state_out_axes = params(0)), ones(4)), "an axis that it does not have");
    TEXT(weight_of(m), "[1. 1. 1.]");
}

/* Without a mapped argument the mapped states say the size, also to a function that bears no other. */
static mf_value weight_alone(void *weight, mf_value unused)
{
    (void)unused;
    return mf_state_set_value(*(mf_state *)weight, mf_mul(mf_state_value(*(mf_state *)weight), 2));
}
static mf_value turned(void *weight, mf_value unused)
{
    (void)unused;
    return mf_all_to_all(mf_state_value(*(mf_state *)weight), 0, 0, .axis_name = "i");
}

TEST(mapped_states_say_the_size)
{
    for (int i = 0; i < 2; i++) {
        mf_state weight = mf_param_state(mf_arange(3, MF_F32));
        mf_function f = mf_closure(weight_alone, &weight), t = mf_closure(turned, &weight);
        mf_pmap2_options o = { .axis_name = "i", .in_axes = MF_NONE, .state_in_axes = params(0), .state_out_axes = params(0) };
        TEXT(mf_call(i ? mf_vmap2_opt(f, &o) : mf_pmap2_opt(f, &o), 0), "[0. 2. 4.]");
        TEXT(mf_state_value(weight), "[0. 2. 4.]");
        TEXT(mf_call(i ? mf_vmap2_opt(f, &o) : mf_pmap2_opt(f, &o), 0), "[0. 4. 8.]");
        weight = mf_param_state(mf_reshape(mf_arange(4, MF_F32), MF_SHAPE(2, 2)));
        t = mf_closure(turned, &weight);
        TEXT(mf_call(i ? mf_vmap2_opt(t, &o) : mf_pmap2_opt(t, &o), 0), "[[0. 2.]\n [1. 3.]]");
        weight = mf_param_state(mf_arange(1, MF_F32));
        f = mf_closure(weight_alone, &weight);
        TEXT(mf_call(i ? mf_vmap2_opt(f, &o) : mf_pmap2_opt(f, &o), 0), "[0.]");
        o.axis_size = 4;
        FAILS(mf_call(i ? mf_vmap2_opt(f, &o) : mf_pmap2_opt(f, &o), 0), "has size 1 along axis 0, but the mapped axis has size 4");
    }
    mf_state many = mf_param_state(mf_zeros(MF_SHAPE(9), MF_F32));
    FAILS(mf_call(mf_pmap2(mf_closure(weight_alone, &many), .in_axes = MF_NONE, .state_in_axes = params(0)), 0), "9 replicas");
}

/* ---- states that vary unasked */

static mf_value set_weight(void *weight, mf_value x) { return mf_state_set_value(*(mf_state *)weight, x); }

TEST(unexpected_states)
{
    mf_value x = mf_arange(4, MF_F32);
    for (int i = 0; i < 2; i++) {
        mf_module m = affine(mf_scalar(1, MF_F32));
        FAILS(mf_call(i ? mf_vmap2(m) : mf_pmap2(m), x), "state weight");
        TEXT(weight_of(m), "1.0");
        catch_warnings();
        mf_value r = mf_call(i ? mf_vmap2(m, .unexpected_out_state_mapping = MF_UNEXPECTED_WARN)
                               : mf_pmap2(m, .unexpected_out_state_mapping = MF_UNEXPECTED_WARN),
                             x);
        CHECK_EQ_INT(count_warnings("state weight comes out varying over the mapped axis"), 1);
        TEXT(r, "[1. 2. 3. 4.]");
        TEXT(weight_of(m), "[1. 2. 3. 4.]");
        m = affine(mf_scalar(2, MF_F32));
        catch_warnings();
        r = mf_call(i ? mf_vmap2(m, .unexpected_out_state_mapping = MF_UNEXPECTED_IGNORE)
                      : mf_pmap2(m, .unexpected_out_state_mapping = MF_UNEXPECTED_IGNORE),
                    x);
        TEXT(r, "[2. 3. 4. 5.]");
        CHECK_EQ_INT(count_warnings("varying"), 0);
        TEXT(weight_of(m), "[2. 3. 4. 5.]");
        m = affine(mf_scalar(2, MF_F32)); /* what does not vary stays as it is */
        mf_call(i ? mf_vmap2(m, .in_axes = MF_NONE, .axis_size = 4, .unexpected_out_state_mapping = MF_UNEXPECTED_IGNORE)
                  : mf_pmap2(m, .in_axes = MF_NONE, .axis_size = 4, .unexpected_out_state_mapping = MF_UNEXPECTED_IGNORE),
                mf_scalar(3, MF_F32));
        TEXT(weight_of(m), "5.0");
    }
    mf_module m = affine(mf_scalar(1, MF_F32)); /* without rules at all */
    FAILS(mf_call(mf_vmap(m), x), "state weight comes out varying over the mapped axis, but no rule of state_out_axes names it");
    FAILS(mf_call(mf_pmap(m), x), "state weight comes out varying over the mapped axis, but no rule of state_out_axes names it");
    mf_state alone = mf_param_state(mf_scalar(1, MF_F32));
    FAILS(mf_call(mf_pmap(mf_closure(set_weight, &alone)), x), "a ParamState without a name comes out varying");
}

/* ---- random states */

static mf_value draw(void *stream, mf_value scale)
{
    return mf_mul(scale, mf_random_normal(mf_random_next(*(mf_state *)stream), MF_SHAPE0, MF_F32));
}
static mf_value draw_without_moving(void *stream, mf_value scale)
{
    return mf_mul(scale, mf_random_normal(mf_state_value(*(mf_state *)stream), MF_SHAPE0, MF_F32));
}

TEST(vmap2_splits_as_pmap2)
{
    mf_state a = mf_random_state(7), b = mf_random_state(7);
    for (int i = 0; i < 3; i++)
        SAME(mf_call(mf_pmap2(mf_closure(draw, &a)), ones(4)), mf_call(mf_vmap2(mf_closure(draw, &b)), ones(4)));
    SAME(mf_state_value(a), mf_state_value(b));
}

TEST(a_state_that_is_only_read_moves_on)
{
    for (int i = 0; i < 3; i++) {
        mf_state stream = mf_random_state(7);
        mf_function f = mf_closure(draw_without_moving, &stream);
        f = i == 0 ? mf_pmap2(f) : i == 1 ? mf_vmap2(f) : mf_jit(mf_pmap2(f));
        mf_value split = mf_random_split(mf_random_key(7), 5), first = mf_call(f, ones(4)), rows[4];
        for (int k = 0; k < 4; k++)
            rows[k] = mf_random_normal(mf_get(split, k + 1), MF_SHAPE0, MF_F32);
        SAME(first, mf_stack(mf_list_n(rows, 4), 0));
        SAME(mf_state_value(stream), mf_get(split, 0));
        CHECK(!mf_item_bool(mf_any(mf_equal(first, mf_call(f, ones(4))))));
    }
}

/* Beside a state that follows rules: the new values keep their places. */
static mf_value noisy(mf_module self, mf_value delta)
{
    mf_value noise = mf_random_uniform(mf_state_value(mf_member_state(self, "stream")), MF_SHAPE0, MF_F32);
    mf_state last = mf_member_state(self, "last"), weight = mf_member_state(self, "weight");
    mf_state_set_value(last, mf_psum(noise, "i"));
    return mf_sub(mf_state_set_value(weight, mf_add(mf_state_value(weight), mf_add(delta, noise))), noise);
}

TEST(all_kinds_of_states_together)
{
    mf_module m = mf_module_new("Noisy", noisy, "stream", mf_random_state(1), "last", mf_hidden_state(mf_scalar(0, MF_F32)), "weight",
                                mf_param_state(mf_mul(ones(4), 8)));
    mf_value r = mf_call(mf_pmap2(m, "i", .state_in_axes = params(0), .state_out_axes = params(0)), mf_arange(4, MF_F32));
    CHECK(mf_item_bool(mf_allclose(r, mf_add(mf_arange(4, MF_F32), 8))));
    SAME(mf_state_value(mf_member_state(m, "stream")), mf_get(mf_random_split(mf_random_key(1), 5), 0));
    mf_value noise = mf_sub(weight_of(m), mf_add(mf_arange(4, MF_F32), 8));
    CHECK(mf_item_bool(mf_allclose(mf_sum(noise), mf_state_value(mf_member_state(m, "last")))));
}

static void *take_keys(void *keys)
{
    for (int i = 0; i < 50; i++) {
        MF_SCOPE;
        mf_to_host(mf_random_next(mf_random_default()), MF_U32, (uint32_t *)keys + 2 * i, 2);
    }
    return NULL;
}

TEST(the_default_state)
{
    mf_random_seed(3);
    SAME(mf_state_value(mf_random_default()), mf_random_key(3));
    SAME(mf_random_next(mf_random_default()), mf_get(mf_random_split(mf_random_key(3), 2), 1));
    pthread_t threads[4];
    static uint32_t keys[4][100];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, take_keys, keys[i]);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const uint32_t *all = keys[0];
    int equal = 0;
    for (int i = 0; i < 200; i++)
        for (int k = 0; k < i; k++)
            equal += all[2 * i] == all[2 * k] && all[2 * i + 1] == all[2 * k + 1];
    CHECK_EQ_INT(equal, 0);
}

/* ---- mapping functions */

static mf_function jit_of_donating(mf_function f, const mf_pmap_options *o)
{
    mf_pmap_options with_donation = *o;
    with_donation.donate_argnums = MF_INTS(0);
    return mf_jit(mf_pmap_opt(f, &with_donation));
}
static mf_function donating(mf_function f, const mf_pmap_options *o)
{
    mf_pmap_options with_donation = *o;
    with_donation.donate_argnums = MF_INTS(0);
    return mf_pmap_opt(f, &with_donation);
}
static mf_function no_map(mf_function f, const mf_pmap_options *o)
{
    (void)o;
    return f;
}
static mf_function refuses(mf_function f, const mf_pmap_options *o)
{
    (void)f;
    (void)o;
    return mf_pmap(same, .backend = "abacus");
}

TEST(mapping_functions)
{
    mf_module m = affine(ones(4));
    mf_value x = mf_add(mf_arange(4, MF_F32), 0);
#define MAP(...) mf_stateful_mapping(m, .axis_name = "i", .state_in_axes = params(0), .state_out_axes = params(0), __VA_ARGS__)
    TEXT(mf_call(MAP(.out_axes = 0), x), "[1. 2. 3. 4.]"); /* vmap */
    TEXT(mf_call(MAP(.mapping_fn = jit_of_donating), x), "[1. 3. 5. 7.]");
    TEXT(mf_call(MAP(.mapping_fn = donating), x), "[ 1.  4.  7. 10.]");
    CHECK(mf_is_deleted(x));
    TEXT(weight_of(m), "[ 1.  4.  7. 10.]");
    TEXT(mf_call(MAP(.mapping_fn = no_map), ones(4)), "[ 2.  5.  8. 11.]");
    mf_function failed = MAP(.mapping_fn = refuses);
    FAILS(mf_call(failed, ones(4)), "unknown backend 'abacus'");
    FAILS(mf_call(mf_pmap2(m, .mapping_fn = donating), ones(4)), "mapping_fn is mf_stateful_mapping's");
    FAILS(mf_call(mf_pmap2(m, .state_in_axes = MF_STATE_AXES(0, (mf_filter){ x.handle })), ones(4)), "are named by no filter");
    TEXT(weight_of(m), "[ 2.  5.  8. 11.]");
}

/* ---- words */

static mf_value forward(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "head"), x); }

/* ---- filters */

static mf_value through(mf_module self, mf_value x)
{
    return mf_call(mf_member_module(self, "head"), mf_call(mf_member_module(self, "encoder"), x));
}
static mf_module network(void)
{
    mf_module layer = affine(ones(1)), encoder = mf_module_new("Encoder", through, "encoder", layer, "head", affine(ones(2)));
    return mf_module_new("Net", through, "encoder", encoder, "head", affine(ones(3)), "my_encoder", affine(ones(4)), "seen",
                         mf_batch_state(ones(5)));
}

TEST(filters_see_paths)
{
    mf_module net = network();
    mf_filter encoder = mf_path_contains("encoder"), params = mf_of_type(MF_PARAM_STATE);
    TEXT(mf_module_values(net, encoder), "{'encoder': {'encoder': {'weight': [1.]}, 'head': {'weight': [1. 1.]}}}");
    TEXT(mf_module_values(net, mf_path_contains("encoder/head")), "{'encoder': {'head': {'weight': [1. 1.]}}}");
    TEXT(mf_module_values(net, mf_path_contains("encoder/encoder/weight")), "{'encoder': {'encoder': {'weight': [1.]}}}");
    TEXT(mf_module_values(net, mf_path_contains("ncoder")), "{}");
    TEXT(mf_module_values(net, mf_filter_all(params, mf_filter_not(encoder), mf_filter_not(mf_path_contains("my_encoder")))),
         "{'head': {'weight': [1. 1. 1.]}}");
    TEXT(mf_module_values(net, mf_filter_any(mf_of_type(MF_BATCH_STATE), mf_path_contains("my_encoder"))),
         "{'my_encoder': {'weight': [1. 1. 1. 1.]}, 'seen': [1. 1. 1. 1. 1.]}");
    TEXT(mf_module_values(mf_member_module(net, "encoder"), encoder), "{'encoder': {'weight': [1.]}}"); /* from the module that is asked */
    TEXT(mf_filter_all(params, mf_filter_not(mf_filter_any(encoder, mf_everything()))),
         "All(OfType(ParamState), Not(Any(PathContains('encoder'), Everything())))");
    FAILS(mf_module_values(net, mf_path_contains("")), "no name is given");
    FAILS(mf_module_values(net, mf_filter_all(params, (mf_filter){ 0 })), "not a filter");
    char name[16];
    for (int i = 0; i < 1000; i++) { /* as many as one likes */
        snprintf(name, sizeof name, "layer_%d", i);
        TEXT(mf_module_values(net, mf_path_contains(name)), "{}");
    }
}

static mf_value total(mf_module self, mf_value x)
{
    mf_value encoder = mf_state_value(mf_member_state(mf_member_module(mf_member_module(self, "encoder"), "encoder"), "weight"));
    mf_value head = mf_state_value(mf_member_state(mf_member_module(self, "head"), "weight"));
    return mf_add(mf_add(mf_sum(encoder), mf_sum(head)), x);
}

TEST(any_number_of_rules_by_paths)
{
    mf_value rows = mf_reshape(mf_arange(6, MF_F32), MF_SHAPE(2, 3));
    mf_module layer = affine(rows), encoder = mf_module_new("Encoder", through, "encoder", layer, "head", affine(rows));
    mf_module net = mf_module_new("Net", total, "encoder", encoder, "head", affine(mf_reshape(rows, MF_SHAPE(3, 2))));
    mf_state_axis_rules rules = MF_STATE_AXES(MF_NONE, mf_of_type(MF_RANDOM_STATE), 1, mf_path_contains("stats"), MF_NONE,
                                              mf_of_type(MF_BATCH_STATE), 0, mf_path_contains("encoder/encoder"), 1,
                                              mf_path_contains("head"));
    TEXT(mf_call(mf_pmap2(net, .state_in_axes = rules), ones(2)), "[10. 22.]");
    TEXT(mf_call(mf_vmap2(net, .state_in_axes = rules), ones(2)), "[10. 22.]");
    mf_state_axis_rules odd = MF_STATE_AXES(0, mf_everything(), 1), turned = MF_STATE_AXES(mf_everything(), 0);
    FAILS(mf_call(mf_pmap2(net, .state_in_axes = odd), ones(2)), "pairs of an axis and a filter");
    FAILS(mf_call(mf_pmap2(net, .state_in_axes = turned), ones(2)), "pairs of an axis and a filter");
}

/* A state's path is known when the outer module is made; what was traced before is not used any more. */
TEST(a_path_that_grows)
{
    mf_module layer = affine(mf_arange(2, MF_F32));
    mf_state_axis_rules rules = MF_STATE_AXES(0, mf_path_contains("net/layer"));
    mf_function f = mf_vmap2(layer, .state_in_axes = rules, .state_out_axes = rules);
    FAILS(mf_call(f, ones(2)), "weight");
    mf_module net = mf_module_new("Net", through, "layer", layer);
    (void)mf_module_new("Outer", through, "net", net);
    (void)mf_module_new("Later", through, "other", net); /* a second one changes nothing */
    TEXT(mf_call(f, ones(2)), "[1. 2.]");
}

TEST(what_is_said_of_a_map)
{
    mf_state tree = mf_batch_state(mf_dict("mean", mf_zeros(MF_SHAPE(2, 3), MF_F64), "seen", mf_scalar(0, MF_I32)));
    mf_module head = affine(ones(2)), m = mf_module_new("Model", forward, "head", head, "rate", 0.5, "stats", tree);
    const char *text = "Model(\n  head=Affine(\n    weight=ParamState(\n      value=ShapedArray(float32[2])\n    )\n  ),\n  rate=0.5,\n"
                       "  stats=BatchState(\n    value={'mean': ShapedArray(float64[2,3]), 'seen': ShapedArray(int32[])}\n  )\n)";
    TEXT(m, text);
    mf_state_axis_rules in = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE), -1, mf_filter_not(mf_path_contains("stats")), MF_NONE,
                                           mf_everything());
    mf_function f = mf_pmap2(m, .state_in_axes = in, .state_out_axes = params(1)), plain = mf_pmap(same);
    TEXT(mf_function_origin(f), text);
    CHECK_STR(mf_function_type(f), "StatefulMapping");
    CHECK_STR(mf_function_type(mf_vmap2(m)), "StatefulMapping");
    CHECK_STR(mf_function_type(plain), "pmap");
    CHECK_STR(mf_function_type(mf_function_origin(plain)), "function");
    CHECK_STR(mf_function_type(mf_function_origin(mf_function_origin(plain))), "function");
    CHECK(!mf_function_type((mf_function){ 0 }));
    TEXT(f, "pmap(Model)");
    CHECK_STR(mf_str_state_axis_rules(mf_function_state_in_axes(f)),
              "{0: OfType(ParamState), -1: Not(PathContains('stats')), None: Everything()}");
    CHECK_STR(mf_str_state_axis_rules(mf_function_state_out_axes(f)), "{1: OfType(ParamState)}");
    CHECK_STR(mf_str_state_axis_rules(mf_function_state_in_axes(plain)), "{}");
}
