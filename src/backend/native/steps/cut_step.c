/* Steps that cut and join: pad, concatenate, dynamic_slice, dynamic_update_slice. Operands that are views are read in place.
 * Invariants: each element of a result is written once, or twice while it is in the nearest cache; a start that is out of bounds is
 * clamped as in the op's evaluation. */
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

/* Where an operand lies in memory; strides in bytes. */
typedef struct cut_place {
    int64_t offset, strides[MF_RANK];
} cut_place;

static bool read_place(mf_build *b, mf_variable *v, mf_variable **root, cut_place *p)
{
    mf_layout layout;
    int64_t size = mf_dtype_size(v->type->dtype);
    if (!mf_build_read(b, v, root, &layout))
        return false;
    p->offset = layout.offset * size;
    for (int i = 0; i < v->type->rank; i++)
        p->strides[i] = layout.strides[i] * size;
    return true;
}

/* The byte offset of an element, given by its row-major number. */
static int64_t byte_of(const mf_type *t, const int64_t *strides, int64_t element)
{
    return mf_place_in_copy(t->rank, t->dims, strides, element);
}

/* ------------------------------------------------------------------ concatenate */

typedef struct join_step {
    mf_native_step step;
    cut_place *from; /* by operand */
    int64_t *offset; /* by operand: bytes into the result */
    int64_t to[MF_RANK];
    int64_t rows; /* of the result per task */
} join_step;

enum { JOIN_PIECE = 1 << 15, JOIN_ROWS_FROM = 1 << 19, JOIN_ROWS_TO = 1 << 22, LEAST_TASKS = 16 }; /* bytes; rows */

typedef struct join_task {
    const join_step *s;
    void *const *values;
} join_task;

/* Makes some rows of the result: all operands write them while they are in the nearest cache. */
static void run_join_rows(void *context, int64_t index)
{
    const join_task *t = context;
    const join_step *s = t->s;
    int64_t first = index * s->rows, dims[MF_RANK];
    for (int i = 0; i < s->step.in_count; i++) {
        const mf_type *in = s->step.eqn->in[i]->type;
        if (!in->size)
            continue;
        memcpy(dims, in->dims, (size_t)in->rank * sizeof *dims);
        dims[0] = dims[0] - first < s->rows ? dims[0] - first : s->rows;
        mf_copy_strided(in->rank, dims, mf_dtype_size(in->dtype), mf_step_out(&s->step, t->values, 0) + s->offset[i] + first * s->to[0],
                        s->to, mf_step_in(&s->step, t->values, i) + s->from[i].offset + first * s->from[i].strides[0], s->from[i].strides);
    }
}

static mf_error_object *run_join(const mf_native_step *step, void *const *values, char *scratch)
{
    const join_step *s = (const join_step *)(const void *)step;
    (void)scratch;
    if (s->rows) {
        join_task task = { s, values };
        mf_parallel_for((step->eqn->out[0]->type->dims[0] + s->rows - 1) / s->rows, run_join_rows, &task);
        return NULL;
    }
    for (int i = 0; i < step->in_count; i++) {
        const mf_type *t = step->eqn->in[i]->type;
        if (t->size)
            mf_native_copy(t->rank, t->dims, mf_dtype_size(t->dtype), mf_step_out(step, values, 0) + s->offset[i], s->to,
                           mf_step_in(step, values, i) + s->from[i].offset, s->from[i].strides);
    }
    return NULL;
}

/* Rows of the result per task; 0: copying operand after operand is as good, because the result is small, or exceeds the caches, or is
 * joined along its rows, or has few of them. */
static int64_t rows_of_join(const mf_type *t, int64_t axis, int64_t row_bytes)
{
    if (axis == 0 || t->bytes < JOIN_ROWS_FROM || t->bytes > JOIN_ROWS_TO || t->dims[0] < LEAST_TASKS)
        return 0;
    return row_bytes > JOIN_PIECE ? 1 : JOIN_PIECE / row_bytes;
}

