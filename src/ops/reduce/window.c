/* Ops over sliding windows: reduce_window_sum, _max, _min, and what their derivatives need: select_and_scatter_add (the gradient of a
 * maximum goes to where it came from) and select_and_gather_add (its transpose). The public functions are below.
 *
 * Invariant: elements of a window are visited row by row; what lies in the padding or between dilated elements is skipped, so it acts
 * as 0, the lowest or the highest value. Of equal maxima the first is chosen; where -inf or NaN meets padding, scatter and gather choose
 * as JAX's do, which differ: one goes over an operand padded with -inf, the other reduces from -inf on. f16 and bf16 sum in f32 and round
 * once. Complex numbers have maxima and minima in JAX's order, and, as there, no derivatives of them.
 * The minimum's derivative is the maximum's of the negated operand, so both select ops choose by `ge` only. */
#include "base/alloc.h"
#include "ops/elementwise/loops.h"
#include "ops/reduce/window_hlo.h"
#include "ops/shape/shape.h"

#include <math.h>
#include <string.h>

/* ---- types */
static mf_error_object *check_window(const mf_type_context *c, const mf_window_params *p, int rank)
{
    const mf_intlist *lists[] = { p->window, p->strides, p->padding_low, p->padding_high, p->base_dilation, p->window_dilation };
    static const char *const names[] = { "window", "strides", "padding_low", "padding_high", "base_dilation", "window_dilation" };
    for (int k = 0; k < 6; k++) {
        if (lists[k]->count != rank)
            return mf_type_error(c, MF_ERROR_SHAPE, "%s must have one entry for each of the operand's %d dimensions, not %d", names[k],
                                 rank, lists[k]->count);
        mf_error_object *e = shape_check_steps(c, names[k], lists[k], k != 2 && k != 3);
        if (e)
            return e;
    }
    return NULL;
}

/* Windows along dimension i of an operand with that size. */
static int64_t window_count(const mf_window_params *p, int i, int64_t size)
{
    return shape_windows(size, p->padding_low->at[i], p->padding_high->at[i], p->base_dilation->at[i], p->window->at[i],
                         p->window_dilation->at[i], p->strides->at[i]);
}

