/* Sliding windows by shifted rows. The operand is copied with its padding, separated by the strides' phases, so that every window begins
 * one element behind its neighbour. Then element k of all windows is one long run, which is joined into a run of accumulators. Used for
 * integers and minima, and where there are too few channels for the pooling kernels (pool_step.c), which process many at a time.
 * Invariants: each window's elements are taken in row-major order, starting from the identity, and padding is the identity, which
 * changes no bit; a task makes slabs of the result along one dimension, cut by shape alone. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/segment_build.h"
#include "backend/native/steps/copy_step.h"

#include <string.h>

enum {
    FAR_WINDOW = 1024,
    AT_ONCE = 1024,
    JOINS = 64,
    FEW_CHANNELS = 8,
    LONG_RUN = 128,
    SLAB_BYTES = 1 << 15,
    MOST_TASKS = 16,
    TASK_COST = 12000
};

/* One dimension with a window; the channels come behind the last one. Place p of the padded operand is entry p / stride of phase p %
 * stride. */
typedef struct window_axis {
    int64_t in, out, window, stride, dilation, base, low;
    int64_t phases;                /* number of phases that windows touch: the first one is that of their element 0, and so on */
    int64_t entries, entry_stride; /* entries of a slab in each phase; elements between entries */
    int64_t phase_stride;          /* elements between phases */
    int64_t *offsets;              /* by element of the window */
} window_axis;

typedef struct window_step {
    mf_native_step step;
    mf_reducer how;
    mf_dtype dtype;
    int rank; /* of the axes */
    window_axis axis[MF_RANK];
    int64_t channels;
    int cut;                                  /* the axis along which slabs are cut */
    int flat;                                 /* from this axis on, entries are processed as one run */
    int64_t slab, slabs, slabs_a_task, tasks; /* slab: windows along the axis that is cut */
    int64_t laid, run;                        /* elements of a laid-out slab; of a run */
    size_t task_bytes;
    int64_t from[MF_RANK + 1], to[MF_RANK + 1]; /* bytes between entries in the operand, and in the result; last: of a channel */
    char identity[16];
} window_step;

/* ------------------------------------------------------------------ laying out */

/* The entries of a phase that the operand's elements fill: `count` of them from `entry` on, `step` apart, from elements that are
 * `element_step` apart. */
typedef struct landing {
    int64_t entry, element, count, step, element_step;
} landing;

static landing land(const window_axis *x, int64_t first_window, int64_t phase)
{
    int64_t place = first_window * x->stride + phase * x->dilation % x->stride - x->low, entry = 0;
    int64_t divisor = mf_common_divisor(x->stride, x->base), step = x->base / divisor, element_step = x->stride / divisor;
    if (place < 0) {
        entry = (-place + x->stride - 1) / x->stride;
        place += entry * x->stride;
    }
    for (int64_t i = 1; i < step && place % x->base; i++, entry++)
        place += x->stride;
    int64_t element = place / x->base;
    if (place % x->base || element >= x->in || entry >= x->entries)
        return (landing){ 0 }; /* dilation leaves nothing in this phase, or all is behind the end */
    int64_t there = (x->in - 1 - element) / element_step + 1, here = (x->entries - 1 - entry) / step + 1;
    landing l = { .entry = entry, .element = element, .count = there < here ? there : here };
    if (l.count > 1) { /* otherwise they could be arbitrarily large */
        l.step = step;
        l.element_step = element_step;
    }
    return l;
}

static bool has_padding(const window_step *s, int64_t first)
{
    for (int i = 0; i < s->rank; i++)
        for (int64_t phase = 0; phase < s->axis[i].phases; phase++)
            if (land(&s->axis[i], i == s->cut ? first : 0, phase).count < s->axis[i].entries)
                return true;
    return false;
}

