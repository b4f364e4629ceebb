/* The canonical tree of a reduction over ranks 0 .. n-1, and which of its nodes can be computed from some of the ranks.
 *
 * The tree pairs neighbours level by level, and an odd one moves up: node i of level l covers the ranks from i * 2^l to (i + 1) * 2^l,
 * or to n. The ranks [from, to) determine exactly the nodes inside the interval; the greatest of these are its frontier. Frontiers that
 * together cover all ranks are combined along the same tree, so a sum has the same bits however the ranks are spread. */
#ifndef MF_RUNTIME_COLLECTIVES_SCHEDULE_FRONTIER_H
#define MF_RUNTIME_COLLECTIVES_SCHEDULE_FRONTIER_H

#include <stdbool.h>
#include <stdint.h>

#define MF_FRONTIER_MAX 62 /* for one interval of ranks */

typedef struct mf_subtree {
    int64_t first, count; /* the ranks it covers */
} mf_subtree;

/* Writes the frontier of [from, to) in the tree over n ranks, from left to right; 0 <= from <= to <= n < 2^31. Returns its length: at
 * most 2 * log2(n), and at least 1 if from < to. */
int mf_frontier(int64_t n, int64_t from, int64_t to, mf_subtree *out);
/* Whether b is a's right sibling in the tree over n ranks, so that both together are their parent. */
bool mf_subtree_siblings(int64_t n, mf_subtree a, mf_subtree b);
/* Combines frontiers that cover [0, n) from left to right: calls combine(context, into, from) for pairs of positions in `parts`, in the
 * order of the tree; position 0 then holds the whole. False: the parts do not cover [0, n), or are not nodes of the tree. */
bool mf_frontier_combine(int64_t n, mf_subtree *parts, int count, void (*combine)(void *context, int into, int from), void *context);

#endif
