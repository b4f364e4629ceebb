/* The network and the step of examples/states.c: the first five steps on 8 devices, against JAX's (tests/oracle/states.txt, made by
 * states.py); what is frozen, what each device has of its own, what stays between calls; a steady step. */
#include <manyfold.h>

#include "../../examples/states_model.h"
#include "check.h"
#include "steady.h"
#include "oracle/sequences.h"

#define ANSWERS MF_TESTS_DIR "/oracle/states.txt"

enum { DEVICES = 8, BATCH = 16, HEIGHT = 6, WIDTH = 5, STEPS = 5, REPEATS = 2 };

static mf_module small_network(void)
{
    const snn_size size = { .inputs = WIDTH, .neurons = 12, .classes = 3, .decay = 0.9 };
    return snn(mf_random_state(0), &size, MF_SHAPE(DEVICES, BATCH / DEVICES));
}

/* A trainer with the parameters and the key of the known answers. */
static snn_trainer known_trainer(void)
{
    mf_set_num_cpu_devices(DEVICES);
    mf_module model = small_network();
    CHECK_EQ_INT(mf_module_update(model, filled_parameters(model)), MF_OK);
    mf_state_set_value(mf_member_state(model, "encoder/rngs"), mf_random_key(7));
    return snn_train(model, mf_path_contains("lif/recurrent"), 1e-2, REPEATS);
}

static mf_value images_of(int step)
{
    return mf_shard_batch(mf_div(mf_add(fill(1 + (uint32_t)step, MF_SHAPE(BATCH, HEIGHT, WIDTH), 1), 1), 2), DEVICES);
}

static mf_value labels(void) { return mf_shard_batch(mf_remainder(mf_arange(BATCH, MF_I32), 3), DEVICES); }

static mf_value norms(mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree), out[32];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 32; i++)
        out[i] = mf_sqrt(mf_sum(mf_square(mf_get(leaves, i))));
    return mf_stack(mf_list_n(out, count), 0);
}

static mf_value first_gradients(void *trainer, mf_value images, mf_value labels)
{
    snn_trainer *t = trainer;
    mf_value grads = mf_call(mf_grad(mf_closure(snn_loss, t), .has_aux = true, .states = t->trained), images, labels);
    return mf_pmean(mf_get(grads, 0), "devices");
}

TEST(the_first_steps_are_jaxs)
{
    MF_SCOPE;
    snn_trainer t = known_trainer();
    mf_value grads = mf_call(snn_map(mf_closure(first_gradients, &t)), images_of(0), labels());
    is_answer(ANSWERS, "states", "gradient_norms", norms(mf_unreplicate(grads)), 1e-5);
    mf_state_set_value(mf_member_state(t.model, "encoder/rngs"), mf_random_key(7));
    mf_value frozen = mf_copy(snn_value(t.model, "lif/recurrent/kernel"));
    mf_function step = snn_map(mf_closure(snn_train_step, &t));
    for (int i = 0; i < STEPS; i++) {
        mf_value means = mf_call(step, images_of(i), labels());
        REQUIRE(CHECK_STR(mf_error(means), NULL));
        if (!CHECK_NEAR(mf_item_f64(mf_get(means, "loss", 0)) / mf_item_f64(mf_get(answer_in(ANSWERS, "states", "losses"), i)), 1, 1e-4) ||
            !CHECK_NEAR(mf_item_f64(mf_get(means, "spikes", 0)), mf_item_f64(mf_get(answer_in(ANSWERS, "states", "spikes"), i)), 1e-6))
            CHECK_NOTE("step %d", i + 1);
    }
    is_answer(ANSWERS, "states", "parameter_norms", norms(mf_module_values(t.model, t.trained)), 1e-4);
    is_answer(ANSWERS, "states", "voltage", snn_value(t.model, "lif/voltage"), 1e-4);
    CHECK(mf_item_bool(mf_array_equal(snn_value(t.model, "lif/recurrent/kernel"), frozen)));
    CHECK_EQ_INT(mf_item_i64(snn_value(t.optimizer, "step")), STEPS);
}

static double spike_of(double above) { return mf_item_f64(snn_spike(mf_f(above))); }

