/* Sliding windows as StableHLO. reduce_window can express all that the ops need. select_and_scatter has no dilations, so dilated windows
 * choose by a reduction of pairs, and the chosen elements are scattered. In both cases operands are padded first, since a window may choose
 * a padded element. */
#include "ops/reduce/window_hlo.h"

#include "ops/params.h"

static const char *window_attributes(mf_hlo *h, const mf_window_params *p)
{
    mf_text t = { 0 };
    int n = p->window->count;
    mf_text_add(&t, "base_dilations = %s, padding = %s, window_dilations = %s, window_dimensions = %s, window_strides = %s",
                h_ints(h, p->base_dilation), h_edges(h, p->padding_low->at, p->padding_high->at, n), h_ints(h, p->window_dilation),
                h_ints(h, p->window), h_ints(h, p->strides));
    return h_keep(h, &t);
}

void mf_window_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    mf_dtype narrow = in[0].type->dtype, dtype = e->op->reducer == MF_REDUCE_SUM ? h_sum_dtype(narrow) : narrow;
    mf_hlo_value operands[2] = { h_convert(h, in[0], dtype), h_identity(h, e->op->reducer, mf_type_scalar(dtype, false)) };
    mf_hlo_value result = { 0, mf_type_with_dtype(e->out[0]->type, dtype) };
    h_open(h, "reduce_window", operands, 2, &result, 1, "%s", window_attributes(h, e->params));
    h_reducer_region(h, e->op->reducer, dtype);
    h_close(h, operands, 2, &result, 1);
    out[0] = h_convert(h, result, narrow);
}

/* For each window of keys the first greatest, compared by >=, and the value beside it: two windows reduced as one. */
static void chosen_in_windows(mf_hlo *h, const mf_window_params *p, mf_hlo_value keys, mf_hlo_value beside, mf_hlo_value start,
                              const mf_type *shape, mf_hlo_value *out)
{
    const mf_type *key = mf_type_scalar(keys.type->dtype, false), *value = mf_type_scalar(beside.type->dtype, false);
    mf_hlo_value operands[4] = { keys, beside, h_identity(h, MF_REDUCE_MAX, key), start };
    mf_hlo_value pairs[4] = { { 0, key }, { 0, value }, { 0, key }, { 0, value } }, chosen[2];
    out[0].type = mf_type_with_dtype(shape, key->dtype);
    out[1].type = mf_type_with_dtype(shape, value->dtype);
    h_open(h, "reduce_window", operands, 4, out, 2, "%s", window_attributes(h, p));
    h_region(h, pairs, 4);
    mf_hlo_value first = h_compare(h, "GE", false, pairs[0], pairs[2]);
    for (int i = 0; i < 2; i++)
        chosen[i] = h_select(h, first, pairs[i], pairs[2 + i]);
    h_return(h, chosen, 2);
    h_close(h, operands, 4, out, 2);
}

void mf_select_gather_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    mf_hlo_value both[2];
    mf_hlo_value none = h_full(h, mf_type_scalar(in[0].type->dtype, false), 0);
    chosen_in_windows(h, e->params, in[1], in[0], none, e->out[0]->type, both);
    out[0] = both[1];
}

/* Pads with the least number; the padding is cropped in the end (cut_windows). */
static mf_hlo_value padded_windows(mf_hlo *h, const mf_window_params *p, mf_hlo_value x)
{
    int64_t interior[MF_RANK];
    for (int i = 0; i < p->window->count; i++)
        interior[i] = p->base_dilation->at[i] - 1;
    mf_hlo_value least = h_identity(h, MF_REDUCE_MAX, mf_type_scalar(x.type->dtype, false));
    return h_pad(h, x, least, p->padding_low->at, p->padding_high->at, interior);
}

/* The inverse of padded_windows: crops to the operand's elements; zeros where padding is negative. */
static mf_hlo_value cut_windows(mf_hlo *h, const mf_window_params *p, mf_hlo_value x, const mf_type *t)
{
    int64_t low[MF_RANK], high[MF_RANK], zeros[MF_RANK] = { 0 }, limit[MF_RANK], strides[MF_RANK];
    for (int i = 0; i < t->rank; i++) {
        low[i] = -p->padding_low->at[i];
        high[i] = -p->padding_high->at[i];
        strides[i] = p->base_dilation->at[i];
        limit[i] = t->dims[i] ? (t->dims[i] - 1) * strides[i] + 1 : 0;
    }
    x = h_pad(h, x, h_scalar(h, x.type->dtype, 0), low, high, zeros);
    return h_slice(h, x, t, zeros, limit, strides);
}

