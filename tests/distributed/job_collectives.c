/* Every collective over the processes of a real job gives the bits of one process: each process computes the whole answer alone, on as many
 * devices as the job has, and compares its own rows with it.
 * Jobs: 4+4 3+5 2+2+2+2 1+1+1+1+1+1+1+1 */
#include "check.h"

#include "runtime/comm.h"

#include <manyfold.h>
#include <pthread.h>

enum { ROWS = 8 };

#define BODY(name, expression) \
    static mf_value name(mf_value x) { return (expression); }
#define PAIR(a, b) mf_tuple(a, b)
#define ACROSS     mf_list(mf_list(0, 4), mf_list(5, 1), mf_list(2, 6), mf_list(7, 3))
#define UNEVEN     mf_list(mf_list(7, 0, 3), mf_list(1, 2, 4, 5, 6))
BODY(psum, mf_psum(x, "i"))
BODY(pmean, mf_pmean(x, "i"))
BODY(pmax, mf_pmax(x, "i"))
BODY(pmin, mf_pmin(x, "i"))
BODY(psum_across, mf_psum(x, "i", .axis_index_groups = ACROSS))
BODY(pmax_uneven, mf_pmax(x, "i", .axis_index_groups = UNEVEN))
BODY(all_gather, mf_all_gather(x, 0, "i"))
BODY(gather_across, mf_all_gather(x, 0, "i", .axis_index_groups = ACROSS))
BODY(psum_scatter, mf_psum_scatter(x, 0, "i", .tiled = true))
BODY(all_to_all, mf_all_to_all(x, 0, 0, "i", .tiled = true))
BODY(ring, mf_ppermute(x, "i", mf_list(PAIR(0, 1), PAIR(1, 2), PAIR(2, 3), PAIR(3, 4), PAIR(4, 5), PAIR(5, 6), PAIR(6, 7), PAIR(7, 0))))
BODY(one_way, mf_ppermute(x, "i", mf_list(PAIR(0, 7), PAIR(1, 6))))
BODY(where, mf_add(x, mf_axis_index("i")))
BODY(arg, mf_astype(mf_pargmax(x, "i"), MF_F32))
BODY(several, mf_tuple(mf_psum(x, "i"), mf_pmax(x, "i"), mf_all_gather(x, 0, "i"), mf_ppermute(x, "i", mf_list(PAIR(3, 4), PAIR(4, 3)))))
BODY(square_sum, mf_sum(mf_psum(mf_square(x), "i")))
BODY(gradient, mf_call(mf_grad(square_sum), x))
BODY(number, mf_mul(x, mf_psum(1, "i")))
static mf_value plus_mean(mf_value i, mf_value c) { return mf_add(c, mf_mul(mf_pmean(mf_sin(c), "i"), mf_add(i, 1))); }
BODY(loop, mf_fori_loop(0, 5, plus_mean, x))
static mf_value under_ten(mf_value c) { return mf_less(mf_pmax(mf_sum(mf_abs(c)), "i"), 1e6); }
static mf_value twice_mean(mf_value c) { return mf_mul(3, mf_psum(c, "i")); }
BODY(as_long_as, mf_while(under_ten, twice_mean, x))

static const struct {
    const char *name;
    mf_value (*body)(mf_value);
} bodies[] = { { "psum", psum },
               { "pmean", pmean },
               { "pmax", pmax },
               { "pmin", pmin },
               { "psum in groups", psum_across },
               { "pmax in uneven groups", pmax_uneven },
               { "all_gather", all_gather },
               { "all_gather in groups", gather_across },
               { "psum_scatter", psum_scatter },
               { "all_to_all", all_to_all },
               { "ring", ring },
               { "one way", one_way },
               { "axis_index", where },
               { "pargmax", arg },
               { "several", several },
               { "gradient", gradient },
               { "psum of a number", number },
               { "in a loop", loop },
               { "in a while", as_long_as } };

static const int one_process[2] = { 0, ROWS };
static mf_comm alone = { .size = 1, .first_device = one_process };

static mf_value whole_of(mf_dtype dtype, int64_t width)
{
    mf_value x = mf_sin(mf_arange(ROWS * width, MF_F32));
    return mf_astype(mf_reshape(dtype == MF_I32 ? mf_mul(x, 1e6) : x, MF_SHAPE(ROWS, width)), dtype);
}

static double *numbers_of(mf_value v)
{
    size_t count = (size_t)mf_size(v);
    double *at = calloc(count + 1, sizeof *at);
    if (!CHECK_EQ_INT(mf_to_host(v, MF_F64, at, count), MF_OK))
        CHECK_NOTE("%s", mf_error(v));
    return at;
}

