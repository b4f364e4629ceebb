/* Tracing a function: looking in the cache first, then calling the function on tracers. */
#include "base/thread/cancel.h"
#include "base/thread/stack.h"
#include "runtime/comm.h"
#include "trace/cache.h"
#include "trace/function.h"

/* Rebuilds the arguments of a call from tracers (typed leaves) and statics, one handle each in the innermost scope. False: out of memory. A
 * function given an error in place of a tracer might go on without it, for instance after asking for its shape. */
static bool make_arguments(mf_tracing *t, const mf_signature *s, mf_value *arguments)
{
    int leaf = 0;
    for (int i = 0; i < s->arg_count; i++) {
        int n = s->structures[i]->leaf_count;
        mf_object **leaves = mf_calloc((size_t)n + 1, sizeof *leaves);
        if (!leaves)
            return false;
        bool complete = true;
        for (int k = 0; k < n; k++, leaf++) {
            leaves[k] = s->leaves[leaf].type ? mf_trace_input(t, s->leaves[leaf].type) : mf_retain(s->leaves[leaf].object);
            complete = complete && !mf_object_is(leaves[k], &mf_error_class);
        }
        mf_object *o = complete ? mf_tree_build(s->structures[i], leaves) : NULL;
        for (int k = 0; k < n; k++)
            mf_drop(leaves[k]);
        mf_free(leaves);
        if (!o)
            return false;
        if (s->has_kwargs && i == s->arg_count - 1 && mf_object_is(o, &mf_tree_class))
            ((mf_tree *)o)->kwargs = true;
        arguments[i] = mf_value_new(o);
    }
    return true;
}

/* Traces a function: opens a trace, calls f on tracers, ends the trace. */
mf_traced *mf_trace_by(mf_function_object *f, mf_caller *call, const mf_signature *s, mf_error_object **error)
{
    mf_tracing *t = mf_trace_begin(f->name, s->env, s->rules);
    if (!t) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    mf_trace_set_client(t, s->client);
    mf_scope *scope = mf_scope_open();
    mf_value arguments[MF_MAX_ARGUMENTS];
    mf_object *result = NULL;
    if (make_arguments(t, s, arguments))
        result = mf_object_of(call(f, arguments, s->arg_count));
    else
        *error = mf_error_out_of_memory();
    if (!result && !*error)
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s returned an unset value", f->name);
    else if (mf_object_is(result, &mf_error_class)) {
        *error = mf_retain(result);
        result = NULL;
    }
    mf_error_object *inside = result ? (mf_error_object *)mf_first_error_in(result) : NULL;
    if (inside) {
        *error = mf_retain(inside);
        result = NULL;
    }
    if (!result)
        mf_comm_expect_program(mf_trace_builder(t)->program);
    mf_traced *traced = mf_trace_end(t, result, error);
    mf_scope_close_of_trace(scope);
    return traced;
}

mf_traced *mf_trace_by_calling(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return mf_trace_by(f, f->kind->call, s, error);
}

/* ---- through the cache */

/* The limit on traces inside one another: more than any program needs, and little enough for a stack of 8 MiB. */
enum { TRACES_MAX = 256 };
static _Thread_local int traces_open;

/* Remembers the processes that p spans, for later calls that fail before they are traced. */
static void learn(mf_function_object *f, const mf_program *p)
{
    const mf_intlist *processes;
    if (atomic_load(&f->spreads) || !mf_program_processes(p, mf_comm_current(), &processes))
        return;
    atomic_store(&f->spread, processes);
    atomic_store(&f->spreads, true);
}

mf_traced *mf_function_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    mf_cache_ticket *ticket;
    mf_traced *t = mf_cache_begin(f, s, &ticket);
    if (t)
        return t;
    MF_UNCANCELLED; /* other threads may be waiting for the program */
    if (mf_stack_ends()) {
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: %d functions traced inside one another leave too little of this thread's stack",
                              f->name, traces_open);
    } else if (traces_open < TRACES_MAX) {
        if (!traces_open++)
            mf_comm_expect_nothing();
        t = f->kind->trace(f, s, error);
        if (t && !t->name)
            t->name = f->name;
        if (t)
            learn(f, t->program);
        traces_open--;
    } else {
        *error = mf_error_new(MF_ERROR_ARGUMENT,
                              "%s: more than %d functions are traced inside one another; does one call itself without end?", f->name,
                              TRACES_MAX);
    }
    if (ticket)
        mf_cache_end(ticket, t);
    return t;
}
