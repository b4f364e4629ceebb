/* Parameters, handled by their descriptions: equality, hash, copy, drop, and finding a field by its role. Invariant: lists and names are
 * interned, so they compare by address; nested programs and rules are counted, and a copy holds references of its own. Hashes depend on
 * contents only, never on addresses, so they are the same in every run. */
#include "ir/op.h"
#include <string.h>

static const void *field(const mf_param *p, const void *params) { return (const char *)params + p->offset; }

/* ---- equal */
static bool programs_equal(const mf_program *a, const mf_program *b) { return a == b || (a && b && mf_program_equal(a, b)); }

static bool lists_equal(const mf_program_list *a, const mf_program_list *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (!programs_equal(a->at[i], b->at[i]))
            return false;
    return true;
}

static bool field_equal(mf_param_kind kind, const void *a, const void *b)
{
    switch (kind) {
    case MF_PARAM_INT: return *(const int64_t *)a == *(const int64_t *)b;
    case MF_PARAM_BOOL: return *(const bool *)a == *(const bool *)b;
    case MF_PARAM_DOUBLE: return memcmp(a, b, sizeof(double)) == 0; /* bitwise: -0.0 differs from 0.0, a NaN equals itself */
    case MF_PARAM_DTYPE: return *(const mf_dtype *)a == *(const mf_dtype *)b;
    case MF_PARAM_INTS:
    case MF_PARAM_EXTRA:
    case MF_PARAM_NAME:
    case MF_PARAM_NAMES:
    case MF_PARAM_RULE: return *(const void *const *)a == *(const void *const *)b;
    case MF_PARAM_PROGRAM: return programs_equal(*(mf_program *const *)a, *(mf_program *const *)b);
    case MF_PARAM_PROGRAMS: return lists_equal(a, b);
    }
    return false;
}

bool mf_params_equal(const mf_op *op, const void *a, const void *b)
{
    if (a == b || !op->params)
        return true;
    if (!a || !b)
        return false;
    for (const mf_param *p = op->params; p->name; p++)
        if (!field_equal(p->kind, field(p, a), field(p, b)))
            return false;
    return true;
}

/* ---- hash */
static uint64_t hash_string(uint64_t h, const char *s) { return s ? mf_hash(s, strlen(s), h) : mf_hash_mix(h, 1); }

static uint64_t hash_ints(uint64_t h, const mf_intlist *list)
{
    return list ? mf_hash(list->at, (size_t)list->count * sizeof list->at[0], mf_hash_mix(h, (uint64_t)list->count)) : mf_hash_mix(h, 1);
}

static uint64_t hash_names(uint64_t h, const mf_namelist *list)
{
    h = mf_hash_mix(h, list ? (uint64_t)list->count : 0);
    for (int i = 0; list && i < list->count; i++)
        h = hash_string(h, list->at[i]);
    return h;
}

static uint64_t hash_program(uint64_t h, const mf_program *p) { return mf_hash_mix(h, p ? mf_program_hash(p) : 1); }

static uint64_t hash_programs(uint64_t h, const mf_program_list *list)
{
    h = mf_hash_mix(h, (uint64_t)list->count);
    for (int i = 0; i < list->count; i++)
        h = hash_program(h, list->at[i]);
    return h;
}

static uint64_t hash_rule(uint64_t h, const mf_custom_rule_head *rule) { return hash_string(h, rule ? rule->name : NULL); }

static uint64_t field_hash(uint64_t h, mf_param_kind kind, const void *a)
{
    switch (kind) {
    case MF_PARAM_INT: return mf_hash_mix(h, (uint64_t) * (const int64_t *)a);
    case MF_PARAM_BOOL: return mf_hash_mix(h, *(const bool *)a);
    case MF_PARAM_DOUBLE: return mf_hash(a, sizeof(double), h);
    case MF_PARAM_DTYPE: return mf_hash_mix(h, (uint64_t) * (const mf_dtype *)a);
    case MF_PARAM_INTS:
    case MF_PARAM_EXTRA: return hash_ints(h, *(const mf_intlist *const *)a);
    case MF_PARAM_NAME: return hash_string(h, *(const char *const *)a);
    case MF_PARAM_NAMES: return hash_names(h, *(const mf_namelist *const *)a);
    case MF_PARAM_RULE: return hash_rule(h, *(const mf_custom_rule_head *const *)a);
    case MF_PARAM_PROGRAM: return hash_program(h, *(mf_program *const *)a);
    case MF_PARAM_PROGRAMS: return hash_programs(h, a);
    }
    return h;
}

