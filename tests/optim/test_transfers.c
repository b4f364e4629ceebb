/* A training loop that logs nothing transfers nothing to the host: counted on devices whose memory the host cannot access. */
#include "check.h"
#include "fake/fake_client.h"

#include <manyfold.h>

__attribute__((constructor)) static void four_devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

static mf_value loss_of(mf_value params, mf_value x) { return mf_mean(mf_square(mf_sub(mf_matmul(x, mf_get(params, "w")), 1))); }

static mf_value train_step(void *tx, mf_value state, mf_value x)
{
    mf_value loss, grads;
    mf_unpack(mf_call(mf_value_and_grad(loss_of), mf_get(state, "params"), x), &loss, &grads);
    state = mf_train_state_apply_gradients(*(mf_optimizer *)tx, state, mf_pmean(grads, "devices"));
    return mf_tuple(state, mf_pmean(loss, "devices"));
}

TEST(only_who_reads_transfers)
{
    if (!getenv("MF_TEST_CLIENT"))
        SKIP("the host sees this memory");
    MF_SCOPE;
    mf_optimizer tx = mf_chain(mf_clip_by_global_norm(1), mf_adamw(.schedule = mf_cosine_decay_schedule(0.01, 100)));
    mf_value params = mf_dict("w", mf_ones(MF_SHAPE(3, 2), MF_F32)), loss = mf_none();
    mf_value state = mf_replicate(mf_train_state_create(tx, params), mf_local_devices());
    mf_value x = mf_shard_batch(mf_ones(MF_SHAPE(8, 3), MF_F32), 4);
    mf_function step = mf_pmap(mf_closure(train_step, &tx), "devices");
    mf_unpack(mf_call(step, state, x), &state, &loss); /* the call that traces and compiles */
    mf_block_until_ready(loss);
    int before = fake_reads;
    for (int i = 0; i < 10; i++)
        mf_unpack(mf_call(step, state, x), &state, &loss);
    mf_block_until_ready(mf_tuple(state, loss));
    CHECK_EQ_INT(fake_reads - before, 0);
    CHECK(mf_item_f64(mf_get(loss, 0)) < 4);
    CHECK(fake_reads > before);
}
