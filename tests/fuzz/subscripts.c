/* Arbitrary bytes as einsum's subscripts and as a convolution's dimension numbers. The first byte determines the number of operands and
 * their ranks. What is accepted gives an array; anything else gives an error with a message. */
#include "fuzz/targets.h"

#include <manyfold.h>
#include <string.h>

static void look_at(mf_value v)
{
    if (mf_is_error(v))
        fuzz_must(mf_error(v) != NULL && mf_error_status(v) != MF_ERROR_IO);
    else
        fuzz_must(mf_ndim(v) >= 0 && mf_block_until_ready(v) == MF_OK);
}

static mf_value operand(int rank)
{
    mf_shape shape = { .rank = rank, .dims = { 2, 2, 2, 2 } };
    return mf_ones(shape, MF_F32);
}

void fuzz_subscripts(const uint8_t *data, size_t size)
{
    MF_SCOPE;
    char text[65] = "";
    int code = size ? data[0] : 0, count = code % 4;
    if (size > 1)
        memcpy(text, data + 1, size - 1 < 64 ? size - 1 : 64);
    mf_value in[3];
    for (int i = 0; i < count; i++)
        in[i] = operand((code >> (2 + 2 * i)) % 4 + (i == 2));
    look_at(mf_einsum_n(text, in, count));
    look_at(mf_conv_general_dilated(operand(4), operand(4), .dimension_numbers = text));
}