/* Lays out the slab whose first window along the cut axis is this one. */
static void lay_out(const window_step *s, char *laid, const char *in, int64_t first)
{
    int64_t phase[MF_RANK] = { 0 }, size = mf_dtype_size(s->dtype);
    if (has_padding(s, first))
        mf_native_fill(laid, s->laid, (int)size, s->identity);
    for (int d = 0; d >= 0;) {
        int64_t dims[MF_RANK + 1], to[MF_RANK + 1], from[MF_RANK + 1], out_at = 0, in_at = 0;
        for (int i = 0; i < s->rank; i++) {
            const window_axis *x = &s->axis[i];
            landing l = land(x, i == s->cut ? first : 0, phase[i]);
            dims[i] = l.count;
            to[i] = l.step * x->entry_stride * size;
            from[i] = l.element_step * s->from[i];
            out_at += (phase[i] * x->phase_stride + l.entry * x->entry_stride) * size;
            in_at += l.element * s->from[i];
        }
        dims[s->rank] = s->channels;
        to[s->rank] = from[s->rank] = size;
        mf_copy_strided(s->rank + 1, dims, (int)size, laid + out_at, to, in + in_at, from);
        for (d = s->rank - 1; d >= 0 && ++phase[d] == s->axis[d].phases; d--)
            phase[d] = 0;
    }
}

/* ------------------------------------------------------------------ joining */

/* Joins all elements of the windows that begin at n consecutive entries. */
static void join_all(const window_step *s, char *acc, const char *laid, int64_t n)
{
    const window_axis *inner = &s->axis[s->rank - 1];
    int64_t k[MF_RANK] = { 0 }, offsets[JOINS];
    int count = 0;
    for (int d = 0; d >= 0;) {
        int64_t at = 0;
        for (int i = 0; i < s->rank - 1; i++)
            at += s->axis[i].offsets[k[i]];
        for (int64_t i = 0; i < inner->window; i++) {
            offsets[count++] = at + inner->offsets[i];
            if (count == JOINS) {
                mf_window_join(s->how, s->dtype, acc, laid, offsets, count, n);
                count = 0;
            }
        }
        for (d = s->rank - 2; d >= 0 && ++k[d] == s->axis[d].window; d--)
            k[d] = 0;
    }
    mf_window_join(s->how, s->dtype, acc, laid, offsets, count, n);
}

/* Computes the windows that begin at `run` consecutive entries. */
static void make_run(const window_step *s, char *out, const char *laid, int64_t run)
{
    int64_t acc[AT_ONCE], size = mf_dtype_size(s->dtype), most = size == 8 ? AT_ONCE : 2 * AT_ONCE;
    bool own = size >= 4; /* the results serve as accumulators */
    for (int64_t at = 0, n; at < run; at += n) {
        n = run - at < most ? run - at : most;
        char *to = out + at * size, *sums = own ? to : (char *)acc;
        mf_window_start(s->dtype, sums, s->identity, n);
        join_all(s, sums, laid + at * size, n);
        if (!own)
            mf_window_end(s->dtype, to, sums, n);
    }
}

/* Computes `windows` windows along the cut axis. */
static void make_slab(const window_step *s, char *out, const char *laid, char *workspace, int64_t windows)
{
    int64_t dims[MF_RANK + 1], from[MF_RANK + 1], at[MF_RANK] = { 0 }, size = mf_dtype_size(s->dtype), run = s->channels;
    int last = s->rank - 1;
    for (int i = 0; i < s->rank; i++) {
        dims[i] = i == s->cut ? windows : s->axis[i].out;
        from[i] = s->axis[i].entry_stride * size;
        run += i < s->flat ? 0 : (dims[i] - 1) * s->axis[i].entry_stride;
    }
    dims[s->rank] = s->channels;
    from[s->rank] = size;
    for (int d = 0; d >= 0;) {
        int64_t entry = 0, to = 0;
        for (int i = 0; i < s->flat; i++) {
            entry += at[i] * from[i];
            to += at[i] * s->to[i];
        }
        make_run(s, s->flat == last ? out + to : workspace, laid + entry, run);
        if (s->flat < last)
            mf_copy_strided(s->rank + 1 - s->flat, dims + s->flat, (int)size, out + to, s->to + s->flat, workspace, from + s->flat);
        for (d = s->flat - 1; d >= 0 && ++at[d] == dims[d]; d--)
            at[d] = 0;
    }
}

typedef struct window_task {
    const window_step *s;
    const char *in;
    char *out, *scratch;
} window_task;

