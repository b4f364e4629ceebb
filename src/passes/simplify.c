/* Rewrites that change no bit of any result (NaN payloads apart), one function per op. Invariant: a rule returns a variable of the result's
 * own type, or NULL. Rewrites that only look exact are not here: x + 0.0 turns -0.0 into 0.0, x * 0 loses NaN, x - x loses infinities. A
 * new rule is a function `simplify_<op>` and a line in the table at the end. */
#include "ops/emit.h"
#include "passes/rewrite.h"
#include "passes/analysis/splat.h"
#include <math.h>

typedef mf_variable *(*rule)(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in);

static const mf_eqn *made_by(const mf_variable *v, const mf_op *op) { return v->producer && v->producer->op == op ? v->producer : NULL; }
static bool is_float(const mf_eqn *e) { return mf_dtype_is_float(e->out[0]->type->dtype); }
static bool is_int(const mf_eqn *e) { return mf_dtype_is_int(e->out[0]->type->dtype); }

static mf_variable *identity(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r, (void)e;
    return in[0];
}

/* x reshaped to the result's shape. */
static mf_variable *reshaped(mf_rewrite *r, const mf_eqn *e, mf_variable *x)
{
    const mf_type *type = e->out[0]->type;
    if (x->type == type)
        return x;
    return mf_emit(r->b, &mf_op_reshape, &(mf_shape_params){ mf_ints_intern(type->dims, type->rank) }, 1, x);
}

/* ---- sums of zero-padded parts that do not overlap, along one axis (the gradient of a split), become a concatenation. 0 is added to each
 * part, as in the sum, because that turns -0 into 0. */
enum { MOST_PLACED = 16 };

typedef struct placed {
    int axis, count; /* axis -1: none yet */
    mf_variable *part[MOST_PLACED];
    int64_t from[MOST_PLACED]; /* in ascending order */
} placed;

static int64_t end_of(const placed *p, int i) { return p->from[i] + p->part[i]->type->dims[p->axis]; }

/* False: the part overlaps another one, or there are too many. */
static bool place(placed *p, mf_variable *x, int64_t from)
{
    int at = p->count;
    if (at == MOST_PLACED)
        return false;
    for (; at > 0 && p->from[at - 1] > from; at--) {
        p->from[at] = p->from[at - 1];
        p->part[at] = p->part[at - 1];
    }
    p->from[at] = from;
    p->part[at] = x;
    p->count++;
    return (at == 0 || end_of(p, at - 1) <= from) && (at + 1 == p->count || end_of(p, at) <= p->from[at + 1]);
}

static bool place_padded(placed *p, const mf_eqn *pad)
{
    const mf_pad_params *q = pad->params;
    int axis = -1;
    for (int i = 0; i < q->low->count; i++) {
        bool some = q->low->at[i] || q->high->at[i];
        if (q->interior->at[i] || q->low->at[i] < 0 || q->high->at[i] < 0 || (some && axis >= 0))
            return false;
        axis = some ? i : axis;
    }
    if (axis < 0 || (p->axis >= 0 && p->axis != axis) || !mf_splat_is(pad->in[1], 0.0))
        return false;
    p->axis = axis;
    return place(p, pad->in[0], q->low->at[axis]);
}

static bool place_joined(placed *p, const mf_eqn *join)
{
    int axis = (int)((const mf_axis_params *)join->params)->axis;
    if (p->axis >= 0 && p->axis != axis)
        return false;
    p->axis = axis;
    int64_t from = 0;
    for (int i = 0; i < join->in_count; from += join->in[i++]->type->dims[axis])
        if (!mf_splat_is(join->in[i], 0.0) && !place(p, join->in[i], from))
            return false;
    return true;
}

static mf_variable *zeros_along(mf_rewrite *r, const mf_type *t, int axis, int64_t size)
{
    int64_t dims[MF_MAX_RANK];
    for (int i = 0; i < t->rank; i++)
        dims[i] = i == axis ? size : t->dims[i];
    return e_full(r->b, mf_type_with_shape(t, t->rank, dims), 0);
}

