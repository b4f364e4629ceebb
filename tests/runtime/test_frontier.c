/* Reductions in parts: however the ranks are divided, the sum has the bits of the one tree over all. */
#include "check.h"

#include "runtime/compile/segment_compiler.h"
#include "runtime/collectives/schedule/frontier.h"

#include <string.h>

enum { MOST = 33 };

static float values[MOST];

static float tree(int64_t first, int64_t count)
{
    const void *in[MOST];
    float sum;
    for (int64_t i = 0; i < count; i++)
        in[i] = &values[first + i];
    CHECK(mf_segment_compiler_default()->reduce(MF_REDUCE_SUM, MF_F32, in, (int)count, &sum, 1, 0, 1));
    return sum;
}

static void add(void *context, int into, int from)
{
    float *sums = context;
    const void *in[2] = { &sums[into], &sums[from] };
    float sum;
    CHECK(mf_segment_compiler_default()->reduce(MF_REDUCE_SUM, MF_F32, in, 2, &sum, 1, 0, 1));
    sums[into] = sum;
}

/* Cuts the ranks at the positions whose bits are set. */
static void cut(int64_t n, uint64_t places)
{
    mf_subtree parts[MOST * 2];
    float sums[MOST * 2], whole = tree(0, n);
    int count = 0;
    for (int64_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && !(places >> to & 1); to++) {
        }
        int more = mf_frontier(n, from, to, parts + count);
        int64_t covered = from, bound = 2;
        for (int64_t w = 2; w < n; w *= 2)
            bound += 2;
        CHECK(more >= 1 && more <= bound);
        for (int i = count; i < count + more; i++) {
            CHECK_EQ_INT(parts[i].first, covered);
            covered += parts[i].count;
            sums[i] = tree(parts[i].first, parts[i].count);
        }
        CHECK_EQ_INT(covered, to);
        count += more;
    }
    CHECK(mf_frontier_combine(n, parts, count, add, sums));
    CHECK_BYTES(sums, &whole, sizeof whole);
}

TEST(a_sum_has_the_same_bits_however_it_is_cut)
{
    for (int i = 0; i < MOST; i++)
        values[i] = (float)(1.0 / (3 + i)) * (i % 3 ? 1000.0f : -0.001f);
    for (int64_t n = 1; n <= 10; n++)
        for (uint64_t places = 0; places < (uint64_t)1 << n; places += 2)
            cut(n, places);
    uint64_t state = 1;
    for (int round = 0; round < 2000; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        cut(11 + (int64_t)(state >> 60), (state >> 20) & (state >> 7));
        cut(MOST, (state >> 20) & (state >> 9) & (state >> 3));
    }
}

TEST(an_aligned_block_is_one_part)
{
    mf_subtree parts[MF_FRONTIER_MAX];
    CHECK_EQ_INT(mf_frontier(8, 4, 8, parts), 1);
    CHECK_EQ_INT(mf_frontier(8, 0, 8, parts), 1);
    CHECK_EQ_INT(mf_frontier(7, 4, 7, parts), 1); /* the odd one is passed up */
    CHECK_EQ_INT(mf_frontier(8, 3, 8, parts), 2);
    CHECK_EQ_INT(mf_frontier(8, 1, 7, parts), 4);
    CHECK_EQ_INT(mf_frontier(INT32_MAX, 1, INT32_MAX - 1, parts) <= MF_FRONTIER_MAX, 1);
    CHECK_EQ_INT(mf_frontier(8, 5, 5, parts), 0);
}

static void never(void *context, int into, int from)
{
    (void)into, (void)from;
    ++*(int *)context;
}

TEST(parts_that_do_not_fit_are_refused)
{
    int calls = 0;
    mf_subtree gap[] = { { 0, 2 }, { 3, 1 } }, none[] = { { 0, 1 }, { 1, 2 }, { 3, 1 } }, few[] = { { 0, 2 } },
               empty[] = { { 0, 0 }, { 0, 4 } };
    CHECK(!mf_frontier_combine(4, gap, 2, never, &calls));
    CHECK(!mf_frontier_combine(4, none, 3, never, &calls)); /* [1, 3) is no node of the tree */
    CHECK(!mf_frontier_combine(4, few, 1, never, &calls));
    CHECK(!mf_frontier_combine(4, empty, 2, never, &calls));
    CHECK_EQ_INT(calls, 0);
}
