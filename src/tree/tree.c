/* Tree values: an interned structure with its leaves in order. Invariants: leaves are never trees, and a tree's structure is never a single
 * leaf. A tree is immutable: changing it makes another one that shares the leaves. */
#include "tree/tree.h"

#include "array/array.h"
#include "base/memory/vector.h"
#include "tree/index.h"

#include <manyfold/tree.h>

#include <stdlib.h>
#include <string.h>

static void tree_destroy(mf_object *o)
{
    mf_tree *t = (mf_tree *)o;
    for (int i = 0; i < t->count; i++)
        mf_drop(t->leaves[i]);
}
const mf_class mf_tree_class = { "tree", tree_destroy };

/* ---- internal functions */

const mf_structure *mf_tree_flatten(mf_object *o, mf_object *const **leaves, int *count, mf_object **self)
{
    if (mf_object_is(o, &mf_tree_class)) {
        const mf_tree *t = (const mf_tree *)o;
        *leaves = t->leaves;
        *count = t->count;
        return t->structure;
    }
    *self = o;
    *leaves = self;
    *count = 1;
    return mf_structure_leaf();
}

static mf_tree *tree_new(const mf_structure *s)
{
    mf_tree *t = s ? mf_object_new(&mf_tree_class, sizeof *t + (size_t)s->leaf_count * sizeof t->leaves[0]) : NULL;
    if (t)
        t->structure = s;
    return t;
}

mf_object *mf_tree_build(const mf_structure *s, mf_object *const *leaves)
{
    if (!s)
        return NULL;
    if (s->kind == MF_NODE_LEAF)
        return mf_retain(leaves[0]);
    mf_tree *t = tree_new(s);
    if (!t)
        return NULL;
    for (; t->count < s->leaf_count; t->count++)
        t->leaves[t->count] = mf_retain(leaves[t->count]);
    return &t->object;
}

mf_object *mf_tree_child(const mf_tree *t, int index)
{
    int first = 0;
    for (int i = 0; i < index; i++)
        first += t->structure->children[i]->leaf_count;
    return mf_tree_build(t->structure->children[index], t->leaves + first);
}

mf_object *mf_tree_node(mf_node_kind kind, const mf_namelist *keys, mf_object *const *children, int count)
{
    MF_SMALL_ARRAY(const mf_structure *, structures, 32, count);
    if (!structures)
        return NULL;
    for (int i = 0; i < count; i++)
        structures[i] = mf_object_is(children[i], &mf_tree_class) ? ((const mf_tree *)children[i])->structure : mf_structure_leaf();
    const mf_structure *s = mf_structure_node(kind, keys, structures, count);
    if (s && s->depth > MF_TREE_DEPTH)
        return &mf_error_new(MF_ERROR_TREE, "a tree may be nested %d deep, and this one would be more", MF_TREE_DEPTH)->object;
    mf_tree *t = tree_new(s);
    for (int i = 0; t && i < count; i++) {
        mf_object *const *leaves, *self;
        int n;
        mf_tree_flatten(children[i], &leaves, &n, &self);
        for (int k = 0; k < n; k++)
            t->leaves[t->count++] = mf_retain(leaves[k]);
    }
    return t ? &t->object : NULL;
}

mf_object *mf_first_error_in(mf_object *o)
{
    if (mf_object_is(o, &mf_error_class))
        return o;
    const mf_tree *t = mf_object_is(o, &mf_tree_class) ? (const mf_tree *)o : NULL;
    mf_object *first = NULL;
    for (int i = 0; t && i < t->count; i++)
        if (mf_object_is(t->leaves[i], &mf_error_class) && !first)
            first = t->leaves[i];
        else if (mf_object_is(t->leaves[i], &mf_error_class))
            mf_error_join((mf_error_object *)first, (mf_error_object *)t->leaves[i]);
    return first;
}

/* ---- making */

static mf_value value_or_memory(void *object) { return mf_value_new(object ? object : mf_error_out_of_memory()); }

static void drop_all(mf_object **objects, int count)
{
    for (int i = 0; objects && i < count; i++)
        mf_drop(objects[i]);
    mf_free(objects);
}

/* The objects of values, retained, because looking up a second stale handle destroys the error of the first. */
static mf_object **objects_of(const char *what, const mf_value *values, int count, int step, mf_error_object **error)
{
    mf_object **objects = mf_calloc((size_t)count, sizeof *objects);
    if (!objects) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    for (int i = 0; i < count; i++) {
        objects[i] = mf_retain(mf_object_of(values[(size_t)i * (size_t)step]));
        if (!objects[i] && !*error)
            *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: item %d is an unset value", what, i);
    }
    return objects;
}

