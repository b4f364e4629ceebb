/* The zeros of a convolution: the padding, and the gaps between dilated elements. They are multiplied like any other element, so where
 * they meet a NaN or infinity of the kernel, the sum is NaN. oneDNN skips zeros or not, depending on its kernels; this file writes the
 * NaNs that it skipped. Invariant: with a finite kernel nothing is written, and finding that out costs a pass over the kernel or the
 * result, whichever is smaller. */
#include "backend/native/products/conv_zeros.h"

#include <math.h>
#include <string.h>

/* Whether place o of the result and place k of the kernel meet no element in spatial dimension d. */
static bool is_outside(const mf_conv_zeros *z, int d, int64_t o, int64_t k)
{
    const mf_conv_params *p = z->eqn->params;
    int64_t at = o * p->window_strides->at[d] - p->padding_low->at[d] + k * p->rhs_dilation->at[d];
    return at < 0 || at % p->lhs_dilation->at[d] || at / p->lhs_dilation->at[d] >= z->in[d];
}

/* The number of places of the result at which place k of the kernel meets an element, in spatial dimension d: one in `period`, from the
 * first one on. */
static int64_t count_met(const mf_conv_zeros *z, int d, int64_t k)
{
    const mf_conv_params *p = z->eqn->params;
    int64_t stride = p->window_strides->at[d], dilation = p->lhs_dilation->at[d], period = dilation / mf_common_divisor(dilation, stride);
    int64_t begin = k * p->rhs_dilation->at[d] - p->padding_low->at[d], behind = (z->in[d] - 1) * dilation - begin, met = 0;
    if (z->in[d] < period) {
        for (int64_t at = -begin; at <= behind; at += dilation)
            met += at >= 0 && at % stride == 0 && at / stride < z->out[d];
        return met;
    }
    int64_t o = begin < 0 ? (-begin + stride - 1) / stride : 0, last = behind < 0 ? -1 : behind / stride;
    last = last < z->out[d] ? last : z->out[d] - 1;
    for (int64_t tries = 0; tries < period && o <= last; tries++, o++)
        if ((o * stride + begin) % dilation == 0)
            return (last - o) / period + 1;
    return 0;
}

void mf_conv_zeros_plan(mf_conv_zeros *z, const mf_eqn *e, const mf_layout *kernel)
{
    const mf_conv_params *p = e->params;
    *z = (mf_conv_zeros){ .eqn = e, .kernel = *kernel, .spatial = p->lhs_spec->count - 2 };
    for (int d = 0; d < z->spatial; d++) {
        z->in[d] = e->in[0]->type->dims[p->lhs_spec->at[d + 2]];
        z->window[d] = kernel->dims[p->rhs_spec->at[d + 2]];
        z->out[d] = e->out[0]->type->dims[p->out_spec->at[d + 2]];
        for (int64_t k = 0; k < z->window[d] && !(z->some && z->hidden); k++) {
            int64_t met = count_met(z, d, k);
            z->some |= met < z->out[d];
            z->hidden |= met == 0;
        }
    }
}

/* ------------------------------------------------------------------ finding */

#define ANY(type, exponent)                                   \
    do {                                                      \
        const type *x = p;                                    \
        int64_t i = 0;                                        \
        for (; i + 64 <= n; i += 64) {                        \
            unsigned hit = 0;                                 \
            for (int k = 0; k < 64; k++)                      \
                hit |= (x[i + k] & (exponent)) == (exponent); \
            if (hit)                                          \
                return true;                                  \
        }                                                     \
        for (; i < n; i++)                                    \
            if ((x[i] & (exponent)) == (exponent))            \
                return true;                                  \
        return false;                                         \
    } while (0)

/* Whether any of n consecutive numbers is not finite. */
static bool any_not_finite(mf_dtype dtype, const void *p, int64_t n)
{
    if (dtype == MF_F32)
        ANY(uint32_t, 0x7f800000u);
    if (dtype == MF_BF16)
        ANY(uint16_t, 0x7f80u);
    ANY(uint16_t, 0x7c00u);
}

static int64_t out_features(const mf_conv_zeros *z)
{
    const mf_conv_params *p = z->eqn->params;
    return z->kernel.dims[p->rhs_spec->at[0]];
}

static int64_t in_features(const mf_conv_zeros *z)
{
    const mf_conv_params *p = z->eqn->params;
    return z->kernel.dims[p->rhs_spec->at[1]];
}

/* Whether the kernel has a number that is not finite at this place, for this feature of the result and features [from, to) of operand 0. */
static bool is_not_finite(const mf_conv_zeros *z, const char *kernel, const int64_t *k, int64_t feature, int64_t from, int64_t to)
{
    const mf_conv_params *p = z->eqn->params;
    const int64_t *strides = z->kernel.strides, *spec = p->rhs_spec->at;
    mf_dtype dtype = z->eqn->in[1]->type->dtype;
    int size = mf_dtype_size(dtype);
    int64_t at = z->kernel.offset + feature * strides[spec[0]];
    for (int d = 0; d < z->spatial; d++)
        at += k[d] * strides[spec[d + 2]];
    for (int64_t i = from; i < to; i++)
        if (any_not_finite(dtype, kernel + (at + i * strides[spec[1]]) * size, 1))
            return true;
    return false;
}

