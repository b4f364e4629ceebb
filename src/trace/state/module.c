/* Modules: named states, submodules and numbers, with a C function that is called with the module itself. A module is a function: it
 * can be called, mapped and transformed. Run purely it takes its states' values as an argument and leaves the states alone. */
#include "base/vector.h"
#include "trace/function.h"

#include <manyfold/array.h>
#include <manyfold/state.h>
#include <math.h>
#include <string.h>

typedef struct module_member {
    const char *name; /* interned */
    enum { MEMBER_STATE = 1, MEMBER_MODULE, MEMBER_NUMBER } kind;
    bool first;        /* no other module had the state or module before: its paths go through here */
    mf_object *object; /* retained; a cell or a module */
    double number;
} module_member;

typedef struct module_object {
    mf_object object;
    const char *type;
    void (*call)(void);
    int arity, count, depth; /* depth: of the modules in it */
    bool taken;              /* is a member of a module */
    module_member *members;
} module_object;

static void module_destroy(mf_object *o)
{
    module_object *m = (module_object *)o;
    for (int i = 0; i < m->count; i++)
        mf_drop(m->members[i].object);
    mf_free(m->members);
}
static const mf_class module_class = { "module", module_destroy };

/* ---- building */

enum { NODE_STATE = 1, NODE_MODULE, NODE_NAME, NODE_NUMBER, NODE_DOUBLE };

mf_node_ mf_node_state(mf_state s) { return (mf_node_){ NODE_STATE, s.handle }; }
mf_node_ mf_node_module(mf_module m) { return (mf_node_){ NODE_MODULE, m.handle }; }

mf_node_ mf_node_name(const char *name)
{
    MF_PARENT_ONLY((mf_node_){ NODE_NAME, 0 });
    return (mf_node_){ NODE_NAME, (uint64_t)(uintptr_t)mf_intern(name) };
}

mf_node_ mf_node_int(int i) { return (mf_node_){ NODE_NUMBER, (uint64_t)(int64_t)i }; }

mf_node_ mf_node_double(double d)
{
    mf_node_ n = { NODE_DOUBLE, 0 };
    memcpy(&n.handle, &d, sizeof d);
    return n;
}

static const char *path_join(const char *outer, const char *name)
{
    mf_text t = { 0 };
    mf_text_add(&t, "%s%s%s", outer ? outer : "", outer ? "/" : "", name);
    const char *path = t.failed ? name : mf_intern(t.at);
    mf_text_free(&t);
    return path;
}

static void prepend(const module_object *m, const char *name)
{
    for (int i = 0; i < m->count; i++) {
        const module_member *x = &m->members[i];
        mf_state_cell *c = (mf_state_cell *)x->object;
        if (x->first && x->kind == MEMBER_MODULE)
            prepend((const module_object *)x->object, name);
        else if (x->first)
            c->name = path_join(name, c->name);
    }
}

/* The paths of x's states start with its name from now on, where no other module came first. */
static void adopt(module_member *x)
{
    mf_state_cell *c = x->kind == MEMBER_STATE ? (mf_state_cell *)x->object : NULL;
    module_object *m = c ? NULL : (module_object *)x->object;
    x->first = c ? !c->name : !m->taken;
    if (c && x->first)
        c->name = x->name;
    if (m && x->first)
        prepend(m, x->name);
    if (m)
        m->taken = true;
}

static mf_error_object *fill_member(module_member *m, const mf_node_ *name, const mf_node_ *value)
{
    if (name->kind != NODE_NAME)
        return mf_error_new(MF_ERROR_ARGUMENT, "a module's members are pairs of a name and a state, module or number");
    m->name = (const char *)(uintptr_t)name->handle;
    if (value->kind == NODE_NUMBER) {
        m->kind = MEMBER_NUMBER;
        m->number = (double)(int64_t)value->handle;
        return NULL;
    }
    if (value->kind == NODE_DOUBLE) {
        m->kind = MEMBER_NUMBER;
        memcpy(&m->number, &value->handle, sizeof m->number);
        return NULL;
    }
    const mf_class *wanted = value->kind == NODE_STATE ? &mf_state_class : value->kind == NODE_MODULE ? &module_class : NULL;
    mf_object *o = wanted ? mf_handle_get(value->handle) : NULL;
    if (!mf_object_is(o, wanted))
        return mf_object_is(o, &mf_error_class)
                   ? mf_retain(o)
                   : mf_error_new(MF_ERROR_ARGUMENT, "member %s of a module is neither state, module nor number", m->name);
    m->kind = value->kind == NODE_STATE ? MEMBER_STATE : MEMBER_MODULE;
    m->object = mf_retain(o);
    adopt(m);
    return NULL;
}

