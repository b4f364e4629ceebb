/* Gradient transformations: interning, state checks, and the public functions that all of them share. Invariant: a state that belongs to
 * another optimizer is an error before anything is computed, and is left unchanged. */
#include "optim/transformation.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- handles */

#define TAG       ((uint64_t)0x6d666f7074ull << 24) /* distinguishes optimizer handles from other numbers */
#define NO_MEMORY ((1u << 24) - 1)                  /* the number of the out-of-memory transformation */
static struct {
    pthread_mutex_t lock;
    const mf_transformation **at; /* interned bytes, which are never freed */
    uint64_t count, capacity;
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool reserve(void)
{
    if (known.count < known.capacity)
        return true;
    uint64_t capacity = known.capacity ? known.capacity * 2 : 16;
    const mf_transformation **more = capacity < NO_MEMORY ? realloc(known.at, capacity * sizeof *more) : NULL;
    if (!more)
        return false;
    known.at = more;
    known.capacity = capacity;
    return true;
}

/* The transformation that stands for every one that could not be allocated. */
static mf_value no_memory_init(const mf_transformation *t, mf_value params)
{
    (void)t, (void)params;
    return mf_make_error(MF_ERROR_MEMORY, "out of memory");
}
static mf_value no_memory_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)updates, (void)state;
    return no_memory_init(t, params);
}
static const mf_transformation_rule no_memory_rule = { .name = "no memory", .init = no_memory_init, .update = no_memory_update };
static const mf_transformation no_memory = { .rule = &no_memory_rule, .name = "no memory" };
static const mf_optimizer no_memory_handle = { TAG | NO_MEMORY };

/* Whether this is the child of a fork, where the lock may be held forever by a thread that does not exist. */
static bool forked(void)
{
    mf_status status = mf_error_status(mf_none());
    return status != MF_OK && status != MF_ERROR_MEMORY;
}

mf_optimizer mf_transformation_no_memory(void) { return no_memory_handle; }

static mf_optimizer handle_of(const mf_transformation *t, size_t size)
{
    MF_SCOPE;
    size_t interned_size = 0;
    const mf_transformation *bytes = mf_static_data(mf_static_bytes(t, size), &interned_size);
    mf_optimizer handle = no_memory_handle;
    if (!bytes)
        return handle;
    pthread_mutex_lock(&known.lock);
    uint64_t i = 0;
    while (i < known.count && known.at[i] != bytes)
        i++;
    if (i < known.count || reserve()) {
        known.at[i] = bytes;
        known.count += i == known.count;
        handle.handle = TAG | i;
    }
    pthread_mutex_unlock(&known.lock);
    return handle;
}

const mf_transformation *mf_transformation_of(mf_optimizer handle)
{
    uint64_t i = handle.handle & ((1u << 24) - 1);
    if (forked())
        return NULL;
    if (handle.handle == no_memory_handle.handle)
        return &no_memory;
    pthread_mutex_lock(&known.lock);
    const mf_transformation *t = (handle.handle ^ i) == TAG && i < known.count ? known.at[i] : NULL;
    pthread_mutex_unlock(&known.lock);
    return t;
}

int mf_transformation_number(mf_optimizer handle) { return (int)(handle.handle & NO_MEMORY); }

const mf_transformation *mf_transformation_numbered(double number)
{
    return number >= 0 && number <= NO_MEMORY ? mf_transformation_of((mf_optimizer){ TAG | (uint64_t)number }) : NULL;
}

