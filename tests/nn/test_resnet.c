/* The model and the step of examples/resnet.c: the first five steps, data-parallel on 8 devices, against JAX's (tests/oracle/resnet.txt,
 * made by resnet.py), and what the averages then say; draws of each device; a steady step. */
#include <manyfold.h>

#include "../../examples/resnet_model.h"
#include "check.h"
#include "steady.h"
#include "oracle/sequences.h"

#define ANSWERS MF_TESTS_DIR "/oracle/resnet.txt"

enum { DEVICES = 8, CLASSES = 10, SIDE = 8, BATCH = 16, STEPS = 5 };

static resnet_trainer known_trainer(bool augment)
{
    const resnet_size size = { CLASSES, 1, 4, 3, 3 };
    mf_function rate = mf_warmup_cosine_decay_schedule(0, 0.1, 2, 21);
    mf_optimizer tx = mf_chain(mf_add_decayed_weights(.weight_decay = 5e-4, .mask = mf_path_contains("kernel")),
                               mf_sgd(.schedule = rate, .momentum = 0.9, .nesterov = true));
    return (resnet_trainer){ resnet(mf_random_state(0), &size), tx, .label_smoothing = 0.1, .size = SIDE, .augment = augment };
}

static mf_value add_one_to_scales(mf_value path, mf_value leaf)
{
    size_t size = 0;
    const char *words = mf_static_data(path, &size);
    return words && strstr(words, "'scale'") ? mf_add(leaf, 1) : leaf;
}

static mf_value known_parameters(mf_module model)
{
    mf_value values = mf_module_values(model, mf_of_type(MF_PARAM_STATE)), leaves = mf_tree_leaves(values), filled[128];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 128; i++)
        filled[i] = fill(1000 + (uint32_t)i, mf_shape_of(mf_get(leaves, i)), 0.1);
    return mf_tree_map_with_path(mf_fn(add_one_to_scales), mf_tree_unflatten(values, mf_list_n(filled, count)));
}

/* Numbers from 0 to 1. */
static mf_value part_of(uint32_t seed, mf_shape shape) { return mf_div(mf_add(fill(seed, shape, 1), 1), 2); }

static mf_value batch_of(int step)
{
    mf_value labels = mf_floor(mf_mul(part_of(200 + (uint32_t)step, MF_SHAPE(BATCH)), CLASSES));
    return mf_dict("image", part_of(100 + (uint32_t)step, MF_SHAPE(BATCH, SIDE + 4, SIDE + 4, 1)), "label", mf_astype(labels, MF_I32));
}

static resnet_state known_state(const resnet_trainer *t)
{
    resnet_state s = resnet_first_state(t, 7);
    s.params = known_parameters(t->model);
    s.opt_state = mf_optim_init(t->tx, s.params);
    return s;
}

static mf_value norms(mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree), out[128];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 128; i++)
        out[i] = mf_sqrt(mf_sum(mf_square(mf_get(leaves, i))));
    return mf_stack(mf_list_n(out, count), 0);
}

static mf_value gradients(void *trainer, mf_value params, mf_value batch)
{
    const resnet_trainer *t = trainer;
    resnet_batch b = { t, mf_module_values(t->model, mf_of_type(MF_BATCH_STATE)), resnet_view(t, (mf_value){ 0 }, mf_get(batch, "image")),
                       mf_get(batch, "label") };
    mf_value grads = mf_get(mf_call(mf_value_and_grad(mf_closure(resnet_loss, &b), .has_aux = true), params), 1);
    return mf_pmean(grads, "devices");
}

static mf_value same_everywhere(mf_value tree) { return mf_sum(mf_abs(mf_sub(tree, mf_get(tree, mf_range(0, 1))))); }

