/* An exchange under way, for the files of this folder alone. */
#ifndef MF_RUNTIME_COLLECTIVES_EXCHANGE_EXCHANGE_H
#define MF_RUNTIME_COLLECTIVES_EXCHANGE_EXCHANGE_H

#include "runtime/collectives/collectives.h"
#include "runtime/collectives/schedule/frontier.h"

/* For everybody; for one process alone; of large reductions what each process combines a piece of; what goes by relay has memory of its
 * own. */
enum { MF_PART_SHARED, MF_PART_OWN, MF_PARTS, MF_PART_PIECES = MF_PARTS, MF_PART_RELAY };
typedef struct mf_relay mf_relay;

/* Ranks that one process has and that follow one another; so many of its ranks come before them. */
typedef struct mf_rank_run {
    int64_t first, end, before;
} mf_rank_run;

/* Of a ppermute, what a member of this process has to do with others: numbers of sources, or -1 for nobody and this process itself. */
typedef struct mf_exchange_pair {
    int to, from;
    int number; /* of its operand among those that come from there */
} mf_exchange_pair;

/* A process that takes part: what it contributes, as far as it is here. */
typedef struct mf_exchange_peer {
    int process;
    int nth; /* of them all, in order */
    int64_t rank_count, frontier_count;
    int64_t run_count;
    mf_rank_run *runs;          /* the ranks that it has, ascending */
    mf_subtree *frontier;       /* of them, where something is reduced */
    int64_t *offsets;           /* by result: where its chunk begins in its part */
    int64_t bytes[MF_PARTS];    /* of what it sends here; of this process, of what it sends to everybody */
    mf_register data[MF_PARTS]; /* that */
    mf_register out;            /* what this process sends to it alone */
    int64_t out_bytes;
} mf_exchange_peer;

struct mf_exchange {
    mf_fiber fiber;
    mf_run_state *s;
    mf_rendezvous *g;
    const mf_segment_compiler *compiler;
    int out_count, source_count;
    mf_exchange_peer *sources; /* those with which something may be exchanged; this process first, then around the circle in their order */
    bool pairs;                /* only ppermutes: the sources are this process's own partners */
    mf_rank_run *runs;         /* of all sources */
    mf_exchange_pair *exchanged; /* by result, then by member here; NULL: there is no ppermute */
    int round;                   /* the next one in which they exchange what goes directly (relay_schedule.h) */
    mf_register *sums;           /* by result, of reductions that go in pieces; NULL: none does */
    mf_relay *relay;             /* NULL: everybody sends to everybody */
    mf_message_tag tag;          /* of its messages, but for what tells them apart */
    bool named;                  /* which is the same in the next run, but for the call */
    struct mf_blocks *blocks;    /* of those reductions */
    int first_messages;          /* of those that go by relay */
    mf_rendezvous *own;          /* a lasting rendezvous, which ends with the exchange; or NULL */
    mf_exchange *next;           /* that the run state has kept */
    const mf_comm *comm;         /* for which it is laid out */
    int64_t pieces_from;         /* and with which of mf_pieces_from and mf_way_forced */
    int way;
    _Atomic int pending;
    _Atomic(mf_error_object *) error; /* the first */
};

static inline const mf_eqn *mf_exchange_eqn(const mf_exchange *x, int k) { return x->g->instr->participants->eqns[k]; }

static inline const mf_exchange_pair *mf_exchange_pairs(const mf_exchange *x, int k) { return x->exchanged + k * x->g->here_count; }

/* Until mf_exchange_reduce has given the sum away. */
static inline bool mf_in_pieces(const mf_exchange *x, int k) { return x->sums && x->sums[k].data; }

/* ---- peers.c */
bool mf_exchange_find_peers(mf_exchange *x);                                  /* false: memory is out */
int mf_exchange_source_of_rank(const mf_exchange *x, int64_t rank);           /* whose it is */
int64_t mf_exchange_position_of(const mf_exchange_peer *owner, int64_t rank); /* among the ranks of its owner */

