/* Emits a while or scan as one function: condition, body and the loops within them in machine code, with the carry in registers. A kernel's
 * steps are emitted in order over a model of its memory: which elements of which value are in which registers, or at which address. So a
 * view, a copy or a broadcast costs nothing or a shuffle, and what lives within a round only is never stored.
 * Invariants: every operation is the step's own, element by element and in its order; the loop's constants are read once, before it
 * begins; if something cannot be emitted, or the function would become too long, the whole text fails. */
#include "backend/native/llvm/emit/repeat.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MOST_CARRIED = 16 }; /* vectors of one carry that stay in registers */

/* A loop's operands, its carry before and after, where its stacked results go, its first round, and the number of rounds. */
typedef struct rounds {
    const mf_loop_plan *plan;
    mf_cell *in, *carry;
    mf_ir_value *stacked, from, length;
} rounds;

static mf_ir_vectors read_all(mf_repeat *r, const mf_cells *m, int value, const mf_type *t)
{
    int64_t *index = mf_repeat_counting(r, t->size);
    return index ? mf_cells_read(r, m, value, t->dtype, index, t->size) : (mf_ir_vectors){ .dtype = t->dtype };
}

/* The address of these elements stored consecutively; stores them. */
static mf_ir_value address_of(mf_repeat *r, const mf_ir_vectors *v)
{
    int64_t *index = mf_repeat_counting(r, v->n);
    mf_ir_value at = mf_repeat_stack(r, v->n * mf_dtype_size(v->dtype));
    if (index)
        mf_ir_scatter(r->ir, v, at, index);
    return at;
}

/* A value of this type as an inner loop reads it: by its address if it has one, else its elements. */
static mf_cell whole(mf_repeat *r, const mf_cells *m, int value, const mf_type *t, bool need_address)
{
    mf_cell c = { 0 };
    if (t->size && mf_cells_find(m, value, 0, t->bytes, &c) && c.address) {
        if (c.fixed)
            mf_repeat_leave(r);
        c.address = c.from ? mf_ir_op(r->ir, "getelementptr i8, ptr %s, i64 %" PRId64, c.address, -c.from) : c.address;
        if (c.fixed)
            mf_repeat_return(r);
    } else {
        c = (mf_cell){ .in = read_all(r, m, value, t) };
        if (need_address && !r->ir->failed)
            c.address = address_of(r, &c.in);
    }
    return c;
}

/* ------------------------------------------------------------------ groups */

static void walk(const mf_group_plan *plan, const mf_load *l, int64_t *index)
{
    for (int64_t i = 0; i < plan->n; i++) {
        int64_t rest = i;
        index[i] = l->offset;
        for (int d = plan->rank - 1; d >= 0; rest /= plan->dims[d--])
            index[i] += rest % plan->dims[d] * l->strides[d];
    }
}

static mf_ir_vectors count_up(mf_repeat *r, mf_dtype dtype, const int64_t *index, int64_t n)
{
    int size = mf_dtype_size(dtype);
    char *data = mf_repeat_alloc(r, n, (size_t)size);
    int64_t *all = mf_repeat_counting(r, n);
    if (!data || !all)
        return (mf_ir_vectors){ .dtype = dtype };
    for (int64_t i = 0; i < n; i++) {
        if (dtype == MF_F32)
            mf_store_f64(dtype, data + i * size, (double)(float)index[i]);
        else
            mf_store_i64(dtype, data + i * size, index[i]);
    }
    return mf_ir_literal(r->ir, dtype, data, all, n);
}

static mf_ir_vectors leaf(mf_repeat *r, const mf_cells *m, const mf_native_step *s, const mf_group_plan *plan, int i)
{
    const mf_node *x = &plan->group->nodes[i];
    int64_t *index = mf_repeat_alloc(r, plan->n, sizeof *index);
    if (!index)
        return (mf_ir_vectors){ .dtype = x->dtype };
    walk(plan, &plan->loads[i], index);
    return x->kind == MF_NODE_IOTA ? count_up(r, x->dtype, index, plan->n)
                                   : mf_cells_read(r, m, s->in[plan->loads[i].slot], x->dtype, index, plan->n);
}

static void make_rare_memory(mf_repeat *r, const mf_group *g)
{
    if (r->has_rare_memory || !mf_ir_may_be_rare(g))
        return;
    mf_repeat_leave(r);
    mf_ir_rare_memory(r->ir, MF_IR_LANES);
    mf_repeat_return(r);
    r->has_rare_memory = true;
}

