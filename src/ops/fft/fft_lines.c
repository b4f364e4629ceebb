/* The baseline build of fft_lines.inc, for any machine. */
#define VECTOR_BYTES 16
#define TIER(x)      x
#include "ops/fft/fft_types.inc"
