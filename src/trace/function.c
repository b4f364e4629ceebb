/* Function objects: interning, C functions and closures, and tracing them. See function.h. */
#include "trace/function.h"

#include "trace/check_list.h"
#include "trace/key_reuse.h"

#include "base/thread/cancel.h"
#include "base/hash_map.h"
#include "base/thread/stack.h"
#include "base/text/symbol.h"
#include "runtime/comm.h"
#include "trace/cache.h"
#include "trace/dispatch.h"

#include <manyfold/function.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the weak table of functions */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static mf_hash_map table; /* of functions, by their hashes */

static bool same_function(const mf_function_object *f, const mf_function_class *kind, const mf_function_object *inner, uint64_t hash,
                          const void *options, size_t size)
{
    if (f->hash != hash || f->kind != kind || f->inner != inner || f->options_size != size)
        return false;
    return !size || memcmp(f->options, options, size) == 0;
}

static void function_destroy(mf_object *o)
{
    mf_function_object *f = (mf_function_object *)o;
    pthread_mutex_lock(&table_lock);
    mf_hash_map_remove(&table, f->hash, f);
    pthread_mutex_unlock(&table_lock);
    if (f->kind->destroy)
        f->kind->destroy(f);
    mf_drop(f->inner);
    mf_free(f->options);
}
const mf_class mf_function_object_class = { "function", function_destroy };

/* A live equal function, retained. One whose count has reached zero is on its way out and does not count. */
static mf_function_object *table_find(const mf_function_class *kind, const mf_function_object *inner, uint64_t hash, const void *options,
                                      size_t size)
{
    int at = -1;
    for (mf_function_object *f; (f = mf_hash_map_next(&table, hash, &at));)
        if (same_function(f, kind, inner, hash, options, size) && mf_retain_if_alive(f))
            return f;
    return NULL;
}

/* "pmap(f)", or what the class says. Made once a function: names cost a look into files. */
static const char *name_of(const mf_function_class *kind, const mf_function_object *inner, const void *options)
{
    if (kind->name_of)
        return kind->name_of(options);
    char name[160];
    snprintf(name, sizeof name, inner ? "%s(%s)" : "%s", kind->name, inner ? inner->name : "");
    return mf_intern(name);
}

static int depth_of(const mf_function_class *kind, const mf_function_object *inner, const void *options)
{
    int held = kind->depth ? kind->depth(options) + 1 : 0, around = inner ? inner->depth + 1 : 0;
    return held > around ? held : around;
}

static mf_function_object *function_new(const mf_function_class *kind, mf_function_object *inner, uint64_t hash, const void *options,
                                        size_t size)
{
    mf_function_object *f = mf_object_new(&mf_function_object_class, sizeof *f);
    void *copy = f ? mf_alloc(size ? size : 1) : NULL;
    if (!copy || !mf_hash_map_add(&table, hash, f)) {
        mf_free(copy);
        mf_free(f);
        return NULL;
    }
    if (size)
        memcpy(copy, options, size);
    f->kind = kind;
    f->inner = mf_retain(inner);
    f->name = name_of(kind, inner, options);
    f->hash = hash;
    f->depth = depth_of(kind, inner, options);
    f->options = copy;
    f->options_size = size;
    return f;
}

/* The caller's references in its options. */
static void give_up(const mf_function_class *kind, const void *options, size_t size)
{
    mf_function_object scratch = { .kind = kind, .options = (void *)(uintptr_t)options, .options_size = size };
    if (kind->destroy)
        kind->destroy(&scratch);
}

mf_function mf_function_make(const mf_function_class *kind, mf_function_object *inner, const void *options, size_t size)
{
    if (depth_of(kind, inner, options) > MF_TREE_DEPTH) {
        give_up(kind, options, size);
        return (mf_function){ mf_handle_new(mf_error_new(MF_ERROR_ARGUMENT,
                                                         "%s: functions may be wrapped in others %d deep, and this one "
                                                         "would be more",
                                                         kind->name, MF_TREE_DEPTH)) };
    }
    uint64_t hash = mf_hash_mix(mf_hash(options, size, (uintptr_t)kind), (uintptr_t)inner);
    pthread_mutex_lock(&table_lock);
    mf_function_object *f = table_find(kind, inner, hash, options, size);
    bool found = f != NULL;
    if (!f)
        f = function_new(kind, inner, hash, options, size);
    pthread_mutex_unlock(&table_lock);
    if (found || !f) /* an equal one has its own */
        give_up(kind, options, size);
    return (mf_function){ f ? mf_handle_new(f) : mf_handle_new(mf_error_out_of_memory()) };
}