static mf_variable *join_placed(mf_rewrite *r, const placed *p, const mf_type *t)
{
    mf_variable *all[2 * MOST_PLACED + 1];
    int count = 0;
    int64_t at = 0;
    for (int i = 0; i < p->count; i++) {
        if (p->from[i] > at)
            all[count++] = zeros_along(r, t, p->axis, p->from[i] - at);
        const mf_eqn *sum = made_by(p->part[i], &mf_op_add);
        bool done = sum && mf_splat_is(sum->in[1], 0.0);
        all[count++] = done ? p->part[i] : e_add(r->b, p->part[i], e_full(r->b, p->part[i]->type, 0));
        at = end_of(p, i);
    }
    if (at < t->dims[p->axis])
        all[count++] = zeros_along(r, t, p->axis, t->dims[p->axis] - at);
    return mf_rewrite_to_type(r->b, e_concatenate(r->b, all, count, p->axis), t);
}

static mf_variable *add_placed(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    placed p = { .axis = -1 };
    for (int i = 0; i < 2; i++) {
        const mf_eqn *pad = made_by(in[i], &mf_op_pad), *join = made_by(in[i], &mf_op_concatenate);
        if (pad ? !place_padded(&p, pad) : !join || !place_joined(&p, join))
            return NULL;
    }
    return join_placed(r, &p, e->out[0]->type);
}

/* ---- arithmetic */
static mf_variable *simplify_add(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    double nothing = is_float(e) ? -0.0 : 0.0;
    mf_variable *same = mf_splat_is(in[1], nothing) ? in[0] : mf_splat_is(in[0], nothing) ? in[1] : NULL;
    return same || !is_float(e) ? same : add_placed(r, e, in);
}

static mf_variable *negated(mf_rewrite *r, mf_variable *x) { return mf_emit(r->b, &mf_op_neg, NULL, 1, x); }

static mf_variable *simplify_sub(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    if (mf_splat_is(in[1], 0.0))
        return in[0];
    bool from_nothing = mf_splat_is(in[0], is_float(e) ? -0.0 : 0.0);
    return from_nothing ? negated(r, in[1]) : NULL;
}

static mf_variable *simplify_mul(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    for (int i = 0; i < 2; i++) {
        mf_variable *x = in[!i], *factor = in[i];
        if (mf_splat_is(factor, 1.0))
            return x;
        if (is_int(e) && mf_splat_is(factor, 0.0))
            return factor;
        if ((is_float(e) || mf_dtype_is_signed(e->out[0]->type->dtype)) && mf_splat_is(factor, -1.0))
            return negated(r, x);
    }
    return NULL;
}

/* 1/x if that is exact and normal in the dtype: x must be a power of two. */
static bool exact_inverse(const mf_variable *scalar, double *inverse)
{
    mf_dtype dtype = scalar->type->dtype;
    double x = mf_load_f64(dtype, scalar->constant->data);
    int exponent, least = dtype == MF_F64 ? -1021 : dtype == MF_F16 ? -13 : -125; /* of normal numbers, as frexp counts exponents */
    if (!isfinite(x) || fabs(frexp(x, &exponent)) != 0.5)
        return false;
    *inverse = 1.0 / x;
    frexp(*inverse, &exponent);
    return exponent >= least && fabs(*inverse) <= mf_dtype_max(dtype);
}

static mf_variable *simplify_div(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    if (mf_splat_is(in[1], 1.0))
        return in[0];
    mf_variable *scalar = is_float(e) ? mf_splat_of(in[1]) : NULL;
    double inverse;
    if (!scalar || !exact_inverse(scalar, &inverse))
        return NULL;
    mf_variable *factor = mf_builder_number(r->b, scalar->type->dtype, scalar->type->weak, inverse);
    const mf_type *type = in[1]->type;
    if (type->rank > 0)
        factor = e_broadcast(r->b, factor, type->rank, type->dims, mf_ints_intern(NULL, 0));
    return mf_emit(r->b, &mf_op_mul, NULL, 2, in[0], factor);
}

static mf_variable *simplify_neg(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r, (void)e;
    const mf_eqn *inner = made_by(in[0], &mf_op_neg);
    return inner ? inner->in[0] : NULL;
}

