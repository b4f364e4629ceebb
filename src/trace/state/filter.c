/* Filters (predicates on state cells), and the axis rules of maps, which are made of them. Invariant: filters, and lists of rules, with
 * equal contents are one object, so signatures compare them by address; they are never freed. */
#include "base/memory/alloc.h"
#include "trace/state/state.h"

#include <manyfold/state.h>
#include <pthread.h>
#include <string.h>

static void nothing_to_destroy(mf_object *o) { (void)o; }
const mf_class mf_filter_class = { "filter", nothing_to_destroy };

/* ---- making */

static bool same_filter(const mf_filter_object *f, const mf_filter_object *like)
{
    return f->kind == like->kind && f->type == like->type && f->text == like->text && f->count == like->count &&
           (!f->count || memcmp(f->parts, like->parts, (size_t)f->count * sizeof *f->parts) == 0);
}

static mf_filter_object *filter_copy(const mf_filter_object *like)
{
    mf_filter_object *f = mf_object_new(&mf_filter_class, sizeof *f);
    const mf_filter_object **parts = mf_alloc(((size_t)like->count + 1) * sizeof *parts);
    if (!f || !parts) {
        mf_free(parts);
        mf_drop(f);
        return NULL;
    }
    if (like->count)
        memcpy(parts, like->parts, (size_t)like->count * sizeof *parts);
    f->kind = like->kind;
    f->type = like->type;
    f->text = like->text;
    f->count = like->count;
    f->depth = like->depth;
    f->parts = parts;
    return f;
}

static mf_filter filter_make(const mf_filter_object *like)
{
    MF_PARENT_ONLY((mf_filter){ MF_FORK_HANDLE });
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static mf_filter_object *known;
    pthread_mutex_lock(&lock);
    mf_filter_object *f = known;
    while (f && !same_filter(f, like))
        f = f->next;
    if (!f && (f = filter_copy(like))) {
        f->next = known;
        known = f;
    }
    pthread_mutex_unlock(&lock);
    return (mf_filter){ mf_handle_new(f ? mf_retain(f) : (void *)mf_error_out_of_memory()) };
}

mf_filter mf_everything(void) { return filter_make(&(mf_filter_object){ .kind = MF_FILTER_EVERYTHING }); }
mf_filter mf_of_type(mf_state_type type) { return filter_make(&(mf_filter_object){ .kind = MF_FILTER_TYPE, .type = (int)type }); }

mf_filter mf_path_contains(const char *text)
{
    MF_ENTER((mf_filter){ MF_FORK_HANDLE });
    if (!text || !*text)
        return (mf_filter){ mf_handle_new(mf_error_new(MF_ERROR_ARGUMENT, "mf_path_contains: no name is given")) };
    return filter_make(&(mf_filter_object){ .kind = MF_FILTER_PATH, .text = mf_intern(text) });
}

const mf_filter_object *mf_filter_of(mf_filter f, mf_error_object **error)
{
    mf_object *o = mf_handle_get(f.handle);
    if (mf_object_is(o, &mf_filter_class))
        return (const mf_filter_object *)o;
    *error = mf_object_is(o, &mf_error_class)
                 ? mf_retain(o)
                 : mf_error_new(MF_ERROR_ARGUMENT, "this is not a filter (%s)", o ? o->kind->name : "an unset value");
    return NULL;
}

static mf_filter combine(int kind, const mf_filter *filters, int count)
{
    if (count < 0)
        return (mf_filter){ mf_handle_new(mf_error_new(MF_ERROR_ARGUMENT, "a filter of %d filters", count)) };
    const mf_filter_object **parts = mf_alloc(((size_t)count + 1) * sizeof *parts);
    mf_error_object *error = parts ? NULL : mf_error_out_of_memory();
    int depth = 0;
    for (int i = 0; i < count && !error; i++) {
        parts[i] = mf_filter_of(filters[i], &error);
        depth = parts[i] && parts[i]->depth >= depth ? parts[i]->depth + 1 : depth;
    }
    if (!error && depth > MF_TREE_DEPTH)
        error = mf_error_new(MF_ERROR_ARGUMENT, "a filter may be nested %d deep, and this one would be more", MF_TREE_DEPTH);
    mf_filter made = error ? (mf_filter){ mf_handle_new(error) }
                           : filter_make(&(mf_filter_object){ .kind = kind, .count = count, .depth = depth, .parts = parts });
    mf_free(parts);
    return made;
}

