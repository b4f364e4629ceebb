/* A oneDNN primitive and its surroundings, for the files of this folder. dnnl_conv.c and dnnl_matmul.c describe a problem and choose its
 * layouts, dnnl_primitive.c makes the primitive and keeps it in a cache, dnnl_run.c runs it.
 * Invariant: no oneDNN object is shared by two running calls. A primitive is immutable once published, and lives while it has users; the
 * state of a run (stream, memory handles) is in a context that the run takes from the primitive's free list and returns. */
#ifndef MF_BACKEND_NATIVE_KERNELS_DNNL_DNNL_PRIMITIVE_H
#define MF_BACKEND_NATIVE_KERNELS_DNNL_DNNL_PRIMITIVE_H

#include "dnnl.h"
#include "dnnl_library.h"

#include <pthread.h>

enum { MF_DNNL_IN0, MF_DNNL_IN1, MF_DNNL_OUT, MF_DNNL_OPERANDS };
enum { MF_DNNL_KEY_WORDS = 48 };

/* One operand: the caller's layout, the library's, and the reorder between them if they differ. */
typedef struct mf_dnnl_operand {
    int argument; /* DNNL_ARG_* of the main primitive */
    desc user, wanted;
    dnnl_primitive_desc_t reorder_desc;
    dnnl_primitive_t reorder; /* NULL: equal layouts */
    desc_ref reorder_scratch;
    size_t bytes, offset; /* of the library's form in the scratch */
} mf_dnnl_operand;

typedef struct mf_dnnl_context {
    struct mf_dnnl_context *next;
    dnnl_stream_t stream;
    dnnl_memory_t user[MF_DNNL_OPERANDS], wanted[MF_DNNL_OPERANDS], reorder_scratch[MF_DNNL_OPERANDS], scratch;
} mf_dnnl_context;

struct mf_dnnl_primitive {
    struct mf_dnnl_primitive *next;
    int64_t key[MF_DNNL_KEY_WORDS];
    mf_dnnl_operand operands[MF_DNNL_OPERANDS];
    int packed; /* the operand that callers may pass in the library's layout */
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive; /* NULL: known to be unsupported */
    desc_ref scratch;
    size_t reorder_offset, scratch_bytes;
    const char *description;
    pthread_mutex_t lock; /* guards idle */
    mf_dnnl_context *idle;
    int users; /* users, and when it was last requested, by `gets`: guarded by the cache's lock */
    int64_t last;
};

/* ---- dnnl_primitive.c */
bool mf_dnnl_ok(dnnl_status_t status); /* and records whether memory was out */
/* strides NULL: the library chooses. *out must be freed, even if this fails. */
bool mf_dnnl_desc_make(desc *out, int rank, const int64_t *dims, const int64_t *strides, mf_dtype dtype);
void mf_dnnl_desc_free(desc *d);
/* oneDNN's plain loops: about a hundred times slower than its other code. */
bool mf_dnnl_is_reference(dnnl_primitive_desc_t pd);
/* Fills in what follows from the descriptor of the chosen code: wanted layouts, reorders, scratch. */
bool mf_dnnl_finish(mf_dnnl_primitive *p);
/* The primitive for this key, from the cache or built from `problem`. NULL: unsupported, or *no_memory. */
typedef bool mf_dnnl_builder(mf_dnnl_primitive *p, const void *problem);
const mf_dnnl_primitive *mf_dnnl_get(const int64_t *key, mf_dnnl_builder *build, const void *problem, bool *no_memory);

static inline int mf_dnnl_key_put(int64_t *key, int at, const int64_t *values, int n)
{
    for (int i = 0; i < n; i++)
        key[at + i] = values[i];
    return at + n;
}
/* oneDNN counts some sizes in an int, and crashes on larger ones. */
static inline bool mf_dnnl_is_size(int64_t n) { return n >= 1 && n <= INT32_MAX; }

/* ---- dnnl_run.c */
void mf_dnnl_context_free(mf_dnnl_context *c);

#endif
