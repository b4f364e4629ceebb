/* The axes of mapped calls; see mapped_call.h. The messages are JAX's where those are good. */
#include "transform/functions/mapped/mapped_call.h"

#include <string.h>

static mf_error_object *expand_in_axes(mf_mapped_call *m, const mf_function_object *f, const mf_signature *s, mf_axis in_axes)
{
    int positional = s->arg_count - s->has_kwargs, n = 0;
    for (int i = 0; i < positional; i++)
        n += s->structures[i]->leaf_count;
    for (int i = n; i < s->leaf_count; i++)
        m->axes[i] = 0; /* keyword arguments are mapped over axis 0 */
    const mf_structure *arguments = mf_structure_node(MF_NODE_TUPLE, NULL, s->structures, positional);
    if (!arguments)
        return mf_error_out_of_memory();
    mf_text what = { 0 };
    mf_text_add(&what, "%s in_axes", f->kind->name);
    mf_error_object *e = mf_axes_expand(in_axes, arguments, what.at ? what.at : "in_axes", m->axes);
    mf_text_free(&what);
    if (!e || !s->has_kwargs)
        return e;
    mf_error_object *said = mf_error_new(MF_ERROR_TREE,
                                         "%s; in_axes is for positional arguments, and each argument passed by keyword is "
                                         "mapped over axis 0",
                                         mf_error_text(e));
    mf_drop(e);
    return said;
}

static mf_error_object *axis_beyond_rank(const mf_function_object *f, const mf_signature *s, int leaf, mf_axis axis)
{
    mf_text path = { 0 };
    mf_signature_leaf_path(&path, s, leaf);
    mf_error_object *e = mf_error_new(MF_ERROR_AXIS, "%s: in_axes maps axis %lld of %s, which has rank %d (%s)%s", f->kind->name,
                                      (long long)axis, path.at ? path.at : "an argument", s->leaves[leaf].type->rank,
                                      mf_type_name(s->leaves[leaf].type),
                                      s->leaves[leaf].type->rank ? "" : "; a scalar can only be broadcast: MF_NONE");
    mf_text_free(&path);
    return e;
}

static mf_error_object *normalise(mf_mapped_call *m, const mf_function_object *f, const mf_signature *s)
{
    for (int i = 0; i < s->leaf_count; i++) {
        const mf_type *t = s->leaves[i].type;
        if (!t)
            m->axes[i] = MF_NONE;
        if (m->axes[i] == MF_NONE)
            continue;
        mf_axis axis = m->axes[i] < 0 ? m->axes[i] + t->rank : m->axes[i];
        if (axis < 0 || axis >= t->rank)
            return axis_beyond_rank(f, s, i, m->axes[i]);
        m->axes[i] = axis;
    }
    return NULL;
}

typedef struct mapped_size {
    int first, count; /* leaves */
} mapped_size;

static int64_t mapped_size_of(const mf_mapped_call *m, const mf_signature *s, int leaf)
{
    return s->leaves[leaf].type->dims[m->axes[leaf]];
}

/* Lists the distinct sizes of the mapped axes, each with the first leaf that has it: the commonest first, equally common ones in order. */
static int list_sizes(const mf_mapped_call *m, const mf_signature *s, mapped_size *list)
{
    int n = 0;
    for (int i = 0; i < s->leaf_count; i++) {
        int at = 0;
        if (m->axes[i] == MF_NONE)
            continue;
        while (at < n && mapped_size_of(m, s, list[at].first) != mapped_size_of(m, s, i))
            at++;
        mapped_size here = at < n ? list[at] : (mapped_size){ i, 0 };
        n += at == n;
        here.count++;
        for (; at > 0 && list[at - 1].count < here.count; at--)
            list[at] = list[at - 1];
        list[at] = here;
    }
    return n;
}

/* The error, one line per size, in JAX's words. */
static mf_error_object *inconsistent(const mf_mapped_call *m, const mf_signature *s, const char *what)
{
    mapped_size *sizes = mf_alloc(((size_t)s->leaf_count + 1) * sizeof *sizes);
    mf_text t = { 0 };
    mf_text_add(&t, "%s got inconsistent sizes for array axes to be mapped:", what);
    for (int i = 0, n = sizes ? list_sizes(m, s, sizes) : 0; i < n; i++) {
        int leaf = sizes[i].first;
        long long size = (long long)mapped_size_of(m, s, leaf), axis = (long long)m->axes[leaf];
        if (sizes[i].count > 1)
            mf_text_add(&t, "\n  * %s axes (%d of them) had size %lld, e.g. axis %lld of ", i ? "some" : "most", sizes[i].count, size,
                        axis);
        else
            mf_text_add(&t, "\n  * one axis had size %lld: axis %lld of ", size, axis);
        mf_signature_leaf_path(&t, s, leaf);
        mf_text_add(&t, " of type %s", mf_type_name(s->leaves[leaf].type));
    }
    mf_error_object *e = mf_error_new(MF_ERROR_SHAPE, "%s", t.at ? t.at : "inconsistent sizes");
    mf_text_free(&t);
    mf_free(sizes);
    return e;
}

