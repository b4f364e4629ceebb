/* Searching and sorting: searchsorted, isin, unique, unique_all, nonzero, argwhere, flatnonzero, lexsort.
 * Invariant: results whose number depends on the data have the size that the caller gives; searchsorted orders NaN last, as sort does. */
#include "numpy/axis.h"

/* ---- searchsorted: binary search, one round for every bit of the length */

/* a < b in the order of sort: NaN is last. */
static mf_value before(mf_value a, mf_value b) { return mf_logical_or(mf_less(a, b), mf_logical_and(mf_isnan(b), mf_equal(a, a))); }

static mf_value places_in(mf_value sorted, mf_value x, bool right)
{
    mf_value low = mf_zeros_like(mf_astype(x, MF_I32)), high = mf_full_like(low, mf_i(mf_dim(sorted, 0)));
    for (int64_t left = mf_dim(sorted, 0); left > 0; left /= 2) {
        mf_value middle = mf_right_shift(mf_add(low, high), 1), at = mf_take(sorted, middle, 0);
        mf_value behind = right ? mf_logical_not(before(x, at)) : before(at, x), open = mf_less(low, high);
        low = mf_where(mf_logical_and(open, behind), mf_add(middle, 1), low);
        high = mf_where(mf_logical_and(open, mf_logical_not(behind)), middle, high);
    }
    return low;
}

static mf_value places_before(mf_value sorted, mf_value x) { return places_in(sorted, x, false); }
static mf_value places_behind(mf_value sorted, mf_value x) { return places_in(sorted, x, true); }

/* Jitted, as in JAX: without fusion every round would write its intermediate arrays to memory. */
mf_value(mf_searchsorted)(mf_value sorted, mf_value x, bool right)
{
    if (mf_is_error(sorted))
        return sorted;
    if (mf_ndim(sorted) != 1)
        return mf_make_error(MF_ERROR_SHAPE, "searchsorted: the sorted array must have one dimension, not %d", mf_ndim(sorted));
    return right ? mf_call(mf_jit(places_behind), sorted, x) : mf_call(mf_jit(places_before), sorted, x);
}

/* ---- membership */
mf_value(mf_isin)(mf_value x, mf_value among)
{
    MF_LAYER;
    if (mf_ndim(x) < 0 || mf_ndim(among) < 0)
        return mf_equal(x, among); /* the error itself, or the error that one is no array */
    mf_value equal = mf_equal(mf_expand_dims(mf_ravel(x), 1), mf_ravel(among));
    return mf_reshape(mf_any(equal, 1), mf_shape_of(x));
}

/* The first `size` values where chosen is true; if there are fewer, padded with `otherwise`. */
static mf_value gathered(mf_value values, mf_value chosen, int64_t size, mf_value otherwise)
{
    mf_value place = mf_sub(mf_cumsum(mf_astype(chosen, MF_I32), 0), 1);
    return mf_index_update(mf_broadcast_to(otherwise, MF_SHAPE(size)), mf_where(chosen, place, mf_i(size)), values);
}

mf_value mf_unique_opt(mf_value x, int64_t size, const mf_unique_options *o)
{
    MF_LAYER;
    x = mf_sort(mf_ravel(x), 0);
    if (size < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "unique: the size must not be negative, not %lld", (long long)size);
    int64_t n = mf_dim(x, 0);
    if (mf_is_error(x))
        return x;
    mf_value fill = o && o->fill_value.handle ? mf_astype(o->fill_value, mf_dtype_of(x))
                    : n > 0                   ? mf_get(x, 0)
                                              : mf_scalar(0, mf_dtype_of(x));
    if (n == 0)
        return mf_broadcast_to(fill, MF_SHAPE(size));
    mf_value later = mf_slice_in_dim(x, 1, n, 1, 0), earlier = mf_slice_in_dim(x, 0, n - 1, 1, 0);
    mf_value differs = mf_logical_and(mf_not_equal(later, earlier), mf_logical_not(mf_logical_and(mf_isnan(later), mf_isnan(earlier))));
    return gathered(x, mf_concatenate(mf_list(mf_ones(MF_SHAPE(1), MF_BOOL), differs), 0), size, fill);
}

mf_value(mf_unique)(mf_value x, int64_t size) { return mf_unique_opt(x, size, NULL); }

mf_value(mf_nonzero)(mf_value x, int64_t size)
{
    MF_LAYER;
    mf_shape shape = mf_shape_of(x);
    if (shape.rank < 1)
        return shape.rank == 0 ? mf_make_error(MF_ERROR_SHAPE, "nonzero: at least one dimension is needed") : mf_add(x, 0);
    if (size < 0)
        return mf_make_error(MF_ERROR_ARGUMENT, "nonzero: the size must not be negative, not %lld", (long long)size);
    mf_value places[MF_MAX_RANK] = { { 0 } }, chosen = mf_ravel(mf_not_equal(x, 0));
    for (int i = 0; i < shape.rank; i++)
        places[i] = gathered(mf_ravel(mf_iota(MF_I32, shape, i)), chosen, size, mf_scalar(0, MF_I32));
    return mf_tuple_n(places, shape.rank);
}

mf_value(mf_argwhere)(mf_value x, int64_t size)
{
    MF_LAYER;
    mf_value places = mf_nonzero(x, size);
    return mf_is_error(places) ? places : mf_stack(places, -1);
}

mf_value(mf_flatnonzero)(mf_value x, int64_t size)
{
    MF_LAYER;
    mf_value places = mf_nonzero(mf_ravel(x), size);
    return mf_is_error(places) ? places : mf_get(places, 0);
}

/* Sorts by one key after the other, stably, so that the last one decides. */
mf_value(mf_lexsort)(mf_value keys, mf_axis axis)
{
    MF_LAYER;
    bool many = mf_kind_of(keys) == MF_KIND_LIST || mf_kind_of(keys) == MF_KIND_TUPLE;
    int64_t count = many ? mf_len(keys) : mf_ndim(keys) > 0 ? mf_dim(keys, 0) : 0;
    if (mf_is_error(keys) || count < 1)
        return mf_is_error(keys) ? keys : mf_make_error(MF_ERROR_ARGUMENT, "lexsort: at least one key is needed");
    mf_value key = mf_get(keys, 0);
    int at = numpy_axis(&key, axis, "lexsort");
    if (at < 0)
        return key;
    mf_value order = mf_argsort(key, at);
    for (int64_t i = 1; i < count; i++) {
        key = axis == MF_ALL ? mf_ravel(mf_get(keys, i)) : mf_get(keys, i);
        order = mf_take_along_axis(order, mf_argsort(mf_take_along_axis(key, order, at), at), at);
    }
    return order;
}
