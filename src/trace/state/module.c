/* Modules: named states, submodules, numbers and others, with a C function that is called with the module itself. A module is a function:
 * it can be called, mapped and transformed. Its pure form takes the states' values as an argument and leaves the states unchanged. */
#include "trace/state/module.h"

#include "trace/function.h"

#include <manyfold/array.h>
#include <manyfold/state.h>
#include <math.h>
#include <string.h>

static void module_destroy(mf_object *o)
{
    mf_module_object *m = (mf_module_object *)o;
    if (m->origin)
        mf_module_view_forget(m);
    for (int i = 0; i < m->count; i++)
        mf_drop(m->members[i].object);
    mf_free(m->members);
    mf_free(m->views.at);
    mf_drop(m->origin);
}
const mf_class mf_module_class = { "module", module_destroy };

mf_module_object *mf_module_object_new(const char *type, void (*call)(void), int inputs, int capacity)
{
    mf_module_member *members = mf_calloc((size_t)(capacity < 0 ? 0 : capacity) + 1, sizeof *members);
    mf_module_object *m = members ? mf_object_new(&mf_module_class, sizeof *m) : NULL;
    if (!m) {
        mf_free(members);
        return NULL;
    }
    m->type = mf_intern(type);
    m->call = call;
    m->inputs = inputs;
    m->members = members;
    return m;
}

/* ---- building */

enum { NODE_STATE = 1, NODE_MODULE, NODE_NAME, NODE_NUMBER, NODE_DOUBLE, NODE_INTS, NODE_FUNCTION, NODE_VALUE };

mf_node_ mf_node_state(mf_state s) { return (mf_node_){ NODE_STATE, s.handle }; }
mf_node_ mf_node_module(mf_module m) { return (mf_node_){ NODE_MODULE, m.handle }; }

mf_node_ mf_node_name(const char *name)
{
    MF_PARENT_ONLY((mf_node_){ NODE_NAME, 0 });
    const char *interned = mf_intern(name);
    if (name && !interned)
        return (mf_node_){ NODE_VALUE, mf_handle_new(mf_error_out_of_memory()) };
    return (mf_node_){ NODE_NAME, (uint64_t)(uintptr_t)interned };
}

mf_node_ mf_node_int(int i) { return (mf_node_){ NODE_NUMBER, (uint64_t)(int64_t)i }; }

mf_node_ mf_node_double(double d)
{
    mf_node_ n = { NODE_DOUBLE, 0 };
    memcpy(&n.handle, &d, sizeof d);
    return n;
}

/* The list is passed as a static of its bytes, with unused entries zero. */
mf_node_ mf_node_ints(mf_ints list)
{
    mf_error_object *e = NULL;
    mf_ints plain = mf_ints_plain(list, "a module's member", &e);
    return (mf_node_){ NODE_INTS, e ? mf_handle_new(e) : mf_static_bytes(&plain, sizeof plain).handle };
}

mf_node_(mf_node_function)(mf_function f) { return (mf_node_){ NODE_FUNCTION, f.handle }; }
mf_node_(mf_node_value)(mf_value v) { return (mf_node_){ NODE_VALUE, v.handle }; }

const char *mf_module_path(const char *outer, const char *name)
{
    mf_text t = { 0 };
    mf_text_add(&t, "%s%s%s", outer ? outer : "", outer ? "/" : "", name);
    const char *path = t.failed ? name : mf_intern(t.at);
    mf_text_free(&t);
    return path;
}

/* The module that m is a view of, or m itself. It holds the paths of the states. */
static mf_module_object *origin_of(mf_module_object *m) { return m->origin ? m->origin : m; }

static void prepend(const mf_module_object *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        const mf_module_member *x = &m->members[i];
        mf_state_cell *c = (mf_state_cell *)x->object;
        if (x->first && x->kind == MF_MEMBER_MODULE)
            prepend(origin_of((mf_module_object *)x->object), name);
        else if (x->first)
            c->name = mf_module_path(name, c->name);
    }
}

/* Puts x's name before the paths of its states, unless another module took them first. */
static void adopt(mf_module_member *x)
{
    mf_state_cell *c = x->kind == MF_MEMBER_STATE ? (mf_state_cell *)x->object : NULL;
    mf_module_object *m = x->kind == MF_MEMBER_MODULE ? origin_of((mf_module_object *)x->object) : NULL;
    x->first = c ? !c->name : m && !m->taken;
    if (c && x->first)
        c->name = x->name;
    if (m && x->first)
        prepend(m, x->name);
    if (m)
        m->taken = true;
}