static const mf_type *window_result(const mf_window_params *p, const mf_type *t)
{
    int64_t dims[MF_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = window_count(p, i, t->dims[i]);
    return mf_type_with_shape(t, t->rank, dims);
}

static mf_error_object *window_type(mf_type_context *c)
{
    mf_error_object *e = check_window(c, c->params, c->in[0]->rank);
    if (e)
        return e;
    if (c->in[0]->dtype == MF_KEY)
        return mf_type_error(c, MF_ERROR_DTYPE, "it is not defined for %s", mf_dtype_name(c->in[0]->dtype));
    c->out[0] = window_result(c->params, c->in[0]);
    return NULL;
}

/* (source, operand): one element of source for each window of operand. */
static mf_error_object *scatter_type(mf_type_context *c)
{
    const mf_type *x = c->in[1];
    mf_error_object *e = check_window(c, c->params, x->rank);
    if (e)
        return e;
    if (c->in[0]->dtype != x->dtype || !mf_dtype_is_float(x->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "source and operand must have one floating dtype");
    const mf_type *want = window_result(c->params, x);
    if (!want || !mf_type_same_shape(want, c->in[0]))
        return mf_type_error(c, MF_ERROR_SHAPE, "the source must have the shape of the windows, %s",
                             want ? mf_type_name(want) : "which is too large");
    c->out[0] = mf_type_strong(x);
    return NULL;
}

/* (tangents, operand): two of one shape. */
static mf_error_object *gather_type(mf_type_context *c)
{
    mf_error_object *e = check_window(c, c->params, c->in[1]->rank);
    if (e)
        return e;
    if (c->in[0]->dtype != c->in[1]->dtype || !mf_dtype_is_float(c->in[0]->dtype))
        return mf_type_error(c, MF_ERROR_DTYPE, "tangents and operand must have one floating dtype");
    if (!mf_type_same_shape(c->in[0], c->in[1]))
        return mf_type_error(c, MF_ERROR_SHAPE, "tangents and operand must have one shape");
    const mf_type *t = window_result(c->params, c->in[1]);
    c->out[0] = t ? mf_type_strong(t) : NULL;
    return NULL;
}

/* ---- derivatives */
/* The cotangent, spread by the strides and padded, is summed over windows that start at every base_dilation-th place. Where padding would
 * cut something off, it is done first. */
static void sum_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                          mf_variable **ct_in)
{
    const mf_window_params *p = e->params;
    const mf_type *x = e->in[0]->type, *y = e->out[0]->type;
    int64_t low[MF_RANK], high[MF_RANK], interior[MF_RANK], zeros[MF_RANK] = { 0 }, ones[MF_RANK];
    bool cuts = false;
    for (int i = 0; i < x->rank; i++) {
        int64_t window = shape_spread(p->window->at[i], p->window_dilation->at[i]);
        low[i] = window - p->padding_low->at[i] - 1;
        high[i] = shape_spread(x->dims[i], p->base_dilation->at[i]) + window - 1 - shape_spread(y->dims[i], p->strides->at[i]) - low[i];
        interior[i] = p->strides->at[i] - 1;
        ones[i] = 1;
        cuts |= low[i] < 0 || high[i] < 0;
    }
    (void)linear, (void)in;
    mf_variable *padded = cuts ? e_pad(b, ct[0], 0, low, high, interior) : ct[0];
    mf_window_params back = { p->window,
                              p->base_dilation,
                              mf_ints_intern(cuts ? zeros : low, x->rank),
                              mf_ints_intern(cuts ? zeros : high, x->rank),
                              cuts ? mf_ints_intern(ones, x->rank) : p->strides,
                              p->window_dilation };
    ct_in[0] = mf_emit(b, &mf_op_reduce_window_sum, &back, 1, padded);
}

static void max_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = mf_emit(b, &mf_op_select_and_gather_add, e->params, 2, tin[0], e_convert(b, in[0], in[0]->type->dtype));
}

static void min_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = mf_emit(b, &mf_op_select_and_gather_add, e->params, 2, tin[0], e_neg(b, in[0]));
}

/* Of both select ops: linear in the first operand; the choice itself has no derivative. */
static void select_jvp(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out,
                       mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = tin[0] ? mf_emit(b, e->op, e->params, 2, tin[0], in[1]) : NULL;
}

