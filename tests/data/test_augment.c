/* Augmentation: the same draws as jax.random from the same keys (tests/oracle/augment.py), in jit, vmap, pmap and grad; and invalid
 * calls. */
#include "check.h"

#include <manyfold.h>

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "4", 1); }

static mf_value known(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/oracle/augment.npz", MF_TESTS_DIR);
    return mf_get(mf_load_npz(path), name);
}

static void check_same(mf_value got, mf_value expected)
{
    if (!CHECK(!mf_is_error(got)))
        CHECK_NOTE("%s", mf_error(got));
    CHECK_EQ_INT(mf_dtype_of(got), mf_dtype_of(expected));
    CHECK(mf_item_bool(mf_array_equal(got, expected)));
}

static mf_value crop(mf_value key, mf_value x) { return mf_augment_crop(key, x, .padding = 3); }
static mf_value smaller(mf_value key, mf_value x) { return mf_augment_crop(key, x, .height = 4, .width = 5); }
static mf_value flip(mf_value key, mf_value x) { return mf_augment_flip(key, x); }
static mf_value cutout(mf_value key, mf_value x) { return mf_augment_cutout(key, x, 3); }

TEST(draws_are_those_of_jax)
{
    MF_SCOPE;
    mf_value images = known("images"), floats = known("floats");
    check_same(crop(mf_random_key(1), images), known("crop"));
    check_same(mf_call(mf_jit(crop), mf_random_key(1), images), known("crop"));
    check_same(mf_call(mf_jit(smaller), mf_random_key(2), floats), known("crop_4_5"));
    check_same(mf_call(mf_jit(flip), mf_random_key(3), images), known("flip"));
    check_same(mf_call(mf_jit(cutout), mf_random_key(4), floats), known("cutout"));
    check_same(mf_augment_flip(mf_random_key(3), images, 0.0), images);
    check_same(mf_augment_flip(mf_random_key(3), images, 1.0), mf_flip(images, 2));
    check_same(mf_augment_cutout(mf_random_key(3), images, 0), images);
    check_same(mf_augment_cutout(mf_random_key(3), images, 99), mf_zeros_like(images));
}

/* The weight's draw has two roundings in f32, and the mixture has two. */
TEST(mixtures_are_those_of_jax)
{
    MF_SCOPE;
    mf_value images, labels;
    mf_unpack(mf_augment_mixup(mf_random_key(5), known("floats"), known("labels"), 0.4), &images, &labels);
    CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(images, known("mixed_images"))))) < 1e-5);
    CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(labels, known("mixed_labels"))))) < 1e-5);
    CHECK_NEAR(mf_item_f64(mf_sum(labels)), 5, 1e-6);
}

/* Weights in f32, compared with rounded ones in double: a dozen, up to 1.3, times pixels below 1. */
static void check_near(mf_value got, mf_value expected, double most)
{
    CHECK_EQ_INT(mf_dtype_of(got), mf_dtype_of(expected));
    if (!CHECK(mf_item_f64(mf_max(mf_abs(mf_sub(got, expected)))) <= most))
        CHECK_NOTE("%s instead of %s", mf_str(got), mf_str(expected));
}

static mf_value widened(mf_value x) { return mf_image_resize(x, MF_SHAPE(5, 4, 11, 2), MF_RESIZE_LINEAR); }
static mf_value resized_total(mf_value x) { return mf_sum(mf_image_resize(x, MF_SHAPE(3), MF_RESIZE_CUBIC, .no_antialias = true)); }