static mf_variable *simplify_not(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r, (void)e;
    const mf_eqn *inner = made_by(in[0], &mf_op_not);
    return inner ? inner->in[0] : NULL;
}

/* max, min, and, or of a value with itself. */
static mf_variable *simplify_twice(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r, (void)e;
    return in[0] == in[1] ? in[0] : NULL;
}

static mf_variable *simplify_integer_pow(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    return ((const mf_power_params *)e->params)->y == 1 ? in[0] : NULL;
}

static mf_variable *simplify_select(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    bool equal = true;
    for (int i = 2; i < e->in_count; i++)
        equal = equal && in[i] == in[1];
    if (equal)
        return in[1];
    const mf_variable *which = mf_splat_of(in[0]);
    if (!which)
        return NULL;
    int64_t k = mf_load_i64(which->type->dtype, which->constant->data);
    return k >= 0 && k < e->in_count - 1 ? in[1 + k] : NULL;
}

/* ---- dtypes */
static int float_width(mf_dtype d) { return d == MF_F64 ? 3 : d == MF_F32 ? 2 : d == MF_F16 || d == MF_BF16 ? 1 : 0; }

/* Whether `to` represents every value of `from`. */
static bool holds(mf_dtype to, mf_dtype from)
{
    if (from == to || from == MF_BOOL)
        return mf_dtype_is_float(to) || mf_dtype_is_int(to) || from == to;
    if (mf_dtype_is_float(from))
        return float_width(to) > float_width(from);
    if (!mf_dtype_is_int(from) || !mf_dtype_is_int(to))
        return false;
    bool same_sign = mf_dtype_is_signed(from) == mf_dtype_is_signed(to);
    return mf_dtype_size(to) > mf_dtype_size(from) && (same_sign || mf_dtype_is_signed(to));
}

static mf_variable *simplify_convert(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    const mf_type *type = e->out[0]->type;
    if (in[0]->type == type)
        return in[0];
    const mf_eqn *inner = made_by(in[0], &mf_op_convert_element_type);
    if (!inner)
        return NULL;
    mf_variable *x = inner->in[0];
    bool there_and_back = x->type->dtype == type->dtype && holds(in[0]->type->dtype, type->dtype);
    bool only_weak = x->type->dtype == in[0]->type->dtype || in[0]->type->dtype == type->dtype;
    if (!there_and_back && !only_weak)
        return NULL;
    return mf_rewrite_to_type(r->b, x, type);
}

/* ---- shapes */
static mf_variable *simplify_reshape(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    const mf_eqn *inner = made_by(in[0], &mf_op_reshape);
    bool alone = !inner && e->op == &mf_op_reshape && in[0]->type != e->out[0]->type;
    return alone ? NULL : reshaped(r, e, inner ? inner->in[0] : in[0]);
}

static bool keeps_order(const mf_type *type, const mf_intlist *permutation)
{
    int64_t last = -1;
    for (int i = 0; i < permutation->count; i++) {
        if (type->dims[permutation->at[i]] == 1)
            continue;
        if (permutation->at[i] < last)
            return false;
        last = permutation->at[i];
    }
    return true;
}

static mf_variable *simplify_transpose(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    const mf_intlist *outer = ((const mf_permutation_params *)e->params)->permutation;
    if (keeps_order(in[0]->type, outer))
        return reshaped(r, e, in[0]);
    const mf_eqn *before = made_by(in[0], &mf_op_transpose);
    if (!before)
        return NULL;
    const mf_intlist *inner = ((const mf_permutation_params *)before->params)->permutation;
    int64_t both[MF_RANK];
    for (int i = 0; i < outer->count; i++)
        both[i] = inner->at[outer->at[i]];
    const mf_intlist *permutation = mf_ints_intern(both, outer->count);
    if (permutation && keeps_order(before->in[0]->type, permutation))
        return reshaped(r, e, before->in[0]);
    return mf_emit(r->b, &mf_op_transpose, &(mf_permutation_params){ permutation }, 1, before->in[0]);
}