static void scatter_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                              mf_variable **ct_in)
{
    if (linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[0] = mf_emit(b, &mf_op_select_and_gather_add, e->params, 2, ct[0], in[1]);
}

static void gather_transpose(mf_builder *b, const mf_eqn *e, const bool *linear, mf_variable *const *in, mf_variable *const *ct,
                             mf_variable **ct_in)
{
    if (linear[1])
        mf_transpose_none(b, e, linear, in, ct, ct_in);
    else
        ct_in[0] = mf_emit(b, &mf_op_select_and_scatter_add, e->params, 2, ct[0], in[1]);
}

/* ---- batching: a window of 1 along the new dimension */
static mf_window_params widened(const mf_window_params *p, int at)
{
    return (mf_window_params){ shape_inserted(p->window, at, 1),        shape_inserted(p->strides, at, 1),
                               shape_inserted(p->padding_low, at, 0),   shape_inserted(p->padding_high, at, 0),
                               shape_inserted(p->base_dilation, at, 1), shape_inserted(p->window_dilation, at, 1) };
}

static void window_batch(mf_batch_context *c, const mf_eqn *e, mf_variable *const *in, const int *in_axis, mf_variable **out, int *out_axis)
{
    int at = in_axis[0] >= 0 ? in_axis[0] : in_axis[e->in_count - 1];
    mf_window_params p = widened(e->params, at);
    mf_variable *moved[2] = { NULL, NULL };
    for (int i = 0; i < e->in_count && i < 2; i++)
        moved[i] = e_batched_at(c, in[i], in_axis[i], at);
    out[0] = mf_emit_eqn(c->b, e->op, &p, moved, e->in_count)->out[0];
    out_axis[0] = at;
}

static mf_cost window_cost(const mf_eqn *e)
{
    const mf_window_params *p = e->params;
    mf_cost cost = mf_cost_bytes(e);
    const mf_type *windows = e->op == &mf_op_select_and_scatter_add ? e->in[0]->type : e->out[0]->type;
    cost.flops = (double)windows->size;
    for (int i = 0; i < p->window->count; i++)
        cost.flops *= (double)p->window->at[i];
    return cost;
}

/* ---- evaluation: the elements of one window after the other. Dimensions with a window of 1 and nothing else to mind are left out of
 * the inner walk. */
typedef struct window_walk {
    const mf_window_params *p;
    const mf_type *operand;
    int64_t steps[MF_RANK];               /* elements, of the operand */
    int64_t counts[MF_RANK], at[MF_RANK]; /* the windows, and which one is next */
    int rank, busy_count, busy[MF_RANK];
    int64_t k[MF_RANK], corner[MF_RANK], base; /* the window being walked */
    int64_t first[MF_RANK], end[MF_RANK];      /* its places that are walked */
    /* every period-th place of a window may have an element, in windows whose corner is a multiple of `common`: see find_period */
    int64_t common[MF_RANK], period[MF_RANK], inverse[MF_RANK], meets[MF_RANK];
    bool padded, done;
} window_walk;

__extension__ typedef __int128 wide;

/* Where base dilation is d and window dilation s, place k of a window has an element if corner + k s is a multiple of d. With their
 * greatest common divisor g, that is k = -corner / g times the inverse of s / g, modulo d / g. */
static void find_period(window_walk *w, int i)
{
    int64_t d = w->p->base_dilation->at[i], a = d, b = w->p->window_dilation->at[i] % d, x = 0, y = 1;
    while (b) {
        int64_t times = a / b, rest = a % b, next = x - times * y;
        a = b;
        b = rest;
        x = y;
        y = next;
    }
    w->common[i] = a;
    w->period[i] = d / a;
    w->inverse[i] = x < 0 ? x + d / a : x;
}

/* From k on to the first place that may have an element. */
static int64_t to_element(const window_walk *w, int i, int64_t k)
{
    int64_t ahead = w->period[i] == 1 ? 0 : (int64_t)(((wide)w->meets[i] - k) % w->period[i]);
    ahead += ahead < 0 ? w->period[i] : 0;
    return k > INT64_MAX - ahead ? INT64_MAX : k + ahead;
}

static void open_walk(window_walk *w, const mf_window_params *p, const mf_type *operand)
{
    *w = (window_walk){ .p = p, .operand = operand, .rank = operand->rank };
    int64_t step = 1;
    for (int i = w->rank - 1; i >= 0; step *= operand->dims[i--])
        w->steps[i] = step;
    for (int i = 0; i < w->rank; i++) {
        w->counts[i] = window_count(p, i, operand->dims[i]);
        if (p->window->at[i] > 1 || p->base_dilation->at[i] > 1 || p->padding_low->at[i] || p->padding_high->at[i])
            w->busy[w->busy_count++] = i;
        find_period(w, i);
    }
}

/* Places between the operand's first and last element: a window may reach far into the padding, and the elements lie far apart. */
static void clip(window_walk *w, int i)
{
    int64_t step = w->p->window_dilation->at[i], last = (w->operand->dims[i] - 1) * w->p->base_dilation->at[i] - w->corner[i];
    int64_t in_front = w->corner[i] < 0 ? -w->corner[i] : 0;
    if (last < 0 || w->corner[i] % w->common[i])
        w->end[i] = 0;
    else if (last / step < w->end[i])
        w->end[i] = last / step + 1;
    if (w->period[i] > 1) {
        w->meets[i] = (int64_t)(-(wide)(w->corner[i] / w->common[i]) * w->inverse[i] % w->period[i]);
        w->meets[i] += w->meets[i] < 0 ? w->period[i] : 0;
    }
    w->first[i] = to_element(w, i, in_front / step + (in_front % step > 0));
}

/* From place to place: those with an element, and with `padded` one without wherever there are some in front of, between and behind them. */
static void step_along(window_walk *w, int i)
{
    bool element = to_element(w, i, w->k[i]) == w->k[i];
    w->k[i] = w->padded && element ? w->k[i] + 1 : to_element(w, i, w->k[i] + 1);
}

static void next_window(window_walk *w, bool padded)
{
    w->base = 0;
    w->done = false;
    w->padded = padded;
    for (int i = 0; i < w->rank; i++) {
        int64_t window = w->end[i] = w->p->window->at[i];
        w->corner[i] = w->at[i] * w->p->strides->at[i] - w->p->padding_low->at[i];
        w->base += w->corner[i] * w->steps[i];
        clip(w, i);
        w->done = w->done || w->first[i] >= w->end[i];
        w->first[i] -= padded && w->first[i] > 0;
        w->end[i] += padded && w->end[i] < window;
        w->k[i] = w->first[i];
    }
    for (int n = 0; n < w->busy_count; n++)
        w->base -= w->corner[w->busy[n]] * w->steps[w->busy[n]];
    for (int i = w->rank - 1; i >= 0 && ++w->at[i] == w->counts[i]; i--)
        w->at[i] = 0;
}

/* The window's next place: the index of its element, -1 where there is none. False at the end. */
static bool next_place(window_walk *w, int64_t *index)
{
    if (w->done)
        return false;
    bool there = true;
    *index = w->base;
    for (int n = 0; n < w->busy_count && there; n++) {
        int i = w->busy[n];
        int64_t p = w->corner[i] + w->k[i] * w->p->window_dilation->at[i], d = w->p->base_dilation->at[i];
        there = p >= 0 && p % d == 0 && p / d < w->operand->dims[i];
        *index += there ? p / d * w->steps[i] : 0;
    }
    *index = there ? *index : -1;
    int n = w->busy_count - 1;
    for (; n >= 0; n--) {
        step_along(w, w->busy[n]);
        if (w->k[w->busy[n]] < w->end[w->busy[n]])
            break;
        w->k[w->busy[n]] = w->first[w->busy[n]];
    }
    w->done = n < 0;
    return true;
}

/* The index of the window's next element that exists; -1 at the end. */
static int64_t next_element(window_walk *w)
{
    int64_t index;
    while (next_place(w, &index))
        if (index >= 0)
            return index;
    return -1;
}

#define REDUCE_WINDOWS(name, type, greater, lesser)                                                      \
    static void name(window_walk *w, const mf_op *op, const type *x, type *y, int64_t count, type first) \
    {                                                                                                    \
        bool sums = op == &mf_op_reduce_window_sum, max = op == &mf_op_reduce_window_max;                \
        for (int64_t o = 0; o < count; o++) {                                                            \
            type sum = first;                                                                            \
            next_window(w, false);                                                                       \
            for (int64_t i; (i = next_element(w)) >= 0;)                                                 \
                sum = sums ? sum + x[i] : max ? greater(sum, x[i]) : lesser(sum, x[i]);                  \
            y[o] = sum;                                                                                  \
        }                                                                                                \
    }
#define GREATER(x, y) ((x) > (y) ? (x) : (y))
#define LESSER(x, y)  ((x) < (y) ? (x) : (y))
REDUCE_WINDOWS(reduce_f32, float, mf_greater_single, mf_lesser_single)
REDUCE_WINDOWS(reduce_f64, double, mf_greater_real, mf_lesser_real)
REDUCE_WINDOWS(reduce_i64, int64_t, GREATER, LESSER)
REDUCE_WINDOWS(reduce_u64, uint64_t, GREATER, LESSER) /* sums of signed integers too: they wrap */

#define REDUCE_COMPLEX_WINDOWS(name, type)                                                                  \
    static void name(window_walk *w, const mf_op *op, const type *x, type *y, int64_t count)                \
    {                                                                                                       \
        bool sums = op == &mf_op_reduce_window_sum, max = op == &mf_op_reduce_window_max;                   \
        for (int64_t o = 0; o < count; o++) {                                                               \
            type sum[2] = { sums ? 0 : max ? -INFINITY : INFINITY, 0 };                                     \
            next_window(w, false);                                                                          \
            for (int64_t i; (i = next_element(w)) >= 0;) {                                                  \
                const type *z = x + 2 * i;                                                                  \
                double had[] = { (double)sum[0], (double)sum[1] }, here[] = { (double)z[0], (double)z[1] }; \
                bool stays = !sums && (max ? mf_less_pair(here, had) : mf_less_pair(had, here));            \
                for (int k = 0; k < 2; k++)                                                                 \
                    sum[k] = sums ? sum[k] + z[k] : stays ? sum[k] : z[k];                                  \
            }                                                                                               \
            y[2 * o] = sum[0];                                                                              \
            y[2 * o + 1] = sum[1];                                                                          \
        }                                                                                                   \
    }
REDUCE_COMPLEX_WINDOWS(reduce_c64, float)
REDUCE_COMPLEX_WINDOWS(reduce_c128, double)

static mf_dtype working_dtype(mf_dtype dtype, bool sum)
{
    if (dtype == MF_F64)
        return MF_F64;
    if (mf_dtype_is_float(dtype))
        return MF_F32;
    return sum || dtype == MF_U64 ? MF_U64 : MF_I64;
}

static void *converted(const mf_type *t, const void *x, mf_dtype dtype)
{
    void *out = mf_alloc((size_t)t->size * (size_t)mf_dtype_size(dtype) + 16);
    int element = mf_dtype_size(t->dtype);
    bool integers = dtype == MF_U64 || dtype == MF_I64;
    if (out && !integers)
        mf_convert(dtype, out, t->dtype, x, t->size);
    for (int64_t i = 0; out && integers && i < t->size; i++)
        ((int64_t *)out)[i] = mf_load_i64(t->dtype, (const char *)x + i * element);
    return out;
}

static void give_back(const mf_type *t, void *out, mf_dtype dtype, const void *x)
{
    int element = mf_dtype_size(t->dtype);
    if (dtype == MF_F32 || dtype == MF_F64) {
        mf_convert(t->dtype, out, dtype, x, t->size);
        return;
    }
    for (int64_t i = 0; i < t->size; i++) {
        int64_t v = ((const int64_t *)x)[i];
        mf_store_i64(t->dtype, (char *)out + i * element, t->dtype == MF_BOOL ? v != 0 : v);
    }
}

static int64_t integer_limit(mf_dtype dtype, bool lowest)
{
    if (dtype == MF_I64)
        return lowest ? INT64_MIN : INT64_MAX;
    if (dtype == MF_U64)
        return lowest ? 0 : -1;
    return (int64_t)(lowest ? mf_dtype_lowest(dtype) : mf_dtype_highest(dtype));
}

static mf_error_object *window_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_type *t = e->in[0]->type, *to = e->out[0]->type;
    bool sum = e->op == &mf_op_reduce_window_sum, max = e->op == &mf_op_reduce_window_max;
    window_walk w;
    open_walk(&w, e->params, t);
    if (mf_dtype_is_complex(t->dtype)) {
        if (t->dtype == MF_C64)
            reduce_c64(&w, e->op, in[0], out[0], to->size);
        else
            reduce_c128(&w, e->op, in[0], out[0], to->size);
        return NULL;
    }
    mf_dtype dtype = working_dtype(t->dtype, sum);
    double first = sum ? 0 : max ? mf_dtype_lowest(t->dtype) : mf_dtype_highest(t->dtype);
    int64_t whole = sum || mf_dtype_is_float(t->dtype) ? 0 : integer_limit(t->dtype, max);
    void *x = converted(t, in[0], dtype), *y = mf_alloc((size_t)to->size * (size_t)mf_dtype_size(dtype) + 16);
    bool fine = x && y;
    if (fine && dtype == MF_F32)
        reduce_f32(&w, e->op, x, y, to->size, (float)first);
    if (fine && dtype == MF_F64)
        reduce_f64(&w, e->op, x, y, to->size, first);
    if (fine && dtype == MF_I64)
        reduce_i64(&w, e->op, x, y, to->size, whole);
    if (fine && dtype == MF_U64)
        reduce_u64(&w, e->op, x, y, to->size, (uint64_t)whole);
    if (fine)
        give_back(to, out[0], dtype, y);
    mf_free(x);
    mf_free(y);
    return fine ? NULL : mf_error_out_of_memory();
}

