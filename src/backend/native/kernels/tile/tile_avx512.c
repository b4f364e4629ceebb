/* The tile kernels for AVX-512 (F, BW, DQ, VL). The build sets the target by the file's name. */
#define MF_LANE_BYTES 64
#define MF_TIER(name) name##_avx512
#include "tile.inc"
