/* The loader: every row once in an epoch, in an order determined by seed and epoch; the last batch is dropped, kept or padded. */
#include <manyfold.h>

#include "check.h"
#include "threads_comm.h"

/* {"id": i32[n], "twice": f32[n, 2]} with rows i and (2 i, 2 i + 1) */
static mf_value numbered(int n)
{
    mf_value id = mf_arange(n, MF_I32);
    return mf_dict("id", id, "twice", mf_reshape(mf_arange(2 * n, MF_F32), MF_SHAPE(n, 2)));
}

/* Appends the batch's ids to `ids`; checks that the columns of each row belong together. */
static int read_ids(mf_value batch, int *ids, int count)
{
    int n = (int)mf_dim(mf_get(batch, "id"), 0);
    for (int i = 0; i < n; i++) {
        ids[count + i] = (int)mf_item_i64(mf_get(batch, "id", i));
        CHECK_EQ_INT(mf_item_f64(mf_get(batch, "twice", i, 1)), 2 * ids[count + i] + 1);
    }
    return count + n;
}

static int read_epoch(mf_loader *l, int *ids)
{
    int count = 0;
    for (mf_value batch; mf_loader_next(l, &batch);) {
        MF_SCOPE;
        CHECK_STR(mf_error(batch), NULL);
        count = read_ids(batch, ids, count);
    }
    return count;
}

/* A new loader, and one at another position, can seek to each position of two epochs. */
TEST(goes_on_where_another_stopped)
{
    REQUIRE(mf_set_num_cpu_devices(8) == MF_OK);
    MF_SCOPE;
    mf_loader_options o = { .batch_size = 4, .shuffle = true, .shuffle_seed = 3, .pad_last = true };
    for (int kind = 0; kind < 3; kind++, o.pad_last = false, o.keep_last = kind == 1) { /* 3, 2, 3 batches for ten rows */
        mf_loader *l = mf_loader_open_opt(numbered(10), &o), *other = mf_loader_open_opt(numbered(10), &o);
        int64_t batches = mf_loader_batches(l);
        for (int64_t at = 0; at < 2 * batches; at++) {
            mf_value batch, same;
            CHECK_EQ_INT(mf_loader_position(l), at);
            REQUIRE(CHECK(mf_loader_next(l, &batch) || mf_loader_next(l, &batch))); /* at the end of an epoch call it again */
            CHECK_EQ_INT(mf_loader_position(l), at + 1);
            CHECK_EQ_INT(mf_loader_seek(other, at), MF_OK);
            CHECK_EQ_INT(mf_loader_position(other), at);
            REQUIRE(CHECK(mf_loader_next(other, &same)));
            CHECK_STR(mf_str(mf_get(same, "id")), mf_str(mf_get(batch, "id")));
        }
        mf_loader_close(l);
        mf_loader_close(other);
    }
    mf_loader *none = mf_loader_open(numbered(2), .batch_size = 4);
    CHECK_EQ_INT(mf_loader_seek(none, 0), MF_ERROR_ARGUMENT);
    mf_loader_close(none);
}

TEST(keeps_the_order)
{
    REQUIRE(mf_set_num_cpu_devices(8) == MF_OK);
    MF_SCOPE;
    int ids[16];
    mf_loader *l = mf_loader_open(numbered(10), .batch_size = 4);
    CHECK_EQ_INT(mf_loader_batches(l), 2);
    for (int epoch = 0; epoch < 2; epoch++) {
        REQUIRE(CHECK_EQ_INT(read_epoch(l, ids), 8)); /* the last two rows are dropped */
        for (int i = 0; i < 8; i++)
            CHECK_EQ_INT(ids[i], i);
    }
    mf_loader_close(l);
}

TEST(keeps_a_smaller_last_batch)
{
    MF_SCOPE;
    int ids[16];
    mf_loader *l = mf_loader_open(numbered(10), .batch_size = 4, .keep_last = true);
    CHECK_EQ_INT(mf_loader_batches(l), 3);
    CHECK_EQ_INT(read_epoch(l, ids), 10);
    CHECK_EQ_INT(ids[9], 9);
    mf_loader_close(l);
}