TEST(sizes_are_those_of_jax)
{
    MF_SCOPE;
    static const struct {
        mf_resize_method method;
        const char *name, *plain;
    } cases[] = { { MF_RESIZE_LINEAR, "resize_linear", "resize_linear_plain" },
                  { MF_RESIZE_CUBIC, "resize_cubic", "resize_cubic_plain" },
                  { MF_RESIZE_LANCZOS3, "resize_lanczos3", "resize_lanczos3_plain" },
                  { MF_RESIZE_LANCZOS5, "resize_lanczos5", "resize_lanczos5_plain" },
                  { MF_RESIZE_NEAREST, "resize_nearest", "resize_nearest_plain" } };
    mf_value x = known("floats"), bytes = known("images");
    for (int i = 0; i < 5; i++) {
        check_near(mf_image_resize(x, MF_SHAPE(5, 4, 11, 2), cases[i].method), known(cases[i].name), 5e-6);
        check_near(mf_image_resize(x, MF_SHAPE(5, 2, 5, 2), cases[i].method, .no_antialias = true), known(cases[i].plain), 5e-6);
    }
    check_near(mf_image_resize(bytes, MF_SHAPE(5, 3, 3, 2), MF_RESIZE_LINEAR), known("resize_bytes"), 1e-3);
    check_near(mf_call(mf_jit(widened), x), known("resize_linear"), 5e-6);
    check_same(mf_image_resize(bytes, MF_SHAPE(5, 6, 7, 2), MF_RESIZE_NEAREST), bytes);
    CHECK_EQ_INT(mf_dtype_of(mf_image_resize(bytes, MF_SHAPE(5, 1, 1, 2), MF_RESIZE_NEAREST)), MF_U8);
    CHECK_STR(mf_str(mf_image_resize(mf_less(mf_arange(2, MF_I32), 1), MF_SHAPE(4), MF_RESIZE_NEAREST)), "[ True  True False False]");
    CHECK_NEAR(mf_item_f64(mf_sum(mf_call(mf_grad(resized_total), mf_ones(MF_SHAPE(4), MF_F32)))), 3,
               1e-5); /* the weights of a pixel add up to 1 */
}

TEST(sizes_that_cannot_be)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(2, 3, 3, 1), MF_F32);
    CHECK_CONTAINS(mf_error(mf_image_resize(x, MF_SHAPE(2, 3, 3), MF_RESIZE_LINEAR)), "cannot become");
    CHECK_CONTAINS(mf_error(mf_image_resize(x, MF_SHAPE(2, 0, 3, 1), MF_RESIZE_LINEAR)), "none empty");
    CHECK_CONTAINS(mf_error(mf_image_resize(x, MF_SHAPE(2, -1, 3, 1), MF_RESIZE_LINEAR)), "none empty");
    CHECK_CONTAINS(mf_error(mf_image_resize(x, MF_SHAPE(2, 3, 4, 1), (mf_resize_method)9)), "is no method");
    CHECK_CONTAINS(mf_error(mf_image_resize(mf_ones(MF_SHAPE(2), MF_BOOL), MF_SHAPE(3), MF_RESIZE_LINEAR)), "real numbers");
    CHECK_CONTAINS(mf_error(mf_image_resize(mf_ones(MF_SHAPE(1 << 20), MF_F32), MF_SHAPE(INT32_MAX - 1), MF_RESIZE_LINEAR)), "weights");
}

TEST(normalisation)
{
    MF_SCOPE;
    mf_value x = mf_astype(mf_reshape(mf_array(MF_F32, MF_SHAPE(4), 0, 51, 102, 255), MF_SHAPE(1, 1, 2, 2)), MF_U8);
    mf_value got = mf_augment_normalize(x, mf_array(MF_F32, MF_SHAPE(2), 0, 0.2), mf_array(MF_F32, MF_SHAPE(2), 1, 0.5));
    CHECK_EQ_INT(mf_dtype_of(got), MF_F32);
    CHECK_NEAR(mf_item_f64(mf_get(got, 0, 0, 1, 0)), 0.4, 1e-6);
    CHECK_NEAR(mf_item_f64(mf_get(got, 0, 0, 0, 1)), 0, 1e-6);
    CHECK_NEAR(mf_item_f64(mf_get(got, 0, 0, 1, 1)), 1.6, 1e-6);
    CHECK_EQ_INT(mf_dtype_of(mf_augment_normalize(mf_astype(x, MF_BF16), 0.5, 0.5)), MF_BF16);
}

