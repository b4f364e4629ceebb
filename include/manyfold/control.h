/* manyfold/control.h - control flow that stays in the program: branches, loops, scans, and maps one
 * after the other, as jax.lax's.
 *
 * Carries and operands are trees of any shapes; all branches give the same tree, shapes and dtypes,
 * and a body those that it takes. C functions are traced once, whatever branch is taken. All may
 * stand in jitted, mapped and differentiated functions, and take such functions.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_TREE, MF_ERROR_SHAPE and
 * MF_ERROR_DTYPE where branches or rounds differ, of the call. */
#ifndef MANYFOLD_CONTROL_H
#define MANYFOLD_CONTROL_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* (), tree -> tree: lax.cond: yes(operand) or no(operand), of which the predicate picks one */
mf_value mf_cond_n(mf_value predicate, mf_function yes, mf_function no, mf_value operand);
/* (), tree -> tree: lax.switch: branch number `index` of the operand; the index is clamped.
 * mf_switch(index, operand, f, g, ...) */
mf_value mf_switch_n(mf_value index, const mf_function *branches, int count, mf_value operand);
/* Loops: the carry has the same tree and types in each round. A C number in it becomes of the dtype
 * that the body makes of it: 0 in a sum of floats is 0.0. */
/* tree -> tree: lax.while_loop: carry = body(carry) while test(carry), a bool scalar that writes no
 * state. It has no reverse mode. */
mf_value mf_while_n(mf_function test, mf_function body, mf_value carry);
/* (), (), tree -> tree: lax.fori_loop: carry = body(i, carry) for i from lower to below upper. Of
 * numbers it has a reverse mode, of values that are traced none. */
mf_value mf_fori_loop_n(mf_value lower, mf_value upper, mf_function body, mf_value carry);
/* tree, tree of (n, ...) -> tuple: lax.scan: f(carry, x) gives (carry, y), for each x along the
 * leading axis of xs; the result is (carry, ys), the ys stacked. length: needed, and at least 1,
 * when xs is none. unroll: so many rounds, 4096 at most, are one round of the loop (1 unless said);
 * what is left of a length goes one by one. An LSTM was slower with it on the CPU.
 * MF_ERROR_ARGUMENT beyond */
typedef struct mf_scan_options {
    int64_t length, unroll;
    bool reverse;
    mf_reserved reserved_;
} mf_scan_options;
mf_value mf_scan_opt(mf_function f, mf_value carry, mf_value xs, const mf_scan_options *o);
/* tree of (n, ...) -> tree of (n, ...): lax.map: f of each slice along axis 0 of xs, one after the
 * other, stacked again; .batch_size: so many at a time, vmapped. */
typedef struct mf_map_options {
    int64_t batch_size;
    mf_reserved reserved_;
} mf_map_options;
mf_value mf_map_opt(mf_function f, mf_value xs, const mf_map_options *o);
/* tree of (..., n, ...) -> tree of (..., n, ...): lax.associative_scan: along the axis the
 * combinations of all elements so far, in about 2 log2(n) steps that f(a, b) takes as a whole: a
 * and b are trees like elems with many elements along the axis, so f works elementwise over it.
 * .reverse: from the end. */
typedef struct mf_associative_scan_options {
    bool reverse;
    int axis;
    mf_reserved reserved_;
} mf_associative_scan_options;
mf_value mf_associative_scan_opt(mf_function f, mf_value elems,
                                 const mf_associative_scan_options *o);
/* tree -> tree: as it is; no pass merges or rewrites across it */
mf_value mf_optimization_barrier(mf_value tree);

#ifndef __cplusplus
#define mf_switch(index, operand, ...)                                                        \
    mf_switch_n(MF_V_(index, "mf_switch: index"), MF_ITEMS_(mf_function, mf_fn, __VA_ARGS__), \
                MF_V_(operand, "mf_switch: operand"))
#endif

MF_END_

#ifdef __cplusplus
template <class... F> inline mf_value mf_switch(mf_value index, mf_value operand, F... f)
{
    const mf_function branches[] = { mf_function(f)... };
    return mf_switch_n(index, branches, (int)sizeof...(F), operand);
}
#endif

#include <manyfold/lift/control.h>

#endif
