/* An exchange under way; private to this folder. */
#ifndef MF_RUNTIME_COLLECTIVES_EXCHANGE_EXCHANGE_H
#define MF_RUNTIME_COLLECTIVES_EXCHANGE_EXCHANGE_H

#include "runtime/collectives/collectives.h"
#include "runtime/collectives/schedule/frontier.h"

/* The parts of a contribution: for every process; for a single process; of large reductions, of which each process combines a piece.
 * What goes by relay has its own memory. */
enum { MF_PART_SHARED, MF_PART_OWN, MF_PARTS, MF_PART_REDUCE_SCATTER = MF_PARTS, MF_PART_RELAY };
typedef struct mf_relay mf_relay;

/* A run of consecutive ranks of one process; `before` of its ranks precede them. */
typedef struct mf_rank_run {
    int64_t first, end, before;
} mf_rank_run;

/* In a ppermute, the partners of a member of this process: numbers of sources; -1: nobody, or this process. */
typedef struct mf_exchange_pair {
    int to, from;
    int number; /* index of its operand among those that come from there */
} mf_exchange_pair;

/* A process that takes part, and its contribution as far as this process gets it. */
typedef struct mf_exchange_peer {
    int process;
    int nth; /* its number in the order of processes */
    int64_t rank_count, frontier_count;
    int64_t run_count;
    mf_rank_run *runs;          /* the ranks that it has, ascending */
    mf_subtree *frontier;       /* the frontier of its ranks, if something is reduced */
    int64_t *offsets;           /* by result: the offset of its chunk in its part */
    int64_t bytes[MF_PARTS];    /* of its messages to this process; of this process itself, of its message to everybody */
    mf_register data[MF_PARTS]; /* the contents of these */
    mf_register out;            /* what this process sends to it alone */
    int64_t out_bytes;
} mf_exchange_peer;

struct mf_exchange {
    mf_fiber fiber;
    mf_run_state *run_state;
    mf_rendezvous *rendezvous;
    const mf_segment_compiler *compiler;
    int out_count, source_count;
    mf_exchange_peer *sources;         /* who may exchange something; this process first, then around the circle in order */
    bool pairs;                        /* only ppermutes: the sources are this process's partners only */
    mf_rank_run *runs;                 /* of all sources */
    mf_exchange_pair *exchanged;       /* by result, then by member here; NULL: no ppermute */
    int round;                         /* the next round of direct messages (relay_schedule.h) */
    mf_register *sums;                 /* by result, of reductions by reduce-scatter; NULL: none */
    mf_relay *relay;                   /* NULL: everybody sends to everybody */
    mf_message_tag tag;                /* common to its messages */
    bool named;                        /* the tag is the same in the next run, except for the call */
    struct mf_reduce_scatter *scatter; /* of the large reductions; or NULL */
    int first_messages;                /* of the relay's first step */
    mf_rendezvous *own;                /* its lasting rendezvous, which is freed with it; or NULL */
    mf_exchange *next;                 /* in the list of those that the run state keeps */
    const mf_comm *comm;               /* laid out for this communicator */
    int64_t reduce_scatter_from;       /* and for these values of mf_reduce_scatter_from and mf_algorithm_forced */
    int algorithm;
    _Atomic int pending;
    _Atomic(mf_error_object *) error; /* the first one */
};

static inline const mf_eqn *mf_exchange_eqn(const mf_exchange *x, int k) { return x->rendezvous->instr->participants->eqns[k]; }

static inline const mf_exchange_pair *mf_exchange_pairs(const mf_exchange *x, int k)
{
    return x->exchanged + k * x->rendezvous->here_count;
}

/* True until mf_exchange_reduce has taken the sum. */
static inline bool mf_is_reduce_scattered(const mf_exchange *x, int k) { return x->sums && x->sums[k].data; }

/* ---- peers.c */
bool mf_exchange_find_peers(mf_exchange *x);                                  /* false: memory is out */
int mf_exchange_source_of_rank(const mf_exchange *x, int64_t rank);           /* the number of its owner */
int64_t mf_exchange_position_of(const mf_exchange_peer *owner, int64_t rank); /* its position among its owner's ranks */

