/* The model of resnet.c and its training step: a residual network for small images, with batch normalisation over all devices. A module
 * holds the structure; parameters and batch statistics are trees. The step merges them into a temporary module. */
#ifndef EXAMPLES_RESNET_MODEL_H
#define EXAMPLES_RESNET_MODEL_H

#include <manyfold.h>

typedef struct resnet_size {
    int classes, channels; /* of the images */
    int width;             /* channels of the first stage; each later stage has twice as many, at half the resolution */
    int stages, blocks;    /* blocks in a stage: 2 * stages * blocks + 2 layers */
} resnet_size;

enum { resnet_most_blocks = 64 }; /* of all stages together */

/* ---- the model: images (n, h, w, channels) -> logits (n, classes) */

static inline mf_value resnet_part(mf_module self, const char *name, mf_value x) { return mf_call(mf_member_module(self, name), x); }

static inline mf_module resnet_conv(mf_state rngs, int in, int out, int size, int stride)
{
    return mf_nn_conv(rngs, in, out, .kernel_size = MF_INTS(size, size), .strides = MF_INTS(stride, stride), .no_bias = true,
                      .kernel_init = mf_init_variance_scaling(2, .mode = MF_FAN_OUT, .distribution = MF_INIT_NORMAL));
}

/* With .axis_name, the statistics are over the images of all devices. */
static inline mf_module resnet_norm(mf_state rngs, int features, mf_initializer scale)
{
    return mf_nn_batch_norm(rngs, features, .axis_name = "devices", .momentum = 0.9, .scale_init = scale);
}

static inline mf_value resnet_block_call(mf_module self, mf_value x)
{
    mf_value y = mf_relu(resnet_part(self, "norm1", resnet_part(self, "conv1", x)));
    y = resnet_part(self, "norm2", resnet_part(self, "conv2", y));
    return mf_relu(mf_add(resnet_part(self, "shortcut", x), y));
}

static inline mf_value resnet_identity(mf_value x) { return x; }

/* The last norm's scale is initialised to 0, so that a block starts as its shortcut alone. */
static inline mf_module resnet_block(mf_state rngs, int in, int out, int stride)
{
    mf_module conv1 = resnet_conv(rngs, in, out, 3, stride), norm1 = resnet_norm(rngs, out, mf_init_ones());
    mf_module conv2 = resnet_conv(rngs, out, out, 3, 1), norm2 = resnet_norm(rngs, out, mf_init_zeros());
    mf_module shortcut = mf_nn_sequential(resnet_identity);
    if (in != out || stride != 1)
        shortcut = mf_nn_sequential(resnet_conv(rngs, in, out, 1, stride), resnet_norm(rngs, out, mf_init_ones()));
    return mf_module_new("Block", resnet_block_call, "conv1", conv1, "norm1", norm1, "conv2", conv2, "norm2", norm2, "shortcut", shortcut);
}

static inline mf_value resnet_call(mf_module self, mf_value images)
{
    mf_value x = mf_relu(resnet_part(self, "norm", resnet_part(self, "conv", images)));
    x = resnet_part(self, "blocks", x);
    return resnet_part(self, "dense", mf_mean(x, mf_axes(1, 2)));
}

static inline mf_module resnet(mf_state rngs, const resnet_size *s)
{
    mf_function blocks[resnet_most_blocks];
    int count = 0, in = s->width;
    mf_module conv = resnet_conv(rngs, s->channels, in, 3, 1), norm = resnet_norm(rngs, in, mf_init_ones());
    for (int stage = 0; stage < s->stages; stage++)
        for (int i = 0; i < s->blocks && count < resnet_most_blocks; i++) {
            int out = s->width << stage;
            blocks[count++] = mf_fn(resnet_block(rngs, in, out, stage && !i ? 2 : 1));
            in = out;
        }
    mf_module dense = mf_nn_linear(rngs, in, s->classes);
    return mf_module_new("ResNet", resnet_call, "conv", conv, "norm", norm, "blocks", mf_nn_sequential_n(blocks, count), "dense", dense);
}

/* ---- one step of training, as each device runs it */

typedef struct resnet_trainer {
    mf_module model;
    mf_optimizer tx;
    double label_smoothing;
    int64_t size;    /* height and width of the crop that the model sees */
    int64_t augment; /* 1: random crops and flips; 0: the centre crop */
} resnet_trainer;    /* constant during training: the context of the closures below */

/* stats: the running averages of the norms; key: the source of the next step's random numbers. All are the same on all devices. */
MF_RECORD(resnet_state, params, stats, opt_state, key);

