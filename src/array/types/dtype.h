/* Dtypes: sizes, names, kinds, promotion (JAX's lattice with weak types) and scalar conversion. One table, dtype.c. */
#ifndef MF_ARRAY_TYPES_DTYPE_H
#define MF_ARRAY_TYPES_DTYPE_H

#include <manyfold/base.h>

int mf_dtype_size(mf_dtype d);                      /* bytes an element */
const char *mf_dtype_name(mf_dtype d);              /* "float32", as JAX prints it */
const char *mf_dtype_short(mf_dtype d);             /* "f32", as programs print it: bool i8.. u64 f16 bf16 f32 f64 c64 c128 key */
mf_dtype mf_dtype_parse(const char *s, int length); /* a short name; MF_DTYPE_DEFAULT when unknown */
bool mf_dtype_is_float(mf_dtype d);                 /* f16 bf16 f32 f64 */
bool mf_dtype_is_int(mf_dtype d);                   /* signed or unsigned, not bool */
bool mf_dtype_is_signed(mf_dtype d);                /* i8..i64 */
bool mf_dtype_is_unsigned(mf_dtype d);
bool mf_dtype_is_complex(mf_dtype d);
bool mf_dtype_is_inexact(mf_dtype d); /* float or complex: has a tangent */
/* JAX's promotion of two dtypes with weak types; *weak tells whether the result is weak. */
mf_dtype mf_dtype_promote(mf_dtype a, bool a_weak, mf_dtype b, bool b_weak, bool *weak);
double mf_dtype_max(mf_dtype d);     /* largest finite value, as a double */
double mf_dtype_lowest(mf_dtype d);  /* -infinity for floats, the least integer, 0 for bool */
double mf_dtype_highest(mf_dtype d); /* +infinity for floats, the greatest integer, 1 for bool */

/* Scalars in memory. Conversions follow JAX: float to integer saturates, NaN gives 0; f16 and bf16 round to nearest even. */
double mf_load_f64(mf_dtype d, const void *p);
int64_t mf_load_i64(mf_dtype d, const void *p); /* u64 keeps its bits */
void mf_store_f64(mf_dtype d, void *p, double x);
void mf_store_i64(mf_dtype d, void *p, int64_t x);                                     /* wraps into the width; a u64's bits */
void mf_convert(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count); /* contiguous arrays */
uint16_t mf_f32_to_f16(float x);
float mf_f16_to_f32(uint16_t x);
uint16_t mf_f32_to_bf16(float x);
float mf_bf16_to_f32(uint16_t x);

#endif
