/* Image grids: the position of each image, the padding, that a file of a grid has the same pixels, and invalid images. */
#include "check.h"

#include <manyfold.h>

#include <sys/stat.h>
#include <unistd.h>

/* All pixels of image i are i + 1. */
static mf_value images(int64_t count, int64_t height, int64_t width, mf_dtype dtype)
{
    mf_value numbers = mf_reshape(mf_astype(mf_arange(count, MF_I32), dtype), MF_SHAPE(count, 1, 1));
    return mf_broadcast_to(mf_add(numbers, 1), MF_SHAPE(count, height, width));
}

TEST(images_stand_in_rows)
{
    MF_SCOPE;
    mf_value grid = mf_make_grid(images(3, 1, 2, MF_I32), .nrow = 2, .padding = 1, .pad_value = 9);
    CHECK_STR(mf_str(grid), "[[9 9 9 9 9 9 9]\n"
                            " [9 1 1 9 2 2 9]\n"
                            " [9 9 9 9 9 9 9]\n"
                            " [9 3 3 9 9 9 9]\n"
                            " [9 9 9 9 9 9 9]]");
    CHECK_STR(mf_str(mf_make_grid(images(3, 1, 2, MF_U8), .nrow = 2, .padding = 0)), "[[1 1 2 2]\n"
                                                                                     " [3 3 0 0]]");
    CHECK_STR(mf_str(mf_shape_of(mf_make_grid(images(20, 5, 3, MF_F32)))), "(23, 42)"); /* rows of 8 images, 2 pixels between them */
    CHECK_STR(mf_str(mf_shape_of(mf_make_grid(images(2, 5, 3, MF_F32)))), "(9, 12)");   /* no wider than there are images */
}

TEST(channels_stay_together)
{
    MF_SCOPE;
    mf_value colours = mf_reshape(mf_arange(2 * 1 * 1 * 3, MF_F32), MF_SHAPE(2, 1, 1, 3));
    mf_value grid = mf_make_grid(colours, .padding = 0);
    CHECK_STR(mf_str(grid), "[[[0. 1. 2.]\n"
                            "  [3. 4. 5.]]]");
    mf_value traced = mf_call(mf_jit(mf_fn(mf_sum)), mf_make_grid(colours, .padding = 1, .pad_value = 0.5));
    CHECK_NEAR(mf_item_f64(traced), 15 + 0.5 * 3 * (3 * 5 - 2), 1e-6);
}

TEST(a_file_has_the_same_pixels)
{
    MF_SCOPE;
    char folder[] = "/tmp/mf_grid_XXXXXX", path[64];
    REQUIRE(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/grid.png", folder);
    mf_value grid = mf_make_grid(mf_mul(images(5, 2, 3, MF_U8), 40), .nrow = 3);
    CHECK_EQ_INT(mf_save_png(path, grid), MF_OK);
    mf_loader *l = mf_loader_open_source(mf_source_images(folder, .channels = 1), .batch_size = 1);
    mf_value batch;
    if (CHECK(mf_loader_next(l, &batch)) && CHECK_STR(mf_error(batch), NULL)) {
        mf_value read = mf_reshape(mf_get(batch, "image"), mf_shape_of(grid));
        CHECK(mf_item_bool(mf_all(mf_equal(read, grid))));
    }
    mf_loader_close(l);
    unlink(path);
    rmdir(folder);
}

TEST(wrong_images_and_numbers_are_errors)
{
    MF_SCOPE;
    CHECK_STR(mf_error(mf_make_grid(mf_ones(MF_SHAPE(4, 4), MF_F32))),
              "mf_make_grid: expected images of shape (n, h, w) or (n, h, w, channels), got (4, 4)");
    CHECK_STR(mf_error(mf_make_grid(mf_ones(MF_SHAPE(0, 4, 4), MF_F32))), "mf_make_grid: there is no image in (0, 4, 4)");
    CHECK_STR(mf_error(mf_make_grid(images(2, 2, 2, MF_F32), .nrow = 0)), "mf_make_grid: nrow is 0, expected at least 1");
    CHECK_STR(mf_error(mf_make_grid(images(2, 2, 2, MF_F32), .padding = -1)), "mf_make_grid: padding is -1, expected 0 to 2147483647");
    CHECK_EQ_INT(mf_error_status(mf_make_grid(mf_list(1, 2))), MF_ERROR_SHAPE);
    CHECK_CONTAINS(mf_error(mf_make_grid(mf_make_error(MF_ERROR_IO, "no file"))), "no file");
}