static mf_error_object *find_size(mf_mapped_call *m, const mf_signature *s, int64_t axis_size, const char *what)
{
    m->size = -1;
    for (int i = 0; i < s->leaf_count; i++) {
        if (m->axes[i] == MF_NONE)
            continue;
        int64_t size = s->leaves[i].type->dims[m->axes[i]];
        if (m->size >= 0 && m->size != size)
            return inconsistent(m, s, what);
        m->size = size;
    }
    if (axis_size < 0)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s: axis_size is %lld", what, (long long)axis_size);
    if (axis_size && m->size >= 0 && m->size != axis_size)
        return mf_error_new(MF_ERROR_SHAPE, "%s: specified axis_size %lld doesn't match received axis_size %lld", what,
                            (long long)axis_size, (long long)m->size);
    if (axis_size)
        m->size = axis_size;
    return NULL;
}

mf_error_object *mf_mapped_call_make(mf_mapped_call *m, const mf_function_object *f, const mf_signature *s, mf_axis in_axes,
                                     int64_t axis_size, const char *what)
{
    m->axes = mf_alloc(((size_t)s->leaf_count + 1) * sizeof *m->axes);
    m->leaves = mf_alloc(((size_t)s->leaf_count + 1) * sizeof *m->leaves);
    if (!m->axes || !m->leaves)
        return mf_error_out_of_memory();
    mf_error_object *e = expand_in_axes(m, f, s, in_axes);
    if (!e)
        e = normalise(m, f, s);
    if (!e)
        e = find_size(m, s, axis_size, what);
    if (e)
        return e;
    m->inner = *s;
    m->inner.leaves = m->leaves;
    for (int i = 0; i < s->leaf_count; i++) {
        m->leaves[i] = s->leaves[i];
        if (m->axes[i] != MF_NONE)
            m->leaves[i] = (mf_leaf){ .type = mf_type_without_axis(s->leaves[i].type, (int)m->axes[i]) };
    }
    return NULL;
}

void mf_mapped_call_free(mf_mapped_call *m)
{
    mf_free(m->axes);
    mf_free(m->leaves);
}

void mf_traced_output_path(mf_text *text, const mf_traced *t, int output)
{
    int n = 0;
    for (int i = 0; i < t->result->leaf_count; i++)
        if (!(t->result_statics && t->result_statics[i]) && n++ == output) {
            mf_text_put(text, "the result");
            mf_structure_leaf_path(text, t->result, i);
            return;
        }
    for (int i = 0; i < t->cell_count; i++)
        if (t->cells[i].write_structure) {
            n += t->cells[i].write_structure->leaf_count;
            if (output < n) {
                mf_text_put(text, mf_cell_label(t->cells[i].cell));
                return;
            }
        }
}

mf_error_object *mf_mapped_out_axes(const mf_traced *t, const mf_function_object *f, mf_axis out_axes, const mf_cell_rules *rules,
                                    const char *what, mf_axis *out)
{
    mf_axis *by_leaf = mf_alloc(((size_t)t->result->leaf_count + 1) * sizeof *by_leaf);
    if (!by_leaf)
        return mf_error_out_of_memory();
    mf_text name = { 0 };
    mf_text_add(&name, "%s out_axes", f->kind->name);
    mf_error_object *e = mf_axes_expand(out_axes, t->result, name.at ? name.at : "out_axes", by_leaf);
    mf_text_free(&name);
    int n = 0;
    for (int i = 0; !e && i < t->result->leaf_count; i++)
        if (!(t->result_statics && t->result_statics[i]))
            out[n++] = by_leaf[i];
    for (int i = 0; !e && i < t->cell_count; i++)
        for (int k = 0; t->cells[i].write_structure && k < t->cells[i].write_structure->leaf_count; k++)
            out[n++] = rules ? mf_cell_rule_axis(rules->out, t->cells[i].cell) : MF_NONE;
    mf_free(by_leaf);
    for (int i = 0; !e && i < n; i++) {
        int rank = t->program->out[i]->type->rank + 1;
        mf_axis axis = out[i] == MF_NONE || out[i] >= 0 ? out[i] : out[i] + rank;
        if (axis != MF_NONE && rank > MF_MAX_RANK)
            e = mf_error_new(MF_ERROR_SHAPE, "%s: an array has at most %d dimensions, and result %d would have %d", what, MF_MAX_RANK, i,
                             rank);
        else if (axis != MF_NONE && (axis < 0 || axis >= rank)) {
            mf_text path = { 0 };
            mf_traced_output_path(&path, t, i);
            e = mf_error_new(MF_ERROR_AXIS, "%s: out_axes puts the mapped axis of %s at %lld, but it has rank %d inside the map (%s)", what,
                             path.at ? path.at : "a result", (long long)out[i], rank - 1, mf_type_name(t->program->out[i]->type));
            mf_text_free(&path);
        }
        out[i] = axis;
    }
    return e;
}

