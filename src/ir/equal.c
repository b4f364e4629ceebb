/* Structural equality and hashing of programs: the same equations in the same order on corresponding variables. Invariant: equal programs
 * have equal hashes, and a hash depends on contents only. Constants are equal when they are the same literal, or both are row-major and
 * have the same bytes. */
#include "ir/op.h"
#include <string.h>

/* ---- constants */
static bool constants_equal(const mf_literal *a, const mf_literal *b)
{
    if (mf_literal_same(a, b))
        return true;
    return a->type == b->type && mf_literal_is_contiguous(a) && mf_literal_is_contiguous(b) &&
           memcmp(a->data, b->data, (size_t)a->type->bytes) == 0;
}

static uint64_t hash_type(uint64_t h, const mf_type *t)
{
    h = mf_hash_mix(h, (uint64_t)t->dtype * 64 + (uint64_t)t->rank * 2 + t->weak);
    return mf_hash(t->dims, (size_t)t->rank * sizeof t->dims[0], h);
}

/* ---- equal */
/* Pairs two variables at their definitions. Constants are compared where they are used. */
static bool pair(const mf_variable *a, const mf_variable *b, const mf_variable **partner)
{
    partner[a->id] = b;
    return a->type == b->type;
}

static bool same_var(const mf_variable *a, const mf_variable *b, const mf_variable *const *partner)
{
    if (a->constant || b->constant)
        return a->constant && b->constant && constants_equal(a->constant, b->constant);
    return partner[a->id] == b;
}

static bool eqns_equal(const mf_eqn *a, const mf_eqn *b, const mf_variable **partner)
{
    if (a->op != b->op || a->in_count != b->in_count || a->out_count != b->out_count)
        return false;
    for (int i = 0; i < a->in_count; i++)
        if (!same_var(a->in[i], b->in[i], partner))
            return false;
    for (int i = 0; i < a->out_count; i++)
        if (!pair(a->out[i], b->out[i], partner))
            return false;
    return mf_params_equal(a->op, a->params, b->params);
}

static bool bodies_equal(const mf_program *a, const mf_program *b, const mf_variable **partner)
{
    for (int i = 0; i < a->in_count; i++)
        if (!pair(a->in[i], b->in[i], partner))
            return false;
    for (int i = 0; i < a->eqn_count; i++)
        if (!eqns_equal(a->eqns[i], b->eqns[i], partner))
            return false;
    for (int i = 0; i < a->out_count; i++)
        if (!same_var(a->out[i], b->out[i], partner))
            return false;
    return true;
}

bool mf_program_equal(const mf_program *a, const mf_program *b)
{
    if (a == b)
        return true;
    if (a->in_count != b->in_count || a->out_count != b->out_count || a->eqn_count != b->eqn_count)
        return false;
    const mf_variable **partner = mf_calloc((size_t)a->var_count + 1, sizeof *partner);
    bool equal = partner && bodies_equal(a, b, partner);
    mf_free(partner);
    return equal;
}

/* ---- hash */
static uint64_t hash_var(uint64_t h, const mf_variable *v, const int *number)
{
    if (!v->constant)
        return mf_hash_mix(h, (uint64_t)number[v->id]);
    h = hash_type(h, v->type);
    return v->type->rank == 0 ? mf_hash(v->constant->data, (size_t)v->type->bytes, h) : h;
}

static uint64_t hash_body(uint64_t h, const mf_program *p, int *number)
{
    int next = 0;
    for (int i = 0; i < p->in_count; i++) {
        number[p->in[i]->id] = next++;
        h = hash_type(h, p->in[i]->type);
    }
    for (int k = 0; k < p->eqn_count; k++) {
        const mf_eqn *e = p->eqns[k];
        h = mf_hash(e->op->name, strlen(e->op->name), mf_hash_mix(h, mf_params_hash(e->op, e->params)));
        for (int i = 0; i < e->in_count; i++)
            h = hash_var(h, e->in[i], number);
        for (int i = 0; i < e->out_count; i++)
            number[e->out[i]->id] = next++;
    }
    for (int i = 0; i < p->out_count; i++)
        h = hash_var(h, p->out[i], number);
    return h;
}

uint64_t mf_program_hash(const mf_program *p)
{
    uint64_t h = mf_hash_mix((uint64_t)p->in_count, mf_hash_mix((uint64_t)p->eqn_count, (uint64_t)p->out_count));
    int *number = mf_calloc((size_t)p->var_count + 1, sizeof *number);
    if (number)
        h = hash_body(h, p, number); /* out of memory: this coarse hash finds no match, which is harmless */
    mf_free(number);
    return h;
}