static mf_value step(mf_value key, mf_value x)
{
    key = mf_random_fold_in(key, mf_axis_index("i"));
    mf_value keys = mf_random_split(key, 3);
    x = mf_augment_crop(mf_get(keys, 0), x, .padding = 2);
    x = mf_augment_flip(mf_get(keys, 1), x);
    return mf_augment_cutout(mf_get(keys, 2), x, 2);
}

static mf_value alone(void *index, mf_value key, mf_value x)
{
    key = mf_random_fold_in(key, *(int *)index);
    mf_value keys = mf_random_split(key, 3);
    return mf_augment_cutout(mf_get(keys, 2), mf_augment_flip(mf_get(keys, 1), mf_augment_crop(mf_get(keys, 0), x, .padding = 2)), 2);
}

TEST(each_device_has_draws_of_its_own)
{
    MF_SCOPE;
    mf_value floats = mf_get(known("floats"), mf_range(0, 4)), key = mf_random_key(8);
    mf_value parts = mf_shard_batch(floats, 4), got = mf_call(mf_pmap(step, "i", .in_axes = mf_axes(MF_NONE, 0)), key, parts);
    for (int d = 0; d < 4; d++)
        check_same(mf_get(got, d), mf_call(mf_closure(alone, &d), key, mf_get(parts, d)));
}

static mf_value total(mf_value x) { return mf_sum(mf_mul(crop(mf_random_key(1), x), 2.0)); }

/* The gradient of a pixel is its weight if it is in the crop, else 0. */
TEST(gradients_go_through)
{
    MF_SCOPE;
    mf_value floats = known("floats"), g = mf_call(mf_grad(total), floats);
    mf_value kept = mf_sum(crop(mf_random_key(1), mf_ones_like(floats)));
    CHECK_NEAR(mf_item_f64(mf_sum(g)), 2 * mf_item_f64(kept), 0);
    CHECK_NEAR(mf_item_f64(mf_max(g)), 2, 0);
}

TEST(what_does_not_fit_is_an_error)
{
    MF_SCOPE;
    mf_value key = mf_random_key(1), x = mf_ones(MF_SHAPE(2, 4, 4, 1), MF_F32), y = mf_ones(MF_SHAPE(3, 2), MF_F32);
    CHECK_CONTAINS(mf_error(mf_augment_crop(key, mf_f(1), .padding = 1)),
                   "mf_augment_crop: expected images of shape (n, h, w, c), found ()");
    CHECK_CONTAINS(mf_error(mf_augment_crop(key, x, .height = 5)), "5 by 4 pixels cannot be cut out of 4 by 4 with a padding of 0");
    CHECK_CONTAINS(mf_error(mf_augment_crop(key, x, .padding = -1)), "with a padding of -1");
    CHECK_CONTAINS(mf_error(mf_augment_cutout(key, x, -1)), "a square of -1 pixels");
    CHECK_CONTAINS(mf_error(mf_augment_mixup(key, x, y)), "2 images with labels of shape (3, 2)");
    CHECK_CONTAINS(mf_error(mf_augment_mixup(key, x, mf_zeros(MF_SHAPE(2), MF_I32))), "images and labels of floats");
    CHECK_CONTAINS(mf_error(mf_augment_mixup(key, x, mf_ones(MF_SHAPE(2, 2), MF_F32), 0.0)), "positive alpha");
    CHECK_CONTAINS(mf_error(mf_augment_flip(mf_f(1), x)), "a random key is uint32[2]");
    CHECK_CONTAINS(mf_error(mf_augment_flip(mf_random_split(mf_random_key(0)), x)), "uint32[2,2]: take one of these keys by mf_get");
    CHECK_STR(mf_error(mf_augment_flip(key, mf_make_error(MF_ERROR_SHAPE, "of before"))), "of before");
}
