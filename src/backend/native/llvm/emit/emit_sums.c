/* Emits reductions and products within a loop that is written as one function: across one result's elements if they are consecutive,
 * else along many results at a time. Invariant: the order is that of the kernels (kernels/reduce/reduce.inc, kernels/dense/gemm.inc). */
#include "backend/native/llvm/emit/repeat.h"
#include "backend/native/kernels/kernels.h"

#include <inttypes.h>

/* MOST_WORK: multiply-adds of a product, far below the sizes that take other ways. MOST_CHAIN, MOST_FOLD: length of a chain and elements
 * of a reduction that are one block of its order. */
enum { MOST_WORK = 1 << 16, MOST_CHAIN = MF_GEMM_DEPTH, MOST_FOLD = 4096 };

/* A sum, product or extreme under way. */
typedef struct summing {
    mf_repeat *r;
    const mf_cells *m;
    const mf_native_step *s;
    const mf_form *f;
    bool product;
    mf_reducer how;
    mf_dtype computing;
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
    return mf_cells_read(a->r, a->m, a->s->in[operand], a->s->eqn->in[operand]->type->dtype, index, n);
}

/* One result, from consecutive elements. */
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

/* The walk over an operand: element first + result * by_result + k * by_k of it, if `even`. */
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

/* Copies an operand that no round changes before the loops, converted to the arithmetic's dtype, so that neighbouring results have
 * neighbouring elements. */
static mf_ir_value laid_out(const summing *a, const mf_cell *c, mf_dtype dtype, const stride *w)
{
    mf_repeat *r = a->r;
    mf_ir *ir = r->ir;
    int64_t n = a->f->count, size = mf_dtype_size(dtype), row = n * mf_dtype_size(a->computing);
    int64_t *from = mf_repeat_alloc(r, n, sizeof *from), *to = mf_repeat_counting(r, n);
    mf_ir_value copy = mf_repeat_stack(r, row * a->f->length + MF_IR_LANES * 8); /* read by whole vectors */
    if (!from || !to)
        return NULL;
    for (int64_t e = 0; e < n; e++)
        from[e] = w->first + e * w->by_result - c->from / size;
    int id = ir->next++;
    mf_repeat_leave(r);
    mf_ir_line(ir, "br label %%lay%d", id);
    mf_text_add(&ir->text, "lay%d:\n  br label %%laying%d\nlaying%d:\n", id, id, id);
    mf_ir_line(ir, "%%lay.k%d = phi i64 [ 0, %%lay%d ], [ %%lay.next%d, %%laying%d ]", id, id, id, id);
    mf_ir_value k = mf_ir_format(ir, "%%lay.k%d", id);
    mf_ir_vectors v = mf_ir_gather(ir, dtype, mf_repeat_part(r, c->address, k, w->by_k * size), from, n);
    ir->width = v.width;
    for (int i = 0; i < v.count; i++)
        v.at[i] = converted(a, &v, i);
    v.dtype = a->computing;
    mf_ir_scatter(ir, &v, mf_repeat_part(r, copy, k, row), to);
    mf_ir_line(ir, "%%lay.next%d = add i64 %s, 1", id, k);
    mf_ir_value more = mf_ir_op(ir, "icmp slt i64 %%lay.next%d, %" PRId64, id, a->f->length);
    mf_ir_line(ir, "br i1 %s, label %%laying%d, label %%laid%d", more, id, id);
    mf_text_add(&ir->text, "laid%d:\n", id);
    mf_repeat_return(r);
    return copy;
}

/* An operand as sum_along reads it: one of these, or neither. */
typedef struct side {
    mf_ir_vectors *same; /* by k: in all lanes, if all results share it */
    mf_ir_value copy;
} side;

static side open_side(const summing *a, int operand, int width)
{
    mf_repeat *r = a->r;
    mf_dtype dtype = a->s->eqn->in[operand]->type->dtype;
    int64_t size = mf_dtype_size(dtype), index[MF_IR_LANES], last;
    stride w = stride_of(a, operand);
    side o = { 0 };
    mf_cell c;
    if (w.even && w.by_result == 0) {
        o.same = mf_repeat_alloc(r, a->f->length, sizeof *o.same);
        for (int64_t k = 0; o.same && k < a->f->length; k++) {
            for (int l = 0; l < width; l++)
                index[l] = w.first + k * w.by_k;
            o.same[k] = read_operand(a, operand, index, width);
        }
    } else if (w.even && w.by_result > 1 && w.by_k >= 0) {
        last = w.first + (a->f->count - 1) * w.by_result + (a->f->length - 1) * w.by_k;
        if (mf_cells_find(a->m, a->s->in[operand], w.first * size, (last + 1) * size, &c) && c.fixed && c.address)
            o.copy = laid_out(a, &c, dtype, &w);
    }
    return o;
}

/* The k-th elements of `width` results; lanes beyond the last result have any value. */
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

/* Neighbouring results, each with its own lanes, which then fold in halves. */
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

bool mf_llvm_can_sum(const mf_form *f)
{
    bool fits = f->kind == MF_FORM_PRODUCT ? f->count * f->length <= MOST_WORK && (f->lanes > 1 || f->length <= MOST_CHAIN)
                                           : f->length <= MOST_FOLD && mf_ir_can_fold(f->fold, f->dtype);
    return fits && f->length && f->count && f->count <= MF_REPEAT_ELEMENTS;
}

void mf_repeat_sums(mf_repeat *r, mf_cells *m, const mf_native_step *s, const mf_form *f)
{
    bool product = f->kind == MF_FORM_PRODUCT;
    mf_dtype stored = s->eqn->out[0]->type->dtype;
    summing a = { r, m, s, f, product, product ? MF_REDUCE_SUM : f->fold, product ? f->dtype : computing(f->dtype) };
    if (!mf_llvm_can_sum(f)) {
        mf_repeat_give_up(r);
        return;
    }
    mf_ir_vectors out = mf_ir_vectors_new(r->ir, stored, f->count);
    bool rows = f->count == 1 || (!product && f->place(s, 0, 1, 0) != f->place(s, 0, 0, 0) + 1);
    if (rows && (!product || f->lanes > 1)) {
        mf_ir_value *each = mf_repeat_alloc(r, f->count, sizeof *each);
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
    mf_cells_write(r, m, s->out[0], out);
}
