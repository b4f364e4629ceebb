/* Stateful maps: pmap and vmap with rules for the states that the function reads and writes. The function is wrapped to carry its rules to
 * the mapping function, and pmap and vmap take them off. Around the mapped function is a StatefulMapping, which only records what it was
 * made of. Invariant: rules without a map around them have no effect. */
#include "transform/functions/mapped/mapped_call.h"

#include <manyfold/state.h>
#include <string.h>

/* ---- a function that carries rules */

typedef struct ruled_options {
    const mf_cell_rules *rules;
    const char *name;
} ruled_options;

static mf_traced *trace_inner(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    return mf_function_trace(f->inner, s, error);
}

static const char *ruled_name(const void *options) { return ((const ruled_options *)options)->name; }

static const mf_function_class ruled_class = { .name = "ruled", .trace = trace_inner, .name_of = ruled_name };

const mf_cell_rules *mf_rules_of(mf_function *f)
{
    mf_object *o = mf_handle_get(f->handle);
    const mf_function_object *ruled = mf_object_is(o, &mf_function_object_class) ? (const mf_function_object *)o : NULL;
    if (!ruled || ruled->kind != &ruled_class)
        return NULL;
    const mf_cell_rules *rules = ((const ruled_options *)ruled->options)->rules;
    *f = (mf_function){ mf_handle_new(mf_retain(ruled->inner)) };
    return rules;
}

/* ---- the mapping, with what it was made of */

typedef struct mapping_options {
    const mf_cell_rules *rules;
    mf_function_object *origin; /* retained */
    const char *name;
} mapping_options;

static const mapping_options *mapping_of(const mf_function_object *f) { return f->options; }
static const char *mapping_name(const void *options) { return ((const mapping_options *)options)->name; }
static void mapping_destroy(mf_function_object *f) { mf_drop(mapping_of(f)->origin); }

static const mf_ints *donate_argnums(const mf_function_object *f)
{
    static const mf_ints none;
    return f->inner->kind->donate_argnums ? f->inner->kind->donate_argnums(f->inner) : &none;
}

static const mf_function_class mapping_class = { .name = "StatefulMapping",
                                                 .trace = trace_inner,
                                                 .name_of = mapping_name,
                                                 .destroy = mapping_destroy,
                                                 .static_argnums = mf_inner_statics,
                                                 .donate_argnums = donate_argnums };

/* ---- making one */

static mf_function failed(mf_error_object *e) { return (mf_function){ mf_handle_new(e) }; }

static mf_function mapping_make(mf_function f, const mf_pmap2_options *o, mf_mapping_fn mapping_fn)
{
    mf_cell_rules rules;
    memset(&rules, 0, sizeof rules);
    rules.unexpected = (int)o->unexpected_out_state_mapping;
    mf_error_object *e = NULL;
    rules.in = mf_cell_rule_list_of(o->state_in_axes, "state_in_axes", &e);
    rules.out = e ? NULL : mf_cell_rule_list_of(o->state_out_axes, "state_out_axes", &e);
    mf_function_object *origin = e ? NULL : mf_function_of(f, &e);
    if (!origin)
        return failed(e);
    mapping_options options;
    memset(&options, 0, sizeof options);
    options.rules = mf_cell_rules_get(&rules, NULL);
    if (!options.rules)
        return failed(mf_error_out_of_memory());
    mf_pmap_options plain = {
        .axis_name = o->axis_name,
        .in_axes = o->in_axes,
        .out_axes = o->out_axes,
        .static_broadcasted_argnums = o->static_broadcasted_argnums,
        .donate_argnums = o->donate_argnums,
        .devices = o->devices,
        .backend = o->backend,
        .axis_size = o->axis_size,
        .replicated_argnums = o->replicated_argnums,
    };
    mf_function mapped = mapping_fn(
        mf_function_make(&ruled_class, origin, &(ruled_options){ options.rules, origin->name }, sizeof(ruled_options)), &plain);
    mf_function_object *inner = mf_function_of(mapped, &e);
    if (!inner)
        return failed(e);
    options.origin = mf_retain(origin);
    options.name = inner->name;
    return mf_function_make(&mapping_class, inner, &options, sizeof options);
}

