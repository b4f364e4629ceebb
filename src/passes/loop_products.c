/* Sums over the rounds of a scan. Where each round adds a product or a sum to the carry, as for the gradients of a recurrent cell's weights
 * and biases, the operands are stacked, and one product or sum after the loop computes the total; otherwise that carry would be read and
 * written in every round. Invariant: such a carry is read by the addition only. The operands stacked only for this are limited in size,
 * because a loop may have been written to save the memory of its operands; operands that the loop stacks anyway cost nothing. The order of
 * summation is the product's. */
#include "ops/emit.h"
#include "passes/rewrite.h"

enum { MOST_STACKED = 1 << 20 }; /* bytes per loop, without the operands that it stacks anyway */

typedef struct lifted {
    const mf_eqn *add, *product; /* product: a dot_general or reduce_sum; NULL: the carry stays */
    const mf_eqn *transposition; /* the transposition of the product before the addition; or NULL */
    int result[2];               /* which stacked result of the loop is this operand; -1: it is a stacked input */
} lifted;

typedef struct loop {
    mf_rewrite *r;
    const mf_eqn *e;
    const mf_scan_params *scan;
    const mf_program *body;
    int *uses; /* number of uses, by id of the body's variables */
    lifted *carries;
    const mf_variable **stacked; /* stacked results: the loop's own, then the new ones */
    int stacked_count;
    int64_t bytes;
} loop;

static bool count_uses(loop *l)
{
    l->uses = mf_rewrite_alloc(l->r, l->body->var_count, sizeof *l->uses);
    if (l->uses)
        mf_program_count_uses(l->body, l->uses);
    return l->uses;
}

/* The position of v among the body's inputs, or -1. */
static int input_of(const loop *l, const mf_variable *v)
{
    for (int i = 0; i < l->body->in_count; i++)
        if (l->body->in[i] == v)
            return i;
    return -1;
}

static bool is_stacked(const loop *l, const mf_variable *v) { return input_of(l, v) >= l->scan->consts + l->scan->carry; }

/* Whether an operand has a value of its own in each round, and room for another dimension. */
static bool can_stack(const loop *l, const mf_variable *v, mf_dtype dtype)
{
    int i = input_of(l, v);
    return !v->constant && (i < 0 || i >= l->scan->consts) && v->type->dtype == dtype && v->type->rank < MF_MAX_RANK;
}

static const mf_eqn *used_once_by(const loop *l, const mf_variable *v, const mf_op *op)
{
    return v->producer && v->producer->op == op && l->uses[v->id] == 1 ? v->producer : NULL;
}

static bool is_sum(const loop *l, int k, lifted *found)
{
    const mf_variable *held = l->body->in[l->scan->consts + k];
    mf_dtype dtype = held->type->dtype;
    found->add = used_once_by(l, l->body->out[k], &mf_op_add);
    if (!found->add || l->uses[held->id] != 1 || (dtype != MF_F32 && dtype != MF_F64))
        return false;
    if (found->add->in[0] != held && found->add->in[1] != held)
        return false;
    const mf_variable *term = found->add->in[found->add->in[0] == held];
    found->transposition = used_once_by(l, term, &mf_op_transpose);
    term = found->transposition ? found->transposition->in[0] : term;
    found->product = used_once_by(l, term, &mf_op_dot_general);
    if (!found->product && !found->transposition)
        found->product = used_once_by(l, term, &mf_op_reduce_sum);
    for (int i = 0; found->product && i < found->product->in_count; i++)
        if (!can_stack(l, found->product->in[i], dtype))
            return false;
    return found->product;
}

static int stacked_result(loop *l, const mf_variable *v)
{
    if (is_stacked(l, v))
        return -1;
    for (int i = 0; i < l->stacked_count; i++)
        if (l->stacked[i] == v)
            return i;
    l->bytes += l->scan->length * v->type->bytes;
    l->stacked[l->stacked_count] = v;
    return l->stacked_count++;
}

static bool look(loop *l)
{
    bool any = false;
    l->carries = mf_rewrite_alloc(l->r, (int)l->scan->carry, sizeof *l->carries);
    l->stacked = mf_rewrite_alloc(l->r, 2 * (int)l->scan->carry + l->body->out_count, sizeof(mf_variable *));
    if (!l->carries || !l->stacked || !count_uses(l))
        return false;
    for (int o = (int)l->scan->carry; o < l->body->out_count; o++)
        l->stacked[l->stacked_count++] = l->body->out[o];
    for (int k = 0; k < l->scan->carry; k++) {
        lifted found = { 0 };
        int64_t bytes = l->bytes;
        int count = l->stacked_count;
        if (!is_sum(l, k, &found))
            continue;
        for (int i = 0; i < found.product->in_count; i++)
            found.result[i] = stacked_result(l, found.product->in[i]);
        bool product = found.product->op == &mf_op_dot_general; /* a sum does not justify stacking more */
        if ((product || l->bytes == bytes) && l->bytes <= MOST_STACKED) {
            l->carries[k] = found;
            any = true;
        } else {
            l->bytes = bytes;
            l->stacked_count = count;
        }
    }
    return any;
}

static bool is_lifted(const loop *l, const mf_eqn *e)
{
    for (int k = 0; k < l->scan->carry; k++)
        if (l->carries[k].product && (l->carries[k].product == e || l->carries[k].transposition == e || l->carries[k].add == e))
            return true;
    return false;
}