/* For nodes that are handles: the kind of member that they make, and the class that the handle's object must have (NULL: any). */
static mf_member_type kind_of(int node, const mf_class **wanted)
{
    *wanted = node == NODE_STATE      ? &mf_state_class
              : node == NODE_MODULE   ? &mf_module_class
              : node == NODE_INTS     ? &mf_static_class
              : node == NODE_FUNCTION ? &mf_function_object_class
                                      : NULL;
    return node == NODE_STATE      ? MF_MEMBER_STATE
           : node == NODE_MODULE   ? MF_MEMBER_MODULE
           : node == NODE_INTS     ? MF_MEMBER_INTS
           : node == NODE_FUNCTION ? MF_MEMBER_FUNCTION
           : node == NODE_VALUE    ? MF_MEMBER_VALUE
                                   : MF_MEMBER_NONE;
}

static mf_object *module_of_function(const mf_object *f);

static mf_error_object *read_handle(mf_module_member *m, const char *name, const mf_node_ *value)
{
    const mf_class *wanted;
    mf_member_type kind = kind_of(value->kind, &wanted);
    mf_object *o = kind == MF_MEMBER_NONE ? NULL : mf_handle_get(value->handle);
    mf_error_object *inside = (mf_error_object *)mf_first_error_in(o);
    if (inside)
        return mf_retain(inside);
    if (!o || (wanted && !mf_object_is(o, wanted)))
        return mf_error_new(MF_ERROR_ARGUMENT, "member %s of a module is neither state, module, number, text, list, function nor value",
                            name);
    mf_object *module = kind == MF_MEMBER_FUNCTION ? module_of_function(o) : NULL;
    m->kind = module ? MF_MEMBER_MODULE : kind;
    m->object = mf_retain(module ? module : o);
    return NULL;
}

mf_error_object *mf_module_member_read(mf_module_member *m, const char *name, const mf_node_ *value)
{
    *m = (mf_module_member){ .name = name, .kind = MF_MEMBER_NUMBER };
    if (value->kind == NODE_NUMBER) {
        m->number = (double)(int64_t)value->handle;
    } else if (value->kind == NODE_DOUBLE) {
        memcpy(&m->number, &value->handle, sizeof m->number);
    } else if (value->kind == NODE_NAME && value->handle) {
        m->kind = MF_MEMBER_TEXT;
        m->text = (const char *)(uintptr_t)value->handle;
    } else {
        m->kind = MF_MEMBER_NONE;
        return read_handle(m, name, value);
    }
    return NULL;
}

static mf_error_object *fill_member(mf_module_member *m, const mf_node_ *name, const mf_node_ *value)
{
    mf_object *no_name = name->kind == NODE_VALUE ? mf_first_error_in(mf_handle_get(name->handle)) : NULL;
    if (no_name)
        return mf_retain((mf_error_object *)no_name);
    if (name->kind != NODE_NAME || !name->handle)
        return mf_error_new(MF_ERROR_ARGUMENT, "a module's members are pairs of a name and a state, module, number or other value");
    mf_error_object *e = mf_module_member_read(m, (const char *)(uintptr_t)name->handle, value);
    if (!e)
        adopt(m);
    return e;
}

static int greater(int a, int b) { return a > b ? a : b; }

static void find_depths(mf_module_object *m)
{
    for (int i = 0; i < m->count; i++) {
        const mf_module_member *x = &m->members[i];
        const mf_module_object *inner = x->kind == MF_MEMBER_MODULE ? (const mf_module_object *)x->object : NULL;
        const mf_function_object *f = x->kind == MF_MEMBER_FUNCTION ? (const mf_function_object *)x->object : NULL;
        m->depth = inner ? greater(m->depth, inner->depth + 1) : m->depth;
        m->function_depth = greater(m->function_depth, inner ? inner->function_depth : f ? f->depth + 1 : 0);
    }
}

mf_module mf_module_n(const char *type, mf_fm call, int inputs, const mf_node_ *nodes, int count)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    mf_module_object *m = mf_module_object_new(type, call, inputs, count / 2);
    if (!m)
        return (mf_module){ mf_handle_new(mf_error_out_of_memory()) };
    mf_error_object *e = NULL;
    if (count < 0 || count % 2)
        e = mf_error_new(MF_ERROR_ARGUMENT, "module %s: members are pairs of a name and a value", type);
    else if (inputs < MF_ANY_NUMBER_ || inputs > MF_MAX_ARGUMENTS)
        e = mf_error_new(MF_ERROR_ARGUMENT, "module %s: a function takes between 0 and %d inputs, not %d", type, MF_MAX_ARGUMENTS, inputs);
    for (int i = 0; !e && i + 1 < count; i += 2)
        e = fill_member(&m->members[m->count++], &nodes[i], &nodes[i + 1]);
    if (!e)
        find_depths(m);
    if (m->depth > MF_TREE_DEPTH || m->function_depth > MF_TREE_DEPTH)
        e = mf_error_new(MF_ERROR_ARGUMENT, "module %s: modules may be nested %d deep, and this one would be more", type, MF_TREE_DEPTH);
    if (e) {
        mf_drop(m);
        return (mf_module){ mf_handle_new(e) };
    }
    return (mf_module){ mf_handle_new(m) };
}