static int64_t join_place(const mf_native_step *step, int operand, int64_t result, int64_t k)
{
    const join_step *s = (const join_step *)(const void *)step;
    const mf_type *t = step->eqn->in[operand]->type, *to = step->eqn->out[0]->type;
    int64_t axis = ((const mf_axis_params *)step->eqn->params)->axis, size = mf_dtype_size(t->dtype), inner = s->to[axis] / size;
    int64_t row = result / inner % to->dims[axis] - s->offset[operand] / s->to[axis], outer = result / inner / to->dims[axis];
    (void)k;
    if (row < 0 || row >= t->dims[axis])
        return -1;
    int64_t own = (outer * t->dims[axis] + row) * inner + result % inner;
    return (byte_of(t, s->from[operand].strides, own) + s->from[operand].offset) / size;
}

static void join_form(const mf_native_step *step, mf_form *f)
{
    f->kind = MF_FORM_MOVE;
    f->count = step->eqn->out[0]->type->size;
    f->dtype = step->eqn->out[0]->type->dtype;
    f->place = join_place;
}

static void build_join(mf_build *b, const mf_eqn *e)
{
    int64_t axis = ((const mf_axis_params *)e->params)->axis, at = 0;
    join_step *s = mf_step_new(b, sizeof *s, e);
    mf_variable **roots = mf_build_alloc(b, (size_t)e->in_count, sizeof *roots);
    if (!s || !roots)
        return;
    s->from = mf_build_alloc(b, (size_t)e->in_count, sizeof *s->from);
    s->offset = mf_build_alloc(b, (size_t)e->in_count, sizeof *s->offset);
    if (b->error)
        return;
    mf_contiguous_strides(e->out[0]->type, s->to);
    s->rows = rows_of_join(e->out[0]->type, axis, s->to[0]);
    for (int i = 0; i < e->in_count; i++) {
        s->offset[i] = at * s->to[axis];
        at += e->in[i]->type->dims[axis];
        roots[i] = e->in[i];
        if (e->in[i]->type->size && !read_place(b, e->in[i], &roots[i], &s->from[i]))
            return;
    }
    s->step.run = run_join;
    s->step.form = join_form;
    s->step.cost = 20 + (double)e->out[0]->type->bytes / 8;
    mf_build_step(b, &s->step, roots, e->in_count, e->out, 1);
}

/* ------------------------------------------------------------------ pad */

/* pad. Dimensions without padding are joined with the dimension before them. */
typedef struct pad_step {
    mf_native_step step;
    int rank, element;
    int64_t in[MF_RANK + 1], out[MF_RANK + 1], low[MF_RANK + 1], step_out[MF_RANK + 1]; /* step_out: places between neighbouring elements */
    int64_t in_bytes[MF_RANK + 1], out_bytes[MF_RANK + 1];                              /* strides */
    int64_t rows_a_task;                                                                /* of the first dimension of the result, per task */
} pad_step;

static void plan_pad(pad_step *s, const mf_eqn *e)
{
    const mf_pad_params *p = e->params;
    const mf_type *t = e->in[0]->type, *to = e->out[0]->type;
    int64_t in = s->element, out = s->element;
    for (int i = 0; i < t->rank; i++) {
        bool still = p->low->at[i] == 0 && p->high->at[i] == 0 && (p->interior->at[i] == 0 || t->dims[i] == 1);
        int last = s->rank - 1;
        if (still && last >= 0 && s->step_out[last] == 1) {
            s->in[last] *= t->dims[i];
            s->out[last] *= t->dims[i];
            s->low[last] *= t->dims[i];
            continue;
        }
        s->in[s->rank] = t->dims[i];
        s->out[s->rank] = to->dims[i];
        s->low[s->rank] = p->low->at[i];
        s->step_out[s->rank++] = p->interior->at[i] + 1;
    }
    for (int d = s->rank - 1; d >= 0; d--) {
        s->in_bytes[d] = in;
        s->out_bytes[d] = out;
        in *= s->in[d];
        out *= s->out[d];
    }
}

typedef struct pad_task {
    const pad_step *s;
    const char *in, *value;
    char *out;
} pad_task;