static mf_value sequence(const char *what, mf_node_kind kind, const mf_value *items, int count)
{
    mf_error_object *error = NULL;
    if (count < 0)
        return mf_fail(MF_ERROR_ARGUMENT, "%s: %d items", what, count);
    mf_object **objects = objects_of(what, items, count, 1, &error);
    mf_value v = error ? mf_value_new(error) : value_or_memory(mf_tree_node(kind, NULL, objects, count));
    drop_all(objects, count);
    return v;
}

mf_value mf_none(void)
{
    MF_ENTER(MF_FORKED);
    return value_or_memory(tree_new(mf_structure_none()));
}

mf_value mf_tuple_n(const mf_value *items, int count)
{
    MF_ENTER(MF_FORKED);
    return sequence("mf_tuple", MF_NODE_TUPLE, items, count);
}

mf_value mf_list_n(const mf_value *items, int count)
{
    MF_ENTER(MF_FORKED);
    return sequence("mf_list", MF_NODE_LIST, items, count);
}

typedef struct named {
    const char *key;
    mf_object *value;
} named;

static int by_key(const void *a, const void *b) { return strcmp(((const named *)a)->key, ((const named *)b)->key); }

/* A dict of these items, which are sorted in place. Returns a new reference, or NULL and *error. */
static mf_object *dict_of(const char *what, named *items, int count, mf_error_object **error)
{
    qsort(items, (size_t)count, sizeof *items, by_key);
    const char **keys = mf_alloc((size_t)count * sizeof *keys);
    mf_object **values = mf_alloc((size_t)count * sizeof *values);
    mf_object *o = NULL;
    for (int i = 0; i < count && keys && values; i++) {
        keys[i] = items[i].key;
        values[i] = items[i].value;
        if (i && !strcmp(keys[i], keys[i - 1]) && !*error)
            *error = mf_error_new(MF_ERROR_TREE, "%s: the key '%s' stands there twice", what, keys[i]);
    }
    if (keys && values && !*error)
        o = mf_tree_node(MF_NODE_DICT, mf_names_intern(keys, count), values, count);
    if (!o && !*error)
        *error = mf_error_out_of_memory();
    mf_free(keys);
    mf_free(values);
    return o;
}

static mf_object *dict_of_values(const char *what, const mf_value *pairs, int count, mf_error_object **error)
{
    if (count < 0 || count % 2) {
        *error = mf_error_new(MF_ERROR_ARGUMENT, "%s: keys and values must come in pairs; %d were given", what, count);
        return NULL;
    }
    int n = count / 2;
    named *items = mf_calloc((size_t)n, sizeof *items);
    mf_object **keys = objects_of(what, pairs, n, 2, error), **values = objects_of(what, pairs + 1, n, 2, error), *o = NULL;
    for (int i = 0; i < n && items && !*error; i++) {
        items[i] = (named){ mf_static_text(keys[i]), values[i] };
        if (!items[i].key)
            *error = mf_object_is(keys[i], &mf_error_class)
                         ? mf_retain(keys[i])
                         : mf_error_new(MF_ERROR_TREE, "%s: key %d is no string but %s", what, i, keys[i]->kind->name);
    }
    if (!items && !*error)
        *error = mf_error_out_of_memory();
    if (items && !*error)
        o = dict_of(what, items, n, error);
    drop_all(keys, n);
    drop_all(values, n);
    mf_free(items);
    return o;
}

mf_value mf_dict_n(const mf_value *keys_and_values, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *error = NULL;
    mf_object *o = dict_of_values("mf_dict", keys_and_values, count, &error);
    return mf_value_new(o ? (void *)o : error);
}

mf_value mf_kwargs_n(const mf_value *keys_and_values, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *error = NULL;
    mf_object *o = dict_of_values("mf_kwargs", keys_and_values, count, &error);
    if (mf_object_is(o, &mf_tree_class))
        ((mf_tree *)o)->kwargs = true;
    return mf_value_new(o ? (void *)o : error);
}

/* ---- indexing */