typedef struct resnet_batch {
    const resnet_trainer *trainer;
    mf_value stats, images, labels;
} resnet_batch;

static inline resnet_state resnet_first_state(const resnet_trainer *t, uint64_t seed)
{
    mf_value params = mf_module_values(t->model, mf_of_type(MF_PARAM_STATE));
    return (resnet_state){ .params = params,
                           .stats = mf_module_values(t->model, mf_of_type(MF_BATCH_STATE)),
                           .opt_state = mf_optim_init(t->tx, params),
                           .key = mf_random_key(seed) };
}

/* SGD with Nesterov momentum and weight decay on kernels only; linear warm-up over the first tenth of the steps, then cosine decay. */
static inline mf_optimizer resnet_optimizer(double learning_rate, double weight_decay, int64_t steps)
{
    mf_function rate = mf_warmup_cosine_decay_schedule(0, learning_rate, steps / 10 + 1, steps + 1);
    return mf_chain(mf_add_decayed_weights(.weight_decay = weight_decay, .mask = mf_path_contains("kernel")),
                    mf_sgd(.schedule = rate, .momentum = 0.9, .nesterov = true));
}

/* (n, h, w, c) -> (n, size, size, c): with a key, a random crop of each image, flipped with probability 1/2; without, the centre crop.
 * Normalised by the mean and standard deviation of Fashion-MNIST's pixels. */
static inline mf_value resnet_view(const resnet_trainer *t, mf_value key, mf_value images)
{
    if (key.handle) {
        mf_value keys = mf_random_split(key, 2);
        images = mf_augment_crop(mf_get(keys, 0), images, .height = t->size, .width = t->size);
        images = mf_augment_flip(mf_get(keys, 1), images);
    } else {
        int64_t top = (mf_dim(images, 1) - t->size) / 2, left = (mf_dim(images, 2) - t->size) / 2;
        images = mf_slice_in_dim(mf_slice_in_dim(images, top, top + t->size, 1, 1), left, left + t->size, 1, 2);
    }
    return mf_augment_normalize(images, 0.286, 0.353);
}

/* params -> (loss, {"stats", "accuracy"}): stats are the updated running averages. */
static inline mf_value resnet_loss(void *batch, mf_value params)
{
    const resnet_batch *b = batch;
    mf_module model = mf_module_merge(b->trainer->model, params, b->stats);
    mf_value logits = mf_call(model, b->images);
    mf_value loss = mf_softmax_cross_entropy_with_integer_labels(logits, b->labels, .label_smoothing = b->trainer->label_smoothing);
    mf_value accuracy = mf_mean(mf_equal(mf_argmax(logits, -1), b->labels));
    return mf_tuple(mf_mean(loss), mf_dict("stats", mf_module_values(model, mf_of_type(MF_BATCH_STATE)), "accuracy", accuracy));
}

/* state, {"image", "label"} -> (state, {"loss", "accuracy"}): one update by the mean gradient of all devices. */
static inline mf_value resnet_train_step(void *trainer, mf_value state, mf_value batch)
{
    const resnet_trainer *t = trainer;
    resnet_state s = resnet_state_unpack(state);
    mf_value draws = { 0 }, both, grads, loss, aux;
    if (t->augment) {
        mf_value keys = mf_random_split(s.key, 2);
        s.key = mf_get(keys, 0);
        draws = mf_random_fold_in(mf_get(keys, 1), mf_axis_index("devices"));
    }
    resnet_batch b = { t, s.stats, resnet_view(t, draws, mf_get(batch, "image")), mf_get(batch, "label") };
    mf_unpack(mf_call(mf_value_and_grad(mf_closure(resnet_loss, &b), .has_aux = true), s.params), &both, &grads);
    mf_unpack(both, &loss, &aux);
    s.stats = mf_get(aux, "stats"); /* already the same on all devices: the norms average over "devices" */
    mf_value metrics = mf_dict("loss", loss, "accuracy", mf_get(aux, "accuracy"));
    mf_unpack(mf_pmean(mf_tuple(grads, metrics), "devices"), &grads, &metrics);
    s.params = mf_optim_update(t->tx, grads, &s.opt_state, s.params);
    return mf_tuple(resnet_state_pack(s), metrics);
}

/* params, stats, images -> logits, with the running averages instead of batch statistics */
static inline mf_value resnet_logits(const resnet_trainer *t, mf_value params, mf_value stats, mf_value images)
{
    mf_module model = mf_module_merge(mf_nn_eval(t->model), params, stats);
    return mf_call(model, resnet_view(t, (mf_value){ 0 }, images));
}

#endif
