/* The abstract side of a call: flattening, statics, donation flags. See function.h. */
#include "trace/function.h"

#include <stdio.h>
#include <string.h>

static const void *number_identity(const mf_array *a, const void *element)
{
    static _Atomic(mf_interner *) table;
    struct {
        const mf_type *type;
        unsigned char bytes[16];
    } key;
    memset(&key, 0, sizeof key);
    key.type = a->type;
    memcpy(key.bytes, element, (size_t)mf_dtype_size(a->type->dtype));
    return mf_interner_get(mf_interner_static(&table), &key, sizeof key);
}

const mf_ints *mf_function_statics(const mf_function_object *f) { return f->kind->static_argnums ? f->kind->static_argnums(f) : NULL; }
const mf_ints *mf_inner_statics(const mf_function_object *f) { return mf_function_statics(f->inner); }

static mf_error_object *traced_static(int argument, const char *function, const mf_type *type)
{
    return mf_error_new(MF_ERROR_TRACER, "static argument %d of %s is a traced value (%s); a static must be known when tracing", argument,
                        function, mf_type_name(type));
}

/* A static leaf: a string, bytes, a module, or a number. Other arrays cannot be static, as they have no equality. */
static mf_error_object *static_leaf(mf_leaf *leaf, mf_object *o, const char *function, int argument)
{
    mf_error_object *failed = NULL;
    mf_array *known = mf_object_is(o, &mf_tracer_class) ? mf_trace_known((mf_tracer *)o, &failed) : NULL;
    o = known ? &known->object : o;
    leaf->type = NULL;
    leaf->object = o;
    if (failed || mf_object_is(o, &mf_error_class))
        return failed ? failed : mf_retain(o);
    if (mf_object_is(o, &mf_static_class)) {
        leaf->identity = o;
        return NULL;
    }
    if (mf_object_is(o, &mf_array_class) && ((mf_array *)o)->type->rank == 0) {
        unsigned char element[16];
        mf_error_object *error = mf_array_element((mf_array *)o, element);
        leaf->identity = error ? NULL : number_identity((mf_array *)o, element);
        return error || leaf->identity ? error : mf_error_out_of_memory();
    }
    if (mf_object_is(o, &mf_tracer_class))
        return traced_static(argument, function, ((mf_tracer *)o)->type);
    return mf_error_new(MF_ERROR_ARGUMENT,
                        "non-hashable static argument %d of %s: %s has no equality to look a compiled program up by; "
                        "statics are numbers, strings, static bytes and modules",
                        argument, function, mf_object_is(o, &mf_array_class) ? mf_type_name(((mf_array *)o)->type) : o->kind->name);
}

static mf_error_object *typed_leaf(mf_leaf *leaf, mf_object *o, const mf_function_object *f, const mf_structure *s, int argument, int index,
                                   bool structs)
{
    leaf->type = structs && mf_struct_type(o) ? mf_struct_type(o) : mf_object_type(o);
    leaf->object = o;
    leaf->identity = NULL;
    if (leaf->type)
        return NULL;
    if (mf_object_is(o, &mf_error_class))
        return mf_retain(o);
    if (mf_object_is(o, &mf_static_class) && !mf_function_statics(f)) {
        leaf->identity = o;
        return NULL;
    }
    mf_text path = { 0 };
    mf_structure_leaf_path(&path, s, index);
    mf_error_object *e = mf_error_new(MF_ERROR_ARGUMENT,
                                      "%s: argument %d%s%s is %s, not an array or a number; arguments that are not arrays must be "
                                      "marked as static",
                                      f->name, argument, path.count ? " at " : "", path.count ? path.at : "", mf_object_words(o));
    mf_text_free(&path);
    return e;
}

/* "1, 3", or "1," alone, as a tuple prints. */
static void put_argnums(mf_text *t, const mf_ints *list)
{
    for (int i = 0; i < list->count; i++)
        mf_text_add(t, "%s%lld", i ? ", " : "", (long long)list->at[i]);
    if (list->count == 1)
        mf_text_put(t, ",");
}

/* JAX's message for pmap, or for jit (and remat). */
static mf_error_object *too_few_for_statics(const mf_function_object *f, const mf_ints *statics, int count)
{
    bool pmap = f->kind->devices;
    mf_text list = { 0 };
    put_argnums(&list, statics);
    mf_error_object *e = mf_error_new(
        MF_ERROR_ARGUMENT, "%s function has %s=(%s) but was called with only %d positional argument%s. %s", pmap ? "pmapped" : "jitted",
        pmap ? "static_broadcasted_argnums" : "static_argnums", list.at ? list.at : "", count, count == 1 ? "" : "s",
        pmap ? "All static broadcasted arguments must be passed positionally." : "All static arguments must be passed positionally.");
    mf_text_free(&list);
    return e;
}

static mf_error_object *check_static_argnums(const mf_function_object *f, const mf_ints *statics, int count)
{
    for (int i = 0; statics && i < statics->count; i++)
        if (statics->at[i] >= count || statics->at[i] < -count)
            return too_few_for_statics(f, statics, count);
    return NULL;
}

static bool names_argument(const mf_ints *list, int argument, int count)
{
    for (int i = 0; list && i < list->count; i++)
        if (list->at[i] == argument || list->at[i] + count == argument)
            return true;
    return false;
}

/* Committed arrays of two clients are an error, which is reported when the program runs. */
static void note_client(mf_signature *s, const mf_object *o)
{
    const mf_sharding *p = mf_object_is(o, &mf_array_class) ? ((const mf_array *)o)->sharding : NULL;
    if (p && p->client != s->client && p->committed)
        s->client = p->client;
}