static mf_error_object *no_such_item(const char *what, const mf_structure *s, const char *key, int64_t index)
{
    mf_text t = { 0 };
    if (key)
        mf_text_add(&t, "%s: no key '%s' in ", what, key);
    else
        mf_text_add(&t, "%s: no item %lld in ", what, (long long)index);
    mf_structure_describe(&t, s);
    mf_error_object *e = t.at ? mf_error_new(MF_ERROR_TREE, "%s", t.at) : mf_error_out_of_memory();
    mf_text_free(&t);
    return e;
}

/* Which child of s a step of a path names; -1 and *error if none. */
static int child_index(const char *what, const mf_structure *s, mf_object *step, mf_error_object **error)
{
    const char *key = mf_static_text(step);
    int64_t index = 0;
    if (key) {
        int found = s->kind == MF_NODE_DICT ? mf_names_find(s->keys, key) : -1;
        if (found < 0)
            *error = no_such_item(what, s, key, 0);
        return found;
    }
    const mf_array *a = mf_object_is(step, &mf_array_class) ? (const mf_array *)step : NULL;
    if (mf_object_is(step, &mf_error_class))
        *error = mf_retain(step);
    else if (!a || a->type->rank || !mf_dtype_is_int(a->type->dtype))
        *error = mf_error_new(MF_ERROR_TREE, "%s: an item of a tree is named by a string or an integer, not by %s", what,
                              a      ? mf_type_name(a->type)
                              : step ? step->kind->name
                                     : "an unset value");
    else
        *error = mf_array_copy_out((mf_array *)step, MF_I64, &index);
    if (*error)
        return -1;
    int64_t at = index < 0 ? index + s->child_count : index;
    if (at >= 0 && at < s->child_count && s->kind != MF_NODE_DICT)
        return (int)at;
    *error = no_such_item(what, s, NULL, index);
    return -1;
}

static int64_t between(int64_t low, int64_t x, int64_t high) { return x < low ? low : x > high ? high : x; }

/* tuple[a:b:c] and list[a:b:c], with Python's rules for indices out of range. With a negative step, a stop of MF_NONE is before the first
 * item. Returns a new reference, or NULL and *error. */
static mf_object *slice_of(const mf_tree *t, mf_slice s, mf_error_object **error)
{
    int64_t n = t->structure->child_count, step = s.step ? s.step : 1, back = step < 0;
    int count = 0;
    if (t->structure->kind == MF_NODE_DICT || t->structure->kind == MF_NODE_NONE) {
        *error = mf_error_new(MF_ERROR_TREE, "mf_get: only tuples, lists and arrays have slices");
        return NULL;
    }
    int64_t at = between(-back, s.start < 0 ? s.start + n : s.start, n - back);
    int64_t end = between(-back, s.stop < 0 ? s.stop + n : s.stop, n - back);
    step = between(-n - 1, step, n + 1); /* avoids overflow: a longer step ends the loop just as well */
    mf_object **items = mf_calloc((size_t)n + 1, sizeof *items), *o = NULL;
    for (; items && (back ? at > end : at < end); at += step)
        items[count++] = mf_tree_child(t, (int)at);
    if (items)
        o = mf_tree_node(t->structure->kind, NULL, items, count);
    if (!o)
        *error = mf_error_out_of_memory();
    drop_all(items, count);
    return o;
}

/* Takes one step of a path into a tree. Returns a new reference, or NULL and *error. */
static mf_object *step_into(const mf_tree *t, mf_object *step, mf_error_object **error)
{
    if (mf_object_is(step, &mf_static_class) && ((const mf_static_object *)step)->what == MF_STATIC_SLICE)
        return slice_of(t, ((const mf_static_object *)step)->slice, error);
    int child = child_index("mf_get", t->structure, step, error);
    mf_object *o = child < 0 ? NULL : mf_tree_child(t, child);
    if (!o && !*error)
        *error = mf_error_out_of_memory();
    return o;
}

mf_value mf_get_n(mf_value tree, const mf_value *path, int count)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_retain(mf_object_of(tree));
    mf_error_object *error = NULL;
    int i = 0;
    for (; i < count && mf_object_is(o, &mf_tree_class); i++) {
        mf_object *child = step_into((const mf_tree *)o, mf_object_of(path[i]), &error);
        mf_drop(o);
        if (!child)
            return mf_value_new(error);
        o = child;
    }
    if (!o)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_get: an unset value has no items");
    if (i < count && mf_object_is(o, &mf_static_class)) {
        mf_drop(o);
        return mf_fail(MF_ERROR_TREE, "mf_get: a static has no items");
    }
    mf_value v = mf_value_new(o);
    return i == count || mf_object_is(o, &mf_error_class) ? v : mf_index_array(v, path + i, count - i);
}

