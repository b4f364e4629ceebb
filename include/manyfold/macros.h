/* manyfold/macros.h - how C's macros count their arguments and lift them to values. Nothing here
 * is for users. */
#ifndef MANYFOLD_MACROS_H
#define MANYFOLD_MACROS_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <stddef.h>

/* clang-format off */
/* Between these two every function is exported and has C linkage. */
#ifdef __cplusplus
#define MF_BEGIN_ _Pragma("GCC visibility push(default)") extern "C" {
#define MF_END_   } _Pragma("GCC visibility pop")
#else
#define MF_BEGIN_ _Pragma("GCC visibility push(default)")
#define MF_END_   _Pragma("GCC visibility pop")
#endif

#ifndef __cplusplus
/* Of 1 to 32 arguments; 1000, for which there is no list, of up to 64. */
#define MF_COUNT_(...) MF_COUNT_I_(__VA_ARGS__, MF_M8_, MF_M8_, MF_M8_, MF_M8_, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define MF_M8_ MF_MANY_, MF_MANY_, MF_MANY_, MF_MANY_, MF_MANY_, MF_MANY_, MF_MANY_, MF_MANY_
#define MF_MANY_ 1000
#define MF_O8_ 1, 1, 1, 1, 1, 1, 1, 1
#define MF_COUNT_I_(...) MF_COUNT_J_(__VA_ARGS__)
#define MF_COUNT_J_(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15, b16, b17, b18, b19, b20, b21, b22, b23, b24, b25, b26, b27, b28, b29, b30, b31, b32, n, ...) n
#define MF_E1000_(m, a, ...) __extension__ ({ _Static_assert(0, "more than 32 items are written here: hand an array to the function whose name ends in _n"); m(a); })
/* As MF_COUNT_, and 0 of nothing. Nothing has no comma, not even behind a macro that makes one,
 * but has when that macro is called with it. */
#define MF_LENGTH_(...) MF_IF_EMPTY_(MF_EMPTY_(__VA_ARGS__), 0, MF_COUNT_(__VA_ARGS__))
#define MF_EMPTY_(...)  MF_EMPTY_I_(MF_COMMA_(__VA_ARGS__), MF_COMMA_(MF_MAKE_COMMA_ __VA_ARGS__), MF_COMMA_(__VA_ARGS__ ()), MF_COMMA_(MF_MAKE_COMMA_ __VA_ARGS__ ()))
#define MF_EMPTY_I_(a, b, c, d) MF_EMPTY_P_(a, b, c, d)
#define MF_EMPTY_P_(a, b, c, d) MF_COMMA_(MF_EMPTY_##a##b##c##d##_)
#define MF_EMPTY_0001_ ,
#define MF_MAKE_COMMA_(...) ,
#define MF_COMMA_(...)  MF_COUNT_I_(__VA_ARGS__, MF_O8_, MF_O8_, MF_O8_, MF_O8_, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0)
#define MF_IF_EMPTY_(empty, ...) MF_IF_EMPTY_I_(empty, __VA_ARGS__)
#define MF_IF_EMPTY_I_(empty, ...) MF_IF_EMPTY_##empty##_(__VA_ARGS__)
#define MF_IF_EMPTY_0_(then, ...) __VA_ARGS__
#define MF_IF_EMPTY_1_(then, ...) then
#define MF_E1_(m, a) m(a)
#define MF_E2_(m, a, ...) m(a), MF_E1_(m, __VA_ARGS__)
#define MF_E3_(m, a, ...) m(a), MF_E2_(m, __VA_ARGS__)
#define MF_E4_(m, a, ...) m(a), MF_E3_(m, __VA_ARGS__)
#define MF_E5_(m, a, ...) m(a), MF_E4_(m, __VA_ARGS__)
#define MF_E6_(m, a, ...) m(a), MF_E5_(m, __VA_ARGS__)
#define MF_E7_(m, a, ...) m(a), MF_E6_(m, __VA_ARGS__)
#define MF_E8_(m, a, ...) m(a), MF_E7_(m, __VA_ARGS__)
#define MF_E9_(m, a, ...) m(a), MF_E8_(m, __VA_ARGS__)
#define MF_E10_(m, a, ...) m(a), MF_E9_(m, __VA_ARGS__)
#define MF_E11_(m, a, ...) m(a), MF_E10_(m, __VA_ARGS__)
#define MF_E12_(m, a, ...) m(a), MF_E11_(m, __VA_ARGS__)
#define MF_E13_(m, a, ...) m(a), MF_E12_(m, __VA_ARGS__)
#define MF_E14_(m, a, ...) m(a), MF_E13_(m, __VA_ARGS__)
#define MF_E15_(m, a, ...) m(a), MF_E14_(m, __VA_ARGS__)
#define MF_E16_(m, a, ...) m(a), MF_E15_(m, __VA_ARGS__)
#define MF_E17_(m, a, ...) m(a), MF_E16_(m, __VA_ARGS__)
#define MF_E18_(m, a, ...) m(a), MF_E17_(m, __VA_ARGS__)
#define MF_E19_(m, a, ...) m(a), MF_E18_(m, __VA_ARGS__)
#define MF_E20_(m, a, ...) m(a), MF_E19_(m, __VA_ARGS__)
#define MF_E21_(m, a, ...) m(a), MF_E20_(m, __VA_ARGS__)
#define MF_E22_(m, a, ...) m(a), MF_E21_(m, __VA_ARGS__)
#define MF_E23_(m, a, ...) m(a), MF_E22_(m, __VA_ARGS__)
#define MF_E24_(m, a, ...) m(a), MF_E23_(m, __VA_ARGS__)
#define MF_E25_(m, a, ...) m(a), MF_E24_(m, __VA_ARGS__)
#define MF_E26_(m, a, ...) m(a), MF_E25_(m, __VA_ARGS__)
#define MF_E27_(m, a, ...) m(a), MF_E26_(m, __VA_ARGS__)
#define MF_E28_(m, a, ...) m(a), MF_E27_(m, __VA_ARGS__)
#define MF_E29_(m, a, ...) m(a), MF_E28_(m, __VA_ARGS__)
#define MF_E30_(m, a, ...) m(a), MF_E29_(m, __VA_ARGS__)
#define MF_E31_(m, a, ...) m(a), MF_E30_(m, __VA_ARGS__)
#define MF_E32_(m, a, ...) m(a), MF_E31_(m, __VA_ARGS__)
#define MF_RANK_(...) (MF_LENGTH_(__VA_ARGS__) + 0 * (int)sizeof(struct { int at_most_8_numbers : MF_LENGTH_(__VA_ARGS__) <= MF_MAX_RANK ? 1 : -1; }))
#define MF_NUMBERS_(...) MF_IF_EMPTY_(MF_EMPTY_(__VA_ARGS__), 0, __VA_ARGS__)
#define MF_EACH_(m, ...)   MF_EACH_I_(MF_COUNT_(__VA_ARGS__), m, __VA_ARGS__)
#define MF_EACH_I_(n, ...) MF_EACH_P_(n, __VA_ARGS__)
#define MF_EACH_P_(n, ...) MF_E##n##_(__VA_ARGS__)
/* Structs, or of each m: a list and its length; also of none */
#define MF_STRUCTS_(type, ...)  (const type[]){ MF_IF_EMPTY_(MF_EMPTY_(__VA_ARGS__), { 0 }, __VA_ARGS__) }, MF_LENGTH_(__VA_ARGS__)
#define MF_ITEMS_(type, m, ...) (const type[]){ MF_IF_EMPTY_(MF_EMPTY_(__VA_ARGS__), { 0 }, MF_EACH_(m, __VA_ARGS__)) }, MF_LENGTH_(__VA_ARGS__)
#define MF_VALUES_(...)    MF_VALUES_I_(MF_EMPTY_(__VA_ARGS__), __VA_ARGS__)
#define MF_VALUES_I_(empty, ...) MF_VALUES_P_(empty, __VA_ARGS__)
#define MF_VALUES_P_(empty, ...) MF_VALUES_##empty##_(__VA_ARGS__)
#define MF_VALUES_0_(...)  (const mf_value[]){ MF_EACH_(mf_v, __VA_ARGS__) }, MF_COUNT_(__VA_ARGS__)
#define MF_VALUES_1_(...)  (const mf_value *)0, 0
#define MF_OTHER_VALUES_(...) MF_OTHER_VALUES_I_(MF_COMMA_(__VA_ARGS__), __VA_ARGS__)   /* but the first */
#define MF_OTHER_VALUES_I_(more, ...) MF_OTHER_VALUES_P_(more, __VA_ARGS__)
#define MF_OTHER_VALUES_P_(more, ...) MF_OTHER_VALUES_##more##_(__VA_ARGS__)
#define MF_OTHER_VALUES_0_(...)  MF_VALUES_1_(__VA_ARGS__)
#define MF_OTHER_VALUES_1_(first, ...) MF_VALUES_0_(__VA_ARGS__)
#define MF_FIRST_(first, ...) first
#define MF_REST_(first, ...)  __VA_ARGS__
#define MF_OPTIONS_(type, ...) &(type){ MF_REST_(__VA_ARGS__, .reserved_ = 0) }
/* True defaults, where zero is a sensible choice of the user's own (axis 0, b1 = 0): they are
 * written first and what the user says overrides them; positional options start after begin_. */
