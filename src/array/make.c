/* Making arrays from numbers and reading them back: the public functions that need no tracing. Invariant: arrays made here are ready and on
 * the default client's first device, except numbers, which stay on the host; constant arrays are held once. */
#include "array/array.h"
#include "base/memory/alloc.h"

#include <manyfold/array.h>

#include <complex.h>
#include <math.h>
#include <string.h>

static mf_value value_or_memory(void *object) { return mf_value_new(object ? object : mf_error_out_of_memory()); }
static mf_value made(mf_array *a) { return value_or_memory(mf_array_made(a)); }

static mf_value bad_shape(const char *what, mf_dtype dtype, mf_shape shape)
{
    if ((unsigned)dtype > MF_KEY)
        return mf_fail(MF_ERROR_DTYPE, "%s: %d is no dtype", what, (int)dtype);
    if (dtype == MF_DTYPE_DEFAULT)
        return mf_fail(MF_ERROR_DTYPE, "%s: say the dtype; it has no default", what);
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return mf_fail(MF_ERROR_SHAPE, "%s: a shape of rank %d; ranks go from 0 to %d", what, shape.rank, MF_MAX_RANK);
    for (int i = 0; i < shape.rank; i++)
        if (shape.dims[i] < 0)
            return mf_fail(MF_ERROR_SHAPE, "%s: dimension %d of the shape is %lld; sizes are not negative", what, i,
                           (long long)shape.dims[i]);
    return mf_type_memory_was_out() ? value_or_memory(NULL) : mf_fail(MF_ERROR_SHAPE, "%s: the shape is too large to address", what);
}

/* ---- numbers */

mf_value mf_f(double number)
{
    MF_ENTER(MF_FORKED);
    mf_array *a = mf_array_scalar_f64(MF_F32, true, number);
    if (a) {
        a->is_number = true;
        a->number[0] = number;
    }
    return value_or_memory(a);
}

mf_value mf_c(double re, double im)
{
    MF_ENTER(MF_FORKED);
    mf_array *a = mf_array_new(mf_type_scalar(MF_C64, true));
    float *at = a ? mf_array_data(a) : NULL;
    if (at) {
        at[0] = (float)re;
        at[1] = (float)im;
        a->is_number = true;
        a->number[0] = re;
        a->number[1] = im;
    }
    return value_or_memory(a);
}

mf_value mf_of_complex(double _Complex number)
{
    MF_ENTER(MF_FORKED);
    return mf_c(creal(number), cimag(number));
}

mf_value mf_i(int64_t number)
{
    MF_ENTER(MF_FORKED);
    if (number == MF_NONE)
        return mf_none();
    /* Weak in both cases; a number beyond 32 bits keeps its value. */
    return value_or_memory(mf_array_scalar_i64(number == (int32_t)number ? MF_I32 : MF_I64, true, number));
}

mf_value mf_b(bool truth)
{
    MF_ENTER(MF_FORKED);
    return value_or_memory(mf_array_scalar_i64(MF_BOOL, false, truth));
}

mf_value mf_same(mf_value v) { return v; }

mf_value mf_of_float(float x)
{
    MF_ENTER(MF_FORKED);
    return mf_f((double)x);
}

mf_value mf_of_int(int x)
{
    MF_ENTER(MF_FORKED);
    return value_or_memory(mf_array_scalar_i64(MF_I32, true, x));
}

mf_value mf_of_uint(unsigned x)
{
    MF_ENTER(MF_FORKED);
    return mf_i(x);
}

mf_value mf_of_long(long x)
{
    MF_ENTER(MF_FORKED);
    return mf_i(x);
}

mf_value mf_of_ulong(unsigned long x)
{
    MF_ENTER(MF_FORKED);
    return mf_of_ullong(x);
}

mf_value mf_of_llong(long long x)
{
    MF_ENTER(MF_FORKED);
    return mf_i(x);
}

mf_value mf_of_ullong(unsigned long long x)
{
    MF_ENTER(MF_FORKED);
    if (x <= INT64_MAX)
        return mf_i((int64_t)x);
    return value_or_memory(mf_array_scalar_i64(MF_U64, true, (int64_t)x));
}

/* As in JAX, where a Python number of the wrong size is an OverflowError. A fraction is truncated; 2^63 stands for the largest int64, which no
 * double can hold. */
static bool fits(mf_dtype dtype, double number)
{
    return !mf_dtype_is_int(dtype) || (trunc(number) >= mf_dtype_lowest(dtype) && trunc(number) <= mf_dtype_highest(dtype));
}

static mf_value out_of_bounds(const char *what, mf_dtype dtype, double number)
{
    return mf_fail(MF_ERROR_ARGUMENT, "%s: %.17g is out of bounds for %s", what, number, mf_dtype_name(dtype));
}

