/* Values, functions, states, shapes and devices as text: mf_str and printing. Invariant: nothing here fails; the text of an error is its
 * message. Texts belong to the innermost scope. */
#include "base/thread/cancel.h"
#include "trace/function.h"

#include <manyfold/array.h>
#include <manyfold/device.h>
#include <manyfold/state.h>

#include <stdio.h>

static void print_leaf(mf_text *t, mf_object *o);

static void print_shape(mf_text *t, mf_object *o)
{
    const mf_type *type = mf_object_type(o);
    if (!type) {
        print_leaf(t, o);
        return;
    }
    mf_text_add(t, "ShapedArray(%s[", mf_str_dtype(type->dtype));
    for (int i = 0; i < type->rank; i++)
        mf_text_add(t, i ? ",%lld" : "%lld", (long long)type->dims[i]);
    mf_text_put(t, "])");
}

static void print_error(mf_text *t, mf_error_object *e)
{
    mf_error_handle(e); /* its message was shown */
    mf_text_put(t, e->message);
}

static void print_object(mf_text *t, mf_object *o, bool inside)
{
    if (!o)
        mf_text_put(t, "(unset)");
    else if (mf_object_is(o, &mf_array_class))
        mf_array_print(t, (mf_array *)o);
    else if (mf_object_is(o, &mf_tracer_class))
        mf_text_add(t, "Traced<%s>", mf_type_name(((const mf_tracer *)o)->type));
    else if (mf_struct_type(o))
        mf_text_put(t, mf_type_name(mf_struct_type(o)));
    else if (mf_object_is(o, &mf_tree_class))
        mf_structure_print_leaves(t, ((const mf_tree *)o)->structure, ((const mf_tree *)o)->leaves, print_leaf);
    else if (mf_object_is(o, &mf_error_class))
        print_error(t, (mf_error_object *)o);
    else if (mf_static_text(o) && !inside)
        mf_text_put(t, mf_static_text(o));
    else if (mf_object_is(o, &mf_static_class))
        mf_static_print(t, (const mf_static_object *)o);
    else
        mf_text_add(t, "<%s>", o->kind->name);
}

static void print_leaf(mf_text *t, mf_object *o) { print_object(t, o, true); }

void mf_print_shapes(mf_text *t, mf_object *value)
{
    if (mf_object_is(value, &mf_tree_class))
        mf_structure_print_leaves(t, ((const mf_tree *)value)->structure, ((const mf_tree *)value)->leaves, print_shape);
    else
        print_shape(t, value);
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
    if (s.rank < 0 || s.rank > MF_MAX_RANK) { /* of an error or a tree, not of a scalar */
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
