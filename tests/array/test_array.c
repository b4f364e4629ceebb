/* Arrays: creation, views, copies, deletion, reading; and futures that fail. */
#include "array/array.h"
#include "check.h"

#include <manyfold/array.h>

TEST(small_arrays_live_in_themselves)
{
    int64_t before = mf_memory_read().requests;
    mf_array *a = mf_array_scalar_f64(MF_BF16, true, 1.5), *b = mf_array_new(mf_type_get(MF_F32, false, 1, (const int64_t[]){ 4 }));
    CHECK_EQ_INT(mf_memory_read().requests, before);
    CHECK(a->buffer == NULL && b->buffer == NULL);
    CHECK_NEAR(mf_load_f64(MF_BF16, mf_array_data(a)), 1.5, 0);
    mf_array *c = mf_array_new(mf_type_get(MF_F32, false, 1, (const int64_t[]){ 5 }));
    CHECK(c->buffer && (uintptr_t)mf_array_data(c) % 64 == 0);
    mf_drop(a);
    mf_drop(b);
    mf_drop(c);
}

TEST(views_share_and_copy_row_by_row)
{
    mf_array *a = mf_array_new(mf_type_get(MF_I32, false, 3, (const int64_t[]){ 2, 3, 4 }));
    for (int i = 0; i < 24; i++)
        ((int32_t *)mf_array_data(a))[i] = i;
    const int64_t strides[] = { 4, 48, 16 };
    mf_array *turned = mf_array_view(a, mf_type_get(MF_I32, false, 3, (const int64_t[]){ 4, 2, 3 }), 0, strides, a->sharding);
    CHECK(!mf_array_is_contiguous(turned) && mf_array_is_contiguous(a));
    mf_drop(a);
    int32_t out[24];
    double wide[24];
    CHECK(mf_array_copy_out(turned, MF_I32, out) == NULL);
    CHECK(mf_array_copy_out(turned, MF_F64, wide) == NULL);
    int wrong = 0;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 3; k++)
                wrong += out[i * 6 + j * 3 + k] != j * 12 + k * 4 + i || (int)wide[i * 6 + j * 3 + k] != j * 12 + k * 4 + i;
    CHECK_EQ_INT(wrong, 0);
    mf_array *rows = mf_array_contiguous(turned);
    CHECK(mf_array_is_contiguous(rows));
    CHECK_BYTES(mf_array_data(rows), out, sizeof out);
    mf_drop(rows);
    mf_drop(turned);
}

TEST(held_once)
{
    MF_SCOPE;
    mf_value ones = mf_ones(MF_SHAPE(1000, 1000, 1000), MF_F32);
    CHECK_EQ_INT(((mf_array *)mf_object_of(ones))->buffer == NULL, 1);
    float out[6];
    CHECK_EQ_INT(mf_to_host(mf_ones(MF_SHAPE(2, 3), MF_F32), MF_F32, out, 6), MF_OK);
    for (int i = 0; i < 6; i++)
        CHECK_NEAR((double)out[i], 1, 0);
    CHECK_EQ_INT(mf_to_host(mf_zeros(MF_SHAPE(3, 0), MF_I8), MF_I8, out, 0), MF_OK);
}

TEST(makers)
{
    MF_SCOPE;
    int32_t i[4];
    float f[5];
    CHECK_EQ_INT(mf_to_host(mf_arange(4), MF_I32, i, 4), MF_OK);
    CHECK_EQ_INT(i[3], 3);
    CHECK_EQ_INT(mf_to_host(mf_linspace(0, 1, 5), MF_F32, f, 5), MF_OK);
    CHECK(f[0] == 0 && f[1] == 0.25f && f[4] == 1);
    CHECK_EQ_INT(mf_to_host(mf_eye(2, MF_BF16), MF_F32, f, 4), MF_OK);
    CHECK(f[0] == 1 && f[1] == 0 && f[2] == 0 && f[3] == 1);
    CHECK_EQ_INT(mf_to_host(mf_eye(2, .columns = 1), MF_F32, f, 2), MF_OK);
    CHECK(f[0] == 1 && f[1] == 0);
    CHECK_EQ_INT(mf_dtype_of(mf_ones(MF_SHAPE(2))), MF_F32);
    CHECK_EQ_INT(mf_dtype_of(mf_zeros(MF_SHAPE(2), .dtype = MF_I8)), MF_I8);
    CHECK_NEAR(mf_item_f64(mf_scalar(0.1, MF_F16)), 0.0999755859375, 0);
    CHECK_EQ_INT(mf_item_i64(mf_i(3000000000)), 3000000000);
    CHECK_EQ_UINT((uint64_t)mf_item_i64(mf_of_ullong(UINT64_MAX)), UINT64_MAX);
    CHECK(mf_item_bool(mf_array(MF_I32, MF_SHAPE(1, 1), -3)));
    CHECK_CONTAINS(mf_error(mf_array(MF_F32, MF_SHAPE(2), 1, 2, 3)), "3 numbers for float32[2]");
    CHECK_EQ_INT(mf_item_i64(mf_array(MF_I64, MF_SHAPE(1), 0x1p63)), INT64_MAX);
    CHECK_EQ_INT(mf_item_i64(mf_array(MF_U8, MF_SHAPE(1), 255.5)), 255);
    CHECK_CONTAINS(mf_error(mf_array(MF_U8, MF_SHAPE(2), 1, 300)), "mf_array: 300 is out of bounds for uint8");
    CHECK_CONTAINS(mf_error(mf_array(MF_U32, MF_SHAPE(1), -1)), "-1 is out of bounds for uint32");
    CHECK_CONTAINS(mf_error(mf_array(MF_I32, MF_SHAPE(1), 1e10)), "out of bounds for int32");
    CHECK_CONTAINS(mf_error(mf_scalar(0.0 / 0.0, MF_I32)), "nan is out of bounds for int32");
    CHECK_CONTAINS(mf_error(mf_zeros((mf_shape){ .rank = 9 })), "of rank 9");
    CHECK_CONTAINS(mf_error(mf_zeros(MF_SHAPE(-1), MF_F32)), "is -1");
    CHECK_CONTAINS(mf_error(mf_zeros(MF_SHAPE(INT64_MAX, INT64_MAX), MF_F32)), "too large");
    CHECK_CONTAINS(mf_error(mf_from_host((mf_dtype)99, MF_SHAPE(1), i)), "no dtype");
    CHECK_CONTAINS(mf_error(mf_from_host(MF_DTYPE_DEFAULT, MF_SHAPE(1), i)), "no default");
}

