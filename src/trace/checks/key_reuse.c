/* Detects random keys that are used twice, like jax_debug_key_reuse: drawing from a key and splitting it use it, folding data into it does
 * not. A use is identified by where the cipher's key words come from: an input, constant or result, and the slices taken of it on the way.
 * Invariant: programs are checked as they were traced, before any transform (remat, jvp) computes something again; whatever a function of
 * the library does inside counts as one use. Between calls the array is marked, so the same seed may be used again. */
#include "trace/checks/key_reuse.h"

#include "base/text/location.h"
#include "ops/ops.h"

#include <string.h>

typedef struct use {
    const mf_variable *root;
    uint64_t path;  /* a hash of the slices taken of it */
    const char *op; /* interned */
    const void *address;
    bool again; /* in every round of a loop */
} use;

typedef struct uses {
    use *at;
    int count, capacity;
} uses;

typedef struct key_mark { /* interned */
    const char *op;
    const void *address;
    uint64_t path;
} key_mark;

/* ---- where a value comes from */

/* An index as part of a path: by value if it is a constant, else by variable. */
static uint64_t path_of_index(const mf_variable *v)
{
    const mf_literal *l = v->constant;
    return l && l->type->bytes <= MF_ARRAY_INLINE && mf_literal_is_contiguous(l) ? mf_hash(l->data, (size_t)l->type->bytes, 0)
                                                                                 : (uintptr_t)v;
}

/* If a call or barrier returns an operand unchanged as v: that operand; else NULL. */
static const mf_variable *passed_through(const mf_variable *v)
{
    const mf_eqn *e = v->producer;
    if (e->op->flags & MF_OP_BARRIER)
        return e->in[v->output];
    if (!(e->op->flags & MF_OP_CALL))
        return NULL;
    const mf_program *p = *mf_params_program_at(e->op, e->params, 0);
    for (int i = 0; i < p->in_count; i++)
        if (p->out[v->output] == p->in[i])
            return e->in[i];
    return NULL;
}

static const mf_variable *root_of(const mf_variable *v, uint64_t *path)
{
    for (const mf_eqn *e; (e = v->producer);) {
        bool all = e->op->view == MF_VIEW_RESHAPE || e->op == &mf_op_broadcast_in_dim || e->op == &mf_op_convert_element_type;
        bool takes = !all && (e->op->view == MF_VIEW_STRIDES || e->op == &mf_op_dynamic_slice || e->op == &mf_op_gather);
        const mf_variable *through = all ? e->in[0] : passed_through(v);
        if (!through && !takes)
            return v;
        if (takes)
            *path = mf_hash_mix(mf_hash_mix(*path, (uintptr_t)e->op), mf_params_hash(e->op, e->params));
        for (int i = 1; takes && i < e->in_count; i++)
            *path = mf_hash_mix(*path, path_of_index(e->in[i]));
        v = through ? through : e->in[0];
    }
    return v;
}

/* ---- the uses of an equation */

static bool same_use(const use *a, const use *b)
{
    bool constant = a->root->constant && b->root->constant && mf_literal_same(a->root->constant, b->root->constant);
    return (a->root == b->root || constant) && a->path == b->path;
}

static const use *find_use(const uses *list, const use *u)
{
    for (int i = 0; i < list->count; i++)
        if (same_use(&list->at[i], u))
            return &list->at[i];
    return NULL;
}

static void add_use(uses *list, const use *u)
{
    if (!find_use(list, u) && mf_grow(&list->at, &list->capacity, list->count + 1, sizeof *list->at))
        list->at[list->count++] = *u;
}

static void uses_in(const mf_program *p, uses *list);

/* Drawing encrypts positions (an iota or a constant); folding in encrypts the user's data. */
static bool draws(const mf_eqn *e)
{
    uint64_t path = 0;
    const mf_variable *counter = root_of(e->in[3], &path);
    return counter->constant || (counter->producer && counter->producer->op == &mf_op_iota);
}

/* The operand that is input i of the k-th nested program, or NULL. */
static const mf_variable *operand_of(const mf_eqn *e, int k, int i, const mf_program *p)
{
    const mf_while_params *w = e->params;
    if (e->op == &mf_op_cond)
        return e->in[i + 1];
    if (e->op == &mf_op_while && k == 0)
        return e->in[i < w->cond_consts ? i : i + w->body_consts];
    if (e->op == &mf_op_while)
        return e->in[i + w->cond_consts];
    return p->in_count == e->in_count ? e->in[i] : NULL;
}

