/* The public functions on shapes and indices: views that copy nothing, NumPy's indexing, and error messages. */
#include "check.h"

#include "array/array.h"
#include "tree/index.h"

#include <manyfold.h>

static const mf_array *array_of(mf_value v) { return (const mf_array *)mf_handle_get_as(v.handle, &mf_array_class); }

static bool shares(mf_value a, mf_value b)
{
    return array_of(a) && array_of(b) && array_of(a)->buffer && array_of(a)->buffer == array_of(b)->buffer;
}

static void check_numbers(mf_value v, int count, const double *want, const char *file, int line)
{
    double got[64];
    mf_status status = mf_to_host(v, MF_F64, got, (size_t)count);
    if (!check_true_(status == MF_OK, file, line, "numbers")) {
        CHECK_NOTE("%s", mf_error(v) ? mf_error(v) : "another size");
        return;
    }
    for (int i = 0; i < count; i++)
        check_near_(got[i], want[i], 0, file, line, "element");
}
#define CHECK_NUMBERS(v, ...) \
    check_numbers((v), (int)(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)), (const double[]){ __VA_ARGS__ }, __FILE__, __LINE__)
#define CHECK_ERROR(v, status, part)                    \
    do {                                                \
        mf_value checked = (v);                         \
        CHECK_EQ_INT(mf_error_status(checked), status); \
        CHECK_CONTAINS(mf_error(checked), part);        \
    } while (0)

static mf_value numbers(mf_shape shape)
{
    mf_shape flat = MF_SHAPE(1);
    for (int i = 0; i < shape.rank; i++)
        flat.dims[0] *= shape.dims[i];
    return mf_reshape(mf_astype(mf_arange(flat.dims[0], MF_I32), MF_F32), shape);
}

TEST(views_copy_nothing)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3, 4));
    mf_block_until_ready(x);
    CHECK(shares(x, mf_reshape(x, MF_SHAPE(6, -1))));
    CHECK(shares(x, mf_ravel(x)));
    CHECK(shares(x, mf_transpose(x, MF_INTS0)));
    CHECK(shares(x, mf_swapaxes(x, 0, -1)));
    CHECK(shares(x, mf_moveaxis(x, 0, 2)));
    CHECK(shares(x, mf_expand_dims(x, -1)));
    CHECK(shares(x, mf_squeeze(mf_expand_dims(x, 1), 1)));
    CHECK(shares(x, mf_get(x, 1)));
    CHECK(shares(x, mf_get(x, mf_range(0, 1), -1)));
    CHECK(shares(x, mf_slice_in_dim(x, 1, 3, 1, 2)));
    mf_value wide = mf_broadcast_to(x, MF_SHAPE(5, 2, 3, 4));
    CHECK(shares(x, wide));
    CHECK_EQ_INT(array_of(wide)->strides[0], 0);
}

TEST(views_have_the_right_elements)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3));
    CHECK_NUMBERS(mf_transpose(x, MF_INTS0), 0, 3, 1, 4, 2, 5);
    CHECK_NUMBERS(mf_reshape(mf_transpose(x, MF_INTS0), MF_SHAPE(2, 3)), 0, 3, 1, 4, 2, 5);
    CHECK_NUMBERS(mf_broadcast_to(mf_get(x, 1), MF_SHAPE(2, 3)), 3, 4, 5, 3, 4, 5);
    CHECK_NUMBERS(mf_expand_dims(mf_get(x, 0), 1), 0, 1, 2);
    CHECK_NUMBERS(mf_flip(x, mf_axes(0, 1)), 5, 4, 3, 2, 1, 0);
    CHECK_NUMBERS(mf_get(mf_split(x, 3, 1), 2), 2, 5);
    CHECK_NUMBERS(mf_stack(mf_list(mf_get(x, 0), mf_get(x, 1)), -1), 0, 3, 1, 4, 2, 5);
    CHECK_NUMBERS(mf_concatenate(mf_list(x, mf_get(x, mf_range(0, 1))), 0), 0, 1, 2, 3, 4, 5, 0, 1, 2);
    CHECK_NUMBERS(mf_pad(mf_get(x, 0), mf_f(9), MF_INTS(-1), MF_INTS(2), MF_INTS0), 1, 2, 9, 9);
}

