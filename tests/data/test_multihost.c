/* The multihost functions in a single process. */
#include "check.h"

#include <manyfold.h>

TEST(one_process_has_what_all_have)
{
    mf_value own = mf_tuple(mf_arange(3, MF_I32), mf_scalar(2, MF_F32));
    CHECK_STR(mf_str(mf_process_allgather(own)), "([[0 1 2]], [2.])");
    CHECK_STR(mf_str(mf_process_allgather(mf_arange(3, MF_I32), .tiled = true)), "[0 1 2]");
    CHECK_CONTAINS(mf_error(mf_process_allgather(mf_scalar(2, MF_F32), .tiled = true)), "scalar");
    CHECK_STR(mf_str(mf_broadcast_one_to_all(own)), mf_str(own));
    CHECK_EQ_INT(mf_sync_global_devices("here"), MF_OK);
}

TEST(leaving_where_nothing_was_joined)
{
    CHECK_EQ_INT(mf_distributed_shutdown(), MF_OK);
    CHECK(mf_process_count() == 1 && mf_process_index() == 0);
    CHECK_EQ_INT(mf_distributed_initialize(), MF_ERROR_ARGUMENT); /* devices have been used already */
    CHECK_EQ_INT(mf_distributed_initialize(.timeout = -1), MF_ERROR_ARGUMENT);
}