static mf_module module_make(const char *type, void (*call)(void), int arity, const mf_node_ *nodes, int count)
{
    module_member *members = mf_calloc((size_t)(count < 0 ? 0 : count) / 2 + 1, sizeof *members);
    module_object *m = members ? mf_object_new(&module_class, sizeof *m) : NULL;
    if (!m) {
        mf_free(members);
        return (mf_module){ mf_handle_new(mf_error_out_of_memory()) };
    }
    mf_error_object *e = NULL;
    m->members = members;
    if (count < 0 || count % 2)
        e = mf_error_new(MF_ERROR_ARGUMENT, "module %s: members are pairs of a name and a value", type);
    for (int i = 0; !e && i + 1 < count; i += 2)
        e = fill_member(&m->members[m->count++], &nodes[i], &nodes[i + 1]);
    for (int i = 0; !e && i < m->count; i++) {
        int depth = m->members[i].kind == MEMBER_MODULE ? ((const module_object *)m->members[i].object)->depth + 1 : 0;
        m->depth = depth > m->depth ? depth : m->depth;
    }
    if (m->depth > MF_TREE_DEPTH)
        e = mf_error_new(MF_ERROR_ARGUMENT, "module %s: modules may be nested %d deep, and this one would be more", type, MF_TREE_DEPTH);
    if (e) {
        mf_drop(m);
        return (mf_module){ mf_handle_new(e) };
    }
    m->type = mf_intern(type);
    m->call = call;
    m->arity = arity;
    return (mf_module){ mf_handle_new(m) };
}

mf_module mf_module_n1(const char *type, mf_fm1 call, const mf_node_ *members, int count)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    return module_make(type, (void (*)(void))call, 1, members, count);
}

mf_module mf_module_n2(const char *type, mf_fm2 call, const mf_node_ *members, int count)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    return module_make(type, (void (*)(void))call, 2, members, count);
}

/* ---- members */

static module_object *module_of(mf_module m, mf_error_object **error)
{
    mf_object *o = mf_handle_get(m.handle);
    if (mf_object_is(o, &module_class))
        return (module_object *)o;
    *error = mf_object_is(o, &mf_error_class) ? mf_retain(o) : mf_error_new(MF_ERROR_ARGUMENT, "this is not a module");
    return NULL;
}

static const module_member *member_of(mf_module handle, const char *name, int kind, const char *what, mf_error_object **error)
{
    const module_object *m = module_of(handle, error);
    for (int i = 0; m && i < m->count; i++)
        if (m->members[i].kind == (unsigned)kind && strcmp(m->members[i].name, name) == 0)
            return &m->members[i];
    if (m)
        *error = mf_error_new(MF_ERROR_ARGUMENT, "module %s has no %s named %s", m->type, what, name);
    return NULL;
}

mf_state mf_member_state(mf_module m, const char *name)
{
    MF_ENTER((mf_state){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    const module_member *found = member_of(m, name, MEMBER_STATE, "state", &e);
    return (mf_state){ mf_handle_new(found ? mf_retain(found->object) : (void *)e) };
}

mf_module mf_member_module(mf_module m, const char *name)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    const module_member *found = member_of(m, name, MEMBER_MODULE, "module", &e);
    return (mf_module){ mf_handle_new(found ? mf_retain(found->object) : (void *)e) };
}

double mf_member_number(mf_module m, const char *name)
{
    MF_ENTER(NAN);
    mf_error_object *e = NULL;
    const module_member *found = member_of(m, name, MEMBER_NUMBER, "number", &e);
    mf_drop(e); /* unhandled: reported once through the hook */
    return found ? found->number : (double)NAN;
}

/* ---- words */

static void put_indented(mf_text *t, int depth, const char *name) { mf_text_add(t, "\n%*s%s=", 2 * depth, "", name); }

/* Affine(
 *   weight=ParamState(
 *     value=ShapedArray(float32[2,4])
 *   )
 * ) */
static void print_module(mf_text *t, const module_object *m, int depth)
{
    mf_text_add(t, "%s(", m->type);
    for (int i = 0; i < m->count; i++) {
        const module_member *x = &m->members[i];
        mf_text_put(t, i ? "," : "");
        put_indented(t, depth + 1, x->name);
        if (x->kind == MEMBER_MODULE) {
            print_module(t, (const module_object *)x->object, depth + 1);
        } else if (x->kind == MEMBER_NUMBER) {
            mf_text_add(t, "%.12g", x->number);
        } else {
            const mf_state_cell *c = (const mf_state_cell *)x->object;
            mf_object *value = mf_cell_value((mf_state_cell *)x->object);
            mf_text_add(t, "%s(", mf_state_type_name(c->type));
            put_indented(t, depth + 2, "value");
            mf_print_shapes(t, value);
            mf_text_add(t, "\n%*s)", 2 * (depth + 1), "");
            mf_drop(value);
        }
    }
    mf_text_add(t, m->count ? "\n%*s)" : ")", 2 * depth, "");
}

const char *mf_str_module(mf_module handle)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_error_object *e = NULL;
    const module_object *m = module_of(handle, &e);
    if (m) {
        print_module(&t, m, 0);
    } else {
        mf_error_handle(e);
        mf_text_put(&t, e->message);
        mf_drop(e);
    }
    return mf_text_to_scope(&t);
}

