/* Emits one primitive operation, for every dtype for which it is exact or a polynomial. For the rest (most of libm's functions of f64,
 * integer powers) there is no emission, and the group runs by tile kernels. Invariant: same bits as the tile kernel of that name. */
#include "backend/native/llvm/llvm.h"

#include <string.h>

static bool is(const char *name, const char *other) { return !strcmp(name, other); }

/* ------------------------------------------------------------------ conversion */

static mf_ir_value cast(mf_ir *ir, const char *op, mf_dtype from, mf_dtype to, mf_ir_value x)
{
    return mf_ir_op(ir, "%s <%d x %s> %s to <%d x %s>", op, ir->width, mf_ir_scalar(from), x, ir->width, mf_ir_scalar(to));
}

/* r, with `value` (an integer) where x compares with the limit. */
static mf_ir_value limited(mf_ir *ir, mf_dtype from, mf_ir_value x, const char *compare, double limit, mf_dtype to, int64_t value,
                           mf_ir_value r)
{
    _Alignas(8) unsigned char element[8];
    const char *s = mf_ir_scalar(to);
    mf_store_f64(from, element, limit);
    mf_ir_value m = mf_ir_op(ir, "fcmp %s <%d x %s> %s, %s", compare, ir->width, mf_ir_scalar(from), x, mf_ir_splat(ir, from, element));
    return mf_ir_op(ir, "select <%d x i1> %s, <%d x %s> %s, <%d x %s> %s", ir->width, m, ir->width, s, mf_ir_splat(ir, to, &value),
                    ir->width, s, r);
}

/* By comparisons, because LLVM's saturating conversion (llvm.fptosi.sat) goes lane by lane. The limits are powers of two, which floats
 * represent exactly. */
static mf_ir_value saturated(mf_ir *ir, mf_dtype from, mf_dtype to, mf_ir_value x)
{
    bool with_sign = mf_dtype_is_signed(to);
    int bits = 8 * mf_dtype_size(to);
    int64_t least = with_sign ? INT64_MIN >> (64 - bits) : 0;
    mf_dtype wide = bits < 32 ? MF_I32 : to;
    mf_ir_value r = mf_ir_convert(ir, wide, to, cast(ir, with_sign || bits < 32 ? "fptosi" : "fptoui", from, wide, x));
    r = limited(ir, from, x, "oge", (double)(1ull << (bits - 1)) * (with_sign ? 1 : 2), to, ~least, r);
    r = limited(ir, from, x, "olt", (double)least, to, least, r);
    return limited(ir, from, x, "uno", 0, to, 0, r);
}

static mf_ir_value to_bool(mf_ir *ir, mf_dtype from, mf_ir_value x)
{
    return mf_ir_op(ir, "%s <%d x %s> %s, zeroinitializer", mf_dtype_is_float(from) ? "fcmp une" : "icmp ne", ir->width, mf_ir_scalar(from),
                    x);
}

mf_ir_value mf_ir_convert(mf_ir *ir, mf_dtype from, mf_dtype to, mf_ir_value x)
{
    if (from == MF_F16 || from == MF_BF16)
        return to == from ? x : mf_ir_convert(ir, MF_F32, to, mf_ir_widen(ir, from, x));
    if (from == to)
        return x;
    if (to == MF_F16 || to == MF_BF16)
        return mf_ir_narrow(ir, to, mf_ir_convert(ir, from, MF_F32, x));
    if (to == MF_BOOL)
        return to_bool(ir, from, x);
    if (mf_dtype_is_float(from) && mf_dtype_is_float(to))
        return cast(ir, to == MF_F64 ? "fpext" : "fptrunc", from, to, x);
    if (mf_dtype_is_float(from))
        return saturated(ir, from, to, x);
    if (mf_dtype_is_float(to))
        return cast(ir, mf_dtype_is_signed(from) ? "sitofp" : "uitofp", from, to, x);
    int have = from == MF_BOOL ? 0 : mf_dtype_size(from), want = mf_dtype_size(to);
    if (have == want)
        return x;
    return cast(ir, want < have ? "trunc" : mf_dtype_is_signed(from) ? "sext" : "zext", from, to, x);
}

