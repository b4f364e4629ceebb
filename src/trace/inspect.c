/* Looking at values of any kind, tracers included: types, sizes, words; and the makers that take another value's type. Invariant: nothing
 * here waits for an array or writes an equation, save where an element is asked for or a traced fill is broadcast by the public op. */
#include "base/thread/cancel.h"
#include "trace/function.h"
#include "trace/trace.h"
#include "tree/index.h"

#include <manyfold/array.h>
#include <manyfold/device.h>
#include <manyfold/state.h>
#include <manyfold/numpy.h>

#include <stdio.h>
#include <string.h>

/* ---- types */

/* The type of an array, a traced value or a struct. */
static const mf_type *type_seen(mf_value v)
{
    const mf_object *o = mf_object_of(v);
    const mf_type *t = mf_struct_type(o);
    return t ? t : mf_object_type(o);
}

mf_shape(mf_shape_of)(mf_value v)
{
    MF_ENTER((mf_shape){ .rank = -1 });
    const mf_type *t = type_seen(v);
    mf_shape shape = { .rank = -1 };
    if (!t || t->rank > MF_MAX_RANK)
        return shape;
    shape.rank = t->rank;
    memcpy(shape.dims, t->dims, (size_t)t->rank * sizeof t->dims[0]);
    return shape;
}

mf_dtype(mf_dtype_of)(mf_value v)
{
    MF_ENTER(MF_DTYPE_DEFAULT);
    const mf_type *t = type_seen(v);
    return t ? t->dtype : MF_DTYPE_DEFAULT;
}

bool(mf_weak_type_of)(mf_value v)
{
    MF_ENTER(false);
    const mf_type *t = type_seen(v);
    return t && t->weak;
}

int(mf_ndim)(mf_value v)
{
    MF_ENTER(-1);
    const mf_type *t = type_seen(v);
    return t ? t->rank : -1;
}

int64_t(mf_size)(mf_value v)
{
    MF_ENTER(-1);
    const mf_type *t = type_seen(v);
    return t ? t->size : -1;
}

/* Why v has no type, as an error to remember. */
static mf_error_object *no_array(const char *what, mf_object *o)
{
    if (mf_object_is(o, &mf_error_class))
        return mf_retain(o);
    return mf_error_new(MF_ERROR_ARGUMENT, "%s: %s is no array", what, mf_object_words(o));
}

int64_t(mf_dim)(mf_value v, int axis)
{
    MF_ENTER(-1);
    mf_object *o = mf_object_of(v);
    const mf_type *t = type_seen(v);
    int at = t && axis < 0 ? axis + t->rank : axis;
    if (t && at >= 0 && at < t->rank)
        return t->dims[at];
    (void)mf_error_remember(t ? mf_error_new(MF_ERROR_AXIS, "mf_dim: axis %d of %s", axis, mf_type_name(t)) : no_array("mf_dim", o));
    return -1;
}

int(mf_len)(mf_value v)
{
    MF_ENTER(-1);
    mf_object *o = mf_object_of(v);
    if (mf_object_is(o, &mf_tree_class))
        return ((const mf_tree *)o)->structure->child_count;
    const mf_type *t = mf_object_type(o);
    if (t && t->rank && t->dims[0] <= INT32_MAX)
        return (int)t->dims[0];
    if (!mf_object_is(o, &mf_error_class))
        (void)mf_error_remember(mf_error_new(MF_ERROR_ARGUMENT, "mf_len: %s has no length", t ? mf_type_name(t) : mf_object_words(o)));
    return -1;
}

/* ---- unpacking */

static mf_error_object *cannot_unpack(const mf_object *o, int count)
{
    const mf_type *t = mf_object_type(o);
    if (t && t->rank)
        return mf_error_new(MF_ERROR_TREE, "mf_unpack: %s has %lld rows, not %d", mf_type_name(t), (long long)t->dims[0], count);
    if (!mf_object_is(o, &mf_tree_class))
        return mf_error_new(MF_ERROR_TREE, "mf_unpack: %s is not a tuple or list of %d", t ? mf_type_name(t) : mf_object_words(o), count);
    mf_text text = { 0 };
    mf_structure_print(&text, ((const mf_tree *)o)->structure);
    mf_error_object *e = mf_error_new(MF_ERROR_TREE, "mf_unpack: %s is not a tuple or list of %d", text.at ? text.at : "a tree", count);
    mf_text_free(&text);
    return e;
}

