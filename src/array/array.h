/* Arrays: a type, a sharding, a counted buffer with byte strides, and the future that fills it.
 * Invariant: immutable after its future is done, save for `deleted` (donation, mf_delete), which takes the memory only where nobody has
 * begun to read it: a reader counts itself in and then looks at `deleted`, who deletes sets `deleted` and then looks at the count.
 * A stride of 0 means held once. The part of an array that index i of a mapped axis k holds starts at offset + i * strides[k], in the one
 * buffer of devices that share their memory, or in the row of buffers of those that do not, whose arrays have it from their beginning. */
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
    mf_buffer *buffer;              /* or a row of them; NULL: see inline_data */
    int64_t offset;                 /* bytes */
    int64_t strides[MF_RANK];       /* known from the beginning, as the sharding is, whether or not the bytes are there */
    mf_future *future;              /* done when all of it is there; NULL when it was from the start */
    _Atomic(const char *) deleted;  /* NULL, or why ("donated", "deleted") */
    _Atomic int32_t readers;        /* that have begun and hold no reference to the buffer yet */
    _Atomic(const void *) key_mark; /* of a random key, by whom it was used (trace/checks/key_reuse.c) */
    bool is_number;                 /* a number of the user's program, whose own precision `number` keeps */
    _Alignas(16) unsigned char inline_data[MF_ARRAY_INLINE]; /* scalars live here */
    double number[2];                                        /* its real and imaginary part: 0.1 beside float64 is no float32 */
} mf_array;
extern const mf_class mf_array_class;

mf_buffer *mf_buffer_new(size_t bytes);        /* 64-byte aligned, from the caching allocator of array/buffer_cache.c; NULL when out */
mf_buffer *mf_buffer_new_shared(size_t bytes); /* the same, from mf_memory_get_shared */
mf_array *mf_array_new(const mf_type *type);   /* contiguous, uninitialised, of the CPU; NULL when out */
mf_array *mf_array_wrap(const mf_type *type, mf_buffer *buffer, int64_t offset, const int64_t *strides, const mf_sharding *p); /* retains */
mf_array *mf_array_view(const mf_array *a, const mf_type *type, int64_t offset, const int64_t *strides, const mf_sharding *p);
mf_array *mf_array_fill(const mf_type *type, const void *element);       /* every element the same, held once (strides of 0) */
mf_array *mf_array_from_host(const mf_type *type, const void *elements); /* copies them; they lie row by row */
mf_array *mf_array_scalar_f64(mf_dtype dtype, bool weak, double x);
mf_array *mf_array_scalar_i64(mf_dtype dtype, bool weak, int64_t x);
void *mf_array_data(const mf_array *a); /* base address; only when ready. Of array/ and of what runs on the CPU: others ask for a literal */
bool mf_array_is_contiguous(const mf_array *a);
bool mf_strides_are_contiguous(const mf_type *type, const int64_t *strides);
/* Of these axes, those along which it is held once: all slices are the same one, which lies row by row. */
mf_axis_set mf_array_held(const mf_array *a, mf_axis_set among);
mf_axis_set mf_strides_held(const mf_type *type, const int64_t *strides, mf_axis_set among);
/* Where the elements lie: so many bytes, from `low` (at most 0) after the first element on. */
void mf_strides_extent(const mf_type *type, const int64_t *strides, int64_t *low, int64_t *bytes);
void mf_contiguous_strides(const mf_type *type, int64_t *strides); /* bytes, row by row */
mf_error_object *mf_array_wait(const mf_array *a); /* NULL when ready; else a new reference to the error (deleted, failed) */