/* ---- the smaller loop */

static void equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in);

static void keep_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    if (!is_lifted(r->state, e))
        equation(r, e, in);
}

/* The body without the sums, with the operands as results. */
static mf_program *smaller_body(loop *l, mf_error_object **error)
{
    mf_builder b;
    mf_builder_init(&b, l->r->b->env);
    mf_rewrite r = { .b = &b, .source = l->body, .equation = keep_equation, .nested = mf_pass_loop_products, .state = l };
    r.map = mf_rewrite_alloc(&r, l->body->var_count, sizeof *r.map);
    mf_variable **out = mf_rewrite_alloc(&r, l->body->out_count + l->stacked_count, sizeof(mf_variable *));
    for (int i = 0; r.map && i < l->body->in_count; i++) {
        int64_t k = i - l->scan->consts;
        if (k < 0 || k >= l->scan->carry || !l->carries[k].product)
            r.map[l->body->in[i]->id] = mf_builder_input(&b, l->body->in[i]->type);
    }
    mf_rewrite_walk(&r);
    int count = 0;
    for (int o = 0; out && !b.error && o < l->scan->carry; o++)
        if (!l->carries[o].product)
            out[count++] = mf_rewrite_use(&r, l->body->out[o]);
    for (int i = 0; out && !b.error && i < l->stacked_count; i++)
        out[count++] = mf_rewrite_use(&r, l->stacked[i]);
    mf_program *made = mf_builder_finish(&b, out, count, error);
    mf_arena_free(&r.scratch);
    return made;
}

static mf_eqn *emit_loop(loop *l, mf_variable *const *in)
{
    mf_error_object *error = NULL;
    mf_scan_params params = *l->scan;
    mf_variable **rest = mf_rewrite_alloc(l->r, l->e->in_count, sizeof(mf_variable *));
    params.body = smaller_body(l, &error);
    if (!rest || !params.body) {
        mf_builder_fail(l->r->b, error);
        mf_drop(params.body);
        return NULL;
    }
    int count = 0;
    for (int i = 0; i < l->e->in_count; i++) {
        int64_t k = i - l->scan->consts;
        bool gone = k >= 0 && k < l->scan->carry && l->carries[k].product;
        params.carry -= gone;
        if (!gone)
            rest[count++] = in[i];
    }
    mf_eqn *made = mf_emit_eqn(l->r->b, &mf_op_scan, &params, rest, count);
    mf_drop(params.body);
    return made;
}

/* ---- the products and sums after the loop */

static const mf_intlist *moved(const mf_intlist *dims, bool with_rounds)
{
    int64_t at[MF_MAX_RANK] = { 0 };
    for (int i = 0; i < dims->count; i++)
        at[i + with_rounds] = dims->at[i] + 1;
    return mf_ints_intern(at, dims->count + with_rounds);
}

static mf_variable *sum_of(loop *l, const lifted *c, mf_variable *const *in, mf_variable *const *stacked)
{
    mf_variable *side[2] = { NULL, NULL };
    for (int i = 0; i < c->product->in_count; i++)
        side[i] = c->result[i] < 0 ? in[input_of(l, c->product->in[i])] : stacked[c->result[i]];
    if (c->product->op == &mf_op_reduce_sum)
        return e_reduce_sum(l->r->b, side[0], moved(((const mf_axes_params *)c->product->params)->axes, true));
    const mf_dot_params *d = c->product->params;
    const mf_dot_params params = { moved(d->lhs_contract, true), moved(d->rhs_contract, true), moved(d->lhs_batch, false),
                                   moved(d->rhs_batch, false), d->preferred };
    mf_variable *product = mf_emit(l->r->b, &mf_op_dot_general, &params, 2, side[0], side[1]);
    return c->transposition ? mf_emit(l->r->b, &mf_op_transpose, c->transposition->params, 1, product) : product;
}

static void lift(loop *l, mf_variable **in)
{
    const mf_eqn *made = emit_loop(l, in);
    int next = 0, carry = (int)l->scan->carry;
    for (int o = 0; made && !l->r->b->error && o < carry; o++)
        if (!l->carries[o].product)
            l->r->map[l->e->out[o]->id] = made->out[next++];
    for (int o = carry; made && !l->r->b->error && o < l->e->out_count; o++)
        l->r->map[l->e->out[o]->id] = made->out[next + o - carry];
    for (int k = 0; made && !l->r->b->error && k < carry; k++) {
        const lifted *c = &l->carries[k];
        if (c->product) {
            mf_variable *sum = sum_of(l, c, in, &made->out[next]);
            l->r->map[l->e->out[k]->id] = e_add(l->r->b, in[l->scan->consts + k], mf_rewrite_to_type(l->r->b, sum, l->e->out[k]->type));
        }
    }
}

static void equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    loop l = { .r = r, .e = e };
    if (e->op == &mf_op_scan) {
        l.scan = e->params;
        l.body = l.scan->body;
    }
    if (l.scan && l.scan->length > 1 && look(&l))
        lift(&l, in);
    else
        mf_rewrite_copy(r, e, in);
}

mf_program *mf_pass_loop_products(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, equation, mf_pass_loop_products, NULL, error);
}