static mf_value unpacked(mf_object *o, mf_value whole, int i)
{
    if (!mf_object_is(o, &mf_tree_class)) {
        mf_value row = mf_i(i);
        return mf_index_array(whole, &row, 1);
    }
    mf_object *child = mf_tree_child((const mf_tree *)o, i);
    return mf_value_new(child ? (void *)child : mf_error_out_of_memory());
}

void mf_unpack_n(mf_value tree, mf_value *const *variables, int count)
{
    for (int i = 0; i < count && mf_process_forked(); i++)
        *variables[i] = MF_FORKED;
    MF_ENTER();
    mf_object *o = mf_retain(mf_object_of(tree)); /* a variable may be the tree itself */
    const mf_structure *s = mf_object_is(o, &mf_tree_class) ? ((const mf_tree *)o)->structure : NULL;
    const mf_type *t = mf_object_type(o);
    bool fits = s ? (s->kind == MF_NODE_TUPLE || s->kind == MF_NODE_LIST) && s->child_count == count : t && t->rank && t->dims[0] == count;
    mf_error_object *error = fits ? NULL : mf_object_is(o, &mf_error_class) ? mf_retain(o) : cannot_unpack(o, count);
    for (int i = 0; i < count; i++)
        *variables[i] = error ? mf_value_of(error) : unpacked(o, tree, i);
    mf_drop(error);
    mf_drop(o);
}

/* ---- constant arrays of another value's type */

/* The type of an array of rank 0 that is ready, and its element, of this dtype or its own (MF_DTYPE_DEFAULT); NULL where there is none
 * to be read without waiting. */
static const mf_type *ready_scalar(mf_value v, mf_dtype dtype, void *element)
{
    const mf_array *a = (const mf_array *)mf_handle_get_as(v.handle, &mf_array_class);
    if (!a || a->type->rank || (a->future && atomic_load(&a->future->state) != 1))
        return NULL;
    mf_error_object *deleted = mf_array_element_as(a, dtype ? dtype : a->type->dtype, element);
    mf_error_ignore(deleted); /* whoever uses the value has it */
    return deleted ? NULL : a->type;
}

static mf_value filled(const mf_type *t, const void *element)
{
    mf_array *a = t ? mf_array_made(mf_array_fill(t, element)) : NULL;
    return mf_value_new(a ? (void *)a : mf_error_out_of_memory());
}

mf_value(mf_full)(mf_shape shape, mf_value fill)
{
    MF_ENTER(MF_FORKED);
    unsigned char element[16];
    const mf_type *t = ready_scalar(fill, MF_DTYPE_DEFAULT, element);
    if (!t)
        return mf_broadcast_to(fill, shape);
    if (!mf_type_of_shape(t->dtype, shape))
        return mf_fail(MF_ERROR_SHAPE, "mf_full: %s is no shape of at most %d dimensions", mf_str_shape(shape), MF_MAX_RANK);
    return filled(mf_type_get(t->dtype, t->weak, shape.rank, shape.dims), element);
}

static mf_value constant_like(const char *what, mf_value x, int64_t number)
{
    mf_object *o = mf_object_of(x);
    const mf_type *t = mf_object_type(o);
    unsigned char element[16] = { 0 };
    if (!t)
        return mf_value_new(no_array(what, o));
    mf_store_i64(t->dtype, element, number);
    return filled(t, element);
}

mf_value(mf_zeros_like)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return constant_like("mf_zeros_like", x, 0);
}

mf_value(mf_ones_like)(mf_value x)
{
    MF_ENTER(MF_FORKED);
    return constant_like("mf_ones_like", x, 1);
}

mf_value(mf_full_like)(mf_value x, mf_value fill)
{
    MF_ENTER(MF_FORKED);
    mf_object *o = mf_object_of(x);
    const mf_type *t = mf_object_type(o);
    unsigned char element[16] = { 0 };
    if (!t)
        return mf_value_new(no_array("mf_full_like", o));
    if (t->dtype == MF_KEY || !ready_scalar(fill, t->dtype, element))
        return mf_astype(mf_broadcast_to(fill, mf_shape_of(x)), t->dtype);
    return filled(t, element);
}