mf_function mf_function_wrap(const mf_function_class *kind, mf_function f, const void *options, size_t size)
{
    mf_error_object *error = NULL;
    mf_function_object *inner = mf_function_of(f, &error);
    if (inner)
        return mf_function_make(kind, inner, options, size);
    give_up(kind, options, size);
    return (mf_function){ mf_handle_new(error) };
}

mf_ints mf_ints_plain(mf_ints list, const char *what, mf_error_object **error)
{
    mf_ints plain;
    memset(&plain, 0, sizeof plain);
    if (list.count < 0 || list.count > MF_MAX_RANK) {
        if (!*error)
            *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: a list has between 0 and %d entries, not %d", what, MF_MAX_RANK, list.count);
        return plain;
    }
    plain.count = list.count;
    memcpy(plain.at, list.at, (size_t)plain.count * sizeof *plain.at);
    return plain;
}

mf_function_object *mf_function_of(mf_function f, mf_error_object **error)
{
    mf_object *o = mf_handle_get(f.handle);
    if (mf_object_is(o, &mf_function_object_class))
        return (mf_function_object *)o;
    *error = mf_object_is(o, &mf_error_class) ? mf_retain(o)
                                              : mf_error_new(MF_ERROR_ARGUMENT, "this is not a function (%s)", o ? o->kind->name : "unset");
    return NULL;
}

mf_function mf_function_keep_n(mf_function f)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *error = NULL;
    mf_function_object *o = mf_function_of(f, &error);
    return (mf_function){ o ? mf_handle_keep_one(&o->kept, &o->object) : mf_handle_new(error) };
}

/* Bytes that only look like a handle that has ended cost a trace at most. */
static bool names_what_ended(const mf_function_object *f)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= f->options_size; at += sizeof word) {
        memcpy(&word, (const char *)f->options + at, sizeof word);
        if (mf_handle_ended(word))
            return true;
    }
    return false;
}

bool mf_function_holds_values(const mf_function_object *f)
{
    for (; f; f = f->inner)
        if (f->kind->destroy || names_what_ended(f))
            return true;
    return false;
}

static const mf_function_object *map_of(const mf_function_object *f)
{
    while (f && !f->kind->devices)
        f = f->inner;
    return f;
}

void mf_function_expect(const mf_function_object *f)
{
    const mf_function_object *map = map_of(f);
    mf_comm_expect_nothing();
    if (map)
        mf_comm_expect_map(map->kind->devices(map));
}

bool mf_function_may_exchange(const mf_function_object *f)
{
    const mf_function_object *map = map_of(f);
    return !map || mf_comm_has_part(map->kind->devices(map));
}

/* ---- C functions */

/* Identity of a C function: its address, how it is called, and for a closure the copied bytes that follow. */
typedef struct c_function {
    void (*address)(void);
    int arity;
    bool closure;
    char context[]; /* 16-byte aligned by the struct's size */
} c_function;

#define CONTEXT_OFFSET 32

static mf_value invoke(const c_function *c, void *context, const mf_value *a)
{
#define X(n) \
    case n: return c->closure ? ((mf_fc##n)c->address)(context, MF_A##n) : ((mf_fn##n)c->address)(MF_A##n);
    switch (c->arity) {
        MF_ARITIES(X)
    default: return c->closure ? ((mf_fc0)c->address)(context) : ((mf_fn0)c->address)();
    }
#undef X
}

static mf_value arity_error(const mf_function_object *f, int wanted, int count)
{
    return mf_fail(MF_ERROR_ARGUMENT, "%s takes %d argument%s but was called with %d", f->name, wanted, wanted == 1 ? "" : "s", count);
}

static mf_value c_function_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const c_function *c = f->options;
    if (count != c->arity)
        return arity_error(f, c->arity, count);
    /* The function gets a copy of the context: it may write to it, and the identity must not change. */
    _Alignas(16) char small[512];
    size_t size = f->options_size > CONTEXT_OFFSET ? f->options_size - CONTEXT_OFFSET : 0;
    char *context = size <= sizeof small ? small : mf_alloc(size);
    if (!context)
        return mf_value_new(mf_error_out_of_memory());
    if (size)
        memcpy(context, (const char *)f->options + CONTEXT_OFFSET, size);
    /* What the function calls reports the line of its own calls, not of the call that led here. */
    mf_callee callee;
    mf_callee_begin(&callee, c->address, __builtin_return_address(0));
    mf_value result = invoke(c, context, arguments);
    mf_callee_end(&callee);
    if (context != small)
        mf_free(context);
    return result;
}

/* The arguments of a call, rebuilt over tracers (typed leaves) and statics. One handle each in the innermost scope. False: memory is short; a
 * function that was given an error in place of a tracer would ask it for its shape, and might go on without it. */
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

/* Traces anything that can be called: opens a trace, calls f on tracers, closes it. */
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
    mf_scope_close(scope);
    return traced;
}

