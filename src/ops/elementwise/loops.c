/* The loops of elementwise evaluation, and the type rules of the elementwise families. Invariant: a loop reads an element before it writes
 * the one in the same place, so a result may share memory with an operand. */
#include "ops/elementwise/loops.h"
#include <math.h>

static float load_half(mf_dtype dtype, const void *p, int64_t i)
{
    uint16_t bits = ((const uint16_t *)p)[i];
    return dtype == MF_F16 ? mf_f16_to_f32(bits) : mf_bf16_to_f32(bits);
}

static void store_half(mf_dtype dtype, void *p, int64_t i, float x)
{
    ((uint16_t *)p)[i] = dtype == MF_F16 ? mf_f32_to_f16(x) : mf_f32_to_bf16(x);
}

/* F(dtype, C type, kind of rule, C type in which the rule computes) */
#define INTEGER_KINDS(F)                   \
    F(MF_I8, int8_t, integer, int64_t)     \
    F(MF_I16, int16_t, integer, int64_t)   \
    F(MF_I32, int32_t, integer, int64_t)   \
    F(MF_I64, int64_t, integer, int64_t)   \
    F(MF_U8, uint8_t, natural, uint64_t)   \
    F(MF_U16, uint16_t, natural, uint64_t) \
    F(MF_U32, uint32_t, natural, uint64_t) \
    F(MF_U64, uint64_t, natural, uint64_t)

/* ---- one operand */
static float single1(const mf_loop1 *rule, float x) { return rule->single ? rule->single(x) : (float)rule->real((double)x); }

#define LOOP(DTYPE, type, kind, wide)                                        \
    case DTYPE:                                                              \
        for (int64_t i = 0; i < count; i++)                                  \
            ((type *)out)[i] = (type)rule->kind((wide)((const type *)x)[i]); \
        return;

void mf_run_loop1(const mf_loop1 *rule, mf_dtype dtype, int64_t count, const void *x, void *out)
{
    switch (dtype) {
        INTEGER_KINDS(LOOP)
        LOOP(MF_F64, double, real, double)
    case MF_BOOL:
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)out)[i] = rule->natural(((const uint8_t *)x)[i]) & 1;
        return;
    case MF_F32:
        for (int64_t i = 0; i < count; i++)
            ((float *)out)[i] = single1(rule, ((const float *)x)[i]);
        return;
    case MF_F16:
    case MF_BF16:
        for (int64_t i = 0; i < count; i++)
            store_half(dtype, out, i, single1(rule, load_half(dtype, x, i)));
        return;
    default: return;
    }
}
#undef LOOP

/* ---- two operands */
static float single2(const mf_loop2 *rule, float x, float y)
{
    return rule->single ? rule->single(x, y) : (float)rule->real((double)x, (double)y);
}

#define LOOP(DTYPE, type, kind, wide)                                                                    \
    case DTYPE:                                                                                          \
        for (int64_t i = 0; i < count; i++)                                                              \
            ((type *)out)[i] = (type)rule->kind((wide)((const type *)x)[i], (wide)((const type *)y)[i]); \
        return;

void mf_run_loop2(const mf_loop2 *rule, mf_dtype dtype, int64_t count, const void *x, const void *y, void *out)
{
    switch (dtype) {
        INTEGER_KINDS(LOOP)
        LOOP(MF_F64, double, real, double)
    case MF_BOOL:
        for (int64_t i = 0; i < count; i++)
            ((uint8_t *)out)[i] = rule->natural(((const uint8_t *)x)[i], ((const uint8_t *)y)[i]) & 1;
        return;
    case MF_F32:
        for (int64_t i = 0; i < count; i++)
            ((float *)out)[i] = single2(rule, ((const float *)x)[i], ((const float *)y)[i]);
        return;
    case MF_F16:
    case MF_BF16:
        for (int64_t i = 0; i < count; i++)
            store_half(dtype, out, i, single2(rule, load_half(dtype, x, i), load_half(dtype, y, i)));
        return;
    default: return;
    }
}
#undef LOOP

/* ---- complex numbers */
static double complex load_complex(mf_dtype dtype, const void *p, int64_t i)
{
    return dtype == MF_C64 ? (double complex)((const float complex *)p)[i] : ((const double complex *)p)[i];
}

static void store_complex(mf_dtype dtype, void *p, int64_t i, double complex x)
{
    if (dtype == MF_C64)
        ((float complex *)p)[i] = (float complex)x;
    else
        ((double complex *)p)[i] = x;
}

void mf_run_complex1(mf_complex1 rule, mf_dtype dtype, int64_t count, const void *x, void *out)
{
    for (int64_t i = 0; i < count; i++)
        store_complex(dtype, out, i, rule(load_complex(dtype, x, i)));
}

