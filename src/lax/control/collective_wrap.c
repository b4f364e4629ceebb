/* The public collectives: over whole trees, several names, groups, and constants. Each leaf becomes one equation; a number known at trace
 * time is folded, as in JAX: psum(1) is the axis size. */
#include "ops/collective/collective.h"
#include "ops/ops.h"
#include "trace/trace.h"
#include "tree/tree.h"

#include <manyfold/collective.h>
#include <manyfold/lax.h>
#include <string.h>

/* ---- options */

typedef struct axes_spec {
    const mf_namelist *names;
    const mf_intlist *groups;
    int64_t group_size, size; /* group_size: members of a group (of the largest, if they differ); size: members of the axes */
    bool uneven;
} axes_spec;

static mf_error_object *unbound(const char *op, const char *name)
{
    mf_text t = { 0 };
    for (const mf_axis_env *e = mf_trace_env(); e; e = e->outer)
        if (e->name)
            mf_text_add(&t, "%s%s", t.count ? ", " : "", e->name);
    mf_error_object *error = mf_error_new(MF_ERROR_AXIS, "%s: unbound axis name: %s. The following axis names are in scope: %s", op, name,
                                          t.count ? t.at : "none");
    mf_text_free(&t);
    return error;
}

static const mf_collective_options no_options;

static mf_error_object *names_of(const char *op, const mf_collective_options *o, axes_spec *spec)
{
    const char *given[] = { o->axis_name, o->axis_name_2, o->axis_name_3, o->axis_name_4 }, *names[4];
    int n = 0;
    spec->size = 1;
    for (int i = 0; i < 4; i++) {
        if (!given[i])
            continue;
        names[n] = mf_intern(given[i]);
        const mf_axis_env *binder = mf_axis_env_find(mf_trace_env(), names[n]);
        if (!binder)
            return unbound(op, given[i]);
        for (int k = 0; k < n; k++)
            if (names[k] == names[n])
                return mf_error_new(MF_ERROR_AXIS, "%s: axis name %s is given twice", op, given[i]);
        spec->size *= binder->size;
        n++;
    }
    if (!n)
        return mf_error_new(MF_ERROR_AXIS, "%s: an axis name is needed", op);
    spec->names = mf_names_intern(names, n);
    return spec->names ? NULL : mf_error_out_of_memory();
}

/* Reads integers at the leaves of a tree, in order, into a list with room for twice as many, which the caller frees. -1 when a leaf is no
 * integer. */
static int integers_of(mf_value v, int64_t **list, const mf_structure **structure)
{
    mf_object *o = mf_object_of(v), *const * leaves, *self;
    int n;
    if (!o)
        return -1;
    *structure = mf_tree_flatten(o, &leaves, &n, &self);
    int64_t *out = *list = mf_alloc((2 * (size_t)n + 1) * sizeof *out);
    if (!out)
        return -1;
    for (int i = 0; i < n; i++) {
        mf_array *a = (mf_array *)leaves[i];
        if (!mf_object_is(leaves[i], &mf_array_class) || a->type->rank || !mf_dtype_is_int(a->type->dtype))
            return -1;
        unsigned char element[16];
        mf_error_object *error = mf_array_element(a, element);
        if (error) {
            mf_error_ignore(error);
            return -1;
        }
        out[i] = mf_load_i64(a->type->dtype, element);
    }
    return n;
}

/* Stores the groups of a list, each padded with -1 to the size of the largest. */
static mf_error_object *fill_groups(const char *op, const mf_structure *s, const int64_t *members, axes_spec *spec)
{
    int64_t most = 0;
    for (int i = 0; i < s->child_count; i++)
        most = s->children[i]->leaf_count > most ? s->children[i]->leaf_count : most;
    int64_t *filled = mf_alloc((size_t)(s->child_count * most + 1) * sizeof *filled);
    if (!filled)
        return mf_error_out_of_memory();
    for (int i = 0; i < s->child_count; i++)
        for (int64_t k = 0; k < most; k++)
            filled[i * most + k] = k < s->children[i]->leaf_count ? *members++ : -1;
    spec->group_size = most;
    spec->groups = most ? mf_ints_intern(filled, (int)(s->child_count * most)) : NULL;
    mf_free(filled);
    return spec->groups ? NULL : mf_error_new(MF_ERROR_AXIS, "%s: axis_index_groups must be a list of lists of indices", op);
}

