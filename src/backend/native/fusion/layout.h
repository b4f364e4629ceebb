/* How a variable's elements lie in the memory of another one: broadcast, transpose, slice, reverse and most reshapes as views. Counted
 * in elements. Invariant: dims are those of the variable's type. */
#ifndef MF_BACKEND_NATIVE_FUSION_LAYOUT_H
#define MF_BACKEND_NATIVE_FUSION_LAYOUT_H

#include "ops/ops.h"

typedef struct mf_layout {
    int rank;
    int64_t offset;
    int64_t dims[MF_RANK], strides[MF_RANK];
} mf_layout;

void mf_layout_contiguous(mf_layout *l, const mf_type *type);
bool mf_layout_is_contiguous(const mf_layout *l); /* contiguous from its offset on */
/* The layout of e's result, given its operand's. False: e is no such op, or strides cannot express it. */
bool mf_layout_of_view(mf_layout *out, const mf_eqn *e, const mf_layout *in);
/* Whether the result's elements are the operand's in the same order. */
bool mf_is_reshape(const mf_eqn *e);

static inline int64_t mf_common_divisor(int64_t a, int64_t b) { return b ? mf_common_divisor(b, a % b) : a; } /* the greatest */

/* The coarsest common refinement of two factorisations of a number of elements: every factor of a (replaced by it) and of dims is a
 * product of consecutive factors of it. False: there is none. */
#define MF_FACTORS 16
typedef struct mf_factors {
    int count;
    int64_t at[MF_FACTORS]; /* outermost first, none is 1 */
} mf_factors;
bool mf_factors_refine(mf_factors *a, const int64_t *dims, int rank);
/* The strides of a layout over refined factors (mf_factors_refine has accepted its dims). */
void mf_layout_strides(const mf_layout *l, const mf_factors *f, int64_t *strides);

#endif
