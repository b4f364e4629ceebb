/* The model and the step of examples/vae.c: the first five steps, data-parallel on 8 devices with draws of their own, against JAX's
 * (tests/oracle/vae.txt, made by vae.py); what the draws and pictures are; a steady step. */
#include <manyfold.h>

#include "../../examples/vae_model.h"
#include "check.h"
#include "steady.h"
#include "oracle/sequences.h"

#define ANSWERS MF_TESTS_DIR "/oracle/vae.txt"

enum { DEVICES = 8, BATCH = 16, PIXELS = 36, STEPS = 5 };

static vae_trainer small_trainer(uint64_t seed)
{
    const vae_size size = { .pixels = PIXELS, .hidden = 24, .latents = 4 };
    return (vae_trainer){ vae(mf_random_state(seed), &size), mf_adam(.learning_rate = 1e-2) };
}

static mf_value known_parameters(mf_module model)
{
    mf_value values = mf_module_values(model, mf_of_type(MF_PARAM_STATE)), leaves = mf_tree_leaves(values), filled[32];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 32; i++)
        filled[i] = fill(1000 + (uint32_t)i, mf_shape_of(mf_get(leaves, i)), 0.2);
    return mf_tree_unflatten(values, mf_list_n(filled, count));
}

static mf_value images_of(int step) { return mf_div(mf_add(fill(1 + (uint32_t)step, MF_SHAPE(BATCH, PIXELS), 1), 1), 2); }

static mf_value norms(mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree), out[32];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 32; i++)
        out[i] = mf_sqrt(mf_sum(mf_square(mf_get(leaves, i))));
    return mf_stack(mf_list_n(out, count), 0);
}

/* The averaged gradients of the first step, the same on all devices. */
static mf_value first_gradients(void *trainer, mf_value state, mf_value images)
{
    vae_trainer *t = trainer;
    vae_state s = vae_state_unpack(state);
    mf_value key = mf_get(mf_random_split(s.key, 2), 1);
    mf_value grads = mf_get(mf_call(mf_grad(mf_closure(vae_loss, t), .has_aux = true), s.params, images, key), 0);
    return mf_pmean(grads, "devices");
}

TEST(the_first_steps_are_jaxs)
{
    MF_SCOPE;
    static const char *const words[] = { "loss", "losses", "reconstruction", "reconstruction", "kl", "kl" };
    mf_set_num_cpu_devices(DEVICES);
    vae_trainer t = small_trainer(0);
    mf_value state = vae_first_state(&t, known_parameters(t.model), mf_random_key(7));
    mf_value grads = mf_call(mf_pmap(mf_closure(first_gradients, &t), "devices"), state, mf_shard_batch(images_of(0), DEVICES));
    is_answer(ANSWERS, "vae", "gradient_norms", norms(mf_unreplicate(grads)), 1e-5);
    mf_function step = mf_pmap(mf_closure(vae_train_step, &t), "devices", .donate_argnums = MF_INTS(0));
    for (int i = 0; i < STEPS; i++) {
        mf_value means;
        mf_unpack(mf_call(step, state, mf_shard_batch(images_of(i), DEVICES)), &state, &means);
        REQUIRE(CHECK_STR(mf_error(state), NULL));
        for (int k = 0; k < 6; k += 2)
            if (!CHECK_NEAR(mf_item_f64(mf_get(means, words[k], 0)) / mf_item_f64(mf_get(answer_in(ANSWERS, "vae", words[k + 1]), i)), 1,
                            1e-4))
                CHECK_NOTE("%s of step %d", words[k], i + 1);
    }
    is_answer(ANSWERS, "vae", "parameter_norms", norms(mf_unreplicate(mf_get(state, "params"))), 1e-4);
}