TEST(small_arrays_live_in_themselves)
{
    MF_SCOPE;
    mf_value x = mf_array(MF_F32, MF_SHAPE(3), 1, 2, 3); /* 12 bytes */
    CHECK_NUMBERS(mf_get(x, mf_range(1, MF_END)), 2, 3);
    CHECK_NUMBERS(mf_broadcast_to(mf_get(x, -1), MF_SHAPE(2)), 3, 3);
    CHECK_NUMBERS(mf_expand_dims(x, 0), 1, 2, 3);
}

TEST(indexing)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3, 4));
    CHECK_NUMBERS(mf_get(x, 1, 2, 3), 23);
    CHECK_NUMBERS(mf_get(x, -1, 0), 12, 13, 14, 15);
    CHECK_NUMBERS(mf_get(x, 0, mf_range(1, MF_END), -1), 7, 11);
    CHECK_EQ_INT(mf_ndim(mf_get(x, mf_i(MF_NONE), 0)), 3);
    mf_value pick = mf_array(MF_I32, MF_SHAPE(2), 2, 0);
    CHECK_NUMBERS(mf_get(x, 1, pick, 0), 20, 12);
    CHECK_NUMBERS(mf_get(x, mf_range(0, MF_END), 1, pick), 6, 4, 18, 16);
    CHECK_EQ_INT(mf_dim(mf_get(x, 0, mf_range(0, 2), pick), 1), 2);
    CHECK_NUMBERS(mf_get(x, 1, mf_range(0, 2), pick), 14, 18, 12, 16); /* apart: their dimension comes first, as in NumPy */
    CHECK_NUMBERS(mf_get(x, pick, mf_range(0, 1), pick), 14, 0);       /* index 2 is clamped to 1 */
}

static mf_value pick_traced(mf_value x, mf_value i) { return mf_get(x, mf_range(0, MF_END), i, 1); }

TEST(traced_indices)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3, 4));
    CHECK_NUMBERS(mf_call(mf_jit(pick_traced), x, 2), 9, 21);
    CHECK_NUMBERS(mf_call(mf_jit(pick_traced), x, -2), 5, 17);
    CHECK_NUMBERS(mf_call(mf_jit(pick_traced), x, 7), 9, 21);
}

TEST(setting)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3));
    mf_value row[] = { mf_i(1) }, column[] = { mf_index_slice(mf_range(0, MF_END)), mf_i(-1) };
    CHECK_NUMBERS(mf_index_array_set(x, mf_f(9), row, 1), 0, 1, 2, 9, 9, 9);
    CHECK_NUMBERS(mf_index_array_set(x, mf_array(MF_I32, MF_SHAPE(2), 7, 8), column, 2), 0, 1, 7, 3, 4, 8);
    mf_value far[] = { mf_array(MF_I32, MF_SHAPE(2), 0, 5) };
    CHECK_NUMBERS(mf_index_array_set(x, mf_f(9), far, 1), 9, 9, 9, 3, 4, 5);
    CHECK_NUMBERS(mf_index_add(mf_zeros(MF_SHAPE(3), MF_I32), mf_array(MF_I32, MF_SHAPE(4), 1, 1, -1, 9), mf_f(2.5)), 0, 5, 2);
}

