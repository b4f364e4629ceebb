/* manyfold/array.h - making, reading, placing and printing arrays.
 *
 * Shapes open a comment as in manyfold/numpy.h: (m, k) -> (k) takes a value of that shape and gives
 * one; "..." is any number of dimensions, x any array and a result of its shape. An array has at
 * most 8 dimensions and lies on one device, or a row on each of several; it never changes.
 * Functions that read numbers wait for them; on an error they give what their comment says, and
 * mf_exit_status remembers it. Results belong to the innermost scope; any thread. Errors:
 * MF_ERROR_SHAPE, MF_ERROR_DTYPE, MF_ERROR_DEVICE; MF_ERROR_DONATED for memory that is gone. */
#ifndef MANYFOLD_ARRAY_H
#define MANYFOLD_ARRAY_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/device.h>
#include <manyfold/function.h>

MF_BEGIN_

/* ---- making arrays */
/* -> shape: a copy of the C array, row by row */
mf_value mf_from_host(mf_dtype dtype, mf_shape shape, const void *data);
/* -> shape: of numbers that are written here: mf_array(MF_F32, MF_SHAPE(2), 1, 2); MF_ERROR_SHAPE
 * unless there is one an element */
mf_value mf_array_n(mf_dtype dtype, mf_shape shape, const double *numbers, int count);
/* -> (n): start (or 0), start + 1, ... before stop; i32 unless said: mf_arange(8),
 * mf_arange_opt(2, 8) */
mf_value mf_arange(int64_t stop, mf_dtype dtype MF_DEFAULT_(MF_DTYPE_DEFAULT));
mf_value mf_arange_opt(int64_t start, int64_t stop, mf_dtype dtype MF_DEFAULT_(MF_DTYPE_DEFAULT));
/* -> (n): start, start + step, ... before stop; MF_DTYPE_DEFAULT: f32 */
mf_value mf_arange_step(double start, double stop, double step, mf_dtype dtype);
/* -> (count): evenly from start to stop, which .exclude_endpoint leaves out; f32 unless said; of
 * integers the floors */
typedef struct mf_linspace_options {
    mf_dtype dtype;
    bool exclude_endpoint;
    mf_reserved reserved_;
} mf_linspace_options;
mf_value mf_linspace(double start, double stop, int64_t count);
mf_value mf_linspace_opt(double start, double stop, int64_t count, const mf_linspace_options *o);
/* -> shape: MF_DTYPE_DEFAULT: f32 */
mf_value mf_zeros(mf_shape shape, mf_dtype dtype);
mf_value mf_ones(mf_shape shape, mf_dtype dtype);
/* (...) -> shape: the fill, which broadcasts, in its dtype */
mf_value mf_full(mf_shape shape, mf_value fill);
/* x -> x: of its dtype */
mf_value mf_zeros_like(mf_value x);
mf_value mf_ones_like(mf_value x);
/* x, (...) -> x: the fill, which broadcasts, in x's dtype */
mf_value mf_full_like(mf_value x, mf_value fill);
/* -> (n, columns): ones on diagonal number .k (above the main one; negative: below), else zeros; n
 * columns unless said */
typedef struct mf_eye_options {
    int64_t columns, k;
    mf_reserved reserved_;
} mf_eye_options;
mf_value mf_eye(int64_t n, mf_dtype dtype);
mf_value mf_eye_opt(int64_t n, mf_dtype dtype, const mf_eye_options *o);
/* -> shape: jax.ShapeDtypeStruct: no numbers; for mf_lower and others that ask for types alone.
 * MF_ERROR_SHAPE for no shape */
mf_value mf_struct(mf_shape shape, mf_dtype dtype);
#ifndef __cplusplus
#define mf_array(dtype, shape, ...)                           \
    mf_array_n(dtype, shape, (const double[]){ __VA_ARGS__ }, \
               (int)(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)))
#endif

/* ---- what an array is. x -> C: known at once, of traced values too */
mf_shape mf_shape_of(mf_value v); /* rank -1 on an error or a tree */
mf_dtype mf_dtype_of(mf_value v); /* MF_DTYPE_DEFAULT on an error or a tree */
bool mf_weak_type_of(mf_value v);
int mf_ndim(mf_value v);              /* -1 on an error or a tree */
int64_t mf_size(mf_value v);          /* elements; -1 likewise */
int64_t mf_dim(mf_value v, int axis); /* a negative axis counts from the end; -1 on an error */
bool mf_is_deleted(mf_value v);       /* donated or deleted */

/* ---- numbers for C. A traced value has none yet, and C cannot branch on one: reading it makes the
 * call that is being traced an MF_ERROR_TRACER; use mf_where, mf_cond or mf_while. Inside a traced
 * function what follows from numbers, static arguments and arrays of the outside alone can be read
 * too, where neither it nor a value on the way has more than 4,096 elements. */
/* () -> C: NumPy's .item(), of any array of one element: waits. NaN, 0, false on an error */
double mf_item_f64(mf_value v);
int64_t mf_item_i64(mf_value v);
bool mf_item_bool(mf_value v);
/* x -> C: exactly count elements, row by row, converted to dtype; waits */
mf_status mf_to_host(mf_value v, mf_dtype dtype, void *out, size_t count);
/* x -> C: the first element of an array; waits. Lives as long as v; views share it. NULL on an
 * error */
