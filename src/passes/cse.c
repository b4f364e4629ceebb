/* Equal equations become one: the same op and params on the same operands, the first occurrence stays. Equal literals are one operand.
 * Invariant: deterministic (the table only finds, the program's order decides); what has an effect is never merged. Collectives may be:
 * every device runs the same program. */
#include "passes/rewrite.h"
#include <string.h>

#define LITERAL_BYTES 256 /* larger constants are compared by address only, which the builder does */

typedef struct cse_table {
    int count, capacity; /* a power of two */
    mf_eqn **at;         /* in the new program */
} cse_table;

typedef struct literal_table {
    int count, capacity;
    mf_variable **at;
} literal_table;

typedef struct seen {
    cse_table eqns;
    literal_table literals;
} seen;

/* ---- literals */
static bool is_small_literal(const mf_variable *v)
{
    return v->constant && v->type->bytes <= LITERAL_BYTES && mf_literal_is_contiguous(v->constant);
}

static bool same_literal(const mf_variable *a, const mf_variable *b)
{
    return a->type == b->type && memcmp(a->constant->data, b->constant->data, (size_t)a->type->bytes) == 0;
}

static int literal_slot(const literal_table *t, const mf_variable *v)
{
    uint64_t h = mf_hash(v->constant->data, (size_t)v->type->bytes, (uint64_t)v->type->dtype);
    int i = (int)(h & (uint64_t)(t->capacity - 1));
    while (t->at[i] && !same_literal(t->at[i], v))
        i = (i + 1) & (t->capacity - 1);
    return i;
}

static mf_variable *unique_literal(mf_rewrite *r, literal_table *t, mf_variable *v)
{
    if (!is_small_literal(v))
        return v;
    if (t->count * 2 >= t->capacity) {
        literal_table bigger = { t->count, t->capacity ? 2 * t->capacity : 32, NULL };
        if (!(bigger.at = mf_rewrite_room(r, bigger.capacity, sizeof *bigger.at)))
            return v;
        for (int i = 0; i < t->capacity; i++)
            if (t->at[i])
                bigger.at[literal_slot(&bigger, t->at[i])] = t->at[i];
        *t = bigger;
    }
    int slot = literal_slot(t, v);
    if (!t->at[slot]) {
        t->at[slot] = v;
        t->count++;
    }
    return t->at[slot];
}

/* ---- equations */
static uint64_t hash_eqn(const mf_eqn *e, mf_variable *const *in)
{
    uint64_t h = mf_hash(e->op->name, strlen(e->op->name), mf_params_hash(e->op, e->params));
    for (int i = 0; i < e->in_count; i++)
        h = mf_hash_mix(h, (uint64_t)in[i]->id);
    return h;
}

static bool same_eqn(const mf_eqn *a, const mf_eqn *b, mf_variable *const *in)
{
    if (a->op != b->op || a->in_count != b->in_count)
        return false;
    for (int i = 0; i < a->in_count; i++)
        if (a->in[i] != in[i])
            return false;
    return mf_params_equal(a->op, a->params, b->params);
}

static int eqn_slot(const cse_table *t, const mf_eqn *e, mf_variable *const *in)
{
    int i = (int)(hash_eqn(e, in) & (uint64_t)(t->capacity - 1));
    while (t->at[i] && !same_eqn(t->at[i], e, in))
        i = (i + 1) & (t->capacity - 1);
    return i;
}

static bool grow(mf_rewrite *r, cse_table *t)
{
    if (t->count * 2 < t->capacity)
        return true;
    cse_table bigger = { t->count, t->capacity ? 2 * t->capacity : 64, NULL };
    bigger.at = mf_rewrite_room(r, bigger.capacity, sizeof *bigger.at);
    if (!bigger.at)
        return false;
    for (int i = 0; i < t->capacity; i++)
        if (t->at[i])
            bigger.at[eqn_slot(&bigger, t->at[i], t->at[i]->in)] = t->at[i];
    *t = bigger;
    return true;
}

static void merge_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    seen *s = r->state;
    for (int i = 0; i < e->in_count; i++)
        in[i] = unique_literal(r, &s->literals, in[i]);
    if (mf_eqn_is_effect(e) || e->out_count == 0 || !grow(r, &s->eqns)) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    int slot = eqn_slot(&s->eqns, e, in);
    if (s->eqns.at[slot]) {
        for (int i = 0; i < e->out_count; i++)
            r->map[e->out[i]->id] = s->eqns.at[slot]->out[i];
        return;
    }
    mf_rewrite_copy(r, e, in);
    if (r->b->error)
        return;
    s->eqns.at[slot] = r->map[e->out[0]->id]->producer;
    s->eqns.count++;
}

mf_program *mf_pass_cse(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    seen s = { 0 };
    return mf_rewrite_program(p, env, merge_equation, mf_pass_cse, &s, error);
}
