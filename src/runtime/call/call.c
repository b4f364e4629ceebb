/* Calls: flatten, look up, trace and compile on a miss, run. mf_call_n is the entry; mf_dispatch_compile compiles on a miss. */
#include "trace/dispatch.h"

#include <manyfold/function.h>

#include "base/thread/stack.h"
#include "base/memory/vector.h"
#include "passes/passes.h"
#include "runtime/call/call.h"
#include "runtime/call/claim.h"
#include "runtime/call/operands.h"
#include "runtime/comm.h"
#include "runtime/compile/compile.h"
#include "runtime/executable.h"
#include "runtime/profile/profiler.h"
#include "trace/checks/check_list.h"
#include "trace/function.h"
#include "trace/checks/key_reuse.h"

#include <pthread.h>
#include <string.h>

/* One thread at a time compiles a given program; different programs are compiled in parallel. */
enum { LOCKS = 8 };
#define FREE PTHREAD_MUTEX_INITIALIZER
static pthread_mutex_t compile_locks[LOCKS] = { FREE, FREE, FREE, FREE, FREE, FREE, FREE, FREE };

enum { MOST_LAYOUTS = 4 }; /* specialised executables per program and client; for more layouts the generic executable is used */

/* The donating call under way on this thread, for the names of its arguments. */
typedef struct donation {
    const mf_function_object *f;
    const mf_signature *s;
} donation;
static _Thread_local const donation *donating;

static void name_donated(mf_executable *x, const bool *donated)
{
    const mf_signature *s = donating->s;
    for (int leaf = 0, input = 0; leaf < s->leaf_count; leaf++) {
        if (!s->leaves[leaf].type)
            continue;
        mf_text path = { 0 };
        if (donated[input])
            mf_signature_leaf_path(&path, s, leaf);
        if (path.count)
            mf_executable_name_input(x, input, mf_intern(path.at));
        mf_text_free(&path);
        input++;
    }
}

/* Appends what an input of the donating call is: "argument 0['w']"; an input behind the arguments is a state. */
static void describe_input(mf_text *t, int wanted)
{
    const mf_signature *s = donating->s;
    for (int leaf = 0, input = 0; leaf < s->leaf_count; leaf++)
        if (s->leaves[leaf].type && input++ == wanted) {
            mf_signature_leaf_path(t, s, leaf);
            return;
        }
    mf_text_put(t, "a state");
}

static mf_error_object *donated_twice(const mf_type *type, int first, int second)
{
    mf_text t = { 0 };
    if (donating) {
        mf_text_put(&t, ": ");
        describe_input(&t, first);
        mf_text_put(&t, " and ");
        describe_input(&t, second);
    }
    mf_error_object *e = mf_error_new(
        MF_ERROR_DONATED,
        "attempt to donate the same array twice in one call, or to read it beside (%s)%s; mf_copy gives one of them its own memory",
        mf_type_name(type), t.at ? t.at : "");
    mf_text_free(&t);
    return e;
}

static mf_executable *first_executable(mf_traced *t) { return (mf_executable *)atomic_load_explicit(&t->executable, memory_order_acquire); }

/* The client's first executable, from x on, that fits these arrays (in NULL: any arrays). */
static mf_executable *find_executable(mf_executable *x, const mf_client *client, mf_array *const *in)
{
    while (x && !(x->client == client && mf_executable_fits(x, in)))
        x = mf_executable_next(x);
    return x;
}

static int count_executables(const mf_executable *x, const mf_client *client)
{
    int count = 0;
    for (; x; x = mf_executable_next(x))
        count += x->client == client;
    return count;
}

/* With the program's lock held. */
static mf_executable *add_executable(mf_traced *t, const mf_client *client, mf_array *const *in, const bool *donated,
                                     mf_error_object **error)
{
    mf_executable *first = first_executable(t), *x = find_executable(first, client, in);
    if (!x && in && count_executables(first, client) >= MOST_LAYOUTS)
        x = find_executable(first, client, in = NULL);
    mf_load_request what = { .client = client, .program = t->program, .function = t->name, .donated = donated, .in = in };
    if (x || !(x = mf_compile_program(&what, error)))
        return x;
    if (donated && donating)
        name_donated(x, donated);
    if (t->own)
        x->shares_locations = true;
    if (first)
        mf_executable_append(first, x);
    else
        atomic_store_explicit(&t->executable, (mf_object *)x, memory_order_release);
    return x;
}

