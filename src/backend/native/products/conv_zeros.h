/* What the zeros in a convolution's padding and between its dilated elements add if the kernel is not finite: 0 times infinity is NaN. */
#ifndef MF_BACKEND_NATIVE_PRODUCTS_CONV_ZEROS_H
#define MF_BACKEND_NATIVE_PRODUCTS_CONV_ZEROS_H

#include "backend/native/fusion/layout.h"

typedef struct mf_conv_zeros {
    const mf_eqn *eqn;
    mf_layout kernel; /* of operand 1 in its memory */
    int spatial;
    int64_t in[MF_RANK], window[MF_RANK], out[MF_RANK];
    bool some, hidden; /* a place of the kernel meets no element at some place of the result; at all of them */
} mf_conv_zeros;
void mf_conv_zeros_plan(mf_conv_zeros *z, const mf_eqn *e, const mf_layout *kernel);
/* Called when the convolution has written the images [from, to). `kernel` is its whole memory, of kernel_count elements. */
void mf_conv_zeros_apply(const mf_conv_zeros *z, const void *kernel, int64_t kernel_count, void *out, int64_t from, int64_t to);
/* The same for a sum over operand 0's features in parts: after a part has given `made` from features [from, to), which are contiguous in
 * the kernel, mf_conv_zeros_mark marks places that are NaN in so many bytes; mf_conv_zeros_apply_marks writes them to the result. */
size_t mf_conv_zeros_marks(const mf_conv_zeros *z); /* 0: nothing to do */
void mf_conv_zeros_mark(const mf_conv_zeros *z, const void *kernel, int64_t from, int64_t to, const float *made, int64_t count,
                        char *marks);
void mf_conv_zeros_apply_marks(const mf_conv_zeros *z, const char *marks, void *out);

#endif
