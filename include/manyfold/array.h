/* manyfold/array.h - arrays: making, inspecting, reading, placing on devices and printing them.
 *
 * Shapes open a comment as described in manyfold/base.h: "..." is any number of dimensions, x any
 * array and a result of its shape. An array is immutable, has at most 8 dimensions, and lies on one
 * device, or row by row on several. "Committed" means, as in JAX, that its devices were chosen, so
 * that it does not move by itself.
 * Functions that read numbers wait until these are computed ("Waits"); on an error they return what
 * their comment says, and the error is remembered for mf_exit_status. Results belong to the
 * innermost scope; any thread. Errors: MF_ERROR_SHAPE, MF_ERROR_DTYPE, MF_ERROR_DEVICE;
 * MF_ERROR_DONATED for an array whose memory was donated or deleted. */
#ifndef MANYFOLD_ARRAY_H
#define MANYFOLD_ARRAY_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/device.h>
#include <manyfold/function.h>

MF_BEGIN_

/* ---- making arrays. dtype is f32 by default (MF_DTYPE_DEFAULT), unless the comment says
 * otherwise: mf_zeros(MF_SHAPE(2, 3)), mf_zeros(MF_SHAPE(2, 3), MF_I32). */
/* -> shape: a copy of the C array `data`, in row-major order. dtype is that of its elements; there
 * is no default (MF_ERROR_DTYPE) */
mf_value mf_from_host(mf_dtype dtype, mf_shape shape, const void *data);
/* -> shape: of numbers written in the call: mf_array(MF_F32, MF_SHAPE(2), 1, 2). MF_ERROR_SHAPE
 * unless there is one number for each element; MF_ERROR_ARGUMENT for one that an integer dtype
 * cannot hold. They are C doubles, which hold integers up to 2^53 exactly; for larger ones use
 * mf_from_host */
mf_value mf_array_n(mf_dtype dtype, mf_shape shape, const double *numbers, int count);
/* -> (n): jnp.arange of integers: start (mf_arange: 0), start + 1, ... below stop; i32 by default.
 * mf_arange(8), mf_arange_opt(2, 8) */
