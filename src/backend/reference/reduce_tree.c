/* Sums, products and extrema over the members of a collective: one balanced tree in rank order, per element, so that any partition of
 * the elements gives the same bits. f16 and bf16 are accumulated in f32 and rounded once, at the end; NaN wins in max and min; integers
 * wrap. */
#include "runtime/compile/segment_compiler.h"

bool mf_reference_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to);

/* The greatest power of two below n: neighbours pair up level by level, and an odd one moves up a level. */
static int first_part(int n)
{
    int part = 1;
    while (2 * part < n)
        part *= 2;
    return part;
}

/* The tree's value for one element, computed in `type`. */
#define TREE(name, stored, type, load, join)                                      \
    static type name(mf_reducer how, const stored *const *in, int n, int64_t at)  \
    {                                                                             \
        if (n == 1)                                                               \
            return load(in[0][at]);                                               \
        int part = first_part(n);                                                 \
        type a = name(how, in, part, at), b = name(how, in + part, n - part, at); \
        return join;                                                              \
    }

#define WRAPPED(type, unsigned_type)                                           \
    how == MF_REDUCE_SUM    ? (type)((unsigned_type)a + (unsigned_type)b)      \
    : how == MF_REDUCE_PROD ? (type)(1u * (unsigned_type)a * (unsigned_type)b) \
    : how == MF_REDUCE_MAX  ? (a > b ? a : b)                                  \
                            : (a < b ? a : b)
#define FLOATING                           \
    how == MF_REDUCE_SUM    ? a + b        \
    : how == MF_REDUCE_PROD ? a *b         \
    : a != a                ? a            \
    : b != b                ? b            \
    : how == MF_REDUCE_MAX  ? larger(a, b) \
                            : smaller(a, b)
#define larger(a, b)  ((a) > (b) || ((a) == (b) && !__builtin_signbit(a)) ? (a) : (b)) /* 0 is larger than -0 */
#define smaller(a, b) ((a) < (b) || ((a) == (b) && __builtin_signbit(a)) ? (a) : (b))

#define SAME(x) (x)
TREE(tree_i8, int8_t, int8_t, SAME, WRAPPED(int8_t, uint8_t))
TREE(tree_i16, int16_t, int16_t, SAME, WRAPPED(int16_t, uint16_t))
TREE(tree_i32, int32_t, int32_t, SAME, WRAPPED(int32_t, uint32_t))
TREE(tree_i64, int64_t, int64_t, SAME, WRAPPED(int64_t, uint64_t))
TREE(tree_u8, uint8_t, uint8_t, SAME, WRAPPED(uint8_t, uint8_t))
TREE(tree_u16, uint16_t, uint16_t, SAME, WRAPPED(uint16_t, uint16_t))
TREE(tree_u32, uint32_t, uint32_t, SAME, WRAPPED(uint32_t, uint32_t))
TREE(tree_u64, uint64_t, uint64_t, SAME, WRAPPED(uint64_t, uint64_t))
TREE(tree_f32, float, float, SAME, FLOATING)
TREE(tree_f64, double, double, SAME, FLOATING)
TREE(tree_f16, uint16_t, float, mf_f16_to_f32, FLOATING)
TREE(tree_bf16, uint16_t, float, mf_bf16_to_f32, FLOATING)

#define ALL(tree, type, store)          \
    for (int64_t i = from; i < to; i++) \
    ((type *)out)[i] = store(tree(how, (const type *const *)in, n, i))

bool mf_reference_reduce(mf_reducer how, mf_dtype dtype, const void *const *in, int n, void *out, int64_t count, int64_t from, int64_t to)
{
    (void)count;
    switch (dtype) {
    case MF_BOOL: /* max is "or", min is "and"; sums of bools have become integer sums before */
    case MF_U8: ALL(tree_u8, uint8_t, SAME); break;
    case MF_I8: ALL(tree_i8, int8_t, SAME); break;
    case MF_I16: ALL(tree_i16, int16_t, SAME); break;
    case MF_I32: ALL(tree_i32, int32_t, SAME); break;
    case MF_I64: ALL(tree_i64, int64_t, SAME); break;
    case MF_U16: ALL(tree_u16, uint16_t, SAME); break;
    case MF_U32: ALL(tree_u32, uint32_t, SAME); break;
    case MF_U64: ALL(tree_u64, uint64_t, SAME); break;
    case MF_F16: ALL(tree_f16, uint16_t, mf_f32_to_f16); break;
    case MF_BF16: ALL(tree_bf16, uint16_t, mf_f32_to_bf16); break;
    case MF_F32: ALL(tree_f32, float, SAME); break;
    case MF_F64: ALL(tree_f64, double, SAME); break;
    default: break;
    }
    return true;
}
