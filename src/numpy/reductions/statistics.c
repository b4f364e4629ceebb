/* mean, var, std, average, ptp, count_nonzero, cov, corrcoef. Invariant: f16 and bf16 are averaged in f32 and rounded once; integers are
 * converted to floats first. With `where`, only the selected elements are counted. */
#include "numpy/axis.h"
#include "numpy/floats.h"

#include <math.h>

static const mf_reduce_options everything = { .axis = MF_ALL };

/* The dtype of the result. */
static mf_dtype result_dtype(mf_value x, const mf_reduce_options *o)
{
    mf_dtype d = o->dtype ? o->dtype : mf_dtype_of(x);
    if (d == MF_I64 || d == MF_U64)
        return MF_F64;
    return d >= MF_F16 && d <= MF_C128 ? d : MF_F32;
}

/* The dtype in which it is computed. */
static mf_dtype working_dtype(mf_dtype d) { return numpy_is_half(d) ? MF_F32 : d; }

/* The number of elements reduced to each result: a scalar or, with `where`, an array. */
static mf_value count_of(mf_value x, mf_value sum, const mf_reduce_options *o, mf_dtype dtype)
{
    if (o->where.handle) {
        mf_value ones = mf_where(o->where, mf_ones_like(mf_astype(x, dtype)), mf_scalar(0, dtype));
        return mf_sum_opt(ones, &(mf_reduce_options){ .axis = o->axis, .keepdims = o->keepdims });
    }
    int64_t all = mf_size(x), kept = mf_size(sum), each = kept > 0 ? all / kept : 0;
    if (each > 0)
        return mf_scalar((double)each, dtype);
    mf_value counts = mf_sum_opt(mf_ones_like(mf_astype(x, dtype)), &(mf_reduce_options){ .axis = o->axis, .keepdims = o->keepdims });
    return counts;
}

static mf_value mean_in(mf_value x, const mf_reduce_options *o, mf_dtype dtype)
{
    mf_reduce_options sums = { .axis = o->axis, .keepdims = o->keepdims, .where = o->where };
    mf_value sum = mf_sum_opt(mf_astype(x, dtype), &sums);
    if (mf_is_error(sum))
        return sum;
    return mf_div(sum, count_of(x, sum, o, dtype));
}

mf_value mf_mean_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    o = o ? o : &everything;
    if (!numpy_reduces(&x, o->axis, "mean"))
        return x;
    mf_dtype dtype = result_dtype(x, o);
    bool whole = o->dtype >= MF_BOOL && o->dtype < MF_F16; /* asked for: truncated at the end, as in JAX */
    return mf_astype(mean_in(x, o, working_dtype(dtype)), whole ? o->dtype : dtype);
}

/* The dtype of an absolute value. */
static mf_dtype real_of(mf_dtype d) { return d == MF_C64 ? MF_F32 : d == MF_C128 ? MF_F64 : d; }

/* The mean of the squared deviations from the mean. */
static mf_value variance(mf_value x, const mf_reduce_options *o, mf_dtype dtype)
{
    mf_reduce_options wide = *o;
    wide.keepdims = true;
    x = mf_astype(x, dtype);
    mf_value distance = mf_sub(x, mean_in(x, &wide, dtype));
    mf_value squares = real_of(dtype) != dtype ? mf_real(mf_mul(distance, mf_conj(distance))) : mf_square(distance);
    dtype = real_of(dtype);
    if (o->ddof == 0)
        return mean_in(squares, o, dtype);
    mf_value sum = mf_sum_opt(squares, &(mf_reduce_options){ .axis = o->axis, .keepdims = o->keepdims, .where = o->where });
    if (mf_is_error(sum))
        return sum;
    mf_value freedom = mf_sub(count_of(x, sum, o, dtype), mf_scalar(o->ddof, dtype));
    return mf_div(sum, mf_where(mf_greater(freedom, 0), freedom, mf_scalar((double)NAN, dtype)));
}

mf_value mf_var_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    o = o ? o : &everything;
    if (!numpy_reduces(&x, o->axis, "var"))
        return x;
    mf_dtype dtype = result_dtype(x, o);
    return mf_astype(variance(x, o, working_dtype(dtype)), real_of(dtype));
}