/* ------------------------------------------------------------------ arithmetic */

typedef struct typed { /* the current emitter and dtype */
    mf_ir *ir;
    mf_dtype dtype;
} typed;

static mf_ir_value op2(const typed *t, const char *op, mf_ir_value a, mf_ir_value b)
{
    return mf_ir_op(t->ir, "%s <%d x %s> %s, %s", op, t->ir->width, mf_ir_scalar(t->dtype), a, b);
}

static mf_ir_value choose(const typed *t, mf_ir_value m, mf_ir_value yes, mf_ir_value no)
{
    const char *s = mf_ir_scalar(t->dtype);
    return mf_ir_op(t->ir, "select <%d x i1> %s, <%d x %s> %s, <%d x %s> %s", t->ir->width, m, t->ir->width, s, yes, t->ir->width, s, no);
}

static mf_ir_value number(const typed *t, double x)
{
    _Alignas(8) unsigned char element[8];
    mf_store_f64(t->dtype, element, x);
    return mf_ir_splat(t->ir, t->dtype, element);
}

static mf_ir_value mask_op(const typed *t, const char *op, mf_ir_value a, mf_ir_value b)
{
    return mf_ir_op(t->ir, "%s <%d x i1> %s, %s", op, t->ir->width, a, b);
}

/* llvm.maximum and llvm.minimum: NaN wins, and -0 is less than +0. */
static mf_ir_value extreme(const typed *t, const char *name, mf_ir_value x, mf_ir_value y)
{
    const char *s = mf_ir_scalar(t->dtype);
    int w = t->ir->width;
    return mf_ir_op(t->ir, "call <%d x %s> @llvm.%s.v%df%d(<%d x %s> %s, <%d x %s> %s)", w, s, name, w, t->dtype == MF_F64 ? 64 : 32, w, s,
                    x, w, s, y);
}

static mf_ir_value intrinsic(const typed *t, const char *name, mf_ir_value x)
{
    const char *s = mf_ir_scalar(t->dtype);
    int w = t->ir->width;
    return mf_ir_op(t->ir, "call <%d x %s> @llvm.%s.v%df%d(<%d x %s> %s)", w, s, name, w, t->dtype == MF_F64 ? 64 : 32, w, s, x);
}

static mf_ir_value negated(const typed *t, mf_ir_value x)
{
    return mf_ir_op(t->ir, "fneg <%d x %s> %s", t->ir->width, mf_ir_scalar(t->dtype), x);
}

static mf_ir_value sign_f64(const typed *t, mf_ir_value x)
{
    int w = t->ir->width;
    mf_ir_value one = mf_ir_op(t->ir, "call <%d x double> @llvm.copysign.v%df64(<%d x double> %s, <%d x double> %s)", w, w, w, number(t, 1),
                               w, x);
    return choose(t, mask_op(t, "or", op2(t, "fcmp oeq", x, number(t, 0)), op2(t, "fcmp uno", x, x)), x, one);
}

