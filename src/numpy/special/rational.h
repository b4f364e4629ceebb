/* Polynomials with constant coefficients, of which the rational approximations of special functions are made. */
#ifndef MF_NUMPY_SPECIAL_RATIONAL_H
#define MF_NUMPY_SPECIAL_RATIONAL_H

#include <manyfold.h>

#define RATIONAL_COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

/* By Horner's rule; the first coefficient is that of the highest power. */
mf_value special_polynomial(const double *p, int count, mf_value x);

#endif
