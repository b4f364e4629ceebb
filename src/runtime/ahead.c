/* Ahead of time: the program of a call as text, and calls compiled for one signature. A compiled call is a function that traces nothing:
 * it compares the arguments' trees, types and statics with those it was made for and runs its executable.
 * Costs come from the rows' .cost, multiplied by devices and trip counts; memory from the plan. */
#include "trace/dispatch.h"

#include "ops/rows.h"
#include "passes/passes.h"
#include "runtime/dispatch.h"
#include "runtime/executable.h"

#include <manyfold/function.h>
#include <string.h>

typedef struct compiled_options {
    mf_traced *traced; /* retained; its address is the identity */
    int arg_count, leaf_count;
    bool has_kwargs;
    const mf_structure *structures[MF_MAX_ARGUMENTS];
    mf_leaf *leaves; /* owned; objects of statics retained */
    bool *donated;   /* owned; by typed leaf; NULL: none */
} compiled_options;

static void compiled_destroy(mf_function_object *f)
{
    compiled_options *o = f->options;
    mf_drop(o->traced);
    for (int i = 0; o->leaves && i < o->leaf_count; i++)
        mf_drop(o->leaves[i].object);
    mf_free(o->leaves);
    mf_free(o->donated);
}

/* ---- does a call fit? */

static mf_error_object *other_tree(const mf_function_object *f, const mf_signature *s)
{
    const compiled_options *o = f->options;
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
    const compiled_options *o = f->options;
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
    const compiled_options *o = f->options;
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
    const compiled_options *o = f->options;
    if (mf_trace_current())
        return mf_fail(MF_ERROR_TRACER,
                       "a compiled function was called under a transform: it exists for one signature and has no program to transform (%s)",
                       f->inner->name);
    mf_signature s;
    mf_leaf few[32], *leaves = few;
    s.leaf_count = 32;
    mf_error_object *error = mf_signature_make(&s, &leaves, f->inner, arguments, count);
    if (!error)
        error = check_fit(f, &s);
    mf_value result = { 0 };
    mf_object **typed = error ? NULL : mf_alloc(((size_t)s.leaf_count + 1) * sizeof *typed);
    if (typed) {
        int n = 0;
        for (int i = 0; i < s.leaf_count; i++)
            if (s.leaves[i].type)
                typed[n++] = s.leaves[i].object;
        result = mf_dispatch_traced(o->traced, typed, o->donated);
        mf_free(typed);
    } else if (!error) {
        error = mf_error_out_of_memory();
    }
    if (leaves != few)
        mf_free(leaves);
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
    .name = "compiled", .trace = compiled_trace, .call = compiled_call, .destroy = compiled_destroy
};

/* ---- making them */

/* The traced program of a call; leaves as in mf_signature_make. */
static mf_traced *trace_call(mf_function function, const mf_value *arguments, int count, mf_signature *s, mf_leaf **leaves,
                             mf_function_object **f, mf_error_object **error)
{
    *f = mf_function_of(function, error);
    if (!*f)
        return NULL;
    *error = mf_signature_make(s, leaves, *f, arguments, count);
    return *error ? NULL : mf_function_trace(*f, s, error);
}

const char *mf_lower_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER;
    mf_error_object *error = NULL;
    mf_text text = { 0 };
    mf_signature s;
    mf_leaf few[32], *leaves = few;
    s.leaf_count = 32;
    mf_function_object *f;
    mf_traced *t = trace_call(function, arguments, count, &s, &leaves, &f, &error);
    mf_program *p = t ? mf_optimize(t->program, NULL, &error) : NULL;
    if (p)
        mf_program_print(&text, p);
    else
        mf_text_put(&text, mf_error_text(error));
    mf_drop(p);
    mf_drop(t);
    mf_drop(error);
    if (leaves != few)
        mf_free(leaves);
    return mf_text_to_scope(&text);
}

static mf_error_object *keep_signature(compiled_options *o, const mf_signature *s)
{
    o->arg_count = s->arg_count;
    o->leaf_count = s->leaf_count;
    o->has_kwargs = s->has_kwargs;
    memcpy(o->structures, s->structures, (size_t)s->arg_count * sizeof *o->structures);
    o->leaves = mf_calloc((size_t)s->leaf_count + 1, sizeof *o->leaves);
    if (!o->leaves)
        return mf_error_out_of_memory();
    for (int i = 0; i < s->leaf_count; i++) {
        o->leaves[i] = s->leaves[i];
        o->leaves[i].object = s->leaves[i].type ? NULL : mf_retain(s->leaves[i].object);
    }
    return NULL;
}

mf_function mf_compile_n(mf_function function, const mf_value *arguments, int count)
{
    MF_ENTER;
    mf_error_object *error = NULL;
    mf_signature s;
    mf_leaf few[32], *leaves = few;
    s.leaf_count = 32;
    mf_function_object *f;
    compiled_options o;
    memset(&o, 0, sizeof o);
    o.traced = trace_call(function, arguments, count, &s, &leaves, &f, &error);
    if (o.traced)
        error = keep_signature(&o, &s);
    if (!error && f->kind->donate_argnums && !(o.donated = mf_calloc((size_t)s.leaf_count + 1, sizeof *o.donated)))
        error = mf_error_out_of_memory();
    if (!error && o.donated)
        error = mf_signature_donated(&s, f, o.donated);
    if (!error)
        mf_dispatch_compile(o.traced, o.donated, &error);
    if (leaves != few)
        mf_free(leaves);
    if (!error)
        return mf_function_make(&compiled_class, f, &o, sizeof o);
    mf_function_object scratch = { .options = &o };
    compiled_destroy(&scratch);
    return (mf_function){ mf_handle_new(error) };
}

/* ---- what it costs */

static void add_costs(const mf_program *p, double times, mf_compiled_costs *out)
{
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        int nested = mf_params_program_count(e->op, e->params);
        double inside = times;
        if (e->op == &mf_op_pmap)
            inside *= (double)((const mf_pmap_params *)e->params)->axis_size;
        else if (e->op == &mf_op_scan)
            inside *= (double)((const mf_scan_params *)e->params)->length;
        for (int k = 0; k < nested; k++)
            add_costs(*mf_params_program_at(e->op, e->params, k), inside, out);
        if (nested)
            continue;
        mf_cost c = e->op->cost(e);
        out->flops += times * c.flops;
        out->bytes_accessed += times * c.bytes;
    }
}

mf_status mf_compiled_analysis(mf_function function, mf_compiled_costs *out)
{
    MF_ENTER;
    memset(out, 0, sizeof *out);
    mf_error_object *error = NULL;
    mf_function_object *f = mf_function_of(function, &error);
    if (!error && f->kind != &compiled_class)
        error = mf_error_new(MF_ERROR_ARGUMENT, "%s is not a compiled function: make one with mf_compile", f->name);
    if (error) {
        mf_status status = error->status;
        mf_drop(error); /* reported through the hook: nobody gets it */
        return status;
    }
    const compiled_options *o = f->options;
    const mf_program *p = o->traced->program;
    add_costs(p, 1, out);
    for (int i = 0; i < p->in_count; i++)
        out->argument_bytes += p->in[i]->type->bytes;
    for (int i = 0; i < p->out_count; i++)
        out->result_bytes += p->out[i]->type->bytes;
    for (int i = 0; o->donated && i < p->in_count - mf_traced_read_count(o->traced); i++)
        out->aliased_bytes += o->donated[i] ? p->in[i]->type->bytes : 0;
    mf_executable_memory((mf_executable *)atomic_load(&o->traced->executable), &out->temporary_bytes, &out->device_bytes);
    return MF_OK;
}
