/* manyfold/base.h - handles, macros, status codes, dtypes, shapes, scopes, errors, numbers and
 * strings.
 *
 * Defaults for the whole library, said once:
 *   Shapes open a function's comment, what goes in and what comes out. (m, k), (k, n) -> (m, n):
 *   two values of these shapes give one. "..." is any number of dimensions, () a scalar or a C
 *   number, x any array and a result of its shape, tree any tree of arrays, any a value of any
 *   kind; "-> C" gives what is no value.
 *   Ownership: every handle that a function returns belongs to the innermost open scope of the
 *   calling thread. Nothing is freed by hand.
 *   Errors: an error is a value; an operand that is an error is the result. Functions that leave
 *   the world of values return mf_status, or NaN / 0 / NULL, and what went wrong is remembered by
 *   mf_exit_status. Nothing aborts the process.
 *   Threads: every function may be called from any thread at any time; scopes, and handles owned
 *   by scopes, stay with their thread. A thread needs 128 KiB of stack; with less than 1 MiB what
 *   it calls is computed on the library's threads. Functions that call one another under
 *   transforms may be nested as deep as the stack has room and at most 256 deep; trees, filters,
 *   modules, policies and functions around functions 256 deep: beyond that is an error.
 *   Forks: in the child of a process that has called the library every function is an error, at
 *   once: the library's threads live in the parent. The child may end in any way, or exec; it
 *   does not return from a callback that it was forked in. A process that has only loaded the
 *   library forks like any other.
 *   Exit: the process may end at any time, by any thread, in a callback too: what runs on the
 *   library's threads is waited for, what is queued is dropped. dlclose leaves the library in the
 *   process, with all that it does.
 *   Signals: the library's threads block all but SIGPROF and faults, and calls go on after a
 *   handler has run. A handler calls nothing here.
 *   Cancellation: pthread_cancel takes effect when the thread has left the library's functions.
 *   Callbacks return: neither pthread_exit nor longjmp nor an exception leaves one.
 *   Needs gcc or clang (statement expressions, __auto_type, cleanup). */
#ifndef MANYFOLD_BASE_H
#define MANYFOLD_BASE_H
/* A wrong argument gets a line that points at it, without a trace of macros. */
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MF_MAX_RANK 8

#include <manyfold/macros.h>

MF_BEGIN_

/* ---- handles */
/* What flows through a program: an array, a traced value, a tree, None, a static or an error.
 * { 0 } is unset */
