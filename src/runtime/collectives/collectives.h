/* Collectives under way. Members meet in a rendezvous; then come three parts. Contribute: combines the operands of this process's
 * members. Exchange: if members are in other processes, sends contributions, and the rendezvous is complete when all have arrived.
 * Deliver: computes the results and hands them out. See rendezvous.c, exchange/exchange.c, deliver.c. */
#ifndef MF_RUNTIME_COLLECTIVES_COLLECTIVES_H
#define MF_RUNTIME_COLLECTIVES_COLLECTIVES_H

#include "runtime/collectives/schedule/ownership.h"
#include "runtime/execute/run.h"

typedef struct mf_exchange mf_exchange;

/* A member of a collective under way in this process. Its fiber may have gone on (a detached collective), but its map has not ended. */
typedef struct mf_participant {
    mf_fiber *fiber; /* NULL: it has gone on */
    mf_map *map;
    int64_t index, rank;
    int device;
    bool here;       /* has arrived */
    mf_register *in; /* operands, by result */
} mf_participant;

#define MF_KEY_MAX 48
/* An instance of a collective: the instruction, in these iterations of the loops around it, at these indices of the axes that it does
 * not run over. */
typedef struct mf_rendezvous {
    struct mf_rendezvous *next;
    const mf_instr *instr;
    mf_map *top;
    int key_count;
    int64_t key[MF_KEY_MAX];
    int64_t arrived, here_count, member_count; /* here_count: members in this process */
    mf_participant *members;                   /* members in this process, by rank */
    const mf_map *map;                         /* the map of one of the members here, and that member's index */
    int64_t index;
    struct mf_lockstep_run *lockstep; /* the lockstep run that holds all members here; NULL: they are fibers */
    bool spread;                      /* members may be in other processes */
    mf_ownership owners;              /* which process has which rank */
    bool lasting;                     /* it has memory of its own, which its exchange keeps for the next run */
    mf_exchange *exchange;            /* of a lasting rendezvous, once there is one */
} mf_rendezvous;

/* ---- rendezvous.c */
mf_step mf_collective(mf_fiber *f, const mf_instr *in);
mf_step mf_axis_index_value(mf_fiber *f, const mf_instr *in);
/* A rendezvous over the axis of an outermost map, at which all members here arrive together; the caller fills in their operands. NULL:
 * the run has failed. */
mf_rendezvous *mf_rendezvous_at_once(mf_run_state *s, const mf_instr *in, mf_map *map);
void mf_rendezvous_free(mf_run_state *s, mf_rendezvous *g); /* the lock is held */
/* All contributions have arrived: hands out the results and makes the members ready, except for `self` (or NULL), which the caller
 * continues. False: the run has failed. Frees g. */
bool mf_rendezvous_complete(mf_run_state *s, mf_rendezvous *g, const mf_exchange *x, const mf_fiber *self);

/* ---- membership.c */
/* The rank in its group of the device at a position along the collective's axes, and the group's number; -1: it is in no group. */
int64_t mf_rank_at(const mf_participants *m, int64_t position, int64_t *group);
int64_t mf_group_count(const mf_participants *m, int64_t group); /* members */
/* How many members of a group are in this process, one of which has this map; `ranks` (may be NULL) gets their ranks, ascending. */
int64_t mf_members_here(const mf_participants *m, const mf_map *map, int64_t group, int64_t *ranks);
/* The bytes of a rendezvous with so many members here and so many operands each; members elsewhere need no memory. */
size_t mf_rendezvous_bytes(int64_t members, int operands);
int mf_rendezvous_device(const mf_rendezvous *g, int64_t rank);
/* Finds out which process has which rank. False: memory is out. */
bool mf_rendezvous_find_owners(mf_rendezvous *g, const mf_comm *c);
mf_participant *mf_rendezvous_member(const mf_rendezvous *g, int64_t rank); /* NULL: it is in another process */

