/* Random states under stateful maps: every device draws from a key of its own. Around the map the state's key is split into the state's
 * next key and one per device, so the state holds a single key before and after the call, whether the function draws from it or only reads
 * it. Invariant: only a state that holds a single key is split; one that holds a key per device is mapped by rule, like any other. */
#include "transform/functions/mapped/mapped_call.h"

#include <manyfold/array.h>
#include <manyfold/function.h>
#include <manyfold/random.h>
#include <manyfold/state.h>
#include <manyfold/indexing.h>

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

typedef struct row_split {
    int64_t size; /* of the axis */
    const mf_intlist *local;
} row_split;

static mf_value take_rows(mf_value keys, const mf_intlist *rows)
{
    double *indices = mf_alloc((size_t)rows->count * sizeof *indices);
    if (!indices)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < rows->count; i++)
        indices[i] = (double)rows->at[i];
    mf_value taken = mf_take(keys, mf_array_n(MF_I32, MF_SHAPE(rows->count), indices, rows->count), 0);
    mf_free(indices);
    return taken;
}

/* Maps key to (next key, one key for each row of this process). A row's key depends on its index, not on the process it is in. */
static mf_value split_for(void *context, mf_value key)
{
    const row_split *p = context;
    mf_value keys = mf_random_split(key, (int)p->size + 1), rows = mf_get(keys, mf_range(1, MF_END));
    if (p->local)
        rows = take_rows(rows, p->local);
    return mf_tuple(mf_get(keys, 0), rows);
}

static mf_traced *trace_split(const mf_type *key, const mf_axis_env *env, const mf_mapped_call *m, mf_error_object **error)
{
    row_split p = { mf_mapped_axis_size(m), m->local };
    mf_function_object *f = mf_function_of(mf_closure(split_for, &p), error);
    mf_leaf leaf = { .type = key };
    mf_signature s = {
        .env = env, .client = mf_trace_client(), .arg_count = 1, .structures = { mf_structure_leaf() }, .leaf_count = 1, .leaves = &leaf
    };
    return f ? mf_function_trace(f, &s, error) : NULL;
}

/* The variables of a program built around another: the inner inputs, the inner outputs, the states' next keys, the new outputs. */
typedef struct wrapped {
    mf_variable **in, **out, **next, **all;
} wrapped;

/* Makes the inputs; the key of a split state is replaced by one key per device. */
static void split_inputs(mf_builder *b, const mf_traced *t, const mf_program *q, const mf_axis_env *env, const mf_mapped_call *m,
                         wrapped *w, mf_error_object **error)
{
    int n = q->in_count - mf_traced_read_count(t);
    for (int i = 0; i < n; i++)
        w->in[i] = mf_builder_input(b, q->in[i]->type);
    for (int c = 0; c < t->cell_count && !*error; c++) {
        const mf_touched_cell *cell = &t->cells[c];
        bool split = mf_cell_is_split(cell);
        for (int k = 0; k < cell->read_structure->leaf_count; k++, n++)
            w->in[n] = mf_builder_input(b, split ? mf_type_without_axis(q->in[n]->type, 0) : q->in[n]->type);
        mf_traced *keys = split ? trace_split(w->in[n - 1]->type, env, m, error) : NULL;
        if (!keys)
            continue;
        mf_variable *pair[2];
        mf_inline(b, keys->program, &w->in[n - 1], pair);
        w->next[c] = pair[0];
        w->in[n - 1] = pair[1];
        mf_drop(keys);
    }
}

/* Collects the results, then the cells' new values; for a split state its next key. */
static int gather_outputs(const mf_traced *t, wrapped *w)
{
    int n = 0, from = 0, count = mf_traced_result_count(t);
    while (from < count)
        w->all[n++] = w->out[from++];
    for (int c = 0; c < t->cell_count; c++) {
        const mf_touched_cell *cell = &t->cells[c];
        int written = cell->write_structure ? cell->write_structure->leaf_count : 0;
        if (mf_cell_is_split(cell))
            w->all[n++] = w->next[c];
        else
            for (int k = 0; k < written; k++)
                w->all[n++] = w->out[from + k];
        from += written;
    }
    return n;
}

static mf_program *around(const mf_traced *t, const mf_program *q, const mf_axis_env *env, const mf_mapped_call *m, wrapped *w,
                          mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, env);
    split_inputs(&b, t, q, env, m, w, error);
    if (*error) {
        mf_builder_abandon(&b);
        return NULL;
    }
    mf_inline(&b, q, w->in, w->out);
    return mf_builder_finish(&b, w->all, gather_outputs(t, w), error);
}

mf_traced *mf_traced_with_split_keys(const mf_traced *t, mf_program *q, const mf_axis_env *env, const mf_mapped_call *m,
                                     mf_error_object **error)
{
    int in = q->in_count, out = q->out_count, cells = t->cell_count;
    mf_variable **lists = mf_calloc((size_t)in + 2 * ((size_t)out + (size_t)cells) + 1, sizeof *lists);
    wrapped w = { lists, lists + in, lists + in + out, lists + in + out + cells };
    mf_program *made = lists ? around(t, q, env, m, &w, error) : NULL;
    mf_free(lists);
    mf_drop(q);
    mf_traced *r = made ? mf_traced_with(t, made, t->result, t->result_statics) : NULL;
    for (int c = 0; r && c < r->cell_count; c++)
        if (mf_cell_is_split(&r->cells[c]))
            r->cells[c].write_structure = r->cells[c].read_structure;
    return r;
}