/* The elements [*first, *end) of dimension d are in the rows [from, to) of the result. */
static void landing(const pad_step *s, int d, int64_t from, int64_t to, int64_t *first, int64_t *end)
{
    int64_t step = s->step_out[d], low = s->low[d];
    *first = low < from ? (from - low + step - 1) / step : 0;
    *end = to > low ? (to - low + step - 1) / step : 0;
    *end = *end > s->in[d] ? s->in[d] : *end;
}

#define DILATE(type)                                               \
    do {                                                           \
        const type *x_ = (const type *)(const void *)in;           \
        type *o_ = (type *)(void *)out, v_ = *(const type *)value; \
        for (int64_t i_ = 0; step == 2 && i_ < n; i_++) {          \
            o_[2 * i_] = x_[i_];                                   \
            o_[2 * i_ + 1] = v_;                                   \
        }                                                          \
        for (int64_t i_ = 0; step != 2 && i_ < n; i_++)            \
            o_[i_ * step] = x_[i_];                                \
    } while (0)

/* Spreads n elements `step` places apart into memory that is filled with the value already; the place behind each of them keeps the
 * value. */
static void dilate(char *restrict out, int64_t step, const char *restrict in, int64_t n, int element, const void *value)
{
    switch (element) {
    case 1: DILATE(uint8_t); break;
    case 2: DILATE(uint16_t); break;
    case 4: DILATE(uint32_t); break;
    case 8: DILATE(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy(out + i * step * element, in + i * element, (size_t)element);
    }
}

enum { PAD_NEAR = 1 << 14, PAD_PIECE = 1 << 17, PAD_PIECES_FROM = 1 << 19 }; /* bytes */

static void put(const pad_task *t, int d, const int64_t *dims, const int64_t *steps, char *out, const char *in)
{
    const pad_step *s = t->s;
    int last = s->rank - 1;
    if (s->step_out[last] == 1)
        mf_copy_strided(s->rank - d, dims + d, s->element, out, steps + d, in, s->in_bytes + d);
    else if (d < last)
        for (int64_t i = 0; i < dims[d]; i++)
            put(t, d + 1, dims, steps, out + i * steps[d], in + i * s->in_bytes[d]);
    else if (dims[d] > 0) {
        dilate(out, s->step_out[d], in, dims[d] - 1, s->element, t->value);
        memcpy(out + (dims[d] - 1) * steps[d], in + (dims[d] - 1) * s->in_bytes[d], (size_t)s->element);
    }
}

/* Makes the rows [from, to) of the result along dimension d, which all fit the nearest cache, so they may be written twice. */
static void pad_near(const pad_task *t, int d, char *out, const char *in, int64_t from, int64_t to)
{
    const pad_step *s = t->s;
    int64_t dims[MF_RANK + 1], steps[MF_RANK + 1], first, at = 0;
    mf_native_fill(out + from * s->out_bytes[d], (to - from) * (s->out_bytes[d] / s->element), s->element, t->value);
    for (int i = d; i < s->rank; i++) {
        landing(s, i, i == d ? from : 0, i == d ? to : s->out[i], &first, &dims[i]);
        if (dims[i] <= first)
            return; /* no element lands here, and its address might be invalid */
        dims[i] -= first;
        steps[i] = s->step_out[i] * s->out_bytes[i];
        in += first * s->in_bytes[i];
        at += (s->low[i] + first * s->step_out[i]) * s->out_bytes[i];
    }
    put(t, d, dims, steps, out + at, in);
}

static void pad_axis(const pad_task *t, int d, char *out, const char *in, int64_t from, int64_t to)
{
    const pad_step *s = t->s;
    int64_t first, end, row = s->out_bytes[d], wide = row / s->element, step = s->step_out[d], near = PAD_NEAR / row;
    for (; near > 0 && from < to; from += near)
        pad_near(t, d, out, in, from, from + near < to ? from + near : to);
    if (from >= to)
        return;
    landing(s, d, from, to, &first, &end);
    if (first >= end) {
        mf_native_fill(out + from * row, (to - from) * wide, s->element, t->value);
        return;
    }
    int64_t begin = s->low[d] + first * step, behind = s->low[d] + (end - 1) * step + 1;
    mf_native_fill(out + from * row, (begin - from) * wide, s->element, t->value);
    mf_native_fill(out + behind * row, (to - behind) * wide, s->element, t->value);
    for (int64_t i = first; i < end; i++) {
        char *at = out + (s->low[d] + i * step) * row;
        pad_axis(t, d + 1, at, in + i * s->in_bytes[d], 0, s->out[d + 1]);
        if (step > 1 && i + 1 < end)
            mf_native_fill(at + row, (step - 1) * wide, s->element, t->value);
    }
}

static void run_pad_task(void *context, int64_t index)
{
    const pad_task *t = context;
    int64_t from = index * t->s->rows_a_task, to = from + t->s->rows_a_task;
    pad_axis(t, 0, t->out, t->in, from, to < t->s->out[0] ? to : t->s->out[0]);
}

static mf_error_object *run_pad(const mf_native_step *step, void *const *values, char *scratch)
{
    const pad_step *s = (const pad_step *)(const void *)step;
    pad_task t = { s, mf_step_in(step, values, 0), mf_step_in(step, values, 1), mf_step_out(step, values, 0) };
    int64_t tasks = (s->out[0] + s->rows_a_task - 1) / s->rows_a_task;
    (void)scratch;
    mf_parallel_for(tasks, run_pad_task, &t);
    return NULL;
}

static int64_t pad_place(const mf_native_step *step, int operand, int64_t result, int64_t k)
{
    const pad_step *s = (const pad_step *)(const void *)step;
    int64_t bytes = 0;
    (void)k;
    for (int d = s->rank - 1; d >= 0 && operand == 0; result /= s->out[d--]) {
        int64_t at = result % s->out[d] - s->low[d];
        if (at < 0 || at % s->step_out[d] || at / s->step_out[d] >= s->in[d])
            return -1;
        bytes += at / s->step_out[d] * s->in_bytes[d];
    }
    return bytes / s->element;
}

static void pad_form(const mf_native_step *step, mf_form *f)
{
    join_form(step, f);
    f->place = pad_place;
}

static void build_pad(mf_build *b, const mf_eqn *e)
{
    pad_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return;
    int64_t bytes = e->out[0]->type->bytes;
    s->element = mf_dtype_size(e->out[0]->type->dtype);
    plan_pad(s, e);
    if (s->rank == 0) { /* a scalar */
        s->rank = 1;
        s->in[0] = s->out[0] = s->step_out[0] = 1;
        s->in_bytes[0] = s->out_bytes[0] = s->element;
    }
    s->rows_a_task = s->out[0];
    if (bytes >= PAD_PIECES_FROM)
        s->rows_a_task = s->out_bytes[0] >= PAD_PIECE ? 1 : PAD_PIECE / s->out_bytes[0];
    s->step.run = run_pad;
    s->step.form = pad_form;
    s->step.cost = 20 + (double)bytes / 8;
    mf_build_step(b, &s->step, e->in, 2, e->out, 1);
}

/* ------------------------------------------------------------------ dynamic_slice and dynamic_update_slice */

typedef struct cut_window {
    mf_native_step step;
    cut_place whole;
    int64_t window[MF_RANK]; /* strides of the window's own memory, or of the update */
    int64_t offset;          /* of the update */
    mf_dtype start[MF_RANK];
    int64_t worth[MF_RANK]; /* elements that a start of 1 skips */
} cut_window;

/* The byte offset of the window in the operand. */
static int64_t window_at(const mf_native_step *step, void *const *values, int first, const int64_t *sizes)
{
    const cut_window *s = (const cut_window *)(const void *)step;
    const mf_type *t = step->eqn->in[0]->type;
    int64_t offset = s->whole.offset;
    for (int i = 0; i < t->rank; i++) {
        int64_t last = t->dims[i] - sizes[i], start = mf_load_i64(s->start[i], mf_step_in(step, values, first + i));
        if (start < 0)
            start = s->start[i] == MF_U64 ? last : 0; /* a u64 of 2^63 or more is large, not negative */
        offset += (start > last ? last : start) * s->whole.strides[i];
    }
    return offset;
}

static mf_error_object *run_slice(const mf_native_step *step, void *const *values, char *scratch)
{
    const cut_window *s = (const cut_window *)(const void *)step;
    const mf_type *to = step->eqn->out[0]->type;
    (void)scratch;
    mf_native_copy(to->rank, to->dims, mf_dtype_size(to->dtype), mf_step_out(step, values, 0), s->window,
                   mf_step_in(step, values, 0) + window_at(step, values, 1, to->dims), s->whole.strides);
    return NULL;
}

static mf_error_object *run_update(const mf_native_step *step, void *const *values, char *scratch)
{
    const cut_window *s = (const cut_window *)(const void *)step;
    const mf_type *u = step->eqn->in[1]->type, *t = step->eqn->in[0]->type;
    char *out = mf_step_out(step, values, 0);
    (void)scratch;
    mf_native_move(out, mf_step_in(step, values, 0), t->bytes);
    if (u->size)
        mf_native_copy(u->rank, u->dims, mf_dtype_size(u->dtype), out + window_at(step, values, 2, u->dims), s->whole.strides,
                       mf_step_in(step, values, 1) + s->offset, s->window);
    return NULL;
}

static int64_t window_place(const mf_native_step *step, int operand, int64_t result, int64_t k)
{
    const cut_window *s = (const cut_window *)(const void *)step;
    const mf_type *t = (s->step.overwrites ? step->eqn->in[1] : step->eqn->out[0])->type;
    int64_t bytes = operand ? byte_of(t, s->window, result) + s->offset : byte_of(t, s->whole.strides, result) + s->whole.offset;
    (void)k;
    return bytes / mf_dtype_size(t->dtype);
}

static void window_form(const mf_native_step *step, mf_form *f)
{
    const cut_window *s = (const cut_window *)(const void *)step;
    const mf_type *x = step->eqn->in[0]->type, *t = (s->step.overwrites ? step->eqn->in[1] : step->eqn->out[0])->type;
    f->kind = s->step.overwrites ? MF_FORM_UPDATE : MF_FORM_SLICE;
    f->type = x;
    f->count = t->size;
    f->dtype = t->dtype;
    f->first_start = s->step.overwrites ? 2 : 1;
    f->worth = s->worth;
    f->place = window_place;
    for (int i = 0; i < x->rank; i++)
        f->most[i] = x->dims[i] - t->dims[i];
}

static void build_window(mf_build *b, const mf_eqn *e)
{
    bool update = e->op == &mf_op_dynamic_update_slice;
    cut_window *s = mf_step_new(b, sizeof *s, e);
    mf_variable **roots = mf_build_alloc(b, (size_t)e->in_count, sizeof *roots);
    if (!s || !roots)
        return;
    int first = 1 + update;
    for (int i = 0; i < e->in_count; i++)
        roots[i] = e->in[i];
    for (int i = first; i < e->in_count; i++)
        s->start[i - first] = e->in[i]->type->dtype;
    if (update) {
        cut_place own = { 0 };
        mf_contiguous_strides(e->in[0]->type, s->whole.strides);
        if (e->in[1]->type->size && !read_place(b, e->in[1], &roots[1], &own))
            return;
        memcpy(s->window, own.strides, sizeof s->window);
        s->offset = own.offset;
        s->step.overwrites = mf_overwrites_first;
    } else {
        mf_contiguous_strides(e->out[0]->type, s->window);
        if (!read_place(b, e->in[0], &roots[0], &s->whole))
            return;
    }
    for (int i = 0; i < e->in[0]->type->rank; i++)
        s->worth[i] = s->whole.strides[i] / mf_dtype_size(e->in[0]->type->dtype);
    s->step.form = window_form;
    s->step.run = update ? run_update : run_slice;
    s->step.cost = 20 + (double)e->out[0]->type->bytes / 8;
    mf_build_step(b, &s->step, roots, e->in_count, e->out, 1);
}

bool mf_build_cut(mf_build *b, const mf_eqn *e)
{
    if (e->op == &mf_op_concatenate)
        build_join(b, e);
    else if (e->op == &mf_op_pad)
        build_pad(b, e);
    else if (e->op == &mf_op_dynamic_slice || e->op == &mf_op_dynamic_update_slice)
        build_window(b, e);
    else
        return false;
    return true;
}
