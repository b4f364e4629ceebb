/* Ahead of time: a call that was traced and optimised for one signature (lowered), and compiled. A compiled call is a function that never
 * traces: it compares the arguments' trees, types and statics with the ones it was made for, and runs its executable.
 * Invariant: a stage never changes, so several threads may use it. */
#include "runtime/stages/ahead.h"

#include "runtime/device.h"

#include "trace/cache.h"

#include "base/memory/vector.h"
#include "passes/passes.h"

#include <manyfold/stages.h>
#include <string.h>

static void ahead_end(mf_ahead *o)
{
    mf_drop(o->traced);
    mf_drop(o->program);
    mf_drop(o->executable);
    for (int i = 0; o->leaves && i < o->leaf_count; i++)
        mf_drop(o->leaves[i].object);
    mf_free(o->leaves);
    mf_free(o->donated);
}

static void ahead_destroy(mf_function_object *f) { ahead_end(f->options); }

/* ---- checking a call */

static mf_error_object *other_tree(const mf_function_object *f, const mf_signature *s)
{
    const mf_ahead *o = f->options;
    mf_text t = { 0 };
    for (int i = 0; i < s->arg_count && i < o->arg_count && !t.count; i++)
        if (s->structures[i] != o->structures[i]) {
            mf_text_add(&t, "argument %d: ", i);
            mf_structure_difference(&t, o->structures[i], s->structures[i]);
        }
    if (!t.count)
        mf_text_add(&t, "%d arguments against %d", o->arg_count, s->arg_count);
    mf_error_object *e = mf_error_new(MF_ERROR_TREE,
                                      "%s: the function was compiled with an input tree that does not match the one it was called with: %s",
                                      f->inner->name, t.at ? t.at : "");
    mf_text_free(&t);
    return e;
}

static mf_error_object *other_types(const mf_function_object *f, const mf_signature *s)
{
    const mf_ahead *o = f->options;
    mf_text t = { 0 };
    for (int i = 0; i < s->leaf_count; i++) {
        const mf_leaf *made = &o->leaves[i], *given = &s->leaves[i];
        if (made->type == given->type && (made->type || made->identity == given->identity))
            continue;
        mf_text_put(&t, t.count ? "; " : "");
        mf_signature_leaf_path(&t, s, i);
        if (made->type && given->type)
            mf_text_add(&t, " compiled with %s%s and called with %s%s", mf_type_name(made->type), made->type->weak ? " (weak)" : "",
                        mf_type_name(given->type), given->type->weak ? " (weak)" : "");
        else
            mf_text_put(&t, " has another static value");
    }
    mf_error_object *e = mf_error_new(
        MF_ERROR_DTYPE, "Argument types differ from the types for which this computation was compiled. The mismatches are: %s",
        t.at ? t.at : "");
    mf_text_free(&t);
    return e;
}

static mf_error_object *check_fit(const mf_function_object *f, const mf_signature *s)
{
    const mf_ahead *o = f->options;
    if (s->arg_count != o->arg_count || s->has_kwargs != o->has_kwargs || s->leaf_count != o->leaf_count ||
        memcmp(s->structures, o->structures, (size_t)s->arg_count * sizeof *s->structures) != 0)
        return other_tree(f, s);
    for (int i = 0; i < s->leaf_count; i++)
        if (s->leaves[i].type != o->leaves[i].type || (!s->leaves[i].type && s->leaves[i].identity != o->leaves[i].identity))
            return other_types(f, s);
    return NULL;
}

static mf_value compiled_call(mf_function_object *f, const mf_value *arguments, int count)
{
    const mf_ahead *o = f->options;
    if (mf_trace_current())
        return mf_fail(MF_ERROR_TRACER,
                       "a compiled function was called under a transform: it exists for one signature and has no program to transform (%s)",
                       f->inner->name);
    mf_signature s;
    MF_LEAVES(storage);
    mf_error_object *error = mf_signature_make(&s, &storage, f->inner, arguments, count);
    if (!error)
        error = check_fit(f, &s);
    mf_value result = { 0 };
    MF_SMALL_ARRAY(mf_object *, typed, 64, error ? 0 : s.leaf_count);
    if (!error && !typed)
        error = mf_error_out_of_memory();
    if (error) {
        mf_dispatch_missed(o->traced, error);
    } else {
        int n = 0;
        for (int i = 0; i < s.leaf_count; i++)
            if (s.leaves[i].type)
                typed[n++] = s.leaves[i].object;
        result = mf_dispatch_executable(o->traced, o->executable, o->client, typed, o->donated);
    }
    return error ? mf_value_new(error) : result;
}

static mf_traced *compiled_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    (void)s;
    *error = mf_error_new(
        MF_ERROR_TRACER,
        "a compiled function was called under a transform: it exists for one signature and has no program to transform (%s)",
        f->inner->name);
    return NULL;
}

static const mf_function_class compiled_class = {
    .name = "compiled", .trace = compiled_trace, .call = compiled_call, .destroy = ahead_destroy
};