/* ---- modules as functions: the options are the module itself */

typedef struct module_options {
    mf_object *module; /* retained */
} module_options;

static void options_destroy(mf_function_object *f) { mf_drop(((module_options *)f->options)->module); }

static mf_value invoke(const mf_module_object *m, mf_module self, const mf_value *a, int count)
{
#define X(n) \
    case n: return ((mf_fm##n)m->call)(self, MF_A##n);
    switch (m->inputs) {
        MF_ARITIES(X)
    case 0: return ((mf_fm0)m->call)(self);
    default: return ((mf_fma)m->call)(self, a, count);
    }
#undef X
}

static mf_value module_call(mf_function_object *f, const mf_value *a, int count)
{
    mf_module_object *m = (mf_module_object *)((module_options *)f->options)->module;
    if (m->inputs != MF_ANY_NUMBER_ && count != m->inputs)
        return mf_fail(MF_ERROR_ARGUMENT, "module %s takes %d argument%s but was called with %d", m->type, m->inputs,
                       m->inputs == 1 ? "" : "s", count);
    mf_module self = { mf_handle_new(mf_retain(m)) };
    mf_callee callee;
    mf_callee_begin(&callee, m->call, __builtin_return_address(0));
    mf_value r = invoke(m, self, a, count);
    mf_callee_end(&callee);
    return r;
}

static void module_function_print(mf_text *t, const mf_function_object *f)
{
    mf_module_print(t, (const mf_module_object *)((const module_options *)f->options)->module, 0);
}

/* The depth of the functions among its members; the nesting of modules has a limit of its own. */
static int module_depth(const void *options)
{
    return ((const mf_module_object *)((const module_options *)options)->module)->function_depth - 1;
}

static const char *module_name(const void *options) { return ((const mf_module_object *)((const module_options *)options)->module)->type; }

static const mf_function_class module_function_class = { .name = "module",
                                                         .trace = mf_trace_by_calling,
                                                         .call = module_call,
                                                         .name_of = module_name,
                                                         .destroy = options_destroy,
                                                         .depth = module_depth,
                                                         .print = module_function_print };

/* The module that o is the function of, or NULL. Given such a function, a module takes its module as a submodule, with its states. */
static mf_object *module_of_function(const mf_object *o)
{
    const mf_function_object *f = (const mf_function_object *)o;
    return f->kind == &module_function_class ? ((const module_options *)f->options)->module : NULL;
}

static mf_function function_of(mf_module handle, const mf_function_class *kind)
{
    mf_error_object *e = NULL;
    mf_module_object *m = mf_module_of(handle, &e);
    if (!m)
        return (mf_function){ mf_handle_new(e) };
    module_options o = { mf_retain(m) };
    return mf_function_make(kind, NULL, &o, sizeof o);
}

mf_function mf_fn_module(mf_module handle)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return function_of(handle, &module_function_class);
}

/* ---- values in and out */

/* {"name": value or nested dict}; unset when no state inside is accepted. path: m's path, NULL at the top. */
static mf_value values_of(mf_module_object *m, const mf_filter_object *which, const char *path)
{
    mf_value *pairs = mf_alloc((2 * (size_t)m->count + 1) * sizeof *pairs), dict = { 0 };
    int n = 0;
    if (!pairs)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < m->count; i++) {
        mf_module_member *x = &m->members[i];
        const char *at = mf_module_path(path, x->name);
        mf_value v = { 0 };
        if (x->kind == MF_MEMBER_STATE && mf_filter_accepts(which, (mf_state_cell *)x->object, at))
            v = mf_cell_read((mf_state_cell *)x->object);
        else if (x->kind == MF_MEMBER_MODULE)
            v = values_of((mf_module_object *)x->object, which, at);
        if (!v.handle)
            continue;
        pairs[n++] = mf_string(x->name);
        pairs[n++] = v;
    }
    if (n)
        dict = mf_dict_n(pairs, n);
    mf_free(pairs);
    return dict;
}

mf_value mf_module_values(mf_module handle, mf_filter which)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *e = NULL;
    mf_module_object *m = mf_module_of(handle, &e);
    const mf_filter_object *f = m ? mf_filter_of(which, &e) : NULL;
    if (!f)
        return mf_value_new(e);
    mf_value v = values_of(m, f, NULL);
    return v.handle ? v : mf_dict_n(NULL, 0);
}