TEST(spikes_have_the_slope_of_their_rule)
{
    MF_SCOPE;
    mf_function spike = mf_custom_jvp(snn_spike, snn_spike_rule);
    CHECK_NEAR(spike_of(-0.1) + spike_of(0), 0, 0);
    CHECK_NEAR(spike_of(0.1), 1, 0);
    CHECK_NEAR(mf_item_f64(mf_call(mf_grad(spike), 0.0)), 1, 0);
    CHECK_NEAR(mf_item_f64(mf_call(mf_grad(spike), 0.5)), 1 / (1 + M_PI * M_PI / 4), 1e-6);
    CHECK_NEAR(mf_item_f64(mf_call(mf_grad(spike), -0.5)), 1 / (1 + M_PI * M_PI / 4), 1e-6);
}

TEST(devices_draw_spikes_of_their_own)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    mf_module encoder = mf_member_module(small_network(), "encoder");
    mf_value half = mf_full(MF_SHAPE(DEVICES, 40), 0.5), rates = mf_broadcast_to(mf_linspace(0, 1, 3), MF_SHAPE(DEVICES, 20000, 3));
    mf_value first = mf_call(snn_map(mf_fn(encoder)), half), second = mf_call(snn_map(mf_fn(encoder)), half);
    for (int i = 1; i < DEVICES; i++)
        CHECK(!mf_item_bool(mf_array_equal(mf_get(first, i), mf_get(first, 0))));
    CHECK(!mf_item_bool(mf_array_equal(first, second)));
    mf_value means = mf_mean(mf_reshape(mf_call(snn_map(mf_fn(encoder)), rates), MF_SHAPE(-1, 3)), 0);
    CHECK_NEAR(mf_item_f64(mf_get(means, 0)), 0, 0);
    CHECK_NEAR(mf_item_f64(mf_get(means, 1)), 0.5, 4 * 0.5 / sqrt(DEVICES * 20000.0)); /* four standard deviations */
    CHECK_NEAR(mf_item_f64(mf_get(means, 2)), 1, 0);
    mf_module still = mf_module_view(encoder, "deterministic", true);
    CHECK(mf_item_bool(mf_array_equal(mf_call(snn_map(mf_fn(still)), half), half)));
}

static mf_value voltages_of(void *trainer, mf_value images)
{
    snn_trainer *t = trainer;
    snn_reset(t->model);
    return mf_mean(mf_get(mf_scan(mf_closure(snn_tick, t), mf_none(), snn_rows(images, t->repeats)), 1, 0), 0);
}

/* One row per call: what the neurons have seen before is in their states, on their devices. */
TEST(rows_one_by_one_are_the_whole_image)
{
    MF_SCOPE;
    snn_trainer t = known_trainer();
    t.model = mf_module_view(t.model, "deterministic", true);
    mf_value images = images_of(0), whole = mf_call(snn_map(mf_closure(voltages_of, &t)), images), sum = mf_f(0);
    mf_function look = snn_map(mf_fn(t.model));
    CHECK_EQ_INT(snn_reset(t.model), MF_OK);
    for (int i = 0; i < HEIGHT * REPEATS; i++)
        sum = mf_add(sum, mf_call(look, mf_squeeze(mf_slice_in_dim(images, i / REPEATS, i / REPEATS + 1, 1, 2), 2)));
    REQUIRE(CHECK_STR(mf_error(whole), NULL) && CHECK_STR(mf_error(sum), NULL));
    CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(mf_div(sum, HEIGHT * REPEATS), whole)))) < 1e-5);
    CHECK(mf_item_f64(mf_max(mf_abs(whole))) > 0.1);
}

static void one_step(mf_function step, mf_value images, mf_value labels)
{
    MF_SCOPE;
    CHECK(mf_item_f64(mf_get(mf_call(step, images, labels), "loss", 0)) > 0);
}

TEST(a_steady_step_takes_no_array_memory_from_the_system)
{
    MF_SCOPE;
    snn_trainer t = known_trainer();
    mf_function step = snn_map(mf_closure(snn_train_step, &t));
    mf_value images = images_of(0), known = labels();
    for (int i = 0; i < 10; i++)
        one_step(step, images, known);
    CHECK_STEADY(one_step(step, images, known));
}
