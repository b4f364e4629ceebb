/* A steady training step takes no array memory from the system, because the steps before have filled the cache. */
#include "check.h"
#include "steady.h"

#include <manyfold.h>

static mf_value objective(mf_value p, mf_value x, mf_value label)
{
    mf_value y = mf_relu(mf_add(mf_conv_general_dilated(x, mf_get(p, "k"), .padding = MF_SAME), mf_get(p, "c")));
    y = mf_max_pool(y, .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
    mf_value logits = mf_add(mf_matmul(mf_reshape(y, MF_SHAPE(mf_dim(y, 0), -1)), mf_get(p, "w")), mf_get(p, "b"));
    return mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(label, 10)));
}

static mf_value train_step(void *context, mf_value p, mf_value opt, mf_value x, mf_value label)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(objective), p, x, label), &loss, &grads);
    grads = mf_pmean(grads, "devices");
    mf_value next = mf_optim_update(*(mf_optimizer *)context, grads, &opt, p);
    return mf_tuple(next, opt, mf_pmean(loss, "devices"));
}

static mf_value params, opt_state;

static double one_step(mf_optimizer *adam, mf_value x, mf_value label)
{
    MF_SCOPE;
    mf_value p, o, loss;
    mf_function step = mf_pmap(mf_closure(train_step, adam), .axis_name = "devices", .donate_argnums = MF_INTS(0, 1));
    mf_unpack(mf_call(step, params, opt_state, x, label), &p, &o, &loss);
    mf_assign(&params, p);
    mf_assign(&opt_state, o);
    CHECK_EQ_INT(mf_block_until_ready(mf_tuple(p, o)), MF_OK); /* the loss may be ready earlier than these */
    return mf_item_f64(mf_get(loss, 0));
}

TEST(no_array_memory_from_the_system)
{
    mf_set_num_cpu_devices(4);
    mf_optimizer adam = mf_adam(.learning_rate = 1e-2);
    mf_value keys = mf_random_split(mf_random_key(0), 4);
    mf_value p = mf_dict(
        "k", mf_mul(mf_random_normal(mf_get(keys, 0), MF_SHAPE(3, 3, 1, 8), MF_F32), 0.3), "c", mf_zeros(MF_SHAPE(8), MF_F32), "w",
        mf_mul(mf_random_normal(mf_get(keys, 1), MF_SHAPE(8 * 8 * 8, 10), MF_F32), 0.05), "b", mf_zeros(MF_SHAPE(10), MF_F32));
    mf_value x = mf_random_normal(mf_get(keys, 2), MF_SHAPE(4, 4, 16, 16, 1), MF_F32);
    mf_value label = mf_random_randint(mf_get(keys, 3), MF_SHAPE(4, 4), mf_i(0), mf_i(10), MF_I32);
    mf_assign(&opt_state, mf_replicate(mf_optim_init(adam, p), mf_devices()));
    mf_assign(&params, mf_replicate(p, mf_devices()));
    double first = one_step(&adam, x, label), last = first;
    for (int i = 0; i < 4; i++)
        one_step(&adam, x, label);
    CHECK_STEADY(last = one_step(&adam, x, label));
    CHECK(last < first);
}
