/* Workloads of one jitted function on one device: matrix products, softmax cross-entropy, layer norm, Adam, an elementwise chain. */
#include "workload.h"

/* n by n matrices; size: n */
static void prepare_matmul(const workload *w)
{
    for (uint64_t i = 0; i < 2; i++)
        mf_assign(&held[i], mf_astype(normal(i, MF_SHAPE(w->size, w->size)), w->dtype));
}
static mf_value product(mf_value a, mf_value b) { return mf_matmul(a, b); }
static void call_matmul(void) { finish(mf_call(mf_jit(product), held[0], held[1])); }

/* `size` rows of `factor` classes, with integer labels */
static mf_value cross_entropy(mf_value logits, mf_value labels)
{
    return mf_mean(mf_softmax_cross_entropy_with_integer_labels(logits, labels));
}
static mf_value cross_entropy_rows(mf_value logits, mf_value labels)
{
    return mf_softmax_cross_entropy_with_integer_labels(logits, labels);
}
static void prepare_cross_entropy(const workload *w)
{
    mf_assign(&held[0], normal(0, MF_SHAPE(w->size, w->factor)));
    mf_assign(&held[1], mf_random_randint(mf_random_key(1), MF_SHAPE(w->size), mf_i(0), mf_i((int)w->factor), MF_I32));
}
static void call_cross_entropy(void) { finish(mf_call(mf_jit(cross_entropy_rows), held[0], held[1])); }
static void call_cross_entropy_gradient(void) { finish(mf_call(mf_jit(mf_value_and_grad(cross_entropy)), held[0], held[1])); }

/* `size` values; parameters and optimiser state are donated */
static mf_value adam_step(void *context, mf_value p, mf_value state, mf_value g)
{
    mf_value next = mf_optim_update(*(mf_optimizer *)context, g, &state, p);
    return mf_tuple(next, state);
}
static mf_optimizer adam;
static void prepare_adam(const workload *w)
{
    if (!adam.handle)
        adam = mf_adam();
    mf_assign(&held[0], normal(0, MF_SHAPE(w->size)));
    mf_assign(&held[1], mf_optim_init(adam, held[0]));
    mf_assign(&held[2], normal(1, MF_SHAPE(w->size)));
}
static void call_adam(void)
{
    mf_value p, state;
    mf_unpack(mf_call(mf_jit(mf_closure(adam_step, &adam), .donate_argnums = MF_INTS(0, 1)), held[0], held[1], held[2]), &p, &state);
    mf_assign(&held[0], p);
    mf_assign(&held[1], state);
    finish(p);
    finish(state);
}

/* `size` rows of `factor` values */
static mf_value layer_norm(mf_value x, mf_value scale, mf_value bias)
{
    mf_value centred = mf_sub(x, mf_mean(x, -1, .keepdims = true));
    mf_value variance = mf_mean(mf_square(centred), -1, .keepdims = true);
    return mf_add(mf_mul(mf_mul(centred, mf_rsqrt(mf_add(variance, 1e-5))), scale), bias);
}
static void prepare_layer_norm(const workload *w)
{
    mf_assign(&held[0], normal(0, MF_SHAPE(w->size, w->factor)));
    mf_assign(&held[1], normal(1, MF_SHAPE(w->factor)));
    mf_assign(&held[2], normal(2, MF_SHAPE(w->factor)));
}
static void call_layer_norm(void) { finish(mf_call(mf_jit(layer_norm), held[0], held[1], held[2])); }

/* `size` values */
static mf_value tanh_exp(mf_value x) { return mf_mul(mf_tanh(x), mf_exp(x)); }
static void prepare_tanh_exp(const workload *w) { mf_assign(&held[0], normal(0, MF_SHAPE(w->size))); }
static void call_tanh_exp(void) { finish(mf_call(mf_jit(tanh_exp), held[0])); }

#define MATMUL(text, type, n, times, fast)                                                                     \
    {                                                                                                          \
        .name = "matmul_" text #n, prepare_matmul, call_matmul, times, .size = n, .small = fast, .dtype = type \
    }

static const workload rows[] = {
    MATMUL("", MF_F32, 64, 100, true),
    MATMUL("", MF_F32, 512, 20, false),
    MATMUL("", MF_F32, 1024, 4, false),
    MATMUL("", MF_F32, 2048, 1, false),
    MATMUL("bfloat16_", MF_BF16, 64, 100, true),
    MATMUL("bfloat16_", MF_BF16, 512, 20, false),
    MATMUL("bfloat16_", MF_BF16, 1024, 4, false),
    MATMUL("bfloat16_", MF_BF16, 2048, 1, false),
    { .name = "cross_entropy_64x10", prepare_cross_entropy, call_cross_entropy, 100, .size = 64, .factor = 10, .small = true },
    { .name = "cross_entropy_4096x1000", prepare_cross_entropy, call_cross_entropy, 10, .size = 4096, .factor = 1000 },
    { .name = "cross_entropy_grad_64x10",
      prepare_cross_entropy,
      call_cross_entropy_gradient,
      100,
      .size = 64,
      .factor = 10,
      .small = true },
    { .name = "cross_entropy_grad_4096x1000", prepare_cross_entropy, call_cross_entropy_gradient, 5, .size = 4096, .factor = 1000 },
    { .name = "adam_4Ki", prepare_adam, call_adam, 100, .size = 4 << 10, .small = true },
    { .name = "adam_1Mi", prepare_adam, call_adam, 20, .size = 1 << 20 },
    { .name = "adam_16Mi", prepare_adam, call_adam, 2, .size = 16 << 20 },
    { .name = "layer_norm_64x64", prepare_layer_norm, call_layer_norm, 100, .size = 64, .factor = 64, .small = true },
    { .name = "layer_norm_4096x1024", prepare_layer_norm, call_layer_norm, 10, .size = 4096, .factor = 1024 },
    { .name = "tanh_exp_64Ki", prepare_tanh_exp, call_tanh_exp, 100, .size = 64 << 10, .small = true },
};

const workload_list dense_workloads = { rows, sizeof rows / sizeof *rows };
