/* Random states under stateful maps: every device draws from a key of its own. The state's key is split around the map into the state's next
 * key and one a device, so the state holds one key before the call and after it. Invariant: only a state that holds a single key is split;
 * one that holds a key a device already is mapped by rule, like any other. */
#include "transform/map.h"

#include <manyfold/function.h>
#include <manyfold/ops.h>
#include <manyfold/random.h>
#include <manyfold/state.h>

bool mf_cell_is_split(const mf_touched_cell *c)
{
    return c->cell->type == MF_RANDOM_STATE && c->read_structure->leaf_count == 1 && mf_type_is_one_key(c->read_types[0]);
}

void mf_split_cell_axes(const mf_traced *t, mf_axis *reads, mf_axis *writes)
{
    for (int i = 0; i < t->cell_count; i++) {
        const mf_touched_cell *c = &t->cells[i];
        if (reads && mf_cell_is_split(c))
            *reads = 0;
        if (writes && c->write_structure && mf_cell_is_split(c))
            *writes = 0;
        reads += reads ? c->read_structure->leaf_count : 0;
        writes += writes && c->write_structure ? c->write_structure->leaf_count : 0;
    }
}

/* key gives (next key, one key for each of n) */
static mf_value split_for(void *n, mf_value key)
{
    mf_value keys = mf_random_split(key, (int)*(int64_t *)n + 1);
    return mf_tuple(mf_get(keys, 0), mf_get(keys, mf_range(1, MF_END)));
}

static mf_traced *trace_split(const mf_type *key, const mf_axis_env *env, int64_t size, mf_error_object **error)
{
    mf_function_object *f = mf_function_of(mf_closure(split_for, &size), error);
    mf_leaf leaf = { .type = key };
    mf_signature s = { .env = env, .arg_count = 1, .structures = { mf_structure_leaf() }, .leaf_count = 1, .leaves = &leaf };
    return f ? mf_function_trace(f, &s, error) : NULL;
}

/* q with its split inputs exchanged for the states' own keys, and its split outputs for their next ones. in: room for q's inputs; out: for its
 * outputs and one more a cell. */
static mf_program *around(const mf_traced *t, const mf_program *q, const mf_axis_env *env, int64_t size, mf_variable **in,
                          mf_variable **out, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    mf_variable **next = out + q->out_count; /* by cell */
    int first = q->in_count - mf_traced_read_count(t);
    for (int i = 0; i < first; i++)
        in[i] = mf_builder_input(&b, q->in[i]->type);
    for (int c = 0, n = first; c < t->cell_count && !*error; c++) {
        const mf_touched_cell *cell = &t->cells[c];
        bool split = mf_cell_is_split(cell);
        for (int k = 0; k < cell->read_structure->leaf_count; k++, n++)
            in[n] = mf_builder_input(&b, split ? mf_type_without_axis(q->in[n]->type, 0) : q->in[n]->type);
        mf_traced *keys = split ? trace_split(in[n - 1]->type, env, size, error) : NULL;
        if (!keys)
            continue;
        mf_variable *pair[2];
        mf_inline(&b, keys->program, &in[n - 1], pair);
        next[c] = pair[0];
        in[n - 1] = pair[1];
        mf_drop(keys);
    }
    if (!*error)
        mf_inline(&b, q, in, out);
    for (int c = 0, n = mf_traced_result_count(t); c < t->cell_count && !*error; c++) {
        if (!t->cells[c].write_structure)
            continue;
        if (mf_cell_is_split(&t->cells[c]))
            out[n] = next[c];
        n += t->cells[c].write_structure->leaf_count;
    }
    if (!*error)
        return mf_builder_finish(&b, out, q->out_count, error);
    mf_builder_abandon(&b);
    return NULL;
}

mf_program *mf_program_with_split_keys(const mf_traced *t, mf_program *q, const mf_axis_env *env, int64_t size, mf_error_object **error)
{
    bool any = false;
    for (int c = 0; c < t->cell_count; c++)
        any |= mf_cell_is_split(&t->cells[c]);
    if (!any)
        return q;
    mf_variable **in = mf_calloc((size_t)q->in_count + (size_t)q->out_count + (size_t)t->cell_count, sizeof *in);
    if (!in)
        *error = mf_error_out_of_memory();
    mf_program *made = in ? around(t, q, env, size, in, in + q->in_count, error) : NULL;
    mf_free(in);
    mf_drop(q);
    return made;
}