static mf_ir_value call_float(const typed *t, const char *name, mf_ir_value x, mf_ir_value y)
{
    static const char *const plain[][2] = { { "add", "fadd" }, { "sub", "fsub" }, { "mul", "fmul" }, { "div", "fdiv" } };
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (is(name, plain[i][0]))
            return op2(t, plain[i][1], x, y);
    if (is(name, "max"))
        return extreme(t, "maximum", x, y);
    if (is(name, "min"))
        return extreme(t, "minimum", x, y);
    if (is(name, "neg"))
        return negated(t, x);
    if (is(name, "abs"))
        return intrinsic(t, "fabs", x);
    if (is(name, "square"))
        return op2(t, "fmul", x, x);
    if (is(name, "sqrt"))
        return intrinsic(t, "sqrt", x);
    if (t->dtype == MF_F32)
        return mf_ir_has_math(name) ? mf_ir_math(t->ir, name, x, y) : NULL;
    if (is(name, "floor") || is(name, "ceil"))
        return intrinsic(t, name, x);
    if (is(name, "round"))
        return intrinsic(t, "roundeven", x);
    if (is(name, "rsqrt"))
        return op2(t, "fdiv", number(t, 1), intrinsic(t, "sqrt", x));
    if (is(name, "sign"))
        return sign_f64(t, x);
    return mf_ir_has_math_f64(name) ? mf_ir_math_f64(t->ir, name, x) : NULL;
}

/* x/0 = -1, x%0 = x, least/-1 = least, least%-1 = 0: unsafe divisors are replaced first. */
static mf_ir_value divide(const typed *t, bool rest, mf_ir_value x, mf_ir_value y)
{
    bool with_sign = mf_dtype_is_signed(t->dtype);
    mf_ir_value zero = op2(t, "icmp eq", y, number(t, 0)), safe = choose(t, zero, number(t, 1), y);
    mf_ir_value minus = with_sign ? op2(t, "icmp eq", y, number(t, -1)) : NULL;
    if (minus)
        safe = choose(t, minus, number(t, 1), safe);
    mf_ir_value q = op2(t, rest ? (with_sign ? "srem" : "urem") : with_sign ? "sdiv" : "udiv", x, safe);
    if (minus && !rest)
        q = choose(t, minus, op2(t, "sub", number(t, 0), x), q);
    return choose(t, zero, rest ? x : op2(t, "sub", number(t, 0), number(t, 1)), q);
}

static mf_ir_value shift(const typed *t, const char *op, mf_ir_value x, mf_ir_value y)
{
    int bits = 8 * mf_dtype_size(t->dtype);
    bool arithmetic = is(op, "ashr");
    mf_ir_value inside = op2(t, "icmp ult", y, number(t, bits));
    mf_ir_value by = choose(t, inside, y, number(t, arithmetic ? bits - 1 : 0));
    mf_ir_value r = op2(t, op, x, by);
    return arithmetic ? r : choose(t, inside, r, number(t, 0));
}

static mf_ir_value call_integer(const typed *t, const char *name, mf_ir_value x, mf_ir_value y)
{
    static const char *const plain[] = { "add", "sub", "mul", "and", "or", "xor" };
    bool with_sign = mf_dtype_is_signed(t->dtype);
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (is(name, plain[i]))
            return op2(t, name, x, y);
    if (is(name, "div") || is(name, "rem"))
        return divide(t, is(name, "rem"), x, y);
    if (is(name, "max"))
        return choose(t, op2(t, with_sign ? "icmp sgt" : "icmp ugt", x, y), x, y);
    if (is(name, "min"))
        return choose(t, op2(t, with_sign ? "icmp slt" : "icmp ult", x, y), x, y);
    if (is(name, "neg"))
        return op2(t, "sub", number(t, 0), x);
    if (is(name, "square"))
        return op2(t, "mul", x, x);
    if (is(name, "not"))
        return op2(t, "xor", x, op2(t, "sub", number(t, 0), number(t, 1)));
    if (is(name, "abs"))
        return with_sign ? choose(t, op2(t, "icmp slt", x, number(t, 0)), op2(t, "sub", number(t, 0), x), x) : x;
    if (is(name, "sign")) {
        mf_ir_value one = choose(t, op2(t, with_sign ? "icmp sgt" : "icmp ugt", x, number(t, 0)), number(t, 1), number(t, 0));
        return with_sign ? choose(t, op2(t, "icmp slt", x, number(t, 0)), number(t, -1), one) : one;
    }
    if (is(name, "shift_left"))
        return shift(t, "shl", x, y);
    if (is(name, "shift_right_logical"))
        return shift(t, "lshr", x, y);
    return is(name, "shift_right_arithmetic") ? shift(t, "ashr", x, y) : NULL;
}

