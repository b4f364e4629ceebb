/* Windows and pools: the public functions. Invariant: paddings are explicit numbers before an equation is emitted. */
#include "base/memory/alloc.h"
#include "ops/elementwise/loops.h"
#include "ops/shape/shape.h"
#include "lax/wrap.h"
#include <manyfold/array.h>
#include <manyfold/lax.h>
#include <manyfold/nn.h>
#include <math.h>
#include <string.h>

static bool read_list(const mf_ints *list, int rank, int64_t otherwise, const char *op, const char *what, const mf_intlist **out,
                      mf_value *error)
{
    int64_t at[MF_RANK];
    if (list->count != 0 && list->count != rank) {
        *error = mf_fail(MF_ERROR_SHAPE, "%s: %s has %d entries where %d dimensions are", op, what, list->count, rank);
        return false;
    }
    for (int i = 0; i < rank; i++)
        at[i] = list->count ? list->at[i] : otherwise;
    return mf_intern_list(at, rank, out, error);
}

static void pad_same(mf_window_params *p, const mf_type *t)
{
    int64_t low[MF_RANK], high[MF_RANK];
    for (int i = 0; i < t->rank; i++)
        shape_same_padding(t->dims[i], p->window->at[i], p->window_dilation->at[i], p->strides->at[i], &low[i], &high[i]);
    p->padding_low = mf_ints_intern(low, t->rank);
    p->padding_high = mf_ints_intern(high, t->rank);
}

static mf_value reduce_window(const mf_op *op, mf_value x, const mf_window_options *o, const char *name)
{
    static const mf_window_options none;
    mf_window_params p;
    mf_value error;
    if (!mf_wrap_array(&x, name))
        return x;
    const mf_type *t = mf_value_type(x);
    if (!o)
        o = &none;
    if (!read_list(&o->window, t->rank, 1, name, "window", &p.window, &error) ||
        !read_list(&o->strides, t->rank, 1, name, "strides", &p.strides, &error) ||
        !read_list(&o->padding_low, t->rank, 0, name, "padding_low", &p.padding_low, &error) ||
        !read_list(&o->padding_high, t->rank, 0, name, "padding_high", &p.padding_high, &error) ||
        !read_list(&o->base_dilation, t->rank, 1, name, "base_dilation", &p.base_dilation, &error) ||
        !read_list(&o->window_dilation, t->rank, 1, name, "window_dilation", &p.window_dilation, &error))
        return error;
    if (o->padding > MF_VALID)
        return mf_fail(MF_ERROR_ARGUMENT, "%s: padding is MF_SAME, MF_VALID or in numbers", name);
    if (o->padding == MF_SAME)
        pad_same(&p, t);
    return mf_bind(op, &p, 1, x);
}

mf_value mf_reduce_window_sum_opt(mf_value x, const mf_window_options *o)
{
    MF_ENTER(MF_FORKED);
    return reduce_window(&mf_op_reduce_window_sum, x, o, "reduce_window_sum");
}

mf_value mf_reduce_window_max_opt(mf_value x, const mf_window_options *o)
{
    MF_ENTER(MF_FORKED);
    return reduce_window(&mf_op_reduce_window_max, x, o, "reduce_window_max");
}

mf_value mf_reduce_window_min_opt(mf_value x, const mf_window_options *o)
{
    MF_ENTER(MF_FORKED);
    return reduce_window(&mf_op_reduce_window_min, x, o, "reduce_window_min");
}

/* The window covers the dimensions before the last; it has size 1 in the batch dimensions in front and in the channels. */
static mf_value pool(const mf_op *op, mf_value x, const mf_pool_options *o, const char *name)
{
    mf_window_options w = { .padding = o ? o->padding : MF_VALID };
    if (!mf_wrap_array(&x, name))
        return x;
    const mf_type *t = mf_value_type(x);
    int spatial = o ? o->window_shape.count : 0, batch = spatial < 1 ? -1 : t->rank - 1 - spatial;
    if (batch < 0 || t->rank > MF_MAX_RANK)
        return mf_fail(MF_ERROR_SHAPE, "%s: a window of %d dimensions does not fit %s", name, spatial, mf_type_name(t));
    if (o->strides.count && o->strides.count != spatial)
        return mf_fail(MF_ERROR_SHAPE, "%s: %d strides for a window of %d dimensions", name, o->strides.count, spatial);
    if (o->padding_low.count != o->padding_high.count || (o->padding_low.count && o->padding_low.count != spatial))
        return mf_fail(MF_ERROR_SHAPE, "%s: %d and %d entries of padding for a window of %d dimensions", name, o->padding_low.count,
                       o->padding_high.count, spatial);
    w.window.count = w.strides.count = t->rank;
    w.padding_low.count = w.padding_high.count = o->padding_low.count ? t->rank : 0;
    for (int i = 0; i < t->rank; i++) {
        bool inside = i >= batch && i < batch + spatial;
        w.window.at[i] = inside ? o->window_shape.at[i - batch] : 1;
        w.strides.at[i] = inside && o->strides.count ? o->strides.at[i - batch] : 1;
        w.padding_low.at[i] = inside && o->padding_low.count ? o->padding_low.at[i - batch] : 0;
        w.padding_high.at[i] = inside && o->padding_high.count ? o->padding_high.at[i - batch] : 0;
    }
    return reduce_window(op, x, &w, name);
}

mf_value mf_max_pool_opt(mf_value x, const mf_pool_options *o)
{
    MF_ENTER(MF_FORKED);
    return pool(&mf_op_reduce_window_max, x, o, "max_pool");
}

mf_value mf_min_pool_opt(mf_value x, const mf_pool_options *o)
{
    MF_ENTER(MF_FORKED);
    return pool(&mf_op_reduce_window_min, x, o, "min_pool");
}

/* For each window, how many elements are x's own and not padding: (1, h', w', 1). */
static mf_value pool_counts(mf_value x, const mf_pool_options *o)
{
    const mf_type *t = mf_value_type(x);
    mf_shape shape = { .rank = t->rank };
    for (int i = 0; i < t->rank; i++)
        shape.dims[i] = i >= t->rank - 1 - o->window_shape.count && i < t->rank - 1 ? t->dims[i] : 1;
    return pool(&mf_op_reduce_window_sum, mf_ones(shape, t->dtype), o, "avg_pool");
}

mf_value mf_avg_pool_opt(mf_value x, const mf_pool_options *o)
{
    MF_ENTER(MF_FORKED);
    int64_t size = 1;
    mf_value sum = pool(&mf_op_reduce_window_sum, x, o, "avg_pool");
    if (!mf_value_type(sum))
        return sum;
    if (o->no_count_include_pad)
        return (mf_div)(sum, pool_counts(x, o));
    for (int i = 0; i < o->window_shape.count; i++)
        if (__builtin_mul_overflow(size, o->window_shape.at[i], &size))
            return mf_fail(MF_ERROR_ARGUMENT, "avg_pool: the window has too many elements");
    return (mf_div)(sum, mf_i(size));
}