mf_traced *mf_trace_by_calling(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return mf_trace_by(f, f->kind->call, s, error);
}

static const char *c_function_name(const void *options)
{
    const void *p;
    memcpy(&p, &((const c_function *)options)->address, sizeof p);
    return mf_symbol_of(p);
}

static mf_traced *c_function_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    mf_traced *t = mf_trace_by_calling(f, s, error);
    const void *p;
    memcpy(&p, &((const c_function *)f->options)->address, sizeof p);
    if (t)
        t->own = mf_is_own_function(p);
    if (t && !t->own && mf_check_is_on(MF_CHECK_KEYS) && (*error = mf_keys_check(t->program))) {
        mf_drop(t);
        return NULL;
    }
    return t;
}

static const mf_function_class c_function_class = {
    .name = "function", .trace = c_function_trace, .call = c_function_call, .name_of = c_function_name
};

static mf_function c_function_make(void (*address)(void), int arity, const void *context, size_t size, bool closure)
{
    MF_PARENT_ONLY((mf_function){ MF_FORK_HANDLE });
    if (!address)
        return (mf_function){ mf_handle_new(mf_error_new(MF_ERROR_ARGUMENT, "a NULL function")) };
    _Alignas(16) char small[1024];
    char *bytes = CONTEXT_OFFSET + size <= sizeof small ? small : mf_alloc(CONTEXT_OFFSET + size);
    if (!bytes)
        return (mf_function){ mf_handle_new(mf_error_out_of_memory()) };
    memset(bytes, 0, CONTEXT_OFFSET);
    c_function *c = (c_function *)(void *)bytes;
    c->address = address;
    c->arity = arity;
    c->closure = closure;
    if (size)
        memcpy(bytes + CONTEXT_OFFSET, context, size);
    mf_function f = mf_function_make(&c_function_class, NULL, bytes, CONTEXT_OFFSET + size);
    if (bytes != small)
        mf_free(bytes);
    return f;
}

#define X(n)                                                                                            \
    mf_function mf_fn_##n(mf_fn##n f) { return c_function_make((void (*)(void))f, n, NULL, 0, false); } \
    mf_function mf_closure_##n(mf_fc##n f, const void *context, size_t size)                            \
    {                                                                                                   \
        return c_function_make((void (*)(void))f, n, context, size, true);                              \
    }
X(0)
MF_ARITIES(X)
#undef X

mf_function mf_fn_same(mf_function f) { return f; }

/* ---- partial application: the bound leading arguments are kept values */

typedef struct partial_options {
    int count;
    mf_object *bound[MF_MAX_ARGUMENTS]; /* retained */
} partial_options;

static void partial_destroy(mf_function_object *f)
{
    partial_options *o = f->options;
    for (int i = 0; i < o->count; i++)
        mf_drop(o->bound[i]);
}

static mf_value partial_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const partial_options *o = f->options;
    mf_value all[MF_MAX_ARGUMENTS];
    if (o->count + count > MF_MAX_ARGUMENTS)
        return arity_error(f, MF_MAX_ARGUMENTS - o->count, count);
    for (int i = 0; i < o->count; i++)
        all[i] = mf_value_of(o->bound[i]);
    for (int i = 0; i < count; i++)
        all[o->count + i] = arguments[i];
    return mf_call_n((mf_function){ mf_handle_new(mf_retain(f->inner)) }, all, o->count + count);
}

static const mf_function_class partial_class = {
    .name = "partial", .trace = mf_trace_by_calling, .call = partial_call, .destroy = partial_destroy
};

mf_function mf_partial_n(mf_function f, const mf_value *first, int count)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *error = NULL;
    mf_function_object *inner = mf_function_of(f, &error);
    if (!inner)
        return (mf_function){ mf_handle_new(error) };
    partial_options o = { 0 };
    if (count < 0 || count > MF_MAX_ARGUMENTS)
        return (mf_function){ mf_handle_new(
            mf_error_new(MF_ERROR_ARGUMENT, "mf_partial binds at most %d arguments, not %d", MF_MAX_ARGUMENTS, count)) };
    for (int i = 0; i < count; i++)
        o.bound[o.count++] = mf_retain(mf_object_of(first[i]));
    return mf_function_make(&partial_class, inner, &o, sizeof o);
}