mf_value mf_std_opt(mf_value x, const mf_reduce_options *o)
{
    MF_LAYER;
    o = o ? o : &everything;
    if (!numpy_reduces(&x, o->axis, "std"))
        return x;
    mf_dtype dtype = result_dtype(x, o);
    return mf_astype(mf_sqrt(variance(x, o, working_dtype(dtype))), real_of(dtype));
}

mf_value(mf_mean)(mf_value x) { return mf_mean_opt(x, &everything); }
mf_value(mf_var)(mf_value x) { return mf_var_opt(x, &everything); }
mf_value(mf_std)(mf_value x) { return mf_std_opt(x, &everything); }

/* ---- averages with weights */
mf_value(mf_average)(mf_value x, mf_value weights, mf_axis axis)
{
    MF_LAYER;
    x = numpy_float(x);
    if (mf_ndim(x) < 0 || mf_ndim(weights) < 0)
        return mf_mul(x, weights);                 /* the error itself, or the error that one is no array */
    if (mf_ndim(weights) == 1 && mf_ndim(x) > 1) { /* one weight for each index along the axis */
        mf_ints at = mf_axes_of(axis, mf_ndim(x));
        if (at.count != 1)
            return mf_make_error(MF_ERROR_AXIS, "average: one axis is needed for weights of one dimension");
        mf_shape shape = { .rank = mf_ndim(x) };
        for (int i = 0; i < shape.rank; i++)
            shape.dims[i] = i == at.at[0] ? mf_dim(weights, 0) : 1;
        weights = mf_reshape(weights, shape);
    }
    weights = mf_broadcast_to(weights, mf_shape_of(x));
    return mf_div(mf_sum(mf_mul(x, weights), .axis = axis), mf_sum(weights, .axis = axis));
}

mf_value(mf_ptp)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return mf_sub(mf_max(x, axis), mf_min(x, axis));
}

mf_value(mf_count_nonzero)(mf_value x, mf_axis axis)
{
    MF_LAYER;
    return mf_sum(mf_not_equal(x, 0), axis);
}

/* ---- covariance and correlation */
mf_value mf_cov_opt(mf_value x, const mf_cov_options *o)
{
    MF_LAYER;
    static const mf_cov_options none;
    o = o ? o : &none;
    if (mf_ndim(x) > 2)
        return mf_make_error(MF_ERROR_SHAPE, "cov: at most two dimensions can be told apart as variables and observations, not %d",
                             mf_ndim(x));
    x = numpy_float((mf_atleast_2d)(x));
    x = o->columns && mf_dim(x, 0) != 1 ? mf_transpose(x, MF_INTS0) : x;
    mf_value distance = mf_sub(x, mf_mean(x, 1, .keepdims = true));
    mf_value products = mf_matmul(distance, mf_conj(mf_transpose(distance, MF_INTS0)));
    double freedom = (double)(mf_dim(x, 1) - (o->bias ? 0 : 1));
    mf_value each = mf_div(products, mf_scalar(freedom > 0 ? freedom : (double)NAN, mf_dtype_of(products)));
    return mf_dim(x, 0) == 1 ? mf_reshape(each, MF_SHAPE0) : each;
}

mf_value(mf_cov)(mf_value x) { return mf_cov_opt(x, NULL); }

static mf_value held(mf_value x) { return mf_clip(x, -1, 1); }

mf_value mf_corrcoef_opt(mf_value x, const mf_cov_options *o)
{
    MF_LAYER;
    mf_value c = mf_cov_opt(x, o);
    if (mf_ndim(c) < 1)
        return mf_div(c, c);
    mf_value deviation = mf_sqrt(mf_real(mf_diag(c)));
    c = mf_div(mf_div(c, mf_expand_dims(deviation, 1)), deviation);
    return numpy_is_complex(c) ? mf_complex(held(mf_real(c)), held(mf_imag(c))) : held(c);
}

mf_value(mf_corrcoef)(mf_value x) { return mf_corrcoef_opt(x, NULL); }
