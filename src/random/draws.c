/* Random numbers from explicit keys. Bits follow JAX's partitionable threefry: element i of an array is the cipher of its row-major index,
 * so a shard's numbers do not depend on the other shards. Formulas are those of jax/_src/random.py and jax/_src/prng.py: integers agree bit
 * for bit. Every draw is one jitted program, so that its steps fuse into one loop without intermediate arrays. Uses the public API only. */
#include "random/draws.h"

#include <math.h>
#include <string.h>

#define ROOT_TWO 1.4142135623730951

/* What the program of a draw is specialised for: the context of its closure. Contexts are compared by their bytes, so the struct must have
 * no padding, whose bytes a copy need not preserve. */
typedef struct draw {
    int64_t rank, dims[MF_MAX_RANK], dtype;
} draw;

static draw draw_of(mf_shape shape, mf_dtype dtype)
{
    draw d = { .rank = shape.rank, .dtype = dtype };
    for (int i = 0; i < shape.rank && i < MF_MAX_RANK; i++)
        d.dims[i] = shape.dims[i];
    return d;
}

static mf_shape shape_of(const draw *d)
{
    mf_shape shape = { .rank = (int)d->rank };
    memcpy(shape.dims, d->dims, sizeof d->dims);
    return shape;
}

/* ---- keys */

mf_value mf_random_key(uint64_t seed)
{
    MF_LAYER;
    uint32_t words[2] = { (uint32_t)(seed >> 32), (uint32_t)seed };
    return mf_from_host(MF_U32, MF_SHAPE(2), words);
}

int64_t random_count(mf_shape shape)
{
    int64_t n = 1;
    for (int i = 0; i < shape.rank && i < MF_MAX_RANK; i++)
        if (shape.dims[i] < 0 || __builtin_mul_overflow(n, shape.dims[i], &n))
            return -1;
    return n;
}

/* The cipher of the 64-bit counters 0 .. n-1: a tuple of the high and the low words, each of `shape`. */
static mf_value cipher_positions(mf_value key, mf_shape shape)
{
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "random: a shape has between 0 and %d dimensions, not %d", MF_MAX_RANK, shape.rank);
    if (random_count(shape) < 0)
        return mf_make_error(MF_ERROR_SHAPE, "random: %s is no shape", mf_str(shape));
    if (random_count(shape) >= (int64_t)1 << 32)
        return mf_make_error(MF_ERROR_SHAPE, "random: at most 2^32 - 1 numbers from one key");
    mf_value low = mf_reshape(mf_iota(MF_U32, MF_SHAPE(random_count(shape)), 0), shape);
    return mf_threefry2x32(key, mf_zeros_like(low), low);
}

static mf_value random_split(void *context, mf_value key)
{
    mf_value words = cipher_positions(key, shape_of(context));
    return mf_is_error(words) ? words : mf_stack(mf_list(mf_get(words, 0), mf_get(words, 1)), 1);
}

