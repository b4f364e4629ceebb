/* See branches.h. */
#include "transform/functions/control/branches.h"

#include "base/memory/vector.h"
#include "ops/emit.h"

#include <string.h>

static int capture_index(const mf_shared *u, const mf_tracer *r)
{
    for (int i = 0; i < u->captures.count; i++)
        if (u->captures.at[i]->var == r->var && u->captures.at[i]->trace_id == r->trace_id)
            return i;
    return -1;
}

static mf_error_object *add_cell(mf_shared *u, const mf_touched_cell *c, mf_variable *const *inputs)
{
    for (int i = 0; i < u->cells.count; i++)
        if (u->cells.at[i].cell == c->cell) {
            u->cells.at[i].written |= c->write_structure != NULL;
            return NULL;
        }
    for (int k = 0; k < c->read_structure->leaf_count; k++)
        if (!mf_vector_push(&u->cell_types, inputs[k]->type))
            return mf_error_out_of_memory();
    mf_shared_cell cell = { c->cell, c->read_structure, c->write_structure != NULL };
    return mf_vector_push(&u->cells, cell) ? NULL : mf_error_out_of_memory();
}

/* What control flow writes goes on where it was read: in the next round, or behind the other branch. */
static mf_error_object *check_written(const mf_touched_cell *c, mf_variable *const *read, mf_variable *const *written)
{
    if (c->write_structure != c->read_structure)
        return mf_error_new(MF_ERROR_TREE, "control flow changes the tree that %s holds", mf_cell_label(c->cell));
    for (int k = 0; k < c->write_structure->leaf_count; k++)
        if (mf_type_strong(read[k]->type) != mf_type_strong(written[k]->type))
            return mf_error_new(mf_type_same_shape(read[k]->type, written[k]->type) ? MF_ERROR_DTYPE : MF_ERROR_SHAPE,
                                "control flow writes %s to %s, which holds %s", mf_type_name(written[k]->type), mf_cell_label(c->cell),
                                mf_type_name(read[k]->type));
    return NULL;
}

/* The cells' leaves are the last inputs of t's program, and those that are written the last results. */
mf_error_object *mf_shared_add_cells(mf_shared *u, const mf_traced *t)
{
    mf_error_object *e = NULL;
    mf_variable *const *inputs = t->program->in + t->program->in_count - mf_traced_read_count(t);
    mf_variable *const *outputs = t->program->out + mf_traced_result_count(t);
    for (int i = 0; i < t->cell_count && !e; inputs += t->cells[i].read_structure->leaf_count, i++) {
        const mf_touched_cell *c = &t->cells[i];
        e = c->write_structure ? check_written(c, inputs, outputs) : NULL;
        outputs += c->write_structure ? c->write_structure->leaf_count : 0;
        e = e ? e : add_cell(u, c, inputs);
    }
    return e;
}

mf_error_object *mf_shared_add(mf_shared *u, const mf_traced *t)
{
    for (int i = 0; i < t->capture_count; i++)
        if (capture_index(u, t->captures[i]) < 0 && !mf_vector_push(&u->captures, t->captures[i]))
            return mf_error_out_of_memory();
    return mf_shared_add_cells(u, t);
}

void mf_shared_free(mf_shared *u)
{
    mf_free(u->captures.at);
    mf_free(u->cells.at);
    mf_free(u->cell_types.at);
}

static int cell_offset(const mf_shared *u, const mf_state_cell *c)
{
    int n = 0;
    for (int i = 0; i < u->cells.count; n += u->cells.at[i].structure->leaf_count, i++)
        if (u->cells.at[i].cell == c)
            return n;
    return -1;
}