/* Where a window's maximum is, the first of equals; -1 when that is no element. As XLA: stays while chosen >= next, so a NaN only stays
 * if it is the last. With `padded`, places without an element hold -inf like any other; else -inf comes before all elements. */
#define CHOOSE(name, type)                                          \
    static int64_t name(window_walk *w, const type *x, bool padded) \
    {                                                               \
        type best = (type)-INFINITY;                                \
        int64_t chosen = -1;                                        \
        bool begun = !padded;                                       \
        next_window(w, padded);                                     \
        for (int64_t i; next_place(w, &i);) {                       \
            type next = i < 0 ? (type)-INFINITY : x[i];             \
            if ((i < 0 && !padded) || (begun && best >= next))      \
                continue;                                           \
            best = next;                                            \
            chosen = i;                                             \
            begun = true;                                           \
        }                                                           \
        return chosen;                                              \
    }
CHOOSE(choose_f32, float)
CHOOSE(choose_f64, double)

static void scatter_add(window_walk *w, mf_dtype dtype, const void *source, const void *x, void *y, int64_t count)
{
    for (int64_t o = 0; o < count; o++) {
        int64_t i = dtype == MF_F32 ? choose_f32(w, x, true) : choose_f64(w, x, true);
        if (i >= 0 && dtype == MF_F32)
            ((float *)y)[i] += ((const float *)source)[o];
        if (i >= 0 && dtype == MF_F64)
            ((double *)y)[i] += ((const double *)source)[o];
    }
}

