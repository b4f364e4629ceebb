/* The collectives that test_device_counts.c does not cover, each on 1,024 devices. The expected values come from plain loops; the numbers
 * are small integers, so sums are exact in every order. */
#include "check.h"

#include <manyfold.h>

enum { N = 1024, SIDE = 32 };

__attribute__((constructor)) static void many_devices(void) { setenv("MF_NUM_CPU_DEVICES", "1024", 1); }

static double x_of(int64_t d) { return (double)(d * 7 % 23) - 9; }

static mf_value make_x(void)
{
    static double numbers[N];
    for (int d = 0; d < N; d++)
        numbers[d] = x_of(d);
    return mf_array_n(MF_F32, MF_SHAPE(N), numbers, N);
}

typedef double (*expected_fn)(int64_t d, int64_t k); /* element k on device d */

static void expect_each(mf_value v, int64_t each, expected_fn expected, const char *what)
{
    double *got = malloc((size_t)(N * each) * sizeof *got);
    if (!CHECK_EQ_INT(mf_to_host(v, MF_F64, got, (size_t)(N * each)), MF_OK))
        CHECK_NOTE("%s: %s", what, mf_error(v));
    else
        for (int64_t i = 0; i < N * each; i++)
            if (!CHECK_NEAR(got[i], expected(i / each, i % each), 0)) {
                CHECK_NOTE("%s: element %d of device %d", what, (int)(i % each), (int)(i / each));
                break;
            }
    free(got);
}
#define EACH(function, x, each, expected) expect_each(mf_call(mf_pmap(function, "i"), x), each, expected, #function)

static double total(int64_t from, int64_t to)
{
    double t = 0;
    for (int64_t d = from; d < to; d++)
        t += x_of(d);
    return t;
}

/* ------------------------------------------------------------------ one value a device */

static mf_value argmax(mf_value v) { return mf_pargmax(v, "i"); }
static mf_value argmin(mf_value v) { return mf_pargmin(v, "i"); }
static mf_value broadcast(mf_value v) { return mf_pbroadcast(v, "i", 1000); }
static mf_value shuffle(mf_value v)
{
    mf_value sources[N];
    for (int d = 0; d < N; d++)
        sources[d] = mf_i((d * 5 + 3) % N);
    return mf_pshuffle(v, "i", mf_list_n(sources, N));
}
static mf_value count_true(mf_value v) { return mf_psum(mf_greater(v, 0), "i"); }
static mf_value declare(mf_value v) { return mf_check_replicated(mf_pmax(v, "i"), "i"); }

static double first_with(double x)
{
    int64_t d = 0;
    while (x_of(d) != x)
        d++;
    return (double)d;
}
static double the_argmax(int64_t d, int64_t k) { return (void)d, (void)k, first_with(13); }
static double the_argmin(int64_t d, int64_t k) { return (void)d, (void)k, first_with(-9); }
static double of_1000(int64_t d, int64_t k) { return (void)d, (void)k, x_of(1000); }
static double shuffled(int64_t d, int64_t k) { return (void)k, x_of((d * 5 + 3) % N); }
static double the_most(int64_t d, int64_t k) { return (void)d, (void)k, 13; }
static double how_many(int64_t d, int64_t k)
{
    double n = 0;
    (void)d, (void)k;
    for (int64_t i = 0; i < N; i++)
        n += x_of(i) > 0;
    return n;
}

TEST(one_value_a_device)
{
    mf_value x = make_x();
    CHECK_EQ_INT(mf_device_count(), N);
    EACH(argmax, x, 1, the_argmax);
    EACH(argmin, x, 1, the_argmin);
    EACH(broadcast, x, 1, of_1000);
    EACH(shuffle, x, 1, shuffled);
    EACH(count_true, x, 1, how_many);
    EACH(declare, x, 1, the_most);
}

/* ------------------------------------------------------------------ arrays that are joined and cut */

static mf_value ramp(mf_value v, int64_t n) { return mf_mul(v, mf_add(mf_iota(MF_F32, MF_SHAPE(n), 0), 1)); }
static mf_value gather_tiled(mf_value v) { return mf_all_gather(ramp(v, 2), 0, "i", .tiled = true); }
static mf_value scatter_tiled(mf_value v) { return mf_psum_scatter(ramp(v, 2 * N), 0, "i", .tiled = true); }
static mf_value exchange_tiled(mf_value v) { return mf_all_to_all(ramp(v, N), 0, 0, "i", .tiled = true); }
static mf_value swap(mf_value v) { return mf_pswapaxes(ramp(v, N), 0, "i"); }

static double gathered(int64_t d, int64_t k) { return (void)d, x_of(k / 2) * (double)(k % 2 + 1); }
static double scattered(int64_t d, int64_t k) { return total(0, N) * (double)(2 * d + k + 1); }
static double exchanged(int64_t d, int64_t k) { return x_of(k) * (double)(d + 1); }

TEST(arrays_joined_and_cut)
{
    mf_value x = make_x();
    EACH(gather_tiled, x, (int64_t)2 * N, gathered);
    EACH(scatter_tiled, x, 2, scattered);
    EACH(exchange_tiled, x, N, exchanged);
    EACH(swap, x, N, exchanged);
}

/* ------------------------------------------------------------------ groups and nested maps: 32 by 32 */

