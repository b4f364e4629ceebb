/* A product that only a scan reads, some rows of it per round, is computed in the scan's rounds: for example the input's part of a
 * recurrent cell. As one product before the loop, its result is written to memory and read back, in an LSTM four times as many bytes as the
 * sequences have. In the rounds it stays in the nearest cache, and is computed as fast, because its weights, packed once, stay in the
 * second cache.
 * Invariant: only for scans with independent rows (loop_rows.c), whose own products run at that speed already. The product is put into
 * the scan's segment wherever collectives cut the program (mf_segment_compiler's feeds), because its bits may differ between the two
 * ways. */
#include "backend/native/fusion/loop_step.h"
#include "ops/params.h"
#include "passes/rewrite.h"

/* ROUND_WORK: multiply-adds per round above which a loop keeps its steps. RUN_WORK: per run, above which it is cut into parts. DEPTH:
 * the longest sums whose weights are packed once. WEIGHTS: bytes that the second cache holds beside everything else. */
enum { ROUND_WORK = 1 << 16, RUN_WORK = 1 << 26, DEPTH = 512, WEIGHTS = 640 << 10 };

typedef struct feeder {
    const mf_program *p;
    int *readers;        /* by variable */
    bool *moves;         /* by variable: the result of a product that goes into the scan */
    mf_program **bodies; /* by equation: the body of such a scan with the products; owned */
} feeder;

/* ------------------------------------------------------------------ candidates */

/* x[round, row, ...] w, not summed over the first two dimensions, in a dtype for which a step packs w once (products/dot_step.c). */
static bool is_product_of_rounds(const mf_eqn *d)
{
    if (!d || d->op != &mf_op_dot_general)
        return false;
    const mf_dot_params *p = d->params;
    mf_dtype dtype = d->out[0]->type->dtype;
    return (dtype == MF_F32 || dtype == MF_F64) && d->in[0]->type->dtype == dtype && d->in[1]->type->dtype == dtype &&
           d->in[0]->type->rank > 2 && !p->lhs_batch->count && !mf_ints_has(p->lhs_contract, 0) && !mf_ints_has(p->lhs_contract, 1);
}

static bool pays(const mf_eqn *d)
{
    const mf_intlist *summed = ((const mf_dot_params *)d->params)->lhs_contract;
    const mf_type *made = d->out[0]->type;
    int64_t depth = 1;
    for (int i = 0; i < summed->count; i++)
        depth *= d->in[0]->type->dims[summed->at[i]];
    if (!made->size || depth < 1 || depth > DEPTH)
        return false;
    int64_t work = made->size / made->dims[0] * depth; /* per round */
    return work > ROUND_WORK && work >= RUN_WORK / made->dims[0];
}

static bool is_fed(const mf_eqn *scan, int64_t operand)
{
    const mf_scan_params *s = scan->params;
    const mf_variable *v = scan->in[operand];
    const mf_eqn *d = v->constant ? NULL : v->producer;
    return operand >= s->consts + s->carry && is_product_of_rounds(d) && pays(d);
}

static bool goes_inside(const feeder *f, const mf_eqn *scan, int64_t operand)
{
    return f->readers[scan->in[operand]->id] == 1 && is_fed(scan, operand);
}

bool mf_native_feeds(const mf_eqn *e, const mf_eqn *reader)
{
    for (int64_t i = 0; reader->op == &mf_op_scan && i < reader->in_count; i++)
        if (reader->in[i] == e->out[0] && is_fed(reader, i))
            return true;
    return false;
}

/* ------------------------------------------------------------------ the body with its products */

static void copy(mf_rewrite *r, const mf_eqn *e, mf_variable **in) { mf_rewrite_copy(r, e, in); }

/* The product of one round, of x[row, ...]. */
static mf_variable *product_of_round(mf_builder *b, const mf_eqn *d, mf_variable *x, mf_variable *w, const mf_type *type)
{
    mf_dot_params p = *(const mf_dot_params *)d->params;
    int64_t at[MF_MAX_RANK];
    for (int i = 0; i < p.lhs_contract->count; i++)
        at[i] = p.lhs_contract->at[i] - 1;
    p.lhs_contract = mf_ints_intern(at, p.lhs_contract->count);
    b->address = d->address;
    mf_variable *in[2] = { x, w };
    return mf_rewrite_to_type(b, mf_emit_eqn(b, &mf_op_dot_general, &p, in, 2)->out[0], type);
}