mf_optimizer mf_transformation_make(const mf_transformation *t, const mf_optimizer *parts, int count)
{
    if (forked())
        return (mf_optimizer){ 0 };
    const uint64_t kept[] = { t->schedule.handle, t->mask.handle, t->mask_fn.handle };
    for (int i = 0; i < 3; i++) {
        mf_status status = kept[i] ? mf_error_status((mf_value){ kept[i] }) : MF_OK;
        if (status != MF_OK)
            return status == MF_ERROR_MEMORY ? no_memory_handle
                                             : mf_transformation_wrong("%s: %s", t->name, mf_error((mf_value){ kept[i] }));
    }
    for (int i = 0; i < count; i++)
        if (parts[i].handle == no_memory_handle.handle)
            return no_memory_handle;
        else if (!mf_transformation_of(parts[i]))
            return mf_transformation_wrong("%s: number %d of its transformations is no optimizer", t->name, i + 1);
    size_t size = sizeof *t + (size_t)count * sizeof *parts;
    mf_transformation *whole = calloc(1, size); /* zeroed padding: equal options must have equal bytes */
    if (!whole)
        return no_memory_handle;
    whole->rule = t->rule;
    whole->name = t->name;
    memcpy(whole->number, t->number, sizeof t->number);
    memcpy(whole->flag, t->flag, sizeof t->flag);
    whole->dtype = t->dtype;
    whole->schedule = t->schedule;
    whole->mask = t->mask;
    whole->mask_fn = t->mask_fn;
    whole->count = count;
    if (count)
        memcpy(whole->parts, parts, (size_t)count * sizeof *parts);
    mf_optimizer handle = handle_of(whole, size);
    free(whole);
    return handle;
}

/* ---- invalid transformations: their name is the error message */

static mf_value wrong_init(const mf_transformation *t, mf_value params)
{
    (void)params;
    return mf_make_error(MF_ERROR_ARGUMENT, "%s", t->name);
}

static mf_value wrong_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    (void)updates, (void)state;
    return wrong_init(t, params);
}

static const mf_transformation_rule wrong_rule = { .name = "wrong", .init = wrong_init, .update = wrong_update };

mf_optimizer mf_transformation_wrong(const char *format, ...)
{
    if (forked())
        return (mf_optimizer){ 0 };
    MF_SCOPE;
    char words[256];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    size_t size = 0;
    const char *lasting = mf_static_data(mf_string(words), &size);
    if (!lasting)
        return no_memory_handle;
    return mf_transformation_make(&(mf_transformation){ .rule = &wrong_rule, .name = lasting }, NULL, 0);
}

/* ---- states */

static void add_key(char *keys, size_t size, const char *key)
{
    size_t n = strlen(keys);
    snprintf(keys + n, size - n, n ? ", %s" : "%s", key);
}

static bool has_key(const char *keys, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = keys; (at = strstr(at, key)); at++)
        if ((at == keys || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return true;
    return false;
}

/* The keys of a flat chain's state, in sorted order. */
static void flat_keys(const mf_transformation *t, char *keys, size_t size)
{
    static const char *const all[] = {
        "count", "e_g", "e_x", "ema", "mu", "nu", "nu_max", "sum_of_squares", "trace", "v", "v_col", "v_row"
    };
    *keys = 0;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        bool has = k == 0;
        for (int64_t i = 0; i < t->count && !has; i++)
            has = has_key(mf_transformation_of(t->parts[i])->rule->keys, all[k]);
        if (has)
            add_key(keys, size, all[k]);
    }
}

static mf_value foreign(const mf_transformation *t, const char *wanted, const char *have)
{
    return mf_make_error(MF_ERROR_TREE,
                         "mf_optim_update: the state of %s is %s, but this one has %s: mf_optim_init of another optimizer made it", t->name,
                         wanted, have);
}

