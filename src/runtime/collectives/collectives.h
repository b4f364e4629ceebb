/* Collectives under way: members meet in a rendezvous, the last one to come computes. See rendezvous.c. */
#ifndef MF_RUNTIME_COLLECTIVES_COLLECTIVES_H
#define MF_RUNTIME_COLLECTIVES_COLLECTIVES_H

#include "runtime/execute/run.h"

/* One member of a collective under way; it may have gone on (a detached collective), its map has not. */
typedef struct mf_participant {
    mf_fiber *fiber; /* NULL: gone on */
    mf_map *map;
    int64_t index;
    int device;
    bool here;
    mf_register *in; /* by result */
} mf_participant;

#define MF_KEY_MAX 48
/* An instance of a collective: which instruction, in which iterations of the loops around, for which coordinates of the other axes. */
typedef struct mf_rendezvous {
    struct mf_rendezvous *next;
    const mf_instr *instr;
    mf_map *top;
    int key_count;
    int64_t key[MF_KEY_MAX];
    int64_t arrived, member_count;
    mf_participant *members; /* by rank */
} mf_rendezvous;

mf_step mf_collective(mf_fiber *f, const mf_instr *in);
mf_step mf_axis_index_value(mf_fiber *f, const mf_instr *in);
void mf_rendezvous_free(mf_run_state *s, mf_rendezvous *g);

/* The sum, maximum or minimum that e asks for, of n members' operands. False: out of memory. */
bool mf_collective_reduce(const mf_backend *backend, const mf_eqn *e, const void **members, int64_t n, void *out);
/* The results of a rendezvous that is complete, into its members' registers. False with *error, or without when memory is out. */
bool mf_rendezvous_compute(mf_rendezvous *g, const mf_backend *backend, mf_error_object **error);

mf_error_object *mf_disagreement(mf_run_state *s);       /* says who waits for whom */
void mf_list_device(mf_text *t, int *count, int device); /* one more of a list that is cut off after 16 */

#endif
