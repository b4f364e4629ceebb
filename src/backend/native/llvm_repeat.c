/* A while or scan as one function: condition, body and the loops within them in machine code, what is carried in registers.
 * A kernel's steps are gone through in order over a model of its memory: which elements of which value lie in which registers, or at
 * which address. So a view, a copy or a broadcast costs nothing or a shuffle, and what only lives within a round is never stored.
 * Invariants: every operation is the step's own, element by element and in its order; what is read of the loop's constants is read
 * once, before it begins; whatever has no emission, or would make too long a function, fails the whole text. */
#include "backend/native/llvm.h"
#include "backend/native/kernels/kernels.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Instructions; elements of a value; vectors of constants, and of one carry, in registers; multiply-adds of a product, far below those for which it goes other ways; of a chain of them, and
 * elements of a reduction, which make one block of its order. */
enum {
    MOST_VALUES = 12000,
    MOST_ELEMENTS = 16384,
    MOST_HELD = 64,
    MOST_CARRIED = 16,
    MOST_WORK = 1 << 16,
    MOST_CHAIN = MF_GEMM_DEPTH,
    MOST_FOLD = 4096
};

/* Bytes [from, to) of a place: in registers, or at an address. */
typedef struct cell {
    mf_place place;
    int index;
    int64_t from, to;
    mf_ir_vectors in;    /* or */
    mf_ir_value address; /* or */
    const char *data;
    bool fixed; /* the same in all rounds of all loops */
    bool owned; /* on the stack, and nobody else's: may be written over when it is read for the last time */
} cell;

typedef struct memory {
    const mf_native_kernel *kernel;
    int count;
    cell *at; /* the newest last */
} memory;

typedef struct repeat {
    mf_ir *ir;
    mf_text *before; /* of the outermost loop that is being written; NULL: none is */
    bool has_rare_room;
    int held; /* vectors that were read before the loops */
} repeat;

/* A loop's operands, its carry before and after, where its ys go, and its first round and their number. */
typedef struct rounds {
    const mf_loop_plan *plan;
    cell *in, *carry;
    mf_ir_value *stacked, from, length;
} rounds;

static void *room(repeat *r, int64_t count, size_t size)
{
    void *made = mf_arena_alloc(r->ir->strings, ((size_t)count + 1) * size);
    r->ir->failed |= !made;
    return made;
}

static void give_up(repeat *r) { r->ir->failed = true; }

/* ------------------------------------------------------------------ what stands before all loops */

/* Between the two, text goes there. */
static void leave_loops(repeat *r)
{
    if (r->before) {
        mf_text inside = r->ir->text;
        r->ir->text = *r->before;
        *r->before = inside;
    }
}

static void return_to_loops(repeat *r) { leave_loops(r); }

static mf_ir_value stack_bytes(repeat *r, int64_t bytes)
{
    leave_loops(r);
    mf_ir_value at = mf_ir_op(r->ir, "alloca [%" PRId64 " x i8], align 64", bytes);
    return_to_loops(r);
    return at;
}

/* Part number `at`, of so many bytes, of what is stacked. */
static mf_ir_value part(repeat *r, mf_ir_value base, mf_ir_value at, int64_t bytes)
{
    return mf_ir_op(r->ir, "getelementptr i8, ptr %s, i64 %s", base, mf_ir_op(r->ir, "mul i64 %s, %" PRId64, at, bytes));
}

/* ------------------------------------------------------------------ memory */

static bool is_number(mf_dtype d) { return d >= MF_BOOL && d <= MF_F64; }

static cell in_registers(mf_place place, int index, int64_t from, mf_ir_vectors v)
{
    return (cell){ .place = place, .index = index, .from = from, .to = from + v.n * mf_dtype_size(v.dtype), .in = v };
}

static void put(memory *m, cell c)
{
    int kept = 0;
    for (int i = 0; i < m->count; i++) {
        const cell *old = &m->at[i];
        if (old->place != c.place || old->index != c.index || old->to <= c.from || c.to <= old->from)
            m->at[kept++] = *old;
    }
    m->at[kept] = c;
    m->count = kept + 1;
}

static void write(repeat *r, memory *m, int value, mf_ir_vectors v)
{
    const mf_native_value *at = &m->kernel->plan.values[value];
    if (!r->ir->failed && v.n)
        put(m, in_registers(at->place, at->index, at->offset, v));
}

