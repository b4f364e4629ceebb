/* Fourier transforms of lines for AVX2, with the bits of ops/fft/fft_lines.c. The build sets the target by the file's name. */
#define VECTOR_BYTES 32
#define TIER(x)      x##_avx2
#include "ops/fft/fft_types.inc"
