/* The dtypes in which functions on real numbers compute. */
#ifndef MF_NUMPY_FLOATS_H
#define MF_NUMPY_FLOATS_H

#include <manyfold.h>

/* Converts integers and bools to floats: 64-bit ones to f64, others to f32. Anything else, also an error, is returned unchanged. */
mf_value numpy_float(mf_value x);
/* Converts two operands to their promoted dtype, with numpy_common_float to an inexact one, and broadcasts them. If one is an error, both
 * become an error. */
void numpy_common(mf_value *a, mf_value *b);
void numpy_common_float(mf_value *a, mf_value *b);
void numpy_common_floats(mf_value *v, int count); /* the same of any number of operands */
/* Converts two operands to their promoted inexact dtype; their shapes stay. */
void numpy_promote_float(mf_value *a, mf_value *b);
bool numpy_is_complex(mf_value x);
double numpy_epsilon(mf_value x); /* the machine epsilon of f64 if x is f64 or complex128, else that of f32 */
bool numpy_is_half(mf_dtype d);   /* f16 or bf16, for which functions compute in f32 */
/* numpy_float(x), but an error if x is complex. op: the name of the function, which is defined for real numbers only. */
mf_value numpy_real_float(mf_value x, const char *op);

/* f(a), or f(a, b), of floats. f16 and bf16 are converted to f32 for the call, and the result is rounded once. */
mf_value numpy_call_wide(mf_function f, mf_value a);
mf_value numpy_call_wide2(mf_function f, mf_value a, mf_value b);
/* f of two operands after numpy_common_float; an error if they are complex. A layer: its caller is a public function. */
mf_value numpy_call_real2(const char *op, mf_function f, mf_value a, mf_value b);

#endif
