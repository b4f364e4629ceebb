/* Numbers inside program texts: exact both ways. An element of a complex dtype is two numbers, of a key two words. */
#ifndef MF_IR_TEXT_NUMBER_TEXT_H
#define MF_IR_TEXT_NUMBER_TEXT_H

#include "array/array.h"

#define MF_LITERAL_MAX 64 /* constants of more elements print as a summary only */

/* The dtype of the numbers that make up an element, and how many. */
mf_dtype mf_number_dtype(mf_dtype dtype, int *numbers);
/* The shortest text that reads back as the same bits: 2.0, -0.0, 1e-07, nan, inf, true, 3. dtype is a real one. */
void mf_number_print(mf_text *t, mf_dtype dtype, const void *p);
/* Reads a number of `length` characters into out; false when it is not one or does not fit the dtype. */
bool mf_number_read(mf_dtype dtype, const char *s, int length, void *out);
void mf_number_print_double(mf_text *t, double x);

#endif