const void *mf_unsafe_buffer_pointer(mf_value v);

/* ---- memory */
/* The allocator of array memory, whole process. */
typedef struct mf_memory_stats_t {
    int64_t live_bytes, peak_bytes, cached_bytes, system_allocations, requests;
} mf_memory_stats_t;
mf_memory_stats_t mf_memory_stats(void);
void mf_memory_stats_reset(void); /* the peak starts again at what is live */
/* x -> C: ends the array's memory now; any later use is an error. MF_ERROR_ARGUMENT when v is no
 * array; an error's own status */
mf_status mf_delete(mf_value v);
/* tree -> tree: in memory of its own, row by row, on the devices of the original */
mf_value mf_copy(mf_value tree);

/* ---- devices */
/* x -> C: which devices hold an array, shard by shard; waits. count 0: v is none */
mf_device_list mf_devices_of_array(mf_value v);
/* (n, ...) -> (...): what device number `index` of that list holds; a view. Of an array on one
 * device the whole. MF_ERROR_DEVICE beyond */
mf_value mf_shard(mf_value v, int index);
/* tree -> tree: committed there, a device of this process; to another platform it copies */
mf_value mf_device_put(mf_value v, mf_device device);
/* tree of (n, ...) -> tree of (n, ...): one row of every leaf on each device, all of one platform;
 * copies nothing but what comes from another one */
mf_value mf_place(mf_value tree, mf_device_list devices);
/* list of trees -> tree of (n, ...): one tree a device, as one with a leading axis */
mf_value mf_device_put_sharded(mf_value parts, mf_device_list devices);
/* tree -> tree: as it is, once all of it has been computed: waits */
mf_value mf_device_get(mf_value v);
/* tree -> tree of (n, ...): one copy a device, held once where memory is shared */
mf_value mf_replicate(mf_value tree, mf_device_list devices);
/* tree of (n, ...) -> tree: the first row */
mf_value mf_unreplicate(mf_value tree);
/* tree of (n, ...) -> tree of (devices, n / devices, ...): a view, committed no more than before;
 * where the default backend's devices have memory apart, what lies there is placed on the first of
 * them, so that it is on its way. MF_ERROR_SHAPE unless it divides */
mf_value mf_shard_batch(mf_value tree, int device_count);
/* tree of (n, ...) -> tree of (devices, rows, ...): pad_last: a batch that does not divide is filled
 * up with zeros. It is a dict and always gets a "mask" of (devices, rows), f32, 1 for real rows,
 * unless it has one */
typedef struct mf_shard_batch_options {
    bool pad_last;
    mf_reserved reserved_;
} mf_shard_batch_options;
mf_value mf_shard_batch_opt(mf_value tree, int device_count, const mf_shard_batch_options *o);

/* ---- texts. any -> text for printf, as NumPy prints it; lives as long as the innermost scope. An
 * error gives its message. mf_str(x) takes any of them. */
const char *mf_str_value(mf_value v);
const char *mf_str_function(mf_function f);
const char *mf_str_module(mf_module m);
const char *mf_str_state(mf_state s);
const char *mf_str_filter(mf_filter f);
const char *mf_str_shape(mf_shape s);
const char *mf_str_device(mf_device d);
const char *mf_str_devices(mf_device_list d);
const char *mf_str_dtype(mf_dtype d);
void mf_put_line(const char *line);
#ifndef __cplusplus
/* clang-format off */
#define mf_str(x) MF_STR_(x)(x)
#define MF_STR_(x) \
    _Generic((x), mf_value: mf_str_value, mf_function: mf_str_function, mf_module: mf_str_module, \
             mf_state: mf_str_state, mf_filter: mf_str_filter, mf_shape: mf_str_shape, \
             mf_device: mf_str_device, mf_device_list: mf_str_devices, mf_dtype: mf_str_dtype)
/* clang-format on */
#define mf_print(x) mf_put_line(mf_str(x)) /* of a module: manyfold/nn.h's */
#endif

MF_END_

#ifdef __cplusplus
template <class... N> inline mf_value mf_array(mf_dtype dtype, mf_shape shape, N... n)
{
    const double numbers[] = { double(n)..., 0 };
    return mf_array_n(dtype, shape, numbers, (int)sizeof...(N));
}
inline const char *mf_str(mf_value v) { return mf_str_value(v); }
inline const char *mf_str(mf_function f) { return mf_str_function(f); }
inline const char *mf_str(mf_module m) { return mf_str_module(m); }
inline const char *mf_str(mf_state s) { return mf_str_state(s); }
inline const char *mf_str(mf_filter f) { return mf_str_filter(f); }
inline const char *mf_str(mf_shape s) { return mf_str_shape(s); }
inline const char *mf_str(mf_device d) { return mf_str_device(d); }
inline const char *mf_str(mf_device_list d) { return mf_str_devices(d); }
inline const char *mf_str(mf_dtype d) { return mf_str_dtype(d); }
template <class T> inline void mf_print(T x) { mf_put_line(mf_str(x)); }
#endif

#include <manyfold/lift/array.h>

#endif