static bool ascends(const mf_intlist *list)
{
    for (int i = 1; i < list->count; i++)
        if (list->at[i] <= list->at[i - 1])
            return false;
    return true;
}

static mf_variable *simplify_broadcast(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    const mf_broadcast_params *outer = e->params;
    if (in[0]->type->size == e->out[0]->type->size && ascends(outer->broadcast_dimensions))
        return reshaped(r, e, in[0]);
    const mf_eqn *before = made_by(in[0], &mf_op_broadcast_in_dim);
    if (!before)
        return NULL;
    const mf_intlist *inner = ((const mf_broadcast_params *)before->params)->broadcast_dimensions;
    int64_t both[MF_RANK];
    for (int i = 0; i < inner->count; i++)
        both[i] = outer->broadcast_dimensions->at[inner->at[i]];
    mf_broadcast_params params = { outer->shape, mf_ints_intern(both, inner->count) };
    return mf_emit(r->b, &mf_op_broadcast_in_dim, &params, 1, before->in[0]);
}

static mf_variable *simplify_rev(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    const mf_intlist *axes = ((const mf_axes_params *)e->params)->axes;
    if (axes->count == 0)
        return in[0];
    const mf_eqn *inner = made_by(in[0], &mf_op_rev);
    return inner && mf_params_equal(e->op, e->params, inner->params) ? inner->in[0] : NULL;
}

/* slice, pad, concatenate and reductions that change nothing. */
static mf_variable *simplify_slice(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    return in[0]->type == e->out[0]->type ? in[0] : NULL; /* equal sizes in all dimensions, so all elements */
}

static bool all_zero(const mf_intlist *list)
{
    for (int i = 0; i < list->count; i++)
        if (list->at[i] != 0)
            return false;
    return true;
}

static mf_variable *simplify_pad(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    const mf_pad_params *p = e->params;
    return all_zero(p->low) && all_zero(p->high) && all_zero(p->interior) ? in[0] : NULL;
}

static mf_variable *simplify_concatenate(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    return e->in_count == 1 ? in[0] : NULL;
}

static mf_variable *simplify_reduce(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    (void)r;
    return ((const mf_axes_params *)e->params)->axes->count == 0 ? in[0] : NULL;
}

/* ---- scatter into a splat with one index per row, as in the gradient of picking an element, becomes a comparison. That fuses with the
 * loop around it, while a scatter would first write all rows and then visit them again. */
static bool has_one_index_per_row(const mf_eqn *e, mf_variable *const *in)
{
    const mf_scatter_params *p = e->params;
    const mf_type *index = in[1]->type;
    int rows = p->operand_batching_dims->count;
    int64_t others = 1;
    for (int i = 0; i < index->rank - 1; i++)
        others *= mf_ints_has(p->scatter_indices_batching_dims, i) ? 1 : index->dims[i];
    return index->dtype == MF_I32 && p->mode != 0 && p->update_window_dims->count == 0 && p->inserted_window_dims->count == 1 &&
           p->scatter_dims_to_operand_dims->count == 1 && others == 1 && in[0]->type->rank == rows + 1 &&
           ascends(p->operand_batching_dims) && ascends(p->scatter_indices_batching_dims);
}

/* Broadcasts one value per row to all columns. */
static mf_variable *broadcast_to_columns(mf_rewrite *r, const mf_type *shape, const mf_intlist *rows, mf_variable *x)
{
    int64_t dims[MF_RANK];
    for (int i = 0; i < rows->count; i++)
        dims[i] = shape->dims[rows->at[i]];
    mf_variable *flat = mf_emit(r->b, &mf_op_reshape, &(mf_shape_params){ mf_ints_intern(dims, rows->count) }, 1, x);
    mf_broadcast_params params = { mf_ints_intern(shape->dims, shape->rank), rows };
    return mf_emit(r->b, &mf_op_broadcast_in_dim, &params, 1, flat);
}

