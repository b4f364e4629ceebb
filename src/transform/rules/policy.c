#include "transform/rules/policy.h"

#include "base/text/symbol.h"
#include "ops/ops.h"
#include "tree/tree.h"

#include <pthread.h>
#include <stdarg.h>
#include <string.h>

typedef bool (*saves_fn)(const mf_saveable *value, const void *context);

/* ---- the built-in policies */

static bool saves_everything(const mf_saveable *v, const void *context)
{
    (void)v, (void)context;
    return true;
}

static bool saves_dots(const mf_saveable *v, const void *context)
{
    (void)context;
    return strcmp(v->op, "dot_general") == 0;
}

static bool saves_dots_without_batch(const mf_saveable *v, const void *context) { return saves_dots(v, context) && !v->batch_dimensions; }

static bool saves_only_names(const mf_saveable *v, const void *names) { return v->name && mf_names_find(names, v->name) >= 0; }

static bool saves_other_names(const mf_saveable *v, const void *names) { return v->name && mf_names_find(names, v->name) < 0; }

static bool saves_all_but_names(const mf_saveable *v, const void *names) { return !v->name || mf_names_find(names, v->name) < 0; }

static const struct {
    const char *name;
    saves_fn saves;
    bool has_names;
} house[] = {
    { "everything_saveable", saves_everything, false },
    { "dots_saveable", saves_dots, false },
    { "dots_with_no_batch_dims_saveable", saves_dots_without_batch, false },
    { "save_only_these_names", saves_only_names, true },
    { "save_any_names_but_these", saves_other_names, true },
    { "save_anything_except_these_names", saves_all_but_names, true },
};

mf_policy mf_nothing_saveable(void) { return (mf_policy){ 0 }; }
mf_policy mf_everything_saveable(void) { return (mf_policy){ .saves = saves_everything }; }
mf_policy mf_dots_saveable(void) { return (mf_policy){ .saves = saves_dots }; }
mf_policy mf_dots_with_no_batch_dims_saveable(void) { return (mf_policy){ .saves = saves_dots_without_batch }; }

static mf_policy of_names(saves_fn saves, const char *const *names, int count)
{
    MF_PARENT_ONLY((mf_policy){ 0 });
    const char **interned = count < 0 ? NULL : mf_alloc(((size_t)count + 1) * sizeof *interned);
    if (!interned) /* saves nothing: correct, but slower */
        return mf_nothing_saveable();
    for (int i = 0; i < count; i++)
        interned[i] = mf_intern(names[i] ? names[i] : "");
    mf_policy policy = { saves, mf_names_intern(interned, count) };
    mf_free(interned);
    return policy;
}

mf_policy mf_save_only_these_names_n(const char *const *names, int count) { return of_names(saves_only_names, names, count); }
mf_policy mf_save_any_names_but_these_n(const char *const *names, int count) { return of_names(saves_other_names, names, count); }
mf_policy mf_save_anything_except_these_names_n(const char *const *names, int count) { return of_names(saves_all_but_names, names, count); }

typedef struct both_policies {
    mf_policy first, second;
    int64_t depth;
} both_policies;

static bool asks(mf_policy p, const mf_saveable *v) { return p.saves && p.saves(v, p.context); }

static bool saves_either(const mf_saveable *v, const void *context)
{
    const both_policies *both = context; /* NULL: interning was out of memory */
    return both && (asks(both->first, v) || asks(both->second, v));
}

static int64_t depth_of(mf_policy p) { return p.saves == saves_either && p.context ? ((const both_policies *)p.context)->depth + 1 : 0; }

mf_policy mf_save_from_both_policies(mf_policy first, mf_policy second)
{
    MF_PARENT_ONLY((mf_policy){ 0 });
    static _Atomic(mf_interner *) table;
    int64_t a = depth_of(first), b = depth_of(second);
    both_policies both = { first, second, a > b ? a : b };
    if (both.depth > MF_TREE_DEPTH) {
        (void)mf_error_remember(
            mf_error_new(MF_ERROR_ARGUMENT, "a policy may be nested %d deep, and this one would be more", MF_TREE_DEPTH));
        return mf_nothing_saveable();
    }
    return (mf_policy){ saves_either, mf_interner_get(mf_interner_static(&table), &both, sizeof both) };
}

/* ---- names for users' own policies */

typedef struct own_policy {
    struct own_policy *next;
    mf_policy policy;
    const char *name;
} own_policy;

static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static own_policy *own;

static const own_policy *own_named(const char *name)
{
    pthread_mutex_lock(&own_lock);
    const own_policy *at = own;
    while (at && at->name != name)
        at = at->next;
    pthread_mutex_unlock(&own_lock);
    return at;
}

/* "keep_products", or "keep_products#2" for the same function with another context. Lives as long as the process. */
static const char *own_name(mf_policy p)
{
    int same = 1;
    pthread_mutex_lock(&own_lock);
    own_policy *at = own;
    for (; at && (at->policy.saves != p.saves || at->policy.context != p.context); at = at->next)
        same += at->policy.saves == p.saves;
    if (!at && (at = mf_alloc(sizeof *at))) {
        mf_text t = { 0 };
        mf_text_put(&t, p.saves == saves_either ? "save_from_both_policies" : mf_symbol_of((const void *)(uintptr_t)p.saves));
        if (same > 1)
            mf_text_add(&t, "#%d", same);
        *at = (own_policy){ own, p, mf_intern(t.at ? t.at : "policy") };
        mf_text_free(&t);
        own = at;
    }
    pthread_mutex_unlock(&own_lock);
    return at ? at->name : NULL;
}

/* ---- look-up */

const char *mf_policy_name(mf_policy policy, const mf_namelist **names)
{
    *names = mf_names_intern(NULL, 0);
    if (!policy.saves)
        return NULL;
    for (size_t i = 0; i < sizeof house / sizeof *house; i++)
        if (house[i].saves == policy.saves) {
            if (house[i].has_names)
                *names = policy.context;
            return mf_intern(house[i].name);
        }
    return own_name(policy);
}

/* The policy's function and context, by name. */
static mf_policy find(const char *name, const mf_namelist *names)
{
    for (size_t i = 0; i < sizeof house / sizeof *house; i++)
        if (strcmp(house[i].name, name) == 0)
            return (mf_policy){ house[i].saves, names };
    const own_policy *p = own_named(name);
    return p ? p->policy : (mf_policy){ 0 };
}

bool mf_policy_known(const char *name) { return !name || find(name, NULL).saves; }

bool mf_policy_saves(const char *name, const mf_namelist *names, const mf_eqn *e)
{
    mf_policy p = name ? find(name, names) : (mf_policy){ 0 };
    mf_saveable v = { .op = e->op->name };
    for (int o = 0; o < e->out_count; o++)
        v.bytes += e->out[o]->type->bytes;
    if (e->op == &mf_op_checkpoint_name)
        v.name = ((const mf_name_params *)e->params)->name;
    if (e->op == &mf_op_dot_general)
        v.batch_dimensions = ((const mf_dot_params *)e->params)->lhs_batch->count;
    return asks(p, &v);
}
