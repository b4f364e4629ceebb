/* The model of a kernel's memory while a loop is written as one function: which bytes of which place are in which registers, or at which
 * address. Invariant: a byte is in at most one cell, the one that was written last. */
#include "backend/native/llvm/emit/repeat.h"

#include <inttypes.h>

void *mf_repeat_alloc(mf_repeat *r, int64_t count, size_t size)
{
    void *made = mf_arena_alloc(r->ir->strings, ((size_t)count + 1) * size);
    r->ir->failed |= !made;
    return made;
}

/* ------------------------------------------------------------------ code before all loops */

void mf_repeat_leave(mf_repeat *r)
{
    if (r->before) {
        mf_text inside = r->ir->text;
        r->ir->text = *r->before;
        *r->before = inside;
    }
}

void mf_repeat_return(mf_repeat *r) { mf_repeat_leave(r); }

mf_ir_value mf_repeat_stack(mf_repeat *r, int64_t bytes)
{
    r->stack += bytes;
    r->ir->failed |= r->stack > MF_REPEAT_STACK;
    mf_repeat_leave(r);
    mf_ir_value at = mf_ir_op(r->ir, "alloca [%" PRId64 " x i8], align 64", bytes);
    mf_repeat_return(r);
    return at;
}

mf_ir_value mf_repeat_part(mf_repeat *r, mf_ir_value base, mf_ir_value at, int64_t bytes)
{
    return mf_ir_op(r->ir, "getelementptr i8, ptr %s, i64 %s", base, mf_ir_op(r->ir, "mul i64 %s, %" PRId64, at, bytes));
}

/* ------------------------------------------------------------------ memory */

static mf_cell in_registers(mf_value_place place, int index, int64_t from, mf_ir_vectors v)
{
    return (mf_cell){ .place = place, .index = index, .from = from, .to = from + v.n * mf_dtype_size(v.dtype), .in = v };
}

void mf_cells_put(mf_cells *m, mf_cell c)
{
    int kept = 0;
    for (int i = 0; i < m->count; i++) {
        const mf_cell *old = &m->at[i];
        if (old->place != c.place || old->index != c.index || old->to <= c.from || c.to <= old->from)
            m->at[kept++] = *old;
    }
    m->at[kept] = c;
    m->count = kept + 1;
}

void mf_cells_write(mf_repeat *r, mf_cells *m, int value, mf_ir_vectors v)
{
    const mf_native_value *at = &m->kernel->plan.values[value];
    if (!r->ir->failed && v.n)
        mf_cells_put(m, in_registers(at->place, at->index, at->offset, v));
}

bool mf_cells_find(const mf_cells *m, int value, int64_t from, int64_t to, mf_cell *found)
{
    const mf_native_value *at = &m->kernel->plan.values[value];
    if (at->place == MF_PLACE_CONSTANT) {
        *found = (mf_cell){ .data = (const char *)at->data + at->offset, .fixed = true };
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

static mf_ir_vectors gather(mf_repeat *r, const mf_cell *c, mf_dtype dtype, const int64_t *index, int64_t n)
{
    bool once = c->fixed && (r->held += (int)((n + MF_IR_LANES - 1) / MF_IR_LANES)) <= MF_REPEAT_HELD;
    if (once)
        mf_repeat_leave(r);
    mf_ir_vectors v = mf_ir_gather(r->ir, dtype, c->address, index, n);
    if (once)
        mf_repeat_return(r);
    return v;
}

mf_ir_vectors mf_cells_read(mf_repeat *r, const mf_cells *m, int value, mf_dtype dtype, const int64_t *index, int64_t n)
{
    int64_t first = INT64_MAX, last = 0, size = mf_dtype_size(dtype);
    mf_ir_vectors none = { .dtype = dtype };
    mf_cell c;
    if (r->ir->failed || !n)
        return none;
    for (int64_t i = 0; i < n; i++) {
        first = index[i] < first ? index[i] : first;
        last = index[i] > last ? index[i] : last;
    }
    if (!mf_cells_can(dtype) || n > MF_REPEAT_ELEMENTS || r->ir->next > MF_REPEAT_VALUES ||
        !mf_cells_find(m, value, first * size, (last + 1) * size, &c) || c.from % size) {
        mf_repeat_give_up(r);
        return none;
    }
    if (c.data)
        return mf_ir_literal(r->ir, dtype, c.data, index, n);
    int64_t *moved = mf_repeat_alloc(r, n, sizeof *moved);
    for (int64_t i = 0; moved && i < n; i++)
        moved[i] = index[i] - c.from / size;
    if (!moved || (!c.address && c.in.dtype != dtype)) {
        mf_repeat_give_up(r);
        return none;
    }
    return c.address ? gather(r, &c, dtype, moved, n) : mf_ir_pick(r->ir, &c.in, moved, n);
}

int64_t *mf_repeat_counting(mf_repeat *r, int64_t n)
{
    int64_t *index = mf_repeat_alloc(r, n, sizeof *index);
    for (int64_t i = 0; index && i < n; i++)
        index[i] = i;
    return index;
}