uint64_t mf_params_hash(const mf_op *op, const void *params)
{
    uint64_t h = 0;
    if (op->params && params)
        for (const mf_param *p = op->params; p->name; p++)
            h = field_hash(h, p->kind, field(p, params));
    return h;
}

/* ---- copy and drop */
static bool copy_list(mf_arena *arena, mf_program_list *list)
{
    mf_program **at = mf_arena_alloc(arena, (size_t)list->count * sizeof *at + 1);
    if (!at)
        return false;
    for (int i = 0; i < list->count; i++)
        at[i] = list->at[i];
    list->at = at;
    return true;
}

static void retain_fields(const mf_op *op, const void *params)
{
    for (const mf_param *p = op->params; p->name; p++) {
        const void *f = field(p, params);
        if (p->kind == MF_PARAM_PROGRAM || p->kind == MF_PARAM_RULE)
            mf_retain(*(const void *const *)f);
        else if (p->kind == MF_PARAM_PROGRAMS)
            for (int i = 0; i < ((const mf_program_list *)f)->count; i++)
                mf_retain(((const mf_program_list *)f)->at[i]);
    }
}

void *mf_params_copy(mf_arena *arena, const mf_op *op, const void *params)
{
    if (!op->params || !params)
        return NULL;
    char *copy = mf_arena_alloc(arena, op->params_size);
    if (!copy)
        return NULL;
    memcpy(copy, params, op->params_size);
    for (const mf_param *p = op->params; p->name; p++)
        if (p->kind == MF_PARAM_PROGRAMS && !copy_list(arena, (mf_program_list *)(copy + p->offset)))
            return NULL;
    retain_fields(op, copy);
    return copy;
}

void mf_params_drop(const mf_op *op, const void *params)
{
    if (!op->params || !params)
        return;
    for (const mf_param *p = op->params; p->name; p++) {
        const void *f = field(p, params);
        if (p->kind == MF_PARAM_PROGRAM || p->kind == MF_PARAM_RULE)
            mf_drop(*(const void *const *)f);
        else if (p->kind == MF_PARAM_PROGRAMS)
            for (int i = 0; i < ((const mf_program_list *)f)->count; i++)
                mf_drop(((const mf_program_list *)f)->at[i]);
    }
}

const void *mf_params_role(const mf_op *op, const void *params, mf_param_role role)
{
    for (const mf_param *p = op->params; params && p && p->name; p++)
        if (p->role == role)
            return field(p, params);
    return NULL;
}

/* Visits the nested programs; returns the place of the one with this index, or, if that is negative, counts all. */
static mf_program **walk_programs(const mf_op *op, const void *params, int index, int *count)
{
    *count = 0;
    for (const mf_param *p = op->params; params && p && p->name; p++) {
        const void *f = field(p, params);
        mf_program **at = p->kind == MF_PARAM_PROGRAMS ? ((const mf_program_list *)f)->at : (mf_program **)(uintptr_t)f;
        int n = p->kind == MF_PARAM_PROGRAMS ? ((const mf_program_list *)f)->count : p->kind == MF_PARAM_PROGRAM;
        for (int i = 0; i < n; i++)
            if (at[i] && (*count)++ == index)
                return &at[i];
    }
    return NULL;
}

int mf_params_program_count(const mf_op *op, const void *params)
{
    int count;
    walk_programs(op, params, -1, &count);
    return count;
}

mf_program **mf_params_program_at(const mf_op *op, const void *params, int index)
{
    int count;
    return walk_programs(op, params, index, &count);
}

const mf_axis_env *mf_params_env(const mf_op *op, const void *params, const mf_axis_env *env)
{
    const char *const *name = mf_params_role(op, params, MF_ROLE_BOUND_AXIS);
    const int64_t *size = mf_params_role(op, params, MF_ROLE_BOUND_SIZE);
    return name && size ? mf_axis_env_push(env, *name, *size, 1) : env;
}

void mf_collective_members(const mf_eqn *e, const mf_namelist **axes, const mf_intlist **groups, int64_t *group_size)
{
    const mf_namelist *const *names = mf_params_role(e->op, e->params, MF_ROLE_AXES);
    const mf_intlist *const *list = mf_params_role(e->op, e->params, MF_ROLE_GROUPS);
    const int64_t *size = mf_params_role(e->op, e->params, MF_ROLE_GROUP_SIZE);
    *axes = names ? *names : NULL;
    *groups = list ? *list : NULL;
    *group_size = size ? *size : 0;
}
