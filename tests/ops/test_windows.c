/* The gradients of max pooling, compared with a loop over every position, for many windows, strides, paddings and dilations in two
 * dimensions: positions outside are -inf, the first of equal elements is chosen, and a NaN is chosen only if it is the last. */
#include "check.h"

#include <manyfold.h>

enum { ROWS = 2, COLUMNS = 3, SIZE = ROWS * COLUMNS };

typedef struct walked {
    int64_t window, stride, low, high, base, dilation;
} walked;

typedef struct both {
    walked rows, columns;
} both;

static int64_t count_windows(const walked *a, int64_t n)
{
    int64_t room = (n - 1) * a->base + 1 + a->low + a->high - ((a->window - 1) * a->dilation + 1);
    return room < 0 ? 0 : room / a->stride + 1;
}

/* The element at a position along one dimension, or -1. */
static int64_t element(const walked *a, int64_t window, int64_t k, int64_t n)
{
    int64_t place = window * a->stride - a->low + k * a->dilation;
    return place >= 0 && place % a->base == 0 && place / a->base < n ? place / a->base : -1;
}

static int64_t choose(const walked *r, const walked *c, int64_t row, int64_t column, const float *x)
{
    float best = 0;
    int64_t chosen = -1;
    for (int64_t k = 0; k < r->window * c->window; k++) {
        int64_t i = element(r, row, k / c->window, ROWS), j = element(c, column, k % c->window, COLUMNS);
        int64_t at = i < 0 || j < 0 ? -1 : i * COLUMNS + j;
        float next = at < 0 ? -INFINITY : x[at];
        if (k && best >= next)
            continue;
        best = next;
        chosen = at;
    }
    return chosen;
}

static mf_value maxima(void *context, mf_value x)
{
    const walked *r = &((const both *)context)->rows, *c = &((const both *)context)->columns;
    return mf_reduce_window_max(x, .window = MF_INTS(r->window, c->window), .strides = MF_INTS(r->stride, c->stride),
                                .padding_low = MF_INTS(r->low, c->low), .padding_high = MF_INTS(r->high, c->high),
                                .base_dilation = MF_INTS(r->base, c->base), .window_dilation = MF_INTS(r->dilation, c->dilation));
}

static const walked ways[] = {
    { 1, 1, 0, 0, 1, 1 }, { 2, 1, 0, 0, 1, 1 }, { 2, 1, 1, 2, 1, 1 }, { 3, 2, 5, 4, 1, 1 }, { 2, 1, 1, 1, 2, 1 },  { 3, 1, 2, 3, 3, 2 },
    { 4, 1, 4, 4, 4, 2 }, { 5, 2, 7, 6, 5, 3 }, { 3, 3, 9, 9, 6, 4 }, { 9, 1, 8, 8, 1, 1 }, { 9, 4, 20, 9, 4, 3 }, { 2, 1, -1, 0, 2, 1 },
};

static void check_way(const walked *r, const walked *c, const float *x)
{
    MF_SCOPE;
    both ways_of = { *r, *c };
    int64_t rows = count_windows(r, ROWS), columns = count_windows(c, COLUMNS);
    float gradient[SIZE] = { 0 }, got[SIZE];
    mf_function pull;
    for (int64_t o = 0; o < rows * columns; o++) {
        int64_t at = choose(r, c, o / columns, o % columns, x);
        if (at >= 0)
            gradient[at] += (float)(o + 1);
    }
    mf_value weights = mf_reshape(mf_astype(mf_arange(rows * columns, MF_I32), MF_F32), MF_SHAPE(rows, columns));
    mf_value y = mf_vjp(mf_closure(maxima, &ways_of), mf_tuple(mf_from_host(MF_F32, MF_SHAPE(ROWS, COLUMNS), x)), &pull);
    mf_value g = mf_call(pull, mf_add(weights, 1));
    CHECK(!mf_is_error(y));
    if (!CHECK_EQ_INT(mf_to_host(mf_get(g, 0), MF_F32, got, SIZE), MF_OK) || !CHECK_BYTES(got, gradient, sizeof got))
        CHECK_NOTE("rows by %d, columns by %d", (int)(r - ways), (int)(c - ways));
}

TEST(gradients_of_maxima)
{
    static const float data[][SIZE] = { { 3, 1, 4, 1, 5, 9 }, { 2, 2, 2, 2, 2, 2 }, { -INFINITY, 1, NAN, 0, NAN, -INFINITY } };
    const int count = sizeof ways / sizeof *ways;
    for (size_t d = 0; d < sizeof data / sizeof *data; d++)
        for (int i = 0; i < count * count; i++)
            if (count_windows(&ways[i / count], ROWS) > 0 && count_windows(&ways[i % count], COLUMNS) > 0)
                check_way(&ways[i / count], &ways[i % count], data[d]);
}
