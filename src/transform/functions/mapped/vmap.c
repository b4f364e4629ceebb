/* vmap as a function: the inner function is traced on unbatched types with the axis in scope, and its program batched. */
#include "passes/passes.h"
#include "transform/functions/mapped/mapped_call.h"
#include "transform/transform.h"

#include <manyfold/transforms.h>
#include <string.h>

typedef struct vmap_options {
    const char *axis_name;
    mf_axis in_axes, out_axes;
    int64_t axis_size;
    const mf_cell_rules *rules; /* chained to the signature's at trace time; NULL: cells are not mapped */
} vmap_options;

/* Batches inner's program. The axes are those of the call's leaves, then captures (not mapped), then cells. */
static mf_traced *batch_traced(mf_function_object *f, const mf_signature *s, const mf_mapped_call *m, mf_traced *inner,
                               mf_error_object **error)
{
    const vmap_options *o = f->options;
    const mf_program *p = inner->program;
    int *in_axis = mf_alloc(((size_t)p->in_count + (size_t)p->out_count + 1) * sizeof *in_axis),
        *out_axis = in_axis ? in_axis + p->in_count : NULL;
    mf_axis *axes = mf_alloc(((size_t)p->in_count + (size_t)p->out_count + 1) * sizeof *axes);
    mf_traced *t = NULL;
    if (in_axis && axes) {
        int n = 0, reads = mf_traced_read_count(inner);
        for (int i = 0; i < s->leaf_count; i++)
            if (s->leaves[i].type)
                in_axis[n++] = m->axes[i] == MF_NONE ? -1 : (int)m->axes[i];
        while (n < p->in_count - reads)
            in_axis[n++] = -1;
        mf_mapped_cell_axes(inner, o->rules, axes);
        if (o->rules)
            mf_split_cell_axes(inner, axes, NULL);
        for (int i = 0; i < reads; i++, n++)
            in_axis[n] = axes[i] == MF_NONE ? -1 : (int)(axes[i] < 0 ? axes[i] + p->in[n]->type->rank + 1 : axes[i]);
        *error = mf_mapped_out_axes(inner, f, o->out_axes, o->rules, "vmap", axes);
        int results = mf_traced_result_count(inner);
        if (o->rules && !*error)
            mf_split_cell_axes(inner, NULL, axes + results);
        for (int i = 0; i < p->out_count && !*error; i++)
            out_axis[i] = axes[i] != MF_NONE ? (int)axes[i] : i < results ? MF_BATCH_NONE : MF_BATCH_FIRST;
        mf_program *q = *error ? NULL : mf_batch_program(p, s->env, o->axis_name, m->size, in_axis, out_axis, error);
        if (q)
            *error = mf_program_step(q, s->env, "vmap");
        for (int i = results; q && i < p->out_count && !*error; i++)
            if (axes[i] == MF_NONE && out_axis[i] >= 0)
                *error = mf_unexpected_output(o->rules, inner, i, f->name);
        if (*error)
            mf_drop(q);
        else if (q)
            t = o->rules ? mf_traced_with_split_keys(inner, q, s->env, m, error)
                         : mf_traced_with(inner, q, inner->result, inner->result_statics);
    }
    mf_free(in_axis);
    mf_free(axes);
    return t;
}

static mf_traced *vmap_trace(mf_function_object *f, const mf_signature *s, mf_error_object **error)
{
    const vmap_options *o = f->options;
    mf_mapped_call m = { 0 };
    mf_traced *inner = NULL, *t = NULL;
    *error = mf_mapped_call_make(&m, f, s, o->in_axes, o->axis_size, "vmap");
    bool unknown = !*error && m.size < 0;
    if (!*error && (!unknown || o->rules))
        inner = mf_mapped_trace(&m, f, s, o->axis_name, false, o->rules, unknown, NULL, error);
    if (unknown && m.size < 0 && !*error)
        *error = mf_error_new(MF_ERROR_AXIS,
                              "vmap: at least one argument must have a mapped axis, or axis_size must be given; every in_axes is none");
    if (inner && !*error)
        t = batch_traced(f, s, &m, inner, error);
    if (!t && !*error)
        *error = mf_error_out_of_memory();
    mf_drop(inner);
    mf_mapped_call_free(&m);
    return t;
}

static const mf_function_class vmap_class = { .name = "vmap", .trace = vmap_trace, .static_argnums = mf_inner_statics };

mf_function mf_vmap_opt(mf_function f, const mf_vmap_options *o)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    static const mf_vmap_options none;
    o = o ? o : &none;
    vmap_options options;
    memset(&options, 0, sizeof options);
    options.axis_name = mf_intern(o->axis_name);
    options.in_axes = o->in_axes;
    options.out_axes = o->out_axes;
    options.axis_size = o->axis_size;
    options.rules = mf_rules_of(&f);
    return mf_function_wrap(&vmap_class, f, &options, sizeof options);
}