mf_value(mf_random_split)(mf_value key, int count)
{
    MF_LAYER;
    if (count < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_random_split: %d keys", count);
    draw d = draw_of(MF_SHAPE(count), MF_U32);
    return mf_call(mf_jit(mf_closure(random_split, &d)), key);
}

static mf_value random_fold_in(mf_value key, mf_value data)
{
    if (mf_ndim(data) > 0)
        return mf_make_error(MF_ERROR_SHAPE, "mf_random_fold_in: data is a scalar, not an array of shape %s; mf_vmap folds in several",
                             mf_str(mf_shape_of(data)));
    mf_value words = mf_threefry2x32(key, mf_scalar(0, MF_U32), mf_astype(data, MF_U32));
    return mf_is_error(words) ? words : mf_stack(mf_list(mf_get(words, 0), mf_get(words, 1)), 0);
}

mf_value(mf_random_fold_in)(mf_value key, mf_value data) { return mf_call(mf_jit(random_fold_in), key, data); }

/* ---- bits */

static mf_value bits(mf_value key, mf_shape shape, mf_dtype dtype)
{
    mf_value words = cipher_positions(key, shape);
    if (mf_is_error(words))
        return words;
    mf_value high = mf_get(words, 0), low = mf_get(words, 1);
    if (dtype == MF_U64)
        return mf_bitwise_or(mf_left_shift(mf_astype(high, MF_U64), mf_scalar(32, MF_U64)), mf_astype(low, MF_U64));
    return mf_astype(mf_bitwise_xor(high, low), dtype);
}

static mf_value random_bits(void *context, mf_value key)
{
    draw *d = context;
    return bits(key, shape_of(d), (mf_dtype)d->dtype);
}

mf_value(mf_random_bits)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    if (dtype == MF_DTYPE_DEFAULT)
        dtype = MF_U32;
    if (dtype != MF_U8 && dtype != MF_U16 && dtype != MF_U32 && dtype != MF_U64)
        return mf_make_error(MF_ERROR_DTYPE, "random bits come as uint8, uint16, uint32 or uint64, not %s", mf_str_dtype(dtype));
    draw d = draw_of(shape, dtype);
    return mf_call(mf_jit(mf_closure(random_bits, &d)), key);
}

/* ---- floats */

typedef struct float_layout {
    int bits, mantissa;
    mf_dtype word, random_word; /* the unsigned integer of the float's width; the one that random bits are drawn in */
} float_layout;

static bool format_of(mf_dtype dtype, float_layout *f)
{
    switch (dtype) {
    case MF_F16: *f = (float_layout){ 16, 10, MF_U16, MF_U16 }; return true;
    case MF_BF16: *f = (float_layout){ 16, 7, MF_U16, MF_U8 }; return true; /* the 7 bits of the mantissa fit in a byte */
    case MF_F32: *f = (float_layout){ 32, 23, MF_U32, MF_U32 }; return true;
    case MF_F64: *f = (float_layout){ 64, 52, MF_U64, MF_U64 }; return true;
    default: return false;
    }
}

/* Random mantissas with the exponent of 1 give [1, 2); subtracting 1 gives [0, 1). */
static mf_value unit_floats(mf_value key, mf_shape shape, mf_dtype dtype)
{
    float_layout f = { 0 };
    format_of(dtype, &f);
    int width = f.random_word == MF_U8 ? 8 : f.bits;
    mf_value words = mf_astype(bits(key, shape, f.random_word), f.word);
    mf_value mantissa = mf_right_shift_logical(words, mf_scalar(width - f.mantissa, f.word));
    mf_value one = mf_bitcast(mf_scalar(1, dtype), f.word);
    return mf_sub(mf_bitcast(mf_bitwise_or(mantissa, one), dtype), mf_scalar(1, dtype));
}

static mf_value uniform(mf_value key, mf_shape shape, mf_value from, mf_value to)
{
    mf_value scaled = mf_add(mf_mul(unit_floats(key, shape, mf_dtype_of(from)), mf_sub(to, from)), from);
    return mf_maximum(from, scaled);
}

static mf_value random_uniform(void *context, mf_value key, mf_value low, mf_value high)
{
    return uniform(key, shape_of(context), low, high);
}

static mf_value random_normal(void *context, mf_value key)
{
    draw *d = context;
    mf_dtype dtype = (mf_dtype)d->dtype;
    mf_value low = mf_nextafter(mf_scalar(-1, dtype), mf_scalar(0, dtype));
    mf_value u = uniform(key, shape_of(d), low, mf_scalar(1, dtype));
    return mf_mul(mf_scalar(ROOT_TWO, dtype), mf_erf_inv(u));
}

static mf_value random_truncated_normal(void *context, mf_value key, mf_value from, mf_value to)
{
    draw *d = context;
    mf_dtype dtype = (mf_dtype)d->dtype;
    mf_value root = mf_scalar(ROOT_TWO, dtype);
    mf_value u = uniform(key, shape_of(d), mf_erf(mf_div(from, root)), mf_erf(mf_div(to, root)));
    mf_value x = mf_mul(root, mf_erf_inv(u)), infinity = mf_scalar((double)INFINITY, dtype);
    return mf_clip(x, mf_nextafter(from, infinity), mf_nextafter(to, mf_neg(infinity)));
}