static mf_function by_vmap(mf_function f, const mf_pmap_options *o)
{
    if (o->static_broadcasted_argnums.count || o->donate_argnums.count || o->replicated_argnums.count || o->devices.at || o->backend)
        return failed(mf_error_new(MF_ERROR_ARGUMENT, "vmap takes none of static_broadcasted_argnums, donate_argnums, devices, backend "
                                                      "and replicated_argnums: they are pmap's"));
    return mf_vmap_opt(
        f, &(mf_vmap_options){ .axis_name = o->axis_name, .in_axes = o->in_axes, .out_axes = o->out_axes, .axis_size = o->axis_size });
}

static const mf_pmap2_options defaults;

mf_function mf_stateful_mapping_opt(mf_function f, const mf_pmap2_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    o = o ? o : &defaults;
    return mapping_make(f, o, o->mapping_fn ? o->mapping_fn : by_vmap);
}

/* pmap2 and vmap2: a mapping with a fixed mapping function. */
static mf_function mapping_by(mf_function f, const mf_pmap2_options *o, const char *name, mf_mapping_fn mapping_fn)
{
    if (o && o->mapping_fn)
        return failed(mf_error_new(MF_ERROR_ARGUMENT, "mf_%s2 maps by mf_%s: mapping_fn is mf_stateful_mapping's", name, name));
    return mapping_make(f, o ? o : &defaults, mapping_fn);
}

mf_function mf_pmap2_opt(mf_function f, const mf_pmap2_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return mapping_by(f, o, "pmap", mf_pmap_opt);
}

mf_function mf_vmap2_opt(mf_function f, const mf_pmap2_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return mapping_by(f, o, "vmap", by_vmap);
}

/* ---- states that come out varying although no rule names them */

mf_error_object *mf_unexpected_output(const mf_cell_rules *rules, const mf_traced *t, int output, const char *what)
{
    if (rules && rules->unexpected == MF_UNEXPECTED_IGNORE)
        return NULL;
    mf_text path = { 0 };
    mf_traced_output_path(&path, t, output);
    mf_error_object *e = NULL;
    if (rules && rules->unexpected == MF_UNEXPECTED_WARN)
        mf_warn("%s: %s comes out varying over the mapped axis and no rule of state_out_axes names it; it is stacked along axis 0", what,
                path.at ? path.at : "a state");
    else
        e = mf_error_new(
            MF_ERROR_AXIS,
            "%s: %s comes out varying over the mapped axis, but no rule of state_out_axes names it; make it the same everywhere "
            "with a collective such as psum, or name it in state_out_axes",
            what, path.at ? path.at : "a state");
    mf_text_free(&path);
    return e;
}

/* ---- inspecting a mapping */

static const mf_function_object *function_seen(mf_function f)
{
    return (const mf_function_object *)mf_handle_get_as(f.handle, &mf_function_object_class);
}

const char *(mf_function_type)(mf_function f)
{
    MF_ENTER(NULL);
    const mf_function_object *o = function_seen(f);
    return o ? o->kind->name : NULL;
}

mf_function(mf_function_origin)(mf_function f)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    mf_function_object *o = mf_function_of(f, &e);
    if (!o)
        return failed(e);
    mf_function_object *origin = o->kind == &mapping_class ? mapping_of(o)->origin : o->inner ? o->inner : o;
    return (mf_function){ mf_handle_new(mf_retain(origin)) };
}

static mf_state_axis_rules rules_seen(mf_function f, bool in)
{
    const mf_function_object *o = function_seen(f);
    if (!o || o->kind != &mapping_class)
        return (mf_state_axis_rules){ 0 };
    return mf_cell_rules_handle(in ? mapping_of(o)->rules->in : mapping_of(o)->rules->out);
}

mf_state_axis_rules(mf_function_state_in_axes)(mf_function f)
{
    MF_ENTER((mf_state_axis_rules){ MF_FORK_HANDLE });
    return rules_seen(f, true);
}

mf_state_axis_rules(mf_function_state_out_axes)(mf_function f)
{
    MF_ENTER((mf_state_axis_rules){ MF_FORK_HANDLE });
    return rules_seen(f, false);
}
