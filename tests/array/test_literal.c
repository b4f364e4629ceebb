/* Literals: the contents of an array in separate host memory, which outlives the array and costs no second copy. */
#include "array/literal.h"
#include "check.h"

#include <manyfold/array.h>
#include <manyfold/function.h>
#include <manyfold/numpy.h>
#include <manyfold/transforms.h>

static mf_literal *literal_of(mf_value v)
{
    mf_error_object *error = NULL;
    mf_literal *l = mf_literal_of((mf_array *)mf_object_of(v), &error);
    CHECK(l && !error);
    return l;
}

TEST(the_literal_of_an_array_shares_its_memory_and_outlives_it)
{
    MF_SCOPE;
    mf_value v = mf_arange(1000, MF_F32);
    const void *at = mf_unsafe_buffer_pointer(v);
    int64_t before = mf_memory_read().requests;
    mf_literal *l = literal_of(v), *rows = mf_literal_contiguous(l);
    mf_array *again = mf_literal_array(l);
    CHECK_EQ_INT(mf_memory_read().requests, before);
    CHECK(l->data == at && rows == l && mf_literal_is_contiguous(l));
    CHECK_EQ_INT(mf_delete(v), MF_OK);
    float out[1000];
    CHECK(mf_array_copy_out(again, MF_F32, out) == NULL);
    CHECK_NEAR((double)out[999], 999, 0);
    CHECK_NEAR((double)((const float *)(const void *)l->data)[7], 7, 0);
    mf_error_object *error = NULL;
    CHECK(!mf_literal_of((mf_array *)mf_object_of(v), &error) && error && error->status == MF_ERROR_DONATED);
    mf_error_ignore(error);
    mf_drop(again);
    mf_drop(rows);
    mf_drop(l);
}

TEST(small_literals_are_the_same_by_their_bits)
{
    mf_literal *a = mf_literal_number(MF_F32, false, 0), *b = mf_literal_number(MF_F32, false, 0),
               *c = mf_literal_number(MF_F32, false, -0.0), *weak = mf_literal_number(MF_F32, true, 0);
    CHECK(mf_literal_same(a, b) && !mf_literal_same(a, c) && !mf_literal_same(a, weak));
    CHECK(a->buffer == NULL);
    mf_drop(a);
    mf_drop(b);
    mf_drop(c);
    mf_drop(weak);
}

TEST(what_is_held_once_stays_so_until_rows_are_wanted)
{
    MF_SCOPE;
    mf_literal *l = literal_of(mf_full(MF_SHAPE(4, 5), mf_scalar(2.5, MF_F64))), *rows = mf_literal_contiguous(l);
    CHECK(!mf_literal_is_contiguous(l) && !l->buffer && rows != l && mf_literal_is_contiguous(rows));
    int wrong = 0;
    for (int i = 0; i < 20; i++)
        wrong += !(((const double *)(const void *)rows->data)[i] == 2.5);
    CHECK_EQ_INT(wrong, 0);
    mf_drop(rows);
    mf_drop(l);
}

TEST(a_number_keeps_its_digits)
{
    MF_SCOPE;
    mf_literal *l = literal_of(mf_f(0.1));
    mf_array *a = mf_literal_array(l);
    double x = 0;
    CHECK(mf_array_element_as(a, MF_F64, &x) == NULL && x == 0.1);
    mf_drop(a);
    mf_drop(l);
}

static mf_value captured;
static mf_value add_captured(mf_value x) { return mf_add(x, captured); }

TEST(a_large_constant_is_in_memory_once)
{
    MF_SCOPE;
    captured = mf_mul(mf_arange(1 << 20, MF_F32), mf_f(2));
    mf_value x = mf_zeros(MF_SHAPE(1), MF_F32);
    CHECK_EQ_INT(mf_block_until_ready(captured), MF_OK);
    mf_memory_reset_peak();
    int64_t before = mf_memory_read().live_bytes;
    mf_value y = mf_call(mf_jit(add_captured), x);
    CHECK_EQ_INT(mf_block_until_ready(y), MF_OK);
    CHECK(mf_memory_read().peak_bytes - before < 2 * (4 << 20)); /* the result, but no copy of the constant */
    CHECK_EQ_INT(mf_delete(captured), MF_OK);
    CHECK_NEAR(mf_item_f64(mf_sum(mf_call(mf_jit(add_captured), x))), (double)(1 << 20) * ((1 << 20) - 1), 1e9);
}