/* The new body. Inputs: the constants, the products' second operands, the carry, and the rest's parts of a round. */
static mf_program *body_of(const feeder *f, const mf_eqn *scan, mf_error_object **error)
{
    const mf_scan_params *s = scan->params;
    mf_builder b;
    mf_builder_init(&b, NULL);
    mf_rewrite r = { .b = &b, .source = s->body, .equation = copy };
    int count = s->body->in_count, first = (int)(s->consts + s->carry);
    r.map = mf_rewrite_alloc(&r, s->body->var_count, sizeof *r.map);
    mf_variable **weights = mf_rewrite_alloc(&r, count, sizeof *weights);
    for (int i = 0; weights && r.map && i < s->consts; i++)
        r.map[s->body->in[i]->id] = mf_builder_input(&b, s->body->in[i]->type);
    for (int i = first; i < count && !b.error; i++)
        if (goes_inside(f, scan, i))
            weights[i] = mf_builder_input(&b, scan->in[i]->producer->in[1]->type);
    for (int i = (int)s->consts; i < count && !b.error; i++) {
        const mf_type *t = s->body->in[i]->type, *x = weights[i] ? scan->in[i]->producer->in[0]->type : NULL;
        mf_variable *input = mf_builder_input(&b, x ? mf_type_with_shape(x, x->rank - 1, x->dims + 1) : t);
        r.map[s->body->in[i]->id] = input;
    }
    for (int i = first; i < count && !b.error; i++)
        if (weights[i]) {
            mf_variable **at = &r.map[s->body->in[i]->id];
            *at = product_of_round(&b, scan->in[i]->producer, *at, weights[i], s->body->in[i]->type);
        }
    if (!b.error)
        mf_rewrite_walk(&r);
    return mf_rewrite_finish(&r, error);
}

/* Decides about one scan. False: *error. */
static bool feed_scan(feeder *f, int index, mf_error_object **error)
{
    const mf_eqn *e = f->p->eqns[index];
    const mf_scan_params *s = e->params;
    int fed = 0;
    int64_t weights = 0;
    for (int64_t i = 0; i < s->consts; i++)
        weights += e->in[i]->type->bytes;
    for (int64_t i = s->consts + s->carry; i < e->in_count; i++)
        if (goes_inside(f, e, i)) {
            weights += e->in[i]->producer->in[1]->type->bytes;
            fed++;
        }
    if (!fed || weights > WEIGHTS || !mf_native_takes_loop(e) || !mf_loop_has_parts(s->body, s->consts, error))
        return !*error;
    mf_program *body = body_of(f, e, error);
    if (!body)
        return false;
    mf_scan_params with = *s;
    with.body = body;
    with.consts += fed;
    if (!mf_native_takes_loop(&(mf_eqn){ .op = &mf_op_scan, .params = &with })) {
        mf_drop(body);
        return true;
    }
    f->bodies[index] = body;
    for (int64_t i = s->consts + s->carry; i < e->in_count; i++)
        f->moves[e->in[i]->id] = goes_inside(f, e, i);
    return true;
}

/* ------------------------------------------------------------------ the program */

static void equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const feeder *f = r->state;
    mf_program *body = f->bodies[r->index];
    if (e->out_count == 1 && f->moves[e->out[0]->id])
        return;
    if (!body) {
        mf_rewrite_copy(r, e, in);
        return;
    }
    mf_scan_params with = *(const mf_scan_params *)e->params;
    mf_variable **all = mf_rewrite_alloc(r, 2 * e->in_count, sizeof *all);
    int count = 0, consts = (int)with.consts, first = consts + (int)with.carry;
    for (int i = 0; all && i < consts; i++)
        all[count++] = in[i];
    for (int i = first; all && i < e->in_count; i++)
        if (f->moves[e->in[i]->id])
            all[count++] = mf_rewrite_use(r, e->in[i]->producer->in[1]);
    with.consts = count;
    for (int i = consts; all && i < e->in_count; i++)
        all[count++] = i >= first && f->moves[e->in[i]->id] ? mf_rewrite_use(r, e->in[i]->producer->in[0]) : in[i];
    with.body = body;
    if (all)
        mf_rewrite_replace(r, e, &with, all, count, NULL);
}

static bool count_readers(feeder *f)
{
    const mf_program *p = f->p;
    f->readers = mf_calloc((size_t)p->var_count + 1, sizeof *f->readers);
    f->moves = mf_calloc((size_t)p->var_count + 1, sizeof *f->moves);
    f->bodies = mf_calloc((size_t)p->eqn_count + 1, sizeof(mf_program *));
    if (f->readers)
        mf_program_count_uses(p, f->readers);
    return f->readers && f->moves && f->bodies;
}

static bool has_scan(const mf_program *p)
{
    for (int i = 0; i < p->eqn_count; i++)
        if (p->eqns[i]->op == &mf_op_scan)
            return true;
    return false;
}

mf_program *mf_feed_loops(const mf_program *p, mf_error_object **error)
{
    feeder f = { .p = p };
    mf_program *made = NULL;
    bool any = false, ok = true;
    if (!has_scan(p))
        return mf_retain(p);
    if (!count_readers(&f)) {
        *error = mf_error_out_of_memory();
        ok = false;
    }
    for (int i = 0; ok && i < p->eqn_count; i++) {
        ok = p->eqns[i]->op != &mf_op_scan || feed_scan(&f, i, error);
        any = any || f.bodies[i];
    }
    if (ok)
        made = any ? mf_rewrite_program(p, NULL, equation, NULL, &f, error) : mf_retain(p);
    for (int i = 0; f.bodies && i < p->eqn_count; i++)
        mf_drop(f.bodies[i]);
    mf_free(f.readers);
    mf_free(f.moves);
    mf_free(f.bodies);
    return made;
}