static void gather_chosen(window_walk *w, mf_dtype dtype, int element, const char *tangents, const void *x, char *y, int64_t count)
{
    for (int64_t o = 0; o < count; o++, y += element) {
        int64_t i = dtype == MF_F32 ? choose_f32(w, x, false) : choose_f64(w, x, false);
        if (i >= 0)
            memcpy(y, tangents + i * element, (size_t)element);
        else
            memset(y, 0, (size_t)element);
    }
}

static mf_error_object *scatter_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_type *source = e->in[0]->type, *t = e->in[1]->type;
    mf_dtype dtype = working_dtype(t->dtype, false);
    void *s = converted(source, in[0], dtype), *x = converted(t, in[1], dtype);
    void *y = mf_calloc((size_t)t->size + 1, (size_t)mf_dtype_size(dtype));
    bool fine = s && x && y;
    window_walk w;
    open_walk(&w, e->params, t);
    if (fine) {
        scatter_add(&w, dtype, s, x, y, source->size);
        give_back(e->out[0]->type, out[0], dtype, y);
    }
    mf_free(s);
    mf_free(x);
    mf_free(y);
    return fine ? NULL : mf_error_out_of_memory();
}

static mf_error_object *gather_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_type *t = e->in[1]->type;
    mf_dtype dtype = working_dtype(t->dtype, false);
    void *x = converted(t, in[1], dtype);
    window_walk w;
    if (!x)
        return mf_error_out_of_memory();
    open_walk(&w, e->params, t);
    gather_chosen(&w, dtype, mf_dtype_size(t->dtype), in[0], x, out[0], e->out[0]->type->size);
    mf_free(x);
    return NULL;
}

