/* Conversion between dtypes, of scalars and whole arrays. Invariant: every pair follows JAX: integers wrap, float to integer saturates, NaN
 * becomes 0, all but zero is true, complex to real takes the real part, f16 and bf16 round to nearest even (bf16 by way of f32). */
#include "array/types/dtype.h"

#include <math.h>
#include <string.h>

/* ---- 16-bit floats, by integer operations: the same bits on every machine */

static uint32_t bits_of_float(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float float_of_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

uint16_t mf_f32_to_f16(float x)
{
    uint32_t u = bits_of_float(x), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (a >> 13 & 0x3ffu));
    if (a >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (a < 0x38800000u) { /* below 2^-14: adding 0.5 rounds at a subnormal's last place */
        uint32_t m = bits_of_float(float_of_bits(a) + 0.5f);
        return (uint16_t)(sign | (m - 0x3f000000u));
    }
    uint32_t rounded = a + 0xfffu + (a >> 13 & 1u);
    return (uint16_t)(sign | ((rounded - 0x38000000u) >> 13));
}

float mf_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, a = h & 0x7fffu;
    if (a >= 0x7c00u)
        return float_of_bits(sign | 0x7f800000u | (a & 0x3ffu) << 13);
    if (a >= 0x400u)
        return float_of_bits(sign | ((a << 13) + 0x38000000u));
    return float_of_bits(sign | bits_of_float((float)a * 0x1p-24f));
}

