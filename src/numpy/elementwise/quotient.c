/* NumPy's integer division: floor_divide rounds towards minus infinity, remainder has the divisor's sign.
 * Invariant: x = y * floor_divide(x, y) + remainder(x, y), up to rounding; for y = 0 both give jax.numpy's results. */
#include "numpy/floats.h"

static bool is_float(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d == MF_F16 || d == MF_BF16 || d == MF_F32 || d == MF_F64;
}

static bool is_unsigned(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    return d == MF_BOOL || (d >= MF_U8 && d <= MF_U64);
}

/* Whether the signs of x and y differ. */
static mf_value signs_differ(mf_value x, mf_value y) { return mf_not_equal(mf_less(x, 0), mf_less(y, 0)); }

/* lax.rem's remainder, which has the dividend's sign, moved to the divisor's sign. */
static mf_value towards_divisor(mf_value rest, mf_value y)
{
    mf_value moves = mf_logical_and(mf_not_equal(rest, 0), signs_differ(rest, y));
    return mf_where(moves, mf_add(rest, y), rest);
}

static mf_value floor_divide_floats(mf_value x, mf_value y)
{
    mf_value rest = mf_lax_rem(x, y), quotient = mf_div(mf_sub(x, rest), y);
    mf_value below = mf_logical_and(mf_not_equal(rest, 0), mf_not_equal(mf_sign(y), mf_sign(rest)));
    mf_value whole = mf_round(mf_where(below, mf_sub(quotient, 1), quotient));
    return mf_where(mf_equal(y, 0), mf_div(x, y), whole);
}

static mf_value floor_divide_integers(mf_value x, mf_value y)
{
    mf_value quotient = mf_lax_div(x, y);
    mf_value below = mf_logical_and(mf_not_equal(mf_sign(x), mf_sign(y)), mf_not_equal(mf_lax_rem(x, y), 0));
    return mf_where(below, mf_sub(quotient, 1), quotient);
}

/* A scalar that promotes as x does. */
static mf_value scalar_like(mf_value x)
{
    mf_dtype d = mf_dtype_of(x);
    if (d == MF_DTYPE_DEFAULT) /* an error or a tree */
        return x;
    if (!mf_weak_type_of(x))
        return mf_scalar(0, d);
    return numpy_is_complex(x) ? mf_c(0, 0) : is_float(x) ? mf_f(0) : mf_i(0);
}

/* Converts both operands to their promoted dtype; bool becomes i32. */
static void join_dtypes(mf_value *x, mf_value *y)
{
    mf_value same = mf_where(mf_b(true), scalar_like(*x), scalar_like(*y));
    if (mf_is_error(same)) {
        *x = *y = same;
        return;
    }
    mf_dtype d = mf_dtype_of(same) == MF_BOOL ? MF_I32 : mf_dtype_of(same);
    *x = mf_dtype_of(*x) == d ? *x : mf_astype(*x, d);
    *y = mf_dtype_of(*y) == d ? *y : mf_astype(*y, d);
}

mf_value(mf_floor_divide)(mf_value x, mf_value y)
{
    join_dtypes(&x, &y);
    if (is_float(x))
        return floor_divide_floats(x, y);
    return is_unsigned(x) ? mf_lax_div(x, y) : floor_divide_integers(x, y);
}

mf_value(mf_remainder)(mf_value x, mf_value y)
{
    join_dtypes(&x, &y);
    if (!is_float(x)) /* x % 0 is 0 */
        y = mf_where(mf_equal(y, 0), 1, y);
    return towards_divisor(mf_lax_rem(x, y), y);
}
