/* manyfold/arity.h - the types of C functions of 0 to 16 values, and what makes an mf_function of
 * each. Nothing here is for users, who say mf_fn and mf_closure. */
#ifndef MANYFOLD_ARITY_H
#define MANYFOLD_ARITY_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/base.h>

MF_BEGIN_

/* clang-format off */
#define MF_8_VALUES_ mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value
typedef mf_value (*mf_fn0)(void);
typedef mf_value (*mf_fn1)(mf_value);
typedef mf_value (*mf_fn2)(mf_value, mf_value);
typedef mf_value (*mf_fn3)(mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn4)(mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn5)(mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn6)(mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn7)(mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn8)(mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn9)(MF_8_VALUES_, mf_value);
typedef mf_value (*mf_fn10)(MF_8_VALUES_, mf_value, mf_value);
typedef mf_value (*mf_fn11)(MF_8_VALUES_, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn12)(MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn13)(MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn14)(MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn15)(MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fn16)(MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc0)(void *);
typedef mf_value (*mf_fc1)(void *, mf_value);
typedef mf_value (*mf_fc2)(void *, mf_value, mf_value);
typedef mf_value (*mf_fc3)(void *, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc4)(void *, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc5)(void *, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc6)(void *, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc7)(void *, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc8)(void *, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc9)(void *, MF_8_VALUES_, mf_value);
typedef mf_value (*mf_fc10)(void *, MF_8_VALUES_, mf_value, mf_value);
typedef mf_value (*mf_fc11)(void *, MF_8_VALUES_, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc12)(void *, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc13)(void *, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc14)(void *, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc15)(void *, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fc16)(void *, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm0)(mf_module);
typedef mf_value (*mf_fm1)(mf_module, mf_value);
typedef mf_value (*mf_fm2)(mf_module, mf_value, mf_value);
typedef mf_value (*mf_fm3)(mf_module, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm4)(mf_module, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm5)(mf_module, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm6)(mf_module, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm7)(mf_module, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm8)(mf_module, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm9)(mf_module, MF_8_VALUES_, mf_value);
typedef mf_value (*mf_fm10)(mf_module, MF_8_VALUES_, mf_value, mf_value);
typedef mf_value (*mf_fm11)(mf_module, MF_8_VALUES_, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm12)(mf_module, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm13)(mf_module, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm14)(mf_module, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm15)(mf_module, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fm16)(mf_module, MF_8_VALUES_, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value, mf_value);
typedef mf_value (*mf_fma)(mf_module, const mf_value *, int);
typedef void (*mf_fm)(void); /* any of them */
mf_function mf_fn_0(mf_fn0 f);
mf_function mf_fn_1(mf_fn1 f);
mf_function mf_fn_2(mf_fn2 f);
mf_function mf_fn_3(mf_fn3 f);
mf_function mf_fn_4(mf_fn4 f);
mf_function mf_fn_5(mf_fn5 f);
mf_function mf_fn_6(mf_fn6 f);
mf_function mf_fn_7(mf_fn7 f);
mf_function mf_fn_8(mf_fn8 f);
mf_function mf_fn_9(mf_fn9 f);
mf_function mf_fn_10(mf_fn10 f);
mf_function mf_fn_11(mf_fn11 f);
mf_function mf_fn_12(mf_fn12 f);
mf_function mf_fn_13(mf_fn13 f);
mf_function mf_fn_14(mf_fn14 f);
mf_function mf_fn_15(mf_fn15 f);
mf_function mf_fn_16(mf_fn16 f);
mf_function mf_fn_same(mf_function f);
mf_function mf_fn_module(mf_module m);
mf_function mf_closure_0(mf_fc0 f, const void *context, size_t size);
mf_function mf_closure_1(mf_fc1 f, const void *context, size_t size);
mf_function mf_closure_2(mf_fc2 f, const void *context, size_t size);
mf_function mf_closure_3(mf_fc3 f, const void *context, size_t size);
mf_function mf_closure_4(mf_fc4 f, const void *context, size_t size);
mf_function mf_closure_5(mf_fc5 f, const void *context, size_t size);
mf_function mf_closure_6(mf_fc6 f, const void *context, size_t size);
mf_function mf_closure_7(mf_fc7 f, const void *context, size_t size);
mf_function mf_closure_8(mf_fc8 f, const void *context, size_t size);
mf_function mf_closure_9(mf_fc9 f, const void *context, size_t size);
mf_function mf_closure_10(mf_fc10 f, const void *context, size_t size);
mf_function mf_closure_11(mf_fc11 f, const void *context, size_t size);
mf_function mf_closure_12(mf_fc12 f, const void *context, size_t size);
mf_function mf_closure_13(mf_fc13 f, const void *context, size_t size);
mf_function mf_closure_14(mf_fc14 f, const void *context, size_t size);
mf_function mf_closure_15(mf_fc15 f, const void *context, size_t size);
mf_function mf_closure_16(mf_fc16 f, const void *context, size_t size);

#ifndef __cplusplus
#define MF_FUNCTIONS_ mf_function: mf_fn_same, mf_module: mf_fn_module, \
    mf_fn0: mf_fn_0, mf_fn1: mf_fn_1, mf_fn2: mf_fn_2, mf_fn3: mf_fn_3, mf_fn4: mf_fn_4, mf_fn5: mf_fn_5, \
    mf_fn6: mf_fn_6, mf_fn7: mf_fn_7, mf_fn8: mf_fn_8, mf_fn9: mf_fn_9, mf_fn10: mf_fn_10, mf_fn11: mf_fn_11, \
    mf_fn12: mf_fn_12, mf_fn13: mf_fn_13, mf_fn14: mf_fn_14, mf_fn15: mf_fn_15, mf_fn16: mf_fn_16
