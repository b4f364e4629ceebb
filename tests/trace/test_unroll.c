/* scan's unroll: values are those without it, bit for bit, of any length, direction and trees; gradients, maps and states; the loop is
 * shorter; wrong numbers. */
#include <manyfold.h>

#include "check.h"

/* Carry (2) and a count; x (2) and a scalar; y a tuple of a matrix, a scalar and nothing. */
static mf_value step(mf_value carry, mf_value x)
{
    mf_value c, n, a, b;
    mf_unpack(carry, &c, &n);
    mf_unpack(x, &a, &b);
    c = mf_tanh(mf_add(mf_mul(c, 0.9), mf_mul(a, b)));
    n = mf_add(n, 1);
    return mf_tuple(mf_tuple(c, n), mf_tuple(mf_outer(c, a), mf_mul(b, n)));
}

typedef struct job {
    int64_t unroll;
    bool reverse;
} job;

static mf_value run_job(void *context, mf_value x)
{
    const job *j = context;
    mf_value first = mf_tuple(mf_array(MF_F32, MF_SHAPE(2), 0.5, -0.25), mf_scalar(0, MF_F32));
    mf_value xs = mf_tuple(x, mf_sin(mf_sum(x, -1)));
    return mf_scan(mf_fn(step), first, xs, .unroll = j->unroll, .reverse = j->reverse);
}

static mf_value inputs(int64_t length) { return mf_cos(mf_reshape(mf_arange(2 * length, MF_F32), MF_SHAPE(length, 2))); }

static bool same_trees(mf_value a, mf_value b)
{
    mf_value x = mf_tree_leaves(a), y = mf_tree_leaves(b);
    bool same = mf_len(x) == mf_len(y) && mf_len(x) > 0;
    for (int i = 0; same && i < mf_len(x); i++)
        same = mf_item_bool(mf_array_equal(mf_get(x, i), mf_get(y, i)));
    return same;
}

static mf_value total(void *context, mf_value x)
{
    mf_value leaves = mf_tree_leaves(run_job(context, x)), sum = mf_f(0);
    for (int i = 0; i < mf_len(leaves); i++)
        sum = mf_add(sum, mf_sum(mf_mul(mf_get(leaves, i), i + 1)));
    return sum;
}

static void compare(int64_t length, job unrolled)
{
    MF_SCOPE;
    job plain = { .reverse = unrolled.reverse };
    mf_value x = inputs(length), wanted = run_job(&plain, x);
    CHECK(same_trees(run_job(&unrolled, x), wanted));
    CHECK(same_trees(mf_call(mf_jit(mf_closure(run_job, &unrolled)), x), mf_call(mf_jit(mf_closure(run_job, &plain)), x)));
    mf_value a = mf_call(mf_grad(mf_closure(total, &unrolled)), x), b = mf_call(mf_grad(mf_closure(total, &plain)), x);
    CHECK_STR(mf_error(a), NULL);
    CHECK(mf_item_bool(mf_allclose(a, b)));
    mf_value batch = mf_stack(mf_list(x, mf_mul(x, 2), mf_sub(x, 1)), 0);
    CHECK(same_trees(mf_call(mf_vmap(mf_closure(run_job, &unrolled)), batch), mf_call(mf_vmap(mf_closure(run_job, &plain)), batch)));
}

TEST(values_are_those_without)
{
    static const int64_t lengths[] = { 1, 2, 5, 6, 7 };
    for (int l = 0; l < 5; l++)
        for (int64_t unroll = 1; unroll <= 8; unroll += 1 + (unroll == 4) * 3)
            for (int reverse = 0; reverse < 2; reverse++)
                compare(lengths[l], (job){ unroll, reverse });
}

TEST(devices_unroll_too)
{
    MF_SCOPE;
    job unrolled = { 2, false }, plain = { 0 };
    mf_value x = mf_expand_dims(inputs(5), 0);
    CHECK(same_trees(mf_call(mf_pmap(mf_closure(run_job, &unrolled), "i"), x), mf_call(mf_pmap(mf_closure(run_job, &plain), "i"), x)));
}

TEST(nothing_is_a_sequence_too)
{
    MF_SCOPE;
    job unrolled = { 3, false };
    CHECK_STR(mf_str(mf_shape_of(mf_get(mf_get(run_job(&unrolled, inputs(0)), 1), 0))), "(0, 2, 2)");
}

static mf_value run_short(mf_value x)
{
    job j = { 4, false };
    return run_job(&j, x);
}

TEST(the_loop_is_shorter)
{
    MF_SCOPE;
    const char *text = mf_program_text_n(mf_fn(run_short), (mf_value[]){ inputs(22) }, 1);
    CHECK_CONTAINS(text, "length=5"); /* blocks of 4 */
    CHECK_CONTAINS(text, "length=2"); /* what fills none */
    CHECK(!strstr(text, "length=22"));
}

static mf_value counting(void *context, mf_value carry, mf_value nothing)
{
    mf_state cell = *(mf_state *)context;
    (void)nothing;
    mf_value n = mf_state_set_value(cell, mf_add(mf_mul(mf_state_value(cell), 2), carry));
    return mf_tuple(mf_add(carry, 1), n);
}

TEST(states_go_from_round_to_round)
{
    MF_SCOPE;
    mf_state plain = mf_param_state(mf_scalar(1, MF_F32)), unrolled = mf_param_state(mf_scalar(1, MF_F32));
    mf_value a = mf_scan(mf_closure(counting, &plain), 1.0, mf_none(), .length = 7);
    mf_value b = mf_scan(mf_closure(counting, &unrolled), 1.0, mf_none(), .length = 7, .unroll = 3);
    CHECK(same_trees(a, b));
    CHECK(mf_item_bool(mf_array_equal(mf_state_value(plain), mf_state_value(unrolled))));
}

static mf_value halved(mf_value carry, mf_value nothing) { return mf_tuple(mf_mul(carry, 0.5), nothing); }

TEST(wrong_numbers_are_named)
{
    MF_SCOPE;
    job negative = { -1, false }, much = { INT64_MAX, false };
    CHECK_CONTAINS(mf_error(run_job(&negative, inputs(4))), "scan: unroll is -1; it must be at least 1");
    CHECK(same_trees(run_job(&much, inputs(4)), run_job(&(job){ 4, false }, inputs(4))));
    CHECK_CONTAINS(mf_error(mf_scan(mf_fn(halved), 1.0, mf_none(), .length = INT64_MAX, .unroll = INT64_MAX)),
                   "no more than 4096 rounds are made one");
}
