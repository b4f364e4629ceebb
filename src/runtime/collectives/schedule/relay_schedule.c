/* The schedules of relay_schedule.h.
 *
 * Among 2^k processes, process i exchanges in step l with the one whose number differs in bit l. Of a large vector each of the two then
 * keeps one half, and in k more steps they gather the parts in the reverse order (Rabenseifner 2004). Since the nearest processes exchange
 * first, what two partners have are sibling subtrees, which together are their parent.
 * Any other number of processes is split into blocks of 2^e processes, in descending order, by the binary digits of the number: the
 * tree's left half, the left half of the rest, and so on. Each block works by itself. When it has finished, its process j has a part of
 * the sum over this and all smaller blocks, and hands it to process j of the block before, which at that time has the same part of its
 * own block's sum. So hardly any process sends more than two vectors. */
#include "runtime/collectives/schedule/relay_schedule.h"

static int log2_of(int64_t n)
{
    int l = 0;
    while (n >> (l + 1))
        l++;
    return l;
}

/* Chosen by the results of bench/simulate.c. A few messages all at once take less time than successive steps; so do large pieces among
 * more processes, if these are not a power of two. A whole vector travels log2(p) times; in parts it travels twice, in twice as many
 * messages. */
mf_algorithm mf_algorithm_for(int64_t reduce_scatter_from, int64_t processes, int64_t bytes)
{
    enum { PIECES_MOST = 64 };
    if (processes <= MF_DIRECT_MOST || (processes <= PIECES_MOST && bytes / processes >= reduce_scatter_from / 16))
        return MF_ALGORITHM_DIRECT;
    return bytes >= reduce_scatter_from / 2 ? MF_ALGORITHM_HALVING : MF_ALGORITHM_DOUBLING;
}

typedef struct process_block {
    int64_t base, before; /* first participant, of this block and of the one before; -1: none */
    int log, next_log;    /* of the sizes of this block and of the next one; -1: none */
} process_block;

static process_block block_of(int64_t processes, int64_t participant)
{
    process_block b = { 0, -1, log2_of(processes), -1 };
    while (participant - b.base >= (int64_t)1 << b.log) {
        b.before = b.base;
        b.base += (int64_t)1 << b.log;
        b.log = log2_of(processes - b.base);
    }
    int64_t rest = processes - b.base - ((int64_t)1 << b.log);
    b.next_log = rest ? log2_of(rest) : -1;
    return b;
}

/* The part of the vector that number i of a block has after so many halvings. */
static mf_span part_of(mf_algorithm algorithm, int64_t length, int64_t i, int halvings)
{
    mf_span s = { 0, length };
    for (int l = 0; l < halvings && algorithm == MF_ALGORITHM_HALVING; l++) {
        int64_t middle = s.first + (s.end - s.first + 1) / 2;
        if (i >> l & 1)
            s.first = middle;
        else
            s.end = middle;
    }
    return s;
}

/* Step 2l: a block gets the next one's part, if that has finished; step 2l + 1: pairs of a block exchange. */
static int forward_steps(int64_t processes) { return 2 * log2_of(processes); }

int mf_relay_steps(int64_t processes) { return 2 * forward_steps(processes); }

static mf_transfer pass_to_block(mf_algorithm algorithm, const process_block *b, int64_t i, int64_t length, int level)
{
    mf_transfer t = { -1, -1, { 0, 0 }, { 0, 0 }, true };
    mf_span part = part_of(algorithm, length, i, level);
    if (level == b->log && b->before >= 0) {
        t.to = b->before + i;
        t.sends = part;
    } else if (level == b->next_log && i >> level == 0) {
        t.from = b->base + ((int64_t)1 << b->log) + i;
        t.receives = part;
    }
    return t;
}

static mf_transfer exchange_halves(mf_algorithm algorithm, const process_block *b, int64_t i, int64_t length, int level)
{
    int64_t other = i ^ (int64_t)1 << level;
    if (level >= b->log)
        return (mf_transfer){ -1, -1, { 0, 0 }, { 0, 0 }, true };
    return (mf_transfer){ b->base + other, b->base + other, part_of(algorithm, length, other, level + 1),
                          part_of(algorithm, length, i, level + 1), true };
}

mf_transfer mf_relay_step(mf_algorithm algorithm, int64_t processes, int64_t participant, int64_t length, int step)
{
    process_block b = block_of(processes, participant);
    int half = forward_steps(processes), mirrored = step < half ? step : 2 * half - 1 - step;
    mf_transfer t = (mirrored & 1 ? exchange_halves : pass_to_block)(algorithm, &b, participant - b.base, length, mirrored / 2);
    if (step < half)
        return t;
    bool has_all = algorithm == MF_ALGORITHM_DOUBLING && mirrored & 1;
    return has_all ? (mf_transfer){ -1, -1, { 0, 0 }, { 0, 0 }, false } : (mf_transfer){ t.from, t.to, t.receives, t.sends, false };
}

int mf_relay_held(int64_t processes, int64_t participant, int step, mf_span out[2])
{
    process_block b = block_of(processes, participant);
    int level = step / 2 < b.log ? step / 2 : b.log;
    int64_t i = (participant - b.base) >> level << level, end = b.base + ((int64_t)1 << b.log);
    out[0] = (mf_span){ b.base + i, b.base + i + ((int64_t)1 << level) };
    if (i || b.next_log < 0 || step <= 2 * b.next_log)
        return 1;
    out[1] = (mf_span){ end, processes };
    if (out[0].end < end)
        return 2;
    out[0].end = processes;
    return 1;
}

int mf_relay_nodes(const mf_ownership *owners, int64_t participant, int step, mf_subtree *out)
{
    mf_span held[2];
    int count = 0, spans = mf_relay_held(owners->runs, participant, step, held);
    for (int i = 0; i < spans; i++)
        count += mf_frontier(owners->count, mf_ownership_first(owners, held[i].first), mf_ownership_first(owners, held[i].end),
                             out + count);
    return count;
}

mf_span mf_round_distances(int64_t processes, int64_t round)
{
    int64_t first = 1 + round * MF_ROUND_MOST, end = first + MF_ROUND_MOST;
    return (mf_span){ first, end < processes ? end : processes > first ? processes : first };
}