#define MF_CLOSURES_  \
    mf_fc0: mf_closure_0, mf_fc1: mf_closure_1, mf_fc2: mf_closure_2, mf_fc3: mf_closure_3, mf_fc4: mf_closure_4, \
    mf_fc5: mf_closure_5, mf_fc6: mf_closure_6, mf_fc7: mf_closure_7, mf_fc8: mf_closure_8, mf_fc9: mf_closure_9, \
    mf_fc10: mf_closure_10, mf_fc11: mf_closure_11, mf_fc12: mf_closure_12, mf_fc13: mf_closure_13, mf_fc14: mf_closure_14, \
    mf_fc15: mf_closure_15, mf_fc16: mf_closure_16
/* of a module's function: how many inputs it takes; MF_ANY_NUMBER_ of one that gets them as an
 * array */
#define MF_ANY_NUMBER_ (-1)
#define MF_INPUTS_ \
    mf_fma: MF_ANY_NUMBER_, mf_fm0: 0, mf_fm1: 1, mf_fm2: 2, mf_fm3: 3, mf_fm4: 4, mf_fm5: 5, mf_fm6: 6, mf_fm7: 7, mf_fm8: 8, \
    mf_fm9: 9, mf_fm10: 10, mf_fm11: 11, mf_fm12: 12, mf_fm13: 13, mf_fm14: 14, mf_fm15: 15, mf_fm16: 16
typedef mf_function (*mf_no_function_)(); /* what a wrong argument is called as, behind the assertion that tells of it */
#define MF_IS_(f, ...) \
    !__builtin_types_compatible_p(__typeof__(_Generic((f), __VA_ARGS__, default: (mf_no_function_)0)), mf_no_function_)
#endif
/* clang-format on */

MF_END_

#ifdef __cplusplus
/* clang-format off */
inline mf_function mf_fn_of_(mf_fn0 f) { return mf_fn_0(f); }
inline mf_function mf_fn_of_(mf_fn1 f) { return mf_fn_1(f); }
inline mf_function mf_fn_of_(mf_fn2 f) { return mf_fn_2(f); }
inline mf_function mf_fn_of_(mf_fn3 f) { return mf_fn_3(f); }
inline mf_function mf_fn_of_(mf_fn4 f) { return mf_fn_4(f); }
inline mf_function mf_fn_of_(mf_fn5 f) { return mf_fn_5(f); }
inline mf_function mf_fn_of_(mf_fn6 f) { return mf_fn_6(f); }
inline mf_function mf_fn_of_(mf_fn7 f) { return mf_fn_7(f); }
inline mf_function mf_fn_of_(mf_fn8 f) { return mf_fn_8(f); }
inline mf_function mf_fn_of_(mf_fn9 f) { return mf_fn_9(f); }
inline mf_function mf_fn_of_(mf_fn10 f) { return mf_fn_10(f); }
inline mf_function mf_fn_of_(mf_fn11 f) { return mf_fn_11(f); }
inline mf_function mf_fn_of_(mf_fn12 f) { return mf_fn_12(f); }
inline mf_function mf_fn_of_(mf_fn13 f) { return mf_fn_13(f); }
inline mf_function mf_fn_of_(mf_fn14 f) { return mf_fn_14(f); }
inline mf_function mf_fn_of_(mf_fn15 f) { return mf_fn_15(f); }
inline mf_function mf_fn_of_(mf_fn16 f) { return mf_fn_16(f); }
inline mf_function mf_closure_of_(mf_fc0 f, const void *context, size_t size) { return mf_closure_0(f, context, size); }
inline mf_function mf_closure_of_(mf_fc1 f, const void *context, size_t size) { return mf_closure_1(f, context, size); }
inline mf_function mf_closure_of_(mf_fc2 f, const void *context, size_t size) { return mf_closure_2(f, context, size); }
inline mf_function mf_closure_of_(mf_fc3 f, const void *context, size_t size) { return mf_closure_3(f, context, size); }
inline mf_function mf_closure_of_(mf_fc4 f, const void *context, size_t size) { return mf_closure_4(f, context, size); }
inline mf_function mf_closure_of_(mf_fc5 f, const void *context, size_t size) { return mf_closure_5(f, context, size); }
inline mf_function mf_closure_of_(mf_fc6 f, const void *context, size_t size) { return mf_closure_6(f, context, size); }
inline mf_function mf_closure_of_(mf_fc7 f, const void *context, size_t size) { return mf_closure_7(f, context, size); }
inline mf_function mf_closure_of_(mf_fc8 f, const void *context, size_t size) { return mf_closure_8(f, context, size); }
inline mf_function mf_closure_of_(mf_fc9 f, const void *context, size_t size) { return mf_closure_9(f, context, size); }
inline mf_function mf_closure_of_(mf_fc10 f, const void *context, size_t size) { return mf_closure_10(f, context, size); }
inline mf_function mf_closure_of_(mf_fc11 f, const void *context, size_t size) { return mf_closure_11(f, context, size); }
inline mf_function mf_closure_of_(mf_fc12 f, const void *context, size_t size) { return mf_closure_12(f, context, size); }
inline mf_function mf_closure_of_(mf_fc13 f, const void *context, size_t size) { return mf_closure_13(f, context, size); }
inline mf_function mf_closure_of_(mf_fc14 f, const void *context, size_t size) { return mf_closure_14(f, context, size); }
inline mf_function mf_closure_of_(mf_fc15 f, const void *context, size_t size) { return mf_closure_15(f, context, size); }
inline mf_function mf_closure_of_(mf_fc16 f, const void *context, size_t size) { return mf_closure_16(f, context, size); }
/* clang-format on */
#endif

#endif