mf_kind(mf_kind_of)(mf_value v)
{
    MF_ENTER(MF_KIND_ERROR);
    static const mf_kind kinds[] = { [MF_NODE_LEAF] = MF_KIND_STATIC,
                                     [MF_NODE_NONE] = MF_KIND_NONE,
                                     [MF_NODE_TUPLE] = MF_KIND_TUPLE,
                                     [MF_NODE_LIST] = MF_KIND_LIST,
                                     [MF_NODE_DICT] = MF_KIND_DICT };
    mf_object *o = mf_object_of(v);
    if (!o)
        return MF_KIND_UNSET;
    if (mf_object_is(o, &mf_error_class))
        return MF_KIND_ERROR;
    if (mf_object_is(o, &mf_tree_class))
        return kinds[((const mf_tree *)o)->structure->kind];
    return mf_object_is(o, &mf_array_class)    ? MF_KIND_ARRAY
           : mf_object_is(o, &mf_tracer_class) ? MF_KIND_TRACER
           : mf_object_is(o, &mf_struct_class) ? MF_KIND_STRUCT
                                               : MF_KIND_STATIC;
}

/* ---- words */

static void print_object(mf_text *t, mf_object *o, bool inside);

static void print_shape(mf_text *t, mf_object *o, bool inside)
{
    const mf_type *type = mf_object_type(o);
    if (!type) {
        print_object(t, o, inside);
        return;
    }
    mf_text_add(t, "ShapedArray(%s[", mf_str_dtype(type->dtype));
    for (int i = 0; i < type->rank; i++)
        mf_text_add(t, i ? ",%lld" : "%lld", (long long)type->dims[i]);
    mf_text_put(t, "])");
}

typedef void (*leaf_printer)(mf_text *t, mf_object *o, bool inside);

static void print_tree(mf_text *t, const mf_structure *s, mf_object *const *leaves, int *next, leaf_printer print_leaf)
{
    static const char *const brackets[] = { [MF_NODE_TUPLE] = "()", [MF_NODE_LIST] = "[]", [MF_NODE_DICT] = "{}" };
    if (s->kind == MF_NODE_LEAF) {
        print_leaf(t, leaves[(*next)++], true);
        return;
    }
    if (s->kind == MF_NODE_NONE) {
        mf_text_put(t, "None");
        return;
    }
    mf_text_putn(t, brackets[s->kind], 1);
    for (int i = 0; i < s->child_count; i++) {
        mf_text_put(t, i ? ", " : "");
        if (s->kind == MF_NODE_DICT)
            mf_text_add(t, "'%s': ", s->keys->at[i]);
        print_tree(t, s->children[i], leaves, next, print_leaf);
    }
    mf_text_put(t, s->kind == MF_NODE_TUPLE && s->child_count == 1 ? "," : "");
    mf_text_putn(t, brackets[s->kind] + 1, 1);
}

static void print_error(mf_text *t, mf_error_object *e)
{
    mf_error_handle(e); /* it is shown */
    mf_text_put(t, e->message);
}

static void print_object(mf_text *t, mf_object *o, bool inside)
{
    int next = 0;
    if (!o)
        mf_text_put(t, "(unset)");
    else if (mf_object_is(o, &mf_array_class))
        mf_array_print(t, (mf_array *)o);
    else if (mf_object_is(o, &mf_tracer_class))
        mf_text_add(t, "Traced<%s>", mf_type_name(((const mf_tracer *)o)->type));
    else if (mf_struct_type(o))
        mf_text_put(t, mf_type_name(mf_struct_type(o)));
    else if (mf_object_is(o, &mf_tree_class))
        print_tree(t, ((const mf_tree *)o)->structure, ((const mf_tree *)o)->leaves, &next, print_object);
    else if (mf_object_is(o, &mf_error_class))
        print_error(t, (mf_error_object *)o);
    else if (mf_static_text(o) && !inside)
        mf_text_put(t, mf_static_text(o));
    else if (mf_object_is(o, &mf_static_class))
        mf_static_print(t, (const mf_static_object *)o);
    else
        mf_text_add(t, "<%s>", o->kind->name);
}

