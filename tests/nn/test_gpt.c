/* The model and the step of examples/gpt.c: the first five steps, data-parallel on 8 devices in two micro-batches, against JAX's
 * (tests/oracle/gpt.txt, made by gpt.py); what the cache gives against what the whole text gives; dropout; a steady step. */
#include <manyfold.h>

#include "../../examples/gpt_model.h"
#include "check.h"
#include "steady.h"
#include "oracle/sequences.h"

#define ANSWERS MF_TESTS_DIR "/oracle/gpt.txt"

enum { DEVICES = 8, VOCABULARY = 32, LENGTH = 12, BATCH = 16, STEPS = 5 };

static gpt_size small(double dropout)
{
    return (gpt_size){ .vocabulary = VOCABULARY, .layers = 4, .heads = 2, .features = 16, .dropout = dropout };
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

static mf_value tokens_of(int step)
{
    mf_value part = mf_div(mf_add(fill(1 + (uint32_t)step, MF_SHAPE(BATCH, LENGTH + 1), 1), 1), 2);
    return mf_astype(mf_floor(mf_mul(part, VOCABULARY)), MF_I32);
}

static gpt_trainer known_trainer(gpt_size size, uint64_t seed)
{
    mf_function rate = mf_warmup_cosine_decay_schedule(0, 1e-2, 2, 20, .end_value = 1e-3);
    mf_optimizer adam = mf_adamw(.schedule = rate, .b2 = 0.99, .weight_decay = 0.1, .mask = mf_path_contains("kernel"));
    return (gpt_trainer){ gpt(mf_random_state(seed), &size), mf_chain(mf_clip_by_global_norm(1), adam), 2 };
}

static mf_value first_state(const gpt_trainer *t, mf_value params)
{
    return mf_replicate(gpt_state_pack((gpt_state){ .params = params, .opt_state = mf_optim_init(t->tx, params) }), mf_local_devices());
}

static mf_value norms(mf_value tree)
{
    mf_value leaves = mf_tree_leaves(tree), out[128];
    int count = mf_len(leaves);
    for (int i = 0; i < count && i < 128; i++)
        out[i] = mf_sqrt(mf_sum(mf_square(mf_get(leaves, i))));
    return mf_stack(mf_list_n(out, count), 0);
}

TEST(the_first_losses_are_jaxs)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    gpt_trainer t = known_trainer(small(0), 0);
    mf_value params = known_parameters(t.model), state = first_state(&t, params);
    mf_value grads = mf_call(mf_grad(mf_closure(gpt_loss, &t)), params, tokens_of(0));
    is_answer(ANSWERS, "gpt", "gradient_norms", norms(grads), 1e-5);
    mf_function step = mf_pmap2(mf_closure(gpt_train_step, &t), "devices", .donate_argnums = MF_INTS(0));
    mf_value known = answer_in(ANSWERS, "gpt", "losses");
    for (int i = 0; i < STEPS; i++) {
        mf_value loss;
        mf_unpack(mf_call(step, state, mf_shard_batch(tokens_of(i), DEVICES)), &state, &loss);
        REQUIRE(CHECK_STR(mf_error(state), NULL));
        if (!CHECK_NEAR(mf_item_f64(mf_get(loss, 0)) / mf_item_f64(mf_get(known, i)), 1, 1e-4))
            CHECK_NOTE("step %d", i + 1);
    }
    is_answer(ANSWERS, "gpt", "parameter_norms", norms(mf_unreplicate(mf_get(state, "params"))), 1e-4);
}