void mf_run_complex2(mf_complex2 rule, mf_dtype dtype, int64_t count, const void *x, const void *y, void *out)
{
    for (int64_t i = 0; i < count; i++)
        store_complex(dtype, out, i, rule(load_complex(dtype, x, i), load_complex(dtype, y, i)));
}

/* ---- comparisons */
#define LOOP(DTYPE, type, kind, wide)                                                  \
    case DTYPE:                                                                        \
        for (int64_t i = 0; i < count; i++)                                            \
            o[i] = rule->kind((wide)((const type *)x)[i], (wide)((const type *)y)[i]); \
        return;

void mf_run_compare(const mf_loop_compare *rule, mf_dtype dtype, int64_t count, const void *x, const void *y, void *out)
{
    uint8_t *o = out;
    switch (dtype) {
        INTEGER_KINDS(LOOP)
        LOOP(MF_BOOL, uint8_t, natural, uint64_t)
        LOOP(MF_KEY, uint64_t, natural, uint64_t)
        LOOP(MF_F32, float, real, double)
        LOOP(MF_F64, double, real, double)
    case MF_F16:
    case MF_BF16:
        for (int64_t i = 0; i < count; i++)
            o[i] = rule->real((double)load_half(dtype, x, i), (double)load_half(dtype, y, i));
        return;
    default: return;
    }
}
#undef LOOP

/* ---- type rules */
mf_error_object *mf_check_operands(const mf_type_context *c, int count)
{
    if (c->in_count == count)
        return NULL;
    return mf_type_error(c, MF_ERROR_ARGUMENT, "takes %d operand%s, not %d", count, count == 1 ? "" : "s", c->in_count);
}

static mf_error_object *refuse(const mf_type_context *c, const char *kinds)
{
    return mf_type_error(c, MF_ERROR_DTYPE, "is defined for %s, not for %s", kinds, mf_dtype_name(c->in[0]->dtype));
}

#define TYPE_RULE(name, count, condition, kinds)          \
    mf_error_object *name(mf_type_context *c)             \
    {                                                     \
        mf_error_object *e = mf_check_operands(c, count); \
        e = e ? e : mf_type_like_first(c);                \
        if (e)                                            \
            return e;                                     \
        mf_dtype d = c->in[0]->dtype;                     \
        return (condition) ? NULL : refuse(c, kinds);     \
    }
#define IS_NUMBER (mf_dtype_is_float(d) || mf_dtype_is_int(d))
TYPE_RULE(mf_type_float1, 1, mf_dtype_is_float(d), "floats")
TYPE_RULE(mf_type_float2, 2, mf_dtype_is_float(d), "floats")
TYPE_RULE(mf_type_number1, 1, IS_NUMBER, "floats and integers")
TYPE_RULE(mf_type_number2, 2, IS_NUMBER, "floats and integers")
TYPE_RULE(mf_type_inexact1, 1, mf_dtype_is_inexact(d), "floats and complex numbers")
TYPE_RULE(mf_type_numeric1, 1, IS_NUMBER || mf_dtype_is_complex(d), "floats, integers and complex numbers")
TYPE_RULE(mf_type_numeric2, 2, IS_NUMBER || mf_dtype_is_complex(d), "floats, integers and complex numbers")
TYPE_RULE(mf_type_ordered2, 2, IS_NUMBER || mf_dtype_is_complex(d) || d == MF_BOOL, "floats, integers, complex numbers and bool")
TYPE_RULE(mf_type_logical1, 1, mf_dtype_is_int(d) || d == MF_BOOL, "integers and bool")
TYPE_RULE(mf_type_logical2, 2, mf_dtype_is_int(d) || d == MF_BOOL, "integers and bool")
TYPE_RULE(mf_type_integer2, 2, mf_dtype_is_int(d), "integers")

/* ---- shared arithmetic */
double mf_greater_real(double x, double y) { return x > y || x != x || (x == y && signbit(y)) ? x : y; }
double mf_lesser_real(double x, double y) { return x < y || x != x || (x == y && signbit(x)) ? x : y; }
float mf_greater_single(float x, float y) { return (float)mf_greater_real((double)x, (double)y); }
float mf_lesser_single(float x, float y) { return (float)mf_lesser_real((double)x, (double)y); }

bool mf_less_pair(const double x[2], const double y[2]) { return x[0] == y[0] ? x[1] < y[1] : x[0] < y[0]; }
static bool less(double complex x, double complex y)
{
    return mf_less_pair((double[]){ creal(x), cimag(x) }, (double[]){ creal(y), cimag(y) });
}
double complex mf_greater_complex(double complex x, double complex y) { return less(y, x) ? x : y; }
double complex mf_lesser_complex(double complex x, double complex y) { return less(x, y) ? x : y; }

uint64_t mf_power_natural(uint64_t x, uint64_t y)
{
    uint64_t power = 1;
    for (; y; y >>= 1, x *= x)
        if (y & 1)
            power *= x;
    return power;
}
