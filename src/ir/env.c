/* Axis environments, interned: equal chains of binders have one address, so traces and caches compare them by pointer.
 * Invariant: an environment lives as long as the process. */
#include "ir/program.h"
#include <string.h>

static const mf_axis_env *push(const mf_axis_env *outer, const char *name, int64_t size, int is_pmap, const mf_intlist *inside)
{
    static _Atomic(mf_interner *) table;
    mf_interner *interner = mf_interner_static(&table);
    if (!interner)
        return NULL;
    mf_axis_env key;
    memset(&key, 0, sizeof key); /* clears the padding too: the bytes are the key */
    key.outer = outer;
    key.name = name;
    key.size = size;
    key.is_pmap = is_pmap;
    key.inside = inside;
    return mf_interner_get(interner, &key, sizeof key);
}

const mf_axis_env *mf_axis_env_push(const mf_axis_env *outer, const char *name, int64_t size, int is_pmap)
{
    return push(outer, name, size, is_pmap, NULL);
}

const mf_axis_env *mf_axis_env_push_spread(const mf_axis_env *outer, const char *name, int64_t size, const mf_intlist *inside)
{
    return push(outer, name, size, 1, inside);
}

const mf_axis_env *mf_axis_env_find(const mf_axis_env *env, const char *name)
{
    if (!name)
        return NULL;
    while (env && env->name != name)
        env = env->outer;
    return env;
}

int mf_axis_env_depth(const mf_axis_env *env, const mf_axis_env *binder)
{
    while (env && env != binder)
        env = env->outer;
    int depth = -1;
    for (; env; env = env->outer)
        depth++;
    return depth;
}

int mf_axis_env_level(const mf_axis_env *env, const char *name)
{
    const mf_axis_env *binder = mf_axis_env_find(env, name);
    int level = 0;
    if (!binder)
        return -1;
    for (; env != binder; env = env->outer)
        level++;
    return level;
}
