/* The public functions of the elementwise families. Invariant: operands are promoted and broadcast first; functions defined for floats only
 * convert integers to floats; for bool, + is or and * is and, as in NumPy. */
#include "lax/wrap.h"

#include <manyfold/array.h>
#include <manyfold/lax.h>
#include <manyfold/nn.h>
#include <math.h>

/* The names are in parentheses because the headers have macros of the same names, which turn C numbers into values. */
#define BINARY(word, op, promote)                                                \
    mf_value(mf_##word)(mf_value a, mf_value b)                                  \
    {                                                                            \
        MF_ENTER(MF_FORKED);                                                     \
        return promote(&a, &b, #word) ? mf_bind(&mf_op_##op, NULL, 2, a, b) : a; \
    }
#define UNARY(word, op, prepare)                                          \
    mf_value(mf_##word)(mf_value x)                                       \
    {                                                                     \
        MF_ENTER(MF_FORKED);                                              \
        return prepare(&x, #word) ? mf_bind(&mf_op_##op, NULL, 1, x) : x; \
    }

static mf_dtype dtype_of(mf_value x) { return mf_value_type(x)->dtype; }

/* ---- two operands */
mf_value(mf_add)(mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    if (!mf_promote2(&a, &b, "add"))
        return a;
    return mf_bind(dtype_of(a) == MF_BOOL ? &mf_op_or : &mf_op_add, NULL, 2, a, b);
}

mf_value(mf_mul)(mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    if (!mf_promote2(&a, &b, "mul"))
        return a;
    return mf_bind(dtype_of(a) == MF_BOOL ? &mf_op_and : &mf_op_mul, NULL, 2, a, b);
}

BINARY(sub, sub, mf_promote2)
BINARY(div, div, mf_promote2_inexact)
BINARY(lax_div, div, mf_promote2)
BINARY(lax_rem, rem, mf_promote2)
BINARY(atan2, atan2, mf_promote2_inexact)
BINARY(nextafter, nextafter, mf_promote2_inexact)
BINARY(maximum, max, mf_promote2)
BINARY(minimum, min, mf_promote2)
BINARY(equal, eq, mf_promote2)
BINARY(not_equal, ne, mf_promote2)
BINARY(less, lt, mf_promote2)
BINARY(less_equal, le, mf_promote2)
BINARY(greater, gt, mf_promote2)
BINARY(greater_equal, ge, mf_promote2)
BINARY(bitwise_and, and, mf_promote2)
BINARY(bitwise_or, or, mf_promote2)
BINARY(bitwise_xor, xor, mf_promote2)
BINARY(left_shift, shift_left, mf_promote2)
BINARY(right_shift_logical, shift_right_logical, mf_promote2)

mf_value(mf_right_shift)(mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    if (!mf_promote2(&a, &b, "right_shift"))
        return a;
    return mf_bind(mf_dtype_is_signed(dtype_of(a)) ? &mf_op_shift_right_arithmetic : &mf_op_shift_right_logical, NULL, 2, a, b);
}

/* Converts to bool: whether each element is nonzero. */
static bool truth(mf_value *x, const char *op)
{
    if (!mf_wrap_array(x, op))
        return false;
    *x = mf_convert_value(*x, MF_BOOL, false);
    return !mf_is_error(*x);
}

static bool truths(mf_value *a, mf_value *b, const char *op)
{
    mf_value v[2] = { *a, *b };
    bool fine = truth(&v[0], op) && truth(&v[1], op);
    if (!fine)
        v[0] = mf_value_type(v[0]) ? v[1] : v[0];
    fine = fine && mf_broadcast_shapes(v, 2, op);
    *a = v[0];
    *b = v[1];
    return fine;
}

BINARY(logical_and, and, truths)
BINARY(logical_or, or, truths)
BINARY(logical_xor, xor, truths)

/* ---- powers: an exponent that is a C integer makes an integer_pow, computed by repeated multiplication */
static bool constant_exponent(mf_value v, int64_t *y)
{
    mf_array *a = (mf_array *)mf_handle_get_as(v.handle, &mf_array_class);
    if (!a || a->type->rank != 0 || !a->type->weak || !mf_dtype_is_int(a->type->dtype))
        return false;
    unsigned char element[16];
    mf_error_object *e = mf_array_element(a, element);
    if (e) {
        mf_error_ignore(e);
        return false;
    }
    *y = mf_load_i64(a->type->dtype, element);
    return true;
}

static mf_value integer_power(mf_value x, int64_t y)
{
    if (y < 0 ? !mf_wrap_inexact(&x, "integer_pow") : !mf_wrap_array(&x, "integer_pow"))
        return x;
    if (dtype_of(x) == MF_BOOL)
        x = mf_convert_value(x, MF_I32, false);
    return mf_bind(&mf_op_integer_pow, &(mf_power_params){ y }, 1, x);
}

mf_value(mf_integer_pow)(mf_value x, int y)
{
    MF_ENTER(MF_FORKED);
    return integer_power(x, y);
}

/* An integer exponent of 0 makes a constant, whose derivative is 0 at a base of 0 too; the rule of pow gives NaN there, as JAX does for
 * floats. */
mf_value(mf_pow)(mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    int64_t y;
    if (constant_exponent(b, &y))
        return integer_power(a, y);
    const mf_type *exponent = mf_value_type(b);
    bool whole = exponent && mf_dtype_is_int(exponent->dtype);
    if (!mf_promote2(&a, &b, "pow"))
        return a;
    if (whole && mf_dtype_is_inexact(dtype_of(a)))
        a = mf_where(mf_equal(b, 0), 1, a);
    if (dtype_of(a) == MF_BOOL) {
        a = mf_convert_value(a, MF_I32, false);
        b = mf_convert_value(b, MF_I32, false);
    }
    return mf_bind(&mf_op_pow, NULL, 2, a, b);
}

/* ---- one operand */
UNARY(neg, neg, mf_wrap_array)
UNARY(bitwise_not, not, mf_wrap_array)
UNARY(logical_not, not, truth)
UNARY(population_count, population_count, mf_wrap_array)
UNARY(clz, clz, mf_wrap_array)
#define X(name)
#define F(name) UNARY(name, name, mf_wrap_inexact)
#include "ops/ops.def"
#undef X
UNARY(sigmoid, logistic, mf_wrap_inexact)

/* For ops that leave integers or bool unchanged (`same` says which). */
static mf_value unless(bool (*same)(mf_dtype), const mf_op *op, mf_value x)
{
    if (!mf_wrap_array(&x, op->name) || same(dtype_of(x)))
        return x;
    return mf_bind(op, NULL, 1, x);
}

static bool is_bool(mf_dtype d) { return d == MF_BOOL; }
static bool has_no_sign(mf_dtype d) { return d == MF_BOOL || mf_dtype_is_unsigned(d); }
static bool is_whole(mf_dtype d) { return d == MF_BOOL || mf_dtype_is_int(d); }

mf_value(mf_abs)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return unless(has_no_sign, &mf_op_abs, x);
}

mf_value(mf_square)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    if (mf_value_type(x) && dtype_of(x) == MF_BOOL)
        x = mf_convert_value(x, MF_I32, false);
    return mf_wrap_array(&x, "square") ? mf_bind(&mf_op_square, NULL, 1, x) : x;
}

mf_value(mf_sign)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return unless(is_bool, &mf_op_sign, x);
}

mf_value(mf_floor)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return unless(is_whole, &mf_op_floor, x);
}