static mf_value lowered_call(mf_function_object *f, const mf_value *arguments, int count)
{
    (void)arguments, (void)count;
    return mf_fail(MF_ERROR_ARGUMENT, "%s is lowered, not compiled: mf_lowered_compile makes a function of it that can be called",
                   f->inner->name);
}

static const mf_function_class lowered_class = {
    .name = "lowered", .trace = compiled_trace, .call = lowered_call, .destroy = ahead_destroy
};

const mf_ahead *mf_ahead_of(mf_function function, mf_error_object **error)
{
    const mf_function_object *f = mf_function_of(function, error);
    if (f && (f->kind == &lowered_class || f->kind == &compiled_class))
        return f->options;
    if (f)
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s is neither lowered nor compiled: mf_lower and mf_compile make such functions",
                              f->name);
    return NULL;
}

/* ---- lowering */

mf_traced *mf_ahead_trace_here(mf_function function, const mf_value *arguments, int count, mf_signature *s, mf_leaves *storage,
                               mf_function_object **f, mf_error_object **error)
{
    *f = mf_function_of(function, error);
    if (!*f)
        return NULL;
    *error = mf_signature_of_types(s, storage, *f, arguments, count);
    return *error ? NULL : mf_function_trace(*f, s, error);
}

mf_traced *mf_ahead_trace(mf_function function, const mf_value *arguments, int count, mf_signature *s, mf_leaves *storage,
                          mf_function_object **f, mf_error_object **error)
{
    mf_traced *t = mf_ahead_trace_here(function, arguments, count, s, storage, f, error);
    if (!t || !t->capture_count)
        return t;
    *error = mf_error_new(MF_ERROR_TRACER, "%s reads a traced value of %s: it can only be lowered outside that trace", (*f)->name,
                          t->captures[0]->trace_name);
    mf_drop(t);
    return NULL;
}

static mf_error_object *keep_signature(mf_ahead *o, const mf_signature *s)
{
    o->arg_count = s->arg_count;
    o->has_kwargs = s->has_kwargs;
    memcpy(o->structures, s->structures, (size_t)s->arg_count * sizeof *o->structures);
    o->leaves = mf_calloc((size_t)s->leaf_count + 1, sizeof *o->leaves);
    if (!o->leaves)
        return mf_error_out_of_memory();
    o->leaf_count = s->leaf_count;
    for (int i = 0; i < s->leaf_count; i++) {
        o->leaves[i] = s->leaves[i];
        o->leaves[i].object = s->leaves[i].type ? NULL : mf_retain(s->leaves[i].object);
    }
    return NULL;
}

/* Compiles for any arrays and, if the arguments were arrays, for arrays that lie like them: so no call has to compile. */
static mf_error_object *compile_for(mf_ahead *o, const mf_signature *s)
{
    mf_error_object *error = NULL;
    mf_object **typed = mf_alloc(((size_t)s->leaf_count + 1) * sizeof *typed);
    int n = 0;
    for (int i = 0; typed && i < s->leaf_count; i++)
        if (s->leaves[i].type)
            typed[n++] = s->leaves[i].object;
    mf_executable *x = NULL;
    if (!typed)
        error = mf_error_out_of_memory();
    if (!error)
        error = mf_dispatch_compile_like(o->traced, o->client, typed, o->donated);
    if (!error)
        x = mf_dispatch_compile(o->traced, o->client, NULL, o->donated, &error);
    if (x)
        o->executable = mf_retain((mf_executable *)atomic_load(&o->traced->executable));
    mf_free(typed);
    return error;
}

/* Traces and optimises a call, and compiles it if `compile` is set. *f: the function that is lowered. */
static mf_error_object *lower(mf_ahead *o, mf_function function, const mf_value *arguments, int count, bool compile, mf_function_object **f)
{
    mf_error_object *error = NULL;
    mf_signature s;
    MF_LEAVES(storage);
    memset(o, 0, sizeof *o);
    o->traced = mf_ahead_trace(function, arguments, count, &s, &storage, f, &error);
    o->client = o->traced ? mf_traced_client(o->traced, &error) : NULL;
    if (o->traced && !o->client)
        o->client = s.client;
    o->program = o->traced && !error ? mf_optimize(o->traced->program, NULL, &error) : NULL;
    if (!error)
        error = keep_signature(o, &s);
    if (!error && (*f)->kind->donate_argnums && !(o->donated = mf_calloc((size_t)s.leaf_count + 1, sizeof *o->donated)))
        error = mf_error_out_of_memory();
    if (!error && o->donated)
        error = mf_signature_donated(&s, *f, o->donated);
    if (!error && compile)
        error = compile_for(o, &s);
    return error;
}

static mf_function stage_function(const mf_function_class *kind, mf_function_object *f, mf_ahead *o, mf_error_object *error)
{
    if (!error)
        return mf_function_make(kind, f, o, sizeof *o);
    ahead_end(o);
    if (f && error != &mf_error_memory_object)
        error->function = f->name;
    return (mf_function){ mf_handle_new(error) };
}

