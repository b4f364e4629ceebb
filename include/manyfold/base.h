/* manyfold/base.h - handles, status codes, dtypes, shapes, scopes, errors, and C numbers and
 * strings as values.
 *
 * What follows holds for the whole library; the other headers say only what differs.
 *   Shapes open a function's comment: arguments -> result. `(m, k), (k, n) -> (m, n)` takes two
 *   values of these shapes and returns one. "..." is any number of dimensions; () is a scalar or a
 *   C number; x is any array, and a result of the same shape; "tree" is any tree of arrays; "any"
 *   is a value of any kind; "-> C" means that the result is an ordinary C type, not a value.
 *   Ownership: every handle that a function returns belongs to the innermost open scope of the
 *   calling thread and is released when that scope closes. Nothing is freed by hand.
 *   Errors: an error is a value. A function that is given an error returns that error. Functions
 *   whose result is not a value return an mf_status, or NaN, 0 or NULL, and the error is remembered
 *   for mf_exit_status. The library never aborts the process.
 *   Threads: every function may be called from any thread at any time. A scope, and the handles
 *   that it owns, are used only by the thread that opened it. A thread needs 128 KiB of stack; on a
 *   thread with less than 1 MiB the computation itself runs on the library's threads. Calls nested
 *   within one another under transforms may go as deep as the stack allows, and at most 256 deep;
 *   trees, filters, modules, policies and wrapped functions may nest 256 deep. Beyond that the
 *   result is an error.
 *   Fork: the library's threads exist only in the parent, so in the child of a process that has
 *   called the library every function fails at once. The child may exit in any way, or exec; it
 *   must not return from a callback in which it was forked. A process that has loaded the library
 *   but not called it can fork freely.
 *   Exit: the process may exit at any time, on any thread, even in a callback: work that is running
 *   on the library's threads is waited for, queued work is dropped. dlclose does not unload the
 *   library.
 *   Signals: the library's threads block every signal except SIGPROF and faults, and its calls
 *   resume after a handler has run. A signal handler must not call the library.
 *   Cancellation: pthread_cancel takes effect once the thread has returned from the library.
 *   Callbacks must return: do not leave one by pthread_exit, longjmp or an exception.
 *   Compilers: gcc or clang (statement expressions, __auto_type, the cleanup attribute). */
#ifndef MANYFOLD_BASE_H
#define MANYFOLD_BASE_H
/* A wrong argument is reported at the caller's line, without a trace through the macros. */
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MF_MAX_RANK 8 /* the most dimensions that an array can have */

#include <manyfold/macros.h>

MF_BEGIN_

/* ---- handles. Small structs that are copied freely; { 0 } is unset.
 * What flows through a program: an array, a traced value (tracer), a tree, None, a static value or
 * an error */
#ifdef __cplusplus
struct mf_slice;
struct mf_value { /* the same 64 bits; numbers and strings convert implicitly */
    uint64_t handle;
    mf_value() = default;
    inline mf_value(int number);
    inline mf_value(long long number);
    inline mf_value(double number);
    inline mf_value(const char *string);
    inline mf_value(struct mf_slice slice);
    inline mf_value operator[](mf_value index) const; /* mf_get */
};
#else
typedef struct mf_value {
    uint64_t handle;
} mf_value;
#endif
/* A module: named states, other members and submodules, and a C function to call (state.h) */
typedef struct mf_module {
    uint64_t handle;
} mf_module;
/* A function as a value: what mf_pmap and the other transforms return; interned, so never freed */
#ifdef __cplusplus
extern "C++" {
template <class... T> struct mf_all_ {};
template <class T> struct mf_is_value_ {};
template <> struct mf_is_value_<mf_value> {
    typedef int yes;
};
template <class F, class... A>
mf_all_<typename mf_is_value_<A>::yes...> mf_takes_values_(mf_value (F::*)(A...) const);
struct mf_function { /* the same 64 bits; modules, C functions and lambdas convert implicitly */
    uint64_t handle;
    mf_function() = default;
    inline mf_function(mf_module module);
    template <class... A, class = mf_all_<typename mf_is_value_<A>::yes...>>
    inline mf_function(mf_value (*f)(A...));
    template <class F, class = decltype(mf_takes_values_(&F::operator()))>
    inline mf_function(const F &object);
};
}
#else
typedef struct mf_function {
    uint64_t handle;
} mf_function;
#endif
/* A mutable cell that holds a tree (state.h) */
typedef struct mf_state {
    uint64_t handle;
} mf_state;
typedef struct mf_filter {
    uint64_t handle;
} mf_filter; /* a predicate on states (state.h) */
typedef struct mf_device {
    uint64_t handle;
} mf_device; /* device.h */
typedef struct mf_optimizer {
    uint64_t handle;
} mf_optimizer; /* optim.h */
typedef struct mf_scope mf_scope;