/* Emits all nodes for some lanes, then for the next ones, so that few values are live at a time. */
static void emit_group(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_group_plan *plan)
{
    const mf_group *g = plan->group;
    mf_ir_vectors *values = mf_repeat_alloc(r, g->count, sizeof *values);
    if (!values || plan->n > MF_REPEAT_ELEMENTS) {
        mf_repeat_give_up(r);
        return;
    }
    make_rare_memory(r, g);
    for (int i = 0; i < g->count && !r->ir->failed; i++) {
        bool is_leaf = g->nodes[i].kind == MF_NODE_LOAD || g->nodes[i].kind == MF_NODE_IOTA;
        values[i] = is_leaf ? leaf(r, m, s, plan, i) : mf_ir_vectors_new(r->ir, g->nodes[i].dtype, plan->n);
    }
    for (int v = 0; !r->ir->failed && v < values[0].count; v++)
        for (int i = 0; i < g->count && !r->ir->failed; i++) {
            const mf_node *x = &g->nodes[i];
            mf_ir_value in[3] = { NULL };
            if (x->kind == MF_NODE_LOAD || x->kind == MF_NODE_IOTA)
                continue;
            for (int k = 0; k < x->in_count; k++)
                in[k] = values[x->in[k]].at[v];
            r->ir->width = values[i].width;
            values[i].at[v] = mf_ir_node(r->ir, g, x, in);
        }
    for (int i = 0; i < g->count && !r->ir->failed; i++)
        if (plan->out_slot[i] >= 0)
            mf_cells_write(r, m, s->out[plan->out_slot[i]], values[i]);
}

/* ------------------------------------------------------------------ steps that only move elements */

static void emit_move(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_form *f)
{
    mf_ir_vectors made = { 0 };
    int64_t *places = mf_repeat_alloc(r, f->count, sizeof *places), *index = mf_repeat_alloc(r, f->count, sizeof *index);
    bool any = false;
    for (int o = s->in_count - 1; o >= 0 && places && index && !r->ir->failed; o--) {
        bool some = false;
        for (int64_t e = 0; e < f->count; e++) {
            places[e] = f->place(s, o, e, 0);
            some |= places[e] >= 0;
        }
        int64_t last = -1; /* elements that come from another operand have no place here; any will do */
        for (int64_t e = 0; e < f->count && last < 0; e++)
            last = places[e];
        for (int64_t e = 0; e < f->count; e++)
            index[e] = last = places[e] >= 0 ? places[e] : last;
        if (!some)
            continue;
        mf_ir_vectors more = mf_cells_read(r, m, s->in[o], f->dtype, index, f->count);
        if (!r->ir->failed)
            made = any ? mf_ir_blend(r->ir, &made, &more, places) : more;
        any = true;
    }
    mf_cells_write(r, m, s->out[0], made);
}

/* The offset of the window in operand 0, in elements, as an i64. */
static mf_ir_value window_start(mf_repeat *r, const mf_cells *m, const mf_native_step *s, const mf_form *f)
{
    mf_ir *ir = r->ir;
    mf_ir_value at = "0";
    for (int i = 0; i < f->type->rank && !ir->failed; i++) {
        const mf_type *t = s->eqn->in[f->first_start + i]->type;
        mf_ir_vectors v = read_all(r, m, s->in[f->first_start + i], t);
        if (ir->failed || !f->most[i])
            continue;
        bool wide = mf_dtype_size(t->dtype) == 8, sign = mf_dtype_is_signed(t->dtype);
        mf_ir_value x = mf_ir_op(ir, "extractelement <1 x %s> %s, i64 0", mf_ir_scalar(t->dtype), v.at[0]);
        x = wide ? x : mf_ir_op(ir, "%s %s %s to i64", sign ? "sext" : "zext", mf_ir_scalar(t->dtype), x);
        if (sign)
            x = mf_ir_op(ir, "call i64 @llvm.smax.i64(i64 %s, i64 0)", x);
        x = mf_ir_op(ir, "call i64 @llvm.umin.i64(i64 %s, i64 %" PRId64 ")", x, f->most[i]);
        at = mf_ir_op(ir, "add i64 %s, %s", at, mf_ir_op(ir, "mul i64 %s, %" PRId64, x, f->worth[i]));
    }
    return at;
}