TEST(reading_what_is_none)
{
    MF_SCOPE;
    const char *message;
    CHECK(isnan(mf_item_f64(mf_zeros(MF_SHAPE(2), MF_F32))));
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_SHAPE);
    CHECK_CONTAINS(message, "only an array of one element is a number; this one is float32[2]");
    CHECK_EQ_INT(mf_item_i64(mf_string("s")), 0);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_ARGUMENT);
    int32_t out[3];
    CHECK_EQ_INT(mf_to_host(mf_arange(4, MF_I32), MF_I32, out, 3), MF_ERROR_SHAPE);
    CHECK_EQ_INT(mf_first_error(&message), MF_ERROR_SHAPE);
    mf_value error = mf_make_error(MF_ERROR_IO, "lost");
    CHECK_EQ_INT(mf_to_host(error, MF_I32, out, 3), MF_ERROR_IO);
    CHECK_STR(mf_error(error), "lost");
    CHECK_EQ_INT(mf_first_error(&message), MF_OK);
}

TEST(deleting)
{
    MF_SCOPE;
    mf_value v = mf_from_host(MF_F32, MF_SHAPE(100), (const float[100]){ 0 });
    int64_t live = mf_memory_read().live_bytes;
    CHECK(!mf_is_deleted(v));
    CHECK_EQ_INT(mf_delete(v), MF_OK);
    CHECK(mf_is_deleted(v));
    CHECK(mf_memory_read().live_bytes < live);
    CHECK(mf_is_error(v));
    CHECK_STR(mf_error(v), "Array has been deleted with shape=float32[100].");
    CHECK_EQ_INT(mf_error_status(v), MF_ERROR_DONATED);
    CHECK_EQ_INT(mf_delete(mf_string("s")), MF_ERROR_ARGUMENT);
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_ARGUMENT);
}

/* ---- a test's own future, which ends when it is waited for */

static void fail_now(mf_future *f)
{
    f->error = mf_error_new(MF_ERROR_PEER, "rank 1 is gone");
    atomic_store(&f->state, 2);
}
static void drop_error(mf_object *o) { mf_drop(((mf_future *)o)->error); }
static const mf_class test_future = { "future", drop_error };

TEST(a_failure_surfaces_as_the_values_error)
{
    MF_SCOPE;
    mf_array *a = mf_array_new(mf_type_scalar(MF_F32, false));
    a->future = mf_object_new(&test_future, sizeof(mf_future));
    a->future->wait = fail_now;
    mf_value v = mf_value_new(a);
    CHECK_EQ_INT(mf_block_until_ready(v), MF_ERROR_PEER);
    CHECK(mf_is_error(v));
    CHECK_STR(mf_error(v), "rank 1 is gone");
    CHECK(isnan(mf_item_f64(v)));
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK); /* it was handled */
}

TEST(copies_between_layouts)
{
    int32_t in[60], out[60], expected[60];
    for (int i = 0; i < 60; i++)
        in[i] = i;
    memset(out, 0, sizeof out);
    mf_copy_strided(3, (const int64_t[]){ 3, 4, 5 }, 4, out, (const int64_t[]){ 80, 20, 4 }, in, (const int64_t[]){ 4, 12, 48 });
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 5; k++)
                expected[i * 20 + j * 5 + k] = in[i + 3 * j + 12 * k];
    CHECK_BYTES(out, expected, sizeof out);
    mf_copy_strided(0, NULL, 4, out, NULL, in + 7, NULL);
    CHECK_EQ_INT(out[0], 7);
    mf_copy_strided(2, (const int64_t[]){ 0, 5 }, 4, out, (const int64_t[]){ 4, 4 }, in, (const int64_t[]){ 4, 4 });
}

TEST(placements_are_interned)
{
    const int devices[] = { 0, 1, 2, 3 }, axes[] = { 0 };
    const mf_client *cpu = &mf_client_cpu;
    static const mf_client other;
    CHECK(mf_sharding_get(cpu, 1, axes, 4, devices) == mf_sharding_get(cpu, 1, axes, 4, devices));
    CHECK(mf_sharding_get(cpu, 1, axes, 4, devices) != mf_sharding_get(cpu, 0, NULL, 4, devices));
    CHECK(mf_sharding_single(cpu, 3) == mf_sharding_get(cpu, 0, NULL, 1, devices + 3));
    CHECK(mf_sharding_single(cpu, 3) != mf_sharding_single(&other, 3));
    CHECK(mf_sharding_single(cpu, 700)->devices[0] == 700);
}
