/* How elements are combined, numbered once for ops, backends and their kernels; and the order in which many are reduced to one, which every
 * backend follows, so that all give the same bits.
 *
 * The elements of one result are taken in row-major order of the reduced axes. Up to MF_REDUCE_CHUNK of them: MF_REDUCE_LANES lanes start
 * from the identity, lane l takes elements l, l+16, l+32, ...; then the lanes fold in halves: l = l op l+8, l+4, l+2, l+1. More: the chunks
 * are the leaves of a tree: neighbours pair up level by level, and an odd one moves up a level.
 *
 * The members of a collective are combined by such a tree too, in rank order. */
#ifndef MF_IR_REDUCER_H
#define MF_IR_REDUCER_H

/* AND and OR are bitwise, also for bool. SET: the later element wins. */
typedef enum mf_reducer {
    MF_REDUCE_SET,
    MF_REDUCE_SUM,
    MF_REDUCE_PROD,
    MF_REDUCE_MAX,
    MF_REDUCE_MIN,
    MF_REDUCE_AND,
    MF_REDUCE_OR,
    MF_REDUCERS
} mf_reducer;

enum { MF_REDUCE_LANES = 16, MF_REDUCE_CHUNK = 4096 };
/* The lanes must be halvable, a chunk must be whole rounds of lanes, and a tree is cut only at powers of two of chunks. */
_Static_assert((MF_REDUCE_LANES & (MF_REDUCE_LANES - 1)) == 0 && MF_REDUCE_CHUNK % MF_REDUCE_LANES == 0, "an order that no cut disturbs");

#endif
