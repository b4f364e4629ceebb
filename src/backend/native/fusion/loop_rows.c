/* Scans cut by rows. Where everything that a scan carries, reads and stacks has rows of its own along the first dimension, such as the
 * sequences of a batch in a recurrent cell, the rows' loops do not depend on each other: each core runs some of the rows from the first
 * round to the last.
 * Invariants: the number of parts depends on the number of rows alone; a row is computed by the same operations as in the whole. */
#include "backend/native/fusion/loop_step.h"
#include "ops/params.h"
#include "ops/ops.h"
#include "passes/rewrite.h"

enum { LEAST_ROWS = 8, MOST_PARTS = 16 };

typedef struct row_cut {
    int64_t rows, some; /* of the whole; of a part */
    bool *has;          /* by variable: its first dimension counts the rows */
} row_cut;

/* ------------------------------------------------------------------ whether rows are independent */

static bool begins_with(const mf_type *t, int64_t rows) { return t->rank > 0 && t->dims[0] == rows; }

static bool all_have_rows(const row_cut *c, const mf_eqn *e)
{
    for (int i = 0; i < e->in_count; i++)
        if (!c->has[e->in[i]->id])
            return false;
    return true;
}

/* The left operand's first dimension is neither summed nor a batch dimension, so it is the result's first. */
static bool product_keeps(const row_cut *c, const mf_eqn *e)
{
    const mf_dot_params *p = e->params;
    return c->has[e->in[0]->id] && !c->has[e->in[1]->id] && !p->lhs_batch->count && !mf_ints_has(p->lhs_contract, 0);
}

/* Whether the result has the rows if the operands do. */
static bool keeps(const row_cut *c, const mf_eqn *e)
{
    const mf_type *t = e->out[0]->type;
    if (e->op == &mf_op_dot_general)
        return product_keeps(c, e);
    if (e->op == &mf_op_pad) {
        const mf_pad_params *p = e->params;
        return !c->has[e->in[1]->id] && !p->low->at[0] && !p->high->at[0] && !p->interior->at[0];
    }
    if (!all_have_rows(c, e) || !begins_with(t, c->rows))
        return false;
    if (e->op->flags & MF_OP_ELEMENTWISE || e->op == &mf_op_reshape)
        return true;
    if (e->op == &mf_op_broadcast_in_dim)
        return ((const mf_broadcast_params *)e->params)->broadcast_dimensions->at[0] == 0;
    if (e->op == &mf_op_transpose)
        return ((const mf_permutation_params *)e->params)->permutation->at[0] == 0;
    if (e->op == &mf_op_slice)
        return ((const mf_slice_params *)e->params)->strides->at[0] == 1;
    if (e->op == &mf_op_concatenate)
        return ((const mf_axis_params *)e->params)->axis != 0;
    return e->op->reduced == MF_REDUCED_AXES && !mf_ints_has(((const mf_axes_params *)e->params)->axes, 0);
}

/* All rows are equal, so a part has the same value with fewer rows. */
static bool rows_are_equal(const row_cut *c, const mf_eqn *e)
{
    return e->op == &mf_op_broadcast_in_dim && begins_with(e->out[0]->type, c->rows) &&
           !mf_ints_has(((const mf_broadcast_params *)e->params)->broadcast_dimensions, 0);
}

static bool rows_are_independent(row_cut *c, const mf_program *p, int64_t consts)
{
    for (int64_t i = consts; i < p->in_count; i++) {
        if (!begins_with(p->in[i]->type, c->rows))
            return false;
        c->has[p->in[i]->id] = true;
    }
    for (int i = 0; i < p->eqn_count; i++) {
        const mf_eqn *e = p->eqns[i];
        bool any = false;
        for (int k = 0; k < e->in_count; k++)
            any = any || c->has[e->in[k]->id];
        if (any && (e->out_count != 1 || !keeps(c, e)))
            return false;
        if (any || rows_are_equal(c, e))
            c->has[e->out[0]->id] = true;
    }
    for (int o = 0; o < p->out_count; o++)
        if (!c->has[p->out[o]->id])
            return false;
    return true;
}

static int64_t parts_of(int64_t rows)
{
    for (int64_t parts = MOST_PARTS; parts > 1; parts--)
        if (rows % parts == 0 && rows / parts >= LEAST_ROWS)
            return parts;
    return 1;
}

/* ------------------------------------------------------------------ the smaller body */

static const mf_intlist *with_first(const mf_intlist *list, int64_t first)
{
    int64_t at[MF_MAX_RANK];
    for (int i = 0; i < list->count; i++)
        at[i] = i ? list->at[i] : first;
    return mf_ints_intern(at, list->count);
}

static void equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const row_cut *c = r->state;
    const void *params = e->params;
    mf_shape_params shape;
    mf_broadcast_params broadcast;
    mf_slice_params slice;
    if (!c->has[e->out[0]->id]) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    if (e->op == &mf_op_reshape) {
        shape = (mf_shape_params){ with_first(((const mf_shape_params *)params)->shape, c->some) };
        params = &shape;
    } else if (e->op == &mf_op_broadcast_in_dim) {
        broadcast = *(const mf_broadcast_params *)params;
        broadcast.shape = with_first(broadcast.shape, c->some);
        params = &broadcast;
    } else if (e->op == &mf_op_slice) {
        slice = *(const mf_slice_params *)params;
        slice.limit = with_first(slice.limit, c->some);
        params = &slice;
    }
    mf_rewrite_replace(r, e, params, in, e->in_count, NULL);
}

static mf_program *body_of(row_cut *c, const mf_program *p, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, NULL);
    mf_rewrite r = { .b = &b, .source = p, .equation = equation, .state = c };
    r.map = mf_rewrite_alloc(&r, p->var_count, sizeof *r.map);
    for (int i = 0; r.map && i < p->in_count; i++) {
        const mf_type *t = p->in[i]->type;
        int64_t dims[MF_MAX_RANK];
        for (int d = 0; d < t->rank; d++)
            dims[d] = d || !c->has[p->in[i]->id] ? t->dims[d] : c->some;
        r.map[p->in[i]->id] = mf_builder_input(&b, mf_type_with_shape(t, t->rank, dims));
    }
    mf_rewrite_walk(&r);
    return mf_rewrite_finish(&r, error);
}

/* *rows: of the whole. 1: there are no rows, or too few. */
static int64_t count_parts(const mf_program *body, int64_t consts, int64_t *rows)
{
    if (body->in_count <= consts || !body->in[consts]->type->rank)
        return 1;
    *rows = body->in[consts]->type->dims[0];
    return parts_of(*rows);
}

bool mf_loop_has_parts(const mf_program *body, int64_t consts, mf_error_object **error)
{
    row_cut c = { 0 };
    if (count_parts(body, consts, &c.rows) == 1)
        return false;
    c.has = mf_calloc((size_t)body->var_count + 1, sizeof *c.has);
    if (!c.has)
        *error = mf_error_out_of_memory();
    bool independent = c.has && rows_are_independent(&c, body, consts);
    mf_free(c.has);
    return independent;
}

mf_program *mf_loop_cut_rows(mf_build *b, const mf_program *body, int64_t consts, int *parts)
{
    row_cut c = { 0 };
    int64_t count = count_parts(body, consts, &c.rows);
    *parts = 1;
    c.some = c.rows / count;
    c.has = count > 1 ? mf_build_alloc(b, (size_t)body->var_count, sizeof *c.has) : NULL;
    if (!c.has || !rows_are_independent(&c, body, consts))
        return NULL;
    mf_program *made = body_of(&c, body, &b->error);
    *parts = made ? (int)count : 1;
    return made;
}