static mf_error_object *groups_of(const char *op, const mf_collective_options *o, bool uneven, axes_spec *spec)
{
    spec->groups = mf_ints_of(0);
    spec->group_size = spec->size;
    spec->uneven = false;
    if (!o->axis_index_groups.handle)
        return NULL;
    const mf_structure *s;
    int64_t *members = NULL;
    int n = integers_of(o->axis_index_groups, &members, &s);
    mf_error_object *e = NULL;
    if (n < 1 || (s->kind != MF_NODE_LIST && s->kind != MF_NODE_TUPLE) || !s->child_count)
        e = mf_error_new(MF_ERROR_AXIS, "%s: axis_index_groups must be a list of lists of indices", op);
    for (int i = 0; !e && i < s->child_count; i++)
        spec->uneven |= s->children[i]->leaf_count != s->children[0]->leaf_count;
    if (spec->uneven && !uneven)
        e = mf_error_new(MF_ERROR_AXIS, "%s: axis_index_groups must all be of one size", op);
    if (!e)
        e = fill_groups(op, s, members, spec);
    mf_free(members);
    return e;
}

/* ---- leaves */

typedef struct collective {
    const mf_op *op;
    axes_spec spec;
    int64_t axis, second_axis;
    bool tiled, mean;
    const mf_intlist *perm;
} collective;

static mf_value bind_leaf(const collective *c, mf_value x)
{
    if (c->op == &mf_op_all_gather || c->op == &mf_op_psum_scatter) {
        mf_gather_axis_params p = { c->spec.names, c->axis, c->tiled, c->spec.groups, c->spec.groups->count ? c->spec.group_size : 0 };
        return mf_bind(c->op, &p, 1, x);
    }
    if (c->op == &mf_op_all_to_all) {
        mf_all_to_all_params p = { c->spec.names, c->axis,        c->second_axis,
                                   c->tiled,      c->spec.groups, c->spec.groups->count ? c->spec.group_size : 0 };
        return mf_bind(c->op, &p, 1, x);
    }
    if (c->op == &mf_op_ppermute) {
        mf_permute_params p = { c->spec.names, c->perm };
        return mf_bind(c->op, &p, 1, x);
    }
    mf_collective_params p = { c->spec.names, c->spec.groups, c->spec.groups->count ? c->spec.group_size : 0 };
    return mf_bind(c->op, &p, 1, x);
}

/* A collective of a number known at trace time: a sum is a multiple, an extremum is the number itself. */
static mf_value fold_number(const collective *c, const mf_array *a)
{
    if (c->op != &mf_op_psum)
        return mf_value_of(a);
    unsigned char element[16];
    mf_error_object *error = mf_array_element(a, element);
    if (error)
        return mf_value_new(error);
    mf_dtype dtype = a->type->dtype;
    uint64_t members = (uint64_t)c->spec.group_size; /* integers wrap */
    mf_array *r = mf_dtype_is_float(dtype) ? mf_array_scalar_f64(dtype, a->type->weak, mf_load_f64(dtype, element) * (double)members)
                                           : mf_array_scalar_i64(dtype == MF_BOOL ? MF_I32 : dtype, a->type->weak,
                                                                 (int64_t)((uint64_t)mf_load_i64(dtype, element) * members));
    return r ? mf_value_new(r) : mf_value_new(mf_error_out_of_memory());
}

static mf_value normalise_axis(const char *op, int64_t *axis, int rank)
{
    if (*axis >= -rank && *axis < rank) {
        *axis += *axis < 0 ? rank : 0;
        return (mf_value){ 0 };
    }
    return mf_fail(MF_ERROR_AXIS, "%s: axis %lld is out of bounds for rank %d", op, (long long)*axis, rank);
}