static mf_value random_bernoulli(void *context, mf_value key, mf_value p)
{
    mf_shape shape = shape_of(context);
    return mf_less(uniform(key, shape, mf_scalar(0, mf_dtype_of(p)), mf_scalar(1, mf_dtype_of(p))), mf_broadcast_to(p, shape));
}

/* The context of a draw of floats; false if dtype is no float dtype. */
static bool float_draw(draw *d, mf_shape shape, mf_dtype dtype)
{
    float_layout f;
    *d = draw_of(shape, random_float(dtype));
    return format_of((mf_dtype)d->dtype, &f);
}

mf_dtype random_float(mf_dtype dtype) { return dtype == MF_DTYPE_DEFAULT ? MF_F32 : dtype; }

bool random_is_float(mf_dtype dtype)
{
    float_layout f;
    return format_of(dtype, &f);
}

mf_value random_no_float(const char *what, mf_dtype dtype)
{
    return mf_make_error(MF_ERROR_DTYPE, "random %s needs a float dtype, not %s", what, mf_str_dtype(dtype));
}

mf_value(mf_random_uniform_in)(mf_value key, mf_shape shape, mf_dtype dtype, mf_value low, mf_value high)
{
    MF_LAYER;
    draw d;
    if (!float_draw(&d, shape, dtype))
        return random_no_float("uniform", dtype);
    dtype = (mf_dtype)d.dtype; /* converts C numbers to the dtype here: as arguments of the call they would be 32-bit */
    return mf_call(mf_jit(mf_closure(random_uniform, &d)), key, mf_astype(low, dtype), mf_astype(high, dtype));
}

mf_value(mf_random_uniform)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    return mf_random_uniform_in(key, shape, dtype, mf_f(0), mf_f(1));
}

mf_value(mf_random_normal)(mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    draw d;
    return float_draw(&d, shape, dtype) ? mf_call(mf_jit(mf_closure(random_normal, &d)), key) : random_no_float("normal", dtype);
}

mf_value(mf_random_truncated_normal)(mf_value key, double low, double high, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    draw d;
    if (!float_draw(&d, shape, dtype))
        return random_no_float("truncated_normal", dtype);
    mf_value from = mf_scalar(low, (mf_dtype)d.dtype), to = mf_scalar(high, (mf_dtype)d.dtype);
    return mf_call(mf_jit(mf_closure(random_truncated_normal, &d)), key, from, to);
}

mf_value(mf_random_bernoulli)(mf_value key, mf_value p, mf_shape shape)
{
    MF_LAYER;
    float_layout f;
    draw d = draw_of(shape, MF_BOOL);
    return mf_call(mf_jit(mf_closure(random_bernoulli, &d)), key, format_of(mf_dtype_of(p), &f) ? p : mf_astype(p, MF_F32));
}

/* ---- integers */

static mf_dtype unsigned_of(mf_dtype dtype, int *bits)
{
    switch (dtype) {
    case MF_I8:
    case MF_U8: *bits = 8; return MF_U8;
    case MF_I16:
    case MF_U16: *bits = 16; return MF_U16;
    case MF_I32:
    case MF_U32: *bits = 32; return MF_U32;
    case MF_I64:
    case MF_U64: *bits = 64; return MF_U64;
    default: return MF_DTYPE_DEFAULT;
    }
}

