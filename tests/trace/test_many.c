/* Many leaves, states, captured values, members, branches: nothing is cut off, and there is no maximum; but what is kept of many functions
 * is bounded. */
#include "check.h"

#include "ops/params.h"
#include "ops/ops.h"
#include "trace/trace.h"

#include <manyfold.h>

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

#define IS(v, number) CHECK_NEAR(mf_item_f64(v), number, 1e-6)

/* 0, 1, ..., n - 1 as scalars. */
static mf_value numbers(int n)
{
    mf_value *items = malloc((size_t)n * sizeof *items), list;
    for (int i = 0; i < n; i++)
        items[i] = mf_scalar(i, MF_F32);
    list = mf_list_n(items, n);
    free(items);
    return list;
}

static bool is_error(mf_value v, const char *part)
{
    bool error = CHECK(mf_is_error(v));
    return error && CHECK_CONTAINS(mf_error(v), part);
}

/* ---- leaves of a gradient */

enum { LEAVES = 10000 };

static mf_value sum_of_squares(mf_value list)
{
    mf_value sum = mf_f(0);
    for (int i = 0; i < LEAVES; i += 1000)
        sum = mf_add(sum, mf_square(mf_get(list, i)));
    return sum;
}
static mf_value with_list(mf_value list) { return mf_tuple(sum_of_squares(list), list); }

TEST(gradients_of_10000_leaves)
{
    mf_value list = numbers(LEAVES), g = mf_call(mf_grad(sum_of_squares), list), both, aux;
    CHECK_EQ_INT(mf_len(g), LEAVES);
    IS(mf_get(g, 9000), 18000);
    IS(mf_get(g, 9001), 0);
    mf_unpack(mf_call(mf_value_and_grad(with_list, .has_aux = true), list), &both, &g);
    mf_unpack(both, &g, &aux);
    CHECK_EQ_INT(mf_len(aux), LEAVES);
    IS(mf_get(aux, LEAVES - 1), LEAVES - 1);
    mf_function back;
    IS(mf_vjp(mf_fn(sum_of_squares), mf_tuple(list), &back), 285e6);
    g = mf_get(mf_call(back, mf_scalar(1, MF_F32)), 0);
    CHECK_EQ_INT(mf_len(g), LEAVES);
    IS(mf_get(g, 1000), 2000);
}

static mf_value product(mf_value a, mf_value b) { return mf_mul(mf_get(a, 1), mf_get(b, 2)); }

TEST(an_argument_is_named_once)
{
    mf_value a = numbers(600), b = numbers(700), g;
    g = mf_call(mf_grad(product, .argnums = MF_INTS(1, 0)), a, b);
    CHECK_EQ_INT(mf_len(mf_get(g, 0)), 700);
    IS(mf_get(mf_get(g, 1), 1), 2);
    is_error(mf_call(mf_grad(product, .argnums = MF_INTS(0, 1, 0)), a, b), "names argument 0 twice");
    is_error(mf_call(mf_grad(product, .argnums = MF_INTS(1, -1)), a, b), "names argument 1 twice");
}

/* ---- captured values */

enum { CAPTURES = 300 };

typedef struct captured {
    mf_value list;
} captured;

static mf_value add_all(void *c, mf_value carry)
{
    for (int i = 0; i < CAPTURES; i++)
        carry = mf_add(carry, mf_get(((captured *)c)->list, i));
    return carry;
}
static mf_value same(mf_value x) { return x; }
static mf_value step(void *c, mf_value carry, mf_value x) { return mf_tuple(add_all(c, carry), x); }
static mf_value below(void *c, mf_value carry) { return mf_less(carry, mf_sum(mf_mul(3, mf_get(((captured *)c)->list, 299)))); }
static mf_value by_scan(mf_value list) { return mf_get(mf_scan(mf_closure(step, &(captured){ list }), 0.0, mf_arange(3, MF_F32)), 0); }
static mf_value by_while(mf_value list)
{
    captured c = { list };
    return mf_while(mf_closure(below, &c), mf_closure(add_all, &c), 0.0);
}
static mf_value by_cond(mf_value list)
{
    return mf_cond(mf_greater(mf_get(list, 0), -1), mf_closure(add_all, &(captured){ list }), same, 0.0);
}
static mf_value by_remat(mf_value list) { return mf_call(mf_remat(mf_closure(add_all, &(captured){ list })), 0.0); }

