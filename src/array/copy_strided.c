/* Strided copies: any layout of a shape into any other. Invariants: axes are walked in the order of the result's strides, so that writes
 * are close together. Where operand and result are dense along different axes, the plane of the two is transposed in square blocks, which
 * stay in the L1 cache. A copy writes each element of the result once, and nothing else. */
#include "array/array.h"

#include <string.h>

typedef struct axis {
    int64_t n, out, in; /* length; byte strides */
} axis;

typedef struct walk {
    int rank;
    axis at[MF_RANK];
} walk;

/* ---- the walk */

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Drops axes of one element and sorts the others by the result's strides, largest first. False when there is nothing to copy. */
static bool order(walk *w, int rank, const int64_t *dims, const int64_t *out, const int64_t *in)
{
    w->rank = 0;
    for (int i = 0; i < rank; i++) {
        if (dims[i] == 0)
            return false;
        if (dims[i] == 1)
            continue;
        int at = w->rank++;
        for (; at > 0 && magnitude(w->at[at - 1].out) < magnitude(out[i]); at--)
            w->at[at] = w->at[at - 1];
        w->at[at] = (axis){ dims[i], out[i], in[i] };
    }
    return true;
}

/* Joins neighbouring axes that are contiguous in both layouts. */
static void join(walk *w)
{
    int count = 0;
    for (int i = 0; i < w->rank; i++) {
        axis next = w->at[i];
        const axis *last = count > 0 ? &w->at[count - 1] : NULL;
        if (last && last->out == next.out * next.n && last->in == next.in * next.n)
            next.n *= w->at[--count].n;
        w->at[count++] = next;
    }
    w->rank = count;
}

/* ---- rows */

#define COPY_LOOP(step_out, step_in, size) \
    for (int64_t i = 0; i < n; i++)        \
    memcpy(out + i * (step_out), in + i * (step_in), size)

/* A constant size is one load and one store, and constant steps let the compiler use vectors. */
#define COPY_ROW(size)                                            \
    do {                                                          \
        if (in_step == -(size) && out_step == (size)) {           \
            COPY_LOOP(size, -(size), size);                       \
        } else if (in_step == 0 && out_step == (size)) {          \
            COPY_LOOP(size, 0, size);                             \
        } else if (in_step == 2 * (size) && out_step == (size)) { \
            COPY_LOOP(size, 2 * (size), size);                    \
        } else if (out_step == (size)) {                          \
            COPY_LOOP(size, in_step, size);                       \
        } else {                                                  \
            COPY_LOOP(out_step, in_step, size);                   \
        }                                                         \
    } while (0)

static void copy_row(int64_t n, int element, char *restrict out, int64_t out_step, const char *restrict in, int64_t in_step)
{
    switch (element) {
    case 1: COPY_ROW(1); break;
    case 2: COPY_ROW(2); break;
    case 4: COPY_ROW(4); break;
    case 8: COPY_ROW(8); break;
    case 16: COPY_ROW(16); break;
    default: COPY_LOOP(out_step, in_step, (size_t)element); break;
    }
}

/* Rows that are contiguous in both layouts. */
static void copy_runs(int64_t n, size_t bytes, char *restrict out, int64_t out_step, const char *restrict in, int64_t in_step)
{
    switch (bytes) {
    case 4: COPY_LOOP(out_step, in_step, 4); break;
    case 8: COPY_LOOP(out_step, in_step, 8); break;
    case 12: COPY_LOOP(out_step, in_step, 12); break;
    case 16: COPY_LOOP(out_step, in_step, 16); break;
    case 32: COPY_LOOP(out_step, in_step, 32); break;
    case 64: COPY_LOOP(out_step, in_step, 64); break;
    default: COPY_LOOP(out_step, in_step, bytes); break;
    }
}

/* ---- planes: operand and result are dense along different axes */

/* Transposes four by four elements of four bytes. */
typedef uint32_t four __attribute__((vector_size(16)));

static inline four load_four(const char *p)
{
    four x;
    memcpy(&x, p, sizeof x);
    return x;
}

static void turn_4x4(char *out, int64_t out_step, const char *in, int64_t in_step)
{
    four a = load_four(in), b = load_four(in + in_step), c = load_four(in + 2 * in_step), d = load_four(in + 3 * in_step);
    four ab = __builtin_shufflevector(a, b, 0, 4, 1, 5), cd = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    four ef = __builtin_shufflevector(a, b, 2, 6, 3, 7), gh = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    four rows[4] = { __builtin_shufflevector(ab, cd, 0, 1, 4, 5), __builtin_shufflevector(ab, cd, 2, 3, 6, 7),
                     __builtin_shufflevector(ef, gh, 0, 1, 4, 5), __builtin_shufflevector(ef, gh, 2, 3, 6, 7) };
    for (int i = 0; i < 4; i++)
        memcpy(out + i * out_step, &rows[i], sizeof rows[i]);
}

