/* Sliding windows row by row: for each offset in the window, in row-major order, a row of the operand joins a row of accumulators. For
 * integers and minima, and where there are too few channels for the pooling kernels (pool.c), which take many at a time.
 * Invariants: each window's elements are taken in row-major order from the identity on; tasks are rows of the result. */
#include "backend/native/kernels/kernels.h"
#include "backend/native/native.h"

#include <string.h>

enum { AT_ONCE = 1024, TASK_JOINS = 1 << 17, FEW_CHANNELS = 8 };

/* One dimension with a window; the last is the row, behind which lie the channels. */
typedef struct window_axis {
    int64_t in, out, window, stride, dilation, low;
} window_axis;

typedef struct window_step {
    mf_native_step step;
    mf_join how;
    mf_dtype dtype;
    int rank; /* of the axes, the row's included */
    window_axis axis[MF_RANK];
    int64_t channels, rows, rows_a_task; /* rows of the result */
    char identity[16];
} window_step;

static int64_t up(int64_t a, int64_t b) { return a > 0 ? (a + b - 1) / b : 0; } /* a / b rounded up, and no less than 0 */

/* One row of the operand joins the accumulators of the windows [first, end) and channels [c, c + width). */
static void join_row(const window_step *s, char *acc, const char *row, int64_t first, int64_t end, int64_t c, int64_t width)
{
    const window_axis *x = &s->axis[s->rank - 1];
    int64_t size = mf_dtype_size(s->dtype), sum_size = size == 8 ? 8 : 4;
    for (int64_t k = 0; k < x->window; k++) {
        int64_t shift = k * x->dilation - x->low, from = up(-shift, x->stride), to = up(x->in - shift, x->stride);
        from = from > first ? from : first;
        to = to < end ? to : end;
        if (from >= to)
            continue;
        const char *at = row + ((from * x->stride + shift) * s->channels + c) * size;
        char *a = acc + (from - first) * width * sum_size;
        if (s->channels == 1)
            mf_window_row(s->how, s->dtype, a, at, to - from, x->stride);
        else if (x->stride == 1 && width == s->channels)
            mf_window_row(s->how, s->dtype, a, at, (to - from) * width, 1);
        else
            for (int64_t o = from; o < to; o++, a += width * sum_size, at += x->stride * s->channels * size)
                mf_window_row(s->how, s->dtype, a, at, width, 1);
    }
}

/* All rows of the operand that the windows of row `index` touch, one after the other. */
static void join_rows(const window_step *s, char *acc, const char *in, int64_t index, int64_t first, int64_t end, int64_t c, int64_t width)
{
    const window_axis *row = &s->axis[s->rank - 1];
    int64_t corner[MF_RANK], k[MF_RANK] = { 0 }, bytes = row->in * s->channels * mf_dtype_size(s->dtype);
    int last = s->rank - 2;
    for (int d = last; d >= 0; d--) {
        corner[d] = index % s->axis[d].out * s->axis[d].stride - s->axis[d].low;
        index /= s->axis[d].out;
    }
    for (int d = 0; d >= 0;) {
        int64_t at = 0;
        bool inside = true;
        for (int i = 0; i <= last; i++) {
            int64_t p = corner[i] + k[i] * s->axis[i].dilation;
            inside &= p >= 0 && p < s->axis[i].in;
            at = at * s->axis[i].in + p;
        }
        if (inside)
            join_row(s, acc, in + at * bytes, first, end, c, width);
        for (d = last; d >= 0 && ++k[d] == s->axis[d].window; d--)
            k[d] = 0;
    }
}

typedef struct window_task {
    const window_step *s;
    const char *in;
    char *out;
} window_task;

static void run_row(const window_task *t, int64_t index)
{
    const window_step *s = t->s;
    int64_t acc[AT_ONCE], n = s->axis[s->rank - 1].out, size = mf_dtype_size(s->dtype);
    int64_t width = s->channels < AT_ONCE ? s->channels : AT_ONCE, wide = AT_ONCE / width;
    for (int64_t first = 0; first < n; first += wide)
        for (int64_t c = 0; c < s->channels; c += width) {
            int64_t end = first + wide < n ? first + wide : n, channels = s->channels - c < width ? s->channels - c : width;
            mf_window_start(s->dtype, acc, s->identity, (end - first) * channels);
            join_rows(s, (char *)acc, t->in, index, first, end, c, channels);
            mf_window_end(s->dtype, t->out + ((index * n + first) * s->channels + c) * size, acc, (end - first) * channels);
        }
}

