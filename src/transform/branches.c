/* See branches.h. */
#include "transform/branches.h"

#include "ops/emit.h"

#include <string.h>

static mf_error_object *add_capture(mf_shared *u, mf_tracer *r)
{
    for (int i = 0; i < u->capture_count; i++)
        if (u->captures[i]->var == r->var && u->captures[i]->trace_id == r->trace_id)
            return NULL;
    if (u->capture_count == 256)
        return mf_error_new(MF_ERROR_ARGUMENT, "control flow captures more than 256 values");
    u->captures[u->capture_count++] = r;
    return NULL;
}

/* The cells' leaves are the last inputs of t's program. */
static mf_error_object *add_cell(mf_shared *u, const mf_traced *t, int cell, int input)
{
    const mf_touched_cell *c = &t->cells[cell];
    for (int i = 0; i < u->cell_count; i++)
        if (u->cells[i] == c->cell) {
            u->written[i] |= c->write_structure != NULL;
            return NULL;
        }
    if (u->cell_count == 64 || u->cell_leaves + c->read_structure->leaf_count > 256)
        return mf_error_new(MF_ERROR_ARGUMENT, "control flow touches more than 64 states");
    for (int k = 0; k < c->read_structure->leaf_count; k++)
        u->cell_types[u->cell_leaves++] = t->program->in[input + k]->type;
    u->cells[u->cell_count] = c->cell;
    u->structures[u->cell_count] = c->read_structure;
    u->written[u->cell_count++] = c->write_structure != NULL;
    return NULL;
}

mf_error_object *mf_shared_add(mf_shared *u, const mf_traced *t)
{
    mf_error_object *e = NULL;
    for (int i = 0; i < t->capture_count && !e; i++)
        e = add_capture(u, t->captures[i]);
    int input = t->program->in_count - mf_traced_read_count(t);
    for (int i = 0; i < t->cell_count && !e; input += t->cells[i].read_structure->leaf_count, i++) {
        if (t->cells[i].write_structure && t->cells[i].write_structure != t->cells[i].read_structure)
            return mf_error_new(MF_ERROR_TREE, "control flow changes the tree that state %s holds",
                                t->cells[i].cell->name ? t->cells[i].cell->name : "");
        e = add_cell(u, t, i, input);
    }
    return e;
}

static int capture_index(const mf_shared *u, const mf_tracer *r)
{
    for (int i = 0; i < u->capture_count; i++)
        if (u->captures[i]->var == r->var && u->captures[i]->trace_id == r->trace_id)
            return i;
    return -1;
}

static int cell_offset(const mf_shared *u, const mf_state_cell *c)
{
    int n = 0;
    for (int i = 0; i < u->cell_count; n += u->structures[i]->leaf_count, i++)
        if (u->cells[i] == c)
            return n;
    return -1;
}

mf_program *mf_shared_program(const mf_shared *u, const mf_traced *t, const mf_axis_env *env, bool with_cells_out,
                              const mf_type *const *out_types, mf_error_object **error)
{
    const mf_program *p = t->program;
    int operands = p->in_count - t->capture_count - mf_traced_read_count(t), results = mf_traced_result_count(t), n = 0;
    mf_builder b;
    mf_builder_init(&b, env);
    size_t room = (size_t)(p->in_count + p->out_count + u->capture_count + u->cell_leaves + operands) + 1;
    mf_variable **shared = mf_calloc(room, sizeof *shared), **in = mf_calloc(room, sizeof *in), **out = mf_calloc(room, sizeof *out);
    mf_program *q = NULL;
    if (shared && in && out) {
        for (int i = 0; i < u->capture_count; i++)
            shared[i] = mf_builder_input(&b, u->captures[i]->type);
        for (int i = 0; i < operands; i++)
            in[n++] = mf_builder_input(&b, p->in[i]->type);
        for (int i = 0; i < t->capture_count; i++)
            in[n++] = shared[capture_index(u, t->captures[i])];
        mf_variable **cells = shared + u->capture_count;
        for (int i = 0; i < u->cell_leaves; i++)
            cells[i] = mf_builder_input(&b, u->cell_types[i]);
        for (int i = 0; i < t->cell_count; i++)
            for (int k = 0; k < t->cells[i].read_structure->leaf_count; k++)
                in[n++] = cells[cell_offset(u, t->cells[i].cell) + k];
        mf_inline(&b, p, in, out);
        for (int i = 0; out_types && i < results; i++)
            if (out[i] && out[i]->type != out_types[i])
                out[i] = e_convert_type(&b, out[i], out_types[i]);
        int next = results;
        for (int i = 0; i < t->cell_count; i++)
            for (int k = 0; t->cells[i].write_structure && k < t->cells[i].write_structure->leaf_count; k++)
                cells[cell_offset(u, t->cells[i].cell) + k] = out[next++];
        if (with_cells_out)
            memcpy(out + results, cells, (size_t)u->cell_leaves * sizeof *out);
        q = mf_builder_finish(&b, out, results + (with_cells_out ? u->cell_leaves : 0), error);
    } else {
        mf_builder_abandon(&b);
        *error = mf_error_out_of_memory();
    }
    mf_free(shared);
    mf_free(in);
    mf_free(out);
    return q;
}

int mf_shared_capture_values(const mf_shared *u, mf_value *out)
{
    for (int i = 0; i < u->capture_count; i++)
        out[i] = mf_value_of(u->captures[i]);
    return u->capture_count;
}

mf_error_object *mf_shared_cell_values(const mf_shared *u, mf_value *out)
{
    int n = 0;
    for (int i = 0; i < u->cell_count; i++) {
        mf_object *o = mf_object_of(mf_cell_read(u->cells[i])), *const * leaves, *self;
        if (mf_object_is(o, &mf_error_class))
            return mf_retain(o);
        int count;
        mf_tree_flatten(o, &leaves, &count, &self);
        for (int k = 0; k < count; k++)
            out[n++] = mf_value_of(leaves[k]);
    }
    return NULL;
}

mf_value mf_tree_of_values(const mf_structure *s, const mf_value *leaves)
{
    mf_object *small[64] = { 0 }, **objects = s->leaf_count <= 64 ? small : mf_alloc((size_t)s->leaf_count * sizeof *objects);
    if (!objects)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < s->leaf_count; i++) {
        objects[i] = mf_object_of(leaves[i]);
        if (mf_object_is(objects[i], &mf_error_class)) {
            mf_value e = mf_value_of(objects[i]);
            if (objects != small)
                mf_free(objects);
            return e;
        }
    }
    mf_object *o = mf_tree_build(s, objects);
    if (objects != small)
        mf_free(objects);
    return o ? mf_value_new(o) : mf_value_new(mf_error_out_of_memory());
}

mf_error_object *mf_shared_store(const mf_shared *u, const mf_value *values)
{
    for (int i = 0; i < u->cell_count; values += u->structures[i]->leaf_count, i++) {
        if (!u->written[i])
            continue;
        mf_object *o = mf_object_of(mf_cell_write(u->cells[i], mf_tree_of_values(u->structures[i], values)));
        if (mf_object_is(o, &mf_error_class))
            return mf_retain(o);
    }
    return NULL;
}
