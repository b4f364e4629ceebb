/* Fourier transforms of lines for any machine; fft_lines.inc says how. */
#define VECTOR_BYTES 16
#define TIER(x)      x
#include "ops/fft/fft_types.inc"
