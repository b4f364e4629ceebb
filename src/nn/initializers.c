/* jax.nn.initializers: the same names and, from the same key, the same values, because everything is computed in the parameter's dtype, as
 * in JAX. Also the helpers with which layers create their parameters. */
#include "nn/layer.h"

#include <math.h>

typedef struct fans {
    double in, out;
} fans;

static mf_value zeros(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    (void)i;
    (void)key;
    return mf_zeros(shape, dtype);
}

static mf_value ones(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    (void)i;
    (void)key;
    return mf_ones(shape, dtype);
}

static mf_value constant(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    (void)key;
    return mf_full(shape, mf_scalar(i->numbers[0], dtype));
}

static mf_value uniform(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    return mf_mul(mf_random_uniform(key, shape, dtype), mf_scalar(i->numbers[0], dtype));
}

static mf_value normal(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    return mf_mul(mf_random_normal(key, shape, dtype), mf_scalar(i->numbers[0], dtype));
}

static mf_value truncated_normal(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    mf_value x = mf_random_truncated_normal(key, i->numbers[1], i->numbers[2], shape, dtype);
    return mf_mul(x, mf_scalar(i->numbers[0], dtype));
}

/* ---- variance scaling: numbers are scale, mode, distribution, in_axis, out_axis */

/* The dimensions other than in_axis and out_axis are the receptive field. */
static bool find_fans(const mf_initializer *i, mf_shape shape, fans *f)
{
    int in = (int)i->numbers[3], out = (int)i->numbers[4];
    in += in < 0 ? shape.rank : 0;
    out += out < 0 ? shape.rank : 0;
    if (in < 0 || out < 0 || in >= shape.rank || out >= shape.rank || shape.dims[in] < 1 || shape.dims[out] < 1)
        return false;
    double field = 1;
    for (int k = 0; k < shape.rank; k++)
        field *= (double)shape.dims[k];
    field /= (double)shape.dims[in] * (double)shape.dims[out];
    *f = (fans){ (double)shape.dims[in] * field, (double)shape.dims[out] * field };
    return f->in > 0 && f->out > 0;
}

static double denominator(mf_fan_mode mode, fans f)
{
    switch (mode) {
    case MF_FAN_OUT: return f.out;
    case MF_FAN_AVG: return (f.in + f.out) / 2;
    case MF_FAN_GEO_AVG: return sqrt(f.in * f.out);
    default: return f.in;
    }
}

static mf_value scaled(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    fans f;
    if (!find_fans(i, shape, &f))
        return mf_make_error(MF_ERROR_SHAPE, "variance_scaling: the shape %s has no inputs and outputs there", mf_str_shape(shape));
    mf_value variance = mf_scalar(i->numbers[0] / denominator((mf_fan_mode)i->numbers[1], f), dtype);
    switch ((mf_init_distribution)i->numbers[2]) {
    case MF_INIT_NORMAL: return mf_mul(mf_random_normal(key, shape, dtype), mf_sqrt(variance));
    case MF_INIT_UNIFORM:
        return mf_mul(mf_random_uniform_in(key, shape, dtype, mf_scalar(-1, dtype), mf_scalar(1, dtype)), mf_sqrt(mf_mul(variance, 3)));
    default: /* the constant is the standard deviation of a standard normal truncated to [-2, 2] */
        return mf_mul(mf_random_truncated_normal(key, -2, 2, shape, dtype),
                      mf_div(mf_sqrt(variance), mf_scalar(.87962566103423978, dtype)));
    }
}

/* ---- orthogonal matrices */

static mf_value orthogonal_matrix(mf_value key, int64_t rows, int64_t columns, mf_dtype dtype)
{
    int64_t most = rows > columns ? rows : columns, least = rows > columns ? columns : rows;
    mf_value q, r, z = mf_random_normal(key, MF_SHAPE(most, least), dtype);
    mf_unpack(mf_qr(z), &q, &r);
    q = mf_mul(q, mf_sign(mf_diag(r))); /* makes the signs independent of the QR algorithm */
    return rows < columns ? mf_transpose(q, MF_INTS(1, 0)) : q;
}

static mf_value orthogonal(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    int64_t rows = 1;
    if (shape.rank < 2)
        return mf_make_error(MF_ERROR_SHAPE, "orthogonal: a shape of at least two dimensions is needed, not %s", mf_str_shape(shape));
    for (int k = 0; k < shape.rank - 1; k++)
        if (__builtin_mul_overflow(rows, shape.dims[k], &rows))
            return mf_make_error(MF_ERROR_SHAPE, "orthogonal: the shape %s has too many elements", mf_str_shape(shape));
    int64_t columns = shape.dims[shape.rank - 1];
    if (rows == 0 || columns == 0)
        return mf_zeros(shape, dtype);
    mf_dtype in = dtype == MF_F64 ? MF_F64 : MF_F32; /* mf_qr takes no narrower dtype */
    mf_value q = mf_reshape(orthogonal_matrix(key, rows, columns, in), shape);
    return mf_astype(mf_mul(q, mf_scalar(i->numbers[0], in)), dtype);
}