mf_value(mf_scalar)(double number, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    if (dtype == MF_DTYPE_DEFAULT)
        dtype = MF_F32;
    if (!mf_type_scalar(dtype, false) || dtype == MF_KEY)
        return mf_fail(MF_ERROR_DTYPE, "mf_scalar: %d is no dtype of numbers", (int)dtype);
    if (!fits(dtype, number))
        return out_of_bounds("mf_scalar", dtype, number);
    return made(mf_array_scalar_f64(dtype, false, number));
}

/* ---- arrays */

mf_value mf_from_host(mf_dtype dtype, mf_shape shape, const void *data)
{
    MF_ENTER(MF_FORKED);
    const mf_type *t = mf_type_of_shape(dtype, shape);
    if (!t)
        return bad_shape("mf_from_host", dtype, shape);
    if (!data && t->bytes)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_from_host: no data for %s", mf_type_name(t));
    return made(mf_array_from_host(t, data));
}

mf_value mf_array_n(mf_dtype dtype, mf_shape shape, const double *numbers, int count)
{
    MF_ENTER(MF_FORKED);
    if (dtype == MF_DTYPE_DEFAULT)
        dtype = MF_F32;
    const mf_type *t = mf_type_of_shape(dtype, shape);
    if (!t || dtype == MF_KEY)
        return bad_shape("mf_array", dtype, shape);
    if (count != t->size)
        return mf_fail(MF_ERROR_SHAPE, "mf_array: %d numbers for %s, which holds %lld", count, mf_type_name(t), (long long)t->size);
    for (int i = 0; i < count; i++)
        if (!fits(dtype, numbers[i]))
            return out_of_bounds("mf_array", dtype, numbers[i]);
    mf_array *a = mf_array_new(t);
    if (a)
        mf_convert(dtype, mf_array_data(a), MF_F64, numbers, count);
    return made(a);
}

mf_value(mf_arange_opt)(int64_t start, int64_t stop, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    if (dtype == MF_DTYPE_DEFAULT)
        dtype = MF_I32;
    int64_t count = 0;
    if (stop > start && __builtin_sub_overflow(stop, start, &count))
        count = INT64_MAX;
    const mf_type *t = mf_type_get(dtype, false, 1, &count);
    if (!t && mf_type_memory_was_out())
        return value_or_memory(NULL);
    if (!t || dtype == MF_KEY || dtype == MF_BOOL)
        return mf_fail(MF_ERROR_DTYPE, "mf_arange: no range of %lld elements of %s", (long long)count, mf_dtype_name(dtype));
    mf_array *a = mf_array_new(t);
    char *at = a ? mf_array_data(a) : NULL;
    int size = mf_dtype_size(dtype);
    for (int64_t i = 0; a && i < count; i++)
        mf_store_i64(dtype, at + i * size, start + i);
    return made(a);
}

mf_value(mf_arange)(int64_t stop, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    return mf_arange_opt(0, stop, dtype);
}

/* The float dtype in which numbers of a dtype are computed; f32 for 16-bit floats. */
static mf_dtype working_dtype(mf_dtype dtype)
{
    bool wide = dtype == MF_F64 || dtype == MF_C128 || dtype == MF_I64 || dtype == MF_U64;
    return wide ? MF_F64 : MF_F32;
}

/* An array of dtype from `count` numbers of dtype `from`. */
static mf_value of_numbers(mf_dtype dtype, mf_dtype from, const void *numbers, int64_t count)
{
    const mf_type *t = mf_type_get(dtype, false, 1, &count);
    mf_array *a = mf_array_new(t);
    if (a)
        mf_convert(dtype, mf_array_data(a), from, numbers, count);
    return made(a);
}