mf_value(mf_ceil)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return unless(is_whole, &mf_op_ceil, x);
}

mf_value(mf_round)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return unless(is_whole, &mf_op_round, x);
}

mf_value(mf_reciprocal)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return integer_power(x, -1);
}

/* Every integer is finite: each element equals itself. */
mf_value(mf_isfinite)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "isfinite"))
        return x;
    if (mf_dtype_is_complex(dtype_of(x)))
        return mf_bind(&mf_op_and, NULL, 2, mf_isfinite(mf_real(x)), mf_isfinite(mf_imag(x)));
    return mf_dtype_is_float(dtype_of(x)) ? mf_bind(&mf_op_is_finite, NULL, 1, x) : mf_bind(&mf_op_eq, NULL, 2, x, x);
}

mf_value(mf_isnan)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return mf_wrap_array(&x, "isnan") ? mf_bind(&mf_op_ne, NULL, 2, x, x) : x;
}

mf_value(mf_isinf)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "isinf"))
        return x;
    if (mf_dtype_is_complex(dtype_of(x)))
        return mf_bind(&mf_op_or, NULL, 2, mf_isinf(mf_real(x)), mf_isinf(mf_imag(x)));
    if (!mf_dtype_is_float(dtype_of(x)))
        return mf_bind(&mf_op_ne, NULL, 2, x, x);
    const mf_type *t = mf_value_type(x);
    mf_value infinity = mf_convert_value(mf_f(INFINITY), t->dtype, t->weak);
    return mf_bind(&mf_op_eq, NULL, 2, mf_bind(&mf_op_abs, NULL, 1, x), mf_broadcast_value(infinity, t->rank, t->dims));
}

