/* jacfwd, jacrev and hessian, made of jvp or vjp and vmap. Invariant: a Jacobian is the result's tree with, in place of each leaf, the tree
 * of the arguments, whose leaves have the result's dimensions before the argument's. All tangents, or all cotangents, are the rows of one
 * identity matrix: a leaf takes as many columns as it has elements. */
#include "trace/function.h"

#include <manyfold.h>

#include <stdlib.h>
#include <string.h>

enum { MOST_ARGUMENTS = 64 };

/* The context of a decorator: plain bytes, since contexts are compared. */
typedef struct choice {
    bool has_aux, holomorphic, reverse;
    int count; /* number of argnums; 0: only argument 0. With several, the derivatives are a tuple */
    int64_t at[MF_MAX_RANK];
} choice;

static choice choice_of(const mf_jacobian_options *o, bool reverse)
{
    choice c;
    memset(&c, 0, sizeof c);
    c.reverse = reverse;
    if (o) {
        c.has_aux = o->has_aux;
        c.holomorphic = o->holomorphic;
        c.count = o->argnums.count;
        for (int i = 0; i < c.count && i < MF_MAX_RANK; i++)
            c.at[i] = o->argnums.at[i];
    }
    return c;
}

static int chosen_count(const choice *c) { return c->count ? c->count : 1; }

static int64_t chosen_at(const choice *c, int i, int count) { return c->count ? c->at[i] + (c->at[i] < 0 ? count : 0) : 0; }

static const char *name_of(const choice *c) { return c->reverse ? "jacrev" : "jacfwd"; }

/* ---- f as a function of the chosen arguments */

/* The other arguments are captured, not passed, so that a value known at trace time (a static number) stays known. */
typedef struct capture {
    choice c;
    mf_value all; /* the arguments, a tuple */
} capture;

static mf_value of_chosen(const void *context, mf_function f, const mf_value *arguments, int count)
{
    const capture *o = context;
    mf_value all[MOST_ARGUMENTS];
    int n = mf_len(o->all);
    for (int i = 0; i < n; i++)
        all[i] = mf_get(o->all, i);
    for (int i = 0; i < count; i++)
        all[chosen_at(&o->c, i, n)] = arguments[i];
    mf_value result = mf_call_n(f, all, n);
    if (o->c.has_aux && !mf_is_error(result) && mf_len(result) != 2)
        return mf_make_error(MF_ERROR_TREE, "%s with has_aux: the function must return a tuple (result, aux)", name_of(&o->c));
    return result;
}

static mf_function bound(const capture *o, mf_function f) { return mf_decorate_n(f, "of chosen arguments", of_chosen, o, sizeof *o); }

static mf_value chosen_of(const choice *c, mf_value all)
{
    mf_value chosen[MF_MAX_RANK];
    for (int i = 0; i < chosen_count(c); i++)
        chosen[i] = mf_get(all, (int)chosen_at(c, i, mf_len(all)));
    return mf_tuple_n(chosen, chosen_count(c));
}

/* ---- leaves */

/* The leaves of a tree; the value computed from a leaf replaces it. */
typedef struct jacobian_leaves {
    mf_value *at, error; /* error: an error of the tree or a leaf; then there are no leaves */
    int count;
    int64_t elements;
} jacobian_leaves;

static mf_value no_memory(void) { return mf_make_error(MF_ERROR_MEMORY, "out of memory"); }

static jacobian_leaves leaves_of(mf_value tree)
{
    mf_value list = mf_tree_leaves(tree);
    jacobian_leaves l = { .error = list };
    if (mf_is_error(list))
        return l;
    int count = mf_len(list);
    l.at = calloc((size_t)count + 1, sizeof *l.at);
    l.error = l.at ? mf_none() : no_memory();
    for (; l.count < count && !mf_is_error(l.error); l.count++) {
        mf_value leaf = l.at[l.count] = mf_get(list, l.count);
        l.elements += mf_size(leaf);
        l.error = mf_is_error(leaf) ? leaf : l.error;
    }
    l.count = mf_is_error(l.error) ? 0 : l.count;
    return l;
}

/* The tree of the values that are now in the leaves' places; frees them. */
static mf_value unflatten(mf_value like, jacobian_leaves l)
{
    mf_value tree = mf_is_error(l.error) ? l.error : mf_tree_unflatten(like, mf_list_n(l.at, l.count));
    free(l.at);
    return tree;
}

/* ---- the identity */