/* Reduces two random words modulo the span: (upper % span * (2^bits % span) + lower % span) % span. */
static mf_value random_randint(void *context, mf_value key, mf_value from, mf_value to)
{
    draw *d = context;
    mf_dtype dtype = (mf_dtype)d->dtype;
    int width;
    mf_dtype word = unsigned_of(dtype, &width);
    const int half_width = width / 2;
    mf_value keys = random_split(&(draw){ .rank = 1, .dims = { 2 } }, key);
    mf_value upper = bits(mf_get(keys, 0), shape_of(d), word), lower = bits(mf_get(keys, 1), shape_of(d), word);
    mf_value span = mf_where(mf_less_equal(to, from), mf_scalar(1, word), mf_astype(mf_sub(to, from), word));
    mf_value half = mf_lax_rem(mf_left_shift(mf_scalar(1, word), mf_scalar(half_width, word)), span);
    mf_value multiplier = mf_lax_rem(mf_mul(half, half), span);
    mf_value offset = mf_lax_rem(mf_add(mf_mul(mf_lax_rem(upper, span), multiplier), mf_lax_rem(lower, span)), span);
    return mf_add(from, mf_astype(offset, dtype));
}

mf_value(mf_random_randint)(mf_value key, mf_shape shape, mf_value low, mf_value high, mf_dtype dtype)
{
    MF_LAYER;
    dtype = dtype == MF_DTYPE_DEFAULT ? MF_I32 : dtype;
    int width;
    if (unsigned_of(dtype, &width) == MF_DTYPE_DEFAULT)
        return mf_make_error(MF_ERROR_DTYPE, "randint needs an integer dtype, not %s", mf_str_dtype(dtype));
    if (width < 32) { /* drawn as i32 and narrowed */
        bool is_signed = dtype == MF_I8 || dtype == MF_I16;
        int lowest = is_signed ? -(1 << (width - 1)) : 0, beyond = is_signed ? 1 << (width - 1) : 1 << width;
        mf_value narrow_low = mf_clip(mf_astype(low, MF_I32), lowest, beyond),
                 narrow_high = mf_clip(mf_astype(high, MF_I32), lowest, beyond);
        return mf_astype(mf_random_randint(key, shape, narrow_low, narrow_high, MF_I32), dtype);
    }
    draw d = draw_of(shape, dtype);
    return mf_call(mf_jit(mf_closure(random_randint, &d)), key, mf_astype(low, dtype), mf_astype(high, dtype));
}

/* Shuffles x along an axis, stored in d->dtype, by sorting with random keys; repeated until a tie of keys is unlikely to bias the
 * result. */
static mf_value random_permutation(void *context, mf_value key, mf_value x)
{
    draw *d = context;
    const mf_shape shape = mf_shape_of(x);
    const double count = (double)random_count(shape);
    int rounds = (int)ceil(3 * log(count > 1 ? count : 1) / log(4294967295.0));
    for (int i = 0; i < rounds; i++) {
        mf_value keys = random_split(&(draw){ .rank = 1, .dims = { 2 } }, key);
        key = mf_get(keys, 0);
        x = mf_get(mf_sort_key_value(bits(mf_get(keys, 1), shape, MF_U32), x, (int)d->dtype), 1);
    }
    return x;
}

mf_value mf_random_permutation_opt(mf_value key, mf_value x, const mf_permutation_options *o)
{
    MF_LAYER;
    mf_shape shape = mf_shape_of(x);
    int axis = o ? o->axis : 0, at = axis < 0 ? axis + shape.rank : axis;
    if (shape.rank < 0)
        return mf_add(x, 0); /* the error itself, or the error that x is no array */
    if (shape.rank && (at < 0 || at >= shape.rank))
        return mf_make_error(MF_ERROR_AXIS, "mf_random_permutation: axis %d is out of bounds for an array of rank %d", axis, shape.rank);
    int64_t count = shape.rank ? shape.dims[at] : mf_item_i64(x);
    if (count < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_random_permutation: %lld elements", (long long)count);
    bool whole = shape.rank == 1 || (o && o->independent && shape.rank);
    draw d = draw_of(MF_SHAPE0, whole ? at : 0);
    mf_value places = mf_call(mf_jit(mf_closure(random_permutation, &d)), key, whole ? x : mf_arange(count, MF_I32));
    return whole || !shape.rank ? places : mf_take(x, places, at);
}

mf_value(mf_random_permutation)(mf_value key, mf_value x) { return mf_random_permutation_opt(key, x, NULL); }