/* ---- reading an array that others may donate or delete meanwhile */
/* Counts a reader in, without waiting: from here to mf_array_end_read nobody takes the memory. An error (deleted): nothing has begun. */
mf_error_object *mf_array_begin(const mf_array *a);
mf_error_object *mf_array_begin_read(const mf_array *a); /* the same of an array that is ready; waits */
void mf_array_end_read(const mf_array *a);
/* Of an array that the caller has marked deleted: its memory, with the array's reference where nobody reads it, else with a new one. */
mf_buffer *mf_array_give_up(mf_array *a);
/* A contiguous array with memory of its own, where a is. Waits; NULL and *error. */
mf_array *mf_array_copy(const mf_array *a, mf_error_object **error);
/* Whether the array has memory of its own and no view, literal or run shares it. */
bool mf_array_is_alone(const mf_array *a);
/* The element of an array of one element; waits. */
mf_error_object *mf_array_element(const mf_array *a, void *element);
/* The same in another dtype; of a number from the user's program with all the digits that it had. */
mf_error_object *mf_array_element_as(const mf_array *a, mf_dtype dtype, void *element);
/* Where its elements are, for a user who sees to it that a lives on; NULL, with *error, or where host memory does not hold them. Waits. */
const void *mf_array_host_data(const mf_array *a, mf_error_object **error);
/* An array with memory on the devices of p, a client's other than the CPU, and nothing in it yet. It lies like `like`, where that is no
 * more than its elements, or row by row, one part a device. */
mf_array *mf_array_on_devices(const mf_sharding *p, const mf_type *type, const int64_t *like);
/* The buffer of device number k of a's sharding, and where in it the part of a begins that it holds. Of devices that have memory apart. */
mf_buffer *mf_array_part(const mf_array *a, int k, int64_t *at);
/* The same of a place in a row, whoever's replica it is in: that device's, if it has one. */
mf_buffer *mf_buffer_on(const mf_buffer *b, int device, int64_t *at);
/* a where the client's memory is: itself (retained) when it is there, else a ready copy, not committed. Waits; NULL and *error. */
mf_array *mf_array_on(const mf_client *client, mf_array *a, mf_error_object **error);
/* What a holds, ready and sharded so, on that client: a copy, or of two CPU arrays the same memory. Waits; NULL and *error. */
mf_array *mf_array_copy_to(const mf_sharding *p, mf_array *a, mf_error_object **error);
/* What was made on the host, as an array of the default client. Takes the reference (NULL: memory was out); NULL when memory is out. */
mf_array *mf_array_made(mf_array *a);
static inline const mf_client *mf_array_client(const mf_array *a) { return a->sharding->client; } /* whose memory holds it */
mf_array *mf_array_contiguous(
    mf_array *a); /* of one that is being read, or a snapshot: itself (retained) or a copy; NULL when out of memory */
/* Copies a's elements row by row into out, converting to dtype. Waits. */
mf_error_object *mf_array_copy_out(mf_array *a, mf_dtype dtype, void *out);
/* Strided copy between two layouts of one shape. */
void mf_copy_strided(int rank, const int64_t *dims, int element, void *out, const int64_t *out_strides, const void *in,
                     const int64_t *in_strides);

/* The caching allocator behind mf_buffer_new: size classes, 64-byte alignment, huge-page advice for large blocks. */
void *mf_memory_get(size_t bytes);
/* Memory that others share: that of a second source, if there is one and it has some, else like any other. Both are put back alike. */
void *mf_memory_get_shared(size_t bytes);
typedef struct mf_memory_source {
    void *at; /* all that it ever gives lies here */
    size_t bytes;
    void *(*get)(size_t size); /* of one of some 240 sizes; NULL: memory is out */
    void (*put)(void *p, size_t size);
} mf_memory_source;
void mf_memory_share(const mf_memory_source *from); /* once, before anybody asks for such memory */
void mf_memory_put(void *p, size_t bytes);
typedef struct mf_memory_counters {
    int64_t live_bytes, peak_bytes, cached_bytes, system_allocations, requests;
} mf_memory_counters;
mf_memory_counters mf_memory_read(void);
void mf_memory_reset_peak(void);
void mf_memory_trim(void); /* gives cached blocks back to the system */

/* What stands for an array of this type where only types count. */
typedef struct mf_struct_object {
    mf_object object;
    const mf_type *type;
} mf_struct_object;
extern const mf_class mf_struct_class;
mf_object *mf_struct_new(const mf_type *type);     /* NULL when out of memory */
const mf_type *mf_struct_type(const mf_object *o); /* NULL when o is none */

void mf_array_print(mf_text *t, mf_array *a); /* as NumPy's str() */

#endif
