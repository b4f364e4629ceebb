/* Applying a traced program: it is inlined into the current trace, or run by dispatch. Cells get the values that the program computes for
 * them. */
#include "base/memory/vector.h"
#include "trace/dispatch.h"
#include "trace/function.h"

#include <string.h>

bool mf_traced_cells_match(const mf_traced *t)
{
    bool same = true;
    for (int i = 0; i < t->cell_count && same; i++) {
        mf_object *o = mf_trace_cell_peek(t->cells[i].cell), *const * leaves, *self;
        int count;
        same = o && mf_tree_flatten(o, &leaves, &count, &self) == t->cells[i].read_structure && t->cells[i].cell->name == t->cells[i].path;
        for (int k = 0; same && k < count; k++)
            same = mf_object_type(leaves[k]) == t->cells[i].read_types[k];
        mf_drop(o);
    }
    return same;
}

/* Makes the operands of t in the current trace: leaves; captures, lifted one level inwards; cells as this trace sees them. */
static mf_error_object *lift_operands(mf_tracing *trace, const mf_traced *t, mf_object *const *leaves, mf_variable **in)
{
    mf_error_object *error = NULL;
    int typed = t->program->in_count - t->capture_count - mf_traced_read_count(t), n = 0;
    for (int i = 0; i < typed && !error; i++)
        in[n++] = mf_trace_lift(trace, leaves[i], &error);
    for (int i = 0; i < t->capture_count && !error; i++)
        in[n++] = mf_trace_lift(trace, &t->captures[i]->object, &error);
    for (int i = 0; i < t->cell_count && !error; i++) {
        mf_object *value = mf_trace_cell_read(trace, t->cells[i].cell, &error), *const * items, *self;
        int count = 0;
        if (value)
            mf_tree_flatten(value, &items, &count, &self);
        for (int k = 0; k < count && !error; k++)
            in[n++] = mf_trace_lift(trace, items[k], &error);
    }
    return error;
}

static mf_object *tree_of_tracers(mf_tracing *trace, const mf_structure *s, mf_object *const *statics, mf_variable **out, int *next)
{
    MF_SMALL_ARRAY(mf_object *, leaves, 32, s->leaf_count);
    if (!leaves)
        return NULL;
    for (int i = 0; i < s->leaf_count; i++)
        leaves[i] = statics && statics[i] ? mf_retain(statics[i]) : mf_trace_tracer(trace, out[(*next)++]);
    mf_object *o = mf_tree_build(s, leaves);
    for (int i = 0; i < s->leaf_count; i++)
        mf_drop(leaves[i]);
    return o;
}

static mf_error_object *inline_into(mf_tracing *trace, const mf_traced *t, mf_object *const *leaves, mf_value *result)
{
    mf_variable **in = mf_calloc((size_t)t->program->in_count + 1, sizeof *in),
                **out = mf_calloc((size_t)t->program->out_count + 1, sizeof *out);
    mf_error_object *error = in && out ? lift_operands(trace, t, leaves, in) : mf_error_out_of_memory();
    if (!error) {
        mf_builder *b = mf_trace_builder(trace);
        int from = b->program->eqn_count;
        const void *location = b->address = mf_entry_location();
        mf_inline(b, t->program, in, out);
        for (int i = from; t->own && i < b->program->eqn_count; i++)
            b->program->eqns[i]->address = location;
        error = b->error;
        b->error = NULL;
    }
    int next = 0;
    mf_object *o = error ? NULL : tree_of_tracers(trace, t->result, t->result_statics, out, &next);
    for (int i = 0; o && i < t->cell_count && !error; i++)
        if (t->cells[i].write_structure) {
            mf_object *value = tree_of_tracers(trace, t->cells[i].write_structure, NULL, out, &next);
            error = value ? mf_trace_cell_write(trace, t->cells[i].cell, value) : mf_error_out_of_memory();
            mf_drop(value);
        }
    if (o && !error)
        *result = mf_value_of(o);
    else if (!error)
        error = mf_error_out_of_memory();
    mf_drop(o);
    mf_free(in);
    mf_free(out);
    return error;
}

mf_value mf_traced_apply(mf_traced *t, mf_object *const *leaves, const bool *donated)
{
    mf_tracing *trace = mf_trace_current();
    if (!trace)
        return mf_dispatch_traced(t, leaves, donated);
    mf_value result = { 0 };
    mf_error_object *error = inline_into(trace, t, leaves, &result);
    return error ? mf_value_new(error) : result;
}