/* t with child `at` replaced (at == child_count: a new last child named `key`). */
static mf_object *with_child(const mf_tree *t, int at, const char *key, mf_object *child, mf_error_object **error)
{
    const mf_structure *s = t->structure;
    int n = s->child_count + (at == s->child_count);
    named *items = mf_calloc((size_t)n, sizeof *items);
    mf_object **objects = mf_calloc((size_t)n, sizeof *objects), *o = NULL;
    bool whole = items && objects;
    for (int i = 0; i < n && whole; i++) {
        objects[i] = i == at ? mf_retain(child) : mf_tree_child(t, i);
        items[i] = (named){ i < s->child_count ? (s->keys ? s->keys->at[i] : NULL) : key, objects[i] };
        whole = objects[i] != NULL;
    }
    if (whole)
        o = s->kind == MF_NODE_DICT ? dict_of("mf_set", items, n, error) : mf_tree_node(s->kind, NULL, objects, n);
    if (!o && !*error)
        *error = mf_error_out_of_memory();
    if (mf_object_is(o, &mf_tree_class))
        ((mf_tree *)o)->kwargs = t->kwargs;
    drop_all(objects, n);
    mf_free(items);
    return o;
}

/* o with the item at the path replaced by leaf. Returns a new reference, or NULL and *error. */
static mf_object *replace(mf_object *o, mf_object *leaf, const mf_value *path, int count, mf_error_object **error)
{
    if (count == 0)
        return mf_retain(leaf);
    if (o && !mf_object_is(o, &mf_tree_class) && !mf_object_is(o, &mf_error_class) && !mf_object_is(o, &mf_static_class))
        return mf_retain(mf_object_of(mf_index_array_set(mf_value_of(o), mf_value_of(leaf), path, count)));
    if (!mf_object_is(o, &mf_tree_class)) {
        *error = mf_object_is(o, &mf_error_class)
                     ? mf_retain(o)
                     : mf_error_new(MF_ERROR_TREE, "mf_set: %s has no items to set; it replaces leaves of trees and elements of arrays",
                                    mf_object_words(o));
        return NULL;
    }
    const mf_tree *t = (const mf_tree *)o;
    mf_object *step = mf_object_of(path[0]);
    const char *key = mf_static_text(step);
    bool is_new = key && count == 1 && t->structure->kind == MF_NODE_DICT && mf_names_find(t->structure->keys, key) < 0;
    int at = is_new ? t->structure->child_count : child_index("mf_set", t->structure, step, error);
    if (at < 0)
        return NULL;
    mf_object *old = is_new ? NULL : mf_tree_child(t, at), *child = replace(old, leaf, path + 1, count - 1, error);
    mf_drop(old);
    mf_object *changed = child ? with_child(t, at, key, child, error) : NULL;
    mf_drop(child);
    return changed;
}

mf_value mf_set_n(mf_value tree, mf_value leaf, const mf_value *path, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *error = NULL;
    mf_object *from = mf_retain(mf_object_of(tree)), *to = mf_retain(mf_object_of(leaf)), *o = NULL;
    if (!from || !to)
        error = mf_error_new(MF_ERROR_ARGUMENT, "mf_set: %s is an unset value", from ? "the new leaf" : "the tree");
    else
        o = replace(from, to, path, count, &error);
    mf_drop(from);
    mf_drop(to);
    return mf_value_new(o ? (void *)o : error);
}

const char *(mf_key)(mf_value dict, int index)
{
    MF_ENTER(NULL);
    const mf_object *o = mf_object_of(dict);
    const mf_structure *s = mf_object_is(o, &mf_tree_class) ? ((const mf_tree *)o)->structure : NULL;
    return s && s->kind == MF_NODE_DICT && index >= 0 && index < s->child_count ? s->keys->at[index] : NULL;
}

mf_slice mf_range(int64_t start, int64_t stop) { return (mf_slice){ true, start, stop, 1 }; }

/* ---- leaves */

mf_value(mf_tree_leaves)(mf_value tree)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_object_of(tree), *self, *const * leaves;
    int count;
    if (!o)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_tree_leaves: an unset value has no leaves");
    if (mf_object_is(o, &mf_error_class))
        return mf_value_of(o);
    mf_tree_flatten(o, &leaves, &count, &self);
    return value_or_memory(mf_tree_node(MF_NODE_LIST, NULL, leaves, count));
}

