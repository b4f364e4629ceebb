/* Recurrent cells and what runs them over sequences against Flax NNX (tests/oracle/sequences.txt): values, and gradients by inputs and
 * parameters; initialisers; cells of one's own; wrong inputs. */
#include <manyfold.h>

#include "check.h"
#include "oracle/sequences.h"

#define ANSWERS MF_TESTS_DIR "/oracle/sequences.txt"
/* About ten roundings of 6e-8 in each of five steps. */
static const double near = 1e-5;

static mf_value sequences(void) { return fill(1, MF_SHAPE(2, 5, 3), 1); }
static mf_value lengths(void) { return mf_array(MF_I32, MF_SHAPE(2), 3, 5); }
static mf_value first_h(void) { return fill(2, MF_SHAPE(2, 4), 1); }
static mf_value first_c(void) { return fill(3, MF_SHAPE(2, 4), 1); }

/* ---- modules with one input that wrap those with more */

static mf_value cell_from_h(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "inner"), first_h(), x); }
static mf_value cell_from_both(mf_module self, mf_value x)
{
    return mf_call(mf_member_module(self, "inner"), mf_tuple(first_c(), first_h()), x);
}
static mf_value with_lengths(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "inner"), x, mf_none(), lengths()); }
static mf_value with_time_lengths(mf_module self, mf_value x)
{
    return mf_call(mf_member_module(self, "inner"), x, mf_none(), mf_array(MF_I32, MF_SHAPE(5), 1, 2, 2, 1, 2));
}
static mf_value with_first(mf_module self, mf_value x) { return mf_call(mf_member_module(self, "inner"), x, first_h()); }
static mf_module around(mf_value (*call)(mf_module, mf_value), mf_module inner) { return mf_module_new("Around", call, "inner", inner); }

static mf_value weighted_module(void *context, mf_value params, mf_value x)
{
    return weighted_sum(mf_apply(*(mf_module *)context, params, x));
}

static void check_leaves(const char *name, const char *what, mf_value tree)
{
    char word[16];
    mf_value leaves = mf_tree_leaves(tree);
    CHECK_STR(mf_error(leaves), NULL);
    for (int i = 0; i < mf_len(leaves); i++) {
        snprintf(word, sizeof word, "%s%d", what, i);
        is_answer(ANSWERS, name, word, mf_get(leaves, i), near);
    }
}

static void check_module(const char *name, mf_module m, mf_value x, bool params_too)
{
    MF_SCOPE;
    mf_value params = filled_parameters(m);
    check_leaves(name, "out", mf_apply(m, params, x));
    mf_value grads = mf_call(mf_grad(mf_closure(weighted_module, &m), .argnums = MF_INTS(0, 1)), params, x);
    if (params_too)
        check_leaves(name, "param", mf_get(grads, 0));
    is_answer(ANSWERS, name, "grad0", mf_get(grads, 1), near);
}

static mf_module make_cell(int which)
{
    mf_state rngs = mf_random_state(0);
    return which == 0   ? mf_nn_simple_cell(rngs, 3, 4)
           : which == 1 ? mf_nn_gru_cell(rngs, 3, 4)
           : which == 2 ? mf_nn_lstm_cell(rngs, 3, 4)
                        : mf_nn_optimized_lstm_cell(rngs, 3, 4);
}

TEST(cells_are_flaxs)
{
    static const char *const names[] = { "simple", "gru", "lstm", "optimized_lstm" };
    for (int i = 0; i < 4; i++) {
        MF_SCOPE;
        char name[64];
        snprintf(name, sizeof name, "%s_cell", names[i]);
        check_module(name, around(i < 2 ? cell_from_h : cell_from_both, make_cell(i)), mf_get(sequences(), mf_range(0, MF_END), 0), true);
        snprintf(name, sizeof name, "%s_rnn", names[i]);
        check_module(name, mf_nn_rnn(make_cell(i), .return_carry = true), sequences(), true);
        snprintf(name, sizeof name, "%s_rnn_lengths", names[i]);
        check_module(name, around(with_lengths, mf_nn_rnn(make_cell(i), .return_carry = true)), sequences(), false);
    }
}

TEST(rnn_is_flaxs)
{
    MF_SCOPE;
    mf_module gru = make_cell(1);
    check_module("rnn_reverse", mf_nn_rnn(gru, .reverse = true), sequences(), false);
    check_module("rnn_keep_order", mf_nn_rnn(gru, .reverse = true, .keep_order = true), sequences(), false);
    check_module("rnn_reverse_lengths", around(with_lengths, mf_nn_rnn(gru, .reverse = true)), sequences(), false);
    check_module("rnn_keep_order_lengths", around(with_lengths, mf_nn_rnn(gru, .reverse = true, .keep_order = true)), sequences(), false);
    check_module("rnn_time_major", around(with_time_lengths, mf_nn_rnn(gru, .time_major = true, .reverse = true)), sequences(), false);
    check_module("rnn_initial", around(with_first, mf_nn_rnn(gru)), sequences(), false);
    mf_module residual = mf_nn_simple_cell(mf_random_state(0), 3, 4, .residual = true, .activation_fn = mf_fn(mf_relu));
    check_module("rnn_residual", mf_nn_rnn(residual), sequences(), false);
}

