/* Resolving axis options. Invariant: an error names the axis as it was given, if it was a single number. */
#include "numpy/axis.h"

static bool is_number(mf_axis axis) { return axis >= INT32_MIN; }

mf_ints numpy_axes(mf_value *x, mf_axis axis, const char *op)
{
    int rank = mf_ndim(*x);
    mf_ints at = mf_axes_of(axis, rank);
    if (rank < 0)
        *x = mf_add(*x, 0); /* the error itself, or the error that x is no array */
    else if (at.count < 0 && is_number(axis))
        *x = mf_make_error(MF_ERROR_AXIS, "%s: axis %lld is out of bounds for an array of rank %d", op, (long long)axis, rank);
    else if (at.count < 0)
        *x = mf_make_error(MF_ERROR_AXIS, "%s: an axis is out of bounds for an array of rank %d, or named twice, or no number", op, rank);
    return at;
}

bool numpy_reduces(mf_value *x, mf_axis axis, const char *op) { return numpy_axes(x, axis == MF_NONE ? MF_ALL : axis, op).count >= 0; }

int numpy_axis(mf_value *x, mf_axis axis, const char *op)
{
    if (axis == MF_ALL) {
        *x = mf_ravel(*x);
        axis = 0;
    }
    if (!is_number(axis) && mf_ndim(*x) >= 0)
        *x = mf_make_error(MF_ERROR_AXIS, "%s: axis must be one number here", op);
    mf_ints at = numpy_axes(x, axis, op);
    return mf_is_error(*x) ? -1 : (int)at.at[0];
}