static void run_task(void *context, int64_t index)
{
    const window_task *t = context;
    int64_t first = index * t->s->rows_a_task, end = first + t->s->rows_a_task < t->s->rows ? first + t->s->rows_a_task : t->s->rows;
    for (int64_t i = first; i < end; i++)
        run_row(t, i);
}

static mf_error_object *run(const mf_native_step *step, void *const *values, char *scratch)
{
    const window_step *s = (const window_step *)(const void *)step;
    window_task t = { s, mf_step_in(step, values, 0), mf_step_out(step, values, 0) };
    int64_t tasks = (s->rows + s->rows_a_task - 1) / s->rows_a_task;
    (void)scratch;
    mf_native_parallel(tasks, run_task, &t);
    return NULL;
}

static void find_identity(window_step *s)
{
    if (s->how != MF_JOIN_ADD && (s->dtype == MF_I64 || s->dtype == MF_U64)) {
        uint64_t sign = (uint64_t)1 << 63, least = s->dtype == MF_I64 ? sign : 0;
        mf_store_i64(s->dtype, s->identity, (int64_t)(s->how == MF_JOIN_MAX ? least : ~least));
    } else {
        double first = s->how == MF_JOIN_ADD ? 0 : s->how == MF_JOIN_MAX ? mf_dtype_lowest(s->dtype) : mf_dtype_highest(s->dtype);
        if (mf_dtype_is_float(s->dtype))
            mf_store_f64(s->dtype, s->identity, first);
        else
            mf_store_i64(s->dtype, s->identity, (int64_t)first);
    }
}

/* False where the walk along rows cannot do it. */
static bool plan(window_step *s, const mf_window_params *p, const mf_type *t, const mf_type *to)
{
    int last = t->rank - 1;
    double joins = (double)to->size;
    s->channels = s->rows = 1;
    for (; last >= 0; last--) {
        bool still = p->window->at[last] == 1 && p->strides->at[last] == 1 && !p->padding_low->at[last] && !p->padding_high->at[last];
        if (!still)
            break;
        s->channels *= t->dims[last];
    }
    for (int i = 0; i <= last; i++) {
        s->axis[i] = (window_axis){ t->dims[i],           to->dims[i], p->window->at[i], p->strides->at[i], p->window_dilation->at[i],
                                    p->padding_low->at[i] };
        if (p->base_dilation->at[i] != 1 || p->padding_low->at[i] < 0 || p->padding_high->at[i] < 0)
            return false;
        joins *= (double)p->window->at[i];
        s->rows *= i < last ? to->dims[i] : 1;
    }
    s->rank = last + 1;
    double row = joins / (double)s->rows;
    s->rows_a_task = joins < 4.0 * TASK_JOINS ? s->rows : row >= TASK_JOINS ? 1 : (int64_t)(TASK_JOINS / row);
    s->step.cost = 30 + joins * 0.2 + (double)s->rows * 10;
    return s->rank > 0;
}

bool mf_build_window(mf_build *b, const mf_eqn *e)
{
    bool sum = e->op == &mf_op_reduce_window_sum, max = e->op == &mf_op_reduce_window_max;
    if (!sum && !max && e->op != &mf_op_reduce_window_min)
        return false;
    const mf_type *t = e->in[0]->type;
    window_step made = { .dtype = t->dtype, .how = sum ? MF_JOIN_ADD : max ? MF_JOIN_MAX : MF_JOIN_MIN };
    if (!mf_line_knows(t->dtype) || t->size == 0 || !plan(&made, e->params, t, e->out[0]->type))
        return false;
    if ((sum || max) && mf_dtype_is_float(t->dtype) && made.channels >= FEW_CHANNELS)
        return false;
    window_step *s = mf_step_new(b, sizeof *s, e);
    if (!s)
        return true;
    made.step = (mf_native_step){ .eqn = e, .run = run, .cost = made.step.cost };
    *s = made;
    find_identity(s);
    mf_build_step(b, &s->step, e->in, 1, e->out, 1);
    return true;
}