static void run_task(void *context, int64_t index)
{
    const window_task *t = context;
    const window_step *s = t->s;
    char *laid = t->scratch + (size_t)index * s->task_bytes, *workspace = laid + s->laid * mf_dtype_size(s->dtype);
    int64_t from = index * s->slabs_a_task, to = from + s->slabs_a_task < s->slabs ? from + s->slabs_a_task : s->slabs;
    for (int64_t i = from; i < to; i++) {
        int64_t first = i * s->slab, left = s->axis[s->cut].out - first;
        lay_out(s, laid, t->in, first);
        make_slab(s, t->out + first * s->to[s->cut], laid, workspace, left < s->slab ? left : s->slab);
    }
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const window_step *s = (const window_step *)(const void *)step;
    window_task t = { s, mf_step_in(step, values, 0), mf_step_out(step, values, 0), scratch + step->scratch_offset };
    mf_parallel_for(s->tasks, run_task, &t);
    return NULL;
}

/* ------------------------------------------------------------------ compilation */

static void find_identity(window_step *s)
{
    if (s->how != MF_REDUCE_SUM && (s->dtype == MF_I64 || s->dtype == MF_U64)) {
        uint64_t sign = (uint64_t)1 << 63, least = s->dtype == MF_I64 ? sign : 0;
        mf_store_i64(s->dtype, s->identity, (int64_t)(s->how == MF_REDUCE_MAX ? least : ~least));
    } else {
        double first = s->how == MF_REDUCE_SUM ? 0 : s->how == MF_REDUCE_MAX ? mf_dtype_lowest(s->dtype) : mf_dtype_highest(s->dtype);
        if (mf_dtype_is_float(s->dtype))
            mf_store_f64(s->dtype, s->identity, first);
        else
            mf_store_i64(s->dtype, s->identity, (int64_t)first);
    }
}

/* Finds the axes: all dimensions up to the last one with a window; the dimensions behind it are channels. */
static void find_axes(window_step *s, const mf_window_params *p, const mf_type *t, const mf_type *to)
{
    int last = t->rank - 1;
    s->channels = mf_dtype_is_complex(t->dtype) ? 2 : 1; /* real and imaginary parts are summed independently */
    for (; last >= 0; last--) {
        bool still = p->window->at[last] == 1 && p->strides->at[last] == 1 && !p->padding_low->at[last] && !p->padding_high->at[last] &&
                     p->base_dilation->at[last] == 1;
        if (!still)
            break;
        s->channels *= t->dims[last];
    }
    s->rank = last + 1;
    for (int i = 0; i < s->rank; i++)
        s->axis[i] = (window_axis){ .in = t->dims[i],
                                    .out = to->dims[i],
                                    .window = p->window->at[i],
                                    .stride = p->strides->at[i],
                                    .dilation = p->window_dilation->at[i],
                                    .base = p->base_dilation->at[i],
                                    .low = p->padding_low->at[i] };
    s->from[s->rank] = s->to[s->rank] = mf_dtype_size(s->dtype);
    for (int64_t i = last, from = s->channels * s->from[s->rank], own = from; i >= 0; i--) {
        s->from[i] = from;
        s->to[i] = own;
        from *= s->axis[i].in;
        own *= s->axis[i].out;
    }
}

/* The number of entries between a window's first and last element. */
static int64_t reach(const window_axis *x) { return (x->window - 1) * x->dilation / x->stride; }

/* Plans the size of a slab. False: it would be far larger than what is read. */
static bool plan_slabs(window_step *s, const mf_type *t)
{
    double others = (double)(s->channels * mf_dtype_size(s->dtype));
    for (int i = 0; i < s->rank; i++) {
        window_axis *x = &s->axis[i];
        int64_t different = x->stride / mf_common_divisor(x->stride, x->dilation);
        x->phases = different < x->window ? different : x->window;
        if (s->axis[s->cut].out < 8 && x->out > s->axis[s->cut].out)
            s->cut = i;
    }
    for (int i = 0; i < s->rank; i++)
        others *= (double)s->axis[i].phases * (i == s->cut ? 1 : (double)(s->axis[i].out + reach(&s->axis[i])));
    window_axis *cut = &s->axis[s->cut];
    s->slab = others < SLAB_BYTES ? (int64_t)(SLAB_BYTES / others) - reach(cut) : 0;
    s->slab = s->slab > reach(cut) ? s->slab : reach(cut);
    s->slab = s->slab < 1 ? 1 : s->slab < cut->out ? s->slab : cut->out;
    s->slabs = (cut->out + s->slab - 1) / s->slab;
    return others * (double)(s->slab + reach(cut)) <= 16.0 * (double)t->bytes + SLAB_BYTES;
}