static mf_value of_user(const mf_initializer *i, mf_value key, mf_shape shape, mf_dtype dtype)
{
    return mf_astype(i->function(key, shape, dtype), dtype);
}

/* ---- public */

mf_initializer mf_init_zeros(void) { return (mf_initializer){ .make = zeros }; }
mf_initializer mf_init_ones(void) { return (mf_initializer){ .make = ones }; }
mf_initializer mf_init_constant(double c) { return (mf_initializer){ .make = constant, .numbers = { c } }; }
mf_initializer mf_init_uniform(double scale) { return (mf_initializer){ .make = uniform, .numbers = { scale }, .draws = true }; }
mf_initializer mf_init_normal(double stddev) { return (mf_initializer){ .make = normal, .numbers = { stddev }, .draws = true }; }

mf_initializer mf_init_truncated_normal(double stddev, double lower, double upper)
{
    return (mf_initializer){ .make = truncated_normal, .numbers = { stddev, lower, upper }, .draws = true };
}

mf_initializer mf_init_variance_scaling_opt(double scale, const mf_variance_scaling_options *o)
{
    static const mf_variance_scaling_options none = { .in_axis = -2, .out_axis = -1 };
    if (!o)
        o = &none;
    return (mf_initializer){ .make = scaled, .numbers = { scale, o->mode, o->distribution, o->in_axis, o->out_axis }, .draws = true };
}

static mf_initializer scaling(double scale, mf_fan_mode mode, mf_init_distribution distribution)
{
    return mf_init_variance_scaling(scale, .mode = mode, .distribution = distribution);
}

mf_initializer mf_init_lecun_normal(void) { return scaling(1, MF_FAN_IN, MF_INIT_TRUNCATED_NORMAL); }
mf_initializer mf_init_lecun_uniform(void) { return scaling(1, MF_FAN_IN, MF_INIT_UNIFORM); }
mf_initializer mf_init_glorot_normal(void) { return scaling(1, MF_FAN_AVG, MF_INIT_TRUNCATED_NORMAL); }
mf_initializer mf_init_glorot_uniform(void) { return scaling(1, MF_FAN_AVG, MF_INIT_UNIFORM); }
mf_initializer mf_init_he_normal(void) { return scaling(2, MF_FAN_IN, MF_INIT_TRUNCATED_NORMAL); }
mf_initializer mf_init_he_uniform(void) { return scaling(2, MF_FAN_IN, MF_INIT_UNIFORM); }
mf_initializer mf_init_orthogonal(double scale) { return (mf_initializer){ .make = orthogonal, .numbers = { scale }, .draws = true }; }
mf_initializer mf_init_function(mf_init_fn f) { return (mf_initializer){ .make = of_user, .function = f, .draws = true }; }

mf_value(mf_initialize)(mf_initializer init, mf_value key, mf_shape shape, mf_dtype dtype)
{
    MF_LAYER;
    if (!init.make)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_initialize: the initialiser is unset");
    if (shape.rank < 0 || shape.rank > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "mf_initialize: a shape has between 0 and %d dimensions, not %d", MF_MAX_RANK, shape.rank);
    return init.make(&init, key, shape, layer_param_dtype(dtype));
}

/* ---- layers */

mf_dtype layer_param_dtype(mf_dtype dtype) { return dtype == MF_DTYPE_DEFAULT ? MF_F32 : dtype; }

mf_module layer_error(mf_value error) { return (mf_module){ error.handle }; }

void layer_add(layer_members *m, const char *name, mf_node_ value)
{
    m->at[m->count++] = mf_node_name(name);
    m->at[m->count++] = value;
}

void layer_add_param(layer_members *m, const char *name, mf_state rngs, mf_initializer init, mf_initializer otherwise, mf_shape shape,
                     mf_dtype dtype)
{
    if (!init.make)
        init = otherwise;
    mf_value key = init.draws ? mf_random_next(rngs) : mf_none();
    layer_add(m, name, mf_node_state(mf_param_state(mf_initialize(init, key, shape, dtype))));
}

mf_value layer_check_count(const char *layer, const char *what, int64_t count)
{
    if (count >= 1)
        return (mf_value){ 0 };
    return mf_make_error(MF_ERROR_ARGUMENT, "%s: %s is %lld; it must be at least 1", layer, what, (long long)count);
}