mf_function mf_lower_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_ahead o;
    mf_function_object *f = NULL;
    mf_error_object *error = lower(&o, function, arguments, count, false, &f);
    return stage_function(&lowered_class, f, &o, error);
}

/* ---- compiling */

mf_function mf_compile_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_ahead o;
    mf_function_object *f = NULL;
    mf_error_object *error = lower(&o, function, arguments, count, true, &f);
    return stage_function(&compiled_class, f, &o, error);
}

typedef struct compiler_options {
    unsigned skipped; /* passes that are skipped */
    const mf_client *client;
    const char *backend; /* NULL: not given */
} compiler_options;

static mf_error_object *read_bool(const char *key, mf_object *value, bool *out)
{
    const mf_array *a = mf_object_is(value, &mf_array_class) ? (const mf_array *)value : NULL;
    if (a && a->type->dtype == MF_BOOL && !a->type->rank)
        return mf_array_element(a, out);
    const char *text = mf_static_text(value);
    return mf_error_new(MF_ERROR_ARGUMENT, "compile option '%s': %s%s%s is not a valid bool value", key, text ? "'" : "",
                        text ? text : (a ? mf_type_name(a->type) : value->kind->name), text ? "'" : "");
}

static mf_error_object *read_backend(mf_object *value, compiler_options *out)
{
    const char *name = mf_static_text(value);
    mf_error_object *error = NULL;
    out->client = mf_client_named(name, &error);
    out->backend = out->client && strcmp(name, out->client->platform) != 0 ? name : NULL;
    return out->client ? NULL
           : error     ? error
                       : mf_error_new(MF_ERROR_ARGUMENT, "compile option 'backend': %s is not the name of a backend of this machine",
                                  name ? name : value->kind->name);
}

static mf_error_object *read_option(compiler_options *o, const char *key, mf_object *value)
{
    unsigned mask = mf_pass_mask(key);
    bool runs = true;
    if (strcmp(key, "backend") == 0)
        return read_backend(value, o);
    if (!mask)
        return mf_error_new(MF_ERROR_ARGUMENT,
                            "No such compile option: '%s'. There are 'backend' (a name) and the passes 'dce', 'fold', "
                            "'simplify' and 'cse' (true or false)",
                            key);
    mf_error_object *error = read_bool(key, value, &runs);
    o->skipped = runs ? o->skipped & ~mask : o->skipped | mask;
    return error;
}

static mf_error_object *read_options(compiler_options *o, mf_object *given)
{
    const mf_tree *t = mf_object_is(given, &mf_tree_class) ? (const mf_tree *)given : NULL;
    *o = (compiler_options){ 0 };
    if (!given || (t && t->structure == mf_structure_none()))
        return NULL;
    if (mf_object_is(given, &mf_error_class))
        return mf_retain(given);
    if (!t || t->structure->kind != MF_NODE_DICT)
        return mf_error_new(MF_ERROR_TREE, "compile options are a dict of names and values, or none");
    mf_error_object *error = NULL;
    for (int i = 0; i < t->structure->child_count && !error; i++) {
        mf_object *value = mf_tree_child(t, i);
        error = value ? read_option(o, t->structure->keys->at[i], value) : mf_error_out_of_memory();
        mf_drop(value);
    }
    return error;
}

static mf_error_object *compile_with(mf_ahead *o, const compiler_options *c)
{
    mf_error_object *error = NULL;
    o->program = mf_optimize_without(o->traced->program, NULL, c->skipped, &error);
    if (o->program)
        o->executable = mf_executable_load(
            &(mf_load_request){
                .client = o->client, .program = o->program, .function = o->traced->name, .compiler = c->backend, .donated = o->donated },
            &error);
    mf_cache_count_compilation();
    return error;
}

mf_function mf_lowered_compile_opt(mf_function lowered, const mf_compile_options *given)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *error = NULL;
    const mf_ahead *from = mf_ahead_of(lowered, &error);
    compiler_options c;
    if (!error)
        error = read_options(&c, given && given->compiler_options.handle ? mf_object_of(given->compiler_options) : NULL);
    if (error)
        return (mf_function){ mf_handle_new(error) };
    mf_function_object *of = mf_function_of(lowered, &error)->inner;
    mf_ahead o;
    mf_signature s = {
        .arg_count = from->arg_count, .has_kwargs = from->has_kwargs, .leaf_count = from->leaf_count, .leaves = from->leaves
    };
    memcpy(s.structures, from->structures, sizeof s.structures);
    memset(&o, 0, sizeof o);
    o.traced = mf_retain(from->traced);
    o.client = from->client;
    error = keep_signature(&o, &s);
    if (!error && from->donated) {
        o.donated = mf_alloc((size_t)from->leaf_count + 1);
        error = o.donated ? NULL : mf_error_out_of_memory();
        if (!error)
            memcpy(o.donated, from->donated, (size_t)from->leaf_count);
    }
    o.client = c.client ? c.client : o.client;
    if (!error)
        error = compile_with(&o, &c);
    return stage_function(&compiled_class, of, &o, error);
}