/* Whether a later step reads this value's memory. */
static bool is_read_later(const mf_cells *m, const mf_native_step *s, int value, int64_t bytes)
{
    const mf_native_plan *plan = &m->kernel->plan;
    const mf_native_value *at = &plan->values[value];
    int i = 0;
    while (plan->steps[i] != s)
        i++;
    for (i++; i < plan->step_count; i++)
        for (int k = 0; k < plan->steps[i]->in_count; k++) {
            const mf_native_value *read = &plan->values[plan->steps[i]->in[k]];
            if (read->place == at->place && read->index == at->index && read->offset < at->offset + bytes)
                return true;
        }
    return false;
}

/* An update's operand 0 in memory that may be modified: in place, or a copy. */
static mf_cell changeable(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_type *t)
{
    mf_cell c = { 0 };
    if (mf_cells_find(m, s->in[0], 0, t->bytes, &c) && c.owned && !c.from && c.to == t->bytes && !is_read_later(m, s, s->in[0], t->bytes))
        return c;
    mf_ir_vectors v = read_all(r, m, s->in[0], t);
    return (mf_cell){ .address = r->ir->failed ? NULL : address_of(r, &v), .owned = true };
}

static void put_at(mf_cells *m, int value, mf_cell c, int64_t bytes)
{
    const mf_native_value *at = &m->kernel->plan.values[value];
    c.place = at->place;
    c.index = at->index;
    c.from = at->offset;
    c.to = at->offset + bytes;
    mf_cells_put(m, c);
}

static void emit_update(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_form *f)
{
    const mf_type *t = f->type;
    int64_t *there = mf_repeat_alloc(r, f->count, sizeof *there), *here = mf_repeat_alloc(r, f->count, sizeof *here);
    mf_ir_value start = window_start(r, m, s, f);
    for (int64_t e = 0; there && here && e < f->count; e++) {
        there[e] = f->place(s, 0, e, 0);
        here[e] = f->place(s, 1, e, 0);
    }
    mf_ir_vectors u = mf_cells_read(r, m, s->in[1], f->dtype, here, f->count);
    mf_cell c = changeable(r, m, s, t);
    if (r->ir->failed)
        return;
    mf_ir_scatter(r->ir, &u, mf_ir_pointer(r->ir, c.address, f->dtype, start), there);
    put_at(m, s->out[0], c, t->bytes);
}

static void emit_slice(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_form *f)
{
    int64_t *there = mf_repeat_alloc(r, f->count, sizeof *there), least = 0, most = 0, size = mf_dtype_size(f->dtype);
    mf_ir_value start = window_start(r, m, s, f);
    for (int64_t e = 0; there && e < f->count; e++) {
        there[e] = f->place(s, 0, e, 0);
        least = there[e] < least ? there[e] : least;
        most = there[e] > most ? there[e] : most;
    }
    for (int i = 0; i < f->type->rank; i++)
        *(f->worth[i] < 0 ? &least : &most) += f->most[i] * f->worth[i];
    mf_cell c;
    if (r->ir->failed || !mf_cells_can(f->dtype) || f->count > MF_REPEAT_ELEMENTS ||
        !mf_cells_find(m, s->in[0], least * size, (most + 1) * size, &c)) {
        mf_repeat_give_up(r);
        return;
    }
    if (!c.address) {
        const mf_type all = { .dtype = f->dtype, .size = most + 1 };
        mf_ir_vectors v = read_all(r, m, s->in[0], &all);
        c = (mf_cell){ .address = r->ir->failed ? NULL : address_of(r, &v) };
    }
    if (r->ir->failed)
        return;
    mf_ir_value place = mf_ir_op(r->ir, "getelementptr i8, ptr %s, i64 %" PRId64, c.address, -c.from);
    mf_cells_write(r, m, s->out[0], mf_ir_gather(r->ir, f->dtype, mf_ir_pointer(r->ir, place, f->dtype, start), there, f->count));
}

/* ------------------------------------------------------------------ loops */

static void emit_rounds(mf_repeat *r, rounds *l);

