/* Reductions in the one order of ir/reducer.h, element by element. */
#ifndef MF_OPS_REDUCE_REDUCE_ORDER_H
#define MF_OPS_REDUCE_REDUCE_ORDER_H

#include "ir/reducer.h"

#include <stddef.h>
#include <stdint.h>

/* Defines A name(const A *x, int64_t n, A identity, A (*join)(A, A)). */
#define MF_REDUCE_IN_ORDER(name, A)                                                                        \
    static inline A name##_chunk(const A *x, int64_t n, A identity, A (*join)(A, A))                       \
    {                                                                                                      \
        A lane[MF_REDUCE_LANES];                                                                           \
        for (int l = 0; l < MF_REDUCE_LANES; l++)                                                          \
            lane[l] = identity;                                                                            \
        for (int64_t i = 0; i < n; i++)                                                                    \
            lane[i % MF_REDUCE_LANES] = join(lane[i % MF_REDUCE_LANES], x[i]);                             \
        for (int half = MF_REDUCE_LANES / 2; half; half /= 2)                                              \
            for (int l = 0; l < half; l++)                                                                 \
                lane[l] = join(lane[l], lane[l + half]);                                                   \
        return lane[0];                                                                                    \
    }                                                                                                      \
    /* all chunks but the last are full, so the left part is the largest power of two of chunks below n */ \
    static inline A name(const A *x, int64_t n, A identity, A (*join)(A, A))                               \
    {                                                                                                      \
        if (n <= MF_REDUCE_CHUNK)                                                                          \
            return name##_chunk(x, n, identity, join);                                                     \
        int64_t left = MF_REDUCE_CHUNK;                                                                    \
        while (left * 2 < n)                                                                               \
            left *= 2;                                                                                     \
        A first = name(x, left, identity, join), second = name(x + left, n - left, identity, join);        \
        return join(first, second);                                                                        \
    }

#endif
