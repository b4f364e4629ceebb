/* Arithmetic of complex numbers, computed in double and rounded once, as the rows' evaluation does it.
 * Invariant: a product whose parts both come out as NaN is C's own product, which knows of infinities. */
#include "kernels.h"

#include <complex.h>
#include <string.h>
#undef I

enum { BLOCK = 256 };

#define MULTIPLY(name, type)                                                                                       \
    static void name(type *restrict o, const type *restrict x, const type *restrict y, int64_t n)                  \
    {                                                                                                              \
        int lost = 0;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            double a = (double)x[2 * i], b = (double)x[2 * i + 1], c = (double)y[2 * i], d = (double)y[2 * i + 1]; \
            double re = a * c - b * d, im = a * d + b * c;                                                         \
            lost |= (re != re) & (im != im);                                                                       \
            o[2 * i] = (type)re;                                                                                   \
            o[2 * i + 1] = (type)im;                                                                               \
        }                                                                                                          \
        for (int64_t i = 0; lost && i < n; i++) {                                                                  \
            double complex u, v;                                                                                   \
            double parts[4] = { (double)x[2 * i], (double)x[2 * i + 1], (double)y[2 * i], (double)y[2 * i + 1] };  \
            memcpy(&u, parts, sizeof u);                                                                           \
            memcpy(&v, parts + 2, sizeof v);                                                                       \
            u *= v;                                                                                                \
            o[2 * i] = (type)creal(u);                                                                             \
            o[2 * i + 1] = (type)cimag(u);                                                                         \
        }                                                                                                          \
    }
MULTIPLY(multiply_32, float)
MULTIPLY(multiply_64, double)

#define LOOPS(name, type)                                                                                           \
    static void name(mf_complex_op op, type *restrict o, const type *restrict x, const type *restrict y, int64_t n) \
    {                                                                                                               \
        switch (op) {                                                                                               \
        case MF_COMPLEX_ADD:                                                                                        \
            for (int64_t i = 0; i < 2 * n; i++)                                                                     \
                o[i] = x[i] + y[i];                                                                                 \
            break;                                                                                                  \
        case MF_COMPLEX_SUB:                                                                                        \
            for (int64_t i = 0; i < 2 * n; i++)                                                                     \
                o[i] = x[i] - y[i];                                                                                 \
            break;                                                                                                  \
        case MF_COMPLEX_NEG:                                                                                        \
            for (int64_t i = 0; i < 2 * n; i++)                                                                     \
                o[i] = -x[i];                                                                                       \
            break;                                                                                                  \
        case MF_COMPLEX_CONJ:                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                       \
                o[2 * i] = x[2 * i];                                                                                \
                o[2 * i + 1] = -x[2 * i + 1];                                                                       \
            }                                                                                                       \
            break;                                                                                                  \
        case MF_COMPLEX_MAKE:                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                       \
                o[2 * i] = x[i];                                                                                    \
                o[2 * i + 1] = y[i];                                                                                \
            }                                                                                                       \
            break;                                                                                                  \
        case MF_COMPLEX_REAL:                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                         \
                o[i] = x[2 * i];                                                                                    \
            break;                                                                                                  \
        case MF_COMPLEX_IMAG:                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                         \
                o[i] = x[2 * i + 1];                                                                                \
            break;                                                                                                  \
        default: break;                                                                                             \
        }                                                                                                           \
    }
LOOPS(loops_32, float)
LOOPS(loops_64, double)

void mf_complex_loop(mf_complex_op op, bool wide, void *out, const void *x, const void *y, int64_t n)
{
    if (op != MF_COMPLEX_MUL) {
        if (wide)
            loops_64(op, out, x, y, n);
        else
            loops_32(op, out, x, y, n);
        return;
    }
    for (int64_t at = 0, some; at < n; at += some) {
        some = n - at < BLOCK ? n - at : BLOCK;
        if (wide)
            multiply_64((double *)out + 2 * at, (const double *)x + 2 * at, (const double *)y + 2 * at, some);
        else
            multiply_32((float *)out + 2 * at, (const float *)x + 2 * at, (const float *)y + 2 * at, some);
    }
}
