/* The members of modules, by name and in order, and modules as text. */
#include "trace/function.h"
#include "trace/state/module.h"

#include <manyfold/array.h>
#include <math.h>
#include <string.h>

mf_module_object *mf_module_of(mf_module m, mf_error_object **error)
{
    mf_object *o = mf_handle_get(m.handle);
    if (mf_object_is(o, &mf_module_class))
        return (mf_module_object *)o;
    *error = mf_object_is(o, &mf_error_class) ? mf_retain(o) : mf_error_new(MF_ERROR_ARGUMENT, "this is not a module");
    return NULL;
}

/* The member of that name and kind (MF_MEMBER_NONE: any kind): one of m's own or, for "encoder/kernel", of a module in it. */
static const mf_module_member *find_member(const mf_module_object *m, const char *name, mf_member_type kind)
{
    for (int i = 0; i < m->count; i++) {
        const mf_module_member *x = &m->members[i];
        if ((kind == MF_MEMBER_NONE || x->kind == kind) && strcmp(x->name, name) == 0)
            return x;
    }
    for (int i = 0; i < m->count; i++) {
        const mf_module_member *x = &m->members[i];
        size_t n = strlen(x->name);
        if (x->kind == MF_MEMBER_MODULE && strncmp(x->name, name, n) == 0 && name[n] == '/')
            return find_member((const mf_module_object *)x->object, name + n + 1, kind);
    }
    return NULL;
}

const mf_module_member *mf_module_holder(const mf_module_object *m, const char *name)
{
    for (int i = 0; i < m->count; i++)
        if (m->members[i].kind <= MF_MEMBER_MODULE && strcmp(m->members[i].name, name) == 0)
            return &m->members[i];
    return NULL;
}

static const mf_module_member *member_of(mf_module handle, const char *name, mf_member_type kind, const char *what, mf_error_object **error)
{
    const mf_module_object *m = mf_module_of(handle, error);
    const mf_module_member *found = m && name ? find_member(m, name, kind) : NULL;
    if (m && !found)
        *error = mf_error_new(MF_ERROR_ARGUMENT, "module %s has no %s named %s", m->type, what, name ? name : "NULL");
    return found;
}

/* A handle for the member's object, or for the error. */
static uint64_t member_handle(mf_module m, const char *name, mf_member_type kind, const char *what)
{
    mf_error_object *e = NULL;
    const mf_module_member *found = member_of(m, name, kind, what, &e);
    return mf_handle_new(found ? mf_retain(found->object) : (void *)e);
}

mf_state mf_member_state(mf_module m, const char *name)
{
    MF_ENTER((mf_state){ MF_FORK_HANDLE });
    return (mf_state){ member_handle(m, name, MF_MEMBER_STATE, "state") };
}

mf_module mf_member_module(mf_module m, const char *name)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    return (mf_module){ member_handle(m, name, MF_MEMBER_MODULE, "module") };
}

mf_function mf_member_function(mf_module m, const char *name)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    const mf_module_object *owner = mf_module_of(m, &e);
    mf_error_ignore(e); /* the same error is made again below */
    const mf_module_member *module = owner && name ? find_member(owner, name, MF_MEMBER_MODULE) : NULL;
    if (module)
        return mf_fn_module((mf_module){ mf_handle_new(mf_retain(module->object)) });
    return (mf_function){ member_handle(m, name, MF_MEMBER_FUNCTION, "function") };
}

mf_value mf_member_value(mf_module m, const char *name)
{
    MF_ENTER(MF_FORKED);
    return (mf_value){ member_handle(m, name, MF_MEMBER_VALUE, "value") };
}

/* For results that are not values; the error stays unhandled, so it is reported once through the hook. */
static const mf_module_member *plain_member(mf_module m, const char *name, mf_member_type kind, const char *what)
{
    mf_error_object *e = NULL;
    const mf_module_member *found = member_of(m, name, kind, what, &e);
    mf_drop(e);
    return found;
}

double mf_member_number(mf_module m, const char *name)
{
    MF_ENTER(NAN);
    const mf_module_member *found = plain_member(m, name, MF_MEMBER_NUMBER, "number");
    return found ? found->number : (double)NAN;
}

const char *mf_member_text(mf_module m, const char *name)
{
    MF_ENTER(NULL);
    const mf_module_member *found = plain_member(m, name, MF_MEMBER_TEXT, "text");
    return found ? found->text : NULL;
}