TEST(fills_up_the_last_batch)
{
    MF_SCOPE;
    mf_value batch;
    mf_loader *l = mf_loader_open(numbered(10), .batch_size = 4, .pad_last = true);
    CHECK_EQ_INT(mf_loader_batches(l), 3);
    CHECK(mf_loader_next(l, &batch));
    CHECK_STR(mf_str(mf_get(batch, "mask")), "[1. 1. 1. 1.]");
    CHECK(mf_loader_next(l, &batch));
    CHECK(mf_loader_next(l, &batch));
    CHECK_STR(mf_str(mf_get(batch, "mask")), "[1. 1. 0. 0.]");
    CHECK_STR(mf_str(mf_get(batch, "id")), "[8 9 0 0]");
    CHECK_STR(mf_str(mf_get(batch, "twice")), "[[16. 17.]\n [18. 19.]\n [ 0.  0.]\n [ 0.  0.]]");
    CHECK(!mf_loader_next(l, &batch));
    mf_loader_close(l);
}

/* The documented generator and shuffle, computed independently: seed 5 in epochs 0 and 1. */
TEST(shuffles_as_documented)
{
    static const int expected[2][10] = { { 3, 6, 0, 4, 5, 1, 2, 9, 7, 8 }, { 9, 7, 8, 4, 0, 3, 1, 6, 5, 2 } };
    MF_SCOPE;
    int ids[10];
    mf_loader *l = mf_loader_open(numbered(10), .batch_size = 3, .keep_last = true, .shuffle = true, .shuffle_seed = 5);
    for (int epoch = 0; epoch < 2; epoch++) {
        REQUIRE(CHECK_EQ_INT(read_epoch(l, ids), 10));
        for (int i = 0; i < 10; i++)
            CHECK_EQ_INT(ids[i], expected[epoch][i]);
    }
    mf_loader_close(l);
}

TEST(shuffles_everything_once)
{
    MF_SCOPE;
    enum { n = 1000 };
    int ids[n], seen[n] = { 0 }, moved = 0;
    mf_loader *l = mf_loader_open(numbered(n), .batch_size = 100, .shuffle = true);
    REQUIRE(CHECK_EQ_INT(read_epoch(l, ids), n));
    for (int i = 0; i < n; i++) {
        seen[ids[i]]++;
        moved += ids[i] != i;
    }
    for (int i = 0; i < n; i++)
        CHECK_EQ_INT(seen[i], 1);
    CHECK(moved > n * 9 / 10);
    mf_loader_close(l);
}

TEST(owns_its_batch_until_the_next)
{
    MF_SCOPE;
    mf_value first, second;
    mf_loader *l = mf_loader_open(numbered(8), .batch_size = 4);
    {
        MF_SCOPE;
        CHECK(mf_loader_next(l, &first));
    }
    CHECK_STR(mf_str(mf_get(first, "id")), "[0 1 2 3]"); /* valid after the scope it was returned in has ended */
    CHECK(mf_loader_next(l, &second));
    CHECK(mf_error(first) != NULL);
    mf_loader_close(l);
    CHECK(mf_error(second) != NULL);
}

TEST(batches_any_tree_and_type)
{
    MF_SCOPE;
    mf_value dataset = mf_list(mf_arange(4, MF_F64), mf_tuple(mf_arange(4, MF_U8), mf_none()), mf_equal(mf_arange(4, MF_I32), 2)), batch;
    mf_loader *l = mf_loader_open(dataset, .batch_size = 2);
    CHECK(mf_loader_next(l, &batch));
    CHECK(mf_loader_next(l, &batch));
    CHECK_STR(mf_str(batch), "[[2. 3.], ([2 3], None), [ True False]]");
    CHECK_EQ_INT(mf_dtype_of(mf_get(batch, 1, 0)), MF_U8);
    mf_loader_close(l);
    l = mf_loader_open(mf_astype(mf_arange(4, MF_F32), MF_BF16), .batch_size = 4);
    CHECK(mf_loader_next(l, &batch));
    CHECK_EQ_INT(mf_dtype_of(batch), MF_BF16);
    CHECK_EQ_INT(mf_item_i64(mf_get(batch, 3)), 3);
    mf_loader_close(l);
}

/* Checks that the first mf_loader_next of every epoch returns the error, and that the epoch then ends. */
static void check_refused(mf_loader *l, const char *part)
{
    mf_value batch;
    CHECK_EQ_INT(mf_loader_batches(l), 0);
    for (int epoch = 0; epoch < 2; epoch++) {
        CHECK(mf_loader_next(l, &batch));
        CHECK_CONTAINS(mf_error(batch), part);
        CHECK(!mf_loader_next(l, &batch));
    }
    mf_loader_close(l);
}