/* An axis: a number (0 is the first axis, a negative one counts from the end), MF_NONE, MF_ALL, or
 * a tree of axes made by mf_axes or mf_axes_dict. Trees of axes are interned and live as long as
 * the process. */
typedef int64_t mf_axis;
#define MF_NONE ((mf_axis)INT64_MIN)    /* as an axis: not mapped; as a value: None */
#define MF_ALL ((mf_axis)INT64_MIN + 1) /* reductions: every axis */

typedef enum mf_status {
    MF_OK = 0,
    MF_ERROR_SHAPE,   /* shapes that do not fit together, or an invalid shape */
    MF_ERROR_DTYPE,   /* a dtype that the function does not accept */
    MF_ERROR_AXIS,    /* an axis or index out of bounds or repeated; an unbound axis name */
    MF_ERROR_DEVICE,  /* no such device or backend, or arrays committed to different ones */
    MF_ERROR_TREE,    /* trees of different structure; no such key or item */
    MF_ERROR_DONATED, /* an array whose memory was donated or deleted */
    MF_ERROR_SCOPE,   /* a handle whose scope has closed, or that was released */
    MF_ERROR_TRACER,  /* C code read the number of a traced value, or used it after its trace */
    MF_ERROR_IO,      /* a file cannot be read or written, or its contents are invalid */
    MF_ERROR_MEMORY,  /* out of memory */
    MF_ERROR_PEER,    /* another process of the job failed, is late or computes something else */
    MF_ERROR_ARGUMENT /* any other invalid argument */
} mf_status;
/* Element types: JAX's, with the same widths */
typedef enum mf_dtype {
    MF_DTYPE_DEFAULT = 0, /* the default of the function, which its comment states */
    MF_BOOL,
    MF_I8,
    MF_I16,
    MF_I32,
    MF_I64,
    MF_U8,
    MF_U16,
    MF_U32,
    MF_U64,
    MF_F16,
    MF_BF16,
    MF_F32,
    MF_F64,
    MF_C64,
    MF_C128,
    MF_KEY /* a random key: two 32-bit words (random.h) */
} mf_dtype;
/* Padding of windows and convolutions. The last three are for convolution layers only (nn.h). */
typedef enum mf_padding {
    MF_PADDING_DEFAULT = 0, /* the default of the function, which its comment states */
    MF_SAME,                /* so that the result has the input's size, divided by the stride */
    MF_VALID,               /* none */
    MF_CIRCULAR,            /* with the elements of the opposite side */
    MF_REFLECT,             /* with the elements mirrored at the edge */
    MF_CAUSAL               /* in front only, so that no output depends on later inputs */
} mf_padding;

/* A short list of integers, and a shape, both passed by value, so there is no pointer to manage. A
 * list of one number is MF_INTS(0): a plain 0, as in .donate_argnums = 0, is an empty list. */
typedef struct mf_ints {
    const struct mf_write_MF_INTS_ *tag_;
    int count;
    int64_t at[MF_MAX_RANK];
} mf_ints;
typedef struct mf_shape {
    int rank;
    int64_t dims[MF_MAX_RANK];
} mf_shape;
/* Points to memory of the library that lives as long as the process */
typedef struct mf_device_list {
    int count;
    const mf_device *at;
} mf_device_list;
/* Python's start:stop:step. Step 0 means 1; ::-1 is { true, MF_END, MF_NONE, -1 } */
typedef struct mf_slice {
    bool is_slice;
    int64_t start, stop, step;
} mf_slice;
#define MF_END INT64_MAX                    /* as the stop of a slice: to the end */
#define MF_SHAPE0 ((mf_shape){ .rank = 0 }) /* the shape of a scalar */

