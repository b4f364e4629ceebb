/* So many processes that not all pairs communicate: reductions and gathers are relayed, and give the bits of one process, which each
 * process computes for comparison; and if one process does something else, all get an error. CMake reads the next line:
 * Jobs: 2+2+2+2+2+2+2+2+2+2+2+2+2+2+2+2 3+1+2+1+1+3+2+1+2+1+1+1+2+1+1+2+1+1 */
#include "check.h"

#include "runtime/comm.h"

#include <manyfold.h>

enum { DEVICES_MOST = 32 };

#define BODY(name, expression) \
    static mf_value name(mf_value x) { return (expression); }
BODY(sum, mf_psum(x, "i"))
BODY(several, mf_tuple(mf_psum(x, "i"), mf_pmax(x, "i"), mf_all_gather(x, 0, "i"), mf_pmean(mf_astype(x, MF_BF16), "i")))
BODY(index_and_size, mf_tuple(mf_axis_index("i"), mf_psum(1, "i"), mf_all_to_all(mf_all_gather(mf_sum(x), 0, "i"), 0, 0, "i")))
static mf_value square_sum(mf_value x) { return mf_sum(mf_psum(mf_square(x), "i")); }
BODY(gradient, mf_call(mf_grad(square_sum), x))
static mf_value plus_mean(mf_value i, mf_value c) { return mf_add(c, mf_mul(mf_pmean(mf_sin(c), "i"), mf_add(i, 1))); }
BODY(loop, mf_fori_loop(0, 5, plus_mean, x))

static const struct {
    const char *name;
    mf_value (*body)(mf_value);
    int64_t width;
} cases[] = {
    { "psum", sum, 1 },
    { "psum", sum, 1000 },
    { "psum in parts", sum, 30000 },
    { "several", several, 77 },
    { "several in parts", several, 9000 },
    { "index and size", index_and_size, 3 },
    { "gradient", gradient, 10 },
    { "loop", loop, 10 },
};

/* The number of this process's first device. */
static int first_device(void)
{
    int at = 0;
    while (mf_device_process(mf_devices().at[at]) != mf_process_index())
        at++;
    return at;
}

static void compare(mf_value own, mf_value whole, int first, const char *name)
{
    mf_value mine = mf_tree_leaves(own), all = mf_tree_leaves(whole);
    if (!CHECK_EQ_INT(mf_len(mine), mf_len(all)))
        CHECK_NOTE("%s: %s", name, mf_error(own));
    for (int l = 0; l < mf_len(all) && !mf_is_error(own); l++) {
        mf_value part = mf_get(mf_get(all, l), mf_range(first, first + mf_local_device_count()));
        mf_value same = mf_all(mf_equal(mf_device_get(mf_get(mine, l)), mf_device_get(part)));
        if (!CHECK(mf_item_bool(same)))
            CHECK_NOTE("%s, result %d", name, l);
    }
}

TEST(every_process_has_the_bits_of_one)
{
    int count = mf_device_count(), first = first_device();
    const int one_process[2] = { 0, count };
    static mf_comm alone;
    REQUIRE(CHECK(mf_process_count() > 15 && count <= DEVICES_MOST));
    alone = (mf_comm){ .size = 1, .first_device = one_process };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        MF_SCOPE;
        mf_value x = mf_reshape(mf_sin(mf_mul(1.7f, mf_arange(count * cases[i].width, MF_F32))), MF_SHAPE(count, cases[i].width));
        mf_value own = mf_get(x, mf_range(first, first + mf_local_device_count()));
        mf_value result = mf_call(mf_pmap(cases[i].body, "i"), own);
        mf_comm_set(&alone);
        mf_value whole = mf_call(mf_pmap(cases[i].body, "i"), x);
        mf_comm_set(NULL);
        compare(result, whole, first, cases[i].name);
    }
}

TEST(host_values)
{
    mf_value all = mf_process_allgather(mf_scalar(mf_process_index(), MF_I32));
    for (int p = 0; p < mf_process_count(); p++)
        CHECK_EQ_INT(mf_item_i64(mf_get(all, p)), p);
    CHECK_EQ_INT(mf_sync_global_devices("host values"), MF_OK);
}

TEST(many_calls_one_after_the_other)
{
    mf_function f = mf_pmap(sum, "i");
    mf_value x = mf_ones(MF_SHAPE(mf_local_device_count(), 4), MF_F32);
    double devices = mf_device_count();
    for (int i = 0; i < 30; i++) {
        MF_SCOPE;
        mf_assign(&x, mf_div(mf_call(f, x), devices));
    }
    CHECK_EQ_INT(mf_item_f64(mf_sum(x)), 4 * mf_local_device_count());
}

TEST(an_error_of_one_is_an_error_of_all)
{
    mf_value x = mf_ones(MF_SHAPE(mf_local_device_count(), mf_process_index() == 6 ? 9 : 8), MF_F32);
    mf_value result = mf_call(mf_pmap(sum, "i"), x);
    CHECK_EQ_INT(mf_block_until_ready(result), MF_ERROR_PEER);
    CHECK_CONTAINS(mf_error(result), "process ");
    CHECK_EQ_INT(mf_sync_global_devices("afterwards"), MF_OK);
}