static mf_error_object *make_signature(mf_signature *s, mf_leaves *storage, const mf_function_object *f, const mf_value *arguments,
                                       int count, bool structs)
{
    const mf_ints *statics = mf_function_statics(f);
    *s = (mf_signature){ .env = mf_trace_env(), .client = mf_trace_client(), .arg_count = count };
    if (count < 0 || count > MF_MAX_ARGUMENTS)
        return mf_error_new(MF_ERROR_ARGUMENT, "%s was called with %d arguments; at most %d are possible (pass a tree)", f->name, count,
                            MF_MAX_ARGUMENTS);
    mf_object *self[MF_MAX_ARGUMENTS], *const *items[MF_MAX_ARGUMENTS];
    int sizes[MF_MAX_ARGUMENTS], total = 0;
    for (int i = 0; i < count; i++) {
        mf_object *o = mf_object_of(arguments[i]);
        if (!o)
            return mf_error_new(MF_ERROR_ARGUMENT, "argument %d of %s is an unset value", i, f->name);
        s->structures[i] = mf_tree_flatten(o, &items[i], &sizes[i], &self[i]);
        if (i == count - 1 && mf_object_is(o, &mf_tree_class) && ((mf_tree *)o)->kwargs)
            s->has_kwargs = true;
        total += sizes[i];
    }
    mf_error_object *error = check_static_argnums(f, statics, count - s->has_kwargs);
    if (error)
        return error;
    mf_leaf *leaves = storage->few;
    if ((size_t)total > sizeof storage->few / sizeof *storage->few && !(leaves = storage->more = mf_alloc((size_t)total * sizeof *leaves)))
        return mf_error_out_of_memory();
    s->leaves = leaves;
    for (int i = 0; i < count; i++) {
        bool is_static = names_argument(statics, i, count - s->has_kwargs) && !(s->has_kwargs && i == count - 1);
        for (int k = 0; k < sizes[i] && !error; k++) {
            mf_leaf *leaf = &leaves[s->leaf_count++];
            note_client(s, items[i][k]);
            error = is_static ? static_leaf(leaf, items[i][k], f->name, i)
                              : typed_leaf(leaf, items[i][k], f, s->structures[i], i, k, structs);
        }
    }
    if (error)
        for (int i = 0; i < count; i++) {
            mf_object *other = mf_first_error_in(mf_object_of(arguments[i]));
            if (other)
                mf_error_join(error, (mf_error_object *)other);
        }
    return error;
}

mf_error_object *mf_signature_make(mf_signature *s, mf_leaves *storage, const mf_function_object *f, const mf_value *arguments, int count)
{
    return make_signature(s, storage, f, arguments, count, false);
}

mf_error_object *mf_signature_of_types(mf_signature *s, mf_leaves *storage, const mf_function_object *f, const mf_value *arguments,
                                       int count)
{
    return make_signature(s, storage, f, arguments, count, true);
}

mf_error_object *mf_signature_known(const mf_signature *s, const mf_function_object *f)
{
    const mf_ints *statics = mf_function_statics(f);
    int positional = s->arg_count - s->has_kwargs, leaf = 0;
    for (int i = 0; statics && i < positional; i++)
        for (int k = 0; k < s->structures[i]->leaf_count; k++, leaf++)
            if (s->leaves[leaf].type && names_argument(statics, i, positional))
                return traced_static(i, f->name, s->leaves[leaf].type);
    return NULL;
}

mf_error_object *mf_signature_donated(const mf_signature *s, const mf_function_object *f, bool *donated)
{
    const mf_ints *list = f->kind->donate_argnums(f);
    int positional = s->arg_count - s->has_kwargs;
    for (int i = 0; list && i < list->count; i++)
        if (list->at[i] >= positional || list->at[i] < -positional)
            return mf_error_new(MF_ERROR_ARGUMENT, "donate_argnums of %s names argument %lld, but the call has %d positional argument%s",
                                f->name, (long long)list->at[i], positional, positional == 1 ? "" : "s");
    const mf_ints *statics = mf_function_statics(f);
    for (int i = 0; i < positional; i++)
        if (names_argument(list, i, positional) && names_argument(statics, i, positional))
            return mf_error_new(MF_ERROR_ARGUMENT, "%s: argument %d is both static and donated; a static has no memory to give", f->name,
                                i);
    int leaf = 0, typed = 0;
    for (int i = 0; i < s->arg_count; i++)
        for (int k = 0; k < s->structures[i]->leaf_count; k++, leaf++)
            if (s->leaves[leaf].type)
                donated[typed++] = i < positional && names_argument(list, i, positional);
    return NULL;
}

/* ---- the leaves of a signature */

int mf_signature_typed_count(const mf_signature *s)
{
    int n = 0;
    for (int i = 0; i < s->leaf_count; i++)
        n += s->leaves[i].type != NULL;
    return n;
}

int mf_signature_argument_of(const mf_signature *s, int leaf)
{
    for (int i = 0, first = 0; i < s->arg_count; first += s->structures[i]->leaf_count, i++)
        if (leaf < first + s->structures[i]->leaf_count)
            return i;
    return s->arg_count;
}

void mf_signature_leaf_path(mf_text *t, const mf_signature *s, int leaf)
{
    int argument = mf_signature_argument_of(s, leaf), first = 0;
    for (int i = 0; i < argument; i++)
        first += s->structures[i]->leaf_count;
    if (s->has_kwargs && argument == s->arg_count - 1)
        mf_text_put(t, "keyword argument ");
    else
        mf_text_add(t, "argument %d", argument);
    if (argument < s->arg_count)
        mf_structure_leaf_path(t, s->structures[argument], leaf - first);
}