#ifndef __cplusplus
/* At most MF_MAX_RANK numbers; more do not compile. MF_SHAPE() is the shape of a scalar. */
#define MF_INTS(...) \
    ((mf_ints){ .count = MF_RANK_(__VA_ARGS__), .at = { MF_NUMBERS_(__VA_ARGS__) } })
#define MF_SHAPE(...) \
    ((mf_shape){ .rank = MF_RANK_(__VA_ARGS__), .dims = { MF_NUMBERS_(__VA_ARGS__) } })
#endif
#ifdef __cplusplus
#define MF_DEFAULT_(v) = v
#else
#define MF_DEFAULT_(v)
#endif
typedef char mf_reserved; /* the last field of every options struct; leave it unset */

/* ---- scopes. A scope owns every handle that its thread makes while it is the innermost one, and
 * releases them when it closes. Each thread has an outermost scope that lasts as long as the
 * thread. */
mf_scope *mf_scope_open(void);        /* becomes the innermost scope of the calling thread */
void mf_scope_close(mf_scope *scope); /* also closes scopes opened inside it and left open */
void mf_scope_close_at_(mf_scope **scope);
/* MF_SCOPE; as the first statement of a block: opens a scope that closes when the block is left, in
 * whatever way (end, break, continue, return, goto). */
#define MF_SCOPE \
    mf_scope *mf_scope_here_ __attribute__((cleanup(mf_scope_close_at_), unused)) = mf_scope_open()
/* any -> any: moves v to the scope outside the innermost one, for a function's result: `return
 * mf_escape(v);` in a block with MF_SCOPE */
mf_value mf_escape(mf_value v);
/* any -> *variable: *variable = v, for a variable that outlives the innermost scope. The new handle
 * gets the owner of the old one. The old handle ends at once, and with it every plain C copy of it:
 * after `b = a`, a and b are one handle, and using the ended one is an error that names this line.
 * Initialise the variable in the scope that should own it:
 *     mf_value best = mf_none();
 *     for (int i = 0; i < steps; i++) {
 *         MF_SCOPE;
 *         mf_value loss = mf_call(step, batch);
 *         if (i == 0 || mf_item_f64(loss) < mf_item_f64(best))
 *             mf_assign(&best, loss);
 *     }
 * An unset variable ({ 0 }, such as a static one) has no owner yet; a value assigned to it lives
 * until the thread ends, mf_clear, or the next mf_assign. */
void mf_assign(mf_value *variable, mf_value v);
void mf_clear(mf_value *variable); /* ends the handle and makes the variable unset */
/* any -> any: a handle that no scope owns, for heap structures and for other threads. It lives
 * until mf_release. */
mf_value mf_keep(mf_value v);
/* any -> nothing: ends a handle of mf_keep's */
void mf_release(mf_value v);

/* ---- errors. An error is handled once its message, status or place has been asked for (mf_error,
 * mf_error_status, mf_error_place, mf_first_error) or it has been printed. Reading a number out of
 * it, waiting for it and passing it on do not handle it. Handling an error also handles those that
 * follow from it and those that were combined with it into one result. */
/* any -> C: whether v is an error, or a tree that contains one. Waits */
bool mf_is_error(mf_value v);
/* any -> C: the error's message, or NULL when there is none; handles it. Waits. Lives as long as
 * v */
const char *mf_error(mf_value v);
/* any -> C: the error's status, or MF_OK when there is none; handles it. Waits */
mf_status mf_error_status(mf_value v);
/* -> error: a new error with a message formatted as by printf; its place is the caller's line */
mf_value mf_make_error(mf_status status, const char *format, ...);
/* tree -> C: waits until the whole tree has been computed; MF_OK, or the error's status */
mf_status mf_block_until_ready(mf_value v);
/* Waits for all work, prints the first error that nobody has handled, and returns EXIT_FAILURE if
 * there is one, else EXIT_SUCCESS. Meant as `return mf_exit_status();` at the end of main */
int mf_exit_status(void);
/* The first error, on any thread, that nobody has handled, and in *message its message; handles it.
 * MF_OK and NULL when there is none */
mf_status mf_first_error(const char **message);
/* any -> C: where the user's program made the error, "file:line" or "symbol+offset"; NULL when
 * unknown */
