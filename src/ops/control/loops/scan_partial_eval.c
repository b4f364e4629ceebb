/* The partial evaluation of a scan: one loop over what is known and one over the rest. Invariants: a part of the carry counts as known only
 * if it is known in every round, which is found as a fixpoint. Residuals of the second loop that differ between rounds are stacked by
 * round; one that does not differ is a constant of both loops, and slices of known xs are taken from those xs. */
#include "ops/control/loops/scan.h"

/* The operands of a loop and the inputs of its body, part by part. */
typedef struct scan_loop {
    int64_t consts, carry;
    nested_list operands;
    int count, *order; /* by new input of the body: the old one */
    int out_count, *out;
} scan_loop;

/* Splits the body, shrinking the known part of the carry until it stays known. known: by input. */
static bool split_body(mf_partial_context *c, const mf_eqn *e, bool *known, nested_parts *parts)
{
    bool *force = mf_partial_alloc(c, e->out_count, sizeof *force);
    while (force) {
        bool shrunk = false;
        for (int o = 0; o < scan_carries(e); o++)
            force[o] = !known[scan_consts(e) + o];
        if (!nested_split(c, c->env, scan_of(e)->body, known, force, parts))
            return false;
        for (int o = 0; o < scan_carries(e); o++)
            if (known[scan_consts(e) + o] && !parts->known_out[o]) {
                known[scan_consts(e) + o] = false;
                shrunk = true;
            }
        if (!shrunk)
            return true;
        nested_parts_drop(parts);
    }
    return false;
}

/* The known body may have dropped inputs, but every part of the carry that it returns must also be an input; the residuals are further
 * ys. */
static mf_program *known_body(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts, scan_loop *l)
{
    const mf_program *k = parts->known;
    mf_error_object *error = NULL;
    int extras = 0;
    int *where = mf_partial_alloc(c, e->in_count, sizeof *where);
    const mf_type **extra = mf_partial_alloc(c, e->in_count, sizeof *extra);
    l->order = mf_partial_alloc(c, e->in_count, sizeof *l->order);
    l->out = mf_partial_alloc(c, k->out_count, sizeof *l->out);
    l->operands.at = mf_partial_alloc(c, e->in_count, sizeof *l->operands.at);
    if (mf_partial_failed(c))
        return NULL;
    for (int i = 0; i < parts->known_in_count; i++)
        where[parts->known_from[i]] = i + 1;
    for (int i = 0; i < e->in_count; i++) {
        bool needed = known[i] && (where[i] || scan_part(e, i) == 1);
        if (!needed)
            continue;
        if (!where[i])
            extra[extras] = scan_of(e)->body->in[i]->type;
        l->order[l->count++] = where[i] ? where[i] - 1 : -1 - extras++;
        nested_put(&l->operands, mf_partial_known(c, e->in[i]));
        l->consts += scan_part(e, i) == 0;
        l->carry += scan_part(e, i) == 1;
    }
    for (int o = 0; o < k->out_count; o++)
        l->out[o] = o;
    mf_program *p = nested_rewire(k, c->env, l->order, l->count, extra, l->out, k->out_count, &error);
    if (!p)
        mf_partial_fail(c, error);
    return p;
}

static void emit_known(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts, mf_variable **out)
{
    scan_loop l = { 0 };
    mf_program *p = parts->known->out_count ? known_body(c, e, known, parts, &l) : NULL;
    if (p)
        scan_emit(&c->known_builder, e, p, l.consts, l.carry, scan_of(e)->reverse, &l.operands, out);
    mf_drop(p);
}

/* A residual that is a constant of the loop stays one; a slice of known xs comes from those xs; the others were stacked. A known carry that
 * is forwarded was stacked too: see stack_carries. */
static mf_program *unknown_body(mf_partial_context *c, const mf_eqn *e, const bool *known, const nested_parts *parts,
                                mf_variable *const *out, scan_loop *l)
{
    const mf_program *u = parts->unknown;
    mf_error_object *error = NULL;
    l->order = mf_partial_alloc(c, u->in_count, sizeof *l->order);
    l->out = mf_partial_alloc(c, u->out_count, sizeof *l->out);
    l->operands.at = mf_partial_alloc(c, u->in_count, sizeof *l->operands.at);
    if (mf_partial_failed(c))
        return NULL;
    for (int part = 0; part < 3; part++) {
        for (int r = 0, made = parts->known_out_count; r < parts->residual_count; r++) {
            int from = parts->forward[r];
            mf_variable *stacked = from < 0 ? out[made++] : NULL;
            if ((from < 0 ? 2 : scan_part(e, from)) != part)
                continue;
            l->order[l->count++] = r;
            nested_put(&l->operands, stacked ? mf_partial_residual(c, stacked) : mf_partial_unknown(c, e->in[from]));
        }
        for (int i = 0, at = parts->residual_count; i < e->in_count; at += !known[i++])
            if (scan_part(e, i) == part && !known[i]) {
                l->order[l->count++] = at;
                nested_put(&l->operands, mf_partial_unknown(c, e->in[i]));
            }
        l->consts = part == 0 ? l->count : l->consts;
        l->carry = part == 1 ? l->count - l->consts : l->carry;
    }
    for (int o = 0; o < u->out_count; o++)
        l->out[o] = o;
    mf_program *p = nested_rewire(u, c->env, l->order, l->count, NULL, l->out, u->out_count, &error);
    if (!p)
        mf_partial_fail(c, error);
    return p;
}