uint16_t mf_f32_to_bf16(float x)
{
    uint32_t u = bits_of_float(x);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float mf_bf16_to_f32(uint16_t x) { return float_of_bits((uint32_t)x << 16); }

/* By way of f32 with a sticky last bit, so that rounding twice gives what rounding once does. */
static uint16_t f64_to_f16(double x)
{
    float f = (float)x;
    if (!isnan(x) && isfinite(f) && (double)f != x) {
        uint32_t u = bits_of_float(f);
        if (fabs((double)f) > fabs(x)) /* back toward zero */
            u--;
        f = float_of_bits(u | 1u);
    }
    return mf_f32_to_f16(f);
}

/* ---- element types. The 16-bit floats have a struct each, so that the C types tell all dtypes apart. */

typedef struct half {
    uint16_t bits;
} half;
typedef struct brain {
    uint16_t bits;
} brain;
typedef struct pair32 {
    float re, im;
} pair32;
typedef struct pair64 {
    double re, im;
} pair64;
typedef uint8_t truth;

/* Readers: convert an element to a C number that holds it exactly. */
static inline uint8_t get_truth(truth x) { return x != 0; }
static inline int8_t get_i8(int8_t x) { return x; }
static inline int16_t get_i16(int16_t x) { return x; }
static inline int32_t get_i32(int32_t x) { return x; }
static inline int64_t get_i64(int64_t x) { return x; }
static inline uint8_t get_u8(uint8_t x) { return x; }
static inline uint16_t get_u16(uint16_t x) { return x; }
static inline uint32_t get_u32(uint32_t x) { return x; }
static inline uint64_t get_u64(uint64_t x) { return x; }
static inline float get_f16(half x) { return mf_f16_to_f32(x.bits); }
static inline float get_bf16(brain x) { return mf_bf16_to_f32(x.bits); }
static inline float get_f32(float x) { return x; }
static inline double get_f64(double x) { return x; }
static inline float get_c64(pair32 x) { return x.re; }
static inline double get_c128(pair64 x) { return x.re; }

/* Saturating float to integer: `above` is the first double beyond the range. The casts stay within it, so nothing is undefined. */
#define SATURATE(name, type, below, above, least, most) \
    static inline type name(double x) { return x >= (above) ? (most) : x <= (below) ? (least) : x != x ? 0 : (type)x; }
SATURATE(fit_i8, int8_t, -129.0, 128.0, INT8_MIN, INT8_MAX)
SATURATE(fit_i16, int16_t, -32769.0, 32768.0, INT16_MIN, INT16_MAX)
SATURATE(fit_i32, int32_t, -2147483649.0, 2147483648.0, INT32_MIN, INT32_MAX)
SATURATE(fit_i64, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
SATURATE(fit_u8, uint8_t, -1.0, 256.0, 0, UINT8_MAX)
SATURATE(fit_u16, uint16_t, -1.0, 65536.0, 0, UINT16_MAX)
SATURATE(fit_u32, uint32_t, -1.0, 4294967296.0, 0, UINT32_MAX)
SATURATE(fit_u64, uint64_t, -1.0, 0x1p64, 0, UINT64_MAX)

/* put_<to>_i takes any integer, extended to 64 bits; put_<to>_d any float. */
static inline truth put_truth_i(uint64_t x) { return x != 0; }
static inline truth put_truth_d(double x) { return x != 0; }
#define PUT_INTEGER(name, type)                                       \
    static inline type put_##name##_i(uint64_t x) { return (type)x; } \
    static inline type put_##name##_d(double x) { return fit_##name(x); }
PUT_INTEGER(i8, int8_t)
PUT_INTEGER(i16, int16_t)
PUT_INTEGER(i32, int32_t)
PUT_INTEGER(i64, int64_t)
PUT_INTEGER(u8, uint8_t)
PUT_INTEGER(u16, uint16_t)
PUT_INTEGER(u32, uint32_t)
PUT_INTEGER(u64, uint64_t)

/* 16-bit floats from f32 (f) and f64 (d). */
static inline half put_f16_d(double x) { return (half){ f64_to_f16(x) }; }
static inline half put_f16_f(float x) { return (half){ mf_f32_to_f16(x) }; }
static inline brain put_bf16_f(float x) { return (brain){ mf_f32_to_bf16(x) }; }
static inline brain put_bf16_d(double x) { return put_bf16_f((float)x); }

/* ---- whole arrays: one loop per pair. The macro arguments: dtype, C type, reader, kind of number that it gives. */
/* clang-format off */
#define SOURCES(F, ...) \
    F(MF_BOOL, truth, get_truth, int, __VA_ARGS__) \
    F(MF_I8, int8_t, get_i8, int, __VA_ARGS__) \
    F(MF_I16, int16_t, get_i16, int, __VA_ARGS__) \
    F(MF_I32, int32_t, get_i32, int, __VA_ARGS__) \
    F(MF_I64, int64_t, get_i64, int, __VA_ARGS__) \
    F(MF_U8, uint8_t, get_u8, int, __VA_ARGS__) \
    F(MF_U16, uint16_t, get_u16, int, __VA_ARGS__) \
    F(MF_U32, uint32_t, get_u32, int, __VA_ARGS__) \
    F(MF_U64, uint64_t, get_u64, int, __VA_ARGS__) \
    F(MF_F16, half, get_f16, float, __VA_ARGS__) \
    F(MF_BF16, brain, get_bf16, float, __VA_ARGS__) \
    F(MF_F32, float, get_f32, float, __VA_ARGS__) \
    F(MF_F64, double, get_f64, double, __VA_ARGS__) \
    F(MF_C64, pair32, get_c64, float, __VA_ARGS__) \
    F(MF_C128, pair64, get_c128, double, __VA_ARGS__)
/* clang-format on */

/* How a number x of a kind becomes an element of the target. */
#define AS_truth_int(x)    put_truth_i((uint64_t)(x))
#define AS_truth_float(x)  put_truth_d((double)(x))
#define AS_truth_double(x) put_truth_d(x)
#define AS_i8_int(x)       put_i8_i((uint64_t)(x))
#define AS_i8_float(x)     put_i8_d((double)(x))
#define AS_i8_double(x)    put_i8_d(x)
#define AS_i16_int(x)      put_i16_i((uint64_t)(x))
#define AS_i16_float(x)    put_i16_d((double)(x))
#define AS_i16_double(x)   put_i16_d(x)
#define AS_i32_int(x)      put_i32_i((uint64_t)(x))
#define AS_i32_float(x)    put_i32_d((double)(x))
#define AS_i32_double(x)   put_i32_d(x)
#define AS_i64_int(x)      put_i64_i((uint64_t)(x))
#define AS_i64_float(x)    put_i64_d((double)(x))
#define AS_i64_double(x)   put_i64_d(x)
#define AS_u8_int(x)       put_u8_i((uint64_t)(x))
#define AS_u8_float(x)     put_u8_d((double)(x))
#define AS_u8_double(x)    put_u8_d(x)
#define AS_u16_int(x)      put_u16_i((uint64_t)(x))
#define AS_u16_float(x)    put_u16_d((double)(x))
#define AS_u16_double(x)   put_u16_d(x)
#define AS_u32_int(x)      put_u32_i((uint64_t)(x))
#define AS_u32_float(x)    put_u32_d((double)(x))
#define AS_u32_double(x)   put_u32_d(x)
#define AS_u64_int(x)      put_u64_i((uint64_t)(x))
#define AS_u64_float(x)    put_u64_d((double)(x))
#define AS_u64_double(x)   put_u64_d(x)
#define AS_f16_int(x)      put_f16_f((float)(x))
#define AS_f16_float(x)    put_f16_f(x)
#define AS_f16_double(x)   put_f16_d(x)
#define AS_bf16_int(x)     put_bf16_f((float)(x))
#define AS_bf16_float(x)   put_bf16_f(x)
#define AS_bf16_double(x)  put_bf16_d(x)
#define AS_f32_int(x)      ((float)(x))
#define AS_f32_float(x)    (x)
#define AS_f32_double(x)   ((float)(x))
#define AS_f64_int(x)      ((double)(x))
#define AS_f64_float(x)    ((double)(x))
#define AS_f64_double(x)   (x)
#define AS_c64_int(x)      ((pair32){ (float)(x), 0 })
#define AS_c64_float(x)    ((pair32){ x, 0 })
#define AS_c64_double(x)   ((pair32){ (float)(x), 0 })
#define AS_c128_int(x)     ((pair64){ (double)(x), 0 })
#define AS_c128_float(x)   ((pair64){ (double)(x), 0 })
#define AS_c128_double(x)  ((pair64){ x, 0 })

/* Elements may be unaligned (rows of a view), so they move by memcpy, which compilers turn into plain loads and stores. */
#define LOOP(dtype, source, get, kind, to, target)                          \
    case dtype:                                                             \
        for (int64_t i = 0; i < count; i++) {                               \
            source x;                                                       \
            memcpy(&x, (const char *)in + i * (int64_t)sizeof x, sizeof x); \
            const target y = AS_##to##_##kind(get(x));                      \
            memcpy((char *)out + i * (int64_t)sizeof y, &y, sizeof y);      \
        }                                                                   \
        return;

#define CONVERT_TO(to, target)                                                                             \
    static void convert_to_##to(void *restrict out, mf_dtype from, const void *restrict in, int64_t count) \
    {                                                                                                      \
        switch (from) {                                                                                    \
            SOURCES(LOOP, to, target)                                                                      \
        default: return;                                                                                   \
        }                                                                                                  \
    }
CONVERT_TO(truth, truth)
CONVERT_TO(i8, int8_t)
CONVERT_TO(i16, int16_t)
CONVERT_TO(i32, int32_t)
CONVERT_TO(i64, int64_t)
CONVERT_TO(u8, uint8_t)
CONVERT_TO(u16, uint16_t)
CONVERT_TO(u32, uint32_t)
CONVERT_TO(u64, uint64_t)
CONVERT_TO(f16, half)
CONVERT_TO(bf16, brain)
CONVERT_TO(f32, float)
CONVERT_TO(f64, double)
CONVERT_TO(c64, pair32)
CONVERT_TO(c128, pair64)

/* Complex to complex and complex to bool use both parts. */
static bool convert_complex(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count)
{
    if (!mf_dtype_is_complex(from) || (to != MF_BOOL && !mf_dtype_is_complex(to)))
        return false;
    for (int64_t i = 0; i < count; i++) {
        pair64 x;
        pair32 single;
        if (from == MF_C64) {
            memcpy(&single, (const char *)in + i * 8, 8);
            x = (pair64){ (double)single.re, (double)single.im };
        } else {
            memcpy(&x, (const char *)in + i * 16, 16);
        }
        single = (pair32){ (float)x.re, (float)x.im };
        if (to == MF_BOOL)
            ((truth *)out)[i] = x.re != 0 || x.im != 0;
        else if (to == MF_C64)
            memcpy((char *)out + i * 8, &single, 8);
        else
            memcpy((char *)out + i * 16, &x, 16);
    }
    return true;
}

void mf_convert(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count)
{
    if (count <= 0)
        return;
    if (to == from) {
        memcpy(out, in, (size_t)count * (size_t)mf_dtype_size(to));
        return;
    }
    if (convert_complex(to, out, from, in, count))
        return;
    switch (to) {
    case MF_BOOL: convert_to_truth(out, from, in, count); break;
    case MF_I8: convert_to_i8(out, from, in, count); break;
    case MF_I16: convert_to_i16(out, from, in, count); break;
    case MF_I32: convert_to_i32(out, from, in, count); break;
    case MF_I64: convert_to_i64(out, from, in, count); break;
    case MF_U8: convert_to_u8(out, from, in, count); break;
    case MF_U16: convert_to_u16(out, from, in, count); break;
    case MF_U32: convert_to_u32(out, from, in, count); break;
    case MF_U64: convert_to_u64(out, from, in, count); break;
    case MF_F16: convert_to_f16(out, from, in, count); break;
    case MF_BF16: convert_to_bf16(out, from, in, count); break;
    case MF_F32: convert_to_f32(out, from, in, count); break;
    case MF_F64: convert_to_f64(out, from, in, count); break;
    case MF_C64: convert_to_c64(out, from, in, count); break;
    case MF_C128: convert_to_c128(out, from, in, count); break;
    case MF_DTYPE_DEFAULT:
    case MF_KEY: break;
    }
}

/* ---- scalars */

double mf_load_f64(mf_dtype d, const void *p)
{
    double x = 0;
    mf_convert(MF_F64, &x, d, p, 1);
    return x;
}

int64_t mf_load_i64(mf_dtype d, const void *p)
{
    int64_t x = 0;
    if (d == MF_KEY || d == MF_U64)
        memcpy(&x, p, sizeof x);
    else
        mf_convert(MF_I64, &x, d, p, 1);
    return x;
}

void mf_store_f64(mf_dtype d, void *p, double x) { mf_convert(d, p, MF_F64, &x, 1); }

void mf_store_i64(mf_dtype d, void *p, int64_t x)
{
    if (d == MF_KEY || d == MF_U64)
        memcpy(p, &x, sizeof x);
    else
        mf_convert(d, p, MF_I64, &x, 1);
}