/* Unset, or an error: the state is not one of t's. A state that is an error itself passes: the update propagates it. */
static mf_value check_state(const mf_transformation *t, mf_value state)
{
    char keys[256] = "", own[256] = "", wanted[300];
    int count = mf_len(state), parts = t->rule->tuple_of_parts ? (int)t->count : 0;
    if (mf_kind_of(state) == MF_KIND_ERROR || t->rule == &wrong_rule || t == &no_memory)
        return (mf_value){ 0 };
    for (int i = 0; i < count && mf_key(state, i); i++)
        add_key(keys, sizeof keys, mf_key(state, i));
    if (t->rule->flat)
        flat_keys(t, own, sizeof own);
    else if (t->rule->keys)
        add_key(own, sizeof own, t->rule->keys);
    if (*own) {
        snprintf(wanted, sizeof wanted, "a dict of %s", own);
        if (strcmp(keys, own) != 0)
            return foreign(t, wanted, *keys ? keys : "no keys");
    } else if (mf_kind_of(state) != MF_KIND_TUPLE || count != parts) {
        char have[64];
        snprintf(have, sizeof have, mf_kind_of(state) == MF_KIND_TUPLE ? "%d" : "no such parts", count);
        snprintf(wanted, sizeof wanted, parts ? "a tuple of %d" : "an empty tuple", parts);
        return foreign(t, wanted, *keys ? keys : have);
    }
    mf_value wrong = { 0 };
    for (int i = 0; i < parts && !wrong.handle; i++)
        wrong = check_state(mf_transformation_of(t->parts[i]), mf_get(state, i));
    return t->rule->inner_key ? check_state(mf_transformation_of(t->parts[0]), mf_get(state, t->rule->inner_key)) : wrong;
}

mf_value mf_transformation_init(mf_optimizer part, mf_value params)
{
    const mf_transformation *t = mf_transformation_of(part);
    return t->rule->init ? t->rule->init(t, params) : mf_tuple_n(NULL, 0);
}

/* If the new state is an error, so are the updates: computed from an incomplete state they would be wrong. */
mf_value mf_transformation_update(mf_optimizer part, mf_value updates, mf_value *state, mf_value params)
{
    const mf_transformation *t = mf_transformation_of(part);
    mf_value made = t->rule->update(t, updates, state, params);
    return mf_kind_of(*state) == MF_KIND_ERROR ? *state : made;
}

/* ---- the public functions */

static mf_value no_optimizer(void) { return mf_make_error(MF_ERROR_ARGUMENT, "this is not an optimizer"); }

mf_value(mf_optim_init)(mf_optimizer handle, mf_value params)
{
    MF_LAYER;
    return mf_transformation_of(handle) ? mf_transformation_init(handle, params) : no_optimizer();
}

mf_value(mf_optim_transform)(mf_optimizer handle, mf_value updates, mf_value *opt_state, mf_value params)
{
    MF_LAYER;
    const mf_transformation *t = mf_transformation_of(handle);
    if (!t)
        return no_optimizer();
    mf_value wrong = check_state(t, *opt_state);
    return wrong.handle ? wrong : mf_transformation_update(handle, updates, opt_state, params);
}

static mf_value apply_leaf(mf_value p, mf_value u) { return mf_astype(mf_add(u, p), mf_dtype_of(p)); }

mf_value(mf_apply_updates)(mf_value params, mf_value updates)
{
    MF_LAYER;
    return mf_tree_map(apply_leaf, params, updates);
}

static mf_value mixed_leaf(void *step_size, mf_value new_leaf, mf_value old_leaf)
{
    mf_value s = *(mf_value *)step_size;
    s = mf_weak_type_of(s) ? s : mf_astype(s, mf_dtype_of(old_leaf));
    return mf_add(mf_mul(new_leaf, s), mf_mul(old_leaf, mf_sub(1, s)));
}

mf_value(mf_incremental_update)(mf_value new_tensors, mf_value old_tensors, mf_value step_size)
{
    MF_LAYER;
    return mf_tree_map(mf_closure(mixed_leaf, &step_size), new_tensors, old_tensors);
}

static mf_value either_leaf(void *is_due, mf_value new_leaf, mf_value old_leaf)
{
    return mf_where(*(mf_value *)is_due, new_leaf, old_leaf);
}

mf_value(mf_periodic_update)(mf_value new_tensors, mf_value old_tensors, mf_value steps, mf_value update_period)
{
    MF_LAYER;
    mf_value is_due = mf_equal(mf_remainder(steps, update_period), 0);
    return mf_tree_map(mf_closure(either_leaf, &is_due), new_tensors, old_tensors);
}

