/* The dtypes in which a layer computes and stores its parameters (Flax's dtype and param_dtype). */
#include "check.h"

#include <manyfold.h>

static mf_dtype member_dtype(mf_module m, const char *name) { return mf_dtype_of(mf_state_value(mf_member_state(m, name))); }

TEST(dtype_is_what_a_layer_computes_in)
{
    mf_state rngs = mf_random_state(0);
    mf_value x = mf_ones(MF_SHAPE(2, 3), MF_F32), image = mf_ones(MF_SHAPE(1, 4, 4, 3), MF_F32);
    mf_module linear = mf_nn_linear(rngs, 3, 2, .dtype = MF_BF16), conv = mf_nn_conv(rngs, 3, 2, .dtype = MF_BF16);
    CHECK_EQ_INT(mf_dtype_of(mf_call(linear, x)), MF_BF16);
    CHECK_EQ_INT(mf_dtype_of(mf_call(conv, image)), MF_BF16);
    CHECK_EQ_INT(member_dtype(linear, "kernel"), MF_F32);
    CHECK_EQ_INT(member_dtype(linear, "bias"), MF_F32);
    CHECK_EQ_INT(member_dtype(conv, "kernel"), MF_F32);
    mf_value by_hand = mf_matmul(mf_astype(x, MF_BF16), mf_astype(mf_state_value(mf_member_state(linear, "kernel")), MF_BF16));
    CHECK(mf_item_bool(mf_array_equal(mf_call(linear, x), by_hand))); /* the bias is zero */
}

TEST(param_dtype_is_what_it_keeps)
{
    mf_state rngs = mf_random_state(0);
    mf_module linear = mf_nn_linear(rngs, 3, 2, .param_dtype = MF_BF16),
              both = mf_nn_linear(rngs, 3, 2, .dtype = MF_F32, .param_dtype = MF_F16);
    CHECK_EQ_INT(member_dtype(linear, "kernel"), MF_BF16);
    CHECK_EQ_INT(member_dtype(linear, "bias"), MF_BF16);
    CHECK_EQ_INT(mf_dtype_of(mf_call(linear, mf_ones(MF_SHAPE(2, 3), MF_F32))), MF_F32);
    CHECK_EQ_INT(member_dtype(both, "kernel"), MF_F16);
    CHECK_EQ_INT(mf_dtype_of(mf_call(both, mf_ones(MF_SHAPE(2, 3), MF_BF16))), MF_F32);
}

TEST(no_options_are_the_defaults)
{
    mf_state rngs = mf_random_state(0), same = mf_random_state(0);
    mf_value x = mf_ones(MF_SHAPE(2, 3), MF_F32), image = mf_ones(MF_SHAPE(1, 4, 4, 3), MF_F32);
    CHECK(mf_item_bool(mf_array_equal(mf_call(mf_nn_linear_opt(rngs, 3, 2, NULL), x), mf_call(mf_nn_linear(same, 3, 2), x))));
    CHECK(mf_item_bool(mf_array_equal(mf_call(mf_nn_conv_opt(rngs, 3, 2, NULL), image), mf_call(mf_nn_conv(same, 3, 2), image))));
}