mf_executable *mf_dispatch_compile(mf_traced *t, const mf_client *client, mf_array *const *in, const bool *donated, mf_error_object **error)
{
    mf_executable *x = find_executable(first_executable(t), client, in);
    if (x)
        return x;
    pthread_mutex_t *lock = &compile_locks[(uintptr_t)t / sizeof *t % LOCKS];
    pthread_mutex_lock(lock);
    x = add_executable(t, client, in, donated, error);
    pthread_mutex_unlock(lock);
    return x;
}

/* The best fit for these arrays, in a list that has an executable for any arrays. */
static mf_executable *executable_among(mf_executable *first, const mf_client *client, mf_array *const *in)
{
    mf_executable *x = find_executable(first, client, in);
    return x ? x : find_executable(first, client, NULL);
}

const mf_client *mf_traced_client(mf_traced *t, mf_error_object **error)
{
    const mf_executable *x = first_executable(t);
    const mf_client *client = x ? x->named : NULL;
    const char *compiler;
    *error = x ? NULL : mf_program_backend(t->program, &client, &compiler);
    return *error ? NULL : client;
}

/* ---- running a traced program on arrays */

static mf_error_object *not_concrete(mf_object *o)
{
    if (mf_object_is(o, &mf_error_class))
        return mf_retain(o);
    if (mf_object_is(o, &mf_tracer_class))
        return mf_error_new(MF_ERROR_TRACER, "a traced value of %s escaped: it was used after its trace had ended (%s)",
                            ((mf_tracer *)o)->trace_name, mf_type_name(((mf_tracer *)o)->type));
    return mf_error_new(MF_ERROR_ARGUMENT, "%s is not an array", mf_object_words(o));
}

mf_error_object *mf_check_arrays(mf_array *const *in, int count, const bool *donated)
{
    for (int i = 0; i < count; i++) {
        if (atomic_load_explicit(&in[i]->deleted, memory_order_relaxed))
            return mf_array_wait(in[i]);
        if (!donated || !donated[i])
            continue;
        for (int k = 0; k < count; k++)
            if (k != i && in[k] == in[i])
                return donated_twice(in[i]->type, i < k ? i : k, i < k ? k : i);
    }
    return NULL;
}

static mf_object *build_result(const mf_traced *t, mf_array **out)
{
    int n = t->result->leaf_count, next = 0;
    MF_SMALL_ARRAY(mf_object *, leaves, 32, n);
    if (!leaves)
        return NULL;
    for (int i = 0; i < n; i++)
        leaves[i] = t->result_statics && t->result_statics[i] ? t->result_statics[i] : &out[next++]->object;
    return mf_tree_build(t->result, leaves);
}

/* Stores the new values of the cells that were not claimed. */
static mf_error_object *store_cells(const mf_traced *t, mf_array **out, const mf_claims *claims)
{
    int next = mf_traced_result_count(t);
    for (int i = next; i < t->program->out_count; i++) { /* an error must leave every cell as it was: wait before the first store */
        mf_error_object *e = mf_array_wait(out[i]);
        if (e)
            return e;
    }
    for (int i = 0; i < t->cell_count; i++) {
        const mf_structure *s = t->cells[i].write_structure;
        if (!s)
            continue;
        mf_object *value = mf_claims_took(claims, i) ? NULL : mf_tree_build(s, (mf_object *const *)(void *)(out + next));
        next += s->leaf_count;
        if (mf_claims_took(claims, i))
            continue;
        if (!value)
            return mf_error_out_of_memory();
        mf_cell_store(t->cells[i].cell, value);
        mf_drop(value);
    }
    return NULL;
}

/* Gathers the program's operands: the leaves, then the values of the cells. holds[] keeps the cells' values alive during the call. */
static mf_error_object *gather_operands(const mf_traced *t, mf_object *const *leaves, mf_array **in, mf_object **holds)
{
    int reads = mf_traced_read_count(t), n = t->program->in_count - reads;
    for (int i = 0; i < n; i++) {
        if (!mf_object_is(leaves[i], &mf_array_class))
            return not_concrete(leaves[i]);
        in[i] = (mf_array *)leaves[i];
    }
    for (int i = 0; i < t->cell_count; i++) {
        holds[i] = mf_cell_value(t->cells[i].cell);
        mf_object *const *cell_leaves, *self;
        int count;
        mf_tree_flatten(holds[i], &cell_leaves, &count, &self);
        for (int k = 0; k < count; k++, n++) {
            if (!mf_object_is(cell_leaves[k], &mf_array_class))
                return not_concrete(cell_leaves[k]);
            in[n] = (mf_array *)cell_leaves[k];
        }
    }
    return NULL;
}

