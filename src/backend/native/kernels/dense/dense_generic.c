/* Pooling and matrix products for every CPU: 16-byte vectors, NEON on AArch64, and on x86-64 a fallback below the engine's floor. */
#define MF_LANE_BYTES 16
#define MF_TIER(name) name##_generic
#include "dense.inc"
