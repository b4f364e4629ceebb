/* Copies, fills and conversions of any size; large copies and fills are cut into pieces, whose size depends on shape alone. */
#include "backend/native/steps/copy_step.h"

#include "backend/native/fusion/layout.h"
#include "backend/native/kernels/kernels.h"
#include "runtime/compile/segment_compiler.h"

#include <string.h>

enum { PIECE = 1 << 17, PIECES_FROM = 1 << 19 }; /* bytes */

/* ------------------------------------------------------------------ strided copies */

typedef struct copy_pieces {
    int rank, axis, element;
    int64_t each; /* along the axis */
    const int64_t *dims, *to, *from;
    char *out;
    const char *in;
} copy_pieces;

static void copy_piece(void *context, int64_t index)
{
    const copy_pieces *c = context;
    int64_t dims[MF_FACTORS], first = index * c->each, left = c->dims[c->axis] - first;
    memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
    dims[c->axis] = left < c->each ? left : c->each;
    mf_copy_strided(c->rank, dims, c->element, c->out + first * c->to[c->axis], c->to, c->in + first * c->from[c->axis], c->from);
}

/* The axis with the largest stride in the result among those with enough entries, else the longest axis. */
static int axis_to_cut(int rank, const int64_t *dims, const int64_t *to, int64_t pieces)
{
    int best = 0;
    for (int i = 1; i < rank; i++) {
        bool enough = dims[i] >= pieces, had = dims[best] >= pieces;
        if (enough != had ? enough : enough ? to[i] > to[best] : dims[i] > dims[best])
            best = i;
    }
    return best;
}

void mf_native_copy(int rank, const int64_t *dims, int element, void *out, const int64_t *to, const void *in, const int64_t *from)
{
    int64_t bytes = element;
    for (int i = 0; i < rank; i++)
        bytes *= dims[i];
    if (bytes < PIECES_FROM || rank == 0) {
        mf_copy_strided(rank, dims, element, out, to, in, from);
        return;
    }
    int64_t pieces = bytes / PIECE;
    copy_pieces c = { rank, axis_to_cut(rank, dims, to, pieces < 8 ? pieces : 8), element, 0, dims, to, from, out, in };
    c.each = (dims[c.axis] + pieces - 1) / pieces;
    if (from[c.axis] == element && to[c.axis] != element) /* whole cache lines of the operand */
        c.each = (c.each + 31) / 32 * 32;
    mf_parallel_for((dims[c.axis] + c.each - 1) / c.each, copy_piece, &c);
}

void mf_native_move(void *out, const void *in, int64_t bytes)
{
    int64_t one = 1;
    if (bytes && out != in)
        mf_native_copy(1, &bytes, 1, out, &one, in, &one);
}

/* ------------------------------------------------------------------ fills */

#define FILL(type)                                                         \
    do {                                                                   \
        type x_;                                                           \
        memcpy(&x_, value, sizeof x_);                                     \
        for (int64_t i_ = 0; i_ < n; i_++)                                 \
            memcpy((char *)out + i_ * (int64_t)sizeof x_, &x_, sizeof x_); \
    } while (0)

void mf_native_fill(void *out, int64_t n, int element, const void *value)
{
    switch (element) {
    case 1: memset(out, *(const unsigned char *)value, (size_t)n); break;
    case 2: FILL(uint16_t); break;
    case 4: FILL(uint32_t); break;
    case 8: FILL(uint64_t); break;
    default:
        for (int64_t i = 0; i < n; i++)
            memcpy((char *)out + i * element, value, (size_t)element);
    }
}

void mf_native_convert(mf_dtype to, void *out, mf_dtype from, const void *in, int64_t count)
{
    mf_tile_fn *run = mf_tile_lookup("convert_element_type", from, to);
    int64_t in_size = mf_dtype_size(from), out_size = mf_dtype_size(to);
    for (int64_t i = 0; i < count; i += MF_TILE) {
        const void *block = (const char *)in + i * in_size;
        run((char *)out + i * out_size, &block, (size_t)(count - i < MF_TILE ? count - i : MF_TILE));
    }
}