/* The columns of a `total` by `total` identity that belong to a leaf, from `first` on, with the leaf's shape in each row. */
static mf_value identity_of(mf_value leaf, int64_t first, int64_t total)
{
    int rank = mf_ndim(leaf);
    mf_shape shape = { .rank = rank + 1, .dims = { total } }, flat = { .rank = 2, .dims = { total, mf_size(leaf) } };
    if (rank + 1 > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE, "a Jacobian of an array of rank %d: there is no room for another dimension", rank);
    for (int i = 0; i < rank; i++)
        shape.dims[i + 1] = mf_dim(leaf, i);
    mf_value rows = mf_iota(MF_I64, flat, 0), columns = mf_add(mf_iota(MF_I64, flat, 1), mf_i(first));
    return mf_reshape(mf_astype(mf_equal(rows, columns), mf_dtype_of(leaf)), shape);
}

static mf_value identity(mf_value tree, int64_t *rows)
{
    jacobian_leaves l = leaves_of(tree);
    int64_t first = 0;
    for (int i = 0; i < l.count; i++) {
        mf_value leaf = l.at[i];
        l.at[i] = identity_of(leaf, first, l.elements);
        first += mf_size(leaf);
    }
    *rows = l.elements;
    return unflatten(tree, l);
}

/* ---- from rows or columns to trees */

/* The part of x for one result and one argument. x is the Jacobian of `out` with respect to all chosen arguments (or of all results with
 * respect to `in`), with these concatenated along `axis`. */
static mf_value block(const choice *c, mf_value x, int axis, int64_t first, mf_value out, mf_value in)
{
    mf_value part = c->reverse ? out : in;
    mf_shape shape = { .rank = mf_ndim(out) + mf_ndim(in) };
    if (shape.rank > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_SHAPE,
                             "%s: the Jacobian of a result of rank %d by an argument of rank %d has more than %d dimensions", name_of(c),
                             mf_ndim(out), mf_ndim(in), MF_MAX_RANK);
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = i < mf_ndim(out) ? mf_dim(out, i) : mf_dim(in, i - mf_ndim(out));
    return mf_reshape(mf_slice_in_dim(x, first, first + mf_size(part), 1, axis), shape);
}

/* jacfwd: t is one result's Jacobian; its last dimension runs over the elements of all chosen arguments. */
static mf_value columns_as_tree(const choice *c, mf_value out, mf_value t, mf_value chosen)
{
    jacobian_leaves l = leaves_of(chosen);
    int64_t first = 0;
    for (int i = 0; i < l.count; i++) {
        mf_value in = l.at[i];
        l.at[i] = block(c, t, mf_ndim(t) - 1, first, out, in);
        first += mf_size(in);
    }
    return unflatten(c->count > 1 ? chosen : mf_get(chosen, 0), l);
}

/* jacrev: the rows that belong to `out`, from each argument's cotangents. */
static mf_value rows_as_tree(const choice *c, mf_value out, int64_t first, mf_value cotangents, mf_value chosen)
{
    mf_value given = mf_tree_leaves(cotangents);
    jacobian_leaves l = leaves_of(chosen);
    for (int i = 0; i < l.count; i++)
        l.at[i] = block(c, mf_get(given, i), 0, first, out, l.at[i]);
    return unflatten(c->count > 1 ? chosen : mf_get(chosen, 0), l);
}

/* Over all results. t: for jacfwd, tangents in the results' tree; for jacrev, cotangents of the arguments. */
static mf_value as_tree(const choice *c, mf_value out, mf_value t, mf_value chosen)
{
    mf_value tangents = c->reverse ? t : mf_tree_leaves(t);
    jacobian_leaves l = leaves_of(out);
    int64_t first = 0;
    for (int i = 0; i < l.count; i++) {
        mf_value leaf = l.at[i];
        l.at[i] = c->reverse ? rows_as_tree(c, leaf, first, t, chosen) : columns_as_tree(c, leaf, mf_get(tangents, i), chosen);
        first += mf_size(leaf);
    }
    return unflatten(out, l);
}

/* ---- checks */

static bool is_real(mf_dtype d) { return d == MF_F16 || d == MF_BF16 || d == MF_F32 || d == MF_F64; }
static bool is_complex(mf_dtype d) { return d == MF_C64 || d == MF_C128; }

static mf_value check_dtype(const choice *c, mf_dtype d, bool arguments)
{
    if (c->holomorphic ? is_complex(d) : is_real(d) || (is_complex(d) && c->reverse == arguments))
        return mf_none();
    if (c->holomorphic)
        return mf_make_error(MF_ERROR_DTYPE, "%s with holomorphic requires complex %s, but got %s", name_of(c),
                             arguments ? "arguments" : "results", mf_str(d));
    return mf_make_error(MF_ERROR_DTYPE, "%s requires real-valued %s, but got %s%s", name_of(c), arguments ? "arguments" : "results",
                         mf_str(d), is_complex(d) ? "; for a holomorphic function say .holomorphic = true" : "");
}