static mf_value blocks(void)
{
    mf_value groups[SIDE], members[SIDE];
    for (int g = 0; g < SIDE; g++) {
        for (int m = 0; m < SIDE; m++)
            members[m] = mf_i(g * SIDE + m);
        groups[g] = mf_list_n(members, SIDE);
    }
    return mf_list_n(groups, SIDE);
}
static mf_value sum_in_blocks(mf_value v) { return mf_psum(v, "i", .axis_index_groups = blocks()); }
static mf_value gather_in_blocks(mf_value v) { return mf_all_gather(v, 0, "i", .axis_index_groups = blocks()); }
static mf_value both(mf_value v) { return mf_add(mf_psum(v, "i", "j"), mf_mul(1000, mf_psum(v, "j"))); }
static mf_value where(mf_value v) { return mf_add(mf_mul(v, 0), mf_axis_index("i", "j")); }

static double of_block(int64_t d, int64_t k) { return (void)k, total(d / SIDE * SIDE, (d / SIDE + 1) * SIDE); }
static double block_member(int64_t d, int64_t k) { return x_of(d / SIDE * SIDE + k); }
static double of_both(int64_t d, int64_t k) { return total(0, N) + 1000 * of_block(d, k); }
static double own_index(int64_t d, int64_t k) { return (void)k, (double)d; }

TEST(groups_and_nested_maps)
{
    mf_value x = make_x(), grid = mf_reshape(x, MF_SHAPE(SIDE, SIDE));
    EACH(sum_in_blocks, x, 1, of_block);
    EACH(gather_in_blocks, x, SIDE, block_member);
    EACH(mf_pmap(both, "j"), grid, 1, of_both);
    EACH(mf_pmap(where, "j"), grid, 1, own_index);
}

/* ------------------------------------------------------------------ every collective, over either name of 32 by 32 */

static mf_value over(const char *name, mf_value v)
{
    mf_value turned[SIDE], pairs[SIDE];
    for (int d = 0; d < SIDE; d++) {
        turned[d] = mf_i((d + 1) % SIDE);
        pairs[d] = mf_tuple(d, (d + 5) % SIDE);
    }
    mf_value wide = ramp(v, SIDE), wider = ramp(v, (int64_t)2 * SIDE);
    mf_value parts[] = { mf_psum(v, name),
                         mf_mul(SIDE, mf_pmean(v, name)),
                         mf_pmax(v, name),
                         mf_pmin(v, name),
                         mf_pargmax(v, name),
                         mf_pargmin(v, name),
                         mf_pbroadcast(v, name, 3),
                         mf_pshuffle(v, name, mf_list_n(turned, SIDE)),
                         mf_ppermute(v, name, mf_list_n(pairs, SIDE)),
                         mf_axis_index(name),
                         mf_get(mf_all_gather(v, 0, name), 4),
                         mf_get(mf_all_gather(wider, 0, name, .tiled = true), SIDE * 2 * 4 + 1),
                         mf_psum_scatter(wide, 0, name),
                         mf_get(mf_psum_scatter(wider, 0, name, .tiled = true), 1),
                         mf_get(mf_all_to_all(wide, 0, 0, name), 6),
                         mf_get(mf_all_to_all(wide, 0, 0, name, .tiled = true), 7),
                         mf_get(mf_pswapaxes(wide, 0, name), 8) };
    enum { PARTS = sizeof parts / sizeof *parts };
    for (int i = 0; i < PARTS; i++)
        parts[i] = mf_astype(parts[i], MF_F32);
    return mf_stack(mf_list_n(parts, PARTS), 0);
}
static mf_value over_inner(mf_value v) { return over("j", v); }
static mf_value over_outer(mf_value v) { return over("i", v); }

/* The values along the line of device d: its row over the inner name, its column over the outer name. `own` is d's position in it. */
static double of_line(int64_t d, int64_t k, bool inner)
{
    int64_t own = inner ? d % SIDE : d / SIDE, most = 0, least = 0;
    double x[SIDE], sum = 0;
    for (int64_t m = 0; m < SIDE; m++) {
        sum += x[m] = x_of(inner ? d / SIDE * SIDE + m : m * SIDE + d % SIDE);
        most = x[m] > x[most] ? m : most;
        least = x[m] < x[least] ? m : least;
    }
    double expected[] = { sum,
                          sum,
                          x[most],
                          x[least],
                          (double)most,
                          (double)least,
                          x[3],
                          x[(own + 1) % SIDE],
                          x[(own + SIDE - 5) % SIDE],
                          (double)own,
                          x[4],
                          2 * x[4],
                          sum * (double)(own + 1),
                          sum * (double)(2 * own + 2),
                          x[6] * (double)(own + 1),
                          x[7] * (double)(own + 1),
                          x[8] * (double)(own + 1) };
    return expected[k];
}
static double of_row(int64_t d, int64_t k) { return of_line(d, k, true); }
static double of_column(int64_t d, int64_t k) { return of_line(d, k, false); }

TEST(every_collective_of_nested_maps)
{
    mf_value grid = mf_reshape(make_x(), MF_SHAPE(SIDE, SIDE));
    EACH(mf_pmap(over_inner, "j"), grid, 17, of_row);
    EACH(mf_pmap(over_outer, "j"), grid, 17, of_column);
}

/* ------------------------------------------------------------------ many calls that nobody waits for */

static mf_value halve(mf_value v) { return mf_div(mf_add(v, mf_pmean(v, "i")), 2); }

TEST(many_calls_in_flight)
{
    enum { CALLS = 300 };
    mf_value x = make_x(), chain = x, apart[CALLS];
    for (int i = 0; i < CALLS; i++) {
        chain = mf_call(mf_pmap(halve, "i"), chain);
        apart[i] = mf_call(mf_pmap(broadcast, "i"), mf_mul(x, i));
    }
    for (int i = CALLS - 1; i >= 0; i--)
        if (!CHECK_NEAR(mf_item_f64(mf_get(apart[i], 5)), i * x_of(1000), 0))
            break;
    CHECK_NEAR(mf_item_f64(mf_get(chain, 9)), total(0, N) / N, 1e-5);
}
