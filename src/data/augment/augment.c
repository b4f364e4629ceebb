/* Image augmentation as traceable functions. Invariant: all randomness comes from the key, which is split if there are several draws, so
 * the results are those of the same draws with jax.random. */
#include <manyfold.h>

/* Returns an error or unset. */
static mf_value check_images(const char *function, mf_value images)
{
    if (mf_kind_of(images) == MF_KIND_ERROR)
        return images;
    return mf_ndim(images) == 4 ? (mf_value){ 0 }
                                : mf_make_error(MF_ERROR_SHAPE, "%s: expected images of shape (n, h, w, c), found %s", function,
                                                mf_str_shape(mf_shape_of(images)));
}

static mf_value cut_one(void *size, mf_value image, mf_value at)
{
    return mf_dynamic_slice(image, mf_list(mf_get(at, 0), mf_get(at, 1), 0), *(const mf_shape *)size);
}

mf_value mf_augment_crop_opt(mf_value key, mf_value images, const mf_augment_crop_options *o)
{
    MF_LAYER;
    mf_value error = check_images("mf_augment_crop", images);
    if (error.handle)
        return error;
    int64_t padding = o ? o->padding : 0, most = INT32_MAX / 4, n = mf_dim(images, 0), h = mf_dim(images, 1), w = mf_dim(images, 2);
    int64_t height = o && o->height ? o->height : h, width = o && o->width ? o->width : w;
    if (padding < 0 || padding > most || height < 1 || width < 1 || height > h + 2 * padding || width > w + 2 * padding)
        return mf_make_error(MF_ERROR_ARGUMENT,
                             "mf_augment_crop: %lld by %lld pixels cannot be cut out of %lld by %lld with a padding of %lld",
                             (long long)height, (long long)width, (long long)h, (long long)w, (long long)padding);
    const mf_ints around = { .count = 4, .at = { 0, padding, padding, 0 } };
    mf_value padded = padding ? mf_pad(images, mf_scalar(0, mf_dtype_of(images)), around, around, MF_INTS(0, 0, 0, 0)) : images;
    mf_value above = mf_array(MF_I32, MF_SHAPE(2), (double)(h + 2 * padding - height + 1), (double)(w + 2 * padding - width + 1));
    mf_value at = mf_random_randint(key, MF_SHAPE(n, 2), 0, above, MF_I32);
    mf_shape size = { .rank = 3, .dims = { height, width, mf_dim(images, 3) } };
    return mf_call(mf_vmap(mf_closure(cut_one, &size)), padded, at);
}

mf_value(mf_augment_flip)(mf_value key, mf_value images, double p)
{
    MF_LAYER;
    mf_value error = check_images("mf_augment_flip", images);
    if (error.handle)
        return error;
    mf_value flipped = mf_random_bernoulli(key, p, MF_SHAPE(mf_dim(images, 0), 1, 1, 1));
    return mf_where(flipped, mf_flip(images, 2), images);
}

/* (n, length): where along an axis each image's square lies. which: 0 for rows, 1 for columns. */
static mf_value covered(mf_value centres, int which, int64_t length, int64_t size)
{
    mf_value first = mf_sub(mf_get(centres, mf_range(0, MF_END), mf_range(which, which + 1)), size / 2);
    mf_value place = mf_expand_dims(mf_arange(length, MF_I32), 0);
    return mf_logical_and(mf_greater_equal(place, first), mf_less(place, mf_add(first, size)));
}

mf_value(mf_augment_cutout)(mf_value key, mf_value images, int64_t size)
{
    MF_LAYER;
    mf_value error = check_images("mf_augment_cutout", images);
    if (error.handle)
        return error;
    int64_t n = mf_dim(images, 0), h = mf_dim(images, 1), w = mf_dim(images, 2);
    if (size < 0 || size > INT32_MAX / 4)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_augment_cutout: a square of %lld pixels", (long long)size);
    mf_value centres = mf_random_randint(key, MF_SHAPE(n, 2), 0, mf_array(MF_I32, MF_SHAPE(2), (double)h, (double)w), MF_I32);
    mf_value rows = mf_reshape(covered(centres, 0, h, size), MF_SHAPE(n, h, 1, 1));
    mf_value columns = mf_reshape(covered(centres, 1, w, size), MF_SHAPE(n, 1, w, 1));
    return mf_where(mf_logical_and(rows, columns), mf_scalar(0, mf_dtype_of(images)), images);
}

static bool is_float(mf_dtype dtype) { return dtype == MF_F16 || dtype == MF_BF16 || dtype == MF_F32 || dtype == MF_F64; }

mf_value(mf_augment_normalize)(mf_value images, mf_value mean, mf_value std)
{
    MF_LAYER;
    mf_value error = check_images("mf_augment_normalize", images);
    if (error.handle)
        return error;
    mf_value x = is_float(mf_dtype_of(images)) ? images : mf_div(mf_astype(images, MF_F32), 255);
    return mf_div(mf_sub(x, mean), std);
}

static mf_value mixed(mf_value l, mf_value x, mf_value order)
{
    l = mf_astype(l, mf_dtype_of(x));
    return mf_add(mf_mul(l, x), mf_mul(mf_sub(1, l), mf_take(x, order, 0)));
}

mf_value(mf_augment_mixup)(mf_value key, mf_value images, mf_value labels, double alpha)
{
    MF_LAYER;
    mf_value error = check_images("mf_augment_mixup", images);
    if (error.handle || mf_kind_of(labels) == MF_KIND_ERROR)
        return error.handle ? error : labels;
    if (!is_float(mf_dtype_of(images)) || !is_float(mf_dtype_of(labels)) || !(alpha > 0))
        return mf_make_error(alpha > 0 ? MF_ERROR_DTYPE : MF_ERROR_ARGUMENT,
                             "mf_augment_mixup: expected images and labels of floats and a positive alpha, found %s, %s and %g",
                             mf_str_dtype(mf_dtype_of(images)), mf_str_dtype(mf_dtype_of(labels)), alpha);
    int64_t n = mf_dim(images, 0);
    if (mf_ndim(labels) < 1 || mf_dim(labels, 0) != n)
        return mf_make_error(MF_ERROR_SHAPE, "mf_augment_mixup: %lld images with labels of shape %s", (long long)n,
                             mf_str_shape(mf_shape_of(labels)));
    mf_value keys = mf_random_split(key, 3);
    mf_value a = mf_random_gamma(mf_get(keys, 0), alpha, MF_SHAPE0, MF_F32), b = mf_random_gamma(mf_get(keys, 1), alpha, MF_SHAPE0, MF_F32);
    mf_value l = mf_div(a, mf_maximum(mf_add(a, b), 1e-30)), order = mf_random_permutation(mf_get(keys, 2), mf_arange(n, MF_I32));
    return mf_tuple(mixed(l, images, order), mixed(l, labels, order));
}
