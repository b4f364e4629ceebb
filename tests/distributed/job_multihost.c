/* The exchange of host values between processes (multihost_utils).
 * Jobs: 4+4 3+5 2+1+1+2 */
#include "check.h"

#include <manyfold.h>

TEST(everybody_gets_what_all_have)
{
    int rank = mf_process_index(), count = mf_process_count();
    mf_value own = mf_dict("step", mf_scalar(100 + rank, MF_I32), "w", mf_add(mf_mul(10.0, rank), mf_arange(3, MF_F32)));
    mf_value all = mf_process_allgather(own), tiled = mf_process_allgather(mf_get(own, "w"), .tiled = true);
    REQUIRE(CHECK_EQ_INT(mf_size(mf_get(all, "step")), count) && CHECK_EQ_INT(mf_size(tiled), 3 * count));
    for (int p = 0; p < count; p++) {
        CHECK_EQ_INT(mf_item_i64(mf_get(mf_get(all, "step"), p)), 100 + p);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ_INT(mf_item_i64(mf_get(mf_get(mf_get(all, "w"), p), i)), 10 * p + i);
            CHECK_EQ_INT(mf_item_i64(mf_get(tiled, 3 * p + i)), 10 * p + i);
        }
    }
}

TEST(everybody_gets_what_the_first_has)
{
    mf_value first = mf_broadcast_one_to_all(
        mf_tuple(mf_scalar(mf_process_index() + 0.5, MF_F64), mf_full(MF_SHAPE(2, 2), mf_i(mf_process_index()))));
    CHECK_STR(mf_str(first), "(0.5, [[0 0]\n [0 0]])");
}

TEST(all_meet)
{
    for (int i = 0; i < 20; i++)
        CHECK_EQ_INT(mf_sync_global_devices("before saving"), MF_OK);
    CHECK_EQ_INT(mf_sync_global_devices(mf_process_index() ? "b" : "a"), MF_ERROR_PEER);
    CHECK_EQ_INT(mf_sync_global_devices("after saving"), MF_OK);
}

TEST(shapes_that_differ_are_an_error)
{
    mf_value all = mf_process_allgather(mf_ones(MF_SHAPE(mf_process_index() ? 2 : 3), MF_F32));
    enum { CALLED = __LINE__ - 1 };
    char words[64];
    CHECK_EQ_INT(mf_block_until_ready(all), MF_ERROR_PEER);
    CHECK_CONTAINS(mf_error(all), "computes something else here");
    CHECK_CONTAINS(mf_error(all), "(pmap(process_allgather), ");
    snprintf(words, sizeof words, "job_multihost.c:%d)", CALLED);
    if (strstr(mf_error(all), "job_multihost.c:")) /* if addr2line is installed */
        CHECK_CONTAINS(mf_error(all), words);
}
