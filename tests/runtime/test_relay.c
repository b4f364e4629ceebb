/* The schedules of collectives over many processes: both ends of a message agree, every process gets the sum of the one tree, in few steps
 * and bytes. */
#include "check.h"

#include "runtime/collectives/schedule/relay_schedule.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 64, MOST = 40 };

/* The state of one participant: the nodes of each element that it has before the element is a sum, and whether the sum has arrived. */
typedef struct side {
    mf_subtree nodes[MF_RELAY_NODES];
    int count;
    mf_span span; /* the elements of which it has them */
    bool sum[LENGTH];
} side;

static int spread(int *first, int processes, int each, bool uneven)
{
    first[0] = 0;
    for (int i = 0; i < processes; i++)
        first[i + 1] = first[i] + (uneven ? 1 + (i * 7 + each) % 5 : each);
    return first[processes];
}

/* The ownership in which process p has the ranks from first[p] on. */
static mf_ownership owners_of(const int *first, int processes)
{
    static mf_comm c;
    mf_ownership o = { 0 };
    c = (mf_comm){ .size = processes, .first_device = first };
    mf_comm_count_devices(&c);
    CHECK(mf_ownership_line(&o, &c, 0, 1, first[processes]));
    return o;
}

static bool same_span(mf_span a, mf_span b) { return (a.first == b.first && a.end == b.end) || (a.first >= a.end && b.first >= b.end); }

/* The union of two sets of nodes, combined as far as the tree allows. */
static int join(int n, const mf_subtree *a, int a_count, const mf_subtree *b, int b_count, mf_subtree *out)
{
    int count = 0;
    for (int i = 0, j = 0; i < a_count || j < b_count;) {
        out[count++] = j == b_count || (i < a_count && a[i].first < b[j].first) ? a[i++] : b[j++];
        for (; count > 1 && mf_subtree_siblings(n, out[count - 2], out[count - 1]); count--)
            out[count - 2].count += out[count - 1].count;
    }
    return count;
}

static bool has(const side *s, mf_span span)
{
    for (int64_t i = span.first; i < span.end; i++)
        if (!s->sum[i])
            return false;
    return true;
}

static void take(int n, side *to, const side *from, const mf_transfer *t)
{
    if (!t->partial) {
        CHECK(has(from, t->receives));
        memset(&to->sum[t->receives.first], 1, (size_t)(t->receives.end - t->receives.first));
        return;
    }
    mf_subtree all[2 * MF_RELAY_NODES];
    CHECK(t->receives.first >= to->span.first && t->receives.end <= to->span.end);
    to->count = join(n, to->nodes, to->count, from->nodes, from->count, all);
    REQUIRE(CHECK(to->count <= MF_RELAY_NODES));
    memcpy(to->nodes, all, (size_t)to->count * sizeof *all);
    to->span = t->receives;
}

static void run(mf_algorithm algorithm, int processes, const int *first)
{
    static side now[MOST], next[MOST];
    mf_ownership owners = owners_of(first, processes);
    int n = first[processes], steps = mf_relay_steps(processes);
    for (int i = 0; i < processes; i++) {
        now[i] = (side){ .span = { 0, LENGTH } };
        now[i].count = mf_frontier(n, first[i], first[i + 1], now[i].nodes);
    }
    for (int step = 0; step <= steps; step++) {
        for (int i = 0; i < processes && step == steps / 2; i++) /* the sums that are complete here */
            if (now[i].count == 1 && now[i].nodes[0].count == n)
                memset(&now[i].sum[now[i].span.first], 1, (size_t)(now[i].span.end - now[i].span.first));
        memcpy(next, now, sizeof now);
        for (int i = 0; i < processes && step < steps; i++) {
            mf_transfer t = mf_relay_step(algorithm, processes, i, LENGTH, step);
            mf_subtree nodes[MF_RELAY_NODES];
            if (t.to >= 0 && t.partial) {
                CHECK_EQ_INT(mf_relay_nodes(&owners, i, step, nodes), now[i].count);
                CHECK_BYTES(nodes, now[i].nodes, (size_t)now[i].count * sizeof *nodes);
            }
            CHECK_EQ_INT(t.partial, step < steps / 2);
            if (t.to >= 0) {
                mf_transfer other = mf_relay_step(algorithm, processes, t.to, LENGTH, step);
                CHECK(other.from == i && same_span(other.receives, t.sends));
            }
            if (t.from < 0 || t.receives.first >= t.receives.end)
                continue;
            CHECK(mf_relay_step(algorithm, processes, t.from, LENGTH, step).to == i);
            take(n, &next[i], &now[t.from], &t);
        }
        memcpy(now, next, sizeof now);
    }
    for (int i = 0; i < processes; i++)
        if (!CHECK(has(&now[i], (mf_span){ 0, LENGTH })))
            CHECK_NOTE("process %d of %d, way %d", i, processes, (int)algorithm);
}

TEST(everybody_gets_the_sum_of_the_one_tree)
{
    int first[MOST + 1];
    for (int processes = 2; processes <= MOST; processes++)
        for (int each = 1; each <= 4; each++)
            for (int uneven = 0; uneven < 2; uneven++) {
                spread(first, processes, each, uneven);
                run(MF_ALGORITHM_DOUBLING, processes, first);
                run(MF_ALGORITHM_HALVING, processes, first);
            }
}