/* ---- modules as functions: options are the module itself */

typedef struct module_options {
    mf_object *module; /* retained */
} module_options;

static void options_destroy(mf_function_object *f) { mf_drop(((module_options *)f->options)->module); }

static mf_value module_call(mf_function_object *f, const mf_value *a, int count)
{
    module_object *m = (module_object *)((module_options *)f->options)->module;
    if (count != m->arity)
        return mf_fail(MF_ERROR_ARGUMENT, "module %s takes %d argument%s but was called with %d", m->type, m->arity,
                       m->arity == 1 ? "" : "s", count);
    mf_module self = { mf_handle_new(mf_retain(m)) };
    mf_callee callee;
    mf_callee_begin(&callee, m->call, __builtin_return_address(0));
    mf_value r = m->arity == 1 ? ((mf_fm1)m->call)(self, a[0]) : ((mf_fm2)m->call)(self, a[0], a[1]);
    mf_callee_end(&callee);
    return r;
}

static void module_function_print(mf_text *t, const mf_function_object *f)
{
    print_module(t, (const module_object *)((const module_options *)f->options)->module, 0);
}

static const char *module_name(const void *options) { return ((const module_object *)((const module_options *)options)->module)->type; }

static const mf_function_class module_function_class = { .name = "module",
                                                         .trace = mf_trace_by_calling,
                                                         .call = module_call,
                                                         .name_of = module_name,
                                                         .destroy = options_destroy,
                                                         .print = module_function_print };

mf_function mf_fn_module(mf_module handle)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    module_object *m = module_of(handle, &e);
    if (!m)
        return (mf_function){ mf_handle_new(e) };
    module_options o = { mf_retain(m) };
    return mf_function_make(&module_function_class, NULL, &o, sizeof o);
}

/* ---- values in and out */

/* {"name": value or nested dict}; unset when no state below is accepted. path: of m, NULL at the top. */
static mf_value values_of(module_object *m, const mf_filter_object *which, const char *path)
{
    mf_value *pairs = mf_alloc((2 * (size_t)m->count + 1) * sizeof *pairs), dict = { 0 };
    int n = 0;
    if (!pairs)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < m->count; i++) {
        module_member *x = &m->members[i];
        const char *at = path_join(path, x->name);
        mf_value v = { 0 };
        if (x->kind == MEMBER_STATE && mf_filter_accepts(which, (mf_state_cell *)x->object, at))
            v = mf_cell_read((mf_state_cell *)x->object);
        else if (x->kind == MEMBER_MODULE)
            v = values_of((module_object *)x->object, which, at);
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
    module_object *m = module_of(handle, &e);
    const mf_filter_object *f = m ? mf_filter_of(which, &e) : NULL;
    if (!f)
        return mf_value_new(e);
    mf_value v = values_of(m, f, NULL);
    return v.handle ? v : mf_dict_n(NULL, 0);
}

/* States and what stands in their place. */
typedef struct paired {
    MF_VECTOR(mf_state_cell *) cells;
    MF_VECTOR(mf_object *) values;
    bool keeps_shapes; /* the values must have the shapes of what the cells hold */
} paired;

static void paired_free(paired *p)
{
    mf_free(p->cells.at);
    mf_free(p->values.at);
}

