/* manyfold/function.h - functions as values: how an mf_function is made, closures, and calls.
 * Transforms (jit, pmap, grad, ...) are in manyfold/transforms.h, control flow in
 * manyfold/control.h.
 *
 * Where a parameter is an mf_function, you may pass an mf_function, a module, or a C function that
 * takes up to 16 mf_values and returns one; in C++ also a lambda. Functions are interned: they are
 * never freed, and equal ones share their traces and compiled programs. A function takes the shapes
 * that it was written for; what does not fit makes the result of the call an error. Any thread.
 * Errors: MF_ERROR_ARGUMENT for a handle that is no function, or the wrong number of arguments. */
#ifndef MANYFOLD_FUNCTION_H
#define MANYFOLD_FUNCTION_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/arity.h>
#include <manyfold/tree.h>

MF_BEGIN_

/* trees -> tree: mf_call(f, x, y): calls f with at most 16 arguments. Returns as soon as the work
 * is queued; whoever reads the result waits for it. */
mf_value mf_call_n(mf_function f, const mf_value *arguments, int count);
/* values -> function: functools.partial: f with its first arguments fixed. It keeps these arguments
 * alive, and they compare by identity. */
mf_function mf_partial_n(mf_function f, const mf_value *first, int count);
/* A handle of the same function that no scope owns and that lives as long as the process; the same
 * one each time. For functions that outlive the scope, and for closure contexts, which compare by
 * their bytes. */
mf_function mf_function_keep_n(mf_function f);
/* A transform of your own: the result is a function of any number of arguments that is traced and
 * compiled as call(context, f, arguments, count); call normally calls f. The context's bytes are
 * copied; they, `call` and f are the function's identity, as for mf_closure. name appears in
 * messages, as "name(f)"; it may be NULL. */
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
/* mf_closure(f, &context): a function of f's values, where f is a C function whose first parameter
 * is void *context:
 *     struct scale { double by; };
 *     static mf_value scaled(void *c, mf_value x) { return mf_mul(x, ((struct scale *)c)->by); }
 *     mf_function twice = mf_closure(scaled, &(struct scale){ 2 });
 * The context's bytes are copied; f and these bytes are the identity of the closure, and so the key
 * of its cached programs. Pointers in the context compare as pointers, and what they point to must
 * not change. Padding counts too: a struct that has padding is traced again whenever the padding
 * differs, so avoid it, or memset the struct to 0 before setting its members. */
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
/* A lambda, or another function object that is trivially copyable: a closure whose context is what
 * it captures (see mf_closure). One that captures nothing is a plain C function. Its call operator
 * is const, takes mf_values and returns one. */
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
