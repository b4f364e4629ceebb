/* mf_make_grid: many images in one, as torchvision's make_grid. Uses the public API only. */
#include <manyfold.h>

/* Returns unset, or an error about the arguments. */
static mf_value check_grid(mf_value images, const mf_make_grid_options *o)
{
    mf_shape s = mf_shape_of(images);
    if (s.rank != 3 && s.rank != 4)
        return mf_make_error(MF_ERROR_SHAPE, "mf_make_grid: expected images of shape (n, h, w) or (n, h, w, channels), got %s",
                             mf_str_shape(s));
    if (s.dims[0] < 1)
        return mf_make_error(MF_ERROR_SHAPE, "mf_make_grid: there is no image in %s", mf_str_shape(s));
    if (o->nrow < 1)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_make_grid: nrow is %lld, expected at least 1", (long long)o->nrow);
    if (o->padding < 0 || o->padding > INT32_MAX)
        return mf_make_error(MF_ERROR_ARGUMENT, "mf_make_grid: padding is %lld, expected 0 to 2147483647", (long long)o->padding);
    return (mf_value){ 0 };
}

/* Each image is padded above and to its left; the whole grid is then padded below and to the right. */
mf_value(mf_make_grid_opt)(mf_value images, const mf_make_grid_options *o)
{
    MF_LAYER;
    if (mf_is_error(images))
        return images;
    mf_value wrong = check_grid(images, o);
    if (wrong.handle)
        return wrong;
    mf_shape s = mf_shape_of(images);
    int64_t count = s.dims[0], p = o->padding, channels = s.rank == 4 ? s.dims[3] : 1;
    int64_t columns = count < o->nrow ? count : o->nrow, rows = (count - 1) / columns + 1;
    int64_t height = s.dims[1] + p, width = s.dims[2] + p;
    mf_value value = mf_scalar(o->pad_value, mf_dtype_of(images)),
             four = mf_reshape(images, MF_SHAPE(count, s.dims[1], s.dims[2], channels));
    mf_value tiles = mf_pad(four, value, MF_INTS(0, p, p, 0), MF_INTS(rows * columns - count, 0, 0, 0), MF_INTS(0, 0, 0, 0));
    tiles = mf_transpose(mf_reshape(tiles, MF_SHAPE(rows, columns, height, width, channels)), MF_INTS(0, 2, 1, 3, 4));
    mf_value whole = mf_reshape(tiles, MF_SHAPE(rows * height, columns * width, channels));
    whole = mf_pad(whole, value, MF_INTS(0, 0, 0), MF_INTS(p, p, 0), MF_INTS(0, 0, 0));
    return s.rank == 4 ? whole : mf_squeeze(whole, -1);
}
