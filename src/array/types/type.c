/* Array types. Invariant: equal types have one address; the rank, size and bytes of every type are within bounds. */
#include "array/types/type.h"

#include "base/memory/intern.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES ((int64_t)1 << 56)

static _Atomic(mf_interner *) types;
static _Thread_local bool memory_was_out;

bool mf_type_memory_was_out(void) { return memory_was_out; }

const mf_type *mf_type_get(mf_dtype dtype, bool weak, int rank, const int64_t *dims)
{
    memory_was_out = false;
    if (rank < 0 || rank > MF_RANK || dtype <= MF_DTYPE_DEFAULT || dtype > MF_KEY)
        return NULL;
    mf_type t;
    memset(&t, 0, sizeof t); /* clears the padding too: the bytes are the key */
    t.dtype = dtype;
    t.weak = weak;
    t.rank = rank;
    t.size = 1;
    int64_t nonzero = mf_dtype_size(dtype); /* an empty array's nonzero dimensions must fit as well */
    for (int i = 0; i < rank; i++) {
        t.dims[i] = dims[i];
        if (dims[i] < 0 || (dims[i] > 0 && nonzero > MOST_BYTES / dims[i]))
            return NULL;
        nonzero *= dims[i] ? dims[i] : 1;
        t.size *= dims[i];
    }
    t.bytes = t.size * mf_dtype_size(dtype);
    const mf_type *found = mf_interner_get(mf_interner_static(&types), &t, sizeof t);
    memory_was_out = !found;
    return found;
}

const mf_type *mf_type_scalar(mf_dtype dtype, bool weak)
{
    static _Atomic(const mf_type *) known[MF_KEY + 1][2];
    if (dtype <= MF_DTYPE_DEFAULT || dtype > MF_KEY)
        return NULL;
    const mf_type *t = atomic_load_explicit(&known[dtype][weak], memory_order_acquire);
    if (!t) {
        t = mf_type_get(dtype, weak, 0, NULL);
        atomic_store_explicit(&known[dtype][weak], t, memory_order_release);
    }
    return t;
}

const mf_type *mf_type_with_dtype(const mf_type *t, mf_dtype dtype) { return mf_type_get(dtype, false, t->rank, t->dims); }
const mf_type *mf_type_strong(const mf_type *t) { return t->weak ? mf_type_get(t->dtype, false, t->rank, t->dims) : t; }
const mf_type *mf_type_with_shape(const mf_type *t, int rank, const int64_t *dims) { return mf_type_get(t->dtype, t->weak, rank, dims); }

const mf_type *mf_type_without_axis(const mf_type *t, int axis)
{
    int64_t dims[MF_RANK];
    if (axis < 0 || axis >= t->rank)
        return NULL;
    for (int i = 0, n = 0; i < t->rank; i++)
        if (i != axis)
            dims[n++] = t->dims[i];
    return mf_type_get(t->dtype, t->weak, t->rank - 1, dims);
}

const mf_type *mf_type_insert_axis(const mf_type *t, int axis, int64_t size)
{
    int64_t dims[MF_RANK];
    if (axis < 0 || axis > t->rank || t->rank == MF_RANK)
        return NULL;
    for (int i = 0; i <= t->rank; i++)
        dims[i] = i < axis ? t->dims[i] : i == axis ? size : t->dims[i - 1];
    return mf_type_get(t->dtype, t->weak, t->rank + 1, dims);
}

const mf_type *mf_type_of_shape(mf_dtype dtype, mf_shape shape)
{
    return shape.rank > MF_MAX_RANK ? NULL : mf_type_get(dtype, false, shape.rank, shape.dims);
}

bool mf_type_same_shape(const mf_type *a, const mf_type *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof a->dims[0]);
}

/* ---- text */

static void print_dims(mf_text *t, const mf_type *type)
{
    mf_text_put(t, "[");
    for (int i = 0; i < type->rank; i++)
        mf_text_add(t, "%s%lld", i ? "," : "", (long long)type->dims[i]);
    mf_text_put(t, "]");
}

void mf_type_print(mf_text *t, const mf_type *type)
{
    mf_text_put(t, mf_dtype_short(type->dtype));
    print_dims(t, type);
    if (type->weak)
        mf_text_put(t, "*");
}

const mf_type *mf_type_parse(const char **s)
{
    const char *p = *s;
    int length = (int)strcspn(p, "[");
    mf_dtype dtype = mf_dtype_parse(p, length);
    int64_t dims[MF_RANK];
    int rank = 0;
    if (!dtype || p[length] != '[')
        return NULL;
    p += length + 1;
    while (*p != ']') {
        char *end;
        int64_t d = strtoll(p, &end, 10);
        if (end == p || *p == '-' || *p == '+' || *p == ' ' || rank == MF_RANK || (*end != ',' && *end != ']'))
            return NULL;
        dims[rank++] = d;
        p = *end == ',' ? end + 1 : end;
        if (*end == ',' && *p == ']')
            return NULL;
    }
    p++;
    bool weak = *p == '*';
    const mf_type *t = mf_type_get(dtype, weak, rank, dims);
    if (t)
        *s = p + weak;
    return t;
}

const char *mf_type_name(const mf_type *type)
{
    if (!type)
        return "no array";
    char at[256];
    size_t capacity = sizeof at;
    int n = snprintf(at, capacity, "%s[", mf_dtype_name(type->dtype));
    for (int i = 0; i < type->rank && n < (int)capacity; i++)
        n += snprintf(at + n, capacity - (size_t)n, "%s%lld", i ? "," : "", (long long)type->dims[i]);
    if (n < (int)capacity)
        snprintf(at + n, capacity - (size_t)n, "]");
    const char *name = mf_intern(at);
    return name ? name : mf_dtype_name(type->dtype);
}
