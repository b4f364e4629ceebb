/* What the zeros in a convolution's padding and between its dilated elements add, when the kernel is not finite: 0 times infinity is NaN. */
#ifndef MF_BACKEND_NATIVE_PRODUCTS_CONV_ZEROS_H
#define MF_BACKEND_NATIVE_PRODUCTS_CONV_ZEROS_H

#include "backend/native/fusion/layout.h"

typedef struct mf_conv_zeros {
    const mf_eqn *eqn;
    mf_layout kernel; /* of operand 1 in the memory that holds it */
    int spatial;
    int64_t in[MF_RANK], window[MF_RANK], out[MF_RANK];
    bool some, hidden; /* a place of the kernel misses the elements at some place of the result; at all of them */
} mf_conv_zeros;
void mf_conv_zeros_plan(mf_conv_zeros *z, const mf_eqn *e, const mf_layout *kernel);
/* After the convolution wrote the images [from, to); `kernel` is the whole memory, of kernel_count elements. */
void mf_conv_zeros_apply(const mf_conv_zeros *z, const void *kernel, int64_t kernel_count, void *out, int64_t from, int64_t to);
/* The same where the sum is over operand 0's features, in parts that are added: after a part, of features [from, to), which lie together in
 * the kernel, gave `made`, what is to be spoiled is marked in so many bytes, and carried out on the result. */
size_t mf_conv_zeros_marks(const mf_conv_zeros *z); /* 0: there is nothing to do */
void mf_conv_zeros_mark(const mf_conv_zeros *z, const void *kernel, int64_t from, int64_t to, const float *made, int64_t count,
                        char *marks);
void mf_conv_zeros_apply_marks(const mf_conv_zeros *z, const char *marks, void *out);

#endif