/* What a state gets by an update has the tree and the shapes of what it holds. */
static mf_error_object *check_shape(const module_object *m, const module_member *x, mf_value v)
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

/* Pairs the cells of m with the values in a dict of the same names. An error names what has no counterpart. */
static mf_error_object *pair(module_object *m, mf_value values, paired *p)
{
    for (int i = 0, n = mf_len(values); i < n; i++) {
        const char *name = mf_key(values, i);
        module_member *x = NULL;
        for (int k = 0; name && k < m->count && !x; k++)
            if (m->members[k].kind != MEMBER_NUMBER && strcmp(m->members[k].name, name) == 0)
                x = &m->members[k];
        if (!x)
            return mf_error_new(MF_ERROR_TREE, "module %s has no state or module named %s", m->type,
                                name ? name : "(the values are no dict)");
        mf_value v = mf_get_n(values, (const mf_value[]){ mf_string(name) }, 1);
        if (x->kind == MEMBER_MODULE) {
            mf_error_object *e = pair((module_object *)x->object, v, p);
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
    module_object *m = module_of(handle, &e);
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
    module_object *m = (module_object *)((module_options *)f->options)->module;
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

static const mf_function_class pure_class = {
    .name = "pure", .trace = mf_trace_by_calling, .call = pure_call, .name_of = module_name, .destroy = options_destroy
};

mf_function mf_module_pure(mf_module handle)
{
    MF_ENTER((mf_function){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    module_object *m = module_of(handle, &e);
    if (!m)
        return (mf_function){ mf_handle_new(e) };
    module_options o = { mf_retain(m) };
    return mf_function_make(&pure_class, NULL, &o, sizeof o);
}

/* ---- split and merge */

mf_value mf_module_split_n(mf_module m, const mf_filter *filters, int count)
{
    MF_ENTER(MF_FORKED);
    mf_error_object *e = NULL;
    if (!module_of(m, &e))
        return mf_value_new(e);
    if (count < 1)
        return mf_fail(MF_ERROR_ARGUMENT, "mf_module_split needs at least one filter");
    mf_value *parts = mf_alloc((size_t)count * sizeof *parts), all;
    if (!parts)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < count; i++) {
        mf_filter first[] = { filters[i], mf_filter_not(mf_filter_any_n(filters, i)) };
        parts[i] = mf_module_values(m, i ? mf_filter_all_n(first, 2) : filters[0]);
    }
    mf_value rest = mf_module_values(m, mf_filter_not(mf_filter_any_n(filters, count)));
    if (mf_len(rest) > 0)
        all = mf_fail(MF_ERROR_ARGUMENT, "mf_module_split: no filter accepts the states below %s; the last one may be mf_everything()",
                      mf_key(rest, 0));
    else
        all = mf_first_error_in(mf_object_of(rest)) ? rest : mf_tuple_n(parts, count);
    mf_free(parts);
    return all;
}

/* A merge in progress: what has been made in the place of what, so that what was shared stays shared. */
typedef struct merge {
    MF_VECTOR(mf_object *) from; /* cells and modules of the old one, borrowed */
    MF_VECTOR(mf_object *) to;   /* of the new one, retained */
} merge;

static mf_object *merged_already(const merge *w, const mf_object *from)
{
    for (int i = 0; i < w->to.count; i++)
        if (w->from.at[i] == from)
            return w->to.at[i];
    return NULL;
}

static bool note_merged(merge *w, mf_object *from, mf_object *to)
{
    if (!mf_vector_push(&w->from, from))
        return false;
    if (mf_vector_push(&w->to, to)) {
        mf_retain(to);
        return true;
    }
    w->from.count--;
    return false;
}

/* The part of those dicts that has the name, of each that has one, in `out`. */
static int parts_named(const char *name, const mf_value *values, int count, mf_value *out)
{
    int n = 0;
    for (int i = 0; i < count; i++)
        for (int k = 0, keys = mf_len(values[i]); k < keys; k++) {
            const char *key = mf_key(values[i], k);
            if (key && strcmp(key, name) == 0)
                out[n++] = mf_get_n(values[i], (const mf_value[]){ mf_string(key) }, 1);
        }
    return n;
}

/* Values are dicts whose keys are members that hold something. */
static mf_error_object *check_names(const module_object *m, const char *path, const mf_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (mf_kind_of(values[i]) != MF_KIND_DICT)
            return mf_error_new(MF_ERROR_TREE, "mf_module_merge: the values of %s%s%s are no dict", m->type, path ? " at " : "",
                                path ? path : "");
        for (int k = 0, keys = mf_len(values[i]); k < keys; k++) {
            const char *key = mf_key(values[i], k);
            bool found = false;
            for (int j = 0; j < m->count && !found; j++)
                found = m->members[j].kind != MEMBER_NUMBER && strcmp(m->members[j].name, key) == 0;
            if (!found)
                return mf_error_new(MF_ERROR_TREE, "mf_module_merge: module %s has no state or module named %s", m->type,
                                    path_join(path, key));
        }
    }
    return NULL;
}

static mf_object *merged(merge *w, module_object *m, const char *path, const mf_value *values, int count, mf_error_object **error);

/* A fresh cell in the place of one, or what came into its place before. A new reference. */
static mf_object *merged_cell(merge *w, mf_state_cell *c, const char *path, const mf_value *values, int count, mf_error_object **error)
{
    mf_object *before = merged_already(w, &c->object);
    if (before)
        return mf_retain(before);
    if (count != 1) {
        *error = mf_error_new(
            MF_ERROR_TREE, count ? "mf_module_merge: state %s is in several of the trees" : "mf_module_merge: the values have no %s", path);
        return NULL;
    }
    mf_state_cell *fresh = mf_cell_made_here(c->type, values[0], error);
    if (!fresh)
        return NULL;
    fresh->name = path;
    if (note_merged(w, &c->object, &fresh->object))
        return &fresh->object;
    mf_drop(fresh);
    *error = mf_error_out_of_memory();
    return NULL;
}

static mf_error_object *merge_members(merge *w, const module_object *m, module_object *to, const char *path, const mf_value *values,
                                      int count)
{
    mf_value *parts = mf_alloc(((size_t)count + 1) * sizeof *parts);
    mf_error_object *error = parts ? check_names(m, path, values, count) : mf_error_out_of_memory();
    for (int i = 0; i < m->count && !error; i++) {
        const module_member *x = &m->members[i];
        module_member *y = &to->members[i];
        *y = *x;
        y->object = NULL;
        to->count = i + 1;
        if (x->kind == MEMBER_NUMBER)
            continue;
        y->first = !merged_already(w, x->object);
        const char *at = path_join(path, x->name);
        int n = parts_named(x->name, values, count, parts);
        y->object = x->kind == MEMBER_STATE ? merged_cell(w, (mf_state_cell *)x->object, at, parts, n, &error)
                                            : merged(w, (module_object *)x->object, at, parts, n, &error);
    }
    mf_free(parts);
    return error;
}

/* A module like m whose states hold the values. A new reference. */
static mf_object *merged(merge *w, module_object *m, const char *path, const mf_value *values, int count, mf_error_object **error)
{
    mf_object *before = merged_already(w, &m->object);
    if (before)
        return mf_retain(before);
    module_object *to = mf_object_new(&module_class, sizeof *to);
    module_member *members = mf_calloc((size_t)m->count + 1, sizeof *members);
    if (to && members) {
        to->type = m->type;
        to->call = m->call;
        to->arity = m->arity;
        to->depth = m->depth;
        to->taken = path != NULL;
        to->members = members;
        *error = merge_members(w, m, to, path, values, count);
        if (!*error && note_merged(w, &m->object, &to->object))
            return &to->object;
    } else {
        mf_free(members);
    }
    mf_drop(to);
    if (!*error)
        *error = mf_error_out_of_memory();
    return NULL;
}

/* A new reference, or NULL. */
static mf_error_object *error_in(mf_value v)
{
    mf_object *inside = mf_first_error_in(mf_object_of(v));
    return inside ? mf_retain(inside) : NULL;
}

mf_module mf_module_merge_n(mf_module handle, const mf_value *values, int count)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    module_object *m = module_of(handle, &e);
    if (!e && count < 0)
        e = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_merge of %d trees", count);
    for (int i = 0; i < count && !e; i++)
        e = error_in(values[i]);
    merge w = { 0 };
    mf_object *made = m && !e ? merged(&w, m, NULL, values, count, &e) : NULL;
    for (int i = 0; i < w.to.count; i++)
        mf_drop(w.to.at[i]);
    mf_free(w.from.at);
    mf_free(w.to.at);
    return (mf_module){ mf_handle_new(made ? made : (void *)e) };
}