/* ---- tracing any function, through the cache */

/* Functions that are traced inside one another: enough for any program, and few enough for a stack of 8 MiB. */
enum { TRACES_MAX = 256 };
static _Thread_local int traces_open;

/* For calls of it that fail sooner. */
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
    MF_UNCANCELLED; /* others may be waiting for the program */
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

/* ---- helpers for the classes */

int mf_signature_typed_count(const mf_signature *s)
{
    int n = 0;
    for (int i = 0; i < s->leaf_count; i++)
        n += s->leaves[i].type != NULL;
    return n;
}

int mf_signature_argument_of(const mf_signature *s, int leaf)
{
    for (int i = 0, first = 0; i < s->arg_count; first += s->structures[i]->leaf_count, i++)
        if (leaf < first + s->structures[i]->leaf_count)
            return i;
    return s->arg_count;
}

void mf_signature_leaf_path(mf_text *t, const mf_signature *s, int leaf)
{
    int argument = mf_signature_argument_of(s, leaf), first = 0;
    for (int i = 0; i < argument; i++)
        first += s->structures[i]->leaf_count;
    if (s->has_kwargs && argument == s->arg_count - 1)
        mf_text_put(t, "keyword argument ");
    else
        mf_text_add(t, "argument %d", argument);
    if (argument < s->arg_count)
        mf_structure_leaf_path(t, s->structures[argument], leaf - first);
}

int mf_traced_result_count(const mf_traced *t)
{
    int n = t->result->leaf_count;
    for (int i = 0; t->result_statics && i < t->result->leaf_count; i++)
        n -= t->result_statics[i] != NULL;
    return n;
}

int mf_traced_read_count(const mf_traced *t)
{
    int n = 0;
    for (int i = 0; i < t->cell_count; i++)
        n += t->cells[i].read_structure->leaf_count;
    return n;
}

int mf_traced_write_count(const mf_traced *t)
{
    int n = 0;
    for (int i = 0; i < t->cell_count; i++)
        n += t->cells[i].write_structure ? t->cells[i].write_structure->leaf_count : 0;
    return n;
}

mf_traced *mf_traced_with(const mf_traced *t, mf_program *program, const mf_structure *result, mf_object *const *statics)
{
    mf_traced *r = mf_object_new(&mf_traced_class, sizeof *r);
    if (!r) {
        mf_drop(program);
        return NULL;
    }
    r->program = program;
    r->result = result;
    r->impure = t->impure;
    r->own = t->own;
    r->captures = mf_arena_alloc(&r->arena, ((size_t)t->capture_count + 1) * sizeof *r->captures);
    r->cells = mf_arena_alloc(&r->arena, ((size_t)t->cell_count + 1) * sizeof *r->cells);
    if (statics)
        r->result_statics = mf_arena_alloc(&r->arena, ((size_t)result->leaf_count + 1) * sizeof *r->result_statics);
    if (!r->captures || !r->cells || (statics && !r->result_statics)) {
        mf_drop(r);
        return NULL;
    }
    for (int i = 0; statics && i < result->leaf_count; i++)
        r->result_statics[i] = mf_retain(statics[i]);
    for (int i = 0; i < t->capture_count; i++)
        r->captures[r->capture_count++] = mf_retain(t->captures[i]);
    for (int i = 0; i < t->cell_count; i++) {
        mf_touched_cell *to = &r->cells[r->cell_count++];
        *to = t->cells[i];
        mf_retain(to->cell);
        to->read_types = mf_arena_alloc(&r->arena, ((size_t)to->read_structure->leaf_count + 1) * sizeof *to->read_types);
        if (!to->read_types) {
            mf_drop(r);
            return NULL;
        }
        memcpy(to->read_types, t->cells[i].read_types, (size_t)to->read_structure->leaf_count * sizeof *to->read_types);
    }
    return r;
}

mf_program *mf_program_of_eqn(const mf_axis_env *env, const mf_op *op, const void *params, const mf_type *const *in, int in_count,
                              mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_variable **operands = mf_calloc((size_t)in_count + 1, sizeof *operands);
    if (!operands) {
        mf_builder_abandon(&b);
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < in_count; i++)
        operands[i] = mf_builder_input(&b, in[i]);
    b.address = mf_entry_place();
    mf_eqn *e = mf_emit_eqn(&b, op, params, operands, in_count);
    mf_program *p = mf_builder_finish(&b, e ? e->out : NULL, e ? e->out_count : 0, error);
    mf_free(operands);
    return p;
}
