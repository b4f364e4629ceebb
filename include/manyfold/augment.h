/* manyfold/augment.h - images changed inside of the compiled step: crops, flips, cut-outs and
 * mixtures from a key, normalisation, and other sizes.
 *
 * Images are batches of shape (n, h, w, c) and of any dtype, which stays, unless said; each image
 * has a draw of its own, but for mix-up. The same key gives the same draws; in a map give each device
 * a key of its own (mf_random_fold_in(key, mf_axis_index(name))), or all images of the batch one.
 * Functions are traced as any other; gradients go through.
 * Results belong to the innermost scope; any thread. Errors: MF_ERROR_SHAPE for no such batch,
 * MF_ERROR_DTYPE for a key that is none, MF_ERROR_ARGUMENT for sizes that do not fit. */
#ifndef MANYFOLD_AUGMENT_H
#define MANYFOLD_AUGMENT_H
#ifndef MF_CHECK_HEADERS_
#pragma GCC system_header
#endif

#include <manyfold/random.h>

MF_BEGIN_

/* (2), (n, h, w, c) -> (n, height, width, c): padded with zeros by .padding pixels on each side, and
 * cut out of that at a random place; height and width 0: those of the images */
typedef struct mf_augment_crop_options {
    int64_t padding, height, width;
    mf_reserved reserved_;
} mf_augment_crop_options;
mf_value mf_augment_crop_opt(mf_value key, mf_value images, const mf_augment_crop_options *o);
/* (2), (n, h, w, c) -> (n, h, w, c): mirrored, left for right, with probability p */
mf_value mf_augment_flip(mf_value key, mf_value images, double p MF_DEFAULT_(0.5));
/* (2), (n, h, w, c) -> (n, h, w, c): zero in a square whose centre is any pixel; what would stand
 * beyond the border is cut off */
mf_value mf_augment_cutout(mf_value key, mf_value images, int64_t size);
/* (n, h, w, c), (c), (c) -> (n, h, w, c): (x - mean) / std, of floats; of integers 0 to 255 first
 * x / 255, f32. mean and std broadcast */
mf_value mf_augment_normalize(mf_value images, mf_value mean, mf_value std);
/* (2), (n, h, w, c), (n, classes) -> tuple: floats: l x + (1 - l) x[p] of images and of labels, which
 * are probabilities; one l of Beta(alpha, alpha) and one permutation p for the batch */
mf_value mf_augment_mixup(mf_value key, mf_value images, mf_value labels,
                          double alpha MF_DEFAULT_(0.2));

/* jax.image.resize: (...) -> shape, of any rank: each dimension that changes by a filter, which is as
 * wide as the new places where these are fewer, unless .no_antialias. Floats keep their dtype and
 * integers become f32; bool and complex numbers have but the nearest, which keeps any. None becomes
 * empty, or was. The same from image to image: a key has no say */
typedef enum mf_resize_method {
    MF_RESIZE_LINEAR = 0,
    MF_RESIZE_CUBIC, /* Keys' */
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