static mf_value first_of(mf_value p, mf_value g) { return (void)g, p; }

/* The error of an update; where the gradients' tree is not that of the parameters, in words that say so: mf_tree_map's message ends with
 * "at", the place and what stands there. */
static mf_value explained(mf_value error, mf_value grads, mf_value params)
{
    if (mf_kind_of(grads) == MF_KIND_ERROR || mf_kind_of(params) == MF_KIND_ERROR)
        return error;
    mf_value both = mf_tree_map(first_of, params, grads);
    const char *message = mf_kind_of(both) == MF_KIND_ERROR && mf_error_status(both) == MF_ERROR_TREE ? mf_error(both) : NULL;
    const char *where = message ? strstr(message, "at ") : NULL;
    return where ? mf_make_error(MF_ERROR_TREE, "mf_optim_update: the gradients must have the tree of the parameters, which differs %s",
                                 where)
                 : error;
}

mf_value(mf_optim_update)(mf_optimizer handle, mf_value grads, mf_value *opt_state, mf_value params)
{
    MF_LAYER;
    mf_value updates = mf_optim_transform(handle, grads, opt_state, params);
    if (mf_kind_of(updates) != MF_KIND_ERROR)
        updates = mf_apply_updates(params, updates);
    return mf_kind_of(updates) == MF_KIND_ERROR ? explained(updates, grads, params) : updates;
}

/* ---- masks */

/* "['layers'][0]['w']" as "layers/0/w" */
static void names_of(const char *path, char *names, size_t size)
{
    size_t n = 0;
    for (; *path && n + 2 < size; path++) {
        if (*path == '[' && n)
            names[n++] = '/';
        if (!strchr("[]'", *path))
            names[n++] = *path;
    }
    names[n] = 0;
}

bool mf_transformation_accepts(const mf_transformation *t, mf_value path, mf_value leaf)
{
    char names[1024];
    size_t size = 0;
    if (t->mask_fn.handle && !mf_item_bool(mf_call(t->mask_fn, path, leaf)))
        return false;
    const char *text = t->mask.handle ? mf_static_data(path, &size) : NULL;
    if (text)
        names_of(text, names, sizeof names);
    return !t->mask.handle || (text && mf_filter_accepts_path(t->mask, names));
}

mf_function mf_kept_schedule(mf_function f) { return f.handle ? mf_function_keep(f) : f; }
mf_filter mf_kept_mask(mf_filter f) { return f.handle ? mf_filter_keep(f) : f; }

/* ---- helpers of the rules */

static mf_value zeros(void *dtype, mf_value x)
{
    mf_dtype d = (mf_dtype) * (int64_t *)dtype;
    return d ? mf_zeros(mf_shape_of(x), d) : mf_zeros_like(x);
}
mf_value mf_zeros_in(mf_value like, int64_t dtype) { return mf_tree_map(mf_closure(zeros, &dtype), like); }

static mf_value in_dtype(void *dtype, mf_value x) { return mf_astype(x, (mf_dtype) * (int64_t *)dtype); }
mf_value mf_tree_in(mf_value tree, int64_t dtype) { return dtype ? mf_tree_map(mf_closure(in_dtype, &dtype), tree) : tree; }

mf_value mf_count_zero(void) { return mf_zeros(MF_SHAPE0, MF_I32); }
mf_value mf_count_after(mf_value count) { return mf_add(count, 1); }

static mf_value scale_leaf(void *by, mf_value x)
{
    mf_value s = *(mf_value *)by;
    return mf_mul(x, mf_weak_type_of(s) ? s : mf_astype(s, mf_dtype_of(x)));
}
mf_value mf_scaled(mf_value tree, mf_value by) { return mf_tree_map(mf_closure(scale_leaf, &by), tree); }