static mf_variable *simplify_scatter(mf_rewrite *r, const mf_eqn *e, mf_variable *const *in)
{
    const mf_type *t = e->out[0]->type;
    const mf_scatter_params *p = e->params;
    if (mf_dtype_is_complex(t->dtype) || !mf_splat_of(in[0]) || !has_one_index_per_row(e, in))
        return NULL;
    mf_iota_params columns = { MF_I32, mf_ints_intern(t->dims, t->rank), p->scatter_dims_to_operand_dims->at[0] };
    mf_variable *index = broadcast_to_columns(r, t, p->operand_batching_dims, in[1]),
                *update = broadcast_to_columns(r, t, p->operand_batching_dims, in[2]);
    mf_variable *here = mf_emit(r->b, &mf_op_eq, NULL, 2, index, mf_emit(r->b, &mf_op_iota, &columns, 0));
    mf_variable *hit = e->op == &mf_op_scatter_add ? mf_emit(r->b, &mf_op_add, NULL, 2, in[0], update) : update;
    return mf_emit(r->b, &mf_op_select_n, NULL, 3, here, in[0], hit);
}

/* ---- the table */
static const struct {
    const mf_op *op;
    rule rewrite;
} rules[] = {
    { &mf_op_add, simplify_add },
    { &mf_op_sub, simplify_sub },
    { &mf_op_mul, simplify_mul },
    { &mf_op_div, simplify_div },
    { &mf_op_neg, simplify_neg },
    { &mf_op_not, simplify_not },
    { &mf_op_max, simplify_twice },
    { &mf_op_min, simplify_twice },
    { &mf_op_and, simplify_twice },
    { &mf_op_or, simplify_twice },
    { &mf_op_integer_pow, simplify_integer_pow },
    { &mf_op_select_n, simplify_select },
    { &mf_op_convert_element_type, simplify_convert },
    { &mf_op_stop_gradient, identity },
    { &mf_op_copy, identity },
    { &mf_op_checkpoint_name, identity },
    { &mf_op_reshape, simplify_reshape },
    { &mf_op_squeeze, simplify_reshape },
    { &mf_op_expand_dims, simplify_reshape },
    { &mf_op_transpose, simplify_transpose },
    { &mf_op_broadcast_in_dim, simplify_broadcast },
    { &mf_op_rev, simplify_rev },
    { &mf_op_slice, simplify_slice },
    { &mf_op_pad, simplify_pad },
    { &mf_op_concatenate, simplify_concatenate },
    { &mf_op_reduce_sum, simplify_reduce },
    { &mf_op_reduce_prod, simplify_reduce },
    { &mf_op_reduce_max, simplify_reduce },
    { &mf_op_reduce_min, simplify_reduce },
    { &mf_op_reduce_and, simplify_reduce },
    { &mf_op_reduce_or, simplify_reduce },
    { &mf_op_scatter, simplify_scatter },
    { &mf_op_scatter_add, simplify_scatter },
};

/* The branch that a cond with a constant index takes. */
static const mf_program *known_branch(const mf_eqn *e, mf_variable *const *in)
{
    if (e->op != &mf_op_cond || !in[0]->constant)
        return NULL;
    const mf_program_list *branches = &((const mf_cond_params *)e->params)->branches;
    int64_t k = mf_load_i64(in[0]->type->dtype, in[0]->constant->data);
    k = k < 0 ? 0 : k >= branches->count ? branches->count - 1 : k;
    return branches->count > 0 && branches->at[k]->in_count == e->in_count - 1 ? branches->at[k] : NULL;
}

static void simplify_equation(mf_rewrite *r, const mf_eqn *e, mf_variable **in)
{
    const mf_program *branch = known_branch(e, in);
    if (branch) {
        mf_rewrite_body(r, branch, e, in + 1);
        return;
    }
    mf_variable *better = NULL;
    for (int i = 0; !better && i < (int)(sizeof rules / sizeof rules[0]); i++)
        if (rules[i].op == e->op)
            better = rules[i].rewrite(r, e, in);
    if (better && better->type == e->out[0]->type)
        mf_rewrite_bind(r, e, better);
    else
        mf_rewrite_copy(r, e, in);
}

mf_program *mf_pass_simplify(const mf_program *p, const mf_axis_env *env, mf_error_object **error)
{
    return mf_rewrite_program(p, env, simplify_equation, mf_pass_simplify, NULL, error);
}
