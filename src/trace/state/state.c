/* State cells. Outside traces a cell is read and written under one lock; inside, the trace has its own view of it (trace_cells.c).
 * Invariant: between taking a cell and settling it, no user's code runs on the thread that took it, so a thread that waits for the cell
 * waits only for the library. */
#include "trace/state/state.h"

#include "array/array.h"
#include "base/thread/cancel.h"
#include "trace/trace.h"

#include <manyfold/state.h>
#include <pthread.h>
#include <string.h>

static pthread_mutex_t cells_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t released = PTHREAD_COND_INITIALIZER;
static int waiting; /* the number of threads waiting for a cell to be released; guarded by the lock */
static _Thread_local bool has_taken;

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

mf_state_cell *mf_cell_new_in_trace(int type, mf_value initial, mf_error_object **error)
{
    mf_tracing *t = mf_trace_current();
    mf_state_cell *c = mf_cell_new(type, initial, error);
    if (c && t && !mf_trace_own_cell(t, c)) {
        mf_drop(c);
        c = NULL;
        *error = mf_error_out_of_memory();
    }
    return c;
}

static void await_release(const mf_state_cell *c)
{
    MF_UNCANCELLED;
    while (c->taken && !mf_process_forked()) {
        waiting++;
        pthread_cond_wait(&released, &cells_lock);
        waiting--;
    }
}

mf_object *mf_cell_value(mf_state_cell *c)
{
    pthread_mutex_lock(&cells_lock);
    await_release(c);
    mf_object *o = mf_retain(c->value);
    pthread_mutex_unlock(&cells_lock);
    return o;
}

void mf_cell_store(mf_state_cell *c, mf_object *value)
{
    pthread_mutex_lock(&cells_lock);
    await_release(c);
    mf_object *before = c->value;
    c->value = mf_retain(value);
    pthread_mutex_unlock(&cells_lock);
    mf_drop(before);
}

/* ---- taking */

static int holders(const mf_object *o) { return atomic_load_explicit(&o->count, memory_order_acquire); }

/* Whether nobody else holds the array or its memory. False for an array that has no separate memory. */
static bool is_alone(const mf_object *leaf, int known_holders)
{
    return holders(leaf) == known_holders && mf_array_is_alone((const mf_array *)leaf);
}

static void take(mf_cell_claim *claim)
{
    mf_object *const *leaves, *self;
    int count;
    if (claim->cell->taken || claim->cell->value != claim->value || holders(claim->value) != 2)
        return;
    mf_tree_flatten(claim->value, &leaves, &count, &self);
    for (int i = 0; i < count; i++)
        claim->taken |= claim->moved[i] = is_alone(leaves[i], leaves[i] == claim->value ? 2 : 1);
    claim->cell->taken = claim->taken;
    has_taken |= claim->taken;
}

void mf_cells_take(mf_cell_claim *claims, int count)
{
    pthread_mutex_lock(&cells_lock);
    for (int i = 0; i < count; i++)
        take(&claims[i]);
    pthread_mutex_unlock(&cells_lock);
}

void mf_cells_release(const mf_cell_claim *claims, int count)
{
    for (int i = 0; i < count; i++) {
        if (!claims[i].taken)
            continue;
        mf_state_cell *c = claims[i].cell;
        pthread_mutex_lock(&cells_lock);
        mf_object *before = claims[i].next ? c->value : NULL;
        c->value = claims[i].next ? mf_retain(claims[i].next) : c->value;
        c->taken = false;
        if (waiting)
            pthread_cond_broadcast(&released);
        pthread_mutex_unlock(&cells_lock);
        mf_drop(before);
    }
    has_taken = false;
}

bool mf_cells_taken_by_thread(void) { return has_taken; }

/* ---- frames */

static _Thread_local mf_cell_frame *frames;

void mf_cell_frame_open(mf_cell_frame *f)
{
    f->outer = frames;
    f->trace = mf_trace_current();
    frames = f;
}

void mf_cell_frame_close(mf_cell_frame *f) { frames = f->outer; }