/* Emits an inner loop: its operands come from this kernel's memory, and its stacked results go to the stack. */
static void emit_inner(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_loop_plan *plan)
{
    int first = plan->cond_consts + plan->body_consts;
    rounds l = { plan,
                 mf_repeat_alloc(r, s->in_count, sizeof(mf_cell)),
                 mf_repeat_alloc(r, plan->carry, sizeof(mf_cell)),
                 mf_repeat_alloc(r, s->out_count, sizeof(mf_ir_value)),
                 "0",
                 mf_ir_format(r->ir, "%" PRId64, plan->length) };
    if (r->ir->failed)
        return;
    for (int i = 0; i < s->in_count && !r->ir->failed; i++)
        if (i >= first && i < first + plan->carry)
            l.carry[i - first].in = read_all(r, m, s->in[i], s->eqn->in[i]->type);
        else
            l.in[i] = whole(r, m, s->in[i], s->eqn->in[i]->type, i >= first);
    for (int o = plan->carry; o < s->out_count; o++)
        l.stacked[o] = mf_repeat_stack(r, s->eqn->out[o]->type->bytes);
    if (!r->ir->failed)
        emit_rounds(r, &l);
    for (int o = 0; o < s->out_count && !r->ir->failed; o++)
        if (s->eqn->out[o]->type->bytes)
            put_at(m, s->out[o], o < plan->carry ? l.carry[o] : (mf_cell){ .address = l.stacked[o] }, s->eqn->out[o]->type->bytes);
}

static void emit_step(mf_repeat *r, mf_cells *m, const mf_native_step *s)
{
    mf_form f = { 0 };
    if (!s->form) {
        mf_repeat_give_up(r);
        return;
    }
    s->form(s, &f);
    switch (f.kind) {
    case MF_FORM_GROUP: emit_group(r, m, s, f.group); break;
    case MF_FORM_COPY: mf_cells_write(r, m, s->out[0], read_all(r, m, s->in[0], f.type)); break;
    case MF_FORM_FOLD:
    case MF_FORM_PRODUCT: mf_repeat_sums(r, m, s, &f); break;
    case MF_FORM_MOVE: emit_move(r, m, s, &f); break;
    case MF_FORM_SLICE: emit_slice(r, m, s, &f); break;
    case MF_FORM_UPDATE: emit_update(r, m, s, &f); break;
    case MF_FORM_LOOP: emit_inner(r, m, s, f.loop); break;
    }
}

static mf_cells new_memory(mf_repeat *r, const mf_native_kernel *k)
{
    int64_t cells = k->program->in_count;
    for (int i = 0; i < k->plan.step_count; i++)
        cells += k->plan.steps[i]->out_count;
    return (mf_cells){ k, 0, mf_repeat_alloc(r, cells, sizeof(mf_cell)) };
}

static void put_operand(mf_repeat *r, mf_cells *m, int i, mf_cell c)
{
    c.place = MF_PLACE_INPUT;
    c.index = i;
    c.from = 0;
    c.to = m->kernel->program->in[i]->type->bytes;
    if (!r->ir->failed && c.to)
        mf_cells_put(m, c);
}

static void emit_steps(mf_repeat *r, mf_cells *m)
{
    for (int i = 0; i < m->kernel->plan.step_count && !r->ir->failed; i++)
        emit_step(r, m, m->kernel->plan.steps[i]);
}

/* The cell of result o. */
static const mf_cell *result_cell(const mf_cells *m, int o)
{
    for (int i = m->count - 1; i >= 0; i--) {
        const mf_cell *c = &m->at[i];
        if (c->place == MF_PLACE_OUTPUT && c->index == o && !c->from && c->to == m->kernel->program->out[o]->type->bytes)
            return c;
    }
    return NULL;
}

static mf_ir_vectors registers_of(mf_repeat *r, const mf_cell *c, const mf_type *t)
{
    int64_t *index = c->address ? mf_repeat_counting(r, t->size) : NULL;
    if (c->address)
        return index ? mf_ir_gather(r->ir, t->dtype, c->address, index, t->size) : (mf_ir_vectors){ .dtype = t->dtype };
    if (c->in.dtype != t->dtype)
        mf_repeat_give_up(r);
    return c->in;
}

static mf_ir_vectors result(mf_repeat *r, const mf_cells *m, int o)
{
    const mf_type *t = m->kernel->program->out[o]->type;
    const mf_cell *c = result_cell(m, o);
    if (!c && t->bytes)
        mf_repeat_give_up(r);
    return c ? registers_of(r, c, t) : (mf_ir_vectors){ .dtype = t->dtype };
}

static void store(mf_repeat *r, const mf_ir_vectors *v, mf_ir_value address)
{
    int64_t *index = mf_repeat_counting(r, v->n);
    if (index && !r->ir->failed)
        mf_ir_scatter(r->ir, v, address, index);
}