TEST(bodies_capture_300_values)
{
    static mf_value (*const ways[])(mf_value) = { by_scan, by_cond, by_remat };
    static const double times[] = { 3, 1, 1 };
    mf_value list = numbers(CAPTURES);
    for (int i = 0; i < 3; i++) {
        IS(mf_call(mf_jit(ways[i]), list), times[i] * 44850);
        mf_value g = mf_call(mf_grad(ways[i]), list);
        CHECK_EQ_INT(mf_len(g), CAPTURES);
        IS(mf_get(g, CAPTURES - 1), times[i]);
    }
    IS(mf_call(mf_jit(by_while), list), 44850);
}

/* ---- leaves and branches of control flow */

enum { WIDE = 3000, BRANCHES = 70 };

static mf_value wide_step(mf_value carry, mf_value x) { return mf_tuple(carry, mf_get(x, WIDE - 1)); }
static mf_value never(mf_value carry) { return mf_less(mf_get(carry, WIDE - 1), 0); }
static mf_value as_row(mf_value x) { return mf_reshape(x, MF_SHAPE(1)); }
static mf_value wide(mf_value list)
{
    mf_value ys = mf_get(mf_scan(wide_step, list, mf_tree_map(as_row, list)), 1);
    return mf_add(mf_sum(ys), mf_get(mf_cond(true, same, same, mf_while(never, same, list)), WIDE - 2));
}
static mf_value times(void *c, mf_value x) { return mf_mul(*(int *)c, x); }
static mf_value choose(mf_value index)
{
    mf_function branches[BRANCHES];
    for (int i = 0; i < BRANCHES; i++)
        branches[i] = mf_closure(times, &i);
    return mf_switch_n(index, branches, BRANCHES, mf_scalar(2, MF_F32));
}

TEST(control_flow_takes_3000_leaves_and_70_branches)
{
    IS(mf_call(mf_jit(wide), numbers(WIDE)), WIDE - 1 + WIDE - 2);
    IS(mf_call(mf_jit(choose), 69), 138);
    IS(choose(mf_i(3)), 6);
}

/* ---- cells */

enum { CELLS = 5000, LOOP_CELLS = 300 };

static mf_state cells[CELLS];

static mf_value add_to_cells(int count, mf_value x)
{
    for (int i = 0; i < count; i++)
        mf_state_set_value(cells[i], mf_add(mf_state_value(cells[i]), x));
    return x;
}
static mf_value add_to_all(mf_value x) { return add_to_cells(CELLS, x); }
static mf_value add_to_some(mf_value x) { return add_to_cells(LOOP_CELLS, x); }
static mf_value turn(mf_value i, mf_value x) { return mf_add(mf_mul(0, i), add_to_some(x)); }
static mf_value add_twice(mf_value x) { return mf_fori_loop(0, 2, turn, x); }
static mf_value add_or_not(mf_value x) { return mf_cond(mf_greater(x, 0), add_to_some, same, x); }
static mf_value small(mf_value x) { return mf_less(x, 3); }
static mf_value grow(mf_value x) { return mf_add(1, add_to_some(x)); }
static mf_value add_while(mf_value x) { return mf_while(small, grow, x); }

TEST(traces_touch_5000_cells)
{
    for (int i = 0; i < CELLS; i++)
        cells[i] = mf_hidden_state(mf_scalar(i, MF_F32));
    IS(mf_call(mf_jit(add_to_all), 1.0f), 1);
    IS(mf_state_value(cells[0]), 1);
    IS(mf_state_value(cells[CELLS - 1]), CELLS);
    IS(mf_call(mf_jit(add_twice), 1.0f), 1);
    IS(mf_state_value(cells[LOOP_CELLS - 1]), LOOP_CELLS + 2);
    IS(mf_call(mf_jit(add_or_not), 1.0f), 1);
    IS(mf_call(mf_jit(add_or_not), -1.0f), -1);
    IS(mf_state_value(cells[LOOP_CELLS - 1]), LOOP_CELLS + 3);
    IS(mf_call(mf_jit(add_while), 1.0f), 3);
    IS(mf_state_value(cells[LOOP_CELLS - 1]), LOOP_CELLS + 6);
    IS(mf_state_value(cells[LOOP_CELLS]), LOOP_CELLS + 1);
}

/* ---- members of a module */

enum { MEMBERS = 1100 };

static mf_value second(mf_module self, mf_value x) { return mf_mul(x, mf_state_value(mf_member_state(self, "state_1099"))); }

