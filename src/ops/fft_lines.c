/* Fourier transforms of lines for any machine; fft_lines.inc says how. */
#include "base/alloc.h"
#include "ops/fft.h"

#include <string.h>

enum { MOST_RADIX = 32 };
#define VECTOR_BYTES 16

#define T       float
#define NAME(x) x##_f32
#include "ops/fft_lines.inc"
#undef T
#undef NAME

#define T       double
#define NAME(x) x##_f64
#include "ops/fft_lines.inc"
