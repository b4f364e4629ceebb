/* Common subexpression elimination: equations with the same op and params on the same operands are merged; the first one stays. Equal
 * literals are one operand. Invariant: deterministic (the hash maps are only looked up; the order is the program's); an equation with an
 * effect is never merged. Collectives may be: every device runs the same program. */
#include "base/memory/hash_map.h"
#include "passes/rewrite.h"
#include <string.h>

#define LITERAL_BYTES 256 /* larger constants are compared by address only, as the builder does */

typedef struct seen {
    mf_hash_map eqns;     /* equations of the new program */
    mf_hash_map literals; /* variables of the new program */
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

static mf_variable *unique_literal(mf_hash_map *literals, mf_variable *v)
{
    int at = -1;
    if (!is_small_literal(v))
        return v;
    uint64_t hash = mf_hash(v->constant->data, (size_t)v->type->bytes, (uint64_t)v->type->dtype);
    for (mf_variable *known; (known = mf_hash_map_next(literals, hash, &at));)
        if (same_literal(known, v))
            return known;
    mf_hash_map_add(literals, hash, v); /* if there is no memory for the entry, the literal is just not shared */
    return v;
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

static void merge_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    seen *s = r->state;
    int at = -1;
    for (int i = 0; i < e->in_count; i++)
        in[i] = unique_literal(&s->literals, in[i]);
    bool merges = !mf_eqn_is_effect(e) && e->out_count;
    uint64_t hash = merges ? hash_eqn(e, in) : 0;
    for (const mf_eqn *known; merges && (known = mf_hash_map_next(&s->eqns, hash, &at));)
        if (same_eqn(known, e, in)) {
            for (int i = 0; i < e->out_count; i++)
                r->map[e->out[i]->id] = known->out[i];
            return;
        }
    mf_rewrite_copy(r, e, in);
    if (merges && !r->b->error)
        mf_hash_map_add(&s->eqns, hash, r->map[e->out[0]->id]->producer);
}

mf_program *mf_pass_cse(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    seen s = { 0 };
    mf_program *made = mf_rewrite_program(p, env, merge_equation, mf_pass_cse, &s, error);
    mf_hash_map_free(&s.eqns);
    mf_hash_map_free(&s.literals);
    return made;
}
