/* Traced programs: counting their inputs and outputs, and making variants. See function.h. */
#include "trace/function.h"

#include <string.h>

static void traced_destroy(mf_object *o)
{
    mf_traced *t = (mf_traced *)o;
    mf_drop(t->program);
    for (int i = 0; t->result_statics && i < t->result->leaf_count; i++)
        mf_drop(t->result_statics[i]);
    for (int i = 0; i < t->capture_count; i++)
        mf_drop(t->captures[i]);
    for (int i = 0; i < t->cell_count; i++)
        mf_drop(t->cells[i].cell);
    mf_drop(atomic_load(&t->executable));
    for (size_t i = 0; i < sizeof t->halves / sizeof *t->halves; i++)
        mf_drop(atomic_load(&t->halves[i]));
    mf_arena_free(&t->arena);
}
const mf_class mf_traced_class = { "traced program", traced_destroy };

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
    b.address = mf_entry_location();
    mf_eqn *e = mf_emit_eqn(&b, op, params, operands, in_count);
    mf_program *p = mf_builder_finish(&b, e ? e->out : NULL, e ? e->out_count : 0, error);
    mf_free(operands);
    return p;
}