/* ---- exchange/exchange.c */
/* The rendezvous of this instruction that an earlier run has kept in the run state, with its exchange laid out; or NULL. */
mf_rendezvous *mf_exchange_take_kept(mf_run_state *s, const mf_instr *in);
void mf_exchanges_free(mf_run_state *s); /* frees what the run state has kept */
/* Contributes the operands here and sends them. When everything has arrived, the exchange's own fiber, which the caller has counted as
 * active, completes g. False: memory is out and the run has failed. */
bool mf_exchange_begin(mf_run_state *s, mf_rendezvous *g);
void mf_exchange_end(mf_exchange *x); /* run by that fiber; may free x */
/* Partial results from this many bytes on are reduced by a reduce-scatter (reduce_scatter.c); the same in all processes. Set by tests. */
extern _Atomic int64_t mf_reduce_scatter_from;
/* The mf_algorithm (relay_schedule.h) of reductions and gathers, the same in all processes; -1: the best. Set by tests. */
extern _Atomic int mf_algorithm_forced;

/* ---- exchange/contribution.c */
/* The bytes that every process gets of each operand that is gathered or compared: all of the operand, or a hash of 128 bits, so that
 * comparing large arrays sends next to nothing. */
int64_t mf_gathered_bytes(const mf_eqn *e);

/* ---- exchange/results.c */
/* The operand of another process's member for result k; of a comparison any member's digest. */
const void *mf_exchange_operand(const mf_exchange *x, int k, int64_t rank);
/* Sets `to` to the operand that the member `target` gets from another process in a ppermute. */
void mf_exchange_hold(const mf_exchange *x, int k, int64_t target, mf_register *to);
/* The piece for rank r of rank s's operand in an all_to_all; s is in another process. */
const void *mf_exchange_piece(const mf_exchange *x, int k, int64_t s, int64_t r);
/* The reduction of all members' operands for result k; called once. False: out of memory. */
bool mf_exchange_reduce(const mf_exchange *x, int k, mf_register *sum);

/* ---- lockstep.c */
/* Stores the results of a complete rendezvous; then the waiting fiber may go on. False: out of memory. */
bool mf_lockstep_deliver(struct mf_lockstep_run *r, const mf_rendezvous *g, const mf_exchange *x);
mf_fiber *mf_lockstep_fiber(const struct mf_lockstep_run *r);

/* ---- deliver.c */
/* Reduces `count` elements of n members' operands by e's reducer. dtype is e's or a wider one; out may be members[0]. False: out of
 * memory. */
bool mf_collective_reduce(const mf_segment_compiler *compiler, const mf_eqn *e, mf_dtype dtype, const void **members, int64_t n,
                          int64_t count, void *out);
/* The pieces of an all_to_all over n members: their shape, and their strides in operands and results. */
typedef struct mf_pieces {
    int rank;
    int64_t dims[MF_RANK];
    int64_t from[MF_RANK], to[MF_RANK], packed[MF_RANK]; /* strides within an operand, within a result, and when packed */
    int64_t split, join;                                 /* bytes between pieces in an operand and in a result */
    int64_t bytes;                                       /* of one piece */
} mf_pieces;
mf_pieces mf_all_to_all_pieces(const mf_eqn *e, int64_t n);
/* Computes the results of a complete rendezvous into its members' registers; x NULL: all members are here. False with *error, or without
 * when memory is out. */
bool mf_rendezvous_deliver(mf_rendezvous *g, const mf_exchange *x, const mf_segment_compiler *compiler, mf_error_object **error);

/* ---- disagreement.c */
mf_error_object *mf_disagreement(mf_run_state *s);       /* says who waits for whom */
void mf_list_device(mf_text *t, int *count, int device); /* adds a device to a list that is cut off after 16 */
/* The error for devices that take different ways through e, which contains the collective: two lists of devices, and their counts. */
mf_error_object *mf_devices_differ_error(const mf_eqn *e, const mf_eqn *collective, const mf_namelist *axes, const char *const devices[2],
                                         const int counts[2]);

#endif