TEST(a_module_has_1100_states)
{
    mf_node_ nodes[2 * MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "state_%d", i);
        nodes[2 * i] = mf_node_name(name);
        nodes[2 * i + 1] = mf_node_state(mf_param_state(mf_scalar(i, MF_F32)));
    }
    mf_module m = mf_module_n("Many", (mf_fm)second, 1, nodes, 2 * MEMBERS);
    mf_value values = mf_module_values(m, mf_everything());
    CHECK_EQ_INT(mf_len(values), MEMBERS);
    IS(mf_get(values, "state_1099"), 1099);
    CHECK_EQ_INT(mf_module_update(m, mf_tree_map(mf_neg, values)), MF_OK);
    IS(mf_call(m, 2.0f), -2198);
    IS(mf_apply(m, values, 2.0f), 2198);
    IS(mf_call(m, 2.0f), -2198);
    /* all or nothing: a value of another shape, dtype aside, is none of its state's */
    mf_value wide = mf_set(values, mf_zeros(MF_SHAPE(2), MF_F32), "state_7"), tree = mf_set(values, mf_tuple(1), "state_7");
    CHECK_EQ_INT(mf_module_update(m, wide), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_module_update(m, tree), MF_ERROR_TREE);
    const char *message = NULL;
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_SHAPE);
    CHECK_CONTAINS(message, "state state_7 of Many is float32[], but its new value is float32[2]");
    IS(mf_call(m, 2.0f), -2198);
}

/* ---- operands */

TEST(an_op_is_bound_to_20_operands)
{
    mf_value x = mf_ones(MF_SHAPE(2), MF_F32);
    mf_axis_params params = { .axis = 0 };
    mf_value all = mf_bind(&mf_op_concatenate, &params, 20, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, mf_neg(x));
    CHECK_STR(mf_str(mf_shape_of(all)), "(40,)");
    IS(mf_sum(all), 36);
}

/* ---- members of an axis, names of a policy */

enum { AXIS = 5000, NAMES = 100 };

static mf_value backwards;

static mf_value turned_round(mf_value x) { return mf_pshuffle(x, "i", backwards); }

TEST(a_permutation_has_5000_members)
{
    mf_value members[AXIS];
    for (int i = 0; i < AXIS; i++)
        members[i] = mf_i(AXIS - 1 - i);
    backwards = mf_list_n(members, AXIS);
    mf_value y = mf_call(mf_vmap(turned_round, "i"), mf_arange(AXIS, MF_F32));
    IS(mf_get(y, 0), AXIS - 1);
    IS(mf_get(y, AXIS - 2), 1);
}

static mf_value wave(mf_value x) { return mf_sin(x); }

TEST(a_policy_has_100_names)
{
    char text[NAMES][8];
    const char *names[NAMES];
    for (int i = 0; i < NAMES; i++) {
        snprintf(text[i], sizeof text[i], "n%d", i);
        names[i] = text[i];
    }
    mf_function f = mf_remat(wave, .policy = mf_save_only_these_names_n(names, NAMES));
    CHECK_CONTAINS(mf_program_text(f, mf_scalar(1, MF_F32)), "n99");
}

/* ---- what is kept of destroyed functions */

enum { TIMES = 2000, KEPT = 400, LENGTH = 1 << 10 }; /* KEPT: 256 programs, and those since the last look */

static int traced;

static mf_value scaled(mf_value a, mf_value x)
{
    traced++;
    return mf_add(mf_mul(a, x), 1);
}
static mf_value scaled_by(void *c, mf_value x) { return scaled(*(mf_value *)c, x); }
static mf_value scaled_by_number(void *c, mf_value x) { return scaled(mf_i(*(int *)c), x); }

/* A jit of a partial or a closure over a new array, for each number below TIMES. */
static void over_new_arrays(bool closures)
{
    mf_value x = mf_arange(LENGTH, MF_F32);
    for (int i = 0; i < TIMES; i++) {
        MF_SCOPE;
        mf_value a = mf_add(x, i);
        mf_value y = mf_call(mf_jit(closures ? mf_closure(scaled_by, &a) : mf_partial(scaled, a)), x);
        if (i % 500 == 0)
            CHECK_NEAR(mf_item_f64(mf_get(y, 2)), 2 * (2 + i) + 1, 1e-6);
        mf_block_until_ready(y);
    }
}

TEST(functions_over_new_arrays_are_not_kept)
{
    for (int closures = 0; closures < 2; closures++) {
        mf_clear_caches();
        int64_t before = mf_memory_stats().live_bytes;
        over_new_arrays(closures);
        CHECK(mf_cache_read().entries <= KEPT);
        CHECK(mf_memory_stats().live_bytes - before <= (int64_t)KEPT * LENGTH * 4);
    }
}