void mf_mapped_cell_axes(const mf_traced *t, const mf_cell_rules *rules, mf_axis *axes)
{
    for (int i = 0, n = 0; i < t->cell_count; i++) {
        mf_axis axis = rules ? mf_cell_rule_axis(rules->in, t->cells[i].cell) : MF_NONE;
        for (int k = 0; k < t->cells[i].read_structure->leaf_count; k++)
            axes[n++] = axis;
    }
}

/* ---- tracing the inner function, and the sizes of cells */

/* The size of the first mapped cell whose size along its axis differs from `size`, and where that is; -1 when there is none. */
static int64_t cell_size_unlike(const mf_traced *t, const mf_cell_rules *rules, int64_t size, const mf_touched_cell **cell, int *axis,
                                const mf_type **type)
{
    for (int i = 0; i < t->cell_count; i++) {
        const mf_touched_cell *c = *cell = &t->cells[i];
        mf_axis at = mf_cell_is_split(c) ? MF_NONE : mf_cell_rule_axis(rules->in, c->cell);
        for (int k = 0; at != MF_NONE && k < c->read_structure->leaf_count; k++) {
            *type = mf_cell_inner_type(rules->outer, c->cell, c->read_types[k]);
            *axis = (int)(at < 0 ? at + (*type)->rank : at);
            if ((*type)->dims[*axis] != size)
                return (*type)->dims[*axis];
        }
    }
    return -1;
}

static mf_error_object *check_cell_sizes(const mf_traced *t, const mf_cell_rules *rules, int64_t size, const char *what)
{
    const mf_touched_cell *c;
    const mf_type *type;
    int axis;
    int64_t other = cell_size_unlike(t, rules, size, &c, &axis, &type);
    return other < 0 ? NULL
                     : mf_error_new(MF_ERROR_SHAPE,
                                    "%s got inconsistent sizes for array axes to be mapped: %s of type %s has size %lld along axis "
                                    "%d, but the mapped axis has size %lld",
                                    what, mf_cell_label(c->cell), mf_type_name(type), (long long)other, axis, (long long)size);
}

static mf_traced *trace_with_size(mf_mapped_call *m, mf_function_object *f, const mf_signature *s, const char *axis_name, bool is_pmap,
                                  int64_t size, mf_error_object **error)
{
    m->inner.env = m->inside ? mf_axis_env_push_spread(s->env, axis_name, m->axis_size, m->inside)
                             : mf_axis_env_push(s->env, axis_name, m->axis_size ? m->axis_size : size, is_pmap);
    return mf_function_trace(f->inner, &m->inner, error);
}

/* Which cells the function reads is known only after tracing it: so it is traced with a guessed size, and again if the guess was wrong. */
static mf_traced *trace_by_cells(mf_mapped_call *m, mf_function_object *f, const mf_signature *s, const char *axis_name, bool is_pmap,
                                 mf_resolve_size *resolve, mf_error_object **error)
{
    mf_cell_size_seen seen = { .rules = m->inner.rules, .size = -1 };
    int64_t guess = m->size < 0 ? 1 : m->size;
    mf_cell_size_watch(&seen);
    mf_traced *t = trace_with_size(m, f, s, axis_name, is_pmap, guess, error);
    mf_cell_size_watch_end(&seen);
    const mf_touched_cell *c;
    const mf_type *type;
    int axis;
    if (t)
        seen.size = cell_size_unlike(t, m->inner.rules, -1, &c, &axis, &type);
    if (seen.size > 0)
        m->size = seen.size;
    if (seen.size <= 0 || seen.size == guess)
        return t;
    mf_drop(t);
    if (*error)
        mf_error_ignore(*error);
    *error = resolve ? resolve(f, s, m) : NULL;
    return *error ? NULL : trace_with_size(m, f, s, axis_name, is_pmap, m->size, error);
}

mf_traced *mf_mapped_trace(mf_mapped_call *m, mf_function_object *f, const mf_signature *s, const char *axis_name, bool is_pmap,
                           const mf_cell_rules *rules, bool by_cells, mf_resolve_size *resolve, mf_error_object **error)
{
    m->inner.rules = rules ? mf_cell_rules_get(rules, s->rules) : s->rules;
    mf_traced *t = by_cells ? trace_by_cells(m, f, s, axis_name, is_pmap, resolve, error)
                            : trace_with_size(m, f, s, axis_name, is_pmap, m->size, error);
    mf_error_object *e = t && rules && m->size >= 0 ? check_cell_sizes(t, m->inner.rules, m->size, is_pmap ? "pmap" : "vmap") : NULL;
    if (!e)
        return t;
    mf_drop(t);
    *error = e;
    return NULL;
}