enum { BLOCK = 32 };

#define TURN(size)                            \
    for (int64_t r = 0; r < rows; r++)        \
        for (int64_t c = 0; c < columns; c++) \
    memcpy(out + r * out_step + c * (size), in + r * (size) + c * in_step, size)

/* out[r][c] = in[c][r], both dense along their own last axis. */
static void turn_block(int element, int64_t rows, int64_t columns, char *restrict out, int64_t out_step, const char *restrict in,
                       int64_t in_step)
{
    switch (element) {
    case 1: TURN(1); break;
    case 2: TURN(2); break;
    case 4: TURN(4); break;
    case 8: TURN(8); break;
    default: TURN(16); break;
    }
}

static void turn_block_4(int64_t rows, int64_t columns, char *out, int64_t out_step, const char *in, int64_t in_step)
{
    int64_t full_rows = rows / 4 * 4, full_columns = columns / 4 * 4;
    for (int64_t r = 0; r < full_rows; r += 4)
        for (int64_t c = 0; c < full_columns; c += 4)
            turn_4x4(out + r * out_step + c * 4, out_step, in + r * 4 + c * in_step, in_step);
    if (full_columns < columns)
        turn_block(4, full_rows, columns - full_columns, out + full_columns * 4, out_step, in + full_columns * in_step, in_step);
    if (full_rows < rows)
        turn_block(4, rows - full_rows, columns, out + full_rows * out_step, out_step, in + full_rows * 4, in_step);
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void turn_small(int element, int64_t rows, int64_t columns, char *out, int64_t out_step, const char *in, int64_t in_step)
{
    if (element == 4)
        turn_block_4(rows, columns, out, out_step, in, in_step);
    else
        turn_block(element, rows, columns, out, out_step, in, in_step);
}

static void turn(int element, int64_t rows, int64_t columns, char *out, int64_t out_step, const char *in, int64_t in_step)
{
    if (rows <= BLOCK && columns <= BLOCK) { /* frequent: one of many small planes */
        turn_small(element, rows, columns, out, out_step, in, in_step);
        return;
    }
    for (int64_t r = 0; r < rows; r += BLOCK)
        for (int64_t c = 0; c < columns; c += BLOCK)
            turn_small(element, least(rows - r, BLOCK), least(columns - c, BLOCK), out + r * out_step + c * element, out_step,
                       in + r * element + c * in_step, in_step);
}

/* ---- copies */

typedef enum how { RUNS, TURN_PLANES, ROWS } how;

typedef struct plan {
    walk w;
    how how;
    int element;
    size_t bytes; /* of one contiguous run */
} plan;

static void copy_axis(const plan *p, int at, char *out, const char *in)
{
    const walk *w = &p->w;
    int left = w->rank - at;
    axis x = left > 0 ? w->at[at] : (axis){ 1, 0, 0 };
    if (p->how == RUNS && left <= 1)
        copy_runs(x.n, p->bytes, out, x.out, in, x.in);
    else if (p->how == TURN_PLANES && left == 2)
        turn(p->element, x.n, w->at[at + 1].n, out, x.out, in, w->at[at + 1].in);
    else if (p->how == ROWS && left == 1)
        copy_row(x.n, p->element, out, x.out, in, x.in);
    else
        for (int64_t i = 0; i < x.n; i++)
            copy_axis(p, at + 1, out + i * x.out, in + i * x.in);
}

/* Moves the axis along which the operand is dense to the place before the last; false when there is none. */
static bool find_plane(walk *w, int element)
{
    int last = w->rank - 1, at = 0;
    if (last < 1 || w->at[last].out != element || element > 16 || (element & (element - 1)))
        return false;
    while (at < last && (w->at[at].in != element || w->at[at].n < 4))
        at++;
    if (at == last)
        return false;
    axis dense = w->at[at];
    for (; at < last - 1; at++)
        w->at[at] = w->at[at + 1];
    w->at[at] = dense;
    return true;
}

void mf_copy_strided(int rank, const int64_t *dims, int element, void *out, const int64_t *out_strides, const void *in,
                     const int64_t *in_strides)
{
    plan p = { .how = ROWS, .element = element, .bytes = (size_t)element };
    walk *w = &p.w;
    if (!order(w, rank, dims, out_strides, in_strides))
        return;
    join(w);
    int last = w->rank - 1;
    if (last < 0 || (w->at[last].out == element && w->at[last].in == element)) {
        p.how = RUNS;
        p.bytes *= last < 0 ? 1 : (size_t)w->at[last].n;
        w->rank -= last >= 0;
    } else if (find_plane(w, element)) {
        p.how = TURN_PLANES;
    }
    copy_axis(&p, 0, out, in);
}
