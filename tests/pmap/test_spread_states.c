/* Random states and module states in maps that span processes: the devices of a process draw and hold the same as those devices in one
 * process. */
#include "check.h"
#include "spread.h"

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

#define PMAP2(f, ...) mf_pmap2(f, "i", .devices = h->devices, __VA_ARGS__)

/* ------------------------------------------------------------------ random states */

static mf_state random_of(const spread_here *h)
{
    (void)h;
    return mf_random_state(7);
}

static mf_value draw(void *random, mf_value scale)
{
    mf_state r = *(mf_state *)random;
    mf_value first = mf_random_normal(mf_random_next(r), MF_SHAPE(3), MF_F32);
    return mf_tuple(mf_mul(first, scale), mf_random_uniform(mf_random_next(r), MF_SHAPE0, MF_F32));
}

/* Twice, so that the state's value in between is tested. */
static mf_value two_draws(const spread_here *h)
{
    mf_state r = random_of(h);
    mf_function f = PMAP2(mf_closure(draw, &r), .in_axes = 0);
    mf_value scale = spread_rows(h, mf_linspace(1.0, 2.0, 8));
    mf_value first = mf_call(f, scale), second = mf_call(f, scale);
    return mf_dict("rows", mf_tuple(first, second), "same", mf_state_value(r));
}

/* A state that is only read is split, too, also under jit; a state with one key per device is mapped by the rule. */
static mf_value read_only(void *random, mf_value x)
{
    return mf_mul(x, mf_random_normal(mf_state_value(*(mf_state *)random), MF_SHAPE0, MF_F32));
}
static mf_value draws_in_jit(const spread_here *h)
{
    mf_state r = random_of(h);
    mf_function f = mf_jit(PMAP2(mf_closure(read_only, &r), .in_axes = 0));
    mf_value x = spread_rows(h, mf_linspace(1.0, 2.0, 8)), first = mf_call(f, x);
    return mf_dict("rows", mf_tuple(first, mf_call(f, x)), "same", mf_state_value(r));
}
static mf_value keys_by_rule(const spread_here *h)
{
    mf_state r = mf_random_state_of_key(spread_rows(h, mf_random_split(mf_random_key(9), 8)));
    mf_state_axis_rules by_row = MF_STATE_AXES(0, mf_of_type(MF_RANDOM_STATE));
    mf_function f = PMAP2(mf_closure(draw, &r), .in_axes = 0, .state_in_axes = by_row, .state_out_axes = by_row);
    mf_value x = spread_rows(h, mf_linspace(1.0, 2.0, 8)), first = mf_call(f, x);
    return mf_dict("rows", mf_tuple(first, mf_call(f, x), mf_state_value(r)));
}
/* An inner vmap splits each device's key again. */
static mf_value draws_of_vmap(const spread_here *h)
{
    mf_state r = random_of(h);
    mf_function f = PMAP2(mf_vmap2(mf_closure(draw, &r), .in_axes = 0), .in_axes = 0);
    return mf_dict("rows", mf_call(f, spread_rows(h, mf_reshape(mf_arange(24, MF_F32), MF_SHAPE(8, 3)))), "same", mf_state_value(r));
}

/* ------------------------------------------------------------------ modules */

static mf_value affine(mf_module self, mf_value delta)
{
    mf_state weight = mf_member_state(self, "weight"), mean = mf_member_state(self, "mean"), count = mf_member_state(self, "count");
    mf_state_set_value(weight, mf_add(mf_state_value(weight), delta));
    mf_state_set_value(mean, mf_add(mf_mul(mf_state_value(mean), 0.9f), mf_mul(mf_pmean(delta, "i"), 0.1f)));
    mf_state_set_value(count, mf_add(mf_state_value(count), 1));
    return mf_mul(mf_state_value(weight), mf_state_value(mean));
}
static mf_module affine_of(mf_value weight)
{
    return mf_module_new("Affine", affine, "weight", mf_param_state(weight), "mean", mf_batch_state(mf_zeros(MF_SHAPE(3), MF_F32)), "count",
                         mf_hidden_state(mf_scalar(0, MF_I32)));
}
static mf_value states_of(mf_module m, mf_value result)
{
    return mf_dict("rows", mf_tuple(result, mf_state_value(mf_member_state(m, "weight"))), "same",
                   mf_tuple(mf_state_value(mf_member_state(m, "mean")), mf_state_value(mf_member_state(m, "count"))));
}

