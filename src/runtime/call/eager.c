/* Runs one op on arrays at once, through a cache of one-op programs. Invariant: an entry is found by op, params, operand types, and the
 * client and layouts that its executable was made for. A program is compiled outside of the lock; if two threads compile the same one,
 * the first to be entered stays. */
#include "trace/dispatch.h"

#include "base/memory/hash_map.h"
#include "base/memory/vector.h"
#include "runtime/call/call.h"
#include "runtime/call/operands.h"
#include "runtime/compile/compile.h"
#include "runtime/executable.h"
#include "runtime/profile/profiler.h"
#include "trace/cache.h"
#include "trace/checks/check_list.h"
#include "trace/function.h"

#include <pthread.h>
#include <string.h>

typedef struct op_entry {
    struct op_entry *next; /* in a list of entries to be freed */
    uint64_t hash;
    const mf_op *op;
    const void *params; /* owned by the program, which the entry retains */
    mf_program *program;
    mf_executable *executable;
    int64_t made_then; /* `ops_made` when the entry was last used */
    bool holds_arrays; /* constants that a function of control flow has captured */
    int in_count;
    const mf_type *in[];
} op_entry;

/* The cache holds MOST_OPS entries. When it is full, those go that were not used while the last MOST_OPS / 2 were made. An entry that
 * holds arrays goes when it was not used while PASSING were made (counted in ops, or MiB that they hold): each call of a loop over a new
 * closure makes one. SWEEP is how many are made between two sweeps. */
enum { MOST_OPS = 4096, PASSING = 256, SWEEP = 32 };

static pthread_mutex_t ops_lock = PTHREAD_MUTEX_INITIALIZER;
static mf_hash_map ops;
static int64_t ops_made, ops_swept; /* guarded by the lock, like the map: the total weight made, and its value at the last sweep */

static bool same_op(const op_entry *e, uint64_t hash, const mf_client *client, const mf_op *op, const void *params, mf_array *const *in,
                    int in_count)
{
    if (e->hash != hash || e->op != op || e->in_count != in_count || e->executable->client != client)
        return false;
    for (int i = 0; i < in_count; i++)
        if (e->in[i] != in[i]->type)
            return false;
    return mf_params_equal(op, e->params, params) && mf_executable_fits(e->executable, in);
}

static bool holds_arrays(const mf_program *p)
{
    bool any = false;
    for (int v = 0; v < p->var_count && !any; v++)
        any = p->vars[v]->constant && mf_literal_is_contiguous(p->vars[v]->constant) && p->vars[v]->type->rank;
    for (int i = 0; i < p->eqn_count && !any; i++)
        for (int k = 0, n = mf_params_program_count(p->eqns[i]->op, p->eqns[i]->params); k < n && !any; k++)
            any = holds_arrays(*mf_params_program_at(p->eqns[i]->op, p->eqns[i]->params, k));
    return any;
}

static op_entry *op_entry_new(const mf_client *client, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                              uint64_t hash, mf_error_object **error)
{
    op_entry *e = mf_calloc(1, sizeof *e + (size_t)in_count * sizeof *e->in);
    if (!e) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < in_count; i++)
        e->in[i] = in[i]->type;
    e->hash = hash;
    e->op = op;
    e->in_count = in_count;
    e->program = mf_program_of_eqn(NULL, op, params, e->in, in_count, error);
    e->executable = e->program ? mf_compile_program(&(mf_load_request){ .client = client, .program = e->program }, error) : NULL;
    if (!e->executable) {
        mf_drop(e->program);
        mf_free(e);
        return NULL;
    }
    e->executable->shares_locations = true;
    e->params = e->program->eqns[0]->params;
    e->holds_arrays = holds_arrays(e->program);
    return e;
}

static void op_entries_free(op_entry *freed)
{
    while (freed) {
        op_entry *e = freed;
        freed = e->next;
        mf_drop(e->executable);
        mf_drop(e->program);
        mf_free(e);
    }
}

/* Removes entries that were last used at or before made_then (those that hold arrays: holding_then), and returns them as a list. */
static op_entry *take_ops(int64_t made_then, int64_t holding_then)
{
    op_entry *freed = NULL;
    int at = 0;
    for (op_entry *e; (e = mf_hash_map_each(&ops, &at));)
        if (e->made_then <= made_then || (e->holds_arrays && e->made_then <= holding_then)) {
            at -= mf_hash_map_remove(&ops, e->hash, e);
            e->next = freed;
            freed = e;
        }
    return freed;
}

/* Removes what has to go when one more entry is made. */
static op_entry *sweep_ops(void)
{
    bool full = ops.count >= MOST_OPS;
    if (!full && ops_made - ops_swept < SWEEP)
        return NULL;
    ops_swept = ops_made;
    return take_ops(full ? ops_made - MOST_OPS / 2 : -1, ops_made - PASSING);
}