/* Emits the condition's flag for the current carry. */
static mf_ir_value emit_condition(mf_repeat *r, const rounds *l)
{
    const mf_loop_plan *p = l->plan;
    mf_cells m = new_memory(r, p->cond);
    for (int i = 0; i < p->cond_consts && !r->ir->failed; i++)
        put_operand(r, &m, i, l->in[i]);
    for (int i = 0; i < p->carry && !r->ir->failed; i++)
        put_operand(r, &m, p->cond_consts + i, l->carry[i]);
    emit_steps(r, &m);
    mf_ir_vectors flag = result(r, &m, 0);
    return r->ir->failed ? "false" : mf_ir_op(r->ir, "extractelement <1 x i1> %s, i64 0", flag.at[0]);
}

/* Whether the next value of a carry is already in its memory. */
static bool stays(const rounds *l, const mf_cells *m, int o)
{
    const mf_cell *c = result_cell(m, o);
    return o < l->plan->carry && l->carry[o].address && c && c->address == l->carry[o].address;
}

/* Emits a round; the carry becomes the next one. */
static void emit_body(mf_repeat *r, rounds *l, mf_ir_value round)
{
    const mf_loop_plan *p = l->plan;
    const mf_program *body = p->body->program;
    mf_cells m = new_memory(r, p->body);
    int first = p->body_consts + p->carry;
    mf_ir_value at = round;
    if (p->reverse)
        at = mf_ir_op(r->ir, "sub i64 %s, %s", mf_ir_op(r->ir, "sub i64 %s, 1", l->length), round);
    for (int i = 0; i < body->in_count && !r->ir->failed; i++) {
        mf_cell c = l->in[p->cond_consts + i];
        if (i >= first)
            c = (mf_cell){ .address = mf_repeat_part(r, c.address, at, body->in[i]->type->bytes) };
        else if (i >= p->body_consts)
            c = l->carry[i - p->body_consts];
        put_operand(r, &m, i, c);
    }
    emit_steps(r, &m);
    mf_ir_vectors *made = mf_repeat_alloc(r, body->out_count, sizeof *made);
    for (int o = 0; made && o < body->out_count && !r->ir->failed; o++)
        if (!stays(l, &m, o))
            made[o] = result(r, &m, o);
    for (int o = 0; made && o < body->out_count && !r->ir->failed; o++)
        if (o >= p->carry)
            store(r, &made[o], mf_repeat_part(r, l->stacked[o], at, body->out[o]->type->bytes));
        else if (!l->carry[o].address)
            l->carry[o].in = made[o];
        else if (!stays(l, &m, o))
            store(r, &made[o], l->carry[o].address);
}

/* Names the carry's registers <prefix><id>.<k>.<i>. */
static void name_carry(mf_repeat *r, rounds *l, const char *prefix, int id, mf_ir_vectors *named)
{
    for (int k = 0; k < l->plan->carry; k++) {
        named[k] = mf_ir_vectors_new(r->ir, l->carry[k].in.dtype, l->carry[k].in.n);
        for (int i = 0; i < named[k].count; i++)
            named[k].at[i] = mf_ir_format(r->ir, "%%%s%d.%d.%d", prefix, id, k, i);
    }
}

/* Puts a large carry on the stack, where a round may change a part of it. */
static void place_carry(mf_repeat *r, rounds *l)
{
    for (int k = 0; k < l->plan->carry && !r->ir->failed; k++)
        if (l->carry[k].in.count > MOST_CARRIED)
            l->carry[k] = (mf_cell){ .address = address_of(r, &l->carry[k].in), .owned = true };
}

