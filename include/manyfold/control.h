/* manyfold/control.h - control flow that stays in the program: branches, loops, scans, and
 * sequential maps, as jax.lax's.
 *
 * Carries and operands are trees of any shapes. All branches return the same tree, shapes and
 * dtypes; the body of a loop returns those that it takes. The C functions are traced once each,
 * whichever branch is taken. Control flow may stand in jitted, mapped and differentiated functions,
 * and may contain such functions; outside of functions it runs at once.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_TREE, MF_ERROR_SHAPE and
 * MF_ERROR_DTYPE where branches, or the carries of two iterations, differ: of the call, before
 * anything runs. */
#ifndef MANYFOLD_CONTROL_H
#define MANYFOLD_CONTROL_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/function.h>

MF_BEGIN_

/* ---- branches */
/* (), tree -> tree: lax.cond: yes(operand) if the predicate holds, else no(operand) */
mf_value mf_cond_n(mf_value predicate, mf_function yes, mf_function no, mf_value operand);
/* (), tree -> tree: lax.switch: branch number `index`, of the operand; the index is clamped:
 * mf_switch(index, operand, f, g, ...) */
mf_value mf_switch_n(mf_value index, const mf_function *branches, int count, mf_value operand);
/* ---- loops. The carry keeps its tree and types from one iteration to the next. A C number in the
 * initial carry takes the dtype that the body returns for it: the 0 of a sum of floats becomes
 * 0.0. */
/* tree -> tree: lax.while_loop: carry = body(carry) while test(carry), a bool scalar; test must not
 * write states. No reverse-mode derivative (MF_ERROR_ARGUMENT). */
mf_value mf_while_n(mf_function test, mf_function body, mf_value carry);
/* (), (), tree -> tree: lax.fori_loop: carry = body(i, carry) for i = lower, ..., upper - 1. Has a
 * reverse-mode derivative if the bounds are numbers, not traced values. */
mf_value mf_fori_loop_n(mf_value lower, mf_value upper, mf_function body, mf_value carry);
/* tree, tree of (n, ...) -> tuple: lax.scan: f(carry, x) returns (carry, y), for each x along the
 * leading axis of xs; the result is (carry, ys), where ys are the stacked y. xs may be None, for
 * .length iterations (at least 1). .reverse: from the last x to the first; ys stay in the order of
 * xs. .unroll: iterations of f in one iteration of the loop, 1 by default and at most 4096
 * (MF_ERROR_ARGUMENT); a remainder runs one by one. It seldom pays on the CPU: an LSTM was slower
 * with it. */
typedef struct mf_scan_options {
    int64_t length, unroll;
    bool reverse;
    mf_reserved reserved_;
} mf_scan_options;
mf_value mf_scan_opt(mf_function f, mf_value carry, mf_value xs, const mf_scan_options *o);
/* ---- maps */
/* tree of (n, ...) -> tree of (n, ...): lax.map: f of each slice along axis 0 of xs, one after the
 * other, stacked. .batch_size: that many slices at a time, by vmap (0: one). */
typedef struct mf_map_options {
    int64_t batch_size;
    mf_reserved reserved_;
} mf_map_options;
mf_value mf_map_opt(mf_function f, mf_value xs, const mf_map_options *o);
/* tree of (..., n, ...) -> tree of (..., n, ...): lax.associative_scan: the running combinations
 * along an axis (0 by default) by an associative f, in about 2 log2(n) steps. f(a, b) is called
 * with whole slices of elems, many elements along the axis, and must work element by element along
 * it. .reverse: from the end. */
typedef struct mf_associative_scan_options {
    bool reverse;
    int axis;
    mf_reserved reserved_;
} mf_associative_scan_options;
mf_value mf_associative_scan_opt(mf_function f, mf_value elems,
                                 const mf_associative_scan_options *o);
/* tree -> tree: lax.optimization_barrier: unchanged; no optimisation moves or merges across it */
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
