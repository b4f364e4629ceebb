/* Numbers in program texts, exact in both directions. An element of a complex dtype is two numbers, one of a key is two words. */
#ifndef MF_IR_TEXT_NUMBER_TEXT_H
#define MF_IR_TEXT_NUMBER_TEXT_H

#include "array/array.h"

#define MF_LITERAL_MAX 64 /* constants with more elements are printed only as a summary */

/* The dtype of the numbers that make up an element, and their count. */
mf_dtype mf_number_dtype(mf_dtype dtype, int *numbers);
/* The shortest text that reads back as the same bits: 2.0, -0.0, 1e-07, nan, inf, true, 3. dtype must not be complex or a key. */
void mf_number_print(mf_text *t, mf_dtype dtype, const void *p);
/* Reads a number of `length` characters into out; false when it is not one or does not fit the dtype. */
bool mf_number_read(mf_dtype dtype, const char *s, int length, void *out);
void mf_number_print_double(mf_text *t, double x);

#endif
