/* Image resizing as in jax.image.resize: a product with a weight matrix along each dimension that changes size or, with MF_RESIZE_NEAREST,
 * a gather. Invariant: the weights are computed in double precision and rounded once; they are constants of the traced program. */
#include <manyfold.h>

#include <math.h>
#include <stdlib.h>

static double sine_quotient(double x, double radius)
{
    double y = radius * sin(M_PI * x) * sin(M_PI * x / radius);
    return x > radius ? 0 : x > 1e-3 ? y / (M_PI * M_PI * x * x) : 1;
}

/* R. G. Keys, "Cubic convolution interpolation for digital image processing", IEEE Transactions on Acoustics, Speech, and Signal Processing
 * 29 (1981), with a = -1/2. */
static double cubic(double x) { return x >= 2 ? 0 : x >= 1 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : ((1.5 * x - 2.5) * x) * x + 1; }

/* The filter's value at distance x >= 0, in pixels. */
static double weight_at(mf_resize_method method, double x)
{
    switch (method) {
    case MF_RESIZE_CUBIC: return cubic(x);
    case MF_RESIZE_LANCZOS3: return sine_quotient(x, 3);
    case MF_RESIZE_LANCZOS5: return sine_quotient(x, 5);
    default: return x < 1 ? 1 - x : 0;
    }
}

/* w[i] = the weight of input pixel i of m in output pixel o of n. Antialiasing widens the filter by the factor of a reduction. */
static void weigh(double *w, int64_t o, int64_t m, int64_t n, mf_resize_method method, bool antialias)
{
    double step = (double)m / (double)n, wide = antialias && step > 1 ? step : 1, at = ((double)o + 0.5) * step - 0.5, sum = 0;
    for (int64_t i = 0; i < m; i++)
        sum += w[i] = weight_at(method, fabs(at - (double)i) / wide);
    for (int64_t i = 0; i < m; i++)
        w[i] = fabs(sum) > 1000 * 0x1p-23 ? w[i] / sum : 0;
}

/* The weight matrix (m, n) from m to n pixels. */
static mf_value weights(int64_t m, int64_t n, mf_resize_method method, bool antialias)
{
    int64_t count = 0;
    double *w = __builtin_mul_overflow(m, n, &count) || count > PTRDIFF_MAX / 16 ? NULL : calloc((size_t)count, sizeof *w);
    if (!w)
        return mf_make_error(MF_ERROR_MEMORY, "mf_image_resize: no memory for the weights from %lld to %lld places", (long long)m,
                             (long long)n);
    for (int64_t o = 0; o < n; o++)
        weigh(w + o * m, o, m, n, method, antialias);
    mf_value made = mf_transpose(mf_from_host(MF_F64, MF_SHAPE(n, m), w), MF_INTS0);
    free(w);
    return made;
}

static mf_value weighed(mf_value x, int axis, mf_value w)
{
    return mf_moveaxis(mf_tensordot_axes(x, mf_astype(w, mf_dtype_of(x)), MF_INTS(axis), MF_INTS(0)), -1, axis);
}

static mf_value nearest(mf_value x, int axis, int64_t m, int64_t n)
{
    mf_value odd = mf_add(mf_mul(mf_arange(n, MF_I64), 2), 1); /* (2 o + 1) m / 2 n, without rounding */
    return mf_take(x, mf_floor_divide(mf_mul(odd, mf_scalar((double)m, MF_I64)), mf_scalar((double)(2 * n), MF_I64)), axis);
}

static bool is_float(mf_dtype d) { return d == MF_F16 || d == MF_BF16 || d == MF_F32 || d == MF_F64; }

mf_value mf_image_resize_opt(mf_value image, mf_shape shape, mf_resize_method method, const mf_image_resize_options *o)
{
    MF_LAYER;
    if (mf_kind_of(image) == MF_KIND_ERROR)
        return image;
    mf_shape from = mf_shape_of(image);
    mf_dtype dtype = mf_dtype_of(image);
    if (method < MF_RESIZE_LINEAR || method > MF_RESIZE_NEAREST)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_image_resize: %d is no method", (int)method);
    if (method != MF_RESIZE_NEAREST && (dtype == MF_C64 || dtype == MF_C128 || dtype == MF_BOOL))
        return mf_make_error(MF_ERROR_DTYPE, "mf_image_resize: the image is %s; it must be of real numbers", mf_str_dtype(dtype));
    bool same = shape.rank == from.rank;
    for (int i = 0; same && i < shape.rank; i++)
        same = shape.dims[i] > 0 ? from.dims[i] > 0 && shape.dims[i] < INT32_MAX : shape.dims[i] == from.dims[i];
    if (!same)
        return mf_make_error(MF_ERROR_SHAPE,
                             "mf_image_resize: an image of the shape %s cannot become %s: it needs as many dimensions, none empty",
                             mf_str_shape(from), mf_str(shape));
    mf_value x = method == MF_RESIZE_NEAREST || is_float(dtype) ? image : mf_astype(image, MF_F32);
    for (int i = 0; i < shape.rank; i++) {
        int64_t m = from.dims[i], n = shape.dims[i];
        if (m != n)
            x = method == MF_RESIZE_NEAREST ? nearest(x, i, m, n) : weighed(x, i, weights(m, n, method, !(o && o->no_antialias)));
    }
    return x;
}
