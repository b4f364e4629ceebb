/* Cells updated in place: a program that cannot fail overwrites the values of the cells that it writes, where nobody else holds them.
 * Invariants: before anything is overwritten all operands are ready, so another call's error leaves the cells untouched; a claimed cell
 * gets its next value, pending, as soon as the run has begun, so nobody waits for a cell while the value is computed. Only if memory
 * runs out later is a claimed cell's value lost; its value is that error then. */
#include "runtime/call/claim.h"

#include <string.h>

enum { WORTH_CLAIMING = 1024 }; /* bytes of a leaf; copying a smaller one costs less than claiming it */

static bool is_worth_claiming(const mf_touched_cell *c)
{
    for (int i = 0; c->write_structure && i < c->read_structure->leaf_count; i++)
        if (c->read_types[i]->bytes >= WORTH_CLAIMING)
            return true;
    return false;
}

static bool is_any_worth_claiming(const mf_traced *t)
{
    for (int i = 0; i < t->cell_count; i++)
        if (is_worth_claiming(&t->cells[i]))
            return true;
    return false;
}

void mf_claims_free(mf_claims *c)
{
    if (c->at != c->few)
        mf_free(c->at);
    if (c->moved != c->flags)
        mf_free(c->moved);
    c->at = NULL;
    c->moved = NULL;
}

/* False: memory is out, and the call copies instead. */
static bool reserve(mf_claims *c, const mf_traced *t)
{
    size_t cells = (size_t)t->cell_count, inputs = (size_t)t->program->in_count;
    c->at = cells <= 16 ? c->few : mf_calloc(cells, sizeof *c->at);
    c->moved = inputs <= 64 ? memset(c->flags, 0, inputs) : mf_calloc(inputs, sizeof *c->moved);
    if (c->at && c->moved)
        return true;
    mf_claims_free(c);
    return false;
}

mf_error_object *mf_claims_begin(mf_claims *c, const mf_traced *t, const mf_executable *x, mf_array *const *in, mf_object *const *held)
{
    mf_error_object *error = NULL;
    c->at = NULL;
    c->moved = NULL;
    if (x->may_fail || !is_any_worth_claiming(t))
        return NULL;
    for (int i = 0; i < t->program->in_count && !error; i++)
        error = mf_array_wait(in[i]);
    if (error || !reserve(c, t))
        return error;
    int input = t->program->in_count - mf_traced_read_count(t);
    for (int i = 0; i < t->cell_count; input += t->cells[i++].read_structure->leaf_count)
        c->at[i] = (mf_cell_claim){ t->cells[i].cell, is_worth_claiming(&t->cells[i]) ? held[i] : NULL, c->moved + input, false, NULL };
    mf_cells_take(c->at, t->cell_count);
    return NULL;
}

/* Whether the run has overwritten one of them. */
static bool is_lost(const mf_cell_claim *claim, mf_array *const *in, int count)
{
    for (int i = 0; i < count; i++)
        if (claim->moved[i] && atomic_load(&in[i]->deleted))
            return true;
    return false;
}

void mf_claims_release(mf_claims *c, const mf_traced *t, mf_array *const *in, mf_array *const *out, mf_error_object *error)
{
    if (!c->at)
        return;
    int next = mf_traced_result_count(t);
    for (int i = 0; i < t->cell_count; i++) {
        const mf_structure *s = t->cells[i].write_structure;
        mf_cell_claim *claim = &c->at[i];
        if (claim->taken && out)
            claim->next = mf_tree_build(s, (mf_object *const *)(void *)(out + next));
        else if (claim->taken && is_lost(claim, in + (claim->moved - c->moved), t->cells[i].read_structure->leaf_count))
            claim->next = mf_retain(&error->object);
        if (claim->taken && out && !claim->next)
            claim->next = &mf_error_out_of_memory()->object;
        next += s ? s->leaf_count : 0;
    }
    mf_cells_release(c->at, t->cell_count);
    for (int i = 0; i < t->cell_count; i++)
        mf_drop(c->at[i].next);
}

bool mf_claims_took(const mf_claims *c, int cell) { return c->at && c->at[cell].taken; }
