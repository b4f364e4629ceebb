/* Arithmetic of complex numbers, computed in double and rounded once, as the rows' evaluation does it.
 * Invariant: a product whose parts both come out as NaN is C's own product, which knows of infinities. */
#include "kernels.h"

#include <complex.h>
#include <math.h>
#include <string.h>
#undef I

enum { BLOCK = MF_TILE };

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

/* ---- functions: the parts apart, in double, by the tile kernels of f64; where a part comes out infinite or as NaN, C's own function */

typedef struct parts {
    double re[BLOCK], im[BLOCK];
} parts;

static void take_apart(bool wide, const void *x, int64_t n, parts *p)
{
    for (int64_t i = 0; wide && i < n; i++) {
        p->re[i] = ((const double *)x)[2 * i];
        p->im[i] = ((const double *)x)[2 * i + 1];
    }
    for (int64_t i = 0; !wide && i < n; i++) {
        p->re[i] = (double)((const float *)x)[2 * i];
        p->im[i] = (double)((const float *)x)[2 * i + 1];
    }
}

static double *tile(const char *op, const double *x, double *out, int64_t n)
{
    mf_tile_lookup(op, MF_F64, MF_F64)(out, (const void *const[]){ x }, (size_t)n);
    return out;
}

static void exponentials(parts *p, int64_t n)
{
    double e[BLOCK], s[BLOCK], c[BLOCK];
    int lost = 0;
    tile("exp", p->re, e, n);
    tile("sin", p->im, s, n);
    tile("cos", p->im, c, n);
    for (int64_t i = 0; i < n; i++) {
        c[i] *= e[i];
        s[i] *= e[i];
        lost |= (c[i] - c[i] != 0) | (s[i] - s[i] != 0); /* infinite or NaN */
    }
    for (int64_t i = 0; lost && i < n; i++)
        if (!isfinite(c[i]) || !isfinite(s[i])) {
            double complex x;
            memcpy(&x, (double[]){ p->re[i], p->im[i] }, sizeof x);
            x = cexp(x);
            c[i] = creal(x);
            s[i] = cimag(x);
        }
    memcpy(p->re, c, (size_t)n * sizeof *c);
    memcpy(p->im, s, (size_t)n * sizeof *s);
}

static void exp_block(bool wide, void *out, const void *x, const void *unused, int64_t n)
{
    parts p;
    (void)unused;
    take_apart(wide, x, n, &p);
    exponentials(&p, n);
    if (wide)
        loops_64(MF_COMPLEX_MAKE, out, p.re, p.im, n);
    for (int64_t i = 0; !wide && i < n; i++) {
        ((float *)out)[2 * i] = (float)p.re[i];
        ((float *)out)[2 * i + 1] = (float)p.im[i];
    }
}

/* Squares of floats neither overflow nor vanish in double. */
static void abs_block(bool wide, void *out, const void *x, const void *unused, int64_t n)
{
    const float *single = x;
    const double *real = x;
    int lost = 0;
    (void)unused;
    for (int64_t i = 0; wide && i < n; i++)
        ((double *)out)[i] = hypot(real[2 * i], real[2 * i + 1]);
    if (wide)
        return;
    float *o = out;
    for (int64_t i = 0; i < n; i++) {
        double a = (double)single[2 * i], b = (double)single[2 * i + 1];
        o[i] = (float)sqrt(a * a + b * b);
        lost |= o[i] != o[i]; /* of an infinity and a NaN it is infinite */
    }
    for (int64_t i = 0; lost && i < n; i++)
        o[i] = hypotf(single[2 * i], single[2 * i + 1]);
}

static void mul_block(bool wide, void *out, const void *x, const void *y, int64_t n)
{
    if (wide)
        multiply_64(out, x, y, n);
    else
        multiply_32(out, x, y, n);
}

void mf_complex_loop(mf_complex_op op, bool wide, void *out, const void *x, const void *y, int64_t n)
{
    void (*block)(bool, void *, const void *, const void *, int64_t) = op == MF_COMPLEX_MUL   ? mul_block
                                                                       : op == MF_COMPLEX_EXP ? exp_block
                                                                       : op == MF_COMPLEX_ABS ? abs_block
                                                                                              : NULL;
    int64_t size = wide ? 16 : 8, out_size = op == MF_COMPLEX_ABS ? size / 2 : size;
    if (!block && wide)
        loops_64(op, out, x, y, n);
    else if (!block)
        loops_32(op, out, x, y, n);
    for (int64_t at = 0; block && at < n; at += BLOCK)
        block(wide, (char *)out + at * out_size, (const char *)x + at * size, (const char *)y + at * size, n - at < BLOCK ? n - at : BLOCK);
}
