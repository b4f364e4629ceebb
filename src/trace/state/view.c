/* Views: modules with the same states and functions as another one but other plain members (nnx.view). Invariant: equal views of one module
 * are one object as long as somebody holds it, so what was traced for one is found for the other. */
#include "trace/state/module.h"

#include "trace/function.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void mf_module_view_forget(mf_module_object *view)
{
    mf_module_object *m = view->origin;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < m->views.count; i++)
        if (m->views.at[i] == view) {
            m->views.at[i] = m->views.at[--m->views.count];
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* A member that the view sets, requested by name. */
typedef struct setting {
    mf_module_member member;
    bool found;
} setting;
typedef struct settings {
    int count;
    setting *at;
} settings;

/* Compares numbers bitwise, so that a NaN equals itself. */
static uint64_t bits_of(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static bool same_member(const mf_module_member *a, const mf_module_member *b)
{
    return a->kind == b->kind && a->object == b->object && a->text == b->text && bits_of(a->number) == bits_of(b->number);
}

static bool same_members(const mf_module_object *a, const mf_module_object *b)
{
    for (int i = 0; i < a->count; i++)
        if (!same_member(&a->members[i], &b->members[i]))
            return false;
    return true;
}

/* Interns v, whose reference is taken: returns the origin if it equals v, an existing equal view, or v. */
static mf_module_object *interned(mf_module_object *origin, mf_module_object *v)
{
    mf_module_object *found = same_members(origin, v) ? mf_retain(origin) : NULL;
    pthread_mutex_lock(&lock);
    for (int i = 0; !found && i < origin->views.count; i++)
        if (same_members(origin->views.at[i], v))
            found = mf_retain_if_alive(origin->views.at[i]);
    bool added = !found && mf_vector_push(&origin->views, v);
    if (added)
        v->origin = mf_retain(origin);
    pthread_mutex_unlock(&lock);
    if (added)
        return v;
    mf_drop(v); /* v has no origin yet, so nothing is unregistered */
    return found;
}

static mf_module_object *view_of(mf_module_object *m, const settings *s, mf_error_object **error);

/* Replaces the member by the view's, retained. */
static bool set_member(mf_module_member *x, const settings *s, mf_error_object **error)
{
    if (x->kind == MF_MEMBER_MODULE) {
        x->object = (mf_object *)view_of((mf_module_object *)x->object, s, error);
        return x->object;
    }
    for (int i = 0; i < s->count && x->kind != MF_MEMBER_STATE; i++) {
        setting *wanted = &s->at[i];
        if (strcmp(wanted->member.name, x->name) != 0)
            continue;
        wanted->found = true;
        if (wanted->member.kind != x->kind) {
            *error = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_view: member %s is of another kind than what it is to be", x->name);
            x->object = NULL;
            return false;
        }
        bool first = x->first;
        *x = wanted->member;
        x->first = first;
    }
    mf_retain(x->object);
    return true;
}

/* The view of m, a new reference; m itself if nothing in it changes. */
static mf_module_object *view_of(mf_module_object *m, const settings *s, mf_error_object **error)
{
    mf_module_object *v = mf_module_object_new(m->type, m->call, m->inputs, m->count);
    if (!v) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    v->depth = m->depth;
    v->function_depth = m->function_depth;
    for (int i = 0; i < m->count; i++) {
        v->members[v->count++] = m->members[i];
        if (!set_member(&v->members[i], s, error)) {
            mf_drop(v);
            return NULL;
        }
    }
    if (same_members(m, v)) {
        mf_drop(v);
        return mf_retain(m);
    }
    mf_module_object *one = interned(m->origin ? m->origin : m, v);
    *error = one ? NULL : mf_error_out_of_memory();
    return one;
}

static mf_error_object *read_settings(settings *s, const mf_node_ *nodes, int count)
{
    mf_error_object *e = NULL;
    for (int i = 0; !e && i + 1 < count; i += 2) {
        mf_module_member name = { 0 };
        e = mf_module_member_read(&name, "(a name)", &nodes[i]);
        if (!e && name.kind != MF_MEMBER_TEXT)
            e = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_view: what is set are pairs of a name and a value");
        mf_drop(name.object);
        setting *x = &s->at[s->count];
        e = e ? e : mf_module_member_read(&x->member, name.text, &nodes[i + 1]);
        s->count += !e;
        if (!e && x->member.kind <= MF_MEMBER_MODULE)
            e = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_view: %s: states and modules stay as they are", name.text);
    }
    return e;
}

static mf_module_object *view_by(mf_module_object *m, const settings *s, mf_error_object **error)
{
    mf_module_object *v = view_of(m, s, error);
    for (int i = 0; v && i < s->count; i++)
        if (!s->at[i].found) {
            *error = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_view: neither module %s nor one in it has a member named %s", m->type,
                                  s->at[i].member.name);
            mf_drop(v);
            return NULL;
        }
    return v;
}

mf_module mf_module_view_n(mf_module handle, const mf_node_ *nodes, int count)
{
    MF_ENTER((mf_module){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    mf_module_object *m = mf_module_of(handle, &e), *v = NULL;
    settings s = { 0 };
    if (m && (count < 0 || count % 2))
        e = mf_error_new(MF_ERROR_ARGUMENT, "mf_module_view: what is set are pairs of a name and a value");
    else if (m && !(s.at = mf_calloc((size_t)count / 2 + 1, sizeof *s.at)))
        e = mf_error_out_of_memory();
    e = e || !m ? e : read_settings(&s, nodes, count);
    if (m && !e)
        v = view_by(m, &s, &e);
    for (int i = 0; i < s.count; i++)
        mf_drop(s.at[i].member.object);
    mf_free(s.at);
    return (mf_module){ mf_handle_new(v ? (void *)v : (void *)e) };
}
