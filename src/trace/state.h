/* State cells: mutable cells that hold a tree of leaves and belong to the core. A traced function that reads or writes one gets hidden
 * inputs and outputs. Invariant: a cell changes only outside every trace or when a run that wrote it was started without an error. */
#ifndef MF_TRACE_STATE_H
#define MF_TRACE_STATE_H

#include "tree/tree.h"

typedef struct mf_state_cell {
    mf_object object;
    mf_object *value; /* a leaf or a tree, retained; guarded by the cells' lock */
    int type;         /* mf_state_type */
    const char *name; /* interned, for messages */
} mf_state_cell;
extern const mf_class mf_state_class;

mf_state_cell *mf_cell_new(int type, mf_value initial, mf_error_object **error); /* one reference */
mf_object *mf_cell_value(mf_state_cell *c);                  /* the value outside traces, a new reference */
void mf_cell_store(mf_state_cell *c, mf_object *value);      /* retains */
mf_value mf_cell_read(mf_state_cell *c);                     /* through the current trace, if any */
mf_value mf_cell_write(mf_state_cell *c, mf_value v);        /* returns v, or an error */

#endif