/* States and the values that replace theirs. */
typedef struct paired {
    MF_VECTOR(mf_state_cell *) cells;
    MF_VECTOR(mf_object *) values;
    bool keeps_shapes; /* the values must have the shapes of the cells' present values */
} paired;

static void paired_free(paired *p)
{
    mf_free(p->cells.at);
    mf_free(p->values.at);
}

/* Checks that a state's new value has the tree and the shapes of the present one. */
static mf_error_object *check_shape(const mf_module_object *m, const mf_module_member *x, mf_value v)
{
    mf_object *now = mf_object_of(mf_cell_read((mf_state_cell *)x->object)), *const * old, *const * new, *self[2];
    int count;
    const mf_structure *s = mf_tree_flatten(now, &old, &count, &self[0]), *t = mf_tree_flatten(mf_object_of(v), &new, &count, &self[1]);
    if (s != t)
        return mf_error_new(MF_ERROR_TREE, "mf_module_update: state %s of %s gets another tree than it holds", x->name, m->type);
    for (int i = 0; i < count; i++) {
        const mf_type *a = mf_object_type(old[i]), *b = mf_object_type(new[i]);
        if (a && b && !mf_type_same_shape(a, b))
            return mf_error_new(MF_ERROR_SHAPE, "mf_module_update: state %s of %s is %s, but its new value is %s", x->name, m->type,
                                mf_type_name(a), mf_type_name(b));
    }
    return NULL;
}

/* Pairs the cells of m with values from a dict of the same names. An error names the key that has no counterpart. */
static mf_error_object *pair(mf_module_object *m, mf_value values, paired *p)
{
    for (int i = 0, n = mf_len(values); i < n; i++) {
        const char *name = mf_key(values, i);
        const mf_module_member *x = name ? mf_module_holder(m, name) : NULL;
        if (!x)
            return mf_error_new(MF_ERROR_TREE, "module %s has no state or module named %s", m->type,
                                name ? name : "(the values are no dict)");
        mf_value v = mf_get_n(values, (const mf_value[]){ mf_string(name) }, 1);
        if (x->kind == MF_MEMBER_MODULE) {
            mf_error_object *e = pair((mf_module_object *)x->object, v, p);
            if (e)
                return e;
            continue;
        }
        mf_error_object *e = p->keeps_shapes ? check_shape(m, x, v) : NULL;
        if (e)
            return e;
        if (!mf_vector_push(&p->cells, (mf_state_cell *)x->object) || !mf_vector_push(&p->values, mf_object_of(v)))
            return mf_error_out_of_memory();
    }
    return NULL;
}

mf_status(mf_module_update)(mf_module handle, mf_value values)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_error_object *e = NULL;
    mf_module_object *m = mf_module_of(handle, &e);
    paired p = { .keeps_shapes = true };
    mf_error_object *inside = (mf_error_object *)mf_first_error_in(mf_object_of(values));
    if (m && inside)
        e = mf_retain(inside);
    else if (m)
        e = pair(m, values, &p);
    for (int i = 0; !e && i < p.values.count; i++)
        mf_cell_write(p.cells.at[i], mf_value_of(p.values.at[i]));
    paired_free(&p);
    return mf_error_remember(e);
}

static mf_value pure_call(mf_function_object *f, const mf_value *a, int count)
{
    mf_module_object *m = (mf_module_object *)((module_options *)f->options)->module;
    if (count < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "%s takes the states' values first", f->name);
    paired p = { 0 };
    mf_object *given = mf_object_of(a[0]);
    mf_error_object *inside = (mf_error_object *)mf_first_error_in(given);
    if (inside)
        return mf_value_of(inside);
    mf_error_object *e = pair(m, a[0], &p);
    if (e) {
        paired_free(&p);
        return mf_value_new(e);
    }
    for (int i = 0; i < p.values.count; i++)
        mf_retain(p.values.at[i]);
    mf_cell_frame frame = { .count = p.values.count, .cells = p.cells.at, .values = p.values.at };
    mf_cell_frame_open(&frame);
    mf_value r = mf_call_n(mf_fn_module((mf_module){ mf_handle_new(mf_retain(m)) }), a + 1, count - 1);
    mf_cell_frame_close(&frame);
    for (int i = 0; i < p.values.count; i++)
        mf_drop(p.values.at[i]);
    paired_free(&p);
    return r;
}

static const mf_function_class pure_class = { .name = "pure",
                                              .trace = mf_trace_by_calling,
                                              .call = pure_call,
                                              .name_of = module_name,
                                              .destroy = options_destroy,
                                              .depth = module_depth };

mf_function mf_module_pure(mf_module handle)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    return function_of(handle, &pure_class);
}