/* ---- rows */
static const mf_param window_params[] = {
    MF_PARAM(mf_window_params, window, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, strides, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, padding_low, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, padding_high, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, base_dilation, MF_PARAM_INTS),
    MF_PARAM(mf_window_params, window_dilation, MF_PARAM_INTS),
    { 0 },
};
/* clang-format off */
#define POOL_2X2 "[window=(1,2,2,1), strides=(1,2,2,1), padding_low=(0,0,0,0), padding_high=(0,0,0,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] "
#define POOL_3X3 "[window=(1,3,3,1), strides=(1,2,1,1), padding_low=(0,1,0,0), padding_high=(0,1,2,0), base_dilation=(1,1,1,1), window_dilation=(1,1,1,1)] "
#define LINE(window, stride, low, high, base, dilation) \
    "[window=(" window "), strides=(" stride "), padding_low=(" low "), padding_high=(" high "), base_dilation=(" base "), window_dilation=(" dilation ")] "
#define WINDOW_SAMPLES \
    POOL_2X2 "f32[1,4,4,2]{-2:2}", \
    POOL_3X3 "f32[2,5,4,1]{-2:2}", \
    LINE("3", "2", "1", "1", "1", "1") "f32[7]{-2:2}", \
    LINE("2", "1", "0", "0", "1", "3") "f64[7]{-2:2}", \
    LINE("2", "1", "1", "0", "2", "1") "f32[4]{-2:2}", \
    LINE("2", "3", "-1", "2", "1", "1") "f32[6]{-2:2}", \
    LINE("2", "1", "0", "0", "1", "1") "i32[5]{-9:9}", \
    LINE("2", "1", "0", "0", "1", "1") "u8[5]{0:255}", \
    LINE("2", "1", "1", "1", "1", "1") "bf16[5]{-2:2}", \
    LINE("4", "1", "0", "0", "1", "1") "f32[3]{-2:2}", \
    LINE("2", "1", "1", "1", "1", "1") "i32[0]{-2:2}", \
    "[] f32[]{-2:2}"