mf_filter mf_filter_all_n(const mf_filter *filters, int count)
{
    MF_ENTER((mf_filter){ MF_FORK_HANDLE });
    return combine(MF_FILTER_ALL, filters, count);
}

mf_filter mf_filter_any_n(const mf_filter *filters, int count)
{
    MF_ENTER((mf_filter){ MF_FORK_HANDLE });
    return combine(MF_FILTER_ANY, filters, count);
}

mf_filter mf_filter_not(mf_filter f)
{
    MF_ENTER((mf_filter){ MF_FORK_HANDLE });
    return combine(MF_FILTER_NOT, &f, 1);
}

/* ---- matching */

/* Whether the names in `text` are consecutive names of the path: "encoder/kernel" matches in "net/encoder/kernel", "encoder" not in
 * "my_encoder". */
static bool has_names(const char *path, const char *text)
{
    size_t n = strlen(text);
    for (const char *at = path; at && (at = strstr(at, text)); at++)
        if ((at == path || at[-1] == '/') && (!at[n] || at[n] == '/'))
            return true;
    return false;
}

bool mf_filter_accepts(const mf_filter_object *f, const mf_state_cell *c, const char *path)
{
    int accepting = 0;
    for (int i = 0; i < f->count; i++)
        accepting += mf_filter_accepts(f->parts[i], c, path);
    switch (f->kind) {
    case MF_FILTER_TYPE: return f->type == MF_STATE_ANY || c->type == f->type;
    case MF_FILTER_PATH: return has_names(path, f->text);
    case MF_FILTER_NOT: return !accepting;
    case MF_FILTER_ANY: return accepting > 0;
    default: return accepting == f->count; /* ALL needs all of its parts; EVERYTHING has none */
    }
}

bool mf_filter_accepts_path(mf_filter which, const char *path)
{
    MF_ENTER(false);
    const mf_state_cell no_state = { .type = MF_STATE_ANY };
    mf_error_object *e = NULL;
    const mf_filter_object *f = mf_filter_of(which, &e);
    mf_drop(e); /* left unhandled: reported once through the hook */
    return f && mf_filter_accepts(f, &no_state, path ? path : "");
}

mf_filter mf_filter_keep(mf_filter which)
{
    MF_ENTER((mf_filter){ MF_FORK_HANDLE });
    mf_error_object *e = NULL;
    mf_filter_object *f = (mf_filter_object *)(uintptr_t)mf_filter_of(which, &e);
    return (mf_filter){ f ? mf_handle_keep_one(&f->kept, &f->object) : mf_handle_new(e) };
}

/* ---- rules */

static const mf_class rules_class = { "state axes", nothing_to_destroy };

typedef struct rules_object {
    mf_object object;
    const mf_cell_rule_list *list;
} rules_object;

mf_state_axis_rules mf_cell_rules_handle(const mf_cell_rule_list *list)
{
    if (!list->count)
        return (mf_state_axis_rules){ 0 };
    rules_object *r = mf_object_new(&rules_class, sizeof *r);
    if (r)
        r->list = list;
    return (mf_state_axis_rules){ mf_handle_new(r ? (void *)r : (void *)mf_error_out_of_memory()) };
}

static const mf_cell_rule_list *list_of(const mf_cell_rule *rules, int count)
{
    static _Atomic(mf_interner *) table;
    size_t size = sizeof(mf_cell_rule_list) + (size_t)count * sizeof *rules;
    mf_cell_rule_list *list = mf_calloc(1, size);
    if (list)
        list->count = count;
    for (int i = 0; list && i < count; i++)
        list->at[i] = rules[i];
    const mf_cell_rule_list *interned = list ? mf_interner_get(mf_interner_static(&table), list, size) : NULL;
    mf_free(list);
    return interned;
}

mf_axis_part_ mf_axis_part_axis(mf_axis axis) { return (mf_axis_part_){ .axis = axis }; }
mf_axis_part_ mf_axis_part_states(mf_filter states) { return (mf_axis_part_){ .is_filter = true, .states = states }; }

