/* Function objects, interned: equal functions are the same object; see function.h. Invariant: every object in the table is alive, or about
 * to remove itself. */
#include "trace/function.h"

#include "base/memory/hash_map.h"
#include "runtime/comm.h"

#include <manyfold/function.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- the weak table of functions */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static mf_hash_map table; /* of functions, by their hashes */

static bool same_function(const mf_function_object *f, const mf_function_class *kind, const mf_function_object *inner, uint64_t hash,
                          const void *options, size_t size)
{
    if (f->hash != hash || f->kind != kind || f->inner != inner || f->options_size != size)
        return false;
    return !size || memcmp(f->options, options, size) == 0;
}

static void function_destroy(mf_object *o)
{
    mf_function_object *f = (mf_function_object *)o;
    pthread_mutex_lock(&table_lock);
    mf_hash_map_remove(&table, f->hash, f);
    pthread_mutex_unlock(&table_lock);
    if (f->kind->destroy)
        f->kind->destroy(f);
    mf_drop(f->inner);
    mf_free(f->options);
}
const mf_class mf_function_object_class = { "function", function_destroy };

/* A living function equal to this one, retained; one whose count has reached zero does not count. */
static mf_function_object *table_find(const mf_function_class *kind, const mf_function_object *inner, uint64_t hash, const void *options,
                                      size_t size)
{
    int at = -1;
    for (mf_function_object *f; (f = mf_hash_map_next(&table, hash, &at));)
        if (same_function(f, kind, inner, hash, options, size) && mf_retain_if_alive(f))
            return f;
    return NULL;
}

/* "pmap(f)", or what the class says. Made once per function, because looking up a C function's name may read files. */
static const char *name_of(const mf_function_class *kind, const mf_function_object *inner, const void *options)
{
    if (kind->name_of)
        return kind->name_of(options);
    char name[160];
    snprintf(name, sizeof name, inner ? "%s(%s)" : "%s", kind->name, inner ? inner->name : "");
    return mf_intern(name);
}

static int depth_of(const mf_function_class *kind, const mf_function_object *inner, const void *options)
{
    int held = kind->depth ? kind->depth(options) + 1 : 0, around = inner ? inner->depth + 1 : 0;
    return held > around ? held : around;
}

static mf_function_object *function_new(const mf_function_class *kind, mf_function_object *inner, uint64_t hash, const void *options,
                                        size_t size)
{
    mf_function_object *f = mf_object_new(&mf_function_object_class, sizeof *f);
    void *copy = f ? mf_alloc(size ? size : 1) : NULL;
    if (!copy || !mf_hash_map_add(&table, hash, f)) {
        mf_free(copy);
        mf_free(f);
        return NULL;
    }
    if (size)
        memcpy(copy, options, size);
    f->kind = kind;
    f->inner = mf_retain(inner);
    f->name = name_of(kind, inner, options);
    f->hash = hash;
    f->depth = depth_of(kind, inner, options);
    f->options = copy;
    f->options_size = size;
    return f;
}

/* Drops the references that the caller's options hold. */
static void give_up(const mf_function_class *kind, const void *options, size_t size)
{
    mf_function_object scratch = { .kind = kind, .options = (void *)(uintptr_t)options, .options_size = size };
    if (kind->destroy)
        kind->destroy(&scratch);
}

mf_function mf_function_make(const mf_function_class *kind, mf_function_object *inner, const void *options, size_t size)
{
    if (depth_of(kind, inner, options) > MF_TREE_DEPTH) {
        give_up(kind, options, size);
        return (mf_function){ mf_handle_new(mf_error_new(MF_ERROR_ARGUMENT,
                                                         "%s: functions may be wrapped in others %d deep, and this one "
                                                         "would be more",
                                                         kind->name, MF_TREE_DEPTH)) };
    }
    uint64_t hash = mf_hash_mix(mf_hash(options, size, (uintptr_t)kind), (uintptr_t)inner);
    pthread_mutex_lock(&table_lock);
    mf_function_object *f = table_find(kind, inner, hash, options, size);
    bool found = f != NULL;
    if (!f)
        f = function_new(kind, inner, hash, options, size);
    pthread_mutex_unlock(&table_lock);
    if (found || !f) /* the existing function holds references of its own */
        give_up(kind, options, size);
    return (mf_function){ f ? mf_handle_new(f) : mf_handle_new(mf_error_out_of_memory()) };
}

mf_function mf_function_wrap(const mf_function_class *kind, mf_function f, const void *options, size_t size)
{
    mf_error_object *error = NULL;
    mf_function_object *inner = mf_function_of(f, &error);
    if (inner)
        return mf_function_make(kind, inner, options, size);
    give_up(kind, options, size);
    return (mf_function){ mf_handle_new(error) };
}

mf_ints mf_ints_plain(mf_ints list, const char *what, mf_error_object **error)
{
    mf_ints plain;
    memset(&plain, 0, sizeof plain);
    if (list.count < 0 || list.count > MF_MAX_RANK) {
        if (!*error)
            *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: a list has between 0 and %d entries, not %d", what, MF_MAX_RANK, list.count);
        return plain;
    }
    plain.count = list.count;
    memcpy(plain.at, list.at, (size_t)plain.count * sizeof *plain.at);
    return plain;
}

mf_function_object *mf_function_of(mf_function f, mf_error_object **error)
{
    mf_object *o = mf_handle_get(f.handle);
    if (mf_object_is(o, &mf_function_object_class))
        return (mf_function_object *)o;
    *error = mf_object_is(o, &mf_error_class) ? mf_retain(o)
                                              : mf_error_new(MF_ERROR_ARGUMENT, "this is not a function (%s)", o ? o->kind->name : "unset");
    return NULL;
}

mf_function mf_function_keep_n(mf_function f)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *error = NULL;
    mf_function_object *o = mf_function_of(f, &error);
    return (mf_function){ o ? mf_handle_keep_one(&o->kept, &o->object) : mf_handle_new(error) };
}

/* Some word of the options may look like an ended handle by chance; that costs at most a retrace. */
static bool names_what_ended(const mf_function_object *f)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= f->options_size; at += sizeof word) {
        memcpy(&word, (const char *)f->options + at, sizeof word);
        if (mf_handle_ended(word))
            return true;
    }
    return false;
}

bool mf_function_holds_values(const mf_function_object *f)
{
    for (; f; f = f->inner)
        if (f->kind->destroy || names_what_ended(f))
            return true;
    return false;
}

static const mf_function_object *map_of(const mf_function_object *f)
{
    while (f && !f->kind->devices)
        f = f->inner;
    return f;
}

void mf_function_expect(const mf_function_object *f)
{
    const mf_function_object *map = map_of(f);
    mf_comm_expect_nothing();
    if (map)
        mf_comm_expect_map(map->kind->devices(map));
}

bool mf_function_may_exchange(const mf_function_object *f)
{
    const mf_function_object *map = map_of(f);
    return !map || mf_comm_takes_part(map->kind->devices(map));
}