static const char *const max_samples[] = {
    WINDOW_SAMPLES,
    POOL_2X2 "f32[1,2,2,2]{=-0.0,0,0,-0.0,-0.0,-0.0,-0.0,-0.0} -> f32[1,1,1,2]{=0,0}",
    LINE("2", "1", "1", "0", "1", "1") "f32[4]{=-0.0,0,-0.0,-0.0} -> f32[4]{=-0.0,0,0,-0.0}",
    LINE("2", "1", "0", "0", "1", "1") "bf16[4]{=0,-0.0,-0.0,nan} -> bf16[3]{=0,-0.0,nan}",
    NULL,
};
static const char *const min_samples[] = {
    WINDOW_SAMPLES,
    POOL_2X2 "f32[1,2,2,2]{=-0.0,0,0,-0.0,0,0,0,0} -> f32[1,1,1,2]{=-0.0,-0.0}",
    LINE("2", "1", "1", "0", "1", "1") "f16[4]{=0,-0.0,0,0} -> f16[4]{=0,-0.0,-0.0,0}",
    NULL,
};
static const char *const sum_samples[] = {
    WINDOW_SAMPLES,
    POOL_3X3 "c64[2,5,4,1]{-2:2}",
    LINE("2", "1", "1", "0", "2", "1") "c128[4]{-2:2}",
    NULL,
};
/* source, operand */
static const char *const scatter_samples[] = {
    LINE("2", "2", "0", "0", "1", "1") "f32[2]{=5,7} f32[4]{=1,1,2,3} -> f32[4]{=5,0,0,7}",
    LINE("2", "2", "0", "0", "1", "1") "f32[2]{=5,7} f32[4]{=-0.0,0,0,-0.0} -> f32[4]{=5,0,7,0}",
    LINE("2", "1", "0", "0", "1", "1") "f32[3]{=1,2,4} f32[4]{=0,3,3,0} -> f32[4]{=0,3,4,0}",
    LINE("2", "1", "0", "1", "1", "1") "f32[2]{=1,2} f32[2]{=1,nan} -> f32[2]{=0,1}",
    LINE("2", "1", "1", "1", "1", "1") "f32[4]{=1,2,3,4} f32[3]{=-inf,-inf,1} -> f32[3]{=2,0,7}",
    POOL_2X2 "f32[1,2,2,2]{-2:2} f32[1,4,4,2]{-2:2}",
    POOL_3X3 "f32[1,3,4,1]{-2:2} f32[1,5,4,1]{-2:2}",
    LINE("2", "1", "0", "0", "1", "3") "f64[4]{-2:2} f64[7]{-2:2}",
    LINE("2", "1", "2", "2", "1", "1") "bf16[6]{-2:2} bf16[3]{-2:2}",
    NULL,
};
/* tangents, operand */
static const char *const gather_samples[] = {
    LINE("2", "2", "0", "0", "1", "1") "f32[4]{=5,6,7,8} f32[4]{=1,1,2,3} -> f32[2]{=5,8}",
    LINE("2", "1", "0", "1", "1", "1") "f32[2]{=1,2} f32[2]{=1,nan} -> f32[2]{=2,2}",
    LINE("2", "1", "1", "1", "1", "1") "f32[3]{=1,2,3} f32[3]{=-inf,-inf,1} -> f32[4]{=0,0,3,3}",
    POOL_2X2 "f32[1,4,4,2]{-2:2} f32[1,4,4,2]{-2:2}",
    POOL_3X3 "f32[1,5,4,1]{-2:2} f32[1,5,4,1]{-2:2}",
    LINE("2", "1", "0", "0", "1", "3") "f64[7]{-2:2} f64[7]{-2:2}",
    LINE("2", "1", "2", "2", "1", "1") "f32[3]{-2:2} f32[3]{-2:2}",
    NULL,
};
/* clang-format on */