/* Computes start + step i in the working dtype, rounding each operation, as JAX does. */
mf_value(mf_arange_step)(double start, double stop, double step, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    if (dtype == MF_DTYPE_DEFAULT)
        dtype = MF_F32;
    if (dtype == MF_KEY || dtype == MF_BOOL || mf_dtype_is_complex(dtype))
        return mf_fail(MF_ERROR_DTYPE, "mf_arange_step: there is no range of %s", mf_dtype_name(dtype));
    double exact = ceil((stop - start) / step);
    int64_t count = exact > 0 ? (int64_t)exact : 0;
    if (!(step < 0 || step > 0) || !(fabs(exact) < 0x1p48) || !mf_type_get(dtype, false, 1, &count))
        return mf_fail(MF_ERROR_ARGUMENT, "mf_arange_step: from %g to %g by steps of %g is no range of numbers", start, stop, step);
    bool integers = mf_dtype_is_int(dtype), wide = integers || working_dtype(dtype) == MF_F64;
    double *numbers = mf_alloc(((size_t)count + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < count; i++)
        numbers[i] = integers ? trunc(start) + trunc(step) * (double)i
                     : wide   ? start + step * (double)i
                              : (double)((float)start + (float)((float)step * (float)i));
    mf_value v = numbers ? of_numbers(dtype, MF_F64, numbers, count) : mf_value_new(mf_error_out_of_memory());
    mf_free(numbers);
    return v;
}

/* As in JAX: a weighted sum of the ends in the working dtype; the last number is exactly the end; integers are rounded down. */
mf_value mf_linspace_opt(double start, double stop, int64_t count, const mf_linspace_options *o)
{
    MF_ENTER(MF_FORKED);
    mf_dtype dtype = o && o->dtype ? o->dtype : MF_F32, working = working_dtype(dtype);
    bool last = !(o && o->exclude_endpoint), integers = mf_dtype_is_int(dtype);
    if (dtype == MF_KEY || dtype == MF_BOOL)
        return mf_fail(MF_ERROR_DTYPE, "mf_linspace: there are no numbers between two of %s", mf_dtype_name(dtype));
    if (count < 0 || !mf_type_get(dtype, false, 1, &count))
        return mf_fail(MF_ERROR_ARGUMENT, "mf_linspace: %lld numbers cannot be made", (long long)count);
    double *numbers = mf_alloc(((size_t)count + 1) * sizeof *numbers), ends[2] = { start, stop };
    char narrow[2 * sizeof(double)];
    if (mf_dtype_is_float(dtype)) { /* round the ends to the dtype first */
        mf_convert(dtype, narrow, MF_F64, ends, 2);
        mf_convert(MF_F64, ends, dtype, narrow, 2);
    }
    int64_t steps = last ? count - 1 : count;
    for (int64_t i = 0; numbers && i < count; i++) {
        if (i && last && i == steps) {
            numbers[i] = ends[1];
        } else if (working == MF_F64) {
            double part = steps > 0 ? (double)i / (double)steps : 0;
            numbers[i] = ends[0] * (1 - part) + ends[1] * part;
        } else {
            float part = steps > 0 ? (float)i / (float)steps : 0;
            numbers[i] = (double)((float)ends[0] * (1.0f - part) + (float)ends[1] * part);
        }
        numbers[i] = integers ? floor(numbers[i]) : numbers[i];
    }
    mf_value v = numbers ? of_numbers(dtype, MF_F64, numbers, count) : mf_value_new(mf_error_out_of_memory());
    mf_free(numbers);
    return v;
}

mf_value(mf_linspace)(double start, double stop, int64_t count)
{
    MF_ENTER(MF_FORKED);
    return mf_linspace_opt(start, stop, count, NULL);
}

static mf_value constant(const char *what, mf_shape shape, mf_dtype dtype, int64_t number)
{
    if (dtype == MF_DTYPE_DEFAULT)
        dtype = MF_F32;
    const mf_type *t = mf_type_of_shape(dtype, shape);
    if (!t || dtype == MF_KEY)
        return bad_shape(what, dtype, shape);
    unsigned char element[16] = { 0 };
    mf_store_i64(dtype, element, number);
    return made(mf_array_fill(t, element));
}

mf_value(mf_zeros)(mf_shape shape, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    return constant("mf_zeros", shape, dtype, 0);
}

mf_value(mf_ones)(mf_shape shape, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    return constant("mf_ones", shape, dtype, 1);
}

mf_value mf_eye_opt(int64_t n, const mf_eye_options *o)
{
    MF_ENTER(MF_FORKED);
    mf_dtype dtype = o && o->dtype ? o->dtype : MF_F32;
    int64_t columns = o && o->columns ? o->columns : n, k = o ? o->k : 0;
    const mf_type *t = mf_type_get(dtype, false, 2, (const int64_t[]){ n, columns });
    if (!t || dtype == MF_KEY)
        return mf_fail(MF_ERROR_SHAPE, "mf_eye: no %lld by %lld matrix of %s", (long long)n, (long long)columns, mf_dtype_name(dtype));
    mf_array *a = mf_array_new(t);
    if (!a)
        return value_or_memory(NULL);
    char *at = mf_array_data(a);
    memset(at, 0, (size_t)t->bytes);
    for (int64_t i = 0; i < n; i++)
        if (k >= -i && k < columns - i)
            mf_store_i64(dtype, at + (i * columns + i + k) * mf_dtype_size(dtype), 1);
    return made(a);
}

mf_value(mf_eye)(int64_t n, mf_dtype dtype) { return mf_eye_opt(n, &(mf_eye_options){ .dtype = dtype }); }

mf_memory_stats_t mf_memory_stats(void)
{
    MF_PARENT_ONLY((mf_memory_stats_t){ 0 });
    mf_memory_counters c = mf_memory_read();
    return (mf_memory_stats_t){ c.live_bytes, c.peak_bytes, c.cached_bytes, c.system_allocations, c.requests };
}

void mf_memory_stats_reset(void)
{
    MF_PARENT_ONLY();
    mf_memory_reset_peak();
}
