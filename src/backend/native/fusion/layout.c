/* Views as strides; see layout.h. Invariant: a layout never points outside the memory that it describes. */
#include "backend/native/fusion/layout.h"

#include <string.h>

void mf_layout_contiguous(mf_layout *l, const mf_type *type)
{
    int64_t step = 1;
    l->rank = type->rank;
    l->offset = 0;
    for (int i = type->rank - 1; i >= 0; i--) {
        l->dims[i] = type->dims[i];
        l->strides[i] = step;
        step *= type->dims[i];
    }
}

bool mf_layout_is_contiguous(const mf_layout *l)
{
    int64_t step = 1;
    for (int i = l->rank - 1; i >= 0; i--) {
        if (l->dims[i] != 1 && l->strides[i] != step)
            return false;
        step *= l->dims[i];
    }
    return true;
}

bool mf_is_reshape(const mf_eqn *e) { return e->op->view == MF_VIEW_RESHAPE && e->in[0]->type->size == e->out[0]->type->size; }

/* ------------------------------------------------------------------ the ops */

static void start(mf_layout *out, const mf_eqn *e, const mf_layout *in)
{
    const mf_type *t = e->out[0]->type;
    out->rank = t->rank;
    out->offset = in->offset;
    memcpy(out->dims, t->dims, sizeof out->dims);
}

static bool broadcast(mf_layout *out, const mf_eqn *e, const mf_layout *in)
{
    const mf_intlist *to = ((const mf_broadcast_params *)e->params)->broadcast_dimensions;
    for (int i = 0; i < out->rank; i++)
        out->strides[i] = 0;
    for (int i = 0; i < to->count; i++)
        out->strides[to->at[i]] = in->dims[i] == 1 ? 0 : in->strides[i];
    return true;
}

static bool transpose(mf_layout *out, const mf_eqn *e, const mf_layout *in)
{
    const mf_intlist *from = ((const mf_permutation_params *)e->params)->permutation;
    for (int i = 0; i < out->rank; i++)
        out->strides[i] = in->strides[from->at[i]];
    return true;
}

static bool slice(mf_layout *out, const mf_eqn *e, const mf_layout *in)
{
    const mf_slice_params *p = e->params;
    for (int i = 0; i < out->rank; i++) {
        out->offset += p->start->at[i] * in->strides[i];
        out->strides[i] = in->strides[i] * p->strides->at[i];
    }
    return true;
}

static bool reverse(mf_layout *out, const mf_eqn *e, const mf_layout *in)
{
    const mf_intlist *axes = ((const mf_axes_params *)e->params)->axes;
    memcpy(out->strides, in->strides, sizeof out->strides);
    for (int i = 0; i < axes->count; i++) {
        int64_t a = axes->at[i];
        out->offset += (in->dims[a] - 1) * in->strides[a];
        out->strides[a] = -in->strides[a];
    }
    return true;
}

/* Matches runs of dimensions with equal products on both sides; within a run the operand's dimensions must have a single stride. */
static bool reshape(mf_layout *out, const mf_layout *in)
{
    int i = 0, o = 0;
    while (i < in->rank || o < out->rank) {
        int first_in = i, first_out = o;
        int64_t m = i < in->rank ? in->dims[i++] : 1, n = o < out->rank ? out->dims[o++] : 1;
        while (m != n)
            if (m < n && i < in->rank)
                m *= in->dims[i++];
            else if (o < out->rank)
                n *= out->dims[o++];
            else
                return false;
        int64_t step = 0, expected = 0;
        bool seen = false;
        for (int k = i - 1; k >= first_in; k--) {
            if (in->dims[k] == 1)
                continue;
            if (seen && in->strides[k] != expected)
                return false;
            step = seen ? step : in->strides[k];
            expected = in->strides[k] * in->dims[k];
            seen = true;
        }
        for (int k = o - 1; k >= first_out; k--) {
            out->strides[k] = step;
            step *= out->dims[k];
        }
    }
    return true;
}

bool mf_layout_of_view(mf_layout *out, const mf_eqn *e, const mf_layout *in)
{
    if (e->in_count != 1 || e->out_count != 1 || e->out[0]->type->size == 0)
        return false;
    start(out, e, in);
    if (e->op == &mf_op_broadcast_in_dim)
        return broadcast(out, e, in);
    if (e->op == &mf_op_transpose)
        return transpose(out, e, in);
    if (e->op == &mf_op_slice)
        return slice(out, e, in);
    if (e->op == &mf_op_rev)
        return reverse(out, e, in);
    return mf_is_reshape(e) && reshape(out, in);
}

/* ------------------------------------------------------------------ factors */

bool mf_factors_refine(mf_factors *a, const int64_t *dims, int rank)
{
    mf_factors f = { 0 };
    int i = a->count - 1, k = rank - 1;
    int64_t m = i >= 0 ? a->at[i] : 1, n = k >= 0 ? dims[k] : 1;
    while (i >= 0 || k >= 0) {
        if (m == 1 && i > 0) {
            m = a->at[--i];
        } else if (n == 1 && k > 0) {
            n = dims[--k];
        } else {
            int64_t least = m < n ? m : n;
            if (least == 1)
                break;
            if (m % least || n % least || f.count == MF_FACTORS)
                return false;
            f.at[f.count++] = least;
            m /= least;
            n /= least;
        }
    }
    if (m != 1 || n != 1)
        return false;
    a->count = f.count;
    for (int j = 0; j < f.count; j++)
        a->at[j] = f.at[f.count - 1 - j];
    return true;
}

void mf_layout_strides(const mf_layout *l, const mf_factors *f, int64_t *strides)
{
    int k = l->rank - 1;
    int64_t inside = 1; /* the part of dims[k] that the factors so far make up */
    for (int i = f->count - 1; i >= 0; i--) {
        while (k > 0 && inside == l->dims[k]) {
            k--;
            inside = 1;
        }
        strides[i] = l->strides[k] * inside;
        inside *= f->at[i];
    }
}