/* The number of members in a sum: a constant, unless groups differ in size. */
static mf_value members_of_group(const collective *c)
{
    return c->spec.uneven ? bind_leaf(c, mf_scalar(1, MF_I32)) : mf_i(c->spec.group_size);
}

/* Backends compare real numbers only, so complex operands are gathered and compared here. */
static mf_value complex_extreme(const collective *c, mf_value x)
{
    collective gather = *c;
    gather.op = &mf_op_all_gather;
    gather.axis = 0;
    gather.tiled = false;
    mf_value all = bind_leaf(&gather, x);
    return c->op->reducer == MF_REDUCE_MAX ? mf_max(all, 0) : mf_min(all, 0);
}

static mf_value leaf_of(const collective *c, mf_object *o)
{
    mf_value x = mf_expect_array(mf_value_of(o), c->op->name);
    const mf_type *type = mf_value_type(x);
    if (!type)
        return x;
    bool reduces = c->op->collective == MF_COLLECTIVE_REDUCE;
    mf_value r;
    if (reduces && !c->spec.uneven && mf_object_is(o, &mf_array_class) && !type->rank) {
        r = fold_number(c, (mf_array *)o);
    } else if (reduces && c->op->reducer != MF_REDUCE_SUM && mf_dtype_is_complex(type->dtype)) {
        r = complex_extreme(c, x);
    } else {
        collective local = *c;
        mf_value bad = { 0 };
        if (c->op == &mf_op_all_gather)
            bad = normalise_axis(c->op->name, &local.axis, type->rank + !c->tiled);
        else if (c->op == &mf_op_psum_scatter)
            bad = normalise_axis(c->op->name, &local.axis, type->rank);
        else if (c->op == &mf_op_all_to_all && !(bad = normalise_axis(c->op->name, &local.axis, type->rank)).handle)
            bad = normalise_axis(c->op->name, &local.second_axis, type->rank);
        if (bad.handle)
            return bad;
        if (c->op->reduced == MF_REDUCED_DEVICES && c->op->reducer == MF_REDUCE_SUM && type->dtype == MF_BOOL)
            x = mf_astype(x, MF_I32);
        r = bind_leaf(&local, x);
    }
    return c->mean ? mf_div(r, members_of_group(c)) : r;
}

static mf_value over_tree(const collective *c, mf_value x)
{
    mf_object *o = mf_object_of(x), *const * leaves, *self;
    if (!o)
        return mf_fail(MF_ERROR_ARGUMENT, "%s of an unset value", c->op->name);
    if (!mf_object_is(o, &mf_tree_class))
        return leaf_of(c, o);
    int n;
    const mf_structure *s = mf_tree_flatten(o, &leaves, &n, &self);
    mf_object **out = mf_alloc(((size_t)n + 1) * sizeof *out);
    if (!out)
        return mf_value_new(mf_error_out_of_memory());
    for (int i = 0; i < n; i++)
        out[i] = mf_object_of(leaf_of(c, leaves[i]));
    for (int i = 0; i < n; i++)
        if (mf_object_is(out[i], &mf_error_class)) {
            mf_value e = mf_value_of(out[i]);
            mf_free(out);
            return e;
        }
    mf_object *tree = mf_tree_build(s, out);
    mf_free(out);
    return tree ? mf_value_new(tree) : mf_value_new(mf_error_out_of_memory());
}

static mf_value run(collective *c, const char *name, mf_value x, const mf_collective_options *o)
{
    mf_object *operand = mf_object_of(x);
    if (mf_object_is(operand, &mf_error_class))
        return x;
    o = o ? o : &no_options;
    mf_error_object *e = names_of(name, o, &c->spec);
    if (!e)
        e = groups_of(name, o, c->op->collective == MF_COLLECTIVE_REDUCE, &c->spec);
    c->tiled = o->tiled;
    return e ? mf_value_new(e) : over_tree(c, x);
}

/* ---- the functions */

mf_value mf_psum_opt(mf_value x, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_psum }, "psum", x, o);
}

mf_value mf_pmean_opt(mf_value x, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_psum, .mean = true }, "pmean", x, o);
}