#ifdef __cplusplus
struct mf_slice;
struct mf_value { /* same 64 bits; C++ converts numbers and strings by itself */
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
/* Named states and modules and a way to call them */
typedef struct mf_module {
    uint64_t handle;
} mf_module;
/* What mf_pmap and the others return; interned, never freed by hand */
#ifdef __cplusplus
extern "C++" {
template <class... T> struct mf_all_ {};
template <class T> struct mf_is_value_ {};
template <> struct mf_is_value_<mf_value> {
    typedef int yes;
};
template <class F, class... A>
mf_all_<typename mf_is_value_<A>::yes...> mf_takes_values_(mf_value (F::*)(A...) const);
struct mf_function { /* same 64 bits; modules, functions of C and lambdas convert by themselves */
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
/* A mutable cell that holds a tree */
typedef struct mf_state {
    uint64_t handle;
} mf_state;
typedef struct mf_filter {
    uint64_t handle;
} mf_filter; /* a predicate on states */
typedef struct mf_device {
    uint64_t handle;
} mf_device;
typedef struct mf_optimizer {
    uint64_t handle;
} mf_optimizer;
typedef struct mf_scope mf_scope;

/* An axis number (negative counts from the end), MF_NONE, or a whole tree of them from mf_axes /
 * mf_axes_dict. Zero is axis 0. Trees of axes are interned for the life of the process: no
 * lifetime to think about. */
typedef int64_t mf_axis;
#define MF_NONE ((mf_axis)INT64_MIN)    /* as an axis: not mapped; as a value: None */
#define MF_ALL ((mf_axis)INT64_MIN + 1) /* reductions: every axis */

typedef enum mf_status {
    MF_OK = 0,
    MF_ERROR_SHAPE,   /* shapes that do not fit together, or are none */
    MF_ERROR_DTYPE,   /* a dtype that the function does not take */
    MF_ERROR_AXIS,    /* an axis or index out of bounds, or twice; an axis name not in scope */
    MF_ERROR_DEVICE,  /* no such device or backend, or arrays committed to different ones */
    MF_ERROR_TREE,    /* trees of different structure; no such key or item */
    MF_ERROR_DONATED, /* an array whose memory was donated or deleted */
    MF_ERROR_SCOPE,   /* a handle whose scope has closed, or that was released */
    MF_ERROR_TRACER,  /* C asked for a traced value's number, or it left its trace */
    MF_ERROR_IO,      /* a file, or what is in it */
    MF_ERROR_MEMORY,  /* memory is out */
    MF_ERROR_PEER,    /* another process of the job: it failed, is late, or computes other things */
    MF_ERROR_ARGUMENT /* anything else that a call does not take */
} mf_status;
/* As JAX's, of the same widths */
typedef enum mf_dtype {
    MF_DTYPE_DEFAULT = 0, /* what the function's comment says where nobody says another */
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
    MF_KEY /* a random key: two words of 32 bits (manyfold/random.h) */
} mf_dtype;
typedef enum mf_padding {
    MF_PADDING_DEFAULT = 0,
    MF_SAME,
    MF_VALID,
    MF_CIRCULAR, /* these of layers only: what is on the other side; what is mirrored at the edge; */
    MF_REFLECT,
    MF_CAUSAL /* nothing of what comes later */
} mf_padding;

/* Short integer lists and shapes travel by value: no pointer, so nothing dangles. A list of one is
 * MF_INTS(0) too: .donate_argnums = 0, or { 0 }, would be a list of none. */
typedef struct mf_ints {
    const struct mf_write_MF_INTS_ *tag_;
    int count;
    int64_t at[MF_MAX_RANK];
} mf_ints;
typedef struct mf_shape {
    int rank;
    int64_t dims[MF_MAX_RANK];
} mf_shape;
/* Points into the library; lives as long as the process */
typedef struct mf_device_list {
    int count;
    const mf_device *at;
} mf_device_list;
/* Python's start:stop:step; step 0 is 1. { true, MF_END, MF_NONE, -1 } is ::-1 */
typedef struct mf_slice {
    bool is_slice;
    int64_t start, stop, step;
} mf_slice;
#define MF_END INT64_MAX
#define MF_SHAPE0 ((mf_shape){ .rank = 0 })

#ifndef __cplusplus
/* At most MF_MAX_RANK numbers, or it does not compile. MF_SHAPE() is a scalar's shape. */
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
typedef char mf_reserved; /* last field of every option struct; leave it alone */

/* ---- scopes */
mf_scope *mf_scope_open(void);        /* innermost scope of this thread from now on */
void mf_scope_close(mf_scope *scope); /* also closes whatever was opened inside and left open */
void mf_scope_close_at_(mf_scope **scope);
/* MF_SCOPE; at the top of a block: the scope closes when the block is left, by whatever way
 * (end, break, continue, return, goto). */
#define MF_SCOPE \
    mf_scope *mf_scope_here_ __attribute__((cleanup(mf_scope_close_at_), unused)) = mf_scope_open()
/* any -> any: hands v to the scope outside the innermost one: `return mf_escape(v);` under
 * MF_SCOPE */
mf_value mf_escape(mf_value v);
/* any -> *variable: *variable = v, where the variable lives longer than the innermost scope. The
 * new handle belongs to the owner of the old one, which ends at once, and with it every plain C
 * copy (after b = a both are one handle: what still uses the old one gets an error that names
 * this line). So start the variable in the scope that should own it, whatever goes in later:
 *     mf_value best = mf_none();
 *     for (int i = 0; i < steps; i++) {
 *         MF_SCOPE;
 *         mf_value loss = mf_call(step, batch);
 *         if (i == 0 || mf_item_f64(loss) < mf_item_f64(best))
 *             mf_assign(&best, loss);
 *     }
 * An unset variable ({ 0 }: a static one, say) has no owner yet; its value lives until the thread
 * ends, mf_clear, or the next mf_assign. */
void mf_assign(mf_value *variable, mf_value v);
void mf_clear(mf_value *variable); /* ends it and makes it unset */
/* any -> any: a handle that no scope owns: for heap structures and other threads */
mf_value mf_keep(mf_value v);
/* any -> nothing: ends a kept handle */
void mf_release(mf_value v);

/* ---- errors */
/* An error is handled when its words or its code were asked for (mf_error, mf_error_status,
 * mf_error_place, mf_first_error) or printed. Reading a number out of it, waiting for it or
 * passing it on never handles it. What follows from an error, or went into one result with it,
 * is handled with it. */
/* any -> C: an error, or a tree with one. Waits */
bool mf_is_error(mf_value v);
/* any -> C: the message, or NULL; asking counts as handling it. Waits. Lives as long as v */
const char *mf_error(mf_value v);
/* any -> C: MF_OK where v is none. Waits */
mf_status mf_error_status(mf_value v);
/* -> error: with words as printf's, and the caller's place */
mf_value mf_make_error(mf_status status, const char *format, ...);
/* tree -> C: waits until all of it has been computed; MF_OK, or the error's code */
mf_status mf_block_until_ready(mf_value v);
/* Waits, prints the first error nobody handled, EXIT_SUCCESS or EXIT_FAILURE */
int mf_exit_status(void);
/* The first error nobody handled, on any thread; MF_OK and NULL when there is none */
mf_status mf_first_error(const char **message);
/* any -> C: where the user's program made it, "file:line" or "symbol+offset"; NULL when unknown */
const char *mf_error_place(mf_value v);
/* What happens to an error that is destroyed while nobody has handled it: by default one line on
 * stderr, of the errors of one place for the first alone. NULL restores that. Any thread.
 * mf_first_error and mf_exit_status know of it still. */
typedef void (*mf_error_hook)(mf_status status, const char *message, void *context);
void mf_set_error_hook(mf_error_hook hook, void *context);

/* MF_LAYER; at the top of a public function of a library that is written on this one: errors
 * that it makes name the line that called it, not lines inside it, and all that come of one call
 * are handled together. */
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

/* ---- numbers, strings and values. -> (): a C number may stand in the place of any value:
 * mf_mul(x, 2); these say it where none is taken, mf_value v = mf_f(0.5), and in options that are
 * values, .fill_value = mf_i(0): a 0 by itself leaves such an option unset. Weakly typed: i32 and
 * f32, but they give way to their operand. */
mf_value mf_f(double number);
/* -> (): weakly typed complex number; in C also 1.0 + 2.0 * I of <complex.h> */
mf_value mf_c(double re, double im);
/* -> (): MF_NONE gives None */
mf_value mf_i(int64_t number);
mf_value mf_b(bool truth);
/* -> static: what a function may branch on while it is traced; compared by its words, by
 * identity */
mf_value mf_string(const char *string);
mf_value mf_static(mf_module module);
/* -> static: copied, equal bytes are equal statics */
mf_value mf_static_bytes(const void *bytes, size_t size);
/* static -> C: the bytes of a static or string; NULL when v is none. Live as long as the process */
const void *mf_static_data(mf_value v, size_t *size);

/* What mf_v makes values with. -> value */
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
/* -> (): strongly typed: jnp.float32(100.0). A C number by itself is weakly typed, and seldom needs
 * more. */
mf_value mf_scalar(double number, mf_dtype dtype);

#ifndef __cplusplus
/* What an operand in error leaves behind, so that nothing is said but its own error; it is
 * nowhere */
extern mf_value mf_t_;
/* What another type than mf_v's would call; there is none: the assertion comes first */
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