TEST(refuses_at_the_first_next)
{
    MF_SCOPE;
    mf_value uneven = mf_dict("a", mf_arange(3, MF_F32), "b", mf_arange(4, MF_F32));
    check_refused(mf_loader_open(numbered(4)), "batch_size is 0");
    check_refused(mf_loader_open_opt(numbered(4), NULL), "batch_size is 0");
    check_refused(mf_loader_open(numbered(4), .batch_size = 5), "4 rows are less than one batch of 5; with .keep_last");
    check_refused(mf_loader_open(uneven, .batch_size = 2), "3 and 4 rows");
    check_refused(mf_loader_open(mf_list(mf_arange(4, MF_F32)), .batch_size = 2, .pad_last = true), "must be a dict");
    check_refused(mf_loader_open(mf_dict("mask", mf_arange(4, MF_F32)), .batch_size = 2, .pad_last = true), "has one already");
    check_refused(mf_loader_open(numbered(4), .batch_size = 2, .pad_last = true, .keep_last = true), "exclude");
    check_refused(mf_loader_open(mf_scalar(1, MF_F32), .batch_size = 2), "no array with rows");
    check_refused(mf_loader_open(mf_none(), .batch_size = 2), "no arrays");
    check_refused(mf_loader_open(mf_make_error(MF_ERROR_IO, "no such data"), .batch_size = 2), "no such data");
}

TEST(ends_at_once_without_rows)
{
    MF_SCOPE;
    mf_value batch;
    mf_loader *l = mf_loader_open(mf_zeros(MF_SHAPE(0, 3), MF_F32), .batch_size = 2, .keep_last = true, .shuffle = true);
    CHECK_EQ_INT(mf_loader_batches(l), 0);
    CHECK(!mf_loader_next(l, &batch));
    CHECK(!mf_loader_next(l, &batch));
    mf_loader_close(l);
    mf_loader_close(NULL);
}

static int shares[2][2][10]; /* the rows, by process and epoch */

static void read_share(void *context, int rank)
{
    (void)context;
    MF_SCOPE;
    mf_loader *l = mf_loader_open(numbered(40), .batch_size = 16, .shuffle = true, .shuffle_seed = 7, .shard_by_process = true);
    for (int epoch = 0; epoch < 2; epoch++) {
        mf_value batch;
        for (int i = 0; i < 2; i++) {
            REQUIRE(mf_loader_next(l, &batch));
            CHECK_EQ_INT(mf_dim(mf_get(batch, "id"), 0), rank ? 10 : 6);
        }
        read_ids(batch, shares[rank][epoch], 0);
        CHECK(!mf_loader_next(l, &batch));
    }
    mf_loader_close(l);
    mf_loader *padded = mf_loader_open(numbered(20), .batch_size = 16, .pad_last = true, .shard_by_process = true);
    mf_value batch;
    REQUIRE(mf_loader_next(padded, &batch));
    CHECK_EQ_INT(mf_item_i64(mf_get(batch, "id", 0)), rank ? 6 : 0);
    CHECK_EQ_INT(mf_item_f64(mf_sum(mf_get(batch, "mask"))), rank ? 10 : 6);
    REQUIRE(mf_loader_next(padded, &batch));
    CHECK_EQ_INT(mf_dim(mf_get(batch, "mask"), 0), rank ? 10 : 6);
    CHECK_EQ_INT(mf_item_f64(mf_sum(mf_get(batch, "mask"))), rank ? 0 : 4);
    mf_loader_close(padded);
    check_refused(mf_loader_open(numbered(20), .batch_size = 12, .shard_by_process = true), "is not divisible by 8 devices");
    check_refused(mf_loader_open(numbered(20), .batch_size = 16, .keep_last = true, .shard_by_process = true), "exclude each other");
}

TEST(processes_have_the_batches_of_one)
{
    MF_SCOPE;
    job_run(2, (const int[]){ 3, 5 }, 1, read_share, NULL);
    mf_loader *l = mf_loader_open(numbered(40), .batch_size = 16, .shuffle = true, .shuffle_seed = 7);
    for (int epoch = 0; epoch < 2; epoch++) {
        int ids[16];
        mf_value batch;
        for (int i = 0; i < 2; i++)
            REQUIRE(mf_loader_next(l, &batch));
        read_ids(batch, ids, 0);
        for (int i = 0; i < 16; i++)
            CHECK_EQ_INT(ids[i], i < 6 ? shares[0][epoch][i] : shares[1][epoch][i - 6]);
        CHECK(!mf_loader_next(l, &batch));
    }
    mf_loader_close(l);
}