static mf_value check_dtypes(const choice *c, mf_value tree, bool arguments)
{
    jacobian_leaves l = leaves_of(tree);
    for (int i = 0; i < l.count && !mf_is_error(l.error); i++)
        l.error = check_dtype(c, mf_dtype_of(l.at[i]), arguments);
    free(l.at);
    return l.error;
}

static mf_value check_arguments(const choice *c, int count)
{
    if (count > MOST_ARGUMENTS)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: at most %d arguments, not %d", name_of(c), MOST_ARGUMENTS, count);
    if (c->count < 0 || c->count > MF_MAX_RANK)
        return mf_make_error(MF_ERROR_ARGUMENT, "%s: argnums has %d entries; it has at most %d", name_of(c), c->count, MF_MAX_RANK);
    for (int i = 0; i < chosen_count(c); i++)
        if (chosen_at(c, i, count) < 0 || chosen_at(c, i, count) >= count)
            return mf_make_error(MF_ERROR_ARGUMENT, "%s: argnums names argument %lld, but the call has %d", name_of(c),
                                 (long long)(c->count ? c->at[i] : 0), count);
    return mf_none();
}

/* ---- the two modes: (results, derivative, aux), where aux is None without has_aux */

/* Applied to one row of tangents. */
static mf_value pushforward(const void *context, mf_function f, const mf_value *row, int count)
{
    const capture *o = context;
    (void)count;
    mf_value both = mf_jvp_n(bound(o, f), chosen_of(&o->c, o->all), *row);
    if (mf_is_error(both))
        return both;
    mf_value out = mf_get(both, 0), tangent = mf_get(both, 1);
    return o->c.has_aux ? mf_tuple(mf_get(out, 0), mf_get(tangent, 0), mf_get(out, 1)) : mf_tuple(out, tangent, mf_none());
}

static mf_value forward(const capture *o, mf_function f, mf_value chosen)
{
    mf_function push = mf_decorate_n(f, "pushforward", pushforward, o, sizeof *o);
    mf_vmap_options axes = { .out_axes = mf_axes(MF_NONE, -1, MF_NONE) };
    mf_value rows = identity(chosen, &axes.axis_size);
    return mf_call(mf_vmap_opt(push, &axes), rows);
}

static mf_value reverse(const capture *o, mf_function f, mf_value chosen)
{
    const choice *c = &o->c;
    mf_function pullback;
    mf_value both = mf_vjp_opt(bound(o, f), chosen, &pullback, &(mf_vjp_options){ .has_aux = c->has_aux });
    if (mf_is_error(both))
        return both;
    mf_value out = c->has_aux ? mf_get(both, 0) : both, wrong = check_dtypes(c, out, false);
    if (mf_is_error(wrong))
        return wrong;
    mf_vmap_options axes = { .axis_size = 0 };
    mf_value rows = identity(out, &axes.axis_size);
    return mf_tuple(out, mf_call(mf_vmap_opt(pullback, &axes), rows), c->has_aux ? mf_get(both, 1) : mf_none());
}

static mf_value jacobian(const void *context, mf_function f, const mf_value *arguments, int count)
{
    const choice *c = context;
    mf_value wrong = check_arguments(c, count);
    capture o = { .all = mf_tuple_n(arguments, count) };
    memcpy(&o.c, c, sizeof *c); /* copies the padding too, as contexts are compared by bytes */
    mf_value chosen = mf_is_error(wrong) ? wrong : chosen_of(c, o.all);
    wrong = mf_is_error(chosen) ? chosen : check_dtypes(c, chosen, true);
    if (mf_is_error(wrong))
        return wrong;
    mf_value found = c->reverse ? reverse(&o, f, chosen) : forward(&o, f, chosen);
    wrong = mf_is_error(found) || c->reverse ? found : check_dtypes(c, mf_get(found, 0), false);
    if (mf_is_error(wrong))
        return wrong;
    mf_value tree = as_tree(c, mf_get(found, 0), mf_get(found, 1), chosen);
    return c->has_aux ? mf_tuple(tree, mf_get(found, 2)) : tree;
}

static mf_function make(mf_function f, const mf_jacobian_options *o, bool reverse_mode)
{
    choice c = choice_of(o, reverse_mode);
    return mf_decorate_alike(f, name_of(&c), jacobian, &c, sizeof c);
}

mf_function mf_jacfwd_opt(mf_function f, const mf_jacobian_options *o) { return make(f, o, false); }
mf_function mf_jacrev_opt(mf_function f, const mf_jacobian_options *o) { return make(f, o, true); }
mf_function mf_hessian_opt(mf_function f, const mf_jacobian_options *o) { return make(make(f, o, true), o, false); }
