/* The public Fourier transforms: axes, lengths and norms, around the op, which transforms the last dimension. */
#include "ops/fft/fft.h"
#include "lax/wrap.h"

#include <manyfold/array.h>
#include <manyfold/fft.h>
#include <manyfold/lax.h>

#include <math.h>

typedef struct transform {
    const char *name;
    mf_fft_kind kind;
    bool halved; /* the real side is swapped: hfft, ihfft */
} transform;

static bool is_inverse(mf_fft_kind kind) { return kind == MF_IFFT || kind == MF_IRFFT; }

/* Converts x to what the op takes: f32 or f64 if its rows are real, else complex. */
static bool prepare(const transform *f, mf_value *x)
{
    if (!mf_wrap_inexact(x, f->name))
        return false;
    mf_dtype d = mf_value_type(*x)->dtype;
    bool wide = d == MF_F64 || d == MF_C128;
    if (f->kind == MF_RFFT && mf_dtype_is_complex(d)) {
        *x = mf_fail(MF_ERROR_DTYPE, "%s: the operand must be real, not %s", f->name, mf_dtype_name(d));
        return false;
    }
    mf_dtype wanted = f->kind == MF_RFFT ? (wide ? MF_F64 : MF_F32) : wide ? MF_C128 : MF_C64;
    *x = mf_convert_value(*x, wanted, false);
    return mf_value_type(*x);
}

/* Truncates x to `length` numbers along its last dimension, or pads it with zeros. */
static mf_value cut_or_filled(mf_value x, int64_t length)
{
    const mf_type *t = mf_value_type(x);
    int last = t->rank - 1;
    mf_ints none = { .count = t->rank }, high = none;
    high.at[last] = length - t->dims[last];
    return high.at[last] ? (mf_pad)(x, mf_convert_value(mf_i(0), t->dtype, false), none, high, none) : x;
}

/* The factor for the norm. For a transform of n numbers, the op's inverse already includes 1 / n. */
static double factor(mf_fft_kind kind, double n, mf_fft_norm norm)
{
    if (norm == MF_FFT_ORTHO)
        return is_inverse(kind) ? sqrt(n) : 1 / sqrt(n);
    return norm == MF_FFT_BACKWARD ? 1 : is_inverse(kind) ? n : 1 / n;
}

/* Transforms along one axis, without the norm. *n: the length or 0; on return, the length. */
static mf_value along(const transform *f, mf_fft_kind kind, mf_value x, int axis, int64_t *n)
{
    if (!mf_value_type(x))
        return x;
    int rank = mf_value_type(x)->rank;
    x = mf_moveaxis(x, axis, rank - 1);
    if (!mf_value_type(x))
        return x;
    int64_t have = mf_value_type(x)->dims[rank - 1];
    *n = *n ? *n : kind == MF_IRFFT ? 2 * (have - 1) : have;
    if (*n < 1)
        return mf_fail(MF_ERROR_SHAPE, "%s: the length %lld along axis %d is below 1", f->name, (long long)*n, axis);
    x = cut_or_filled(x, kind == MF_IRFFT ? *n / 2 + 1 : *n);
    x = mf_value_type(x) ? mf_bind(&mf_op_fft, &(mf_fft_params){ kind, *n }, 1, x) : x;
    return mf_value_type(x) ? mf_moveaxis(x, rank - 1, axis) : x;
}

static mf_value scaled(mf_value x, double by)
{
    if (by == 1 || !mf_value_type(x))
        return x;
    mf_dtype d = mf_value_type(x)->dtype;
    return mf_mul(x, mf_scalar(by, d == MF_C64 ? MF_F32 : d == MF_C128 ? MF_F64 : d)); /* a weak number would be rounded to f32 */
}

static mf_value one(const transform *f, mf_value x, const mf_fft_options *o)
{
    static const mf_fft_options none = { .axis = -1 };
    int64_t axis, n;
    mf_value error;
    o = o ? o : &none;
    if (!prepare(f, &x))
        return x;
    if (!mf_normal_axis(o->axis, mf_value_type(x)->rank, f->name, &axis, &error))
        return error;
    if (o->n < 0)
        return mf_fail(MF_ERROR_SHAPE, "%s: the length %lld is below 1", f->name, (long long)o->n);
    n = o->n;
    x = along(f, f->kind, f->halved && f->kind == MF_IRFFT ? mf_conj(x) : x, (int)axis, &n);
    if (!f->halved)
        return scaled(x, factor(f->kind, (double)n, o->norm));
    mf_fft_kind other = f->kind == MF_IRFFT ? MF_FFT : MF_IFFT; /* defines the norm; the op divides by n in one direction only */
    double by = factor(other, (double)n, o->norm) * (other == MF_FFT ? (double)n : 1 / (double)n);
    return scaled(other == MF_IFFT ? mf_conj(x) : x, by);
}

/* Reads the axes, in order, and their lengths (0 where not given). */
static bool axes_of(const transform *f, int rank, const mf_fftn_options *o, int last, mf_ints *axes, mf_ints *lengths, mf_value *error)
{
    if (o->axes.count < 0 || o->axes.count > MF_MAX_RANK || o->s.count < 0 || o->s.count > MF_MAX_RANK) {
        *error = mf_fail(MF_ERROR_ARGUMENT, "%s: a list has between 0 and %d entries", f->name, MF_MAX_RANK);
        return false;
    }
    int count = o->axes.count ? o->axes.count : last ? last : o->s.count ? o->s.count : rank;
    *axes = *lengths = (mf_ints){ .count = count };
    if (o->s.count && o->s.count != count) {
        *error = mf_fail(MF_ERROR_ARGUMENT, "%s: %d lengths for %d axes", f->name, o->s.count, count);
        return false;
    }
    for (int i = 0; i < count; i++) {
        int64_t axis = o->axes.count ? o->axes.at[i] : i - count;
        lengths->at[i] = o->s.count ? o->s.at[i] : 0;
        if (!mf_normal_axis(axis, rank, f->name, &axes->at[i], error))
            return false;
        if (o->s.count && o->s.at[i] < 1) {
            *error = mf_fail(MF_ERROR_SHAPE, "%s: the length %lld is below 1", f->name, (long long)o->s.at[i]);
            return false;
        }
    }
    return true;
}