TEST(the_first_losses_are_jaxs)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    resnet_trainer t = known_trainer(false);
    resnet_state first = known_state(&t);
    mf_value state = mf_replicate(resnet_state_pack(first), mf_local_devices());
    mf_function grad = mf_pmap(mf_closure(gradients, &t), "devices", .in_axes = mf_axes(MF_NONE, 0));
    is_answer(ANSWERS, "resnet", "gradient_norms", norms(mf_unreplicate(mf_call(grad, first.params, mf_shard_batch(batch_of(0), DEVICES)))),
              1e-4);
    mf_function step = mf_pmap(mf_closure(resnet_train_step, &t), "devices", .donate_argnums = MF_INTS(0));
    mf_value known = answer_in(ANSWERS, "resnet", "losses");
    for (int i = 0; i < STEPS; i++) {
        mf_value said;
        mf_unpack(mf_call(step, state, mf_shard_batch(batch_of(i), DEVICES)), &state, &said);
        REQUIRE(CHECK_STR(mf_error(state), NULL));
        if (!CHECK_NEAR(mf_item_f64(mf_get(said, "loss", 0)) / mf_item_f64(mf_get(known, i)), 1, 1e-4))
            CHECK_NOTE("step %d", i + 1);
    }
    mf_value apart = mf_tree_leaves(mf_tree_map(mf_fn(same_everywhere), state));
    for (int i = 0; i < mf_len(apart); i++)
        CHECK_NEAR(mf_item_f64(mf_get(apart, i)), 0, 0);
    resnet_state last = resnet_state_unpack(mf_unreplicate(state));
    is_answer(ANSWERS, "resnet", "parameter_norms", norms(last.params), 1e-4);
    is_answer(ANSWERS, "resnet", "statistics_norms", norms(last.stats), 1e-4);
    is_answer(ANSWERS, "resnet", "logits", resnet_logits(&t, last.params, last.stats, mf_get(batch_of(0), "image")), 1e-4);
}

/* The loss of the first step on random pixels, and the key that it leaves. */
static double augmented_loss(bool augment, uint64_t seed, mf_value *key)
{
    resnet_trainer t = known_trainer(augment);
    resnet_state first = known_state(&t);
    mf_value state, said;
    first.key = mf_random_key(seed);
    mf_value rows = mf_replicate(resnet_state_pack(first), mf_local_devices());
    mf_function step = mf_pmap(mf_closure(resnet_train_step, &t), "devices");
    mf_unpack(mf_call(step, rows, mf_shard_batch(batch_of(0), DEVICES)), &state, &said);
    CHECK_STR(mf_error(state), NULL);
    *key = resnet_state_unpack(mf_unreplicate(state)).key;
    return mf_item_f64(mf_get(said, "loss", 0));
}

TEST(what_is_drawn_follows_from_the_key)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_value still, once, again, other;
    double plain = augmented_loss(false, 7, &still), drawn = augmented_loss(true, 7, &once);
    CHECK(drawn != plain);
    CHECK(augmented_loss(true, 7, &again) == drawn);
    CHECK(augmented_loss(true, 8, &other) != drawn);
    CHECK(mf_item_bool(mf_array_equal(still, mf_random_key(7))));
    CHECK(mf_item_bool(mf_array_equal(again, once)) && !mf_item_bool(mf_array_equal(once, still)));
}

static mf_value view_of(void *trainer, mf_value images)
{
    return resnet_view(trainer, mf_random_fold_in(mf_random_key(3), mf_axis_index("devices")), images);
}

TEST(each_device_draws_for_itself)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    resnet_trainer t = known_trainer(true);
    mf_value one = mf_get(mf_get(batch_of(0), "image"), mf_range(0, 2)), same = mf_replicate(one, mf_local_devices());
    mf_value seen = mf_call(mf_pmap(mf_closure(view_of, &t), "devices"), same);
    CHECK_STR(mf_str(mf_shape_of(seen)), "(8, 2, 8, 8, 1)");
    int others = 0;
    for (int i = 1; i < DEVICES; i++)
        others += !mf_item_bool(mf_array_equal(mf_get(seen, i), mf_get(seen, 0)));
    CHECK(others > DEVICES / 2); /* of 25 positions and two orientations for each of two images */
}

static mf_value kept_state;

static void one_step(mf_function step, mf_value batch)
{
    MF_SCOPE;
    mf_value next, said;
    mf_unpack(mf_call(step, kept_state, batch), &next, &said);
    mf_assign(&kept_state, next);
    CHECK(mf_item_f64(mf_get(said, "loss", 0)) > 0);
    CHECK(mf_block_until_ready(mf_tuple(next, said)) == MF_OK); /* on all devices */
}

TEST(a_steady_step_takes_no_array_memory_from_the_system)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    resnet_trainer t = known_trainer(true);
    mf_assign(&kept_state, mf_replicate(resnet_state_pack(known_state(&t)), mf_local_devices()));
    mf_function step = mf_pmap(mf_closure(resnet_train_step, &t), "devices", .donate_argnums = MF_INTS(0));
    mf_value batch = mf_shard_batch(batch_of(0), DEVICES);
    for (int i = 0; i < 10; i++)
        one_step(step, batch);
    CHECK_STEADY(one_step(step, batch));
    mf_clear(&kept_state);
}
