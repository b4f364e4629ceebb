/* Polynomials in the dtype of their argument. */
#include "numpy/special/rational.h"

mf_value special_polynomial(const double *p, int count, mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    mf_value sum = mf_full_like(x, mf_scalar(p[0], d));
    for (int i = 1; i < count; i++)
        sum = mf_add(mf_mul(sum, x), mf_scalar(p[i], d));
    return sum;
}
