/* The step of examples/resnet.c, without augmentation: a 20-layer ResNet with batch statistics over all devices, label smoothing, and
 * momentum. size: the whole batch, of images of 28 by 28; factor: the channels of the first of three stages. */
#include "workload.h"

#include "../../examples/resnet_model.h"

#include <string.h>

enum { CLASSES = 10, SIDE = 28, MOST_LEAVES = 128 };

static resnet_trainer trainer;

static mf_value add_one_to_scales(mf_value path, mf_value leaf)
{
    size_t size = 0;
    const char *words = mf_static_data(path, &size);
    return words && strstr(words, "'scale'") ? mf_add(leaf, 1) : leaf;
}

/* Fills leaf i from key i. */
static mf_value parameters(mf_value like)
{
    mf_value leaves = mf_tree_leaves(like), filled[MOST_LEAVES];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < MOST_LEAVES; i++)
        filled[i] = mf_mul(normal((uint64_t)i, mf_shape_of(mf_get(leaves, i))), 0.05);
    return mf_tree_map_with_path(mf_fn(add_one_to_scales), mf_tree_unflatten(like, mf_list_n(filled, count)));
}

static mf_value rows_of_devices(mf_value x) { return x; }

static void prepare_resnet(const workload *w)
{
    const resnet_size size = { CLASSES, 1, (int)w->factor, 3, 3 };
    mf_shape shape = MF_SHAPE(devices, w->size / devices, SIDE, SIDE, 1);
    if (trainer.model.handle)
        mf_release((mf_value){ trainer.model.handle });
    mf_module made = resnet(mf_random_state(0), &size);
    trainer = (resnet_trainer){ .model = { mf_keep((mf_value){ made.handle }).handle },
                                .tx = resnet_optimizer(0.1, 5e-4, 1000),
                                .label_smoothing = 0.1,
                                .size = SIDE };
    resnet_state first = resnet_first_state(&trainer, 0);
    first.params = parameters(first.params);
    mf_value labels = mf_random_randint(mf_random_key(201), MF_SHAPE(devices, w->size / devices), mf_i(0), mf_i(CLASSES), MF_I32);
    mf_assign(&held[0], mf_replicate(resnet_state_pack(first), mf_device_slice(mf_local_devices(), 0, devices)));
    mf_assign(&held[1], mf_call(mf_pmap(rows_of_devices), mf_dict("image", normal(200, shape), "label", labels)));
    finish(held[1]);
}

static void call_resnet(void)
{
    mf_value next, said;
    mf_function step = mf_pmap(mf_closure(resnet_train_step, &trainer), .axis_name = "devices", .donate_argnums = MF_INTS(0));
    mf_unpack(mf_call(step, held[0], held[1]), &next, &said);
    mf_assign(&held[0], next);
    finish(said);
    finish(next);
}

static const workload rows[] = {
    { .name = "resnet_step_16_c2", prepare_resnet, call_resnet, 5, .size = 16, .factor = 2, .small = true },
    { .name = "resnet_step_128", prepare_resnet, call_resnet, 1, .size = 128, .factor = 16 },
};

const workload_list resnet_workloads = { rows, sizeof rows / sizeof *rows };