TEST(products_and_pools)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3));
    CHECK_NUMBERS(mf_matmul(x, mf_ones(MF_SHAPE(5, 3, 1), MF_F32)), 3, 12, 3, 12, 3, 12, 3, 12, 3, 12);
    mf_value one = mf_matmul(mf_reshape(x, MF_SHAPE(1, 2, 3)), mf_ones(MF_SHAPE(3, 1), MF_F32)); /* a batch of one */
    CHECK_NUMBERS(one, 3, 12);
    CHECK(mf_ndim(one) == 3 && mf_dim(one, 0) == 1 && mf_dim(one, 1) == 2);
    CHECK_NUMBERS(mf_matmul(mf_reshape(x, MF_SHAPE(1, 1, 2, 3)), mf_ones(MF_SHAPE(2, 3, 1), MF_F32)), 3, 12, 3, 12);
    CHECK_NUMBERS(mf_dot(x, 2), 0, 2, 4, 6, 8, 10);
    mf_value image = numbers(MF_SHAPE(1, 4, 4, 1));
    CHECK_NUMBERS(mf_max_pool(image, MF_INTS(2, 2), MF_INTS(2, 2)), 5, 7, 13, 15);
    CHECK_NUMBERS(mf_avg_pool(image, MF_INTS(2, 2), MF_INTS(2, 2)), 2.5, 4.5, 10.5, 12.5);
    mf_value kernel = mf_ones(MF_SHAPE(3, 3, 1, 1), MF_F32);
    CHECK_NUMBERS(mf_conv_general_dilated(image, kernel), 45, 54, 81, 90);
    CHECK_EQ_INT(mf_dim(mf_conv_general_dilated(image, kernel, .padding = MF_SAME), 1), 4);
}

TEST(errors_name_the_op_and_the_shapes)
{
    MF_SCOPE;
    mf_value x = numbers(MF_SHAPE(2, 3));
    CHECK_ERROR(mf_reshape(x, MF_SHAPE(4, -1)), MF_ERROR_SHAPE, "cannot reshape array of shape float32[2,3] (size 6) into shape (4, -1)");
    CHECK_ERROR(mf_broadcast_to(x, MF_SHAPE(2, 4)), MF_ERROR_SHAPE, "float32[2,3] cannot be broadcast to the shape (2, 4)");
    CHECK_ERROR(mf_add(x, mf_zeros(MF_SHAPE(4), MF_F32)), MF_ERROR_SHAPE, "incompatible shapes for broadcasting: float32[2,3], float32[4]");
    CHECK_ERROR(mf_get(x, 2), MF_ERROR_AXIS, "index 2 is out of bounds for axis 0 with size 2");
    CHECK_ERROR(mf_get(mf_zeros(MF_SHAPE(0, 3)), mf_array(MF_I32, MF_SHAPE(1), 0)), MF_ERROR_AXIS, "out of bounds for axis 0 with size 0");
    CHECK_EQ_INT(mf_dim(mf_get(mf_zeros(MF_SHAPE(0, 3)), mf_zeros(MF_SHAPE(2, 0), MF_I32)), 0), 2);
    CHECK_ERROR(mf_get(x, 0, 0, 0), MF_ERROR_AXIS, "too many indices");
    CHECK_ERROR(mf_expand_dims(x, 4), MF_ERROR_AXIS, "expand_dims: axis 4 is out of bounds");
    CHECK_ERROR(mf_squeeze(x, 0), MF_ERROR_SHAPE, "squeeze: axis 0 of float32[2,3] has a size other than one");
    CHECK_ERROR(mf_transpose(x, MF_INTS(0, 0)), MF_ERROR_AXIS, "transpose: axis 0 is named twice");
    CHECK_ERROR(mf_split(x, 2, 1), MF_ERROR_SHAPE, "split: axis 1 of float32[2,3] does not divide into 2 equal parts");
    CHECK_ERROR(mf_concatenate(mf_list(x, mf_zeros(MF_SHAPE(2, 2), MF_F32)), 0), MF_ERROR_SHAPE, "concatenate");
    CHECK_ERROR(mf_matmul(x, x), MF_ERROR_SHAPE, "matmul: incompatible shapes float32[2,3] and float32[2,3]");
    CHECK_ERROR(mf_take(x, mf_f(0.5), 0), MF_ERROR_DTYPE, "take: indices must be integers");
    CHECK_ERROR(mf_conv_general_dilated(x, x), MF_ERROR_SHAPE, "conv_general_dilated");
    CHECK_ERROR(mf_reshape(mf_tuple(x, x), MF_SHAPE(12)), MF_ERROR_ARGUMENT, "reshape");
    CHECK_ERROR(mf_max_pool(x, MF_INTS(2, 2)), MF_ERROR_SHAPE, "max_pool");
}

