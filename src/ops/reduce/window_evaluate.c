/* The evaluation of ops over sliding windows: window by window, visiting only existing elements.
 *
 * Invariant: the elements of a window are visited in row-major order, in time that depends on their number and not on the extent of padding
 * and dilations. The first of equal maxima is chosen; where -inf or NaN meets padding, scatter and gather choose as JAX's do, which differ:
 * one pads the operand with -inf, the other reduces starting from -inf. f16 and bf16 are summed in f32 and rounded once. */
#include "ops/reduce/window_evaluate.h"

#include "base/memory/alloc.h"
#include "ops/elementwise/loops.h"

#include <math.h>
#include <string.h>

/* The iteration over a window's elements. Dimensions with a window of 1 and no padding or dilation are left out of the inner loop. */
typedef struct window_walk {
    const mf_window_params *p;
    const mf_type *operand;
    int64_t steps[MF_RANK];               /* in elements of the operand */
    int64_t counts[MF_RANK], at[MF_RANK]; /* the number of windows, and the next one */
    int rank, busy_count, busy[MF_RANK];
    int64_t k[MF_RANK], corner[MF_RANK], base; /* the current window */
    int64_t first[MF_RANK], end[MF_RANK];      /* the range of its places that is visited */
    /* only every period-th place can have an element, and only in windows whose corner is a multiple of `common`: see find_period */
    int64_t common[MF_RANK], period[MF_RANK], inverse[MF_RANK], meets[MF_RANK];
    bool padded, done;
} window_walk;

__extension__ typedef __int128 wide;

/* With base dilation d and window dilation s, place k of a window has an element if corner + k s is a multiple of d. With g the greatest
 * common divisor of d and s, that is k = -corner / g times the inverse of s / g, modulo d / g. */
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

/* The first place from k on that can have an element. */
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
        w->counts[i] = mf_window_count(p, i, operand->dims[i]);
        if (p->window->at[i] > 1 || p->base_dilation->at[i] > 1 || p->padding_low->at[i] || p->padding_high->at[i])
            w->busy[w->busy_count++] = i;
        find_period(w, i);
    }
}

/* Restricts the places to those between the operand's first and last element, as a window may extend far into the padding. */
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

/* Advances to the next place: one with an element or, with `padded`, also one place without an element before, between and after them. */
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

/* The next place of the window: *index is its element, or -1 if there is none. False at the end. */
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

/* The index of the window's next existing element; -1 at the end. */
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
REDUCE_WINDOWS(reduce_u64, uint64_t, GREATER, LESSER) /* also sums of signed integers: they wrap */

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

mf_error_object *mf_window_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
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

/* The index of a window's maximum, the first of equals; -1 if it is not an element. As in XLA, the chosen one is kept while chosen >= next,
 * so a NaN is kept only if it comes last. With `padded`, places without an element count as -inf; else -inf precedes all elements. */
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

mf_error_object *mf_select_scatter_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
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

mf_error_object *mf_select_gather_evaluate(const mf_eqn *e, const void *const *in, void *const *out)
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
