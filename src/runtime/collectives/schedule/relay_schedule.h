/* Schedules of collectives over many processes: who sends how much to whom, in a number of steps that is logarithmic in the number of
 * processes. These are pure functions, used both to run collectives (relay.c) and to simulate them (bench/simulate.c).
 *
 * Participants are the processes in the order of their ranks, an interval each. A vector is reduced; every participant has partial results
 * of it, which are nodes of the tree over the ranks (frontier.h).
 * Invariants: two participants that exchange something have neighbouring intervals of ranks, or complete subtrees of one, so a step adds
 * up what the tree adds up, in its order; each end knows the other's messages; nothing depends on what another participant has done. */
#ifndef MF_RUNTIME_COLLECTIVES_SCHEDULE_RELAY_SCHEDULE_H
#define MF_RUNTIME_COLLECTIVES_SCHEDULE_RELAY_SCHEDULE_H

#include "runtime/collectives/schedule/frontier.h"
#include "runtime/collectives/schedule/ownership.h"

/* How a collective travels: from everybody to everybody; in steps, as a whole (recursive doubling); or in steps, of a vector, in ever
 * smaller parts (recursive halving, and doubling back: Rabenseifner). */
typedef enum mf_algorithm { MF_ALGORITHM_DIRECT, MF_ALGORITHM_DOUBLING, MF_ALGORITHM_HALVING } mf_algorithm;

/* The algorithm of a reduction of so many bytes over so many processes; a gather counts as 0 bytes. reduce_scatter_from: bytes of a vector
 * from which on it is cut up when it goes directly (reduce_scatter.c). */
mf_algorithm mf_algorithm_for(int64_t reduce_scatter_from, int64_t processes, int64_t bytes);
enum { MF_DIRECT_MOST = 15 }; /* the most processes that always exchange directly */

typedef struct mf_span {
    int64_t first, end;
} mf_span;

/* ---- everybody sends something to everybody
 * In rounds, so that no process has more than MF_ROUND_MOST messages on their way, and not all send to one process at once. In a round a
 * participant sends to those at certain distances around the circle of all participants, and receives from those that are as far back.
 * So its receives match the others' sends of the same round. All processes must have the same participants; the partners of a ppermute
 * differ, so it has no rounds. */
enum { MF_ROUND_MOST = MF_DIRECT_MOST };
mf_span mf_round_distances(int64_t processes, int64_t round); /* empty: there is no such round */

/* ---- everybody gets the sum, or everything that is gathered */

typedef struct mf_transfer {
    int64_t to, from;        /* participants; -1: nobody */
    mf_span sends, receives; /* parts of the vector; empty: nothing */
    bool partial;            /* partial results so far; else the final ones */
} mf_transfer;

int mf_relay_steps(int64_t processes);
/* What a participant does in a step, of a vector of `length`. What is gathered goes by MF_ALGORITHM_DOUBLING. */
mf_transfer mf_relay_step(mf_algorithm algorithm, int64_t processes, int64_t participant, int64_t length, int step);
/* The participants whose contributions a participant has before a step that sends partial results: one or two intervals, from left to
 * right. Returns their number. */
int mf_relay_held(int64_t processes, int64_t participant, int step, mf_span out[2]);
/* The nodes of a reduction that it has then; participant i has run i of the ranks. Returns their number, at most MF_RELAY_NODES. */
enum { MF_RELAY_NODES = 2 * MF_FRONTIER_MAX };
int mf_relay_nodes(const mf_ownership *owners, int64_t participant, int step, mf_subtree *out);

#endif