TEST(unrolled_is_the_same)
{
    for (int i = 0; i < 4; i++) {
        MF_SCOPE;
        mf_module plain = make_cell(i), cell = make_cell(i), both = mf_nn_bidirectional(mf_nn_rnn(cell, .unroll = 2), mf_nn_rnn(cell));
        mf_value wanted = mf_call(mf_nn_rnn(plain), sequences());
        CHECK(mf_item_bool(mf_array_equal(mf_call(mf_nn_rnn(cell, .unroll = 2), sequences()), wanted)));
        CHECK(mf_item_bool(mf_array_equal(mf_get(mf_split(mf_call(both, sequences()), 2, -1), 0), wanted)));
    }
    CHECK_CONTAINS(mf_error(mf_call(mf_nn_rnn(make_cell(1), .unroll = -2), sequences())), "unroll is -2");
}

TEST(bidirectional_is_flaxs)
{
    MF_SCOPE;
    mf_module forward = mf_nn_rnn(make_cell(1)), backward = mf_nn_rnn(make_cell(3));
    check_module("bidirectional", mf_nn_bidirectional(forward, backward), sequences(), false);
    check_module("bidirectional_lengths", around(with_lengths, mf_nn_bidirectional(forward, backward, .return_carry = true)), sequences(),
                 false);
}

static mf_value sum_of(mf_value a, mf_value b) { return mf_add(a, b); }

TEST(merge_fn_joins_both_directions)
{
    MF_SCOPE;
    mf_module gru = mf_nn_rnn(make_cell(1));
    mf_value x = sequences(), side_by_side = mf_call(mf_nn_bidirectional(gru, gru), x);
    mf_value added = mf_call(mf_nn_bidirectional(gru, gru, .merge_fn = mf_fn(sum_of)), x), parts = mf_split(side_by_side, 2, -1);
    CHECK(mf_item_bool(mf_array_equal(added, mf_add(mf_get(parts, 0), mf_get(parts, 1)))));
}

/* ---- user-defined cells */

static mf_value fading(mf_module self, mf_value carry, mf_value x)
{
    mf_value next = mf_add(mf_mul(carry, mf_state_value(mf_member_state(self, "decay"))), x);
    return mf_tuple(next, next);
}

TEST(any_module_of_carry_and_input_is_a_cell)
{
    MF_SCOPE;
    mf_module cell = mf_module_new("Fading", fading, "decay", mf_param_state(mf_scalar(0.5, MF_F32)));
    mf_value x = mf_array(MF_F32, MF_SHAPE(1, 3, 1), 1, 2, 4);
    CHECK_STR(mf_str(mf_ravel(mf_call(mf_nn_rnn(cell), x, mf_zeros(MF_SHAPE(1, 1), MF_F32)))), "[1.   2.5  5.25]");
    CHECK_CONTAINS(mf_error(mf_call(mf_nn_rnn(cell), x)), "Fading is no cell of this library; its first carry has to be given");
}

/* ---- parameters */

TEST(recurrent_kernels_are_orthogonal)
{
    MF_SCOPE;
    mf_value kernel = mf_state_value(mf_member_state(make_cell(3), "dense_h/kernel")); /* (4, 16): rows of length 1 */
    mf_value off = mf_sub(mf_matmul(kernel, mf_transpose(kernel, MF_INTS0)), mf_eye(4, MF_F32));
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(off))), 0, 1e-5);
    CHECK_NEAR(mf_item_f64(mf_max(mf_abs(mf_state_value(mf_member_state(make_cell(3), "dense_h/bias"))))), 0, 0);
    CHECK(mf_member_kind(mf_member_module(make_cell(3), "dense_i"), "bias") == MF_MEMBER_NONE);
    mf_value wide = mf_state_value(mf_member_state(mf_nn_gru_cell(mf_random_state(1), 64, 64), "dense_i/kernel"));
    CHECK_NEAR(mf_item_f64(mf_std(wide)) * 8, 1, 0.05); /* lecun_normal over 64 inputs: 12,288 draws */
}

static bool is_all(mf_module m, const char *path, double number)
{
    return mf_item_bool(mf_all(mf_equal(mf_state_value(mf_member_state(m, path)), number)));
}

