/* Arrays: a type, a sharding, a counted buffer with byte strides, and the future that fills it. Invariant: an array is immutable once its
 * future is done, except for `deleted` (donation, mf_delete). Deleting takes the memory only if no read is in progress: a reader increments
 * `readers` and then checks `deleted`; the deleting thread sets `deleted` and then checks `readers`. A stride of 0 means held once: all
 * slices along the axis are the same memory. On a mapped axis k, the part with index i starts at offset + i * strides[k]: in the one buffer
 * where the devices share memory, or else in a row of buffers, each of which holds its part from its first byte on. */
#ifndef MF_ARRAY_ARRAY_H
#define MF_ARRAY_ARRAY_H

#include "array/sharding.h"
#include "base/handles/handle.h"

#define MF_ARRAY_INLINE 16 /* bytes that need no buffer */

typedef uint16_t mf_axis_set; /* a bit for each axis */

typedef struct mf_array {
    mf_object object;
    const mf_type *type;
    const mf_sharding *sharding;
    mf_buffer *buffer;              /* or a row of buffers; NULL: the elements are in inline_data */
    int64_t offset;                 /* bytes */
    int64_t strides[MF_RANK];       /* known from the beginning, like the sharding, even while the elements are pending */
    mf_future *future;              /* done when all elements are there; NULL if they were there from the start */
    _Atomic(const char *) deleted;  /* NULL, or why ("donated", "deleted") */
    _Atomic int32_t readers;        /* reads in progress that hold no reference to the buffer yet */
    _Atomic(const void *) key_mark; /* of a random key: what used it (trace/checks/key_reuse.c) */
    bool is_number;                 /* a number of the user's program, kept in `number` at full precision */
    _Alignas(16) unsigned char inline_data[MF_ARRAY_INLINE]; /* small arrays are stored here */
    double number[2];                                        /* real and imaginary part: next to a float64, 0.1 keeps its digits */
} mf_array;
extern const mf_class mf_array_class;

mf_buffer *mf_buffer_new(size_t bytes);        /* 64-byte aligned, from the caching allocator of array/buffer_cache.c; NULL when out */
mf_buffer *mf_buffer_new_shared(size_t bytes); /* the same, from mf_memory_get_shared */
mf_array *mf_array_new(const mf_type *type);   /* contiguous, uninitialised, on the CPU; NULL when out of memory */
mf_array *mf_array_wrap(const mf_type *type, mf_buffer *buffer, int64_t offset, const int64_t *strides, const mf_sharding *p); /* retains */
mf_array *mf_array_view(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const mf_sharding *p);
mf_array *mf_array_fill(const mf_type *type, const void *element);       /* all elements equal, held once (strides of 0) */
mf_array *mf_array_from_host(const mf_type *type, const void *elements); /* copies them; row-major order */
mf_array *mf_array_scalar_f64(mf_dtype dtype, bool weak, double x);
mf_array *mf_array_scalar_i64(mf_dtype dtype, bool weak, int64_t x);
void *mf_array_data(const mf_array *a); /* base address; only when ready. For array/ and the CPU's runtime; others use a literal */
bool mf_array_is_contiguous(const mf_array *a);
bool mf_strides_are_contiguous(const mf_type *type, const int64_t *strides);
/* The axes among these along which the array is held once (stride 0) while the other axes lie row by row. */
mf_axis_set mf_array_held(const mf_array *a, mf_axis_set among);
mf_axis_set mf_strides_held(const mf_type *type, const int64_t *strides, mf_axis_set among);
/* The extent of the elements: `bytes` bytes, beginning at offset `low` (at most 0) from the first element. */
void mf_strides_extent(const mf_type *type, const int64_t *strides, int64_t *low, int64_t *bytes);
void mf_contiguous_strides(const mf_type *type, int64_t *strides); /* in bytes, row-major */
mf_error_object *mf_array_wait(const mf_array *a); /* NULL when ready; else a new reference to the error (deleted, failed) */

/* ---- reading an array that others may donate or delete meanwhile */
/* Begins a read without waiting: until mf_array_end_read nobody takes the memory away. If it returns an error (deleted), no read has
 * begun. */
mf_error_object *mf_array_begin(const mf_array *a);
mf_error_object *mf_array_begin_read(const mf_array *a); /* as mf_array_begin, after waiting until a is ready */
void mf_array_end_read(const mf_array *a);
/* Takes the memory of an array that the caller has marked deleted: with the array's own reference if nobody is reading, else with a new
 * one. */
