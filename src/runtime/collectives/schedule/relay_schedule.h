/* Schedules of collectives over many processes: who sends how much to whom, in a number of steps that grows with the logarithm of
 * theirs. Pure functions: what runs over processes (relay.c) and what is simulated (bench/simulate.c) are the same.
 *
 * Participants are the processes in the order of the ranks that they have, an interval each. What is reduced is a vector, of which every
 * participant has its partial results: nodes of the one tree over the ranks (frontier.h).
 * Invariants: two participants that exchange something have neighbouring intervals of ranks, or complete subtrees of one, so what a step
 * adds up is what the tree adds up, in its order; each end knows the messages of the other; nothing depends on what another participant
 * has done. */
#ifndef MF_RUNTIME_COLLECTIVES_SCHEDULE_RELAY_SCHEDULE_H
#define MF_RUNTIME_COLLECTIVES_SCHEDULE_RELAY_SCHEDULE_H

#include "runtime/collectives/schedule/frontier.h"
#include "runtime/collectives/schedule/ownership.h"

/* How a collective goes: from everybody to everybody; in steps, all that there is or, of a vector, ever smaller parts. */
typedef enum mf_way { MF_WAY_DIRECT, MF_WAY_WHOLE, MF_WAY_PARTS } mf_way;

/* Of a reduction of so many bytes over so many processes; of what is gathered, 0 bytes. pieces_from: bytes of a vector from which it is
 * cut up where it goes directly (pieces.c). */
mf_way mf_way_of(int64_t pieces_from, int64_t processes, int64_t bytes);
enum { MF_DIRECT_MOST = 15 }; /* processes up to which everything goes directly */

typedef struct mf_span {
    int64_t first, end;
} mf_span;

/* ---- everybody sends everybody something
 * In rounds, so that no process has more than so many messages on their way to others, and none is sent to by all at once: to the participants
 * that are so far on, around the circle of them all, and from those that are as far back. So one's receipts are the others' sends of the
 * same round, which takes the same participants in all of them: a ppermute's partners have no rounds. */
enum { MF_ROUND_MOST = MF_DIRECT_MOST };
mf_span mf_round_distances(int64_t processes, int64_t round); /* empty: that round is none */

/* ---- everybody gets the sum, or what all have */

typedef struct mf_transfer {
    int64_t to, from;        /* participants; -1: nobody */
    mf_span sends, receives; /* of the vector; empty: nothing */
    bool partial;            /* what the sender has till then, else the whole */
} mf_transfer;

int mf_relay_steps(int64_t processes);
/* What a participant does in a step, of a vector of `length`. What is gathered goes whole. */
mf_transfer mf_relay_step(mf_way way, int64_t processes, int64_t participant, int64_t length, int step);
/* Whose contributions a participant has before a step in which what is partial is sent: one or two intervals of participants, from left to
 * right. How many. */
int mf_relay_held(int64_t processes, int64_t participant, int step, mf_span out[2]);
/* The nodes that it has of a reduction; participant i has run i of the ranks. How many, at most MF_RELAY_NODES. */
enum { MF_RELAY_NODES = 2 * MF_FRONTIER_MAX };
int mf_relay_nodes(const mf_ownership *owners, int64_t participant, int step, mf_subtree *out);

#endif