TEST(everybody_gets_what_all_have)
{
    for (int processes = 2; processes <= MOST; processes++) {
        uint64_t now[MOST], next[MOST]; /* by process: the set of processes whose data it has */
        int steps = mf_relay_steps(processes);
        for (int i = 0; i < processes; i++)
            now[i] = UINT64_C(1) << i;
        for (int step = 0; step < steps; step++) {
            memcpy(next, now, sizeof now);
            for (int i = 0; i < processes; i++) {
                mf_transfer t = mf_relay_step(MF_ALGORITHM_DOUBLING, processes, i, 1, step);
                mf_span held[2];
                uint64_t sent = 0;
                for (int k = 0, count = t.from < 0 ? 0 : mf_relay_held(processes, t.from, step, held); k < count; k++)
                    for (int64_t p = held[k].first; p < held[k].end; p++)
                        sent |= UINT64_C(1) << p;
                if (t.from >= 0 && !t.partial)
                    sent = (UINT64_C(1) << processes) - 1;
                CHECK_EQ_INT(sent & ~now[t.from < 0 ? 0 : t.from], 0);
                next[i] |= sent;
            }
            memcpy(now, next, sizeof now);
        }
        for (int i = 0; i < processes; i++)
            CHECK(now[i] == (UINT64_C(1) << processes) - 1);
    }
}

/* A participant's messages and sent bytes over all steps, if every process has an aligned block. */
static void cost(mf_algorithm algorithm, const mf_ownership *owners, int i, int64_t length, int *messages, int64_t *sent)
{
    mf_subtree nodes[MF_RELAY_NODES];
    int64_t processes = owners->runs;
    *messages = 0;
    *sent = 0;
    for (int step = 0; step < mf_relay_steps(processes); step++) {
        mf_transfer t = mf_relay_step(algorithm, processes, i, length, step);
        int64_t count = t.to >= 0 && t.partial ? mf_relay_nodes(owners, i, step, nodes) : 1;
        *messages += t.to >= 0 && t.sends.first < t.sends.end ? (int)count : 0;
        *sent += t.to >= 0 ? count * (t.sends.end - t.sends.first) : 0;
    }
}

TEST(messages_grow_with_the_logarithm_and_bytes_do_not_grow)
{
    static int first[10001];
    const int64_t length = 1 << 20;
    for (int processes = 2, log = 1; processes <= 10000; processes += 1 + processes / 7) {
        while (2 << log <= processes)
            log++;
        spread(first, processes, 8, false);
        mf_ownership owners = owners_of(first, processes);
        bool even = !(processes & (processes - 1));
        for (int i = 0; i < processes; i++) {
            int messages;
            int64_t sent;
            cost(MF_ALGORITHM_HALVING, &owners, i, length, &messages, &sent);
            CHECK(messages <= (even ? 2 * log : 4 * log + 2));
            CHECK(sent <= (even ? 2 : 5) * length);
            cost(MF_ALGORITHM_DOUBLING, &owners, i, length, &messages, &sent);
            CHECK(messages <= (even ? log : 3 * log + 2));
        }
    }
    int64_t total = 0;
    spread(first, 10000, 8, false);
    mf_ownership owners = owners_of(first, 10000);
    for (int i = 0; i < 10000; i++) {
        int messages;
        int64_t sent;
        cost(MF_ALGORITHM_HALVING, &owners, i, length, &messages, &sent);
        total += sent;
    }
    CHECK(total < 10000 * length / 100 * 205); /* little more than two vectors for each process */
}

TEST(the_way_depends_on_processes_and_bytes_alone)
{
    const int64_t from = 64 << 10;
    CHECK_EQ_INT(mf_algorithm_for(from, 15, 1 << 30), MF_ALGORITHM_DIRECT);
    CHECK_EQ_INT(mf_algorithm_for(from, 15, 1), MF_ALGORITHM_DIRECT);
    CHECK_EQ_INT(mf_algorithm_for(from, 16, 1024), MF_ALGORITHM_DOUBLING);
    CHECK_EQ_INT(mf_algorithm_for(from, 16, 0), MF_ALGORITHM_DOUBLING);
    CHECK_EQ_INT(mf_algorithm_for(from, 17, from), MF_ALGORITHM_HALVING);
    CHECK_EQ_INT(mf_algorithm_for(from, 16, from), MF_ALGORITHM_DIRECT);
    CHECK_EQ_INT(mf_algorithm_for(from, 64, 1 << 30), MF_ALGORITHM_DIRECT);
    CHECK_EQ_INT(mf_algorithm_for(from, 10000, 1 << 30), MF_ALGORITHM_HALVING);
    CHECK_EQ_INT(mf_algorithm_for(INT64_MAX, 10000, 1 << 30), MF_ALGORITHM_DOUBLING);
}

TEST(everybody_meets_everybody_in_rounds_of_few)
{
    static const int counts[] = { 1, 2, 3, 15, 16, 17, 30, 31, 32, 100, 1000 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        int64_t next = 1; /* the distance: a process sends to the one at +distance and receives from the one at -distance */
        for (int64_t round = 0; next < counts[c]; round++) {
            mf_span d = mf_round_distances(counts[c], round);
            CHECK_EQ_INT(d.first, next);
            REQUIRE(CHECK(d.end > d.first && d.end - d.first <= MF_ROUND_MOST));
            next = d.end;
        }
        CHECK_EQ_INT(next, counts[c] > 1 ? counts[c] : 1);
        mf_span after = mf_round_distances(counts[c], counts[c]);
        CHECK(after.first >= after.end);
    }
}