mf_value mf_arange(int64_t stop, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_arange_opt(int64_t start, int64_t stop, mf_dtype dtype MF_DEFAULT_({}));
/* -> (n): start, start + step, ... below stop (above it for a negative step) */
mf_value mf_arange_step(double start, double stop, double step, mf_dtype dtype MF_DEFAULT_({}));
/* -> (count): jnp.linspace: evenly spaced numbers from start to stop; .exclude_endpoint leaves stop
 * out (and spaces the numbers accordingly). An integer .dtype takes the floor of each */
typedef struct mf_linspace_options {
    mf_dtype dtype;
    bool exclude_endpoint;
    mf_reserved reserved_;
} mf_linspace_options;
mf_value mf_linspace(double start, double stop, int64_t count);
mf_value mf_linspace_opt(double start, double stop, int64_t count, const mf_linspace_options *o);
/* -> shape: zeros, ones */
mf_value mf_zeros(mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_ones(mf_shape shape, mf_dtype dtype MF_DEFAULT_({}));
/* (...) -> shape: fill, broadcast to the shape; keeps its dtype */
mf_value mf_full(mf_shape shape, mf_value fill);
/* x -> x: zeros, ones, of x's dtype */
mf_value mf_zeros_like(mf_value x);
mf_value mf_ones_like(mf_value x);
/* x, (...) -> x: fill, broadcast to x's shape and converted to its dtype */
mf_value mf_full_like(mf_value x, mf_value fill);
/* -> (n, columns): jnp.eye: ones on diagonal number .k (positive: above the main one, negative:
 * below), zeros elsewhere. .columns is n by default */
typedef struct mf_eye_options {
    mf_dtype dtype;
    int64_t columns, k;
    mf_reserved reserved_;
} mf_eye_options;
mf_value mf_eye(int64_t n, mf_dtype dtype MF_DEFAULT_({}));
mf_value mf_eye_opt(int64_t n, const mf_eye_options *o);
/* -> shape: jax.ShapeDtypeStruct: a shape and dtype without numbers, for mf_lower and other
 * functions that need only the types of their arguments */
mf_value mf_struct(mf_shape shape, mf_dtype dtype);
#ifndef __cplusplus
#define mf_array(dtype, shape, ...)                           \
    mf_array_n(dtype, shape, (const double[]){ __VA_ARGS__ }, \
               (int)(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)))
#endif

/* ---- what an array is. x -> C: known at once, without waiting, and for traced values too */
mf_shape mf_shape_of(mf_value v); /* of an error or a tree: rank -1 */
mf_dtype mf_dtype_of(mf_value v); /* of an error or a tree: MF_DTYPE_DEFAULT */
bool mf_weak_type_of(mf_value v); /* whether the dtype gives way to others, as a C number's does */
int mf_ndim(mf_value v);          /* the rank; of an error or a tree: -1 */
int64_t mf_size(mf_value v);      /* the number of elements; likewise -1 */
int64_t mf_dim(mf_value v, int axis); /* a negative axis counts from the end; -1 on an error */
bool mf_is_deleted(mf_value v);       /* whether its memory was donated or deleted */

/* ---- reading numbers. A traced value has no numbers yet, so C cannot branch on it: to read one
 * makes the call being traced an MF_ERROR_TRACER. Use mf_where, mf_cond or mf_while instead. What a
 * traced function computes from C numbers, static arguments and arrays from outside alone can be
 * read, if neither it nor any intermediate value has more than 4,096 elements.
 * () -> C: the number of an array with one element, of any rank, as NumPy's .item(). Waits. On an
 * error NaN, 0 and false */
double mf_item_f64(mf_value v);
int64_t mf_item_i64(mf_value v);
bool mf_item_bool(mf_value v);
/* x -> C: copies all elements to `out`, in row-major order and converted to dtype
 * (MF_DTYPE_DEFAULT: the array's own). `out` has room for `count` elements, which must be the
 * number that the array has (MF_ERROR_SHAPE). Waits */
mf_status mf_to_host(mf_value v, mf_dtype dtype, void *out, size_t count);
/* x -> C: a pointer to the array's first element, not to be written through. Waits. Valid as long
 * as v is. The elements follow one another in row-major order unless the array is a view, as
 * mf_transpose, mf_get and mf_broadcast_to give; mf_copy makes it none. NULL on an error */
const void *mf_unsafe_buffer_pointer(mf_value v);
/* ---- memory
 * The allocator of array memory, for the whole process: bytes in arrays now, the most there were,
 * bytes kept for reuse; how often memory came from the system, and how often it was asked for */
typedef struct mf_memory_stats_t {
    int64_t live_bytes, peak_bytes, cached_bytes, system_allocations, requests;
} mf_memory_stats_t;
mf_memory_stats_t mf_memory_stats(void);
void mf_memory_stats_reset(void); /* sets peak_bytes to live_bytes */
/* tree -> C: frees the memory of the tree's arrays now; using them afterwards is MF_ERROR_DONATED.
 * MF_ERROR_ARGUMENT when a leaf is no array; of an error, its own status */
mf_status mf_delete(mf_value v);
/* tree -> tree: a copy in memory of its own, in row-major order, on the devices of the original */
mf_value mf_copy(mf_value tree);
/* ---- devices. A list of devices (manyfold/device.h) has those of one platform, and all are of
 * this process.
 * x -> C: the devices that hold an array, shard by shard. Waits. An empty list when v is no
 * array */
mf_device_list mf_devices_of_array(mf_value v);
/* (n, ...) -> (...): the part on device number `index` of that list, as a view; of an array on one
 * device, the whole array. MF_ERROR_DEVICE for an index beyond the list */
mf_value mf_shard(mf_value v, int index);
/* tree -> tree: jax.device_put: committed to the device; copied if that is of another platform */
mf_value mf_device_put(mf_value v, mf_device device);
/* tree of (n, ...) -> tree of (n, ...): one row of every leaf on each device, where n is the number
 * of devices. Copies only what comes from another platform */
mf_value mf_place(mf_value tree, mf_device_list devices);
/* list of trees -> tree of (n, ...): jax.device_put_sharded: one tree for each device, stacked
 * along a new leading axis */
mf_value mf_device_put_sharded(mf_value parts, mf_device_list devices);
/* tree -> tree: jax.device_get: the same tree, once all of it has been computed. Waits */
mf_value mf_device_get(mf_value v);
/* tree -> tree of (n, ...): flax's replicate: one copy for each device, stored once where devices
 * share memory */
mf_value mf_replicate(mf_value tree, mf_device_list devices);
/* tree of (n, ...) -> tree: the first row of every leaf */
mf_value mf_unreplicate(mf_value tree);
/* tree of (n, ...) -> tree of (devices, n / devices, ...): a batch divided over device_count
 * devices, as a view. It stays uncommitted if it was; where the devices of the default backend have
 * memory of their own, its rows start on their way to the first device_count of them.
 * MF_ERROR_SHAPE unless device_count divides n */
mf_value mf_shard_batch(mf_value tree, int device_count);
/* tree of (n, ...) -> tree of (devices, rows, ...): .pad_last fills up with zeros a batch that does
 * not divide, such as the last of an epoch. The tree must be a dict and gets, unless it has one, a
 * "mask" of (devices, rows), f32: 1 for real rows, 0 for padding */
typedef struct mf_shard_batch_options {
    bool pad_last;
    mf_reserved reserved_;
} mf_shard_batch_options;
mf_value mf_shard_batch_opt(mf_value tree, int device_count, const mf_shard_batch_options *o);

/* ---- text. any -> C: as NumPy prints it, for printf; of an error its message, which handles it.
 * Valid as long as the innermost scope. mf_str(x) calls the one for x's type; mf_print(x) prints it
 * and a newline on stdout. */
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
