/* State cells as traces see them: the first access to a cell makes its value an input of the trace, and the value last written becomes an
 * output. Invariant: a cell made in a trace is owned by that trace and is neither input nor output. */
#include "trace/tracing.h"

static mf_trace_cell *find_cell(mf_tracing *t, mf_state_cell *c)
{
    for (int i = 0; i < t->cell_count; i++)
        if (t->cells[i].cell == c)
            return &t->cells[i];
    return NULL;
}

/* The place of the value of a cell that was made in t; NULL: the cell is older than t. */
static mf_object **own_value(mf_tracing *t, const mf_state_cell *c)
{
    for (int i = 0; i < t->own_count; i++)
        if (t->own[i].cell == c)
            return &t->own[i].value;
    return NULL;
}

bool mf_trace_own_cell(mf_tracing *t, mf_state_cell *c)
{
    if (!mf_grow(&t->own, &t->own_capacity, t->own_count + 1, sizeof *t->own))
        return false;
    t->own[t->own_count++] = (mf_own_cell){ mf_retain(c), mf_cell_value(c) };
    return true;
}

/* The value of c outside t: as the enclosing trace sees it, or the cell's own. A new reference. */
static mf_object *value_outside(mf_tracing *t, mf_state_cell *c, mf_error_object **error)
{
    if (!t->outer)
        return mf_cell_value(c);
    mf_object *o = mf_trace_cell_read(t->outer, c, error);
    return o ? mf_retain(o) : NULL;
}

/* Makes inputs for the cell's leaves. Only their types are used here; the caller of the program binds the values. */
static mf_trace_cell *touch_cell(mf_tracing *t, mf_state_cell *c, mf_error_object **error)
{
    mf_trace_cell *found = find_cell(t, c);
    if (found)
        return found;
    mf_object *outside = value_outside(t, c, error), *self;
    if (!outside)
        return NULL;
    mf_object *const *leaves;
    int count;
    const mf_structure *s = mf_tree_flatten(outside, &leaves, &count, &self);
    mf_variable **inputs = mf_arena_alloc(&t->builder.program->arena, ((size_t)count + 1) * sizeof *inputs);
    const mf_type **types = mf_arena_alloc(&t->builder.program->arena, ((size_t)count + 1) * sizeof *types);
    mf_object **tracers = mf_calloc((size_t)count + 1, sizeof *tracers);
    for (int i = 0; i < count && inputs && types && tracers && !*error; i++) {
        types[i] = mf_object_type(leaves[i]);
        const mf_type *type = types[i] ? mf_cell_inner_type(t->rules, c, types[i]) : NULL;
        if (types[i] && !type)
            *error = mf_error_new(MF_ERROR_AXIS, "%s of type %s is mapped over an axis that it does not have", mf_cell_label(c),
                                  mf_type_name(types[i]));
        else if (!type)
            *error = mf_error_new(MF_ERROR_ARGUMENT, "%s holds %s, which a traced function cannot read", mf_cell_label(c),
                                  leaves[i]->kind->name);
        else if (!(inputs[i] = mf_trace_new_input(t, type)))
            *error = mf_error_out_of_memory();
        else
            tracers[i] = mf_trace_tracer(t, inputs[i]);
    }
    mf_object *value = tracers && inputs && types && !*error ? mf_tree_build(s, tracers) : NULL;
    if (!value && !*error)
        *error = mf_error_out_of_memory();
    for (int i = 0; tracers && i < count; i++)
        mf_drop(tracers[i]);
    mf_free(tracers);
    mf_drop(outside);
    if (!value || !mf_grow(&t->cells, &t->cell_capacity, t->cell_count + 1, sizeof *t->cells)) {
        mf_drop(value);
        if (!*error)
            *error = mf_error_out_of_memory();
        mf_trace_fail(t, *error);
        return NULL;
    }
    t->cells[t->cell_count] = (mf_trace_cell){ mf_retain(c), s, types, inputs, value, false, NULL };
    return &t->cells[t->cell_count++];
}

mf_object *mf_trace_cell_read(mf_tracing *t, mf_state_cell *c, mf_error_object **error)
{
    mf_object **own = own_value(t, c);
    mf_trace_cell *touched = own ? NULL : touch_cell(t, c, error);
    return own ? *own : touched ? touched->value : NULL;
}

mf_object *mf_trace_cell_peek(mf_state_cell *c)
{
    for (mf_tracing *t = mf_trace_innermost; t; t = t->outer) {
        mf_object **own = own_value(t, c);
        mf_trace_cell *touched = own ? NULL : find_cell(t, c);
        if (own || touched)
            return mf_retain(own ? *own : touched->value);
    }
    return mf_cell_value(c);
}

mf_error_object *mf_trace_cell_write(mf_tracing *t, mf_state_cell *c, mf_object *value)
{
    mf_object **own = own_value(t, c);
    if (own) {
        mf_drop(*own);
        *own = mf_retain(value);
        return NULL;
    }
    mf_error_object *error = NULL;
    mf_trace_cell *touched = touch_cell(t, c, &error);
    if (!touched)
        return error;
    mf_drop(touched->value);
    touched->value = mf_retain(value);
    touched->written = true;
    return NULL;
}