/* The entry's executable, retained: another thread may clear the cache meanwhile. */
static mf_executable *known_op(const mf_client *client, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                               uint64_t hash, int *out_count)
{
    int at = -1;
    op_entry *e;
    while ((e = mf_hash_map_next(&ops, hash, &at)) && !same_op(e, hash, client, op, params, in, in_count))
        ;
    if (!e)
        return NULL;
    *out_count = e->program->out_count;
    e->made_then = ops_made;
    return mf_retain(e->executable);
}

/* Compiles outside of the lock: constant folding inside a loop's body calls this function again. */
static mf_executable *find_op(const mf_client *client, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                              int *out_count, mf_error_object **error)
{
    uint64_t hash = mf_hash_mix((uintptr_t)op, mf_params_hash(op, params));
    for (int i = 0; i < in_count; i++)
        hash = mf_hash_mix(hash, (uintptr_t)in[i]->type);
    pthread_mutex_lock(&ops_lock);
    mf_executable *x = known_op(client, op, params, in, in_count, hash, out_count);
    pthread_mutex_unlock(&ops_lock);
    op_entry *made = x ? NULL : op_entry_new(client, op, params, in, in_count, hash, error);
    if (!made)
        return x;
    pthread_mutex_lock(&ops_lock);
    x = known_op(client, op, params, in, in_count, hash, out_count);
    if (!x) { /* no other thread was faster */
        op_entry *freed = sweep_ops();
        *out_count = made->program->out_count;
        x = mf_retain(made->executable);
        made->made_then = ops_made += mf_cache_weight(made->program);
        if (mf_hash_map_add(&ops, hash, made)) {
            made = freed;
        } else { /* it is not kept */
            made->next = freed;
        }
    }
    pthread_mutex_unlock(&ops_lock);
    op_entries_free(made);
    return x;
}

static void clear_ops(void)
{
    pthread_mutex_lock(&ops_lock);
    op_entry *freed = take_ops(INT64_MAX, INT64_MAX);
    pthread_mutex_unlock(&ops_lock);
    op_entries_free(freed);
}

static int64_t op_entries(void)
{
    pthread_mutex_lock(&ops_lock);
    int64_t count = ops.count;
    pthread_mutex_unlock(&ops_lock);
    return count;
}

/* Waits for checked ops here: many lines share their programs, and the error should name this line. */
static mf_error_object *await_checks(const mf_op *op, const void *params, mf_object **out, int out_count)
{
    mf_error_object *error = NULL;
    if (!mf_check_is_on(MF_CHECK_NAN) || mf_params_program_count(op, params))
        return NULL;
    for (int i = 0; i < out_count && !error; i++)
        error = mf_array_wait((mf_array *)out[i]);
    if (!error)
        return NULL;
    mf_error_object *here = mf_error_new(error->status, "%s", error->message);
    mf_error_handle(error); /* the results hold the error too, and may be held elsewhere */
    mf_drop(error);
    for (int i = 0; i < out_count; i++)
        mf_drop(out[i]);
    return here;
}

/* All of `in` are on the client. */
static mf_error_object *run_op(const mf_client *client, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                               mf_object **out, int out_count)
{
    mf_error_object *error = mf_check_arrays(in, in_count, NULL);
    int count = 0;
    int64_t start = mf_profile_begin();
    mf_executable *x = error ? NULL : find_op(client, op, params, in, in_count, &count, &error);
    if (!x)
        return error;
    if (count != out_count)
        error = mf_error_new(MF_ERROR_ARGUMENT, "%s: gives %d results, %d were expected", op->name, count, out_count);
    else
        error = mf_executable_run(x, in, NULL, (mf_array **)(void *)out);
    mf_drop(x);
    if (!error)
        error = await_checks(op, params, out, out_count);
    if (start)
        mf_profile_words(start, MF_TRACK_HOST, op->name, NULL);
    return error;
}

mf_error_object *mf_dispatch_op(const mf_client *named, const mf_op *op, const void *params, mf_array *const *in, int in_count,
                                mf_object **out, int out_count)
{
    const mf_client *client = named ? named : mf_client_default();
    if (mf_operands_are_on(client, in, in_count))
        return run_op(client, op, params, in, in_count, out, out_count);
    mf_moved_operands moved;
    MF_SMALL_ARRAY(mf_array *, there, 16, in_count);
    if (!there)
        return mf_error_out_of_memory();
    memcpy(there, in, (size_t)in_count * sizeof *there);
    mf_error_object *error = mf_operands_place(named, there, in_count, &client, &moved);
    if (!error) {
        error = run_op(client, op, params, there, in_count, out, out_count);
        mf_operands_restore(&moved, there, NULL);
    }
    return error;
}

/* ---- the caches, together */

mf_cache_counters mf_cache_read(void)
{
    MF_PARENT_ONLY((mf_cache_counters){ 0 });
    mf_cache_counters c = mf_cache_traces();
    c.ops = op_entries();
    return c;
}

void mf_clear_caches(void)
{
    MF_PARENT_ONLY();
    mf_cache_clear_traces();
    clear_ops();
}