static mf_hlo_value flat_of(mf_hlo *h, mf_hlo_value x) { return h_reshape(h, x, mf_type_get(x.type->dtype, false, 1, &x.type->size)); }

/* Finds the place that each window chooses and scatters to it, since select_and_scatter has no dilated windows. */
static mf_hlo_value scatter_chosen(mf_hlo *h, const mf_window_params *p, mf_hlo_value source, mf_hlo_value x)
{
    const mf_intlist *ones = NULL, *none = NULL;
    int64_t at[MF_RANK], zeros[MF_RANK] = { 0 };
    for (int i = 0; i < x.type->rank; i++)
        at[i] = 1;
    ones = mf_ints_intern(at, x.type->rank);
    none = mf_ints_intern(zeros, x.type->rank);
    mf_window_params inside = { p->window, p->strides, none, none, ones, p->window_dilation };
    const mf_type *line = mf_type_get(MF_I64, false, 1, &x.type->size);
    mf_hlo_value places = h_reshape(h, h_iota(h, line, 0), mf_type_with_dtype(x.type, MF_I64)), both[2];
    chosen_in_windows(h, &inside, x, places, h_scalar(h, MF_I64, 0), source.type, both);
    int64_t column[2] = { source.type->size, 1 };
    mf_hlo_value sums = h_full(h, mf_type_get(source.type->dtype, false, 1, &x.type->size), 0);
    mf_hlo_value operands[3] = { sums, h_reshape(h, both[1], mf_type_get(MF_I64, false, 2, column)), flat_of(h, source) };
    mf_hlo_value result = { 0, sums.type };
    h_open(h, "scatter", operands, 3, &result, 1,
           "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], "
           "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false");
    h_reducer_region(h, MF_REDUCE_SUM, source.type->dtype);
    h_close(h, operands, 3, &result, 1);
    return h_reshape(h, result, mf_type_with_dtype(x.type, source.type->dtype));
}

static mf_hlo_value select_and_scatter(mf_hlo *h, const mf_window_params *p, mf_hlo_value source, mf_hlo_value x)
{
    int n = x.type->rank;
    int64_t zeros[MF_RANK] = { 0 };
    const mf_type *one = mf_type_scalar(x.type->dtype, false);
    mf_hlo_value operands[3] = { x, source, h_scalar(h, x.type->dtype, 0) }, result = { 0, x.type };
    mf_hlo_value pair[2] = { { 0, one }, { 0, one } };
    h_open(h, "select_and_scatter", operands, 3, &result, 1, "padding = %s, window_dimensions = %s, window_strides = %s",
           h_edges(h, zeros, zeros, n), h_ints(h, p->window), h_ints(h, p->strides));
    h_region(h, pair, 2);
    mf_hlo_value stays = h_compare(h, "GE", false, pair[0], pair[1]);
    h_return(h, &stays, 1);
    h_reducer_region(h, MF_REDUCE_SUM, x.type->dtype);
    h_close(h, operands, 3, &result, 1);
    return result;
}

void mf_select_scatter_hlo(mf_hlo *h, const mf_eqn *e, const mf_hlo_value *in, mf_hlo_value *out)
{
    const mf_window_params *p = e->params;
    mf_dtype narrow = in[0].type->dtype, dtype = h_sum_dtype(narrow);
    bool dilated = false;
    for (int i = 0; i < p->window->count; i++)
        dilated = dilated || p->window_dilation->at[i] != 1;
    mf_hlo_value source = h_convert(h, in[0], dtype), x = padded_windows(h, p, h_convert(h, in[1], dtype));
    if (h_failed(h))
        return;
    mf_hlo_value sums = dilated ? scatter_chosen(h, p, source, x) : select_and_scatter(h, p, source, x);
    if (!h_failed(h))
        out[0] = h_convert(h, cut_windows(h, p, sums, mf_type_with_dtype(e->out[0]->type, dtype)), narrow);
}