/* Where bytes [from, to) of a value lie; the cell begins with the value's first byte, or fails. */
static bool find(const memory *m, int value, int64_t from, int64_t to, cell *found)
{
    const mf_native_value *at = &m->kernel->plan.values[value];
    if (at->place == MF_PLACE_CONSTANT) {
        *found = (cell){ .data = (const char *)at->data + at->offset, .fixed = true };
        return true;
    }
    for (int i = m->count - 1; i >= 0; i--) {
        *found = m->at[i];
        if (found->place == at->place && found->index == at->index && found->from <= at->offset + from && at->offset + to <= found->to) {
            found->from -= at->offset;
            found->to -= at->offset;
            return true;
        }
    }
    return false;
}

static mf_ir_vectors gather(repeat *r, const cell *c, mf_dtype dtype, const int64_t *index, int64_t n)
{
    bool once = c->fixed && (r->held += (int)((n + MF_IR_LANES - 1) / MF_IR_LANES)) <= MOST_HELD;
    if (once)
        leave_loops(r);
    mf_ir_vectors v = mf_ir_gather(r->ir, dtype, c->address, index, n);
    if (once)
        return_to_loops(r);
    return v;
}

/* Elements index[0 .. n), from the value's first on. */
static mf_ir_vectors read(repeat *r, const memory *m, int value, mf_dtype dtype, const int64_t *index, int64_t n)
{
    int64_t first = INT64_MAX, last = 0, size = mf_dtype_size(dtype);
    mf_ir_vectors none = { .dtype = dtype };
    cell c;
    if (r->ir->failed || !n)
        return none;
    for (int64_t i = 0; i < n; i++) {
        first = index[i] < first ? index[i] : first;
        last = index[i] > last ? index[i] : last;
    }
    if (!is_number(dtype) || n > MOST_ELEMENTS || r->ir->next > MOST_VALUES || !find(m, value, first * size, (last + 1) * size, &c) ||
        c.from % size) {
        give_up(r);
        return none;
    }
    if (c.data)
        return mf_ir_literal(r->ir, dtype, c.data, index, n);
    int64_t *moved = room(r, n, sizeof *moved);
    for (int64_t i = 0; moved && i < n; i++)
        moved[i] = index[i] - c.from / size;
    if (!moved || (!c.address && c.in.dtype != dtype)) {
        give_up(r);
        return none;
    }
    return c.address ? gather(r, &c, dtype, moved, n) : mf_ir_pick(r->ir, &c.in, moved, n);
}

static int64_t *counting(repeat *r, int64_t n)
{
    int64_t *index = room(r, n, sizeof *index);
    for (int64_t i = 0; index && i < n; i++)
        index[i] = i;
    return index;
}

static mf_ir_vectors read_all(repeat *r, const memory *m, int value, const mf_type *t)
{
    int64_t *index = counting(r, t->size);
    return index ? read(r, m, value, t->dtype, index, t->size) : (mf_ir_vectors){ .dtype = t->dtype };
}

/* Where these elements lie one behind the other, put there if need be. */
static mf_ir_value address_of(repeat *r, const mf_ir_vectors *v)
{
    int64_t *index = counting(r, v->n);
    mf_ir_value at = stack_bytes(r, v->n * mf_dtype_size(v->dtype));
    if (index)
        mf_ir_scatter(r->ir, v, at, index);
    return at;
}