mf_error_object *mf_dispatch_compile_like(mf_traced *t, const mf_client *client, mf_object *const *leaves, const bool *donated)
{
    mf_array **in = mf_alloc(((size_t)t->program->in_count + 1) * sizeof *in);
    mf_object **holds = mf_calloc((size_t)t->cell_count + 1, sizeof *holds);
    mf_error_object *error = in && holds ? NULL : mf_error_out_of_memory();
    mf_error_object *no_arrays = error ? NULL : gather_operands(t, leaves, in, holds);
    if (!error && !no_arrays)
        mf_dispatch_compile(t, client, in, donated, &error);
    for (int i = 0; holds && i < t->cell_count; i++)
        mf_drop(holds[i]);
    if (no_arrays)
        mf_error_ignore(no_arrays);
    mf_free(in);
    mf_free(holds);
    return error;
}

/* Runs x and updates the cells; held: their values. *ran: whether the run was started. */
static mf_error_object *run_with_cells(mf_traced *t, mf_executable *x, mf_array *const *in, mf_object *const *held, mf_array **out,
                                       bool *ran)
{
    mf_claims claims;
    mf_error_object *error = mf_claims_begin(&claims, t, x, in, held);
    if (error)
        return error;
    *ran = true;
    error = mf_executable_run(x, in, claims.moved, out);
    mf_claims_release(&claims, t, in, error ? NULL : out, error);
    if (!error && (error = store_cells(t, out, &claims)))
        for (int i = 0; i < t->program->out_count; i++)
            mf_drop(out[i]);
    mf_claims_free(&claims);
    return error;
}

/* first NULL: use the program's own executables. All of `in` are on the client. */
static mf_error_object *run_on_client(mf_traced *t, mf_executable *first, const mf_client *client, mf_array *const *in, const bool *donated,
                                      mf_object *const *held, mf_value *result, bool *ran)
{
    mf_error_object *error = mf_check_arrays(in, t->program->in_count, donated);
    mf_executable *x = error ? NULL : first ? executable_among(first, client, in) : mf_dispatch_compile(t, client, in, donated, &error);
    if (error || !x)
        return error;
    MF_SMALL_ARRAY(mf_array *, out, 32, t->program->out_count);
    if (!out)
        return mf_error_out_of_memory();
    bool writes = mf_traced_write_count(t);
    *ran = !writes;
    error = writes ? run_with_cells(t, x, in, held, out, ran) : mf_executable_run(x, in, NULL, out);
    if (!error) {
        mf_object *o = build_result(t, out);
        if (o)
            *result = mf_value_new(o);
        else
            error = mf_error_out_of_memory();
        for (int i = 0; i < t->program->out_count; i++)
            mf_drop(out[i]);
    }
    return error;
}

static mf_error_object *run_traced(mf_traced *t, mf_executable *first, const mf_client *named, mf_array **in, const bool *donated,
                                   mf_object *const *held, mf_value *result, bool *ran)
{
    mf_error_object *error = NULL;
    int count = t->program->in_count;
    named = named ? named : mf_traced_client(t, &error);
    const mf_client *client = named ? named : mf_client_default();
    mf_moved_operands moved = { 0, NULL };
    if (!error && !mf_operands_are_on(client, in, count))
        error = mf_operands_place(named, in, count, &client, &moved);
    if (error)
        return error;
    error = run_on_client(t, first, client, in, donated, held, result, ran);
    if (moved.was)
        mf_operands_restore(&moved, in, error ? NULL : donated);
    return error;
}

void mf_dispatch_missed(const mf_traced *t, mf_error_object *why)
{
    mf_comm_expect_nothing();
    mf_comm_expect_program(t->program);
    mf_comm_fail_expected(why);
}

mf_value mf_dispatch_traced(mf_traced *t, mf_object *const *leaves, const bool *donated)
{
    return mf_dispatch_executable(t, NULL, NULL, leaves, donated);
}