const mf_op mf_op_reduce_window_sum = {
    .name = "reduce_window_sum",
    .reduced = MF_REDUCED_WINDOWS,
    .reducer = MF_REDUCE_SUM,
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = window_type,
    .jvp = mf_jvp_linear,
    .transpose = sum_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = window_evaluate,
    MF_HLO_BY(mf_window_hlo),
    .samples = sum_samples,
};

const mf_op mf_op_reduce_window_max = {
    .name = "reduce_window_max",
    .reduced = MF_REDUCED_WINDOWS,
    .reducer = MF_REDUCE_MAX,
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = window_type,
    .jvp = max_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = window_evaluate,
    MF_HLO_BY(mf_window_hlo),
    .samples = max_samples,
};

const mf_op mf_op_reduce_window_min = {
    .name = "reduce_window_min",
    .reduced = MF_REDUCED_WINDOWS,
    .reducer = MF_REDUCE_MIN,
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = window_type,
    .jvp = min_jvp,
    .transpose = mf_transpose_none,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = window_evaluate,
    MF_HLO_BY(mf_window_hlo),
    .samples = min_samples,
};

const mf_op mf_op_select_and_scatter_add = {
    .name = "select_and_scatter_add",
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = scatter_type,
    .jvp = select_jvp,
    .transpose = scatter_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = scatter_evaluate,
    MF_HLO_BY(mf_select_scatter_hlo),
    .samples = scatter_samples,
};

const mf_op mf_op_select_and_gather_add = {
    .name = "select_and_gather_add",
    .params = window_params,
    .params_size = sizeof(mf_window_params),
    .type_rule = gather_type,
    .jvp = select_jvp,
    .transpose = gather_transpose,
    .partial_eval = mf_partial_eval_all_or_nothing,
    .dce = mf_dce_whole,
    .batch = window_batch,
    .variance = mf_variance_join,
    .cost = window_cost,
    .lower = mf_lower_none,
    .evaluate = gather_evaluate,
    MF_HLO_BY(mf_select_gather_hlo),
    .samples = gather_samples,
};