/* Plans the layout of a slab's entries and of the windows' elements, and which axes make up a run: short rows are worth processing the
 * entries between them too. */
static void plan_runs(mf_build *b, window_step *s)
{
    int64_t size = s->channels, useful = s->channels;
    for (int i = s->rank - 1; i >= 0; i--) {
        window_axis *x = &s->axis[i];
        x->entries = (i == s->cut ? s->slab : x->out) + reach(x);
        x->entry_stride = size;
        size *= x->entries;
    }
    s->run = s->channels;
    s->flat = s->rank;
    for (int64_t whole, out, lanes; s->flat == s->rank || (s->flat > 0 && s->run < LONG_RUN); s->run = whole, s->flat--) {
        const window_axis *x = &s->axis[s->flat - 1];
        out = s->flat - 1 == s->cut ? s->slab : x->out;
        whole = s->run + (out - 1) * x->entry_stride;
        lanes = s->run < 32 ? s->run : 32;
        if (s->flat < s->rank && whole * lanes > 64 * useful * out)
            break;
        useful *= out;
    }
    for (int i = s->rank - 1; i >= 0; i--) {
        window_axis *x = &s->axis[i];
        x->phase_stride = size;
        size *= x->phases;
        x->offsets = mf_build_alloc(b, (size_t)x->window, sizeof *x->offsets);
        for (int64_t k = 0; k < x->window && !b->error; k++)
            x->offsets[k] = k % x->phases * x->phase_stride + k * x->dilation / x->stride * x->entry_stride;
    }
    s->laid = size;
}

static void plan_tasks(window_step *s, const mf_type *to)
{
    int64_t size = mf_dtype_size(s->dtype);
    double joins = (double)to->size;
    for (int i = 0; i < s->rank; i++)
        joins *= (double)s->axis[i].window;
    s->step.cost = 50 + joins * 0.03 * (double)size / 4 + (double)(s->laid * s->slabs) * 0.3;
    s->tasks = s->step.cost < TASK_COST * MOST_TASKS ? (int64_t)(s->step.cost / TASK_COST) : MOST_TASKS;
    s->tasks = s->tasks < 1 ? 1 : s->tasks < s->slabs ? s->tasks : s->slabs;
    s->slabs_a_task = (s->slabs + s->tasks - 1) / s->tasks;
    s->tasks = (s->slabs + s->slabs_a_task - 1) / s->slabs_a_task;
    s->task_bytes = ((size_t)((s->laid + (s->flat < s->rank - 1 ? s->run : 0)) * size) + 63) / 64 * 64;
    s->step.scratch_bytes = s->task_bytes * (size_t)s->tasks;
}

bool mf_window_reaches_far(const mf_eqn *e, const mf_type *operand)
{
    const mf_window_params *p = e->params;
    for (int i = 0; i < operand->rank; i++)
        if ((p->window->at[i] - FAR_WINDOW) * p->window_dilation->at[i] > operand->dims[i] * p->base_dilation->at[i])
            return true;
    return false;
}

bool mf_build_window(mf_build *b, const mf_eqn *e)
{
    bool sum = e->op->reducer == MF_REDUCE_SUM, max = e->op->reducer == MF_REDUCE_MAX;
    if (e->op->reduced != MF_REDUCED_WINDOWS)
        return false;
    const mf_type *t = e->in[0]->type;
    window_step made = { .dtype = t->dtype, .how = e->op->reducer };
    if (sum && mf_dtype_is_complex(t->dtype))
        made.dtype = t->dtype == MF_C64 ? MF_F32 : MF_F64;
    if (!mf_line_knows(made.dtype) || mf_window_reaches_far(e, t) || t->size == 0 || e->out[0]->type->size == 0)
        return false;
    find_axes(&made, e->params, t, e->out[0]->type);
    if (made.rank < 1 || !plan_slabs(&made, t) || (made.channels >= FEW_CHANNELS && (sum || max) && mf_dtype_is_float(t->dtype)))
        return false;
    window_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    *s = made;
    s->step = (mf_native_step){ .eqn = e, .run = run };
    find_identity(s);
    plan_runs(b, s);
    plan_tasks(s, e->out[0]->type);
    mf_build_step(b, &s->step, e->in, 1, e->out, 1);
    return true;
}
