/* threefry2x32: 20 rounds of the block cipher that turns a key and a counter into random bits. The public function is in random_wrap.c.
 * Invariant: the same words as Salmon et al.'s reference (and so JAX's) on every backend: only additions, rotations and exclusive ors. */
#include "ops/elementwise/loops.h"

static mf_error_object *threefry_type(mf_type_context *c)
{
    mf_error_object *e = mf_check_operands(c, 4);
    e = e ? e : mf_type_like_first(c);
    if (e)
        return e;
    if (c->in[0]->dtype != MF_U32)
        return mf_type_error(c, MF_ERROR_DTYPE, "works on uint32, not on %s", mf_dtype_name(c->in[0]->dtype));
    const mf_type *t = mf_type_strong(c->in[0]), **out = mf_type_outputs(c, 2);
    if (!out)
        return mf_error_out_of_memory();
    out[0] = out[1] = t;
    return NULL;
}

static mf_cost threefry_cost(const mf_eqn *e)
{
    mf_cost cost = mf_cost_bytes(e);
    cost.flops = 72.0 * (double)e->out[0]->type->size;
    return cost;
}

static const int rotations[2][4] = { { 13, 15, 26, 6 }, { 17, 29, 16, 24 } };

static void threefry(uint32_t k1, uint32_t k2, uint32_t x1, uint32_t x2, uint32_t *y1, uint32_t *y2)
{
    const uint32_t keys[3] = { k1, k2, k1 ^ k2 ^ 0x1BD11BDAu };
    x1 += keys[0];
    x2 += keys[1];
    for (uint32_t group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            int turn = rotations[group % 2][i];
            x1 += x2;
            x2 = (x2 << turn | x2 >> (32 - turn)) ^ x1;
        }
        x1 += keys[(group + 1) % 3];
        x2 += keys[(group + 2) % 3] + group + 1;
    }
    *y1 = x1;
    *y2 = x2;
}

MF_EVALUATE_RULE(threefry_evaluate)
{
    const uint32_t *k1 = in[0], *k2 = in[1], *x1 = in[2], *x2 = in[3];
    uint32_t *y1 = out[0], *y2 = out[1];
    for (int64_t i = 0; i < e->out[0]->type->size; i++) {
        uint32_t a, b;
        threefry(k1[i], k2[i], x1[i], x2[i], &a, &b);
        y1[i] = a;
        y2[i] = b;
    }
    return NULL;
}

static const char *const threefry_samples[] = {
    "u32[1]{=0} u32[1]{=0} u32[1]{=0} u32[1]{=0} -> u32[1]{=1797259609} u32[1]{=2579123966}",
    "u32[]{=4294967295} u32[]{=4294967295} u32[]{=4294967295} u32[]{=4294967295} -> u32[]{=481924860} u32[]{=3137350631}",
    "u32[]{=320440878} u32[]{=57701188} u32[]{=608135816} u32[]{=2242054355} -> u32[]{=3297917596} u32[]{=1212020640}",
    "u32[2,3]{0:1000} u32[2,3]{0:1000} u32[2,3]{0:1000} u32[2,3]{0:1000}",
    NULL,
};
static mf_hlo_value turned_left(mf_hlo *h, mf_hlo_value x, int by)
{
    mf_hlo_value up = h_binary(h, "shift_left", x, h_full(h, x.type, by));
    return h_binary(h, "or", up, h_binary(h, "shift_right_logical", x, h_full(h, x.type, 32 - by)));
}

/* The rounds above, unrolled as plain arithmetic. */
MF_HLO_RULE(threefry_hlo)
{
    const mf_type *t = e->out[0]->type;
    mf_hlo_value third = h_binary(h, "xor", h_binary(h, "xor", in[0], in[1]), h_full(h, t, 0x1BD11BDA));
    mf_hlo_value keys[3] = { in[0], in[1], third };
    mf_hlo_value x1 = h_binary(h, "add", in[2], keys[0]), x2 = h_binary(h, "add", in[3], keys[1]);
    for (int group = 0; group < 5; group++) {
        for (int i = 0; i < 4; i++) {
            x1 = h_binary(h, "add", x1, x2);
            x2 = h_binary(h, "xor", turned_left(h, x2, rotations[group % 2][i]), x1);
        }
        x1 = h_binary(h, "add", x1, keys[(group + 1) % 3]);
        x2 = h_binary(h, "add", h_binary(h, "add", x2, keys[(group + 2) % 3]), h_full(h, t, group + 1));
    }
    out[0] = x1;
    out[1] = x2;
}

const mf_op mf_op_threefry2x32 = {
    .name = "threefry2x32",
    MF_ELEMENTWISE_ROW,
    .type_rule = threefry_type,
    .jvp = mf_jvp_zero,
    .transpose = mf_transpose_none,
    .cost = threefry_cost,
    .lower = mf_lower_none,
    .evaluate = threefry_evaluate,
    MF_HLO_BY(threefry_hlo),
    .samples = threefry_samples,
};