mf_value mf_pmax_opt(mf_value x, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_pmax }, "pmax", x, o);
}

mf_value mf_pmin_opt(mf_value x, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_pmin }, "pmin", x, o);
}

mf_value mf_all_gather_opt(mf_value x, int axis, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_all_gather, .axis = axis }, "all_gather", x, o);
}

mf_value mf_psum_scatter_opt(mf_value x, int scatter_dimension, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_psum_scatter, .axis = scatter_dimension }, "psum_scatter", x, o);
}

mf_value mf_all_to_all_opt(mf_value x, int split_axis, int concat_axis, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    return run(&(collective){ .op = &mf_op_all_to_all, .axis = split_axis, .second_axis = concat_axis }, "all_to_all", x, o);
}

static mf_error_object *permutation_error(const char *what)
{
    return mf_error_new(MF_ERROR_AXIS, "`perm` does not represent a permutation: %s", what);
}

static mf_error_object *check_pairs(const int64_t *pairs, int n, int64_t size)
{
    int at;
    if (!collective_find_misfit(pairs, n, size, &at))
        return mf_error_out_of_memory();
    if (at < 0)
        return NULL;
    if (pairs[at] < 0 || pairs[at] >= size)
        return permutation_error("an index lies outside the axis");
    return permutation_error(at % 2 ? "sources or destinations are not unique (a target is named twice)"
                                    : "sources or destinations are not unique (a source is named twice)");
}

static mf_value permute(mf_value x, const char *axis_name, const int64_t *pairs, int n)
{
    collective c = { .op = &mf_op_ppermute };
    mf_collective_options o = { .axis_name = axis_name };
    mf_error_object *e = names_of("ppermute", &o, &c.spec);
    if (!e)
        e = check_pairs(pairs, n, c.spec.size);
    if (e)
        return mf_value_new(e);
    c.spec.groups = mf_ints_of(0);
    c.perm = mf_ints_intern(pairs, n);
    return over_tree(&c, x);
}

mf_value(mf_ppermute)(mf_value x, const char *axis_name, mf_value pairs)
{
    MF_ENTER(MF_FORKED);
    if (mf_object_is(mf_object_of(x), &mf_error_class))
        return x;
    const mf_structure *s = NULL;
    int64_t *list = NULL;
    int n = integers_of(pairs, &list, &s);
    bool ok = n >= 0 && (s->kind == MF_NODE_LIST || s->kind == MF_NODE_TUPLE);
    for (int i = 0; ok && i < s->child_count; i++)
        ok = s->children[i]->leaf_count == 2;
    mf_value r = ok ? permute(x, axis_name, list, n)
                    : mf_fail(MF_ERROR_AXIS, "`perm` does not represent a permutation: a list of (source, target) pairs is needed");
    mf_free(list);
    return r;
}

mf_value(mf_pshuffle)(mf_value x, const char *axis_name, mf_value permutation)
{
    MF_ENTER(MF_FORKED);
    if (mf_object_is(mf_object_of(x), &mf_error_class))
        return x;
    const mf_structure *s;
    int64_t *list = NULL;
    int n = integers_of(permutation, &list, &s);
    mf_value r = n < 0 ? mf_fail(MF_ERROR_AXIS, "`perm` does not represent a permutation: a list of indices is needed") : (mf_value){ 0 };
    if (n >= 0) {
        for (int i = n - 1; i >= 0; i--) {
            list[2 * i] = list[i];
            list[2 * i + 1] = i;
        }
        const mf_axis_env *binder = mf_axis_env_find(mf_trace_env(), mf_intern(axis_name));
        r = binder && n != binder->size
                ? mf_fail(MF_ERROR_AXIS, "`perm` does not represent a permutation: it has %d entries, the axis %s has size %lld", n,
                          axis_name, (long long)binder->size)
                : permute(x, axis_name, list, 2 * n);
    }
    mf_free(list);
    return r;
}

typedef struct broadcast {
    const char *axis_name;
    int source;
} broadcast;

