/* Flat chains: the state is one dict with the items of all parts, which share one "count". */
#include "optim/transformation.h"

#include <stdlib.h>
#include <string.h>

/* The whole state with the items of one part's state, except the shared "count". */
static mf_value with_items(mf_value whole, mf_value part)
{
    int n = mf_kind_of(part) == MF_KIND_DICT ? mf_len(part) : 0;
    for (int i = 0; i < n; i++)
        if (strcmp(mf_key(part, i), "count") != 0)
            whole = mf_set(whole, mf_get(part, mf_key(part, i)), mf_key(part, i));
    return whole;
}

static mf_value flat_init(const mf_transformation *t, mf_value params)
{
    mf_value whole = mf_dict("count", mf_count_zero());
    for (int i = 0; i < t->count; i++) {
        mf_value part = mf_transformation_init(t->parts[i], params);
        if (mf_kind_of(part) == MF_KIND_ERROR)
            return part;
        whole = with_items(whole, part);
    }
    return whole;
}

/* The items of the state that belong to a part, selected by its rule's keys. */
static mf_value part_of(mf_value state, const char *keys)
{
    char copy[256], *rest = copy;
    mf_value part = mf_dict();
    if (!*keys)
        return mf_tuple_n(NULL, 0);
    strncpy(copy, keys, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    for (char *key; (key = strtok_r(rest, ", ", &rest));)
        part = mf_set(part, mf_get(state, key), key);
    return part;
}

static mf_value flat_update(const mf_transformation *t, mf_value updates, mf_value *state, mf_value params)
{
    mf_value whole = mf_dict("count", mf_count_after(mf_get(*state, "count")));
    for (int i = 0; i < t->count; i++) {
        mf_value part = part_of(*state, mf_transformation_of(t->parts[i])->rule->keys);
        updates = mf_transformation_update(t->parts[i], updates, &part, params);
        if (mf_kind_of(part) == MF_KIND_ERROR)
            return *state = part;
        whole = with_items(whole, part);
    }
    *state = whole;
    return updates;
}

static const mf_transformation_rule flat_rule = { "flat", NULL, .flat = true, .init = flat_init, .update = flat_update };

mf_optimizer mf_flat_chain(const char *name, const mf_optimizer *given, int given_count)
{
    mf_optimizer parts[8];
    int count = 0;
    for (int i = 0; i < given_count; i++)
        if (given[i].handle)
            parts[count++] = given[i];
    if (count < 1) /* only in the child of a fork, where all parts are unset */
        return (mf_optimizer){ 0 };
    return mf_transformation_make(&(mf_transformation){ .rule = &flat_rule, .name = name }, parts, count);
}