/* Compares this process's rows with the whole result: row k of `own` must be row rows[k] of `whole`. */
static void compare(mf_value own, mf_value whole, const int *rows, int count, const char *name, mf_dtype dtype, int64_t width)
{
    mf_value mine = mf_tree_leaves(own), all = mf_tree_leaves(whole);
    if (!CHECK(!mf_is_error(own)) || !CHECK_EQ_INT(mf_len(mine), mf_len(all))) {
        CHECK_NOTE("%s: %s", name, mf_error(own));
        return;
    }
    for (int l = 0; l < mf_len(all); l++) {
        double *m = numbers_of(mf_get(mine, l)), *a = numbers_of(mf_get(all, l));
        size_t row = (size_t)mf_size(mf_get(all, l)) / ROWS;
        if (!CHECK_EQ_INT(mf_size(mf_get(mine, l)), row * (size_t)count))
            count = 0;
        for (int k = 0; k < count; k++)
            if (!CHECK_BYTES(m + row * (size_t)k, a + row * (size_t)rows[k], row * sizeof *m))
                CHECK_NOTE("%s of dtype %d, %lld a row: row %d", name, (int)dtype, (long long)width, rows[k]);
        free(m);
        free(a);
    }
}

/* Runs a body over the devices in this order; NULL: in their own order. */
static void run_body(size_t b, mf_dtype dtype, int64_t width, const int *order)
{
    MF_SCOPE;
    mf_device devices[ROWS];
    int rows[ROWS], count = 0;
    mf_device_list all = mf_devices();
    REQUIRE(all.count == ROWS && mf_process_count() > 1);
    for (int k = 0; k < ROWS; k++) {
        devices[k] = all.at[order ? order[k] : k];
        if (mf_device_process(devices[k]) == mf_process_index())
            rows[count++] = k;
    }
    mf_value x = whole_of(dtype, width), own[ROWS];
    for (int k = 0; k < count; k++)
        own[k] = mf_get(x, rows[k]);
    mf_function f = order ? mf_pmap(bodies[b].body, "i", .devices = { ROWS, devices }) : mf_pmap(bodies[b].body, "i");
    mf_value result = mf_call(f, mf_stack(mf_list_n(own, count), 0));
    mf_comm_set(&alone);
    mf_value whole = mf_call(mf_pmap(bodies[b].body, "i"), x);
    mf_comm_set(NULL);
    compare(result, whole, rows, count, bodies[b].name, dtype, width);
}

TEST(every_collective_has_the_bits_of_one_process)
{
    static const mf_dtype dtypes[] = { MF_F32, MF_BF16, MF_I32 };
    static const int64_t widths[] = { 8, 1000, 40000 }; /* small messages are sent with their header */
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
        for (int d = 0; d < 3; d++)
            for (int w = 0; w < 3; w++)
                if ((d == 0 || w == 0) && !(dtypes[d] == MF_I32 && b >= 15))
                    run_body(b, dtypes[d], widths[w], NULL);
}

TEST(devices_in_any_order)
{
    static const int orders[][ROWS] = { { 7, 6, 5, 4, 3, 2, 1, 0 }, { 0, 4, 1, 5, 2, 6, 3, 7 }, { 3, 7, 0, 2, 6, 1, 5, 4 } };
    for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
        for (int o = 0; o < 3; o++)
            run_body(b, MF_F32, 16, orders[o]);
}

TEST(many_calls_one_after_the_other)
{
    int n = mf_local_device_count();
    mf_function f = mf_pmap(psum, "i");
    mf_value x = mf_ones(MF_SHAPE(n, 4), MF_F32);
    for (int i = 0; i < 300; i++) {
        MF_SCOPE;
        mf_assign(&x, mf_mul(0.125, mf_call(f, x)));
    }
    CHECK_STR(mf_str(mf_sum(x)), mf_str(mf_sum(mf_ones(MF_SHAPE(n, 4), MF_F32))));
}

/* One process sends without pause; the other receives slowly. */
TEST(who_only_sends_is_held_back)
{
    int n = mf_local_device_count();
    mf_function f = mf_pmap(one_way, "i");
    for (int i = 0; i < 200; i++) {
        MF_SCOPE;
        mf_value y = mf_call(f, mf_mul(mf_ones(MF_SHAPE(n, 4000), MF_F32), i));
        if (mf_process_index() == mf_process_count() - 1) {
            mf_value last = mf_get(mf_get(y, n - 1), 7);
            CHECK_EQ_INT(mf_item_i64(last), i);
        }
    }
    CHECK_EQ_INT(mf_exit_status(), 0);
}
