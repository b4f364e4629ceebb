/* Shared by vmap and pmap: the axes of a call's arguments, the size of the mapped axis, the signature inside. */
#ifndef MF_TRANSFORM_FUNCTIONS_MAPPED_MAPPED_CALL_H
#define MF_TRANSFORM_FUNCTIONS_MAPPED_MAPPED_CALL_H

#include "trace/function.h"

typedef struct mf_mapped_call {
    mf_axis *axes;            /* by leaf of the signature: normalised, MF_NONE where not mapped (statics too) */
    mf_leaf *leaves;          /* the leaves inside the map */
    mf_signature inner;       /* env and rules are the caller's to fill */
    int64_t size;             /* of the mapped axis in this process; -1 when nothing is mapped */
    int64_t axis_size;        /* over all processes; 0: the same as size */
    const mf_intlist *here;   /* for an axis over processes: by device, whether this process has it; else NULL */
    const mf_intlist *local;  /* the indices of this process's rows; NULL: all */
    const mf_intlist *inside; /* as in mf_axis_env */
} mf_mapped_call;
static inline int64_t mf_mapped_axis_size(const mf_mapped_call *m) { return m->axis_size ? m->axis_size : m->size; }
/* Completes m with a size that was learned from cells, before the function is traced again with it. */
typedef mf_error_object *mf_resolve_size(const mf_function_object *f, const mf_signature *s, mf_mapped_call *m);

/* Axes over processes (global_axis.c). For a map's devices (NULL: all), or those of one index of the enclosing map: by device, whether this
 * process has it. NULL when it has all, or with *error. */
const mf_intlist *mf_devices_here(const mf_axis_env *env, const mf_intlist *devices, mf_error_object **error);
/* Fills in size, axis_size, local and inside. m->size: the number of rows given, or -1. axis_size: the size requested, or 0. */
mf_error_object *mf_global_axis_find(const mf_intlist *here, int64_t axis_size, mf_mapped_call *m);
/* The error for a number of rows that does not fit the number of devices in this process. */
mf_error_object *mf_global_axis_wrong_rows(const mf_intlist *here, int64_t size, int64_t devices);

/* Expands in_axes over the arguments and finds the size (axis_size 0: not given). what: "pmap" or "vmap", for errors. */
mf_error_object *mf_mapped_call_make(mf_mapped_call *m, const mf_function_object *f, const mf_signature *s, mf_axis in_axes,
                                     int64_t axis_size, const char *what);
void mf_mapped_call_free(mf_mapped_call *m);
/* f's inner function, traced with the axis in scope. The cells that `rules` (f's own, may be NULL) map must have the axis's size. by_cells:
 * the cells determine the size, m->size (-1: unknown) serves if no cell is mapped, and `resolve` (may be NULL) is called with a size
 * learned from cells. One reference; NULL and *error on failure. */
mf_traced *mf_mapped_trace(mf_mapped_call *m, mf_function_object *f, const mf_signature *s, const char *axis_name, bool is_pmap,
                           const mf_cell_rules *rules, bool by_cells, mf_resolve_size *resolve, mf_error_object **error);
/* Expands out_axes over the result's array leaves and then over the written cells: out gets program->out_count entries, normalised for the
 * stacked rank, MF_NONE where not mapped. */
mf_error_object *mf_mapped_out_axes(const mf_traced *t, const mf_function_object *f, mf_axis out_axes, const mf_cell_rules *rules,
                                    const char *what, mf_axis *out);
/* The axes of the inputs that come from cells, by leaf, by the rules. */
void mf_mapped_cell_axes(const mf_traced *t, const mf_cell_rules *rules, mf_axis *axes);
/* Random states in a map with rules (keys.c). mf_cell_is_split: whether a cell's key is split. mf_split_cell_axes: sets the axis to 0 for
 * the leaves of split cells in reads and writes (either may be NULL), and leaves the others. mf_traced_with_split_keys: t with the map's
 * program q (whose reference it takes), with the splitting around it. */
bool mf_cell_is_split(const mf_touched_cell *c);
void mf_split_cell_axes(const mf_traced *t, mf_axis *reads, mf_axis *writes);
mf_traced *mf_traced_with_split_keys(const mf_traced *t, mf_program *q, const mf_axis_env *env, const mf_mapped_call *m,
                                     mf_error_object **error);
/* Stateful maps (stateful.c): the rules that *f carries, if any; *f becomes the function without them. */
const mf_cell_rules *mf_rules_of(mf_function *f);
/* Output i belongs to a cell, varies, and no rule names it: reports that as the rules say. */
mf_error_object *mf_unexpected_output(const mf_cell_rules *rules, const mf_traced *t, int output, const char *what);
/* Appends the path of output i of a traced program: "the result[0]['w']" or "state weight". */
void mf_traced_output_path(mf_text *text, const mf_traced *t, int output);

#endif
