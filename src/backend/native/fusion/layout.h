/* How a variable's elements lie in the memory of another one: what broadcast, transpose, slice, reverse and most reshapes are, without
 * moving anything. Counted in elements. Invariant: dims are those of the variable's type. */
#ifndef MF_BACKEND_NATIVE_FUSION_LAYOUT_H
#define MF_BACKEND_NATIVE_FUSION_LAYOUT_H

#include "ops/ops.h"

typedef struct mf_layout {
    int rank;
    int64_t offset;
    int64_t dims[MF_RANK], strides[MF_RANK];
} mf_layout;

void mf_layout_contiguous(mf_layout *l, const mf_type *type);
bool mf_layout_is_contiguous(const mf_layout *l); /* row by row from its offset on */
/* The layout of e's result in terms of its operand's; false when e is no such op, or no strides can say it. */
bool mf_layout_of_view(mf_layout *out, const mf_eqn *e, const mf_layout *in);
/* Ops whose result's elements are the operand's in the same order. */
bool mf_is_reshape(const mf_eqn *e);

/* Factorisations of one number of elements: the coarsest that both a (changed in place) and b are sums of; false when there is none. */
#define MF_FACTORS 16
typedef struct mf_factors {
    int count;
    int64_t at[MF_FACTORS]; /* outermost first, none is 1 */
} mf_factors;
bool mf_factors_refine(mf_factors *a, const int64_t *dims, int rank);
/* The strides of a layout over finer factors (mf_factors_refine has accepted its dims). */
void mf_layout_strides(const mf_layout *l, const mf_factors *f, int64_t *strides);

#endif
