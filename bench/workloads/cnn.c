/* The CNN step of the data-parallel guide: two convolutions and a dense layer, value_and_grad, pmean, Adam. f32, or bf16 activations with
 * f32 master weights. size: the whole batch; factor: the channels of the first convolution; the second has twice as many. */
#include "workload.h"

/* The context of the step's closure. The dtype must be part of it, or a program traced for another dtype would be reused. */
static struct step {
    mf_optimizer adam;
    mf_dtype dtype;
} of;

static mf_value cast(void *context, mf_value x) { return mf_astype(x, ((const struct step *)context)->dtype); }

static mf_value conv_block(mf_value x, mf_value kernel, mf_value bias)
{
    mf_value y = mf_conv_general_dilated(x, kernel, .padding = MF_SAME);
    return mf_max_pool(mf_relu(mf_add(y, bias)), .window_shape = MF_INTS(2, 2), .strides = MF_INTS(2, 2));
}

static mf_value objective(void *context, mf_value params, mf_value x, mf_value label)
{
    const struct step *s = context;
    mf_value p = s->dtype == MF_F32 ? params : mf_tree_map(mf_closure(cast, s), params);
    x = conv_block(mf_astype(x, s->dtype), mf_get(p, "k1"), mf_get(p, "b1"));
    x = conv_block(x, mf_get(p, "k2"), mf_get(p, "b2"));
    mf_value flat = mf_reshape(x, MF_SHAPE(mf_dim(x, 0), -1));
    mf_value logits = mf_astype(mf_add(mf_matmul(flat, mf_get(p, "w")), mf_get(p, "b")), MF_F32);
    mf_value loss = mf_mean(mf_softmax_cross_entropy(logits, mf_one_hot(label, 10)));
    return mf_tuple(loss, mf_mean(mf_equal(mf_argmax(logits, -1), label)));
}

static mf_value cnn_step(void *context, mf_value p, mf_value opt, mf_value x, mf_value label)
{
    const struct step *s = context;
    mf_value both, grads;
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(objective, s), .has_aux = true), p, x, label), &both, &grads);
    grads = mf_pmean(grads, "devices");
    both = mf_pmean(both, "devices");
    mf_value next = mf_optim_update(s->adam, grads, &opt, p);
    return mf_tuple(next, opt, both);
}

static mf_value weights(uint64_t seed, mf_shape shape) { return mf_mul(normal(seed, shape), 0.05); }

static mf_value rows_of_devices(mf_value x) { return x; }

static mf_value parameters(int64_t c)
{
    return mf_dict("k1", weights(0, MF_SHAPE(3, 3, 3, c)), "b1", mf_zeros(MF_SHAPE(c), MF_F32), "k2", weights(1, MF_SHAPE(3, 3, c, 2 * c)),
                   "b2", mf_zeros(MF_SHAPE(2 * c), MF_F32), "w", weights(2, MF_SHAPE(128 * c, 10)), "b", mf_zeros(MF_SHAPE(10), MF_F32));
}

static void prepare_cnn(const workload *w)
{
    int64_t batch = w->size / mf_device_count(), c = w->factor;
    of.dtype = w->dtype;
    if (!of.adam.handle)
        of.adam = mf_adam();
    mf_value p = parameters(c);
    mf_device_list all = mf_device_slice(mf_local_devices(), 0, devices);
    mf_value images = normal(3, MF_SHAPE(devices, batch, 32, 32, 3));
    mf_value labels = mf_random_randint(mf_random_key(4), MF_SHAPE(devices, batch), mf_i(0), mf_i(10), MF_I32);
    mf_assign(&held[0], mf_replicate(p, all));
    mf_assign(&held[1], mf_replicate(mf_optim_init(of.adam, p), all));
    mf_assign(&held[2], mf_call(mf_pmap(rows_of_devices), images));
    mf_assign(&held[3], mf_call(mf_pmap(rows_of_devices), labels));
    finish(held[2]);
}

static void call_cnn(void)
{
    mf_function step = mf_pmap(mf_closure(cnn_step, &of), .axis_name = "devices", .donate_argnums = MF_INTS(0, 1));
    mf_value p, opt, loss;
    mf_unpack(mf_call(step, held[0], held[1], held[2], held[3]), &p, &opt, &loss);
    mf_assign(&held[0], p);
    mf_assign(&held[1], opt);
    finish(loss);
    finish(p);
}

/* Only the communication of the step: values of the size of the gradients, different on each device. */
static mf_value row_of_device(mf_value x) { return mf_add(x, mf_astype(mf_axis_index("devices"), MF_F32)); }
static mf_value rows_of(mf_value tree) { return mf_tree_map(row_of_device, tree); }
static mf_value exchange(mf_value gradients) { return mf_pmean(gradients, "devices"); }

static void prepare_exchange(const workload *w)
{
    mf_value p = mf_replicate(parameters(w->factor), mf_device_slice(mf_local_devices(), 0, devices));
    mf_assign(&held[0], mf_call(mf_pmap(rows_of, .axis_name = "devices"), p));
}

static void call_exchange(void) { finish(mf_call(mf_pmap(exchange, .axis_name = "devices"), held[0])); }

#define CNN(text, type, batch, channels, times, fast)                                                                           \
    {                                                                                                                           \
        .name = "cnn_step_" text, prepare_cnn, call_cnn, times, .size = batch, .factor = channels, .small = fast, .dtype = type \
    }

static const workload rows[] = {
    CNN("float32_16_c4", MF_F32, 16, 4, 10, true),
    CNN("bfloat16_16_c4", MF_BF16, 16, 4, 10, true),
    CNN("float32_32", MF_F32, 32, 32, 5, false),
    CNN("float32_64", MF_F32, 64, 32, 4, false),
    CNN("float32_128", MF_F32, 128, 32, 3, false),
    CNN("float32_256", MF_F32, 256, 32, 2, false),
    CNN("float32_512", MF_F32, 512, 32, 1, false),
    CNN("float32_128_c8", MF_F32, 128, 8, 5, false),
    CNN("float32_128_c16", MF_F32, 128, 16, 4, false),
    CNN("float32_128_c64", MF_F32, 128, 64, 1, false),
    CNN("float32_128_c128", MF_F32, 128, 128, 1, false),
    CNN("bfloat16_128", MF_BF16, 128, 32, 3, false),
    { .name = "cnn_exchange", prepare_exchange, call_exchange, 10, .factor = 32 },
};

const workload_list cnn_workloads = { rows, sizeof rows / sizeof *rows };
