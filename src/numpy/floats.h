/* Which dtypes functions of real analysis compute in. */
#ifndef MF_NUMPY_FLOATS_H
#define MF_NUMPY_FLOATS_H

#include <manyfold.h>

/* Integers and bools become floats, those of 64 bits f64 and others f32; anything else stays, errors too. */
mf_value numpy_float(mf_value x);
/* Two operands of the type and the shape that theirs have in common, which may be made inexact; an error of either comes out of both. */
void numpy_common(mf_value *a, mf_value *b);
void numpy_common_float(mf_value *a, mf_value *b);
bool numpy_is_complex(mf_value x);
bool numpy_is_half(mf_dtype d); /* f16 and bf16, which are computed in f32 */
/* The error of a function that is defined for real numbers only; the float of anything else. */
mf_value numpy_real_float(mf_value x, const char *op);

/* f of a, or of a and b, floats: those of half width go through it in f32, and the result is rounded once. */
mf_value numpy_call_wide(mf_function f, mf_value a);
mf_value numpy_call_wide2(mf_function f, mf_value a, mf_value b);

#endif