/* Whether input i has the same value in every round of the loop. */
static bool stays_in_loop(const mf_eqn *e, int k, int i, const mf_program *p)
{
    const mf_scan_params *s = e->params;
    const mf_while_params *w = e->params;
    if (e->op == &mf_op_scan && s->length > 1)
        return i < s->consts || (i < s->consts + s->carry && p->out[i - s->consts] == p->in[i]);
    if (e->op != &mf_op_while)
        return false;
    int64_t carry = i - (k ? w->body_consts : w->cond_consts);
    return carry < 0 || w->body->out[carry] == w->body->in[w->body_consts + carry];
}

static void uses_in_nested(const mf_eqn *e, int k, uses *list)
{
    const mf_program *p = *mf_params_program_at(e->op, e->params, k);
    uses inside = { NULL, 0, 0 };
    uses_in(p, &inside);
    for (int n = 0; n < inside.count; n++) {
        use u = inside.at[n];
        int i = 0;
        while (i < p->in_count && p->in[i] != u.root)
            i++;
        const mf_variable *operand = i < p->in_count ? operand_of(e, k, i, p) : NULL;
        if (!operand && !u.root->constant)
            continue;
        u.again |= u.root->constant ? e->op->flags & MF_OP_LOOP : stays_in_loop(e, k, i, p);
        if (operand)
            u.root = root_of(operand, &u.path);
        if (e->op == &mf_op_jit)
            u.op = ((const mf_jit_params *)e->params)->name;
        u.address = u.again ? u.address : e->address;
        add_use(list, &u);
    }
    mf_free(inside.at);
}

static void uses_of(const mf_eqn *e, uses *list)
{
    if (e->op == &mf_op_threefry2x32 && draws(e)) {
        use u = { .op = e->op->name, .address = e->address };
        u.root = root_of(e->in[0], &u.path);
        add_use(list, &u);
    }
    for (int k = 0, n = mf_params_program_count(e->op, e->params); k < n; k++)
        uses_in_nested(e, k, list);
}

static void uses_in(const mf_program *p, uses *list)
{
    for (int i = 0; i < p->eqn_count; i++)
        uses_of(p->eqns[i], list);
}

/* ---- the checks */

static mf_error_object *used_twice(const char *op, const void *address, const char *before, const void *address_before)
{
    const char *location = address_before ? mf_location_of(address_before) : NULL;
    return mf_error_new_at(address, MF_ERROR_ARGUMENT,
                           "%s: this random key was used before, by %s%s%s%s: the same numbers come again; split it", op, before,
                           location ? " (" : "", location ? location : "", location ? ")" : "");
}

mf_error_object *mf_keys_check(const mf_program *p)
{
    uses all = { NULL, 0, 0 };
    mf_error_object *error = NULL;
    for (int i = 0; i < p->eqn_count && !error; i++) {
        uses here = { NULL, 0, 0 };
        uses_of(p->eqns[i], &here);
        for (int n = 0; n < here.count && !error; n++) {
            const use *u = &here.at[n], *before = find_use(&all, u);
            if (before)
                error = used_twice(u->op, u->address, before->op, before->address);
            else if (u->again)
                error = mf_error_new_at(u->address, MF_ERROR_ARGUMENT,
                                        "%s: each turn of the loop uses the same random key: split it, or carry the next one", u->op);
            add_use(&all, u);
        }
        mf_free(here.at);
    }
    mf_free(all.at);
    return error;
}

mf_error_object *mf_keys_use(const mf_program *p, mf_array *const *in)
{
    static _Atomic(mf_interner *) table;
    uses all = { NULL, 0, 0 };
    mf_error_object *error = NULL;
    uses_in(p, &all);
    for (int n = 0; n < all.count && !error; n++)
        for (int i = 0; i < p->in_count && !error; i++) {
            if (p->in[i] != all.at[n].root)
                continue;
            key_mark mark;
            memset(&mark, 0, sizeof mark);
            mark.op = all.at[n].op;
            mark.address = mf_entry_location();
            mark.path = all.at[n].path;
            const void *made = mf_interner_get(mf_interner_static(&table), &mark, sizeof mark), *none = NULL;
            if (atomic_compare_exchange_strong(&in[i]->key_mark, &none, made))
                continue;
            const key_mark *before = none;
            if (before->path == mark.path)
                error = used_twice(mark.op, mark.address, before->op, before->address);
        }
    mf_free(all.at);
    return error;
}