TEST(devices_draw_from_keys_of_their_own)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    vae_trainer t = small_trainer(0);
    mf_value state = vae_first_state(&t, known_parameters(t.model), mf_random_key(7)), keys[2] = { mf_get(state, "key") }, means;
    mf_unpack(mf_call(mf_pmap(mf_closure(vae_train_step, &t), "devices"), state, mf_shard_batch(images_of(0), DEVICES)), &state, &means);
    keys[1] = mf_get(state, "key");
    for (int i = 0; i < 2 * DEVICES; i++)
        for (int k = 0; k < i; k++)
            CHECK(!mf_item_bool(mf_array_equal(mf_get(keys[i / DEVICES], i % DEVICES), mf_get(keys[k / DEVICES], k % DEVICES))));
    mf_value kernel = mf_get(state, "params", "decoder", "out", "kernel"); /* all devices have made the same update */
    for (int i = 1; i < DEVICES; i++)
        CHECK(mf_item_bool(mf_array_equal(mf_get(kernel, i), mf_get(kernel, 0))));
}

TEST(draws_have_the_mean_and_the_variance)
{
    MF_SCOPE;
    const int n = 100000;
    mf_value mean = mf_full(MF_SHAPE(n), 3), log_variance = mf_full(MF_SHAPE(n), log(0.25));
    mf_value draws = vae_reparametrize(mf_random_key(1), mean, log_variance);
    CHECK_NEAR(mf_item_f64(mf_mean(draws)), 3, 4 * 0.5 / sqrt(n));          /* four standard deviations of the mean, */
    CHECK_NEAR(mf_item_f64(mf_var(draws)), 0.25, 4 * 0.25 * sqrt(2.0 / n)); /* and of the variance */
}

/* The KL term is the integral of the code's density times the logarithm of its ratio to the density of N(0, 1). */
TEST(the_cost_of_a_code_is_its_divergence)
{
    MF_SCOPE;
    vae_trainer t = small_trainer(3);
    mf_value params = known_parameters(t.model), images = images_of(2), mean, log_variance;
    mf_unpack(mf_apply(mf_member_module(t.model, "encoder"), mf_get(params, "encoder"), images), &mean, &log_variance);
    mf_value costs = vae_costs(t.model, params, images, mf_random_key(0));
    double m[4], l[4], sum = 0;
    mf_to_host(mf_get(mean, 0), MF_F64, m, 4);
    mf_to_host(mf_get(log_variance, 0), MF_F64, l, 4);
    for (int i = 0; i < 4; i++) {
        const double deviation = exp(l[i] / 2), width = 1e-3;
        for (int k = -10000; k < 10000; k++) {
            double u = k * width, z = m[i] + deviation * u, density = exp(-u * u / 2) / sqrt(2 * M_PI);
            sum += width * density * (-u * u / 2 - log(deviation) + z * z / 2);
        }
    }
    CHECK_NEAR(mf_item_f64(mf_get(costs, "kl", 0)), sum, 1e-4);
    CHECK(mf_item_bool(mf_allclose(mf_get(costs, "loss"), mf_add(mf_get(costs, "reconstruction"), mf_get(costs, "kl")))));
}

TEST(the_border_is_cut_off)
{
    MF_SCOPE;
    mf_value inner = mf_reshape(mf_arange(2 * 28 * 28, MF_F32), MF_SHAPE(2, 28, 28, 1));
    mf_value bordered = mf_pad(inner, 0.0f, MF_INTS(0, 2, 2, 0), MF_INTS(0, 2, 2, 0), MF_INTS(0, 0, 0, 0));
    CHECK(mf_item_bool(mf_array_equal(vae_pixels(bordered), mf_reshape(inner, MF_SHAPE(2, 28 * 28)))));
}

static mf_value kept_state;

static void one_step(mf_function step, mf_value batch)
{
    MF_SCOPE;
    mf_value next, means;
    mf_unpack(mf_call(step, kept_state, batch), &next, &means);
    mf_assign(&kept_state, next);
    CHECK(mf_item_f64(mf_get(means, "loss", 0)) > 0);
}

TEST(a_steady_step_takes_no_array_memory_from_the_system)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    vae_trainer t = small_trainer(0);
    mf_assign(&kept_state, vae_first_state(&t, known_parameters(t.model), mf_random_key(1)));
    mf_function step = mf_pmap(mf_closure(vae_train_step, &t), "devices", .donate_argnums = MF_INTS(0));
    mf_value batch = mf_shard_batch(images_of(0), DEVICES);
    for (int i = 0; i < 10; i++)
        one_step(step, batch);
    CHECK_STEADY(one_step(step, batch));
    mf_clear(&kept_state);
}
