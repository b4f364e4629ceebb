/* The public side of state cells: states and the filters that choose among them. */
#include "trace/state.h"

#include <manyfold/random.h>
#include <manyfold/state.h>
#include <pthread.h>

/* ---- states */

static mf_state state_make(int type, mf_value initial)
{
    mf_error_object *e = NULL;
    mf_state_cell *c = mf_cell_new(type, initial, &e);
    return (mf_state){ mf_handle_new(c ? (void *)c : (void *)e) };
}

mf_state mf_param_state(mf_value initial) { return state_make(MF_PARAM_STATE, initial); }
mf_state mf_batch_state(mf_value initial) { return state_make(MF_BATCH_STATE, initial); }
mf_state mf_hidden_state(mf_value initial) { return state_make(MF_HIDDEN_STATE, initial); }
mf_state mf_random_state_of_key(mf_value key) { return state_make(MF_RANDOM_STATE, key); }

mf_state mf_random_default(void)
{
    MF_ENTER;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static mf_state_cell *cell; /* for ever */
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
    MF_ENTER;
    mf_value error;
    mf_state_cell *c = cell_of(s, &error);
    return c ? mf_cell_read(c) : error;
}

mf_value mf_state_set_value_v(mf_state s, mf_value v)
{
    MF_ENTER;
    mf_value error;
    mf_state_cell *c = cell_of(s, &error);
    return c ? mf_cell_write(c, v) : error;
}

/* ---- filters */

/* Interned: rules compare filters by address. Programs have a handful. */
static mf_filter filter_make(int kind, int type, const char *text, const mf_filter_object *negated)
{
    const char *interned = mf_intern(text);
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static mf_filter_object *known[256];
    static int count;
    pthread_mutex_lock(&lock);
    mf_filter_object *f = NULL;
    for (int i = 0; i < count && !f; i++)
        if (known[i]->kind == kind && known[i]->type == type && known[i]->text == interned && known[i]->negated == negated)
            f = known[i];
    if (!f && count < 256 && (f = mf_object_new(&mf_filter_class, sizeof *f))) {
        f->kind = kind;
        f->type = type;
        f->text = interned;
        f->negated = negated;
        known[count++] = f;
    }
    pthread_mutex_unlock(&lock);
    return (mf_filter){ mf_handle_new(f ? mf_retain(f) : (void *)mf_error_out_of_memory()) };
}

mf_filter mf_of_type(mf_state_type type) { return filter_make(1, type, NULL, NULL); }
mf_filter mf_path_contains(const char *text) { return filter_make(2, 0, text, NULL); }
mf_filter mf_everything(void) { return filter_make(0, 0, NULL, NULL); }

mf_filter mf_not(mf_filter f)
{
    MF_ENTER;
    mf_object *o = mf_handle_get(f.handle);
    return mf_object_is(o, &mf_filter_class) ? filter_make(3, 0, NULL, (mf_filter_object *)o) : f;
}