mf_cell_frame *mf_cell_frames_swap(mf_cell_frame *f)
{
    mf_cell_frame *before = frames;
    frames = f;
    return before;
}

/* The place of the value in the innermost frame that has the cell, or NULL. A trace opened after the frame must not be cached, since its
 * key does not contain the frame's values. */
static mf_object **frame_value(const mf_state_cell *c)
{
    for (mf_cell_frame *f = frames; f; f = f->outer)
        for (int i = 0; i < f->count; i++)
            if (f->cells[i] == c) {
                mf_trace_mark_impure(f->trace);
                return &f->values[i];
            }
    return NULL;
}

mf_value mf_cell_read(mf_state_cell *c)
{
    mf_object **framed = frame_value(c);
    if (framed)
        return mf_value_of(*framed);
    mf_tracing *t = mf_trace_current();
    if (!t)
        return mf_value_new(mf_cell_value(c));
    mf_error_object *error = NULL;
    mf_object *o = mf_trace_cell_read(t, c, &error);
    return o ? mf_value_of(o) : mf_value_new(error);
}

/* Omitting a write would change what the program computes, so the call being traced fails. */
static mf_value cannot_be_set(mf_error_object *error)
{
    mf_tracing *t = mf_trace_current();
    if (t)
        mf_trace_fail(t, error);
    return mf_value_new(error);
}

mf_value mf_cell_write(mf_state_cell *c, mf_value v)
{
    mf_object *o = mf_object_of(v);
    mf_error_object *error = (mf_error_object *)mf_first_error_in(o);
    if (!o)
        return cannot_be_set(mf_error_new(MF_ERROR_ARGUMENT, "a state cannot be set to an unset value"));
    if (error)
        return cannot_be_set(mf_retain(error));
    mf_object **framed = frame_value(c);
    if (framed) {
        mf_drop(*framed);
        *framed = mf_retain(o);
        return v;
    }
    mf_tracing *t = mf_trace_current();
    if (!t) {
        if (mf_object_is(o, &mf_tracer_class))
            return mf_fail(MF_ERROR_TRACER, "a state was set to a traced value whose trace has ended");
        mf_cell_store(c, o);
        return v;
    }
    error = mf_trace_cell_write(t, c, o);
    return error ? cannot_be_set(error) : v;
}

/* ---- rules */

const mf_cell_rules *mf_cell_rules_get(const mf_cell_rules *rules, const mf_cell_rules *outer)
{
    static _Atomic(mf_interner *) table;
    mf_cell_rules r;
    memcpy(&r, rules, sizeof r);
    r.outer = outer;
    return mf_interner_get(mf_interner_static(&table), &r, sizeof r);
}

bool mf_type_is_one_key(const mf_type *t) { return t->dtype == MF_U32 && t->rank == 1 && t->dims[0] == 2; }

static _Thread_local mf_cell_size_seen *watched;

void mf_cell_size_watch(mf_cell_size_seen *w)
{
    w->outer = watched;
    watched = w;
}

void mf_cell_size_watch_end(mf_cell_size_seen *w) { watched = w->outer; }

static void note_size(const mf_cell_rules *rules, int64_t size)
{
    for (mf_cell_size_seen *w = watched; w; w = w->outer)
        if (w->rules == rules && w->size < 0)
            w->size = size;
}

const mf_type *mf_cell_inner_type(const mf_cell_rules *rules, const mf_state_cell *c, const mf_type *outside)
{
    if (!rules)
        return outside;
    const mf_type *t = mf_cell_inner_type(rules->outer, c, outside);
    mf_axis axis = mf_cell_rule_axis(rules->in, c);
    if (!t || axis == MF_NONE || (c->type == MF_RANDOM_STATE && mf_type_is_one_key(t)))
        return t; /* a single random key is split, not mapped: transform/state/keys.c */
    if (axis < 0)
        axis += t->rank;
    if (axis < 0 || axis >= t->rank)
        return NULL;
    note_size(rules, t->dims[axis]);
    return mf_type_without_axis(t, (int)axis);
}
