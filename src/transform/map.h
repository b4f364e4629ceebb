/* What vmap and pmap share: axes of a call's arguments, the size of the mapped axis, the signature inside. */
#ifndef MF_TRANSFORM_MAP_H
#define MF_TRANSFORM_MAP_H

#include "trace/function.h"

typedef struct mf_mapped_call {
    mf_axis *axes;      /* by leaf of the signature: normalised, MF_NONE where not mapped (statics too) */
    mf_leaf *leaves;    /* inside the map */
    mf_signature inner; /* env and rules are the caller's to fill */
    int64_t size;       /* of the mapped axis; -1 when nothing is mapped */
} mf_mapped_call;

/* Expands in_axes over the arguments and finds the size (axis_size: 0 = not said). what: "pmap" or "vmap", for the errors. */
mf_error_object *mf_mapped_call_make(mf_mapped_call *m, const mf_function_object *f, const mf_signature *s, mf_axis in_axes,
                                     int64_t axis_size, const char *what);
void mf_mapped_call_free(mf_mapped_call *m);
/* out_axes over the result's array leaves, then the written cells': out gets program->out_count entries, normalised for the stacked
 * rank, MF_NONE where not mapped. */
mf_error_object *mf_mapped_out_axes(const mf_traced *t, const mf_function_object *f, mf_axis out_axes, const mf_cell_rules *rules,
                                    const char *what, mf_axis *out);
/* The axis of an input that comes from a cell: input k-th among the cells' leaves, by the rules. */
void mf_mapped_cell_axes(const mf_traced *t, const mf_cell_rules *rules, mf_axis *axes);
/* The path of output i of a traced program in words: "the result[0]['w']" or "state weight"; appended. */
void mf_traced_output_path(mf_text *text, const mf_traced *t, int output);

#endif