/* ---- contribution.c */
bool mf_reduces(const mf_eqn *e);
mf_dtype mf_partial_dtype(const mf_eqn *e); /* a reduction's partial results: sums of 16-bit floats wait for their rounding */
int64_t mf_partial_bytes(const mf_eqn *e);  /* of one */
/* So many elements of the operands of a subtree of this process's ranks, from `first` on, reduced. False: memory is out. */
bool mf_reduce_subtree(const mf_exchange *x, int k, mf_subtree t, int64_t first, int64_t count, void *out);
void mf_put_gathered(const mf_exchange *x, int k, unsigned char *to, int64_t stride); /* of all members here (mf_gathered_bytes) */
int mf_exchange_part(const mf_exchange *x, int k);                                    /* in which result k is */
/* The results' chunks one after the other: where each begins, and how long the parts are. */
void mf_exchange_lay_out(const mf_exchange *x, const mf_exchange_peer *from, const mf_exchange_peer *to, int64_t *offsets, int64_t *bytes);
/* A part of what goes to a peer (of what is for everybody, to any), laid out so. False: memory is out. */
bool mf_exchange_contribute(const mf_exchange *x, int part, const mf_exchange_peer *peer, const int64_t *offsets, int64_t bytes,
                            mf_register *out);

/* ---- tags.c */
void mf_exchange_name_messages(mf_exchange *x);
mf_message_tag mf_exchange_tag(const mf_exchange *x, uint64_t which); /* of one of them */

/* ---- results.c */
/* Where a process's partial result number f lies here. */
typedef unsigned char *(*mf_partial_at)(const void *context, const mf_exchange_peer *from, int64_t f);
/* Whether all partial results are nodes of one level: what is above them is the tree over so many, and is computed at once, into other
 * memory. */
bool mf_frontiers_are_level(const mf_exchange *x);
/* Combines so many elements of all partial results for result k, into `out` or in their own memory. Where it is; NULL: memory is out. */
unsigned char *mf_combine_frontiers(const mf_exchange *x, int k, int64_t count, mf_partial_at at, const void *context, unsigned char *out);

/* ---- exchange.c */
/* An exchange expects so many messages from now on, which none of them is before; posted: all have been asked for or sent, and when they
 * have ended, its fiber is ready. */
void mf_exchange_expect(mf_exchange *x, int messages);
void mf_exchange_expect_one_more(mf_exchange *x);       /* not the first one */
void mf_message_ended(void *x, mf_error_object *error); /* of one of them */
void mf_exchange_posted(mf_exchange *x);
void mf_exchange_fail(mf_exchange *x); /* the run, if a message has ended in an error */

/* ---- pieces.c */
bool mf_pieces_prepare(mf_exchange *x); /* false: memory is out */
/* Everybody gets some of the first block's partial results, which go in the place of what is for everybody where there is none of that: so whoever
 * computes something else there finds one message of ours. */
bool mf_pieces_lead(const mf_exchange *x);
void mf_pieces_post(mf_exchange *x); /* begins: one of those that are pending, until all is combined */
bool mf_pieces_wait(const mf_exchange *x);
void mf_pieces_go_on(mf_exchange *x); /* where it waits; x may be gone then */
void mf_pieces_wake(mf_exchange *x);
void mf_pieces_free(mf_exchange *x);

/* ---- relay.c: what is reduced or gathered among many processes */
bool mf_relay_prepare(mf_exchange *x); /* makes x->relay where it is better; false: memory is out */
void mf_relay_free(mf_relay *r);       /* or NULL */
bool mf_relayed(const mf_exchange *x, int k);
int mf_relay_messages(mf_exchange *x); /* goes to the next step that has any, and says how many; 0: none is left; -1: memory is out */
void mf_relay_post(mf_exchange *x);    /* that step's */
bool mf_relay_arrived(mf_exchange *x); /* they have ended: combines what came. False: memory is out */
const void *mf_relay_operand(const mf_exchange *x, int k, int64_t rank); /* of what is gathered */
bool mf_relay_sum(const mf_exchange *x, int k, mf_register *sum);        /* of result k; false: memory is out */

#endif
