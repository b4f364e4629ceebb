/* Parts of training besides matrix products: batch normalisation, forward and backward, and the input pipeline, which shuffles, crops and
 * flips batches of images. */
#include "workload.h"

/* size: the number of images, of 28 by 28; factor: their channels */
static mf_module norm;
static mf_value normalize(mf_value values, mf_value x)
{
    mf_module m = mf_module_merge(norm, values);
    mf_value y = mf_call(m, x);
    return mf_tuple(y, mf_module_values(m, mf_of_type(MF_BATCH_STATE)));
}
static mf_value norm_loss(mf_value values, mf_value x, mf_value weights)
{
    mf_value y, statistics;
    mf_unpack(normalize(values, x), &y, &statistics);
    return mf_tuple(mf_mean(mf_mul(y, weights)), statistics);
}
static void prepare_norm(const workload *w)
{
    if (norm.handle)
        mf_release((mf_value){ norm.handle });
    mf_module made = mf_nn_batch_norm(mf_random_state(0), (int)w->factor);
    norm = (mf_module){ mf_keep((mf_value){ made.handle }).handle };
    mf_assign(&held[0], mf_module_values(norm, mf_everything()));
    for (int i = 1; i <= 2; i++)
        mf_assign(&held[i], normal((uint64_t)i, MF_SHAPE(w->size, 28, 28, w->factor)));
}
static void call_norm(void) { finish(mf_call(mf_jit(normalize), held[0], held[1])); }
static void call_norm_gradient(void)
{
    finish(mf_call(mf_jit(mf_grad(norm_loss, .argnums = MF_INTS(0, 1), .has_aux = true)), held[0], held[1], held[2]));
}

/* An epoch of `size` images of 28 by 28 in batches of `factor`. Two batches are prefetched, as is usual. */
static mf_loader *loader;
static mf_value augment(mf_value key, mf_value images)
{
    mf_value keys = mf_random_split(key, 2);
    mf_value x = mf_augment_flip(mf_get(keys, 1), mf_augment_crop(mf_get(keys, 0), images, .padding = 2));
    return mf_augment_normalize(x, mf_f(0.2860), mf_f(0.3530));
}
static void prepare_epoch(const workload *w)
{
    if (loader)
        mf_loader_close(loader);
    mf_value images = mf_random_randint(mf_random_key(0), MF_SHAPE(w->size, 28, 28, 1), mf_i(0), mf_i(256), MF_I32);
    mf_value labels = mf_random_randint(mf_random_key(1), MF_SHAPE(w->size), mf_i(0), mf_i(10), MF_I32);
    loader = mf_loader_open(mf_dict("image", mf_astype(images, MF_U8), "label", labels), .batch_size = w->factor, .shuffle = true,
                            .prefetch = 2);
    mf_assign(&held[0], mf_random_key(2));
}
static void call_epoch(void)
{
    mf_value batch;
    for (int64_t i = 0; mf_loader_next(loader, &batch); i++) {
        MF_SCOPE;
        mf_value x = mf_call(mf_jit(augment), mf_random_fold_in(held[0], i), mf_get(batch, "image"));
        finish(mf_get(batch, "label"));
        finish(x);
    }
}

static const workload rows[] = {
    { .name = "batch_norm_4x8", prepare_norm, call_norm, 10, .size = 4, .factor = 8, .small = true },
    { .name = "batch_norm_grad_4x8", prepare_norm, call_norm_gradient, 10, .size = 4, .factor = 8, .small = true },
    { .name = "batch_norm_64x64", prepare_norm, call_norm, 2, .size = 64, .factor = 64 },
    { .name = "batch_norm_grad_64x64", prepare_norm, call_norm_gradient, 2, .size = 64, .factor = 64 },
    { .name = "epoch_256", prepare_epoch, call_epoch, 1, .size = 256, .factor = 128, .small = true, .threads = true },
    { .name = "epoch_8192", prepare_epoch, call_epoch, 1, .size = 8192, .factor = 128, .threads = true },
};

const workload_list training_workloads = { rows, sizeof rows / sizeof *rows };
