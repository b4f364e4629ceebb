/* Dtype promotion of functions on real numbers. Invariant: numpy_float changes only integers and bools. */
#include "numpy/floats.h"

#include <float.h>

mf_value numpy_float(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d >= MF_BOOL && d < MF_F16 ? mf_astype(x, d == MF_I64 || d == MF_U64 ? MF_F64 : MF_F32) : x;
}

/* In the dtype and shape of zero; if that is an error, all become that error. */
static void as_like(mf_value *v, int count, mf_value zero)
{
    for (int i = 0; i < count; i++)
        v[i] = mf_is_error(zero) ? zero : mf_broadcast_to(mf_astype(v[i], mf_dtype_of(zero)), mf_shape_of(zero));
}

/* Zeros of the promoted dtype and the broadcast shape. A sum, since bools have no difference. */
static mf_value common_zero(const mf_value *v, int count)
{
    mf_value zero = mf_zeros_like(v[0]);
    for (int i = 1; i < count; i++)
        zero = mf_add(zero, mf_zeros_like(v[i]));
    return zero;
}

void numpy_common_floats(mf_value *v, int count) { as_like(v, count, numpy_float(common_zero(v, count))); }

void numpy_common(mf_value *a, mf_value *b)
{
    mf_value v[] = { *a, *b };
    as_like(v, 2, common_zero(v, 2));
    *a = v[0];
    *b = v[1];
}

void numpy_common_float(mf_value *a, mf_value *b)
{
    mf_value v[] = { *a, *b };
    numpy_common_floats(v, 2);
    *a = v[0];
    *b = v[1];
}

/* The dtype is that of their quotient. */
void numpy_promote_float(mf_value *a, mf_value *b)
{
    mf_dtype first = mf_dtype_of(*a), second = mf_dtype_of(*b);
    if (first == second && first >= MF_F16 && first <= MF_C128)
        return;
    mf_dtype both = mf_dtype_of(mf_div(mf_ones(MF_SHAPE0, first), mf_ones(MF_SHAPE0, second)));
    *a = mf_astype(*a, both);
    *b = mf_astype(*b, both);
}

bool numpy_is_complex(mf_value x) { return mf_dtype_of(x) == MF_C64 || mf_dtype_of(x) == MF_C128; }

double numpy_epsilon(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d == MF_F64 || d == MF_C128 ? DBL_EPSILON : (double)FLT_EPSILON;
}

mf_value numpy_real_float(mf_value x, const char *op)
{
    return numpy_is_complex(x) ? mf_make_error(MF_ERROR_DTYPE, "%s: is defined for floats, not for %s", op, mf_str(mf_dtype_of(x)))
                               : numpy_float(x);
}

bool numpy_is_half(mf_dtype d) { return d == MF_F16 || d == MF_BF16; }

mf_value numpy_call_wide(mf_function f, mf_value a)
{
    mf_dtype d = mf_dtype_of(a);
    return numpy_is_half(d) ? mf_astype(mf_call(f, mf_astype(a, MF_F32)), d) : mf_call(f, a);
}

mf_value numpy_call_wide2(mf_function f, mf_value a, mf_value b)
{
    mf_dtype d = mf_dtype_of(a);
    return numpy_is_half(d) ? mf_astype(mf_call(f, mf_astype(a, MF_F32), mf_astype(b, MF_F32)), d) : mf_call(f, a, b);
}

mf_value numpy_call_real2(const char *op, mf_function f, mf_value a, mf_value b)
{
    MF_LAYER;
    numpy_common_float(&a, &b);
    return numpy_call_wide2(f, numpy_real_float(a, op), b);
}