/* ------------------------------------------------------------------ writing */

static bool step(int rank, int64_t *at, const int64_t *counts)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (++at[i] < counts[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* Whether place k of the kernel meets no element for place o of the result. */
static bool is_any_outside(const mf_conv_zeros *z, const int64_t *o, const int64_t *k)
{
    bool missed = false;
    for (int d = 0; d < z->spatial; d++)
        missed |= is_outside(z, d, o[d], k[d]);
    return missed;
}

/* Writes NaN to place o of images [from, to) of the result. */
static void write_nan(const mf_conv_zeros *z, char *out, const int64_t *o, int64_t feature, int64_t from, int64_t to)
{
    const mf_conv_params *p = z->eqn->params;
    const mf_type *t = z->eqn->out[0]->type;
    int64_t strides[MF_RANK]; /* in bytes */
    mf_contiguous_strides(t, strides);
    int64_t at = feature * strides[p->out_spec->at[1]];
    for (int d = 0; d < z->spatial; d++)
        at += o[d] * strides[p->out_spec->at[d + 2]];
    for (int64_t n = from; n < to; n++)
        mf_store_f64(t->dtype, out + at + n * strides[p->out_spec->at[0]], (double)NAN);
}

/* What to do with places that are NaN. */
typedef struct nan_places {
    char *marks; /* by place of the result, then by feature; NULL: write them */
    char *out;   /* the result; its images [from, to) */
    int64_t from, to;
} nan_places;

/* Finds all places of the result where a number of the kernel that is not finite, for features [from, to) of operand 0, meets no
 * element. */
static void find_nan_places(const mf_conv_zeros *z, const void *kernel, int64_t from, int64_t to, const nan_places *what)
{
    int64_t k[MF_RANK] = { 0 };
    do {
        for (int64_t f = 0; f < out_features(z); f++) {
            int64_t o[MF_RANK] = { 0 }, place = 0;
            if (!is_not_finite(z, kernel, k, f, from, to))
                continue;
            do {
                bool missed = is_any_outside(z, o, k);
                if (missed && what->marks)
                    what->marks[place * out_features(z) + f] = 1;
                else if (missed)
                    write_nan(z, what->out, o, f, what->from, what->to);
                place++;
            } while (step(z->spatial, o, z->out));
        }
    } while (step(z->spatial, k, z->window));
}

void mf_conv_zeros_apply(const mf_conv_zeros *z, const void *kernel, int64_t kernel_count, void *out, int64_t from, int64_t to)
{
    const mf_type *t = z->eqn->out[0]->type;
    const mf_conv_params *p = z->eqn->params;
    if (!z->some)
        return;
    /* A number of the kernel that is not finite and meets any element makes the result not finite. */
    int64_t images = t->dims[p->out_spec->at[0]], size = mf_dtype_size(t->dtype);
    bool whole = from == 0 && to == images, by_images = p->out_spec->at[0] == 0;
    int64_t count = (to - from) * (t->size / images);
    bool by_result = !z->hidden && (whole || by_images) && count < kernel_count;
    const char *first = (const char *)out + (whole ? 0 : from * (t->size / images) * size);
    if (by_result ? !any_not_finite(t->dtype, first, count) : !any_not_finite(t->dtype, kernel, kernel_count))
        return;
    find_nan_places(z, kernel, 0, in_features(z), &(nan_places){ .out = out, .from = from, .to = to });
}

/* ------------------------------------------------------------------ for sums in parts */

size_t mf_conv_zeros_marks(const mf_conv_zeros *z)
{
    size_t count = z->some ? (size_t)out_features(z) : 0;
    for (int d = 0; d < z->spatial; d++)
        count *= (size_t)z->out[d];
    return count;
}

void mf_conv_zeros_mark(const mf_conv_zeros *z, const void *kernel, int64_t from, int64_t to, const float *made, int64_t count, char *marks)
{
    const mf_conv_params *p = z->eqn->params;
    int64_t stride = z->kernel.strides[p->rhs_spec->at[1]];
    mf_dtype dtype = z->eqn->in[1]->type->dtype;
    const char *first = (const char *)kernel + from * stride * mf_dtype_size(dtype);
    if (!z->some || !(z->hidden ? any_not_finite(dtype, first, (to - from) * stride) : any_not_finite(MF_F32, made, count)))
        return;
    find_nan_places(z, kernel, from, to, &(nan_places){ .marks = marks });
}

void mf_conv_zeros_apply_marks(const mf_conv_zeros *z, const char *marks, void *out)
{
    const mf_conv_params *p = z->eqn->params;
    int64_t images = z->eqn->out[0]->type->dims[p->out_spec->at[0]], o[MF_RANK] = { 0 };
    if (!memchr(marks, 1, mf_conv_zeros_marks(z)))
        return;
    do {
        for (int64_t f = 0; f < out_features(z); f++, marks++)
            if (*marks)
                write_nan(z, out, o, f, 0, images);
    } while (step(z->spatial, o, z->out));
}