mf_program *mf_shared_program(const mf_shared *u, const mf_shared *cells, const mf_traced *t, const mf_axis_env *env, bool with_cells_out,
                              const mf_type *const *out_types, mf_error_object **error)
{
    const mf_program *p = t->program;
    int operands = p->in_count - t->capture_count - mf_traced_read_count(t), results = mf_traced_result_count(t), n = 0;
    int captures = u->captures.count, leaves = cells->cell_types.count;
    mf_builder b;
    mf_builder_init(&b, env);
    size_t capacity = (size_t)(p->in_count + p->out_count + captures + leaves + operands) + 1;
    mf_variable **shared = mf_calloc(capacity, sizeof *shared), **in = mf_calloc(capacity, sizeof *in),
                **out = mf_calloc(capacity, sizeof *out);
    mf_program *q = NULL;
    if (shared && in && out) {
        for (int i = 0; i < captures; i++)
            shared[i] = mf_builder_input(&b, u->captures.at[i]->type);
        for (int i = 0; i < operands; i++)
            in[n++] = mf_builder_input(&b, p->in[i]->type);
        for (int i = 0; i < t->capture_count; i++)
            in[n++] = shared[capture_index(u, t->captures[i])];
        mf_variable **held = shared + captures;
        for (int i = 0; i < leaves; i++)
            held[i] = mf_builder_input(&b, cells->cell_types.at[i]);
        for (int i = 0; i < t->cell_count; i++)
            for (int k = 0; k < t->cells[i].read_structure->leaf_count; k++)
                in[n++] = held[cell_offset(cells, t->cells[i].cell) + k];
        mf_inline(&b, p, in, out);
        for (int i = 0; out_types && i < results; i++)
            if (out[i] && out[i]->type != out_types[i])
                out[i] = e_convert_type(&b, out[i], out_types[i]);
        int next = results;
        for (int i = 0; i < t->cell_count; i++)
            for (int k = 0; t->cells[i].write_structure && k < t->cells[i].write_structure->leaf_count; k++)
                held[cell_offset(cells, t->cells[i].cell) + k] = out[next++];
        if (with_cells_out)
            memcpy(out + results, held, (size_t)leaves * sizeof *out);
        q = mf_builder_finish(&b, out, results + (with_cells_out ? leaves : 0), error);
    } else {
        mf_builder_abandon(&b);
        *error = mf_error_out_of_memory();
    }
    mf_free(shared);
    mf_free(in);
    mf_free(out);
    return q;
}

mf_error_object *mf_values_append(mf_values *out, const mf_value *more, int count)
{
    if (!mf_vector_reserve(out, count))
        return mf_error_out_of_memory();
    if (count)
        memcpy(out->at + out->count, more, (size_t)count * sizeof *more);
    out->count += count;
    return NULL;
}

mf_error_object *mf_shared_capture_values(const mf_shared *u, mf_values *out)
{
    for (int i = 0; i < u->captures.count; i++)
        if (!mf_vector_push(out, mf_value_of(u->captures.at[i])))
            return mf_error_out_of_memory();
    return NULL;
}

mf_error_object *mf_shared_cell_values(const mf_shared *u, mf_values *out)
{
    for (int i = 0; i < u->cells.count; i++) {
        mf_object *o = mf_object_of(mf_cell_read(u->cells.at[i].cell)), *const * leaves, *self;
        if (mf_object_is(o, &mf_error_class))
            return mf_retain(o);
        int count;
        mf_tree_flatten(o, &leaves, &count, &self);
        for (int k = 0; k < count; k++)
            if (!mf_vector_push(out, mf_value_of(leaves[k])))
                return mf_error_out_of_memory();
    }
    return NULL;
}

mf_value mf_tree_of_values(const mf_structure *s, const mf_value *leaves)
{
    MF_SMALL_ARRAY(mf_object *, objects, 64, s->leaf_count);
    if (!objects)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < s->leaf_count; i++) {
        objects[i] = mf_object_of(leaves[i]);
        if (mf_object_is(objects[i], &mf_error_class)) {
            mf_value e = mf_value_of(objects[i]);
            return e;
        }
    }
    mf_object *o = mf_tree_build(s, objects);
    return o ? mf_value_new(o) : mf_value_new(mf_error_out_of_memory());
}

mf_error_object *mf_shared_store(const mf_shared *u, const mf_value *values)
{
    for (int i = 0; i < u->cells.count; values += u->cells.at[i].structure->leaf_count, i++) {
        const mf_shared_cell *c = &u->cells.at[i];
        if (!c->written)
            continue;
        mf_object *o = mf_object_of(mf_cell_write(c->cell, mf_tree_of_values(c->structure, values)));
        if (mf_object_is(o, &mf_error_class))
            return mf_retain(o);
    }
    return NULL;
}