/* A weight for each device; a running average and a count for all. */
static mf_value running_averages(const spread_here *h)
{
    mf_module m = affine_of(spread_rows(h, mf_zeros(MF_SHAPE(8, 3), MF_F32)));
    mf_state_axis_rules by_row = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE));
    mf_function f = PMAP2(m, .in_axes = 0, .state_in_axes = by_row, .state_out_axes = by_row);
    mf_value delta = spread_rows(h, mf_reshape(mf_sin(mf_arange(24, MF_F32)), MF_SHAPE(8, 3))), result = mf_none();
    for (int i = 0; i < 5; i++)
        result = mf_call(f, mf_add(delta, i));
    return states_of(m, result);
}

/* Held once as an input, one row per device as an output. */
static mf_value out_by_rows(const spread_here *h)
{
    mf_module m = affine_of(mf_zeros(MF_SHAPE(3), MF_F32));
    mf_function f = PMAP2(m, .in_axes = 0, .state_out_axes = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE)));
    mf_value delta = spread_rows(h, mf_reshape(mf_sin(mf_arange(24, MF_F32)), MF_SHAPE(8, 3)));
    return states_of(m, mf_call(f, delta));
}

/* No argument is mapped: the states determine the number of rows. */
static mf_value by_states(const spread_here *h)
{
    mf_module m = affine_of(spread_rows(h, mf_reshape(mf_sin(mf_arange(24, MF_F32)), MF_SHAPE(8, 3))));
    mf_state_axis_rules by_row = MF_STATE_AXES(0, mf_of_type(MF_PARAM_STATE));
    mf_function f = PMAP2(m, .in_axes = MF_NONE, .state_in_axes = by_row, .state_out_axes = by_row);
    return states_of(m, mf_call(f, mf_ones(MF_SHAPE(3), MF_F32)));
}

/* The same where a row takes two devices, so that the states have fewer rows than there are devices. */
static mf_value inner_sum(mf_value x) { return mf_psum(x, "j"); }
static mf_value sum_inside(void *state, mf_value x)
{
    mf_state s = *(mf_state *)state;
    mf_value sums = mf_call(mf_pmap(inner_sum, "j"), mf_mul(mf_state_value(s), x));
    mf_state_set_value(s, mf_add(mf_state_value(s), mf_psum(sums, "i")));
    return sums;
}
static mf_value by_states_of_groups(const spread_here *h)
{
    mf_state s = mf_param_state(spread_rows(h, mf_reshape(mf_sin(mf_arange(8, MF_F32)), MF_SHAPE(4, 2))));
    mf_state_axis_rules by_row = MF_STATE_AXES(0, mf_everything());
    mf_function f = PMAP2(mf_closure(sum_inside, &s), .in_axes = MF_NONE, .state_in_axes = by_row, .state_out_axes = by_row);
    mf_value result = mf_call(f, mf_ones(MF_SHAPE(2), MF_F32));
    return mf_dict("rows", mf_tuple(result, mf_state_value(s)));
}

/* Gradients with respect to states, inside the map. */
static mf_value loss_of(void *module, mf_value x)
{
    mf_module m = *(mf_module *)module;
    mf_value w = mf_state_value(mf_member_state(m, "weight"));
    return mf_sum(mf_square(mf_mul(x, w)));
}
static mf_value descend(void *module, mf_value x)
{
    mf_module m = *(mf_module *)module;
    mf_value g = mf_call(mf_grad(mf_closure(loss_of, &m), .states = mf_of_type(MF_PARAM_STATE)), x);
    mf_state w = mf_member_state(m, "weight");
    mf_state_set_value(w, mf_sub(mf_state_value(w), mf_mul(0.01f, mf_pmean(mf_get(mf_tree_leaves(g), 0), "i"))));
    return mf_state_value(w);
}
static mf_value gradients_of_states(const spread_here *h)
{
    mf_module m = affine_of(mf_ones(MF_SHAPE(3), MF_F32));
    mf_function f = PMAP2(mf_closure(descend, &m), .in_axes = 0, .out_axes = MF_NONE);
    mf_value x = spread_rows(h, mf_reshape(mf_sin(mf_arange(24, MF_F32)), MF_SHAPE(8, 3))), w = mf_none();
    for (int i = 0; i < 3; i++)
        w = mf_call(f, x);
    return mf_dict("same", mf_tuple(w, mf_state_value(mf_member_state(m, "weight"))));
}

static const struct {
    const char *name;
    spread_program run;
} cases[] = {
    { "two draws", two_draws },
    { "draws in jit", draws_in_jit },
    { "keys by rule", keys_by_rule },
    { "draws of vmap", draws_of_vmap },
    { "running averages", running_averages },
    { "out by rows", out_by_rows },
    { "by states", by_states },
    { "gradients of states", gradients_of_states },
};

TEST(states_over_processes)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        spread_check(cases[i].name, cases[i].run, NULL, 8, spread_of_eight);
    static const char *const pairs[] = { "00001111", "00112233", "00111111", "11112200", NULL };
    spread_check("by states of groups", by_states_of_groups, NULL, 4, pairs);
}