/* ---- contribution.c */
bool mf_reduces(const mf_eqn *e);
mf_dtype mf_partial_dtype(const mf_eqn *e); /* of a reduction's partial results: sums of 16-bit floats are rounded later */
int64_t mf_partial_bytes(const mf_eqn *e);  /* of one partial result */
/* Reduces `count` elements, from `first` on, of the operands of a subtree of this process's ranks. False: memory is out. */
bool mf_reduce_subtree(const mf_exchange *x, int k, mf_subtree t, int64_t first, int64_t count, void *out);
void mf_put_gathered(const mf_exchange *x, int k, unsigned char *to, int64_t stride); /* of all members here (mf_gathered_bytes) */
int mf_exchange_part(const mf_exchange *x, int k);                                    /* the part that has result k */
/* Lays out the results' chunks one after the other: their offsets, and the bytes of each part. */
void mf_exchange_lay_out(const mf_exchange *x, const mf_exchange_peer *from, const mf_exchange_peer *to, int64_t *offsets, int64_t *bytes);
/* Fills in a part of this process's contribution to a peer (MF_PART_SHARED: to any), laid out as above. False: memory is out. */
bool mf_exchange_contribute(const mf_exchange *x, int part, const mf_exchange_peer *peer, const int64_t *offsets, int64_t bytes,
                            mf_register *out);

/* ---- tags.c */
void mf_exchange_name_messages(mf_exchange *x);
mf_message_tag mf_exchange_tag(const mf_exchange *x, uint64_t which); /* the tag of one message */

/* ---- results.c */
/* The address of partial result number f of a process. */
typedef unsigned char *(*mf_partial_at)(const void *context, const mf_exchange_peer *from, int64_t f);
/* Whether all partial results are nodes of one level: then what is above them is a plain reduction over them, done in one pass into
 * other memory. */
bool mf_frontiers_are_level(const mf_exchange *x);
/* Combines `count` elements of all partial results for result k, into `out` or in place. Returns where the sum is; NULL: memory is out. */
unsigned char *mf_combine_frontiers(const mf_exchange *x, int k, int64_t count, mf_partial_at at, const void *context, unsigned char *out);

/* ---- exchange.c */
/* An exchange expects so many messages; it must expect none yet. When mf_exchange_posted has been called and all of them have ended, its
 * fiber becomes ready. */
void mf_exchange_expect(mf_exchange *x, int messages);
void mf_exchange_expect_one_more(mf_exchange *x);       /* after mf_exchange_expect */
void mf_message_ended(void *x, mf_error_object *error); /* mf_message_done of the messages */
void mf_exchange_posted(mf_exchange *x);
void mf_exchange_fail(mf_exchange *x); /* fails the run if a message has ended in an error */

/* ---- reduce_scatter.c */
bool mf_reduce_scatter_prepare(mf_exchange *x); /* false: memory is out */
/* Whether every process gets some of the first chunk's partial results. Then these go in the place of the shared part, which would be
 * empty: a process that computes something else finds a message of ours there. */
bool mf_reduce_scatter_leads(const mf_exchange *x);
void mf_reduce_scatter_post(mf_exchange *x); /* begins; counts as a pending message until all is combined */
bool mf_reduce_scatter_waits(const mf_exchange *x);
void mf_reduce_scatter_advance(mf_exchange *x); /* if it waits; may free x */
void mf_reduce_scatter_wake(mf_exchange *x);
void mf_reduce_scatter_free(mf_exchange *x);

/* ---- relay.c: reductions and gathers among many processes */
bool mf_relay_prepare(mf_exchange *x); /* creates x->relay if it is better; false: memory is out */
void mf_relay_free(mf_relay *r);       /* r may be NULL */
bool mf_relayed(const mf_exchange *x, int k);
int mf_relay_messages(mf_exchange *x); /* of the next step that has any; 0: none is left; -1: memory is out */
void mf_relay_post(mf_exchange *x);    /* posts that step's messages */
bool mf_relay_arrived(mf_exchange *x); /* when they have ended: combines what came. False: memory is out */
const void *mf_relay_operand(const mf_exchange *x, int k, int64_t rank); /* of what is gathered */
bool mf_relay_sum(const mf_exchange *x, int k, mf_register *sum);        /* of result k; false: memory is out */

#endif