TEST(initialisers_are_the_ones_given)
{
    MF_SCOPE;
    mf_state rngs = mf_random_state(0);
    mf_nn_cell_options o = { .kernel_init = mf_init_constant(2),
                             .recurrent_kernel_init = mf_init_constant(3),
                             .bias_init = mf_init_constant(4) };
    mf_module simple = mf_nn_simple_cell_opt(rngs, 3, 4, &o), gru = mf_nn_gru_cell_opt(rngs, 3, 4, &o);
    mf_module lstm = mf_nn_lstm_cell_opt(rngs, 3, 4, &o), optimized = mf_nn_optimized_lstm_cell_opt(rngs, 3, 4, &o);
    CHECK(is_all(simple, "dense_i/kernel", 2) && is_all(simple, "dense_h/kernel", 3) && is_all(simple, "dense_i/bias", 4));
    CHECK(is_all(gru, "dense_i/kernel", 2) && is_all(gru, "dense_h/kernel", 3) && is_all(gru, "dense_i/bias", 4));
    CHECK(is_all(optimized, "dense_i/kernel", 2) && is_all(optimized, "dense_h/kernel", 3) && is_all(optimized, "dense_h/bias", 4));
    static const char *const paths[] = { "ii", "if_", "ig", "io", "hi", "hf", "hg", "ho" };
    for (int i = 0; i < 8; i++) {
        mf_module map = mf_member_module(lstm, paths[i]);
        CHECK(is_all(map, "kernel", i < 4 ? 2 : 3) && (i < 4 || is_all(map, "bias", 4)));
    }
}

TEST(carries_and_dtypes)
{
    MF_SCOPE;
    mf_state rngs = mf_random_state(0);
    mf_value carry = mf_nn_initialize_carry(make_cell(2), MF_SHAPE(7, 5, 3));
    CHECK_STR(mf_str(mf_shape_of(mf_get(carry, 0))), "(7, 5, 4)");
    CHECK_EQ_INT(mf_len(carry), 2);
    mf_module narrow[] = { mf_nn_simple_cell(rngs, 3, 4, .dtype = MF_BF16), mf_nn_gru_cell(rngs, 3, 4, .dtype = MF_BF16),
                           mf_nn_lstm_cell(rngs, 3, 4, .dtype = MF_BF16), mf_nn_optimized_lstm_cell(rngs, 3, 4, .param_dtype = MF_F16) };
    for (int i = 0; i < 4; i++)
        CHECK_STR(mf_error(mf_call(mf_nn_rnn(narrow[i]), sequences())), NULL);
}

TEST(wrong_inputs_are_named)
{
    MF_SCOPE;
    mf_state rngs = mf_random_state(0);
    mf_module gru = mf_nn_rnn(make_cell(1)), lstm = make_cell(2);
    mf_value x = sequences(), wide = fill(1, MF_SHAPE(2, 5, 7), 1);
    const struct {
        mf_value result;
        const char *words;
    } cases[] = {
        { mf_call(gru, wide), "GRUCell: the input is (2, 5, 7); it must be (..., 3)" },
        { mf_call(mf_nn_rnn(lstm), wide), "LSTMCell: the input is (2, 7); it must be (..., 3)" },
        { mf_call(lstm, mf_tuple(first_c(), first_h()), fill(1, MF_SHAPE(2, 5), 1)), "LSTMCell: the input is (2, 5)" },
        { mf_call(gru, fill(1, MF_SHAPE(3), 1)), "RNN: the inputs are (3,); they must be (..., time, features)" },
        { mf_call(gru, x, mf_none(), mf_array(MF_I32, MF_SHAPE(3), 1, 1, 1)), "seq_lengths is (3,)" },
        { mf_call(gru, x, mf_none(), mf_none(), x), "RNN: takes inputs, an initial_carry and seq_lengths, but was called with 4" },
        { mf_call(gru, x, fill(1, MF_SHAPE(2, 9), 1)), "" },
        { mf_call(gru, mf_make_error(MF_ERROR_IO, "no words")), "no words" },
        { mf_call(mf_nn_rnn(mf_nn_gru_cell(rngs, 3, 0)), x), "GRUCell: in_features is 3 and hidden_features 0" },
        { mf_call(mf_nn_bidirectional(gru, mf_nn_linear(rngs, 3, 3)), x), "module Linear has no module named cell" },
        { mf_flip_sequences(x, .num_batch_dims = 3), "has no 3 batch dimensions" },
        { mf_nn_initialize_carry(mf_nn_linear(rngs, 3, 3), MF_SHAPE(3)), "Linear is no cell" },
        { mf_nn_initialize_carry(lstm, MF_SHAPE()), "a scalar" },
    };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        const char *message = mf_error(cases[i].result);
        if (!CHECK(message && strstr(message, cases[i].words)))
            CHECK_NOTE("case %d: %s", i, message ? message : "no error");
    }
}
