/* Fourier transforms of lines for AVX-512, with the bits of ops/fft/fft_lines.c. The build sets the target by the file's name. */
#define VECTOR_BYTES 64
#define TIER(x)      x##_avx512
#include "ops/fft/fft_types.inc"
