/* Collectives under way. Members meet in a rendezvous; what follows has three parts. Contribute: what is here is combined. Exchange: where
 * members are in other processes, contributions travel, and the rendezvous is complete when they have come. Deliver: results are computed
 * and handed out. See rendezvous.c, exchange/exchange.c, deliver.c. */
#ifndef MF_RUNTIME_COLLECTIVES_COLLECTIVES_H
#define MF_RUNTIME_COLLECTIVES_COLLECTIVES_H

#include "runtime/collectives/schedule/ownership.h"
#include "runtime/execute/run.h"

typedef struct mf_exchange mf_exchange;

/* A member of a collective under way that this process has; it may have gone on (a detached collective), its map has not. */
typedef struct mf_participant {
    mf_fiber *fiber; /* NULL: gone on */
    mf_map *map;
    int64_t index, rank;
    int device;
    bool here;       /* has come */
    mf_register *in; /* by result */
} mf_participant;

#define MF_KEY_MAX 48
/* An instance of a collective: which instruction, in which iterations of the loops around, for which indices of the other axes. */
typedef struct mf_rendezvous {
    struct mf_rendezvous *next;
    const mf_instr *instr;
    mf_map *top;
    int key_count;
    int64_t key[MF_KEY_MAX];
    int64_t arrived, here_count, member_count; /* here_count: those of this process */
    mf_participant *members;                   /* those, by rank */
    const mf_map *map;                         /* of one of them, and its index there */
    int64_t index;
    struct mf_lockstep_run *lockstep; /* of which all members here are; NULL: they are fibers */
    bool spread;                      /* others may be elsewhere: */
    mf_ownership owners;              /* who has which */
    bool lasting;                     /* memory of its own, which its exchange keeps for the next run */
    mf_exchange *exchange;            /* that one, once there is one */
} mf_rendezvous;

/* ---- rendezvous.c */
mf_step mf_collective(mf_fiber *f, const mf_instr *in);
mf_step mf_axis_index_value(mf_fiber *f, const mf_instr *in);
/* One over the axis of an outermost map, of which all members here come at once; their operands are to be put into it. NULL: the run has
 * failed. */
mf_rendezvous *mf_rendezvous_at_once(mf_run_state *s, const mf_instr *in, mf_map *map);
void mf_rendezvous_free(mf_run_state *s, mf_rendezvous *g); /* the lock is held */
/* All contributions have come: hands out the results and makes the members ready; self (or NULL) is one that goes on by itself. False: the
 * run has failed. g is freed. */
bool mf_rendezvous_complete(mf_run_state *s, mf_rendezvous *g, const mf_exchange *x, const mf_fiber *self);

/* ---- membership.c */
/* The rank of the device at a position along the collective's axes in its group, whose number is *group; -1: it is in none. */
int64_t mf_rank_at(const mf_participants *m, int64_t position, int64_t *group);
int64_t mf_group_count(const mf_participants *m, int64_t group); /* members */
/* How many of a group's members lie in this process, where one of them has this map and index; their ranks, ascending, where `ranks` is
 * not NULL. */
int64_t mf_members_here(const mf_participants *m, const mf_map *map, int64_t group, int64_t *ranks);
/* What a rendezvous of so many of them takes, of so many operands each: others than these cost it nothing. */
size_t mf_rendezvous_bytes(int64_t members, int operands);
int mf_rendezvous_device(const mf_rendezvous *g, int64_t rank);
/* Finds out who has which. False: memory is out. */
bool mf_rendezvous_find_owners(mf_rendezvous *g, const mf_comm *c);
mf_participant *mf_rendezvous_member(const mf_rendezvous *g, int64_t rank); /* NULL: it is not here */

/* ---- exchange/exchange.c */
/* The rendezvous of this instruction that an earlier run has kept in the run state, whose exchange need not be laid out anew; or NULL. */
mf_rendezvous *mf_exchange_take_kept(mf_run_state *s, const mf_instr *in);
void mf_exchanges_free(mf_run_state *s); /* what it has kept */
/* Contributes what is here of g and sends it; when all has come, a fiber of its own, which the caller has counted as active, completes g.
 * False: memory is out and the run has failed. */
bool mf_exchange_begin(mf_run_state *s, mf_rendezvous *g);
void mf_exchange_end(mf_exchange *x); /* what that fiber does; it is gone then */
/* Bytes of a partial result from which on a reduction goes in pieces (pieces.c): the same in all processes. For tests. */
extern _Atomic int64_t mf_pieces_from;
/* How many processes' reductions and gathers go, for tests: an mf_way (relay_schedule.h), the same in all; -1: as is best. */
extern _Atomic int mf_way_forced;

/* ---- exchange/contribution.c */
/* What everybody gets of each operand that is gathered, or compared: all of it, or 128 bits of a hash, so that a comparison of large arrays
 * sends next to nothing. */
int64_t mf_gathered_bytes(const mf_eqn *e);

/* ---- exchange/results.c */
/* Of result k, where the operand of another process's member lies, which has come whole; of what is compared any member's digest, of 128
 * bits. */
const void *mf_exchange_operand(const mf_exchange *x, int k, int64_t rank);
/* A register that holds the operand that a member here gets from another process's in a ppermute. */
void mf_exchange_hold(const mf_exchange *x, int k, int64_t target, mf_register *to);
/* The piece that rank r gets of rank s's operand in an all_to_all; s is another process's. */
const void *mf_exchange_piece(const mf_exchange *x, int k, int64_t s, int64_t r);
/* The reduction of all members' operands of result k; once. False: out of memory. */
bool mf_exchange_reduce(const mf_exchange *x, int k, mf_register *sum);

/* ---- lockstep.c */
/* The results of a rendezvous that is complete; the fiber that waits for them may go on then. False: out of memory. */
bool mf_lockstep_deliver(struct mf_lockstep_run *r, const mf_rendezvous *g, const mf_exchange *x);
mf_fiber *mf_lockstep_fiber(const struct mf_lockstep_run *r);

/* ---- deliver.c */
/* The sum, maximum or minimum that e asks for, of n members' `count` elements of a dtype, e's or a wider one; out may be members[0]. False:
 * out of memory. */
bool mf_collective_reduce(const mf_segment_compiler *compiler, const mf_eqn *e, mf_dtype dtype, const void **members, int64_t n,
                          int64_t count, void *out);
/* The pieces of an all_to_all over n members: their shape, and where they lie in operands and results. */
typedef struct mf_pieces {
    int rank;
    int64_t dims[MF_RANK];
    int64_t from[MF_RANK], to[MF_RANK], packed[MF_RANK]; /* strides within an operand, within a result, and alone */
    int64_t split, join;                                 /* bytes from piece to piece in an operand and in a result */
    int64_t bytes;                                       /* of one */
} mf_pieces;
mf_pieces mf_all_to_all_pieces(const mf_eqn *e, int64_t n);
/* The results of a rendezvous that is complete, into its members' registers; x NULL: all members are here. False with *error, or without
 * when memory is out. */
bool mf_rendezvous_deliver(mf_rendezvous *g, const mf_exchange *x, const mf_segment_compiler *compiler, mf_error_object **error);

/* ---- disagreement.c */
mf_error_object *mf_disagreement(mf_run_state *s);       /* says who waits for whom */
void mf_list_device(mf_text *t, int *count, int device); /* one more of a list that is cut off after 16 */
/* That devices go different ways through e, in which the collective stands: two lists of them, and how many each has. */
mf_error_object *mf_ways_differ(const mf_eqn *e, const mf_eqn *collective, const mf_namelist *axes, const char *const devices[2],
                                const int counts[2]);

#endif
