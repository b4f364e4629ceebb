/* nan_to_num, and the norm of a whole tree. */
#include <manyfold.h>

#include <float.h>
#include <math.h>

static double greatest_of(mf_dtype d)
{
    return d == MF_F64 || d == MF_C128 ? DBL_MAX : d == MF_F16 ? 65504 : d == MF_BF16 ? 0x1.fep127 : (double)FLT_MAX;
}

static mf_value or_number(mf_value v, double otherwise, mf_dtype d) { return v.handle ? mf_astype(v, d) : mf_scalar(otherwise, d); }

mf_value mf_nan_to_num_opt(mf_value x, const mf_nan_to_num_options *o)
{
    MF_LAYER;
    static const mf_nan_to_num_options none;
    mf_dtype d = mf_dtype_of(x);
    o = o ? o : &none;
    if (mf_is_error(x) || d == MF_DTYPE_DEFAULT)
        return mf_neg(x); /* the error itself, or the error that x is no array */
    if (d == MF_C64 || d == MF_C128)
        return mf_complex(mf_nan_to_num_opt(mf_real(x), o), mf_nan_to_num_opt(mf_imag(x), o));
    if (d < MF_F16 || d > MF_F64)
        return x;
    double most = greatest_of(d);
    mf_value finite = mf_where(mf_isnan(x), or_number(o->nan, 0, d), x);
    finite = mf_where(mf_equal(x, (double)INFINITY), or_number(o->posinf, most, d), finite);
    return mf_where(mf_equal(x, -(double)INFINITY), or_number(o->neginf, -most, d), finite);
}

mf_value(mf_nan_to_num)(mf_value x) { return mf_nan_to_num_opt(x, NULL); }

static mf_value squares(mf_value sum, mf_value leaf) { return mf_add(sum, mf_sum(mf_square(mf_abs(leaf)))); }

mf_value(mf_global_norm)(mf_value tree)
{
    MF_LAYER;
    return mf_sqrt(mf_tree_reduce(mf_fn(squares), tree, mf_f(0)));
}