mf_value mf_dispatch_executable(mf_traced *t, mf_executable *first, const mf_client *client, mf_object *const *leaves, const bool *donated)
{
    if (t->capture_count)
        return mf_fail(MF_ERROR_TRACER, "a traced value of %s escaped: it was used after its trace had ended (%s)",
                       t->captures[0]->trace_name, mf_type_name(t->captures[0]->type));
    int n = t->program->in_count;
    MF_SMALL_ARRAY(mf_array *, in, 64, n);
    MF_SMALL_ARRAY(mf_object *, holds, 16, t->cell_count);
    MF_SMALL_ARRAY(bool, all_donated, 64, donated ? n : 0);
    bool ran = false;
    mf_value result = { 0 };
    if (holds)
        memset(holds, 0, (size_t)t->cell_count * sizeof *holds);
    mf_error_object *error = in && holds ? gather_operands(t, leaves, in, holds) : mf_error_out_of_memory();
    if (!error && donated && all_donated) { /* `donated` covers the call's leaves only; cells' values are never donated */
        memset(all_donated, 0, (size_t)n * sizeof *all_donated);
        memcpy(all_donated, donated, (size_t)(n - mf_traced_read_count(t)) * sizeof *all_donated);
    }
    if (!error && mf_check_is_on(MF_CHECK_KEYS))
        error = mf_keys_use(t->program, in);
    if (!error)
        error = run_traced(t, first, client, in, donated ? all_donated : NULL, holds, &result, &ran);
    if (error && !ran)
        mf_dispatch_missed(t, error);
    for (int i = 0; holds && i < t->cell_count; i++)
        mf_drop(holds[i]);
    return error ? mf_value_new(error) : result;
}

/* ---- calling */

static mf_value apply_donating(const mf_function_object *f, const mf_signature *s, mf_traced *t, mf_object *const *leaves,
                               const bool *donated)
{
    if (!donated)
        return mf_traced_apply(t, leaves, NULL);
    const donation *outer = donating;
    donating = &(donation){ f, s };
    mf_value result = mf_traced_apply(t, leaves, donated);
    donating = outer;
    return result;
}

/* Tells the processes that would have taken part in this call, as far as they are known. */
static void report_to_others(mf_function_object *f, mf_error_object *error)
{
    if (mf_comm_fail_expected(error))
        return;
    if (atomic_load(&f->spreads))
        mf_comm_fail_unbegun(atomic_load(&f->spread), error);
    else if (mf_function_may_exchange(f))
        mf_comm_record_failed(f->name, error);
}

static mf_value call_traced(mf_function_object *f, const mf_value *arguments, int count)
{
    mf_signature s;
    MF_LEAVES(storage);
    mf_error_object *error = mf_signature_make(&s, &storage, f, arguments, count);
    if (error)
        mf_function_expect(f);
    mf_traced *t = error ? NULL : mf_function_trace(f, &s, &error);
    mf_value result = { 0 };
    if (t) {
        MF_SMALL_ARRAY(mf_object *, typed, 64, s.leaf_count);
        bool donates = f->kind->donate_argnums && !mf_trace_current();
        MF_SMALL_ARRAY(bool, donated, 64, donates ? s.leaf_count : 0);
        if (typed && donates)
            error = donated ? mf_signature_donated(&s, f, donated) : mf_error_out_of_memory();
        int n = 0;
        for (int i = 0; typed && i < s.leaf_count; i++)
            if (s.leaves[i].type)
                typed[n++] = s.leaves[i].object;
        if (!typed)
            error = mf_error_out_of_memory();
        if (!error)
            result = apply_donating(f, &s, t, typed, donates ? donated : NULL);
        else
            mf_comm_expect_program(t->program);
        mf_drop(t);
    }
    if (error)
        mf_error_set_address(error, mf_entry_location());
    if (error && !mf_trace_current())
        report_to_others(f, error);
    return error ? mf_value_new(error) : result;
}

mf_value mf_call_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *error = NULL;
    mf_function_object *f = mf_function_of(function, &error);
    if (!f && error->function && !mf_trace_current())
        mf_comm_record_failed(error->function, error);
    if (!f)
        return mf_value_new(error);
    if (f->kind->call && mf_stack_ends())
        return mf_fail(MF_ERROR_ARGUMENT, "%s: functions that call one another leave too little of this thread's stack", f->name);
    if (f->kind->call)
        return f->kind->call(f, arguments, count);
    int64_t start = mf_profile_begin();
    mf_value result = call_traced(f, arguments, count);
    if (start)
        mf_profile_words(start, MF_TRACK_HOST, "call", f->name);
    return result;
}