/* All but the source contribute zero. */
static mf_value broadcast_leaf(void *context, mf_value x)
{
    const broadcast *c = context;
    const mf_type *type = mf_value_type(x);
    if (!type)
        return mf_expect_array(x, "pbroadcast's operand");
    mf_collective_options o = { .axis_name = c->axis_name };
    mf_value mine = mf_equal(mf_axis_index_opt(&o), c->source);
    return mf_astype(mf_psum_opt(mf_where(mine, x, mf_scalar(0, type->dtype)), &o), type->dtype);
}

mf_value(mf_pbroadcast)(mf_value x, const char *axis_name, int source)
{
    MF_ENTER(MF_FORKED);
    const mf_axis_env *binder = mf_axis_env_find(mf_trace_env(), mf_intern(axis_name));
    if (!binder)
        return mf_value_new(unbound("pbroadcast", axis_name ? axis_name : ""));
    if (source < 0 || source >= binder->size)
        return mf_fail(MF_ERROR_AXIS, "pbroadcast: source %d lies outside the axis %s of size %lld", source, axis_name,
                       (long long)binder->size);
    return mf_tree_map(mf_closure(broadcast_leaf, &((broadcast){ axis_name, source })), x);
}

mf_value mf_pswapaxes_opt(mf_value x, int axis, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    o = o ? o : &no_options;
    mf_collective_options plain = *o;
    plain.tiled = false;
    return mf_all_to_all_opt(x, axis, axis, &plain);
}

/* ---- the index of the extremum: the least index of a replica that holds it; a NaN wins, as in pmax and pmin */

typedef struct extremum {
    mf_value (*of)(mf_value x, const mf_collective_options *o);
    const mf_collective_options *o;
} extremum;

static mf_value index_of_extremum(void *context, mf_value x)
{
    const extremum *e = context;
    x = mf_stop_gradient(x); /* an index has no derivative, even if pmax has one */
    mf_value best = e->of(x, e->o);
    if (mf_is_error(best))
        return best;
    mf_value index = mf_axis_index_opt(&(mf_collective_options){ .axis_name = e->o->axis_name });
    mf_value here = mf_logical_or(mf_equal(x, best), mf_logical_and(mf_not_equal(x, x), mf_not_equal(best, best)));
    return mf_pmin_opt(mf_where(here, index, mf_scalar(INT32_MAX, MF_I32)), e->o);
}

static mf_value arg_extremum(const char *name, extremum e, mf_value x)
{
    if (e.o->axis_name_2)
        return mf_fail(MF_ERROR_AXIS, "%s: over one axis name only", name);
    return mf_tree_map(mf_closure(index_of_extremum, &e), x);
}

mf_value mf_pargmax_opt(mf_value x, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    o = o ? o : &no_options;
    return arg_extremum("pargmax", (extremum){ mf_pmax_opt, o }, x);
}

mf_value mf_pargmin_opt(mf_value x, const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    o = o ? o : &no_options;
    return arg_extremum("pargmin", (extremum){ mf_pmin_opt, o }, x);
}

/* ---- indices and sizes */

mf_value mf_axis_index_opt(const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    axes_spec spec;
    mf_error_object *e = names_of("axis_index", o ? o : &no_options, &spec);
    if (e)
        return mf_value_new(e);
    mf_axis_name_params p = { spec.names };
    mf_value out;
    mf_bind_n(&mf_op_axis_index, &p, NULL, 0, &out, 1);
    return out;
}

mf_value mf_axis_size_opt(const mf_collective_options *o)
{
    MF_ENTER(MF_FORKED);
    axes_spec spec;
    mf_error_object *e = names_of("axis_size", o ? o : &no_options, &spec);
    return e ? mf_value_new(e) : mf_i(spec.size);
}

mf_value(mf_axis_index)(const char *axis_name)
{
    MF_ENTER(MF_FORKED);
    return mf_axis_index_opt(&(mf_collective_options){ .axis_name = axis_name });
}

mf_value(mf_axis_size)(const char *axis_name)
{
    MF_ENTER(MF_FORKED);
    return mf_axis_size_opt(&(mf_collective_options){ .axis_name = axis_name });
}
