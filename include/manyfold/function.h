/* manyfold/function.h - functions as values: what mf_function is made of, closures, and calls. The
 * transforms are in manyfold/transforms.h, control flow in manyfold/control.h.
 *
 * Where a function takes an mf_function, a C function of up to 16 mf_values that gives one, or a
 * module, may stand instead, in C++ a lambda too. Functions are interned: none is freed by hand,
 * and equal ones share what was traced of them. Shapes: what the function takes; a leaf of the
 * wrong one is the result's error. Any thread. Errors: MF_ERROR_ARGUMENT for a handle that is no
 * function, or another number of arguments. */
#ifndef MANYFOLD_FUNCTION_H
#define MANYFOLD_FUNCTION_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/arity.h>
#include <manyfold/tree.h>

MF_BEGIN_

/* trees -> tree: f of the arguments, at most 16. Returns when the work is queued; who reads the
 * result waits for it. */
mf_value mf_call_n(mf_function f, const mf_value *arguments, int count);
/* values -> function: f with its first arguments given. They are kept, and compared by identity. */
mf_function mf_partial_n(mf_function f, const mf_value *first, int count);
/* The same function by a handle that no scope owns, each time the same one: for what outlives the
 * scope, and for contexts of closures, which compare by their bytes. Lives as long as the process */
mf_function mf_function_keep_n(mf_function f);
/* A transform of one's own: a function of any number of arguments, traced and compiled as
 * call(context, f, arguments, count), which calls f. The context's bytes are copied; with call
 * and f they are its identity, as a closure's are. name, or NULL, in messages: "name(f)". */
typedef mf_value (*mf_decorator)(const void *context, mf_function f, const mf_value *arguments,
                                 int count);
mf_function mf_decorate_n(mf_function f, const char *name, mf_decorator call, const void *context,
                          size_t size);
#ifndef __cplusplus
/* clang-format off */
#define mf_fn(f) MF_FN_(f, "this")
#define MF_FN_(f, name) __extension__ ({ \
    __auto_type mf_t_ = (f); \
    _Static_assert(MF_IS_(mf_t_, MF_FUNCTIONS_), \
                   name " is no mf_function, no mf_module and no C function that takes " \
                   "up to 16 mf_values and gives one"); \
    _Generic(mf_t_, MF_FUNCTIONS_, default: (mf_no_function_)0)(mf_t_); })
/* clang-format on */
/* A function whose first parameter is void *context. The context's bytes are copied; the
 * identity, and with it the cache, is the function and those bytes. Pointers inside compare as
 * pointers, and what they point to must not change. Padding between members counts: a struct
 * that has some is traced anew when the padding differs, so leave none, or memset the struct to
 * 0 before its members are set. */
/* clang-format off */
#define MF_CONTEXT_SIZE_(...) __extension__ ({ \
    _Static_assert(_Generic((__VA_ARGS__), void *: 0, const void *: 0, default: 1), \
                   "the context is copied: point to it by its own type, for a void * does not " \
                   "say how large it is"); \
    sizeof *(__VA_ARGS__); })
#define mf_closure(f, ...) __extension__ ({ \
    _Static_assert(MF_IS_(f, MF_CLOSURES_), \
                   "a closure's C function takes a void * (its context), then up to 16 " \
                   "mf_values, and gives an mf_value"); \
    _Generic((f), MF_CLOSURES_, default: (mf_no_function_)0)(f, __VA_ARGS__, \
                                                       MF_CONTEXT_SIZE_(__VA_ARGS__)); })
/* clang-format on */
#define mf_decorate(f, name, call, ...) \
    mf_decorate_n(mf_fn(f), name, call, __VA_ARGS__, MF_CONTEXT_SIZE_(__VA_ARGS__))
#endif

MF_END_

#ifdef __cplusplus
inline mf_function mf_fn(mf_function f) { return f; }
inline mf_function::mf_function(mf_module module) : mf_function(mf_fn_module(module)) {}
template <class... A, class>
inline mf_function::mf_function(mf_value (*f)(A...)) : mf_function(mf_fn_of_(f))
{}
/* A lambda, or another function object that can be copied bit by bit: a closure over what it has
 * captured, whose bytes are its identity (see mf_closure). One that captures nothing is a function
 * of C. The call operator is const, takes mf_values and gives one. */
template <class F, class... A> inline mf_value mf_run_object_(void *object, A... a)
{
    return (*static_cast<const F *>(object))(a...);
}
template <class F, class... A>
inline mf_function mf_fn_of_object_(const F &f, mf_value (F::*)(A...) const)
{
    static_assert(__is_trivially_copyable(F), "what a lambda captures is copied bit by bit");
    if constexpr (__is_empty(F))
        return mf_fn_of_(static_cast<mf_value (*)(A...)>(f));
    else
        return mf_closure_of_(static_cast<mf_value (*)(void *, A...)>(mf_run_object_<F, A...>), &f,
                              sizeof f);
}
template <class F, class>
inline mf_function::mf_function(const F &object)
    : mf_function(mf_fn_of_object_(object, &F::operator()))
{}
template <class C, class... A>
inline mf_function mf_closure(mf_value (*f)(void *, A...), const C *context)
{
    static_assert(__is_trivially_copyable(C), "a closure's context is copied bit by bit");
    return mf_closure_of_(f, context, sizeof *context);
}
template <class C>
inline mf_function mf_decorate(mf_function f, const char *name, mf_decorator call, const C *context)
{
    static_assert(__is_trivially_copyable(C), "a decorator's context is copied bit by bit");
    return mf_decorate_n(f, name, call, context, sizeof *context);
}
#endif

#include <manyfold/lift/function.h>

#endif
