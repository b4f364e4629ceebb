/* Short emitters for rules. Invariant: an emitter that has nothing to do returns its operand, so rules need no special cases for identity
 * permutations, empty lists of axes or zero padding, and programs contain none of them. */
#include "ops/emit.h"

static const mf_intlist *dims_of(const mf_type *t) { return mf_ints_intern(t->dims, t->rank); }

/* ---- constants */
mf_variable *e_scalar(mf_builder *b, mf_dtype dtype, double x) { return mf_builder_number(b, dtype, false, x); }

mf_variable *e_full(mf_builder *b, const mf_type *type, double x)
{
    return e_broadcast(b, mf_builder_number(b, type->dtype, type->weak, x), type->rank, type->dims, mf_ints_of(0));
}

mf_variable *e_zeros_like(mf_builder *b, const mf_variable *x) { return e_full(b, x->type, 0); }

/* ---- elementwise */
mf_variable *e_unary(mf_builder *b, const mf_op *op, mf_variable *x) { return mf_emit(b, op, NULL, 1, x); }
mf_variable *e_binary(mf_builder *b, const mf_op *op, mf_variable *x, mf_variable *y) { return mf_emit(b, op, NULL, 2, x, y); }
mf_variable *e_add(mf_builder *b, mf_variable *x, mf_variable *y) { return e_binary(b, &mf_op_add, x, y); }
mf_variable *e_sub(mf_builder *b, mf_variable *x, mf_variable *y) { return e_binary(b, &mf_op_sub, x, y); }
mf_variable *e_mul(mf_builder *b, mf_variable *x, mf_variable *y) { return e_binary(b, &mf_op_mul, x, y); }
mf_variable *e_div(mf_builder *b, mf_variable *x, mf_variable *y) { return e_binary(b, &mf_op_div, x, y); }
mf_variable *e_max(mf_builder *b, mf_variable *x, mf_variable *y) { return e_binary(b, &mf_op_max, x, y); }
mf_variable *e_neg(mf_builder *b, mf_variable *x) { return e_unary(b, &mf_op_neg, x); }
mf_variable *e_scale(mf_builder *b, mf_variable *x, double factor) { return e_mul(b, x, e_full(b, x->type, factor)); }
mf_variable *e_shift(mf_builder *b, mf_variable *x, double term) { return e_add(b, x, e_full(b, x->type, term)); }
mf_variable *e_compare(mf_builder *b, const mf_op *op, mf_variable *x, mf_variable *y) { return e_binary(b, op, x, y); }

mf_variable *e_select(mf_builder *b, mf_variable *predicate, mf_variable *yes, mf_variable *no)
{
    return mf_emit(b, &mf_op_select_n, NULL, 3, predicate, no, yes); /* select_n's first value is the one for false */
}

static mf_variable *convert(mf_builder *b, mf_variable *x, mf_dtype dtype, bool weak)
{
    if (x->type->dtype == dtype && x->type->weak == weak)
        return x;
    return mf_emit(b, &mf_op_convert_element_type, &(mf_convert_params){ dtype, weak }, 1, x);
}

mf_variable *e_convert(mf_builder *b, mf_variable *x, mf_dtype dtype) { return convert(b, x, dtype, false); }
mf_variable *e_convert_type(mf_builder *b, mf_variable *x, const mf_type *type) { return convert(b, x, type->dtype, type->weak); }

/* ---- shape */
mf_variable *e_reshape(mf_builder *b, mf_variable *x, int rank, const int64_t *dims)
{
    const mf_intlist *shape = mf_ints_intern(dims, rank);
    return shape == dims_of(x->type) ? x : mf_emit(b, &mf_op_reshape, &(mf_shape_params){ shape }, 1, x);
}

mf_variable *e_reshape_type(mf_builder *b, mf_variable *x, const mf_type *like) { return e_reshape(b, x, like->rank, like->dims); }

mf_variable *e_transpose(mf_builder *b, mf_variable *x, const int *permutation)
{
    int64_t list[MF_RANK];
    bool moves = false;
    for (int i = 0; i < x->type->rank; i++) {
        list[i] = permutation[i];
        moves = moves || permutation[i] != i;
    }
    return moves ? mf_emit(b, &mf_op_transpose, &(mf_permutation_params){ mf_ints_intern(list, x->type->rank) }, 1, x) : x;
}

mf_variable *e_move_axis(mf_builder *b, mf_variable *x, int from, int to)
{
    int permutation[MF_RANK], next = 0;
    for (int i = 0; i < x->type->rank; i++) {
        next += next == from;
        permutation[i] = i == to ? from : next++;
    }
    return e_transpose(b, x, permutation);
}

mf_variable *e_broadcast(mf_builder *b, mf_variable *x, int rank, const int64_t *dims, const mf_intlist *where)
{
    const mf_intlist *shape = mf_ints_intern(dims, rank);
    if (shape == dims_of(x->type))
        return x; /* with equal shapes there is only one increasing list of axes */
    return mf_emit(b, &mf_op_broadcast_in_dim, &(mf_broadcast_params){ shape, where }, 1, x);
}

mf_variable *e_broadcast_axis(mf_builder *b, mf_variable *x, int axis, int64_t size)
{
    int64_t dims[MF_RANK + 1], where[MF_RANK];
    int rank = x->type->rank;
    for (int i = 0; i < rank; i++) {
        where[i] = i + (i >= axis);
        dims[where[i]] = x->type->dims[i];
    }
    dims[axis] = size;
    return e_broadcast(b, x, rank + 1, dims, mf_ints_intern(where, rank));
}

mf_variable *e_expand(mf_builder *b, mf_variable *x, int axis)
{
    return mf_emit(b, &mf_op_expand_dims, &(mf_axes_params){ mf_ints_of(1, axis) }, 1, x);
}