void mf_print_shapes(mf_text *t, mf_object *value)
{
    int next = 0;
    if (mf_object_is(value, &mf_tree_class))
        print_tree(t, ((const mf_tree *)value)->structure, ((const mf_tree *)value)->leaves, &next, print_shape);
    else
        print_shape(t, value, true);
}

const char *(mf_str_value)(mf_value v)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_object *o = mf_retain(mf_object_of(v));
    print_object(&t, o, false);
    mf_drop(o);
    return mf_text_to_scope(&t);
}

const char *(mf_str_function)(mf_function f)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_error_object *error = NULL;
    const mf_function_object *o = mf_function_of(f, &error);
    if (o && o->kind->print)
        o->kind->print(&t, o);
    else if (o)
        mf_text_put(&t, o->name ? o->name : o->kind->name);
    else
        print_error(&t, error);
    mf_drop(error);
    return mf_text_to_scope(&t);
}

const char *mf_state_type_name(int type)
{
    static const char *const names[] = { "State", "ParamState", "BatchState", "RandomState", "HiddenState" };
    return names[type >= 0 && type <= MF_HIDDEN_STATE ? type : 0];
}

const char *mf_cell_label(const mf_state_cell *c)
{
    char text[200];
    snprintf(text, sizeof text, c->name ? "state %s" : "a %s without a name", c->name ? c->name : mf_state_type_name(c->type));
    return mf_intern(text);
}

const char *mf_str_state(mf_state s)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_state_cell *cell = (mf_state_cell *)mf_handle_get_as(s.handle, &mf_state_class);
    mf_object *value = cell ? mf_cell_value(cell) : mf_retain(mf_handle_get(s.handle));
    if (cell)
        mf_text_add(&t, "%s(", mf_state_type_name(cell->type));
    print_object(&t, value, false);
    mf_text_put(&t, cell ? ")" : "");
    mf_drop(value);
    return mf_text_to_scope(&t);
}

const char *mf_str_filter(mf_filter filter)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    const mf_filter_object *f = (const mf_filter_object *)mf_handle_get_as(filter.handle, &mf_filter_class);
    if (f)
        mf_filter_print(&t, f);
    else
        print_object(&t, mf_handle_get(filter.handle), false);
    return mf_text_to_scope(&t);
}

static void print_device(mf_text *t, mf_device d)
{
    const char *platform = mf_device_platform(d);
    if (platform)
        mf_text_add(t, "%c%sDevice(id=%d)", platform[0] >= 'a' && platform[0] <= 'z' ? platform[0] - 'a' + 'A' : platform[0], platform + 1,
                    mf_device_id(d));
    else
        mf_text_put(t, "(no device)");
}

const char *mf_str_device(mf_device d)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    print_device(&t, d);
    return mf_text_to_scope(&t);
}

const char *mf_str_devices(mf_device_list d)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_text_put(&t, "[");
    for (int i = 0; i < d.count; i++) {
        mf_text_put(&t, i ? ", " : "");
        print_device(&t, d.at[i]);
    }
    mf_text_put(&t, "]");
    return mf_text_to_scope(&t);
}

const char *mf_str_shape(mf_shape s)
{
    MF_PARENT_ONLY(MF_FORK_WORDS);
    mf_text t = { 0 };
    if (s.rank < 0 || s.rank > MF_MAX_RANK) { /* an error's, a tree's: no scalar's */
        mf_text_add(&t, "(rank %d)", s.rank);
        return mf_text_to_scope(&t);
    }
    mf_text_put(&t, "(");
    for (int i = 0; i < s.rank; i++)
        mf_text_add(&t, "%s%lld", i ? ", " : "", (long long)s.dims[i]);
    mf_text_put(&t, s.rank == 1 ? ",)" : ")");
    return mf_text_to_scope(&t);
}

const char *mf_str_dtype(mf_dtype d) { return mf_dtype_name(d); }

void mf_put_line(const char *line)
{
    MF_PARENT_ONLY();
    MF_UNCANCELLED;
    puts(line ? line : "(null)");
}