static bool is_known_carry(const mf_eqn *e, const nested_parts *parts, int residual)
{
    return parts->forward[residual] >= 0 && scan_part(e, parts->forward[residual]) == 1;
}

/* The known body with only the inputs listed in `from`, and with residuals that are a carry among its outputs. */
static mf_program *carries_stacked(mf_partial_context *c, const mf_eqn *e, const nested_parts *parts, const int *from, int ins,
                                   mf_error_object **error)
{
    const mf_program *k = parts->known;
    mf_builder b;
    int count = parts->known_out_count, made = parts->known_out_count;
    mf_builder_init(&b, c->env);
    mf_variable **in = nested_alloc(&b, e->in_count, sizeof *in), **by_input = nested_alloc(&b, e->in_count, sizeof *by_input);
    mf_variable **old = nested_alloc(&b, k->out_count, sizeof *old),
                **out = nested_alloc(&b, k->out_count + parts->residual_count, sizeof *out);
    for (int i = 0; i < ins && !b.error; i++)
        by_input[from[i]] = mf_builder_input(&b, scan_of(e)->body->in[from[i]]->type);
    for (int i = 0; i < parts->known_in_count && !b.error; i++)
        in[i] = by_input[parts->known_from[i]];
    if (!b.error)
        mf_inline(&b, k, in, old);
    for (int o = 0; o < parts->known_out_count && !b.error; o++)
        out[o] = old[o];
    for (int r = 0; r < parts->residual_count && !b.error; r++) {
        if (parts->forward[r] < 0)
            out[count++] = old[made++];
        else if (is_known_carry(e, parts, r))
            out[count++] = by_input[parts->forward[r]];
    }
    return mf_builder_finish(&b, out, b.error ? 0 : count, error);
}

/* A residual that is a known carry differs between rounds, so it cannot be forwarded from the operand: it becomes one more output of the
 * known body. */
static bool stack_carries(mf_partial_context *c, const mf_eqn *e, nested_parts *parts)
{
    mf_error_object *error = NULL;
    int ins = 0, *from = mf_partial_alloc(c, e->in_count, sizeof *from);
    bool any = false, *wanted = mf_partial_alloc(c, e->in_count, sizeof *wanted);
    if (!from || !wanted)
        return false;
    for (int i = 0; i < parts->known_in_count; i++)
        wanted[parts->known_from[i]] = true;
    for (int r = 0; r < parts->residual_count; r++)
        if (is_known_carry(e, parts, r))
            any = wanted[parts->forward[r]] = true;
    if (!any)
        return true;
    for (int i = 0; i < e->in_count; i++)
        if (wanted[i])
            from[ins++] = i;
    mf_program *p = carries_stacked(c, e, parts, from, ins, &error);
    if (!p) {
        mf_partial_fail(c, error);
        return false;
    }
    for (int r = 0; r < parts->residual_count; r++)
        if (is_known_carry(e, parts, r))
            parts->forward[r] = -1;
    mf_drop(parts->known);
    parts->known = p;
    parts->known_from = from;
    parts->known_in_count = ins;
    return true;
}

void scan_partial_eval(mf_partial_context *c, const mf_eqn *e)
{
    nested_parts parts = { 0 };
    scan_loop l = { 0 };
    bool *known = nested_known(c, e);
    mf_variable **out = NULL;
    if (!known || !split_body(c, e, known, &parts))
        return;
    if (stack_carries(c, e, &parts))
        out = mf_partial_alloc(c, e->out_count + parts.residual_count, sizeof *out);
    if (out)
        emit_known(c, e, known, &parts, out);
    if (out && !mf_partial_failed(c)) {
        nested_set_known(c, e, &parts, out);
        mf_program *p = parts.unknown->out_count ? unknown_body(c, e, known, &parts, out, &l) : NULL;
        if (p)
            scan_emit(&c->unknown_builder, e, p, l.consts, l.carry, scan_of(e)->reverse, &l.operands, out);
        nested_set_unknown(c, e, &parts, out);
        mf_drop(p);
    }
    nested_parts_drop(&parts);
}
