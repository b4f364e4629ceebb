/* State cells: mutable cells that hold a tree of leaves and belong to the core. A traced function that reads or writes one gets hidden
 * inputs and outputs. Invariant: a cell changes only outside traces, or when a run that writes it has started without an error. */
#ifndef MF_TRACE_STATE_STATE_H
#define MF_TRACE_STATE_STATE_H

#include "array/array.h"
#include "tree/tree.h"

typedef struct mf_state_cell {
    mf_object object;
    mf_object *value; /* a leaf or a tree, retained; guarded by the cells' lock */
    int type;         /* mf_state_type */
    const char *name; /* interned: its path through the modules that adopted it first, "encoder/kernel"; NULL outside modules */
    bool taken;       /* a call is overwriting its value's memory: reads and writes wait. Guarded by the lock */
} mf_state_cell;
extern const mf_class mf_state_class;

/* Filters are predicates on cells; interned by their contents, never freed. */
typedef struct mf_filter_object {
    mf_object object;
    enum { MF_FILTER_EVERYTHING, MF_FILTER_TYPE, MF_FILTER_PATH, MF_FILTER_NOT, MF_FILTER_ALL, MF_FILTER_ANY } kind;
    int type, count, depth; /* depth: levels of filters inside */
    const char *text;
    const struct mf_filter_object **parts; /* of not, all and any */
    _Atomic uint64_t kept;                 /* its handle without a scope; 0: none was asked for */
    struct mf_filter_object *next;
} mf_filter_object;
extern const mf_class mf_filter_class;
const char *mf_state_type_name(int type);                                   /* "ParamState" */
const char *mf_cell_label(const mf_state_cell *c);                          /* for messages: "state w", "a ParamState without a name" */
const mf_filter_object *mf_filter_of(mf_filter f, mf_error_object **error); /* NULL and an error (new reference) */
bool mf_filter_accepts(const mf_filter_object *f, const mf_state_cell *c,
                       const char *path); /* path: the path of c as the caller knows it; may be NULL */
void mf_filter_print(mf_text *t, const mf_filter_object *f);

/* How a map treats cells: the axis of the first rule whose filter accepts the cell, or MF_NONE. While a function is traced the rules are
 * chained from the innermost map outwards; interned, so signatures compare them by pointer. */
typedef struct mf_cell_rule {
    mf_axis axis;
    const mf_filter_object *filter;
} mf_cell_rule;
typedef struct mf_cell_rule_list {
    int count;
    mf_cell_rule at[];
} mf_cell_rule_list;
typedef struct mf_cell_rules {
    const struct mf_cell_rules *outer;
    const mf_cell_rule_list *in, *out;
    int unexpected; /* mf_unexpected: what to do with a cell that comes out varying and that no rule names */
} mf_cell_rules;
const mf_cell_rules *mf_cell_rules_get(const mf_cell_rules *rules, const mf_cell_rules *outer); /* these rules, inside outer's */
struct mf_state_axis_rules;
/* The rules of an MF_STATE_AXES handle; an unset handle has none. NULL and *error for any other handle. */
const mf_cell_rule_list *mf_cell_rule_list_of(struct mf_state_axis_rules rules, const char *what, mf_error_object **error);
struct mf_state_axis_rules mf_cell_rules_handle(const mf_cell_rule_list *list);
mf_axis mf_cell_rule_axis(const mf_cell_rule_list *rules, const mf_state_cell *c);
bool mf_type_is_one_key(const mf_type *t); /* whether it is a single random key, u32[2]: a map with rules splits it instead of mapping it */
/* While registered on this thread, it records the size of the first cell that these rules map. A map without mapped arguments learns its
 * size this way, even from a function whose trace fails because the guessed size was wrong. */
typedef struct mf_cell_size_seen {
    struct mf_cell_size_seen *outer;
    const mf_cell_rules *rules;
    int64_t size; /* -1: none yet */
} mf_cell_size_seen;
void mf_cell_size_watch(mf_cell_size_seen *w);
void mf_cell_size_watch_end(mf_cell_size_seen *w);
/* The type inside all maps of the chain; NULL when an axis is out of range. */
const mf_type *mf_cell_inner_type(const mf_cell_rules *rules, const mf_state_cell *c, const mf_type *outside);

mf_state_cell *mf_cell_new(int type, mf_value initial, mf_error_object **error);          /* one reference */
mf_state_cell *mf_cell_new_in_trace(int type, mf_value initial, mf_error_object **error); /* the same; in a trace, the trace owns it */
mf_object *mf_cell_value(mf_state_cell *c);                                               /* the value outside traces, a new reference */
void mf_cell_store(mf_state_cell *c, mf_object *value);                                   /* retains */
/* A cell that a call would overwrite. */
typedef struct mf_cell_claim {
    mf_state_cell *cell;
    mf_object *value; /* the cell's value, on which the caller holds one reference */
    bool *moved;      /* by leaf: whether the memory may be overwritten */
    bool taken;       /* whether the cell was taken; then its value must not be read until it is released */
    mf_object *next;  /* the value it gets when released; NULL: unchanged */
} mf_cell_claim;
/* Takes those cells whose value is held only by the cell and the caller; all at once, without waiting. */
void mf_cells_take(mf_cell_claim *claims, int count);
void mf_cells_release(const mf_cell_claim *claims, int count); /* retains `next`; ends the taking */
bool mf_cells_taken_by_thread(void);                           /* whether this thread has: then it must not run what may read them */
void mf_print_shapes(mf_text *t, mf_object *value);            /* ShapedArray(float32[2,4]), or a tree of them */
/* While a frame is open on this thread, its cells have the frame's values and writes go to the frame: how a module runs purely. */
typedef struct mf_cell_frame {
    struct mf_cell_frame *outer;
    const struct mf_tracing *trace; /* the trace that was current when the frame was opened */
    int count;
    mf_state_cell **cells; /* borrowed */
    mf_object **values;    /* retained */
} mf_cell_frame;
void mf_cell_frame_open(mf_cell_frame *f);
void mf_cell_frame_close(mf_cell_frame *f);
mf_cell_frame *mf_cell_frames_swap(mf_cell_frame *f); /* replaces this thread's stack of frames; returns the old one */

mf_value mf_cell_read(mf_state_cell *c);              /* through the current trace, if any */
mf_value mf_cell_write(mf_state_cell *c, mf_value v); /* returns v, or an error */

#endif
