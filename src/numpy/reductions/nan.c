/* Reductions that ignore NaN: nansum, nanprod, nanmean, nanvar, nanstd, nanmax, nanmin, nanargmax, nanargmin;
 * nancumsum, nancumprod. nanmedian and nanquantile are
 * in quantile.c. Invariant: ignored elements have gradient 0. If all elements are NaN, nansum is 0, nanprod 1, nanargmax and nanargmin -1,
 * the others NaN. */
#include "numpy/floats.h"

#include <math.h>

/* x with NaN replaced by a number. */
static mf_value filled(mf_value x, double number)
{
    return mf_dtype_of(x) >= MF_F16 ? mf_where(mf_isnan(x), mf_scalar(number, mf_dtype_of(x)), x) : x;
}

mf_value mf_nansum_opt(mf_value x, const mf_reduce_options *o) { return mf_sum_opt(filled(x, 0), o); }
mf_value mf_nanprod_opt(mf_value x, const mf_reduce_options *o) { return mf_prod_opt(filled(x, 1), o); }

/* The options with NaN excluded by `where`. */
static mf_reduce_options of_numbers(mf_value x, const mf_reduce_options *o)
{
    mf_reduce_options numbers = o ? *o : (mf_reduce_options){ .axis = MF_ALL };
    mf_value valid = mf_logical_not(mf_isnan(x));
    numbers.where = numbers.where.handle ? mf_logical_and(numbers.where, valid) : valid;
    return numbers;
}

mf_value mf_nanmean_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    mf_reduce_options numbers = of_numbers(x, o);
    return mf_mean_opt(filled(x, 0), &numbers);
}

mf_value mf_nanvar_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    mf_reduce_options numbers = of_numbers(x, o);
    return mf_var_opt(filled(x, 0), &numbers);
}

mf_value mf_nanstd_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    mf_reduce_options numbers = of_numbers(x, o);
    return mf_std_opt(filled(x, 0), &numbers);
}

/* ---- maximum and minimum */
static mf_value extreme(mf_value x, const mf_reduce_options *o, double neutral, mf_value (*reduce)(mf_value, const mf_reduce_options *))
{
    mf_value found = reduce(filled(x, neutral), o);
    if (mf_dtype_of(x) < MF_F16)
        return found;
    mf_reduce_options over = o ? *o : (mf_reduce_options){ .axis = MF_ALL };
    return mf_where(mf_all_opt(mf_isnan(x), &over), (double)NAN, found);
}

mf_value mf_nanmax_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    return extreme(x, o, -(double)INFINITY, mf_max_opt);
}

mf_value mf_nanmin_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    return extreme(x, o, (double)INFINITY, mf_min_opt);
}

static mf_value place(mf_value x, mf_axis axis, mf_value found) { return mf_where(mf_all(mf_isnan(x), .axis = axis), -1, found); }

mf_value(mf_nanargmax)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return place(x, axis, mf_argmax(filled(x, -(double)INFINITY), axis));
}

mf_value(mf_nanargmin)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return place(x, axis, mf_argmin(filled(x, (double)INFINITY), axis));
}

mf_value(mf_nancumsum)(mf_value x, mf_axis axis) { return mf_cumsum(filled(x, 0), axis); }
mf_value(mf_nancumprod)(mf_value x, mf_axis axis) { return mf_cumprod(filled(x, 1), axis); }

mf_value(mf_nansum)(mf_value x) { return mf_nansum_opt(x, NULL); }
mf_value(mf_nanprod)(mf_value x) { return mf_nanprod_opt(x, NULL); }
mf_value(mf_nanmean)(mf_value x) { return mf_nanmean_opt(x, NULL); }
mf_value(mf_nanvar)(mf_value x) { return mf_nanvar_opt(x, NULL); }
mf_value(mf_nanstd)(mf_value x) { return mf_nanstd_opt(x, NULL); }
mf_value(mf_nanmax)(mf_value x) { return mf_nanmax_opt(x, NULL); }
mf_value(mf_nanmin)(mf_value x) { return mf_nanmin_opt(x, NULL); }