#define MF_QUIET_(type, e) __extension__ ({ _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Woverride-init\"") \
    type mf_q_ = (e); _Pragma("GCC diagnostic pop") mf_q_; })

/* What may stand for a value. The operand is named once, so nested calls stay small, and
 * evaluated left to right. 0x31e: the classes of types that are numbers, no pointers and no
 * structs. */
#define mf_v(x) MF_V_(x, "this argument")
#define MF_V_(x, name) __extension__ ({ __auto_type mf_t_ = (x); \
    _Static_assert(_Generic(mf_t_, mf_value: 1, mf_slice: 1, mf_module: 1, char *: 1, const char *: 1, default: 0x31e >> __builtin_classify_type(mf_t_) & 1), \
                   name " is no value, number, string or slice"); \
    mf_value mf_u_ = _Generic(mf_t_, mf_value: mf_same, \
    bool: mf_b, char: mf_of_int, signed char: mf_of_int, unsigned char: mf_of_int, short: mf_of_int, unsigned short: mf_of_int, \
    int: mf_of_int, unsigned: mf_of_uint, long: mf_of_long, unsigned long: mf_of_ulong, long long: mf_of_llong, \
    unsigned long long: mf_of_ullong, float: mf_of_float, double: mf_f, float _Complex: mf_of_complex, double _Complex: mf_of_complex, char *: mf_string, const char *: mf_string, \
    mf_slice: mf_index_slice, mf_module: mf_static, default: mf_no_value_)(mf_t_); mf_u_; })
#define MF_IS_SHAPE_(x, name) __extension__ ({ __auto_type mf_t_ = (x); \
    _Static_assert(_Generic(mf_t_, mf_shape: 1, default: 0), name " is no mf_shape, such as MF_SHAPE(2, 3)"); \
    _Generic(mf_t_, mf_shape: mf_t_, default: MF_SHAPE0); })
#endif
/* clang-format on */

#endif