static void emit_rounds(mf_repeat *r, rounds *l)
{
    mf_ir *ir = r->ir;
    mf_text outside = { 0 };
    int id = ir->next++, carry = l->plan->carry;
    bool outermost = !r->before;
    char before[24];
    mf_ir_vectors *held = mf_repeat_alloc(r, carry, sizeof *held), *next = mf_repeat_alloc(r, carry, sizeof *next);
    place_carry(r, l);
    if (!held || !next || ir->failed)
        return;
    name_carry(r, l, "held", id, held);
    name_carry(r, l, "next", id, next);
    if (outermost) {
        outside = ir->text;
        ir->text = (mf_text){ 0 };
        r->before = &outside;
    }
    mf_ir_line(ir, "br label %%start%d", id); /* code before the loop may have blocks */
    mf_ir_label(ir, mf_ir_format(ir, "start%d", id));
    memcpy(before, ir->label, sizeof before);
    mf_ir_line(ir, "br label %%head%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "head%d", id));
    mf_ir_line(ir, "%%round%d = phi i64 [ %s, %%%s ], [ %%onward%d, %%again%d ]", id, l->from, before, id, id);
    for (int k = 0; k < carry; k++)
        for (int i = 0; i < held[k].count; i++)
            mf_ir_line(ir, "%s = phi <%d x %s> [ %s, %%%s ], [ %s, %%again%d ]", held[k].at[i], held[k].width, mf_ir_scalar(held[k].dtype),
                       l->carry[k].in.at[i], before, next[k].at[i], id);
    for (int k = 0; k < carry; k++)
        l->carry[k].in = held[k];
    mf_ir_value more = l->plan->cond ? emit_condition(r, l) : mf_ir_op(ir, "icmp slt i64 %%round%d, %s", id, l->length);
    mf_ir_line(ir, "br i1 %s, label %%body%d, label %%over%d", more, id, id);
    mf_ir_label(ir, mf_ir_format(ir, "body%d", id));
    if (!ir->failed)
        emit_body(r, l, mf_ir_format(ir, "%%round%d", id));
    mf_ir_line(ir, "br label %%again%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "again%d", id));
    for (int k = 0; k < carry && !ir->failed; k++)
        for (int i = 0; i < next[k].count; i++) {
            const char *t = mf_ir_scalar(next[k].dtype);
            int w = next[k].width;
            mf_ir_line(ir, "%s = bitcast <%d x %s> %s to <%d x %s>", next[k].at[i], w, t, l->carry[k].in.at[i], w, t);
        }
    mf_ir_line(ir, "%%onward%d = add i64 %%round%d, 1", id, id);
    mf_ir_line(ir, "br label %%head%d", id);
    mf_ir_label(ir, mf_ir_format(ir, "over%d", id));
    for (int k = 0; k < carry; k++)
        l->carry[k].in = held[k];
    if (outermost) {
        mf_text_put(&outside, ir->text.at ? ir->text.at : "");
        outside.failed |= ir->text.failed;
        mf_text_free(&ir->text);
        ir->text = outside;
        r->before = NULL;
    }
}

/* ------------------------------------------------------------------ the function */

static mf_ir_value pointer(mf_repeat *r, const char *from, int slot)
{
    return mf_ir_op(r->ir, "load ptr, ptr %s, align 8", mf_ir_op(r->ir, "getelementptr ptr, ptr %s, i64 %d", from, slot));
}

void mf_ir_repeat(mf_ir *ir, const mf_loop_plan *plan)
{
    mf_repeat r = { .ir = ir };
    const mf_program *body = plan->body->program;
    int in_count = plan->cond_consts + body->in_count, first = plan->cond_consts + plan->body_consts;
    rounds l = { plan,
                 mf_repeat_alloc(&r, in_count, sizeof(mf_cell)),
                 mf_repeat_alloc(&r, plan->carry, sizeof(mf_cell)),
                 mf_repeat_alloc(&r, body->out_count, sizeof(mf_ir_value)),
                 "%from",
                 "%to" };
    if (ir->failed)
        return;
    mf_text_put(&ir->text, "define void @mf_loop(ptr noalias %in, ptr noalias %out, i64 %from, i64 %to) #0 {\n");
    mf_ir_label(ir, "entry");
    for (int i = 0; i < in_count; i++)
        l.in[i] = (mf_cell){ .address = pointer(&r, "%in", i), .fixed = true };
    for (int o = 0; o < body->out_count; o++)
        l.stacked[o] = pointer(&r, "%out", o);
    for (int i = 0; i < plan->carry && !ir->failed; i++) {
        const mf_type *t = body->out[i]->type;
        int64_t *index = mf_repeat_counting(&r, t->size);
        ir->failed |= !mf_cells_can(t->dtype) || t->size > MF_REPEAT_ELEMENTS;
        if (!ir->failed)
            l.carry[i].in = mf_ir_gather(ir, t->dtype, l.in[first + i].address, index, t->size);
    }
    if (!ir->failed)
        emit_rounds(&r, &l);
    for (int i = 0; i < plan->carry && !ir->failed; i++) {
        mf_ir_vectors v = registers_of(&r, &l.carry[i], body->out[i]->type);
        store(&r, &v, l.stacked[i]);
    }
    mf_text_put(&ir->text, "  ret void\n}\nattributes #0 = { nounwind }\n");
    ir->failed |= ir->text.failed || ir->next > MF_REPEAT_VALUES;
}