static mf_ints ints_of(const mf_module_member *m)
{
    mf_ints list;
    memcpy(&list, ((const mf_static_object *)m->object)->bytes, sizeof list);
    return list;
}

mf_ints mf_member_ints(mf_module m, const char *name)
{
    MF_ENTER((mf_ints){ 0 });
    const mf_module_member *found = plain_member(m, name, MF_MEMBER_INTS, "list of numbers");
    return found ? ints_of(found) : (mf_ints){ 0 };
}

/* ---- listing members */

static const mf_module_object *module_or_null(mf_module m)
{
    mf_error_object *e = NULL;
    const mf_module_object *found = mf_module_of(m, &e);
    mf_drop(e);
    return found;
}

int mf_member_count(mf_module m)
{
    MF_ENTER(-1);
    const mf_module_object *found = module_or_null(m);
    return found ? found->count : -1;
}

const char *mf_member_name(mf_module m, int index)
{
    MF_ENTER(NULL);
    const mf_module_object *found = module_or_null(m);
    return found && index >= 0 && index < found->count ? found->members[index].name : NULL;
}

mf_member_type mf_member_kind(mf_module m, const char *name)
{
    MF_ENTER(MF_MEMBER_NONE);
    const mf_module_object *found = module_or_null(m);
    const mf_module_member *x = found && name ? find_member(found, name, MF_MEMBER_NONE) : NULL;
    return x ? x->kind : MF_MEMBER_NONE;
}

const char *mf_module_type(mf_module m)
{
    MF_ENTER(NULL);
    const mf_module_object *found = module_or_null(m);
    return found ? found->type : NULL;
}

/* ---- text */

static void put_indented(mf_text *t, int depth, const char *name) { mf_text_add(t, "\n%*s%s=", 2 * depth, "", name); }

static void print_ints(mf_text *t, mf_ints list)
{
    mf_text_put(t, "(");
    for (int i = 0; i < list.count; i++)
        mf_text_add(t, "%s%lld", i ? ", " : "", (long long)list.at[i]);
    mf_text_put(t, list.count == 1 ? ",)" : ")");
}

static void print_member(mf_text *t, const mf_module_member *x, int depth)
{
    switch (x->kind) {
    case MF_MEMBER_MODULE: mf_module_print(t, (const mf_module_object *)x->object, depth); break;
    case MF_MEMBER_NUMBER: mf_text_add(t, "%.12g", x->number); break;
    case MF_MEMBER_TEXT: mf_text_add(t, "'%s'", x->text); break;
    case MF_MEMBER_INTS: print_ints(t, ints_of(x)); break;
    case MF_MEMBER_FUNCTION: mf_text_put(t, ((const mf_function_object *)x->object)->name); break;
    case MF_MEMBER_VALUE: mf_print_shapes(t, x->object); break;
    case MF_MEMBER_STATE: {
        mf_object *value = mf_cell_value((mf_state_cell *)x->object);
        mf_text_add(t, "%s(", mf_state_type_name(((const mf_state_cell *)x->object)->type));
        put_indented(t, depth + 1, "value");
        mf_print_shapes(t, value);
        mf_text_add(t, "\n%*s)", 2 * depth, "");
        mf_drop(value);
        break;
    }
    case MF_MEMBER_NONE: break;
    }
}

/* Affine(
 *   weight=ParamState(
 *     value=ShapedArray(float32[2,4])
 *   )
 * ) */
void mf_module_print(mf_text *t, const mf_module_object *m, int depth)
{
    mf_text_add(t, "%s(", m->type);
    for (int i = 0; i < m->count; i++) {
        mf_text_put(t, i ? "," : "");
        put_indented(t, depth + 1, m->members[i].name);
        print_member(t, &m->members[i], depth + 1);
    }
    mf_text_add(t, m->count ? "\n%*s)" : ")", 2 * depth, "");
}

const char *mf_str_module(mf_module handle)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_error_object *e = NULL;
    const mf_module_object *m = mf_module_of(handle, &e);
    if (m) {
        mf_module_print(&t, m, 0);
    } else {
        mf_error_handle(e);
        mf_text_put(&t, e->message);
        mf_drop(e);
    }
    return mf_text_to_scope(&t);
}
