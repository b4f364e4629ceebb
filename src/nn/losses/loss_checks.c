/* The arguments of losses. */
#include "nn/losses/loss_checks.h"

mf_value loss_check_both(mf_value a, mf_value b)
{
    bool wrong = mf_kind_of(a) == MF_KIND_ERROR || mf_kind_of(b) == MF_KIND_ERROR;
    return wrong ? mf_add(a, b) : (mf_value){ 0 };
}

static bool is_float(mf_dtype d) { return d == MF_F16 || d == MF_BF16 || d == MF_F32 || d == MF_F64; }

mf_value loss_check_floats(const char *loss, const char *what, mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    if (d == MF_DTYPE_DEFAULT)
        return mf_is_error(x) ? x : mf_make_error(MF_ERROR_DTYPE, "%s: %s are an array of floats, not a tree", loss, what);
    return is_float(d) ? (mf_value){ 0 } : mf_make_error(MF_ERROR_DTYPE, "%s: %s are floats, not %s", loss, what, mf_str_dtype(d));
}

mf_value loss_check_floats_with(const char *loss, const char *what, mf_value x, mf_value other)
{
    mf_value wrong = loss_check_both(x, other);
    return wrong.handle ? wrong : loss_check_floats(loss, what, x);
}

mf_value loss_check_same(const char *loss, mf_value predictions, mf_value targets)
{
    mf_value wrong = loss_check_floats_with(loss, "predictions", predictions, targets);
    if (wrong.handle)
        return wrong;
    mf_shape a = mf_shape_of(predictions), b = mf_shape_of(targets);
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++)
        same = a.dims[i] == b.dims[i];
    if (same)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_SHAPE, "%s: targets of the shape %s do not go with predictions of the shape %s", loss, mf_str_shape(b),
                         mf_str_shape(a));
}