/* last: the number of axes by default; 0: all. The real axis is transformed first if the input is real, and last if the output is. */
static mf_value several(const transform *f, mf_value x, const mf_fftn_options *o, int last)
{
    static const mf_fftn_options none;
    mf_ints axes, lengths;
    mf_value error;
    o = o ? o : &none;
    if (!prepare(f, &x))
        return x;
    if (!axes_of(f, mf_value_type(x)->rank, o, last, &axes, &lengths, &error))
        return error;
    double total = 1;
    for (int i = 0; i < axes.count && mf_value_type(x); i++) {
        int at = f->kind == MF_IRFFT ? i : axes.count - 1 - i;
        bool real = at == axes.count - 1;
        mf_fft_kind kind = real ? f->kind : is_inverse(f->kind) ? MF_IFFT : MF_FFT;
        x = along(f, kind, x, (int)axes.at[at], &lengths.at[at]);
        total *= (double)lengths.at[at];
    }
    return scaled(x, factor(f->kind, total, o->norm));
}

#define ONE(function, ...)                                       \
    mf_value function##_opt(mf_value x, const mf_fft_options *o) \
    {                                                            \
        MF_ENTER(MF_FORKED);                                     \
        return one(&(const transform){ __VA_ARGS__ }, x, o);     \
    }                                                            \
    mf_value(function)(mf_value x)                               \
    {                                                            \
        MF_ENTER(MF_FORKED);                                     \
        return function##_opt(x, NULL);                          \
    }
ONE(mf_fft, "fft", MF_FFT, false)
ONE(mf_ifft, "ifft", MF_IFFT, false)
ONE(mf_rfft, "rfft", MF_RFFT, false)
ONE(mf_irfft, "irfft", MF_IRFFT, false)
ONE(mf_hfft, "hfft", MF_IRFFT, true)
ONE(mf_ihfft, "ihfft", MF_RFFT, true)

#define SEVERAL(function, last, ...)                                   \
    mf_value function##_opt(mf_value x, const mf_fftn_options *o)      \
    {                                                                  \
        MF_ENTER(MF_FORKED);                                           \
        return several(&(const transform){ __VA_ARGS__ }, x, o, last); \
    }                                                                  \
    mf_value(function)(mf_value x)                                     \
    {                                                                  \
        MF_ENTER(MF_FORKED);                                           \
        return function##_opt(x, NULL);                                \
    }
SEVERAL(mf_fftn, 0, "fftn", MF_FFT, false)
SEVERAL(mf_ifftn, 0, "ifftn", MF_IFFT, false)
SEVERAL(mf_rfftn, 0, "rfftn", MF_RFFT, false)
SEVERAL(mf_irfftn, 0, "irfftn", MF_IRFFT, false)
SEVERAL(mf_fft2, 2, "fft2", MF_FFT, false)
SEVERAL(mf_ifft2, 2, "ifft2", MF_IFFT, false)
SEVERAL(mf_rfft2, 2, "rfft2", MF_RFFT, false)
SEVERAL(mf_irfft2, 2, "irfft2", MF_IRFFT, false)

/* ---- frequencies */

static mf_value frequencies(const char *name, int64_t n, double d, int64_t count)
{
    if (n < 1)
        return mf_fail(MF_ERROR_SHAPE, "%s: the length %lld is below 1", name, (long long)n);
    mf_value k = mf_arange(count, n <= INT32_MAX ? MF_I32 : MF_I64), wrapped = mf_sub(k, mf_i(n));
    if (count == n)
        k = mf_where(mf_less(k, mf_i(n / 2 + n % 2)), k, wrapped);
    return mf_div(mf_astype(k, MF_F32), mf_f((double)n * d));
}

mf_value mf_fftfreq(int64_t n, double d)
{
    MF_ENTER(MF_FORKED);
    return frequencies("fftfreq", n, d, n);
}

mf_value mf_rfftfreq(int64_t n, double d)
{
    MF_ENTER(MF_FORKED);
    return frequencies("rfftfreq", n, d, n < 1 ? n : n / 2 + 1);
}

static mf_value shifted(mf_value x, mf_axis axes, bool back, const char *name)
{
    const mf_intlist *list;
    mf_value error;
    if (!mf_wrap_array(&x, name))
        return x;
    if (!mf_normal_axes(axes, mf_value_type(x)->rank, name, &list, &error))
        return error;
    for (int i = 0; i < list->count && mf_value_type(x); i++) {
        int64_t size = mf_value_type(x)->dims[list->at[i]];
        x = mf_roll(x, back ? -(size / 2) : size / 2, list->at[i]);
    }
    return x;
}

mf_value(mf_fftshift)(mf_value x, mf_axis axes)
{
    MF_ENTER(MF_FORKED);
    return shifted(x, axes, false, "fftshift");
}

mf_value(mf_ifftshift)(mf_value x, mf_axis axes)
{
    MF_ENTER(MF_FORKED);
    return shifted(x, axes, true, "ifftshift");
}