static mf_error_object *read_rule(const mf_axis_part_ *pair, mf_cell_rule *out)
{
    if (pair[0].is_filter || !pair[1].is_filter)
        return mf_error_new(MF_ERROR_ARGUMENT, "MF_STATE_AXES takes pairs of an axis and a filter");
    mf_error_object *error = NULL;
    out->axis = pair[0].axis;
    out->filter = mf_filter_of(pair[1].states, &error);
    if (error && error->status == MF_ERROR_ARGUMENT)
        return mf_error_wrap(error, "the states of axis %lld are named by no filter", (long long)pair[0].axis);
    return error;
}

mf_state_axis_rules mf_state_axes_n(const mf_axis_part_ *parts, int count)
{
    MF_ENTER((mf_state_axis_rules){ MF_FORK_HANDLE });
    mf_cell_rule *rules = count < 0 ? NULL : mf_alloc(((size_t)count / 2 + 1) * sizeof *rules);
    mf_error_object *error = rules || count < 0 ? NULL : mf_error_out_of_memory();
    if (!error && (count < 0 || count % 2))
        error = mf_error_new(MF_ERROR_ARGUMENT, "MF_STATE_AXES takes pairs of an axis and a filter");
    for (int i = 0; !error && i < count; i += 2)
        error = read_rule(&parts[i], &rules[i / 2]);
    const mf_cell_rule_list *list = error ? NULL : list_of(rules, count / 2);
    mf_free(rules);
    if (list)
        return mf_cell_rules_handle(list);
    return (mf_state_axis_rules){ mf_handle_new(error ? error : mf_error_out_of_memory()) };
}

const mf_cell_rule_list *mf_cell_rule_list_of(mf_state_axis_rules rules, const char *what, mf_error_object **error)
{
    mf_object *o = mf_handle_get(rules.handle);
    if (mf_object_is(o, &rules_class))
        return ((const rules_object *)o)->list;
    const mf_cell_rule_list *none = rules.handle ? NULL : list_of(NULL, 0);
    if (rules.handle)
        *error = mf_object_is(o, &mf_error_class) ? mf_retain(o) : mf_error_new(MF_ERROR_ARGUMENT, "%s is no MF_STATE_AXES(...)", what);
    else if (!none)
        *error = mf_error_out_of_memory();
    return none;
}

mf_axis mf_cell_rule_axis(const mf_cell_rule_list *rules, const mf_state_cell *c)
{
    for (int i = 0; i < rules->count; i++)
        if (mf_filter_accepts(rules->at[i].filter, c, c->name))
            return rules->at[i].axis;
    return MF_NONE;
}

/* ---- text */

void mf_filter_print(mf_text *t, const mf_filter_object *f)
{
    static const char *const words[] = { "Everything(", "OfType(", "PathContains(", "Not(", "All(", "Any(" };
    mf_text_put(t, words[f->kind]);
    if (f->kind == MF_FILTER_TYPE)
        mf_text_put(t, mf_state_type_name(f->type));
    if (f->kind == MF_FILTER_PATH)
        mf_text_add(t, "'%s'", f->text);
    for (int i = 0; i < f->count; i++) {
        mf_text_put(t, i ? ", " : "");
        mf_filter_print(t, f->parts[i]);
    }
    mf_text_put(t, ")");
}

const char *mf_str_state_axis_rules(mf_state_axis_rules rules)
{
    MF_ENTER(MF_FORK_WORDS);
    mf_text t = { 0 };
    mf_error_object *error = NULL;
    const mf_cell_rule_list *list = mf_cell_rule_list_of(rules, "this", &error);
    mf_text_put(&t, list ? "{" : error->message);
    for (int i = 0; list && i < list->count; i++) {
        mf_text_put(&t, i ? ", " : "");
        mf_text_add(&t, list->at[i].axis == MF_NONE ? "None: " : "%lld: ", (long long)list->at[i].axis);
        mf_filter_print(&t, list->at[i].filter);
    }
    mf_text_put(&t, list ? "}" : "");
    if (error)
        mf_error_ignore(error); /* its message was shown */
    return mf_text_to_scope(&t);
}
