/* Statics: compile-time constants as leaves. Invariant: equal statics are one object, so the key of a trace compares pointers. Strings,
 * bytes and slices live as long as the process; a module's static lives as long as something holds it. */
#include "tree/tree.h"

#include "base/memory/alloc.h"
#include "base/memory/hash_map.h"

#include <pthread.h>
#include <string.h>

static mf_hash_map statics; /* guarded by lock */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Strings, bytes and slices are identified by their interned bytes, modules by their object. */
static uint64_t hash_of(const mf_static_object *s)
{
    uint64_t key = (uint64_t)(uintptr_t)(s->what == MF_STATIC_MODULE ? (const void *)s->module : (const void *)s->bytes);
    return mf_hash_mix((uint64_t)s->what, key);
}

static void static_destroy(mf_object *o)
{
    mf_static_object *s = (mf_static_object *)o;
    pthread_mutex_lock(&lock);
    mf_hash_map_remove(&statics, hash_of(s), s);
    pthread_mutex_unlock(&lock);
    mf_drop(s->module);
}
const mf_class mf_static_class = { "static", static_destroy };

static bool same(const mf_static_object *a, const mf_static_object *b)
{
    return a->what == b->what && a->module == b->module && a->size == b->size && a->bytes == b->bytes;
}

/* The one object that equals `like`: a new reference, or NULL when memory is out. Call with the lock held. */
static mf_static_object *find_or_add(const mf_static_object *like)
{
    int at = -1;
    for (mf_static_object *s; (s = mf_hash_map_next(&statics, hash_of(like), &at));)
        if (same(s, like) && mf_retain_if_alive(s))
            return s;
    mf_static_object *s = mf_object_new(&mf_static_class, sizeof *s);
    if (!s || !mf_hash_map_add(&statics, hash_of(like), s)) {
        mf_free(s);
        return NULL;
    }
    s->what = like->what;
    s->slice = like->slice;
    s->module = mf_retain(like->module);
    s->size = like->size;
    s->bytes = like->bytes;
    if (s->what != MF_STATIC_MODULE)
        mf_retain(s); /* the table's reference, never dropped */
    return s;
}

static mf_static_object *interned(const mf_static_object *like)
{
    if (like->what != MF_STATIC_MODULE && !like->bytes)
        return NULL;
    pthread_mutex_lock(&lock);
    mf_static_object *s = find_or_add(like);
    pthread_mutex_unlock(&lock);
    return s;
}

mf_static_object *mf_static_string_new(const char *s)
{
    size_t size = strlen(s);
    return interned(&(mf_static_object){ .what = MF_STATIC_STRING, .size = size, .bytes = mf_intern_n(s, size) });
}

const char *mf_static_text(const mf_object *o)
{
    const mf_static_object *s = mf_object_is(o, &mf_static_class) ? (const mf_static_object *)o : NULL;
    return s && s->what == MF_STATIC_STRING ? s->bytes : NULL;
}

void mf_static_print(mf_text *t, const mf_static_object *s)
{
    switch (s->what) {
    case MF_STATIC_STRING: mf_text_add(t, "'%s'", s->bytes); break;
    case MF_STATIC_BYTES: mf_text_add(t, "<static of %zu bytes>", s->size); break;
    case MF_STATIC_MODULE: mf_text_put(t, "<static module>"); break;
    case MF_STATIC_SLICE:
        mf_text_add(t, "%lld:", (long long)s->slice.start);
        if (s->slice.stop != MF_END)
            mf_text_add(t, "%lld", (long long)s->slice.stop);
        if (s->slice.step > 1 || s->slice.step < 0)
            mf_text_add(t, ":%lld", (long long)s->slice.step);
        break;
    }
}

/* ---- public */

static mf_value value_or_memory(void *object) { return mf_value_new(object ? object : mf_error_out_of_memory()); }

mf_value mf_string(const char *string)
{
    MF_ENTER(MF_FORKED);
    if (!string)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_string: NULL is no string");
    return value_or_memory(mf_static_string_new(string));
}

mf_value mf_static_bytes(const void *bytes, size_t size)
{
    MF_ENTER(MF_FORKED);
    if (!bytes && size)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_static_bytes: NULL is no place for %zu bytes", size);
    const char *kept = mf_intern_n(bytes ? bytes : "", size);
    return value_or_memory(interned(&(mf_static_object){ .what = MF_STATIC_BYTES, .size = size, .bytes = kept }));
}

mf_value mf_index_slice(mf_slice slice)
{
    MF_ENTER(MF_FORKED);
    int64_t key[4] = { slice.is_slice, slice.start, slice.stop, slice.step }; /* a key without the struct's padding */
    const char *kept = mf_intern_n((const char *)key, sizeof key);
    return value_or_memory(interned(&(mf_static_object){ .what = MF_STATIC_SLICE, .slice = slice, .size = sizeof key, .bytes = kept }));
}

mf_value mf_static(mf_module module)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_handle_get(module.handle);
    if (!o)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_static: the module is unset");
    if (mf_object_is(o, &mf_error_class))
        return mf_value_of(o);
    return value_or_memory(interned(&(mf_static_object){ .what = MF_STATIC_MODULE, .module = o }));
}

const void *(mf_static_data)(mf_value v, size_t *size)
{
    MF_ENTER(NULL);
    mf_object *o = mf_object_of(v);
    const mf_static_object *s = mf_object_is(o, &mf_static_class) ? (const mf_static_object *)o : NULL;
    if (!s || (s->what != MF_STATIC_STRING && s->what != MF_STATIC_BYTES))
        return NULL;
    if (size)
        *size = s->size;
    return s->bytes;
}
