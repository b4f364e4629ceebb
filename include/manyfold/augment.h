/* manyfold/augment.h - image augmentation inside the compiled step: random crops, flips, cut-outs
 * and mix-up, normalisation, and resizing.
 *
 * Images are batches of shape (n, h, w, c) and of any dtype, which is kept unless stated. Each
 * image has a draw of its own, except in mix-up. The same key gives the same draws; inside a map
 * give each device a key of its own: mf_random_fold_in(key, mf_axis_index(name)). The functions are
 * traced like any others and have gradients with respect to the images.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE for an array that is no
 * such batch, MF_ERROR_DTYPE for a key that is none, MF_ERROR_ARGUMENT for sizes that do not
 * fit. */
#ifndef MANYFOLD_AUGMENT_H
#define MANYFOLD_AUGMENT_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/random.h>

MF_BEGIN_

/* (2), (n, h, w, c) -> (n, height, width, c): pads each side by .padding pixels of zero and cuts
 * out a window at a random place. height and width are the images' own by default (0) */
typedef struct mf_augment_crop_options {
    int64_t padding, height, width;
    mf_reserved reserved_;
} mf_augment_crop_options;
mf_value mf_augment_crop_opt(mf_value key, mf_value images, const mf_augment_crop_options *o);
/* (2), (n, h, w, c) -> (n, h, w, c): mirrors each image left to right with probability p */
mf_value mf_augment_flip(mf_value key, mf_value images, double p MF_DEFAULT_(0.5));
/* (2), (n, h, w, c) -> (n, h, w, c): sets a square of size x size pixels to zero; its centre is a
 * random pixel, and what lies beyond the border is ignored (DeVries and Taylor,
 * arXiv:1708.04552) */
mf_value mf_augment_cutout(mf_value key, mf_value images, int64_t size);
/* (n, h, w, c), (c), (c) -> (n, h, w, c): (x - mean) / std, where mean and std broadcast. Integers,
 * which are from 0 to 255, are first divided by 255, and become f32 */
mf_value mf_augment_normalize(mf_value images, mf_value mean, mf_value std);
/* (2), (n, h, w, c), (n, classes) -> tuple: (images, labels), each l x + (1 - l) x[p], with one l
 * of Beta(alpha, alpha) and one permutation p for the whole batch (Zhang et al., arXiv:1710.09412).
 * Images and labels are floats; the labels are probabilities, such as mf_one_hot's */
mf_value mf_augment_mixup(mf_value key, mf_value images, mf_value labels,
                          double alpha MF_DEFAULT_(0.2));

/* (...) -> shape: jax.image.resize, of any rank: resamples each dimension whose size changes. Where
 * the new size is smaller, the filter is widened accordingly, to avoid aliasing, unless
 * .no_antialias. Floats keep their dtype, integers become f32; bools and complex numbers take
 * MF_RESIZE_NEAREST only, which keeps any dtype. No dimension may be empty, before or after. No
 * randomness */
typedef enum mf_resize_method {
    MF_RESIZE_LINEAR = 0,
    MF_RESIZE_CUBIC, /* Keys' cubic convolution, a = -0.5 */
    MF_RESIZE_LANCZOS3,
    MF_RESIZE_LANCZOS5,
    MF_RESIZE_NEAREST
} mf_resize_method;
typedef struct mf_image_resize_options {
    bool no_antialias;
    mf_reserved reserved_;
} mf_image_resize_options;
mf_value mf_image_resize_opt(mf_value image, mf_shape shape, mf_resize_method method,
                             const mf_image_resize_options *o);

MF_END_

#include <manyfold/lift/augment.h>

#endif