mf_variable *e_squeeze(mf_builder *b, mf_variable *x, int axis)
{
    return mf_emit(b, &mf_op_squeeze, &(mf_axes_params){ mf_ints_of(1, axis) }, 1, x);
}

mf_variable *e_slice(mf_builder *b, mf_variable *x, const int64_t *start, const int64_t *limit, const int64_t *strides)
{
    int64_t ones[MF_RANK];
    int rank = x->type->rank;
    bool whole = true;
    for (int i = 0; i < rank; i++) {
        ones[i] = 1;
        whole = whole && start[i] == 0 && limit[i] == x->type->dims[i] && (!strides || strides[i] == 1);
    }
    if (whole)
        return x;
    mf_slice_params p = { mf_ints_intern(start, rank), mf_ints_intern(limit, rank), mf_ints_intern(strides ? strides : ones, rank) };
    return mf_emit(b, &mf_op_slice, &p, 1, x);
}

mf_variable *e_slice_axis(mf_builder *b, mf_variable *x, int axis, int64_t start, int64_t limit)
{
    int64_t from[MF_RANK] = { 0 }, to[MF_RANK];
    for (int i = 0; i < x->type->rank; i++)
        to[i] = x->type->dims[i];
    from[axis] = start;
    to[axis] = limit;
    return e_slice(b, x, from, to, NULL);
}

mf_variable *e_pad(mf_builder *b, mf_variable *x, double value, const int64_t *low, const int64_t *high, const int64_t *interior)
{
    int64_t none[MF_RANK] = { 0 };
    int rank = x->type->rank;
    bool any = false;
    if (!interior)
        interior = none;
    for (int i = 0; i < rank; i++)
        any = any || low[i] || high[i] || interior[i];
    if (!any)
        return x;
    mf_pad_params p = { mf_ints_intern(low, rank), mf_ints_intern(high, rank), mf_ints_intern(interior, rank) };
    return mf_emit(b, &mf_op_pad, &p, 2, x, e_full(b, mf_type_scalar(x->type->dtype, x->type->weak), value));
}

mf_variable *e_concatenate(mf_builder *b, mf_variable *const *parts, int count, int axis)
{
    if (count == 1)
        return parts[0];
    return mf_emit_eqn(b, &mf_op_concatenate, &(mf_axis_params){ axis }, parts, count)->out[0];
}

mf_variable *e_take_along(mf_builder *b, mf_variable *x, mf_variable *index, int axis)
{
    const mf_type *t = x->type;
    int64_t batch[MF_RANK], ones[MF_RANK], taken[1] = { axis };
    int batches = 0;
    for (int i = 0; i < t->rank; i++) {
        ones[i] = t->dims[i] > 0; /* from an empty axis nothing is taken */
        if (i != axis)
            batch[batches++] = i;
    }
    mf_gather_params g = { mf_ints_of(0),
                           mf_ints_intern(taken, 1),
                           mf_ints_intern(taken, 1),
                           mf_ints_intern(batch, batches),
                           mf_ints_intern(batch, batches),
                           mf_ints_intern(ones, t->rank),
                           2 };
    return mf_emit(b, &mf_op_gather, &g, 2, x, e_expand(b, index, t->rank));
}

mf_variable *e_iota(mf_builder *b, mf_dtype dtype, int rank, const int64_t *dims, int axis)
{
    return mf_emit(b, &mf_op_iota, &(mf_iota_params){ dtype, mf_ints_intern(dims, rank), axis }, 0);
}

mf_variable *e_rev(mf_builder *b, mf_variable *x, const mf_intlist *axes)
{
    return axes->count ? mf_emit(b, &mf_op_rev, &(mf_axes_params){ axes }, 1, x) : x;
}

/* ---- reductions and products */
static mf_variable *reduce(mf_builder *b, const mf_op *op, mf_variable *x, const mf_intlist *axes)
{
    return axes->count ? mf_emit(b, op, &(mf_axes_params){ axes }, 1, x) : x;
}

mf_variable *e_reduce_sum(mf_builder *b, mf_variable *x, const mf_intlist *axes) { return reduce(b, &mf_op_reduce_sum, x, axes); }
mf_variable *e_reduce_max(mf_builder *b, mf_variable *x, const mf_intlist *axes) { return reduce(b, &mf_op_reduce_max, x, axes); }

mf_variable *e_reduce_to_scalar(mf_builder *b, mf_variable *x)
{
    int64_t all[MF_RANK];
    for (int i = 0; i < x->type->rank; i++)
        all[i] = i;
    return e_reduce_sum(b, x, mf_ints_intern(all, x->type->rank));
}

mf_variable *e_dot_general(mf_builder *b, mf_variable *x, mf_variable *y, const mf_intlist *lhs_contract, const mf_intlist *rhs_contract,
                           const mf_intlist *lhs_batch, const mf_intlist *rhs_batch)
{
    mf_dot_params p = { lhs_contract, rhs_contract, lhs_batch, rhs_batch, MF_DTYPE_DEFAULT };
    return mf_emit(b, &mf_op_dot_general, &p, 2, x, y);
}

void e_jvp_bilinear(mf_builder *b, const mf_eqn *e, mf_variable *const *in, mf_variable *const *tin, mf_variable **out, mf_variable **tout)
{
    mf_copy_eqn(b, e, in, out);
    tout[0] = NULL;
    if (tin[0])
        tout[0] = mf_emit(b, e->op, e->params, 2, tin[0], in[1]);
    if (tin[1]) {
        mf_variable *t = mf_emit(b, e->op, e->params, 2, in[0], tin[1]);
        tout[0] = tout[0] ? e_add(b, tout[0], t) : t;
    }
}
