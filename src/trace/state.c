/* State cells. Outside traces a cell is read and written under one lock; inside, the trace keeps its own view (trace.c). */
#include "trace/state.h"

#include "array/array.h"
#include "trace/trace.h"

#include <pthread.h>

static pthread_mutex_t cells_lock = PTHREAD_MUTEX_INITIALIZER;

static void cell_destroy(mf_object *o) { mf_drop(((mf_state_cell *)o)->value); }
const mf_class mf_state_class = { "state", cell_destroy };

mf_state_cell *mf_cell_new(int type, mf_value initial, mf_error_object **error)
{
    mf_object *o = mf_object_of(initial);
    mf_error_object *inside = (mf_error_object *)mf_first_error_in(o);
    if (inside || !o) {
        *error = inside ? mf_retain(inside) : mf_error_new(MF_ERROR_ARGUMENT, "a state needs an initial value; this one is unset");
        return NULL;
    }
    mf_state_cell *c = mf_object_new(&mf_state_class, sizeof *c);
    if (!c) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    c->type = type;
    c->value = mf_retain(o);
    return c;
}

mf_object *mf_cell_value(mf_state_cell *c)
{
    pthread_mutex_lock(&cells_lock);
    mf_object *o = mf_retain(c->value);
    pthread_mutex_unlock(&cells_lock);
    return o;
}

void mf_cell_store(mf_state_cell *c, mf_object *value)
{
    pthread_mutex_lock(&cells_lock);
    mf_object *before = c->value;
    c->value = mf_retain(value);
    pthread_mutex_unlock(&cells_lock);
    mf_drop(before);
}

mf_value mf_cell_read(mf_state_cell *c)
{
    mf_trace *t = mf_trace_current();
    if (!t)
        return mf_value_new(mf_cell_value(c));
    mf_error_object *error = NULL;
    mf_object *o = mf_trace_cell_read(t, c, &error);
    return o ? mf_value_of(o) : mf_value_new(error);
}

mf_value mf_cell_write(mf_state_cell *c, mf_value v)
{
    mf_object *o = mf_object_of(v);
    mf_error_object *error = (mf_error_object *)mf_first_error_in(o);
    if (error)
        return mf_value_of(error);
    if (!o)
        return mf_fail(MF_ERROR_ARGUMENT, "a state cannot be set to an unset value");
    mf_trace *t = mf_trace_current();
    if (!t) {
        if (mf_object_is(o, &mf_tracer_class))
            return mf_fail(MF_ERROR_TRACER, "a state was set to a traced value whose trace has ended");
        mf_cell_store(c, o);
        return v;
    }
    error = mf_trace_cell_write(t, c, o);
    return error ? mf_value_new(error) : v;
}
