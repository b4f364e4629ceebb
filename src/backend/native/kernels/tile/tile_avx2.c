/* The tile kernels for AVX2 and FMA, the engine's floor on x86-64. The build sets the target by the file's name. */
#define MF_LANE_BYTES 32
#define MF_TIER(name) name##_avx2
#include "tile.inc"
