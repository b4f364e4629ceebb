/* associative_scan: all prefixes of an associative combination, in a number of steps logarithmic in the length (G. Blelloch, "Prefix sums
 * and their applications", CMU-CS-90-190). Invariant: neighbours are combined in pairs; the prefixes of the pairs are those at odd
 * positions, and one more combination each gives those at even positions. */
#include <manyfold.h>

#include <stdlib.h>
#include <string.h>

typedef struct scan {
    mf_function f;
    mf_value like; /* the tree of the elements */
    int axis, count;
} scan;

/* Slices every leaf in the list from start to stop by step. */
static mf_value part(const scan *s, mf_value leaves, int64_t start, int64_t stop, int64_t step)
{
    mf_value *items = calloc((size_t)s->count, sizeof *items);
    for (int i = 0; items && i < s->count; i++)
        items[i] = mf_slice_in_dim(mf_get(leaves, i), start, stop, step, s->axis);
    mf_value list = items ? mf_list_n(items, s->count) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
    free(items);
    return list;
}

static mf_value combine(const scan *s, mf_value a, mf_value b)
{
    mf_value both[2] = { mf_tree_unflatten(s->like, a), mf_tree_unflatten(s->like, b) }, c = mf_call_n(s->f, both, 2);
    mf_value leaves = mf_is_error(c) ? c : mf_tree_leaves(c);
    if (mf_is_error(leaves))
        return leaves;
    bool fits = mf_len(leaves) == s->count;
    for (int i = 0; fits && i < s->count; i++) {
        mf_value made = mf_get(leaves, i), like = mf_get(a, i);
        if (mf_is_error(made) || mf_is_error(like))
            return mf_is_error(made) ? made : like;
        mf_shape got = mf_shape_of(made), want = mf_shape_of(like);
        fits = got.rank == want.rank;
        for (int d = 0; fits && d < got.rank; d++)
            fits = got.dims[d] == want.dims[d];
    }
    if (!fits)
        return mf_make_error(MF_ERROR_SHAPE, "associative_scan: the function must give a tree of the elements' structure and shapes");
    return leaves;
}

/* x with the shape (elements before the axis, along it, 1, elements after it). */
static mf_value flattened(const scan *s, mf_value x)
{
    mf_shape flat = { .rank = 4, .dims = { 1, mf_dim(x, s->axis), 1, 1 } };
    for (int d = 0; d < mf_ndim(x); d++)
        flat.dims[d < s->axis ? 0 : 3] *= d == s->axis ? 1 : mf_dim(x, d);
    return mf_reshape(x, flat);
}

/* a b a b ..., where a has as many elements as b or one more. */
static mf_value alternating(const scan *s, mf_value a, mf_value b)
{
    int64_t n = mf_dim(b, s->axis);
    mf_value both = mf_list(flattened(s, mf_slice_in_dim(a, 0, n, 1, s->axis)), flattened(s, b));
    mf_shape shape = mf_shape_of(b);
    shape.dims[s->axis] = 2 * n;
    mf_value pairs = mf_reshape(mf_concatenate(both, 2), shape);
    return mf_dim(a, s->axis) == n ? pairs : mf_concatenate(mf_list(pairs, mf_slice_in_dim(a, n, n + 1, 1, s->axis)), s->axis);
}

static mf_value interleaved(const scan *s, mf_value a, mf_value b)
{
    mf_value *items = calloc((size_t)s->count, sizeof *items);
    for (int i = 0; items && i < s->count; i++)
        items[i] = alternating(s, mf_get(a, i), mf_get(b, i));
    mf_value list = items ? mf_list_n(items, s->count) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
    free(items);
    return list;
}

static mf_value with_first(const scan *s, mf_value leaves, mf_value rest)
{
    mf_value *items = calloc((size_t)s->count, sizeof *items);
    for (int i = 0; items && i < s->count; i++)
        items[i] = mf_concatenate(mf_list(mf_slice_in_dim(mf_get(leaves, i), 0, 1, 1, s->axis), mf_get(rest, i)), s->axis);
    mf_value list = items ? mf_list_n(items, s->count) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
    free(items);
    return list;
}

static mf_value prefixes(const scan *s, mf_value leaves)
{
    mf_value one = mf_get(leaves, 0);
    int64_t n = mf_dim(one, s->axis);
    if (n < 2)
        return mf_is_error(one) ? one : leaves;
    mf_value pairs = combine(s, part(s, leaves, 0, n - 1, 2), part(s, leaves, 1, n, 2)),
             odd = mf_is_error(pairs) ? pairs : prefixes(s, pairs);
    if (mf_is_error(odd))
        return odd;
    mf_value even = part(s, leaves, 0, 1, 1);
    if (n > 2) {
        mf_value later = combine(s, part(s, odd, 0, (n - 1) / 2, 1), part(s, leaves, 2, n, 2));
        even = mf_is_error(later) ? later : with_first(s, leaves, later);
    }
    return mf_is_error(even) ? even : interleaved(s, even, odd);
}

static mf_value check_elements(scan *s, mf_value leaves)
{
    if (mf_is_error(leaves))
        return leaves;
    if (s->count < 1)
        return mf_make_error(MF_ERROR_TREE, "associative_scan: there are no arrays to scan over");
    mf_value one = mf_get(leaves, 0);
    if (mf_is_error(one))
        return one;
    int rank = mf_ndim(one), axis = s->axis < 0 ? s->axis + rank : s->axis;
    if (axis < 0 || axis >= rank)
        return mf_make_error(MF_ERROR_AXIS, "associative_scan: axis %d is out of bounds for an array of rank %d", s->axis, rank);
    for (int i = 1; i < s->count; i++) {
        mf_value x = mf_get(leaves, i);
        if (mf_is_error(x))
            return x;
        if (mf_ndim(x) <= axis || mf_dim(x, axis) != mf_dim(one, axis))
            return mf_make_error(MF_ERROR_SHAPE,
                                 "associative_scan: the arrays must have one length along axis %d; number %d has the shape %s", axis, i,
                                 mf_str(mf_shape_of(x)));
    }
    s->axis = axis;
    return mf_none();
}

static mf_value flip_all(const scan *s, mf_value leaves)
{
    mf_value *items = calloc((size_t)s->count, sizeof *items);
    for (int i = 0; items && i < s->count; i++)
        items[i] = mf_flip(mf_get(leaves, i), s->axis);
    mf_value list = items ? mf_list_n(items, s->count) : mf_make_error(MF_ERROR_MEMORY, "out of memory");
    free(items);
    return list;
}

/* As one program, so that f's operations are fused and compiled once. */
static mf_value whole(const void *context, mf_function f, const mf_value *arguments, int count)
{
    const mf_associative_scan_options *o = context;
    (void)count;
    mf_value leaves = mf_tree_leaves(arguments[0]);
    scan s = { f, arguments[0], o->axis, mf_len(leaves) };
    mf_value wrong = check_elements(&s, leaves);
    if (mf_is_error(wrong))
        return wrong;
    mf_value out = prefixes(&s, o->reverse ? flip_all(&s, leaves) : leaves);
    if (mf_is_error(out))
        return out;
    return mf_tree_unflatten(s.like, o->reverse ? flip_all(&s, out) : out);
}

mf_value mf_associative_scan_opt(mf_function f, mf_value elems, const mf_associative_scan_options *o)
{
    mf_associative_scan_options plain;
    memset(&plain, 0, sizeof plain);
    if (o) {
        plain.reverse = o->reverse;
        plain.axis = o->axis;
    }
    return mf_call(mf_decorate_n(f, "associative_scan", whole, &plain, sizeof plain), elems);
}