/* The outputs with the cache, position by position, equal those of the whole text at once. */
TEST(the_cache_sees_what_the_whole_text_shows)
{
    MF_SCOPE;
    gpt_size size = small(0.1);
    mf_module model = gpt(mf_random_state(1), &size), writer = mf_nn_view(model, .deterministic = true, .decode = true);
    mf_value tokens = mf_get(tokens_of(0), mf_range(0, 2)), whole = mf_call(mf_nn_eval(model), tokens);
    REQUIRE(mf_nn_init_cache(writer, MF_SHAPE(2, LENGTH + 1, 16), MF_F32) == MF_OK);
    mf_function next = mf_jit(writer);
    for (int i = 0; i < LENGTH + 1; i++) {
        mf_value logits = mf_call(next, mf_slice_in_dim(tokens, i, i + 1, 1, 1)), wanted = mf_slice_in_dim(whole, i, i + 1, 1, 1);
        REQUIRE(CHECK_STR(mf_error(logits), NULL));
        CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(logits, wanted)))) < 1e-5);
    }
}

TEST(temperature_0_writes_the_likeliest)
{
    MF_SCOPE;
    gpt_size size = small(0);
    mf_module model = gpt(mf_random_state(1), &size), writer = mf_nn_view(model, .decode = true);
    mf_value token = mf_i(3), logits = mf_call(model, mf_array(MF_I32, MF_SHAPE(1, 1), 3));
    REQUIRE(mf_nn_init_cache(writer, MF_SHAPE(1, 4, 16), MF_F32) == MF_OK);
    CHECK_EQ_INT(mf_item_i64(gpt_next(&writer, token, mf_random_key(0), mf_f(0))), mf_item_i64(mf_argmax(logits)));
    int other = 0;
    for (int i = 0; i < 20; i++) {
        REQUIRE(mf_nn_init_cache(writer, MF_SHAPE(1, 4, 16), MF_F32) == MF_OK);
        other += mf_item_i64(gpt_next(&writer, token, mf_random_key((uint64_t)i), mf_f(100))) != mf_item_i64(mf_argmax(logits));
    }
    CHECK(other > 10); /* of 32 bytes with almost equal probabilities */
}

/* The loss after some steps with dropout, or in bf16, from the same state. */
static double loss_of(gpt_size size, int steps)
{
    MF_SCOPE;
    gpt_trainer t = known_trainer(size, 2);
    mf_value state = first_state(&t, known_parameters(t.model)), loss = mf_none();
    mf_function step = mf_pmap2(mf_closure(gpt_train_step, &t), "devices");
    for (int i = 0; i < steps; i++)
        mf_unpack(mf_call(step, state, mf_shard_batch(tokens_of(0), DEVICES)), &state, &loss);
    CHECK_STR(mf_error(state), NULL);
    CHECK_EQ_INT(mf_dtype_of(mf_get(mf_tree_leaves(mf_get(state, "params")), 0)), MF_F32);
    return mf_item_f64(mf_get(loss, 0));
}

TEST(dropout_and_bf16_stay_near)
{
    mf_set_num_cpu_devices(DEVICES);
    gpt_size narrow = small(0);
    narrow.dtype = MF_BF16;
    double plain = loss_of(small(0), 3);
    CHECK_NEAR(loss_of(narrow, 3) / plain, 1, 0.02); /* eight bits of precision */
    double dropped = loss_of(small(0.5), 3);
    CHECK(dropped != plain);
    CHECK_NEAR(dropped / plain, 1, 0.5);
}

static mf_value kept_state;

static void one_step(mf_function step, mf_value batch)
{
    MF_SCOPE;
    mf_value next, loss;
    mf_unpack(mf_call(step, kept_state, batch), &next, &loss);
    mf_assign(&kept_state, next);
    CHECK(mf_item_f64(mf_get(loss, 0)) > 0);
}

TEST(a_steady_step_takes_no_array_memory_from_the_system)
{
    MF_SCOPE;
    mf_set_num_cpu_devices(DEVICES);
    gpt_trainer t = known_trainer(small(0.1), 0);
    mf_assign(&kept_state, first_state(&t, known_parameters(t.model)));
    mf_function step = mf_pmap2(mf_closure(gpt_train_step, &t), "devices", .donate_argnums = MF_INTS(0));
    mf_value batch = mf_shard_batch(tokens_of(0), DEVICES);
    for (int i = 0; i < 10; i++)
        one_step(step, batch);
    CHECK_STEADY(one_step(step, batch));
    mf_clear(&kept_state);
}