static mf_ir_value call_bool(const typed *t, const char *name, mf_ir_value x, mf_ir_value y)
{
    bool yes = true;
    if (is(name, "not"))
        return op2(t, "xor", x, mf_ir_splat(t->ir, MF_BOOL, &yes));
    if (is(name, "and") || is(name, "min"))
        return op2(t, "and", x, y);
    if (is(name, "or") || is(name, "max"))
        return op2(t, "or", x, y);
    return is(name, "xor") ? op2(t, "xor", x, y) : NULL;
}

static const char *comparison(const char *name, mf_dtype dtype)
{
    static const struct {
        const char *name, *real, *integer, *natural;
    } rows[] = {
        { "eq", "fcmp oeq", "icmp eq", "icmp eq" },   { "ne", "fcmp une", "icmp ne", "icmp ne" },
        { "lt", "fcmp olt", "icmp slt", "icmp ult" }, { "le", "fcmp ole", "icmp sle", "icmp ule" },
        { "gt", "fcmp ogt", "icmp sgt", "icmp ugt" }, { "ge", "fcmp oge", "icmp sge", "icmp uge" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (is(name, rows[i].name))
            return mf_dtype_is_float(dtype) ? rows[i].real : mf_dtype_is_signed(dtype) ? rows[i].integer : rows[i].natural;
    return NULL;
}

static mf_ir_value call(mf_ir *ir, const mf_node *node, mf_dtype in, mf_ir_value x, mf_ir_value y)
{
    typed t = { ir, in };
    const char *compare = comparison(node->name, in);
    if (in == MF_F16 || in == MF_BF16)
        return NULL; /* arithmetic is done in f32 */
    if (compare)
        return op2(&t, compare, x, y);
    if (is(node->name, "is_finite")) {
        double infinity = __builtin_inf();
        return op2(&t, "fcmp olt", intrinsic(&t, "fabs", x), number(&t, infinity));
    }
    if (mf_dtype_is_float(in))
        return call_float(&t, node->name, x, y);
    return in == MF_BOOL ? call_bool(&t, node->name, x, y) : call_integer(&t, node->name, x, y);
}

mf_ir_value mf_ir_node(mf_ir *ir, const mf_group *g, const mf_node *node, const mf_ir_value *in)
{
    typed t = { ir, node->dtype };
    mf_ir_value made = NULL;
    mf_dtype from = node->in_count ? g->nodes[node->in[0]].dtype : node->dtype;
    switch (node->kind) {
    case MF_NODE_CONSTANT: made = mf_ir_splat(ir, node->dtype, &node->bits); break;
    case MF_NODE_CALL: made = call(ir, node, from, in[0], node->in_count > 1 ? in[1] : NULL); break;
    case MF_NODE_SELECT: made = choose(&t, in[0], in[2], in[1]); break;
    case MF_NODE_CONVERT:
        made = node->is_bf16 && node->dtype == MF_BF16 ? mf_ir_cut_bf16(ir, in[0]) : mf_ir_convert(ir, from, node->dtype, in[0]);
        break;
    case MF_NODE_BITCAST: made = cast(ir, "bitcast", from, node->dtype, in[0]); break;
    default: break; /* loads are emitted by the loops */
    }
    ir->failed |= !made;
    return made ? made : "poison";
}

bool mf_ir_node_possible(const mf_group *g, const mf_node *node)
{
    if (g->complex)
        return false;
    if (node->kind != MF_NODE_CALL)
        return true;
    mf_arena strings = { 0 };
    mf_ir trial = { .strings = &strings, .width = 1 };
    mf_ir_node(&trial, g, node, (mf_ir_value[]){ "%x", "%y", "%z" });
    mf_text_free(&trial.text);
    mf_arena_free(&strings);
    return !trial.failed;
}
