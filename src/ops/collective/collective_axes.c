/* The axes and groups of collectives, checked and counted. Invariants: every name is bound where the equation is; groups contain every
 * index once; they differ in size only where the op allows it, and then the shorter ones are padded with -1. */
#include "ops/collective/collective.h"

static void list_scope(mf_text *t, const mf_axis_env *env)
{
    int count = 0;
    for (; env; env = env->outer)
        if (env->name)
            mf_text_add(t, "%s%s", count++ ? ", " : "", env->name);
    if (!count)
        mf_text_put(t, "none");
}

mf_error_object *collective_check_axes(const mf_type_context *c, const mf_namelist *axes)
{
    for (int i = 0; i < axes->count; i++) {
        if (mf_axis_env_find(c->env, axes->at[i]))
            continue;
        mf_text names = { 0 };
        list_scope(&names, c->env);
        mf_error_object *e = mf_error_new(MF_ERROR_AXIS, "%s: unbound axis name: %s. The following axis names are in scope: %s",
                                          c->op->name, axes->at[i], names.at && !names.failed ? names.at : "");
        mf_text_free(&names);
        return e;
    }
    return NULL;
}

int64_t collective_total_size(const mf_axis_env *env, const mf_namelist *axes)
{
    int64_t size = 1;
    for (int i = 0; i < axes->count; i++) {
        const mf_axis_env *binder = mf_axis_env_find(env, axes->at[i]);
        size *= binder ? binder->size : 1;
    }
    return size;
}

int64_t collective_participants(const mf_axis_env *env, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size)
{
    return groups->count ? group_size : collective_total_size(env, axes);
}

/* Groups of different sizes must be padded with -1 at their ends. */
static mf_error_object *check_padding(const mf_type_context *c, const mf_intlist *groups, int64_t group_size, bool uneven, int64_t *members)
{
    for (int i = 0; i < groups->count; i++) {
        bool gap = groups->at[i] == -1, first = i % group_size == 0;
        if (gap && (!uneven || first))
            return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups must be groups of equal size");
        if (!gap && !first && groups->at[i - 1] == -1)
            return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups holds -1");
        *members += !gap;
    }
    return NULL;
}

static mf_error_object *check_groups(const mf_type_context *c, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size,
                                     bool uneven)
{
    int64_t size = collective_total_size(c->env, axes), members = 0;
    if (!groups->count)
        return NULL;
    if (group_size < 1 || groups->count % group_size)
        return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups must be groups of equal size");
    mf_error_object *error = check_padding(c, groups, group_size, uneven, &members);
    if (error)
        return error;
    if (members != size)
        return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups must be groups%s that cover all %lld members of the axis",
                             uneven ? "" : " of equal size", (long long)size);
    for (int64_t member = 0; member < size; member++)
        if (!mf_ints_has(groups, member))
            return mf_type_error(c, MF_ERROR_AXIS, "axis_index_groups must hold every index once; %lld is missing", (long long)member);
    return NULL;
}

mf_error_object *collective_check(const mf_type_context *c, const mf_namelist *axes, const mf_intlist *groups, int64_t group_size,
                                  bool uneven)
{
    mf_error_object *error = c->in_count == 1 ? NULL : mf_type_error(c, MF_ERROR_ARGUMENT, "one operand is needed");
    if (!error)
        error = collective_check_axes(c, axes);
    return error ? error : check_groups(c, axes, groups, group_size, uneven);
}

const mf_namelist *collective_without(const mf_namelist *axes, const char *name)
{
    const char *left[64];
    int count = 0;
    for (int i = 0; i < axes->count && count < 64; i++)
        if (axes->at[i] != name)
            left[count++] = axes->at[i];
    return mf_names_intern(left, count);
}

bool collective_over_batch(const mf_batch_context *c, const mf_namelist *axes)
{
    return c->axis_name && mf_names_find(axes, c->axis_name) >= 0;
}

const mf_intlist *collective_no_groups(void) { return mf_ints_intern(NULL, 0); }

void collective_refuse(mf_batch_context *c, const mf_eqn *e, const char *what)
{
    mf_builder_fail(c->b, mf_error_new(MF_ERROR_AXIS, "%s: under vmap over axis %s, %s", e->op->name, c->axis_name, what));
}

uint64_t collective_bits_of(const mf_axis_env *env, const mf_namelist *axes)
{
    uint64_t bits = 0;
    for (int i = 0; i < axes->count; i++) {
        const mf_axis_env *binder = mf_axis_env_find(env, axes->at[i]);
        int depth = binder ? mf_axis_env_depth(env, binder) : 64;
        bits |= depth >= 0 && depth < 64 ? (uint64_t)1 << depth : 0;
    }
    return bits;
}