/* Computations with strides, dilations and paddings do not overflow: extreme values are refused, or leave no element or one. */
TEST(steps_as_large_as_anything)
{
    MF_SCOPE;
    static const int64_t large[] = { INT64_MAX, INT64_MAX - 5, (int64_t)1 << 62, (int64_t)1 << 33 };
    mf_value x = numbers(MF_SHAPE(6)), image = numbers(MF_SHAPE(1, 3, 4, 1)), kernel = mf_ones(MF_SHAPE(2, 2, 1, 1), MF_F32);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        int64_t n = large[i];
        CHECK_ERROR(mf_reduce_window_sum(x, .window = MF_INTS(n)), MF_ERROR_ARGUMENT, "window: entry 0 is");
        CHECK_ERROR(mf_reduce_window_max(x, .window = MF_INTS(2), .strides = MF_INTS(n), .padding = MF_SAME), MF_ERROR_ARGUMENT, "strides");
        CHECK_ERROR(mf_reduce_window_max(x, .window = MF_INTS(2), .padding_low = MF_INTS(-n)), MF_ERROR_ARGUMENT, "padding_low");
        CHECK_ERROR(mf_reduce_window_min(x, .window = MF_INTS(3), .window_dilation = MF_INTS(n)), MF_ERROR_ARGUMENT, "window_dilation");
        CHECK_ERROR(mf_reduce_window_min(x, .window = MF_INTS(3), .base_dilation = MF_INTS(n)), MF_ERROR_ARGUMENT, "base_dilation");
        CHECK_ERROR(mf_avg_pool(image, MF_INTS(n, n)), MF_ERROR_ARGUMENT, "window");
        CHECK_ERROR(mf_conv_general_dilated(image, kernel, .lhs_dilation = MF_INTS(n, 1)), MF_ERROR_ARGUMENT, "lhs_dilation");
        CHECK_ERROR(mf_conv_general_dilated(image, kernel, .padding_low = MF_INTS(n, 0), .padding_high = MF_INTS(n, 0)), MF_ERROR_ARGUMENT,
                    "padding_low");
        CHECK_ERROR(mf_conv_general_dilated(image, kernel, .feature_group_count = n), MF_ERROR_SHAPE, "feature_group_count");
        CHECK_NUMBERS(mf_slice_in(x, MF_INTS(1), MF_INTS(6), MF_INTS(n)), 1);
        CHECK_NUMBERS(mf_get(x, ((mf_slice){ true, 1, MF_END, n })), 1);
    }
    CHECK_ERROR(mf_pad(x, 0.0, MF_INTS(INT64_MAX), MF_INTS(0), MF_INTS(0)), MF_ERROR_SHAPE, "pad: dimension 0 would be too large");
    CHECK_ERROR(mf_pad(x, 0.0, MF_INTS(0), MF_INTS(0), MF_INTS(INT64_MAX)), MF_ERROR_SHAPE, "pad: dimension 0 would be too large");
    CHECK_ERROR(mf_repeat(x, INT64_MAX, 0), MF_ERROR_SHAPE, "too many");
    CHECK_NUMBERS(mf_reduce_window_sum(x, .window = MF_INTS(2), .strides = MF_INTS((int64_t)1 << 31), .padding_low = MF_INTS(1)), 0);
    CHECK_NUMBERS(mf_reduce_window_sum(mf_flip(x, 0), .window = MF_INTS(2), .base_dilation = MF_INTS((int64_t)1 << 31),
                                       .strides = MF_INTS((int64_t)1 << 31), .padding_low = MF_INTS(1), .padding_high = MF_INTS(0)),
                  5, 4, 3, 2, 1, 0);
}
