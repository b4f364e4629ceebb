/* Invariant: what is no integer and no bool is as it was. */
#include "numpy/floats.h"

mf_value numpy_float(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d >= MF_BOOL && d < MF_F16 ? mf_astype(x, d == MF_I64 || d == MF_U64 ? MF_F64 : MF_F32) : x;
}

bool numpy_is_complex(mf_value x) { return mf_dtype_of(x) == MF_C64 || mf_dtype_of(x) == MF_C128; }