/* Outside of transforms each is a separate op, whose branches hold the array. */
TEST(control_flow_over_new_arrays_is_not_kept)
{
    mf_value x = mf_arange(LENGTH, MF_F32);
    mf_clear_caches();
    int64_t before = mf_memory_stats().live_bytes;
    for (int i = 0; i < TIMES; i++) {
        MF_SCOPE;
        mf_value a = mf_add(x, i);
        mf_function times = mf_closure(scaled_by, &a);
        mf_value y = mf_cond(mf_greater(mf_get(a, 0), -1), times, times, x);
        if (i % 500 == 0)
            CHECK_NEAR(mf_item_f64(mf_get(y, 2)), 2 * (2 + i) + 1, 1e-6);
        mf_block_until_ready(y);
    }
    CHECK(mf_cache_read().ops <= KEPT);
    CHECK(mf_memory_stats().live_bytes - before <= (int64_t)3 * KEPT * LENGTH * 4);
}

TEST(functions_that_are_held_are_kept)
{
    mf_value x = mf_arange(4, MF_F32), a = mf_ones(MF_SHAPE(4), MF_F32);
    mf_function held = mf_jit(mf_partial(scaled, a));
    mf_block_until_ready(mf_call(held, x));
    over_new_arrays(false);
    traced = 0;
    mf_block_until_ready(mf_call(held, x));
    for (int i = 0; i < 20; i++) { /* compiled again, but not for long */
        MF_SCOPE;
        mf_block_until_ready(mf_call(mf_jit(mf_partial(scaled, x)), a));
    }
    CHECK_EQ_INT(traced, 1);
}

TEST(other_functions_and_ops_are_kept_to_a_number)
{
    mf_value x = mf_arange(8, MF_F32), many = mf_arange(6000, MF_F32);
    for (int i = 0; i < 6000; i++) {
        MF_SCOPE;
        mf_block_until_ready(mf_call(mf_jit(mf_closure(scaled_by_number, &i)), x));
        mf_block_until_ready(mf_slice_in_dim(many, i, i + 1, 1, 0));
        if (i % 100 == 0)
            mf_block_until_ready(mf_call(mf_jit(mf_closure(scaled_by_number, &(int){ -1 })), x));
    }
    CHECK(mf_cache_read().entries <= 4096 && mf_cache_read().ops <= 4096);
    traced = 0;
    mf_block_until_ready(mf_call(mf_jit(mf_closure(scaled_by_number, &(int){ -1 })), x)); /* used from time to time */
    CHECK_EQ_INT(traced, 0);
    mf_clear_caches();
    CHECK_EQ_INT(mf_cache_read().entries + mf_cache_read().ops, 0);
}

/* ---- none of anything */

static mf_value index_alone(void) { return mf_axis_index("i"); }
static mf_value as_it_is(mf_module self, mf_value x)
{
    (void)self;
    return x;
}
static mf_value passed(mf_value x) { return x; }

#ifdef __clang__ /* mf_switch(0, x) has nothing for the "...", as C23 allows and C11 does not; GCC says nothing in a system header's macros */
#pragma clang diagnostic ignored "-Wgnu-zero-variadic-macro-arguments"
#endif
TEST(a_list_of_none_is_a_list)
{
    MF_SCOPE;
    mf_value x = mf_arange(2, MF_F32), state = mf_optim_init(mf_chain(), x);
    CHECK_STR(mf_str(mf_call(mf_pmap(index_alone, "i", .in_axes = mf_axes(), .axis_size = 2))), "[0 1]");
    is_error(mf_call(mf_pmap(passed, .in_axes = mf_axes_dict()), mf_dict("x", x)), "the axes are {}");
    mf_module m = mf_module_new("Same", as_it_is);
    CHECK_EQ_INT(mf_member_count(m), 0);
    CHECK_STR(mf_str(mf_call(mf_pmap2(m, .state_in_axes = MF_STATE_AXES()), x)), "[0. 1.]");
    CHECK_STR(mf_str(mf_module_values(m, mf_filter_all())), "{}");
    CHECK_STR(mf_str(mf_module_values(mf_nn_linear(mf_random_state(0), 1, 1), mf_filter_any())), "{}");
    CHECK_EQ_INT(mf_member_count(mf_nn_list()), 0);
    CHECK_STR(mf_str(mf_call(mf_nn_sequential(), x)), "[0. 1.]");
    CHECK_STR(mf_str(mf_optim_update(mf_chain(), x, &state, x)), "[0. 2.]");
    CHECK_STR(mf_str(mf_call(mf_piecewise_constant_schedule(0.5), 3)), "0.5");
    CHECK_STR(mf_str(mf_call(mf_remat(passed, .policy = mf_save_only_these_names()), x)), "[0. 1.]");
    is_error(mf_module_split(m), "at least one filter");
    is_error(mf_switch(0, x), "at least one branch");
    mf_unpack(mf_tuple());
}