const char *mf_error_place(mf_value v);
/* Called for an error that is destroyed before anybody has handled it. The default, which NULL
 * restores, prints one line on stderr, for the first error of each place only. Called from any
 * thread. mf_first_error and mf_exit_status still know of the error. */
typedef void (*mf_error_hook)(mf_status status, const char *message, void *context);
void mf_set_error_hook(mf_error_hook hook, void *context);

/* MF_LAYER; as the first statement of a public function of a library written on top of this one:
 * errors made inside it name the line that called the function, and all errors of one call are
 * handled together. */
typedef struct mf_layer {
    bool entered;
    int cancel;
    struct mf_error_object *error;
} mf_layer;
mf_layer mf_layer_enter_(const void *place);
void mf_layer_leave_(const mf_layer *outer);
#define MF_LAYER                                                                                 \
    mf_layer mf_layer_here_ __attribute__((cleanup(mf_layer_leave_), unused)) = mf_layer_enter_( \
        __builtin_return_address(0))

/* ---- numbers and strings as values. In C a number may be written wherever a function takes a
 * value: mf_mul(x, 2). The functions here are for the other places: mf_value v = mf_f(0.5); and
 * options that are values: .fill_value = mf_i(0), for a plain 0 leaves such an option unset. */
/* -> (): an f32, weakly typed as in JAX: it adopts the dtype of the other operand */
mf_value mf_f(double number);
/* -> (): a weakly typed complex number; in C, 1.0 + 2.0 * I of <complex.h> also works */
mf_value mf_c(double re, double im);
/* -> (): weakly typed; i32, or i64 for a number that i32 does not hold. mf_i(MF_NONE) is None */
mf_value mf_i(int64_t number);
/* -> (): a bool */
mf_value mf_b(bool truth);
/* -> static: what a traced function may branch on; strings compare by their text, modules by
 * identity */
mf_value mf_string(const char *string);
mf_value mf_static(mf_module module);
/* -> static: the bytes are copied; equal bytes are equal statics */
mf_value mf_static_bytes(const void *bytes, size_t size);
/* static -> C: the bytes of a static or string, and in *size their number; NULL when v is neither.
 * They live as long as the process */
const void *mf_static_data(mf_value v, size_t *size);
/* -> (): strongly typed, as jnp.float32(100.0); f32 by default. MF_ERROR_ARGUMENT for a number that
 * an integer dtype cannot hold. Seldom needed: a plain C number, weakly typed, does. */
mf_value mf_scalar(double number, mf_dtype dtype MF_DEFAULT_({}));

/* What the macros convert arguments with. -> value */
mf_value mf_index_slice(mf_slice slice);
/* any -> any */
mf_value mf_same(mf_value v);
/* -> (): weakly typed */
mf_value mf_of_float(float x);
mf_value mf_of_int(int x);
mf_value mf_of_uint(unsigned x);
mf_value mf_of_long(long x);
mf_value mf_of_ulong(unsigned long x);
mf_value mf_of_llong(long long x);
mf_value mf_of_ullong(unsigned long long x);
#ifndef __cplusplus
mf_value mf_of_complex(double _Complex x);
#endif

#ifndef __cplusplus
/* Declared but never defined: what an operand of a wrong type leaves behind, so that the compiler
 * reports that operand and nothing else */
extern mf_value mf_t_;
/* Declared but never defined: what a wrong type would call; the assertion comes first */
mf_value mf_no_value_();
#endif

MF_END_

#ifdef __cplusplus
inline mf_value::mf_value(int n) : mf_value(mf_i(n)) {}
inline mf_value::mf_value(long long n) : mf_value(mf_i(n)) {}
inline mf_value::mf_value(double n) : mf_value(mf_f(n)) {}
inline mf_value::mf_value(const char *s) : mf_value(mf_string(s)) {}
inline mf_value::mf_value(mf_slice s) : mf_value(mf_index_slice(s)) {}
template <class... N> inline mf_ints MF_INTS(N... n)
{
    return mf_ints{ nullptr, (int)sizeof...(N), { (int64_t)n... } };
}
template <class... N> inline mf_shape MF_SHAPE(N... n)
{
    return mf_shape{ (int)sizeof...(N), { (int64_t)n... } };
}
#endif

#include <manyfold/lift/base.h>

#endif