/* A value of this type as what a loop within reads: where it lies, if it has an address, else its elements. */
static cell whole(repeat *r, const memory *m, int value, const mf_type *t, bool need_address)
{
    cell c = { 0 };
    if (t->size && find(m, value, 0, t->bytes, &c) && c.address) {
        if (c.fixed)
            leave_loops(r);
        c.address = c.from ? mf_ir_op(r->ir, "getelementptr i8, ptr %s, i64 %" PRId64, c.address, -c.from) : c.address;
        if (c.fixed)
            return_to_loops(r);
    } else {
        c = (cell){ .in = read_all(r, m, value, t) };
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

static mf_ir_vectors count_up(repeat *r, mf_dtype dtype, const int64_t *index, int64_t n)
{
    int size = mf_dtype_size(dtype);
    char *data = room(r, n, (size_t)size);
    int64_t *all = counting(r, n);
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

static mf_ir_vectors leaf(repeat *r, const memory *m, const mf_native_step *s, const mf_group_plan *plan, int i)
{
    const mf_node *x = &plan->group->nodes[i];
    int64_t *index = room(r, plan->n, sizeof *index);
    if (!index)
        return (mf_ir_vectors){ .dtype = x->dtype };
    walk(plan, &plan->loads[i], index);
    return x->kind == MF_NODE_IOTA ? count_up(r, x->dtype, index, plan->n)
                                   : read(r, m, s->in[plan->loads[i].slot], x->dtype, index, plan->n);
}

static void make_rare_room(repeat *r, const mf_group *g)
{
    if (r->has_rare_room || !mf_ir_may_be_rare(g))
        return;
    leave_loops(r);
    mf_ir_rare_room(r->ir, MF_IR_LANES);
    return_to_loops(r);
    r->has_rare_room = true;
}

/* All nodes for some lanes, then for the next ones: so little is alive at a time. */
static void emit_group(repeat *r, memory *m, const mf_native_step *s, const mf_group_plan *plan)
{
    const mf_group *g = plan->group;
    mf_ir_vectors *values = room(r, g->count, sizeof *values);
    if (!values || plan->n > MOST_ELEMENTS) {
        give_up(r);
        return;
    }
    make_rare_room(r, g);
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
            write(r, m, s->out[plan->out_slot[i]], values[i]);
}

/* ------------------------------------------------------------------ reductions and products */

/* Sums, products and extremes under way: how the next element joins what there is. */
typedef struct summing {
    repeat *r;
    const memory *m;
    const mf_native_step *s;
    const mf_form *f;
    bool product;
    int how;
    mf_dtype stored, computing;
} summing;

static mf_dtype computing(mf_dtype d) { return d == MF_F16 || d == MF_BF16 ? MF_F32 : d; }

static mf_ir_value start_value(const summing *a) { return mf_ir_identity(a->r->ir, a->how, a->computing); }

static mf_ir_value converted(const summing *a, const mf_ir_vectors *v, int i)
{
    return v->dtype == a->computing ? v->at[i] : mf_ir_convert(a->r->ir, v->dtype, a->computing, v->at[i]);
}

/* sum joined with vector i of x, or of x times y. */
static mf_ir_value joined(const summing *a, mf_ir_value sum, const mf_ir_vectors *x, const mf_ir_vectors *y, int i)
{
    mf_ir *ir = a->r->ir;
    int w = x->width;
    ir->width = w;
    mf_ir_value v = converted(a, x, i);
    if (!a->product)
        return mf_ir_join(ir, a->how, a->computing, w, sum, v);
    const char *t = mf_ir_scalar(a->computing);
    return mf_ir_op(ir, "call <%d x %s> @llvm.fma.v%df%d(<%d x %s> %s, <%d x %s> %s, <%d x %s> %s)", w, t, w,
                    a->computing == MF_F64 ? 64 : 32, w, t, v, w, t, converted(a, y, i), w, t, sum);
}

static mf_ir_vectors read_operand(const summing *a, int operand, const int64_t *index, int64_t n)
{
    return read(a->r, a->m, a->s->in[operand], a->s->eqn->in[operand]->type->dtype, index, n);
}

/* One result from its elements side by side. */
static mf_ir_value sum_across(const summing *a, int64_t result)
{
    mf_ir *ir = a->r->ir;
    int64_t index[2][MF_IR_LANES], length = a->f->length;
    ir->width = MF_IR_LANES;
    mf_ir_value sum = start_value(a);
    const char *t = mf_ir_scalar(a->computing);
    for (int64_t k = 0; k < length && !ir->failed; k += MF_IR_LANES) {
        int live = length - k < MF_IR_LANES ? (int)(length - k) : MF_IR_LANES;
        for (int o = 0; o < 1 + a->product; o++)
            for (int l = 0; l < MF_IR_LANES; l++)
                index[o][l] = a->f->place(a->s, o, result, k + (l < live ? l : live - 1));
        mf_ir_vectors x = read_operand(a, 0, index[0], MF_IR_LANES), y = a->product ? read_operand(a, 1, index[1], MF_IR_LANES) : x;
        if (ir->failed)
            break;
        mf_ir_value next = joined(a, sum, &x, &y, 0);
        sum = live == MF_IR_LANES ? next
                                  : mf_ir_op(ir, "select <16 x i1> %s, <16 x %s> %s, <16 x %s> %s", mf_ir_mask(ir, live), t, next, t, sum);
    }
    return mf_ir_fold_lanes(ir, a->how, a->computing, sum);
}

/* ------------------------------------------------------------------ many results at a time */

/* How an operand is walked: element first + result * by_result + k * by_k of it, if it can be said so. */
typedef struct stride {
    int64_t first, by_result, by_k;
    bool even;
} stride;

static stride stride_of(const summing *a, int operand)
{
    const mf_form *f = a->f;
    stride w = { .first = f->place(a->s, operand, 0, 0), .even = true };
    w.by_result = f->count > 1 ? f->place(a->s, operand, 1, 0) - w.first : 0;
    w.by_k = f->length > 1 ? f->place(a->s, operand, 0, 1) - w.first : 0;
    for (int64_t e = 0; e < f->count && w.even; e++)
        for (int64_t k = 0; k < f->length && w.even; k++)
            w.even = f->place(a->s, operand, e, k) == w.first + e * w.by_result + k * w.by_k;
    return w;
}

/* An operand that no round changes, copied before the loops as it is computed with, and so that neighbouring results have neighbouring
 * elements. */
static mf_ir_value laid_out(const summing *a, const cell *c, mf_dtype dtype, const stride *w)
{
    repeat *r = a->r;
    mf_ir *ir = r->ir;
    int64_t n = a->f->count, size = mf_dtype_size(dtype), row = n * mf_dtype_size(a->computing);
    int64_t *from = room(r, n, sizeof *from), *to = counting(r, n);
    mf_ir_value copy = stack_bytes(r, row * a->f->length + MF_IR_LANES * 8); /* read by whole vectors */
    if (!from || !to)
        return NULL;
    for (int64_t e = 0; e < n; e++)
        from[e] = w->first + e * w->by_result - c->from / size;
    int id = ir->next++;
    leave_loops(r);
    mf_ir_line(ir, "br label %%lay%d", id);
    mf_text_add(&ir->text, "lay%d:\n  br label %%laying%d\nlaying%d:\n", id, id, id);
    mf_ir_line(ir, "%%lay.k%d = phi i64 [ 0, %%lay%d ], [ %%lay.next%d, %%laying%d ]", id, id, id, id);
    mf_ir_value k = mf_ir_format(ir, "%%lay.k%d", id);
    mf_ir_vectors v = mf_ir_gather(ir, dtype, part(r, c->address, k, w->by_k * size), from, n);
    ir->width = v.width;
    for (int i = 0; i < v.count; i++)
        v.at[i] = converted(a, &v, i);
    v.dtype = a->computing;
    mf_ir_scatter(ir, &v, part(r, copy, k, row), to);
    mf_ir_line(ir, "%%lay.next%d = add i64 %s, 1", id, k);
    mf_ir_value more = mf_ir_op(ir, "icmp slt i64 %%lay.next%d, %" PRId64, id, a->f->length);
    mf_ir_line(ir, "br i1 %s, label %%laying%d, label %%laid%d", more, id, id);
    mf_text_add(&ir->text, "laid%d:\n", id);
    return_to_loops(r);
    return copy;
}

/* An operand as sum_along reads it. */
typedef struct side {
    mf_ir_vectors *same; /* by k: in all lanes, where all results share it */
    mf_ir_value copy;    /* or */
} side;

static side open_side(const summing *a, int operand, int width)
{
    repeat *r = a->r;
    mf_dtype dtype = a->s->eqn->in[operand]->type->dtype;
    int64_t size = mf_dtype_size(dtype), index[MF_IR_LANES], last;
    stride w = stride_of(a, operand);
    side o = { 0 };
    cell c;
    if (w.even && w.by_result == 0) {
        o.same = room(r, a->f->length, sizeof *o.same);
        for (int64_t k = 0; o.same && k < a->f->length; k++) {
            for (int l = 0; l < width; l++)
                index[l] = w.first + k * w.by_k;
            o.same[k] = read_operand(a, operand, index, width);
        }
    } else if (w.even && w.by_result > 1 && w.by_k >= 0) {
        last = w.first + (a->f->count - 1) * w.by_result + (a->f->length - 1) * w.by_k;
        if (find(a->m, a->s->in[operand], w.first * size, (last + 1) * size, &c) && c.fixed && c.address)
            o.copy = laid_out(a, &c, dtype, &w);
    }
    return o;
}

/* The k-th elements of `width` results; beyond the last one there may be anything. */
static mf_ir_vectors read_side(const summing *a, const side *o, int operand, int64_t result, int64_t k, int width)
{
    int64_t index[MF_IR_LANES], last = a->f->count - 1;
    if (o->same)
        return o->same[k];
    for (int64_t l = 0; l < width; l++)
        index[l] = o->copy ? k * a->f->count + result + l : a->f->place(a->s, operand, result + l < last ? result + l : last, k);
    if (o->copy)
        return mf_ir_gather(a->r->ir, a->computing, o->copy, index, width);
    return read_operand(a, operand, index, width);
}

/* Neighbouring results, each with its lanes; then the lanes fold in halves. */
static mf_ir_value sum_along(const summing *a, const side *sides, int64_t result, int width)
{
    mf_ir *ir = a->r->ir;
    int64_t length = a->f->length;
    int lanes = a->product ? a->f->lanes : MF_IR_LANES, used = length < lanes ? (int)length : lanes;
    mf_ir_value sum[MF_IR_LANES];
    ir->width = width;
    for (int l = 0; l < used; l++)
        sum[l] = start_value(a);
    for (int64_t k = 0; k < length && !ir->failed; k++) {
        mf_ir_vectors x = read_side(a, &sides[0], 0, result, k, width), y = a->product ? read_side(a, &sides[1], 1, result, k, width) : x;
        if (!ir->failed)
            sum[k % lanes] = joined(a, sum[k % lanes], &x, &y, 0);
    }
    for (int half = lanes / 2; half; half /= 2)
        for (int l = 0; l < half && l + half < used; l++)
            sum[l] = mf_ir_join(ir, a->how, a->computing, width, sum[l], sum[l + half]);
    return sum[0];
}

static void sum_all_along(const summing *a, mf_ir_vectors *out)
{
    side sides[2] = { open_side(a, 0, out->width) };
    if (a->product)
        sides[1] = open_side(a, 1, out->width);
    for (int i = 0; i < out->count && !a->r->ir->failed; i++)
        out->at[i] = sum_along(a, sides, (int64_t)i * out->width, out->width);
}

static void emit_sums(repeat *r, memory *m, const mf_native_step *s, const mf_form *f)
{
    bool product = f->kind == MF_FORM_PRODUCT;
    mf_dtype stored = s->eqn->out[0]->type->dtype;
    summing a = { r, m, s, f, product, product ? MF_FOLD_SUM : f->fold, stored, product ? f->dtype : computing(f->dtype) };
    bool fits = product ? f->count * f->length <= MOST_WORK && (f->lanes > 1 || f->length <= MOST_CHAIN)
                        : f->length <= MOST_FOLD && mf_ir_can_fold(f->fold, f->dtype);
    if (!fits || !f->length || !f->count || f->count > MOST_ELEMENTS) {
        give_up(r);
        return;
    }
    mf_ir_vectors out = mf_ir_vectors_new(r->ir, stored, f->count);
    bool rows = f->count == 1 || (!product && f->place(s, 0, 1, 0) != f->place(s, 0, 0, 0) + 1);
    if (rows && (!product || f->lanes > 1)) {
        mf_ir_value *each = room(r, f->count, sizeof *each);
        for (int64_t e = 0; each && e < f->count && !r->ir->failed; e++)
            each[e] = sum_across(&a, e);
        if (each && !r->ir->failed)
            out = mf_ir_gathered(r->ir, a.computing, each, f->count);
    } else {
        sum_all_along(&a, &out);
    }
    out.dtype = stored;
    for (int i = 0; i < out.count && !r->ir->failed; i++) {
        r->ir->width = out.width;
        out.at[i] = mf_ir_convert(r->ir, a.computing, stored, out.at[i]);
    }
    write(r, m, s->out[0], out);
}

/* ------------------------------------------------------------------ what only moves */

static void emit_move(repeat *r, memory *m, const mf_native_step *s, const mf_form *f)
{
    mf_ir_vectors made = { 0 };
    int64_t *places = room(r, f->count, sizeof *places), *index = room(r, f->count, sizeof *index);
    bool any = false;
    for (int o = s->in_count - 1; o >= 0 && places && index && !r->ir->failed; o--) {
        bool some = false;
        for (int64_t e = 0; e < f->count; e++) {
            places[e] = f->place(s, o, e, 0);
            some |= places[e] >= 0;
        }
        int64_t last = -1; /* where another operand goes it does not matter what this one has */
        for (int64_t e = 0; e < f->count && last < 0; e++)
            last = places[e];
        for (int64_t e = 0; e < f->count; e++)
            index[e] = last = places[e] >= 0 ? places[e] : last;
        if (!some)
            continue;
        mf_ir_vectors more = read(r, m, s->in[o], f->dtype, index, f->count);
        if (!r->ir->failed)
            made = any ? mf_ir_blend(r->ir, &made, &more, places) : more;
        any = true;
    }
    write(r, m, s->out[0], made);
}

/* Elements from operand 0's first to the window's, as an i64. */
static mf_ir_value window_start(repeat *r, const memory *m, const mf_native_step *s, const mf_form *f)
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

/* Whether a step behind this one reads of this value's memory. */
static bool is_read_later(const memory *m, const mf_native_step *s, int value, int64_t bytes)
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

/* An update's operand 0 where it may be changed: where it lies, or a copy. */
static cell changeable(repeat *r, memory *m, const mf_native_step *s, const mf_type *t)
{
    cell c = { 0 };
    if (find(m, s->in[0], 0, t->bytes, &c) && c.owned && !c.from && c.to == t->bytes && !is_read_later(m, s, s->in[0], t->bytes))
        return c;
    mf_ir_vectors v = read_all(r, m, s->in[0], t);
    return (cell){ .address = r->ir->failed ? NULL : address_of(r, &v), .owned = true };
}

static void put_at(memory *m, int value, cell c, int64_t bytes)
{
    const mf_native_value *at = &m->kernel->plan.values[value];
    c.place = at->place;
    c.index = at->index;
    c.from = at->offset;
    c.to = at->offset + bytes;
    put(m, c);
}

static void emit_update(repeat *r, memory *m, const mf_native_step *s, const mf_form *f)
{
    const mf_type *t = f->type;
    int64_t *there = room(r, f->count, sizeof *there), *here = room(r, f->count, sizeof *here);
    mf_ir_value start = window_start(r, m, s, f);
    for (int64_t e = 0; there && here && e < f->count; e++) {
        there[e] = f->place(s, 0, e, 0);
        here[e] = f->place(s, 1, e, 0);
    }
    mf_ir_vectors u = read(r, m, s->in[1], f->dtype, here, f->count);
    cell c = changeable(r, m, s, t);
    if (r->ir->failed)
        return;
    mf_ir_scatter(r->ir, &u, mf_ir_pointer(r->ir, c.address, f->dtype, start), there);
    put_at(m, s->out[0], c, t->bytes);
}

static void emit_slice(repeat *r, memory *m, const mf_native_step *s, const mf_form *f)
{
    int64_t *there = room(r, f->count, sizeof *there), least = 0, most = 0, size = mf_dtype_size(f->dtype);
    mf_ir_value start = window_start(r, m, s, f);
    for (int64_t e = 0; there && e < f->count; e++) {
        there[e] = f->place(s, 0, e, 0);
        least = there[e] < least ? there[e] : least;
        most = there[e] > most ? there[e] : most;
    }
    for (int i = 0; i < f->type->rank; i++)
        *(f->worth[i] < 0 ? &least : &most) += f->most[i] * f->worth[i];
    cell c;
    if (r->ir->failed || !is_number(f->dtype) || f->count > MOST_ELEMENTS || !find(m, s->in[0], least * size, (most + 1) * size, &c)) {
        give_up(r);
        return;
    }
    if (!c.address) {
        const mf_type all = { .dtype = f->dtype, .size = most + 1 };
        mf_ir_vectors v = read_all(r, m, s->in[0], &all);
        c = (cell){ .address = r->ir->failed ? NULL : address_of(r, &v) };
    }
    if (r->ir->failed)
        return;
    mf_ir_value place = mf_ir_op(r->ir, "getelementptr i8, ptr %s, i64 %" PRId64, c.address, -c.from);
    write(r, m, s->out[0], mf_ir_gather(r->ir, f->dtype, mf_ir_pointer(r->ir, place, f->dtype, start), there, f->count));
}

/* ------------------------------------------------------------------ loops */

static void emit_rounds(repeat *r, rounds *l);

/* Of a loop within: its operands from this kernel's memory, its ys on the stack. */
static void emit_inner(repeat *r, memory *m, const mf_native_step *s, const mf_loop_plan *plan)
{
    int first = plan->cond_consts + plan->body_consts;
    rounds l = {
        plan, room(r, s->in_count, sizeof(cell)),           room(r, plan->carry, sizeof(cell)), room(r, s->out_count, sizeof(mf_ir_value)),
        "0",  mf_ir_format(r->ir, "%" PRId64, plan->length)
    };
    if (r->ir->failed)
        return;
    for (int i = 0; i < s->in_count && !r->ir->failed; i++)
        if (i >= first && i < first + plan->carry)
            l.carry[i - first].in = read_all(r, m, s->in[i], s->eqn->in[i]->type);
        else
            l.in[i] = whole(r, m, s->in[i], s->eqn->in[i]->type, i >= first);
    for (int o = plan->carry; o < s->out_count; o++)
        l.stacked[o] = stack_bytes(r, s->eqn->out[o]->type->bytes);
    if (!r->ir->failed)
        emit_rounds(r, &l);
    for (int o = 0; o < s->out_count && !r->ir->failed; o++)
        if (s->eqn->out[o]->type->bytes)
            put_at(m, s->out[o], o < plan->carry ? l.carry[o] : (cell){ .address = l.stacked[o] }, s->eqn->out[o]->type->bytes);
}

static void emit_step(repeat *r, memory *m, const mf_native_step *s)
{
    mf_form f = { 0 };
    if (!s->form) {
        give_up(r);
        return;
    }
    s->form(s, &f);
    switch (f.kind) {
    case MF_FORM_GROUP: emit_group(r, m, s, f.group); break;
    case MF_FORM_COPY: write(r, m, s->out[0], read_all(r, m, s->in[0], f.type)); break;
    case MF_FORM_FOLD:
    case MF_FORM_PRODUCT: emit_sums(r, m, s, &f); break;
    case MF_FORM_MOVE: emit_move(r, m, s, &f); break;
    case MF_FORM_SLICE: emit_slice(r, m, s, &f); break;
    case MF_FORM_UPDATE: emit_update(r, m, s, &f); break;
    case MF_FORM_LOOP: emit_inner(r, m, s, f.loop); break;
    }
}

static memory new_memory(repeat *r, const mf_native_kernel *k)
{
    int64_t cells = k->program->in_count;
    for (int i = 0; i < k->plan.step_count; i++)
        cells += k->plan.steps[i]->out_count;
    return (memory){ k, 0, room(r, cells, sizeof(cell)) };
}

static void put_operand(repeat *r, memory *m, int i, cell c)
{
    c.place = MF_PLACE_INPUT;
    c.index = i;
    c.from = 0;
    c.to = m->kernel->program->in[i]->type->bytes;
    if (!r->ir->failed && c.to)
        put(m, c);
}

static void emit_steps(repeat *r, memory *m)
{
    for (int i = 0; i < m->kernel->plan.step_count && !r->ir->failed; i++)
        emit_step(r, m, m->kernel->plan.steps[i]);
}

/* What has been made for result o: as it lies, then in registers. */
static const cell *result_cell(const memory *m, int o)
{
    for (int i = m->count - 1; i >= 0; i--) {
        const cell *c = &m->at[i];
        if (c->place == MF_PLACE_OUTPUT && c->index == o && !c->from && c->to == m->kernel->program->out[o]->type->bytes)
            return c;
    }
    return NULL;
}

static mf_ir_vectors registers_of(repeat *r, const cell *c, const mf_type *t)
{
    int64_t *index = c->address ? counting(r, t->size) : NULL;
    if (c->address)
        return index ? mf_ir_gather(r->ir, t->dtype, c->address, index, t->size) : (mf_ir_vectors){ .dtype = t->dtype };
    if (c->in.dtype != t->dtype)
        give_up(r);
    return c->in;
}

static mf_ir_vectors result(repeat *r, const memory *m, int o)
{
    const mf_type *t = m->kernel->program->out[o]->type;
    const cell *c = result_cell(m, o);
    if (!c && t->bytes)
        give_up(r);
    return c ? registers_of(r, c, t) : (mf_ir_vectors){ .dtype = t->dtype };
}

static void store(repeat *r, const mf_ir_vectors *v, mf_ir_value address)
{
    int64_t *index = counting(r, v->n);
    if (index && !r->ir->failed)
        mf_ir_scatter(r->ir, v, address, index);
}

/* The condition's flag for what is carried now. */
static mf_ir_value emit_condition(repeat *r, const rounds *l)
{
    const mf_loop_plan *p = l->plan;
    memory m = new_memory(r, p->cond);
    for (int i = 0; i < p->cond_consts && !r->ir->failed; i++)
        put_operand(r, &m, i, l->in[i]);
    for (int i = 0; i < p->carry && !r->ir->failed; i++)
        put_operand(r, &m, p->cond_consts + i, l->carry[i]);
    emit_steps(r, &m);
    mf_ir_vectors flag = result(r, &m, 0);
    return r->ir->failed ? "false" : mf_ir_op(r->ir, "extractelement <1 x i1> %s, i64 0", flag.at[0]);
}

/* The next value of a carry lies where this one lies. */
static bool stays(const rounds *l, const memory *m, int o)
{
    const cell *c = result_cell(m, o);
    return o < l->plan->carry && l->carry[o].address && c && c->address == l->carry[o].address;
}

/* Round number `round`: the carry becomes the next one. */
static void emit_body(repeat *r, rounds *l, mf_ir_value round)
{
    const mf_loop_plan *p = l->plan;
    const mf_program *body = p->body->program;
    memory m = new_memory(r, p->body);
    int first = p->body_consts + p->carry;
    mf_ir_value at = round;
    if (p->reverse)
        at = mf_ir_op(r->ir, "sub i64 %s, %s", mf_ir_op(r->ir, "sub i64 %s, 1", l->length), round);
    for (int i = 0; i < body->in_count && !r->ir->failed; i++) {
        cell c = l->in[p->cond_consts + i];
        if (i >= first)
            c = (cell){ .address = part(r, c.address, at, body->in[i]->type->bytes) };
        else if (i >= p->body_consts)
            c = l->carry[i - p->body_consts];
        put_operand(r, &m, i, c);
    }
    emit_steps(r, &m);
    mf_ir_vectors *made = room(r, body->out_count, sizeof *made);
    for (int o = 0; made && o < body->out_count && !r->ir->failed; o++)
        if (!stays(l, &m, o))
            made[o] = result(r, &m, o);
    for (int o = 0; made && o < body->out_count && !r->ir->failed; o++)
        if (o >= p->carry)
            store(r, &made[o], part(r, l->stacked[o], at, body->out[o]->type->bytes));
        else if (!l->carry[o].address)
            l->carry[o].in = made[o];
        else if (!stays(l, &m, o))
            store(r, &made[o], l->carry[o].address);
}

/* The carry's registers under the names <prefix><id>.<k>.<i>. */
static void name_carry(repeat *r, rounds *l, const char *prefix, int id, mf_ir_vectors *named)
{
    for (int k = 0; k < l->plan->carry; k++) {
        named[k] = mf_ir_vectors_new(r->ir, l->carry[k].in.dtype, l->carry[k].in.n);
        for (int i = 0; i < named[k].count; i++)
            named[k].at[i] = mf_ir_format(r->ir, "%%%s%d.%d.%d", prefix, id, k, i);
    }
}

/* Much that is carried lies on the stack, where a round may change a part of it. */
static void place_carry(repeat *r, rounds *l)
{
    for (int k = 0; k < l->plan->carry && !r->ir->failed; k++)
        if (l->carry[k].in.count > MOST_CARRIED)
            l->carry[k] = (cell){ .address = address_of(r, &l->carry[k].in), .owned = true };
}

static void emit_rounds(repeat *r, rounds *l)
{
    mf_ir *ir = r->ir;
    mf_text outside = { 0 };
    int id = ir->next++, carry = l->plan->carry;
    bool outermost = !r->before;
    char before[24];
    mf_ir_vectors *held = room(r, carry, sizeof *held), *next = room(r, carry, sizeof *next);
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
    mf_ir_line(ir, "br label %%start%d", id); /* what stands before may have blocks */
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

static mf_ir_value pointer(repeat *r, const char *from, int slot)
{
    return mf_ir_op(r->ir, "load ptr, ptr %s, align 8", mf_ir_op(r->ir, "getelementptr ptr, ptr %s, i64 %d", from, slot));
}

void mf_ir_repeat(mf_ir *ir, const mf_loop_plan *plan)
{
    repeat r = { .ir = ir };
    const mf_program *body = plan->body->program;
    int in_count = plan->cond_consts + body->in_count, first = plan->cond_consts + plan->body_consts;
    rounds l = { plan,
                 room(&r, in_count, sizeof(cell)),
                 room(&r, plan->carry, sizeof(cell)),
                 room(&r, body->out_count, sizeof(mf_ir_value)),
                 "%from",
                 "%to" };
    if (ir->failed)
        return;
    mf_text_put(&ir->text, "define void @mf_loop(ptr noalias %in, ptr noalias %out, i64 %from, i64 %to) #0 {\n");
    mf_ir_label(ir, "entry");
    for (int i = 0; i < in_count; i++)
        l.in[i] = (cell){ .address = pointer(&r, "%in", i), .fixed = true };
    for (int o = 0; o < body->out_count; o++)
        l.stacked[o] = pointer(&r, "%out", o);
    for (int i = 0; i < plan->carry && !ir->failed; i++) {
        const mf_type *t = body->out[i]->type;
        int64_t *index = counting(&r, t->size);
        ir->failed |= !is_number(t->dtype) || t->size > MOST_ELEMENTS;
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
    ir->failed |= ir->text.failed || ir->next > MOST_VALUES;
}
