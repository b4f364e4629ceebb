/* The public side of state cells. */
#include "trace/state/state.h"

#include <manyfold/random.h>
#include <manyfold/state.h>
#include <pthread.h>

/* ---- states */

static mf_state state_make(int type, mf_value initial)
{
    MF_ENTER((mf_state){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    mf_state_cell *c = mf_cell_new_in_trace(type, initial, &e);
    return (mf_state){ mf_handle_new(c ? (void *)c : (void *)e) };
}

mf_state(mf_param_state)(mf_value initial) { return state_make(MF_PARAM_STATE, initial); }
mf_state(mf_batch_state)(mf_value initial) { return state_make(MF_BATCH_STATE, initial); }
mf_state(mf_hidden_state)(mf_value initial) { return state_make(MF_HIDDEN_STATE, initial); }
mf_state(mf_random_state_of_key)(mf_value key) { return state_make(MF_RANDOM_STATE, key); }

mf_state mf_random_default(void)
{
    MF_ENTER((mf_state){ MF_FORK_HANDLE });
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static mf_state_cell *cell; /* lives forever */
    mf_error_object *e = NULL;
    pthread_mutex_lock(&lock);
    if (!cell && (cell = mf_cell_new(MF_RANDOM_STATE, mf_random_key(0), &e)))
        cell->name = mf_intern("default");
    pthread_mutex_unlock(&lock);
    return (mf_state){ mf_handle_new(cell ? mf_retain(cell) : (void *)e) };
}

static mf_state_cell *cell_of(mf_state s, mf_value *error)
{
    mf_object *o = mf_handle_get(s.handle);
    if (mf_object_is(o, &mf_state_class))
        return (mf_state_cell *)o;
    *error = mf_object_is(o, &mf_error_class) ? mf_value_of(o) : mf_fail(MF_ERROR_ARGUMENT, "this is not a state");
    return NULL;
}

mf_value mf_state_value(mf_state s)
{
    MF_ENTER(MF_FORKED);
    mf_value error;
    mf_state_cell *c = cell_of(s, &error);
    return c ? mf_cell_read(c) : error;
}

mf_value(mf_state_set_value_v)(mf_state s, mf_value v)
{
    MF_ENTER(MF_FORKED);
    mf_value error;
    mf_state_cell *c = cell_of(s, &error);
    return c ? mf_cell_write(c, v) : error;
}

mf_state_type mf_state_type_of(mf_state s)
{
    MF_ENTER(MF_STATE_ANY);
    const mf_object *o = mf_handle_get(s.handle);
    return mf_object_is(o, &mf_state_class) ? (mf_state_type)((const mf_state_cell *)o)->type : MF_STATE_ANY;
}

bool mf_state_same(mf_state a, mf_state b)
{
    MF_ENTER(false);
    const mf_object *o = mf_handle_get(a.handle);
    return mf_object_is(o, &mf_state_class) && o == mf_handle_get(b.handle);
}
