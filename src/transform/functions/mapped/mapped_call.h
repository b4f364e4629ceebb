/* What vmap and pmap share: axes of a call's arguments, the size of the mapped axis, the signature inside. */
#ifndef MF_TRANSFORM_FUNCTIONS_MAPPED_MAPPED_CALL_H
#define MF_TRANSFORM_FUNCTIONS_MAPPED_MAPPED_CALL_H

#include "trace/function.h"

typedef struct mf_mapped_call {
    mf_axis *axes;            /* by leaf of the signature: normalised, MF_NONE where not mapped (statics too) */
    mf_leaf *leaves;          /* inside the map */
    mf_signature inner;       /* env and rules are the caller's to fill */
    int64_t size;             /* of the mapped axis: rows of this process; -1 when nothing is mapped */
    int64_t axis_size;        /* over all processes; 0: the same */
    const mf_intlist *here;   /* where the axis spans processes: of its devices those of this one, a flag each; else NULL */
    const mf_intlist *local;  /* the rows' indices along it; NULL: all */
    const mf_intlist *inside; /* the axis' in mf_axis_env */
} mf_mapped_call;
static inline int64_t mf_mapped_axis_size(const mf_mapped_call *m) { return m->axis_size ? m->axis_size : m->size; }
/* Settles a size that the cells said, before the function is traced with it. */
typedef mf_error_object *mf_settle_size(const mf_function_object *f, const mf_signature *s, mf_mapped_call *m);

/* Axes over processes (global_axis.c). Of a map's devices (NULL: all there are), or of those that an index of the map around has, which are
 * here: a flag each; NULL when all are, or with *error. */
const mf_intlist *mf_devices_here(const mf_axis_env *env, const mf_intlist *devices, mf_error_object **error);
/* Fills in size, axis_size, local and inside; m->size: the rows that are given, or -1. axis_size: what was asked for, or 0. */
mf_error_object *mf_global_axis_find(const mf_intlist *here, int64_t axis_size, mf_mapped_call *m);
/* Rows of the mapped arguments, and for how many there are devices here. */
mf_error_object *mf_global_axis_wrong_rows(const mf_intlist *here, int64_t size, int64_t devices);

/* Expands in_axes over the arguments and finds the size (axis_size: 0 = not said). what: "pmap" or "vmap", for the errors. */
mf_error_object *mf_mapped_call_make(mf_mapped_call *m, const mf_function_object *f, const mf_signature *s, mf_axis in_axes,
                                     int64_t axis_size, const char *what);
void mf_mapped_call_free(mf_mapped_call *m);
/* f's inner function, traced with the axis in scope; the cells that rules (f's own, may be NULL) map have the axis' size. by_cells: they
 * say what it is, and m->size, -1 for unknown, is what holds when no cell is mapped; by_cells settles another (NULL: it stands). One
 * reference; NULL and *error. */
mf_traced *mf_mapped_trace(mf_mapped_call *m, mf_function_object *f, const mf_signature *s, const char *axis_name, bool is_pmap,
                           const mf_cell_rules *rules, bool by_cells, mf_settle_size *settle, mf_error_object **error);
/* out_axes over the result's array leaves, then the written cells': out gets program->out_count entries, normalised for the stacked
 * rank, MF_NONE where not mapped. */
mf_error_object *mf_mapped_out_axes(const mf_traced *t, const mf_function_object *f, mf_axis out_axes, const mf_cell_rules *rules,
                                    const char *what, mf_axis *out);
/* The axis of an input that comes from a cell: input k-th among the cells' leaves, by the rules. */
void mf_mapped_cell_axes(const mf_traced *t, const mf_cell_rules *rules, mf_axis *axes);
/* Random states in a map with rules (keys.c): whether a cell's key is split; the axis 0 of the rows where it is, left alone elsewhere, by
 * leaf of what is read or written (either may be NULL); and t with the map's program q, consumed, and the splitting around it. */
bool mf_cell_is_split(const mf_touched_cell *c);
void mf_split_cell_axes(const mf_traced *t, mf_axis *reads, mf_axis *writes);
mf_traced *mf_traced_with_split_keys(const mf_traced *t, mf_program *q, const mf_axis_env *env, const mf_mapped_call *m,
                                     mf_error_object **error);
/* Stateful maps (stateful.c): the rules that *f carries, if any, and *f without them. */
const mf_cell_rules *mf_rules_of(mf_function *f);
/* Output i, a cell's, varies and no rule names it: says so, as the rules will have it. */
mf_error_object *mf_unexpected_output(const mf_cell_rules *rules, const mf_traced *t, int output, const char *what);
/* The path of output i of a traced program in words: "the result[0]['w']" or "state weight"; appended. */
void mf_traced_output_path(mf_text *text, const mf_traced *t, int output);

#endif