mf_buffer *mf_array_give_up(mf_array *a);
/* A contiguous copy with its own memory, in the same place as a. Waits; NULL and *error on failure. */
mf_array *mf_array_copy(const mf_array *a, mf_error_object **error);
/* Whether the array is the only holder of its memory: no view, literal or run shares it. */
bool mf_array_is_alone(const mf_array *a);
/* Copies out the element of an array that has one element; waits. */
mf_error_object *mf_array_element(const mf_array *a, void *element);
/* The same, converted to dtype; a number of the user's program keeps all its digits. */
mf_error_object *mf_array_element_as(const mf_array *a, mf_dtype dtype, void *element);
/* The address of the elements, for a user who keeps a alive. NULL, with *error, if a failed or is not in host memory. Waits. */
const void *mf_array_host_data(const mf_array *a, mf_error_object **error);
/* An uninitialised array on the devices of p, which belong to a client other than the CPU's. The layout is `like` if that takes no more
 * memory than the elements do, else row-major; with separate memories, one part per device. */
mf_array *mf_array_on_devices(const mf_sharding *p, const mf_type *type, const int64_t *like);
/* The buffer of device number k of a's sharding, and the offset in it of that device's part. For devices with separate memories. */
mf_buffer *mf_array_part(const mf_array *a, int k, int64_t *at);
/* The buffer that holds byte *at of a row, which becomes an offset in that buffer. If `device` has a replica, that one is preferred. */
mf_buffer *mf_buffer_on(const mf_buffer *b, int device, int64_t *at);
/* a in the client's memory: a itself (retained) if it is there, else a ready, uncommitted copy. Waits; NULL and *error on failure. */
mf_array *mf_array_on(const mf_client *client, mf_array *a, mf_error_object **error);
/* A ready array with a's elements and sharding p: a copy, or the same memory if both are on the CPU. Waits; NULL and *error on failure. */
mf_array *mf_array_copy_to(const mf_sharding *p, mf_array *a, mf_error_object **error);
/* Moves an array made on the host to the default client. Takes the reference (NULL: memory was out); NULL when out of memory. */
mf_array *mf_array_made(mf_array *a);
static inline const mf_client *mf_array_client(const mf_array *a) { return a->sharding->client; } /* the client whose memory holds a */
mf_array *mf_array_contiguous(
    mf_array *a); /* a (which is being read, or a snapshot): itself (retained) or a copy; NULL when out of memory */
/* Copies a's elements in row-major order to out, converting them to dtype. Waits. */
mf_error_object *mf_array_copy_out(mf_array *a, mf_dtype dtype, void *out);
/* Copies between two strided layouts of one shape. */
void mf_copy_strided(int rank, const int64_t *dims, int element, void *out, const int64_t *out_strides, const void *in,
                     const int64_t *in_strides);

/* The caching allocator behind mf_buffer_new: size classes, 64-byte alignment, huge-page advice for large blocks. */
void *mf_memory_get(size_t bytes);
/* Memory that other processes can read: from the source given to mf_memory_share while it has some, else ordinary memory. mf_memory_put
 * takes both. */
void *mf_memory_get_shared(size_t bytes);
typedef struct mf_memory_source {
    void *at; /* the range in which all its blocks lie */
    size_t bytes;
    void *(*get)(size_t size); /* size is one of some 240 sizes; NULL: out of memory */
    void (*put)(void *p, size_t size);
} mf_memory_source;
void mf_memory_share(const mf_memory_source *from); /* once, before the first mf_memory_get_shared */
void mf_memory_put(void *p, size_t bytes);
typedef struct mf_memory_counters {
    int64_t live_bytes, peak_bytes, cached_bytes, system_allocations, requests;
} mf_memory_counters;
mf_memory_counters mf_memory_read(void);
void mf_memory_reset_peak(void);
void mf_memory_trim(void); /* gives cached blocks back to the system */

/* A placeholder for an array of this type, where only types matter. */
typedef struct mf_struct_object {
    mf_object object;
    const mf_type *type;
} mf_struct_object;
extern const mf_class mf_struct_class;
mf_object *mf_struct_new(const mf_type *type);     /* NULL when out of memory */
const mf_type *mf_struct_type(const mf_object *o); /* NULL when o is not a struct */

void mf_array_print(mf_text *t, mf_array *a); /* as NumPy's str() */

#endif