/* ---- complex numbers and their parts */
BINARY(complex, complex, mf_promote2_inexact)

mf_value(mf_real)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return !mf_wrap_array(&x, "real") || !mf_dtype_is_complex(dtype_of(x)) ? x : mf_bind(&mf_op_real, NULL, 1, x);
}

mf_value(mf_imag)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "imag"))
        return x;
    return mf_dtype_is_complex(dtype_of(x)) ? mf_bind(&mf_op_imag, NULL, 1, x) : mf_zeros_like(x);
}

mf_value(mf_conj)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return !mf_wrap_array(&x, "conj") || !mf_dtype_is_complex(dtype_of(x)) ? x : mf_bind(&mf_op_conj, NULL, 1, x);
}

mf_value(mf_angle)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return (mf_atan2)(mf_imag(x), mf_real(x));
}

/* ---- dtypes */
mf_value(mf_astype)(mf_value x, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "astype"))
        return x;
    if (dtype == MF_DTYPE_DEFAULT || (unsigned)dtype > MF_KEY)
        return mf_fail(MF_ERROR_DTYPE, "astype: %d is no dtype", (int)dtype);
    return mf_convert_value(x, dtype, false);
}

mf_value(mf_bitcast)(mf_value x, mf_dtype dtype)
{
    MF_ENTER(MF_FORKED);
    if (!mf_wrap_array(&x, "bitcast"))
        return x;
    return mf_bind(&mf_op_bitcast_convert_type, &(mf_convert_params){ dtype, false }, 1, x);
}

/* Leaves that are not arrays stay unchanged; integers and bool have no gradient to stop. */
static mf_object *stop_leaf(mf_object *leaf)
{
    const mf_type *t = mf_object_type(leaf);
    if (!t || !mf_dtype_is_inexact(t->dtype))
        return mf_retain(leaf);
    return mf_retain(mf_object_of(mf_bind(&mf_op_stop_gradient, NULL, 1, mf_value_of(leaf))));
}

mf_value(mf_stop_gradient)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    mf_object *const *leaves, *self, **stopped, *tree;
    int count = 0;
    const mf_structure *s = mf_tree_flatten(mf_object_of(x), &leaves, &count, &self);
    if (!(stopped = mf_alloc((size_t)count * sizeof *stopped + 1)))
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < count; i++)
        stopped[i] = stop_leaf(leaves[i]);
    tree = mf_tree_build(s, stopped);
    for (int i = 0; i < count; i++)
        mf_drop(stopped[i]);
    mf_free(stopped);
    return mf_value_new(tree ? (void *)tree : (void *)mf_error_out_of_memory());
}

/* ---- three operands */
mf_value(mf_where)(mf_value c, mf_value a, mf_value b)
{
    MF_ENTER(MF_FORKED);
    mf_value v[3] = { c, a, b };
    if (!mf_wrap_arrays(v, 3, 1, "where") || !truth(&v[0], "where"))
        return v[0];
    if (!mf_promote_dtypes(&v[1], 2, "where"))
        return v[1];
    if (!mf_broadcast_shapes(v, 3, "where"))
        return v[0];
    return mf_bind(&mf_op_select_n, NULL, 3, v[0], v[2], v[1]);
}

static bool is_none(mf_value v)
{
    const mf_tree *t = (const mf_tree *)mf_handle_get_as(v.handle, &mf_tree_class);
    return t && t->structure == mf_structure_none();
}

static bool is_complex_value(mf_value v)
{
    const mf_type *t = mf_value_type(v);
    return t && mf_dtype_is_complex(t->dtype);
}

/* A bound of None leaves that side open. */
mf_value(mf_clip)(mf_value x, mf_value low, mf_value high)
{
    MF_ENTER(MF_FORKED);
    if (is_complex_value(x) || is_complex_value(low) || is_complex_value(high))
        return mf_fail(MF_ERROR_DTYPE, "clip: complex numbers have no order; clip the real and imaginary parts");
    if (!is_none(low))
        x = (mf_maximum)(x, low);
    return is_none(high) ? x : (mf_minimum)(x, high);
}