/* A tree of structure s whose leaves are the children of a list or tuple; these may be trees. */
static mf_object *refill(const mf_structure *s, const mf_tree *from, int *next)
{
    if (s->kind == MF_NODE_LEAF)
        return mf_tree_child(from, (*next)++);
    mf_object **children = mf_calloc((size_t)s->child_count, sizeof *children), *o = NULL;
    bool whole = children != NULL;
    for (int i = 0; i < s->child_count && whole; i++)
        whole = (children[i] = refill(s->children[i], from, next)) != NULL;
    if (whole)
        o = s->kind == MF_NODE_NONE ? mf_tree_build(s, NULL) : mf_tree_node(s->kind, s->keys, children, s->child_count);
    drop_all(children, s->child_count);
    return o;
}

mf_value(mf_tree_unflatten)(mf_value like, mf_value leaves)
{
    MF_ENTER(MF_FORKED);
    mf_object *shape = mf_retain(mf_object_of(like)), *list = mf_retain(mf_object_of(leaves)), *self, *const * unused;
    int count, next = 0;
    mf_value v;
    const mf_tree *from = mf_object_is(list, &mf_tree_class) ? (const mf_tree *)list : NULL;
    const mf_structure *s = mf_tree_flatten(shape, &unused, &count, &self);
    if (mf_object_is(shape, &mf_error_class) || mf_object_is(list, &mf_error_class))
        v = mf_value_of(mf_object_is(shape, &mf_error_class) ? shape : list);
    else if (!shape || !from || (from->structure->kind != MF_NODE_LIST && from->structure->kind != MF_NODE_TUPLE))
        v = mf_fail(MF_ERROR_TREE, "mf_tree_unflatten: wants a tree and a list of leaves");
    else if (from->structure->child_count != count)
        v = mf_fail(MF_ERROR_TREE, "mf_tree_unflatten: %d leaves for a tree that has %d", from->structure->child_count, count);
    else
        v = value_or_memory(refill(s, from, &next));
    mf_drop(shape);
    mf_drop(list);
    return v;
}

/* ---- records: C structs of values, as dicts */

/* The next field of "w, b"; stores its length and advances. */
static const char *next_field(const char **fields, size_t *length)
{
    const char *s = *fields + strspn(*fields, " \t\n,");
    *length = strcspn(s, " \t\n,");
    *fields = s + *length;
    return s;
}

mf_value mf_record_pack_(const char *type, const char *fields, const mf_value *values, size_t size)
{
    MF_ENTER(MF_FORKED);
    int count = (int)(size / sizeof *values);
    mf_error_object *error = NULL;
    mf_object **objects = objects_of(type, values, count, 1, &error), *o = NULL;
    named *items = mf_calloc((size_t)count, sizeof *items);
    if (!items && !error)
        error = mf_error_out_of_memory();
    for (int i = 0; objects && items && i < count && !error; i++) {
        size_t length;
        const char *field = next_field(&fields, &length);
        items[i] = (named){ mf_intern_n(field, length), objects[i] };
        if (!items[i].key)
            error = mf_error_out_of_memory();
    }
    if (items && !error)
        o = dict_of(type, items, count, &error);
    drop_all(objects, count);
    mf_free(items);
    return mf_value_new(o ? (void *)o : error);
}

void(mf_record_unpack_)(const char *type, const char *fields, mf_value tree, mf_value *values, size_t size)
{
    int count = (int)(size / sizeof *values);
    for (int i = 0; i < count && mf_process_forked(); i++)
        values[i] = MF_FORKED;
    MF_ENTER();
    mf_object *o = mf_retain(mf_object_of(tree));
    const mf_tree *t = mf_object_is(o, &mf_tree_class) ? (const mf_tree *)o : NULL;
    bool fits = t && t->structure->kind == MF_NODE_DICT && t->structure->child_count == count;
    for (int i = 0; i < count; i++) {
        size_t length;
        const char *field = next_field(&fields, &length), *key = mf_intern_n(field, length);
        int at = fits ? mf_names_find(t->structure->keys, key) : -1;
        if (at >= 0)
            values[i] = value_or_memory(mf_tree_child(t, at));
        else if (mf_object_is(o, &mf_error_class))
            values[i] = mf_value_of(o);
        else
            values[i] = mf_fail(MF_ERROR_TREE, "%s: the value has no field '%.*s'; a record is unpacked from a dict of exactly its fields",
                                type, (int)length, field);
    }
    mf_drop(o);
}
