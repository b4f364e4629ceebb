/* lax.scan's unroll: a scan over blocks of rounds, with the body repeated in one program. Rounds that fill no block are a scan of single
 * rounds after it, or before it with reverse, which starts with the blocks at the end. The rows of a block are concatenated along the first
 * dimension of an element, so that no array gets a further dimension and each round's rows are contiguous. */
#include "transform/functions/control/unroll.h"

#include "ops/emit.h"

#include <manyfold/lax.h>
#include <manyfold/numpy.h>
#include <string.h>

/* The type of a block of `unroll` arrays of type t. */
static const mf_type *block_type(const mf_type *t, int64_t unroll)
{
    if (!t->rank)
        return mf_type_insert_axis(t, 0, unroll);
    int64_t dims[MF_MAX_RANK];
    memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
    dims[0] *= unroll;
    return mf_type_with_shape(t, t->rank, dims);
}

/* The part of a block that is round k's. */
static mf_variable *round_of(mf_builder *b, mf_variable *block, const mf_type *t, int64_t k)
{
    int64_t size = t->rank ? t->dims[0] : 1;
    return e_reshape_type(b, e_slice_axis(b, block, 0, k * size, (k + 1) * size), t);
}

static mf_variable *block_of(mf_builder *b, mf_variable **rounds, int count)
{
    for (int k = 0; k < count; k++)
        rounds[k] = rounds[k]->type->rank ? rounds[k] : e_expand(b, rounds[k], 0);
    return e_concatenate(b, rounds, count, 0);
}

/* The body's variables while rounds are appended. */
typedef struct round_block {
    const mf_scan_params *scan;
    int count, fixed, carry, ys;              /* number of rounds; of consts and carry; of carry; of ys */
    mf_variable **in, **given, **out, **rows; /* inputs of the block; of a round; outputs of a round; ys by round */
} round_block;

static void append_rounds(mf_builder *b, const round_block *u)
{
    const mf_program *body = u->scan->body;
    memcpy(u->given, u->in, (size_t)u->fixed * sizeof(mf_variable *));
    for (int i = 0; i < u->count; i++) {
        int k = u->scan->reverse ? u->count - 1 - i : i;
        for (int x = u->fixed; x < body->in_count; x++)
            u->given[x] = round_of(b, u->in[x], body->in[x]->type, k);
        mf_inline(b, body, u->given, u->out);
        memcpy(u->given + u->scan->consts, u->out, (size_t)u->carry * sizeof(mf_variable *));
        for (int y = 0; y < u->ys; y++)
            u->rows[(size_t)y * (size_t)u->count + (size_t)k] = u->out[u->carry + y];
    }
    for (int y = 0; y < u->ys; y++)
        u->out[u->carry + y] = block_of(b, u->rows + (size_t)y * (size_t)u->count, u->count);
}

static mf_program *unrolled_body(const mf_scan_params *scan, int64_t unroll, mf_error_object **error)
{
    const mf_program *body = scan->body;
    round_block u = { .scan = scan, .count = (int)unroll, .fixed = scan->consts + scan->carry, .carry = scan->carry };
    u.ys = body->out_count - u.carry;
    size_t ins = (size_t)body->in_count, outs = (size_t)body->out_count;
    u.in = mf_calloc(2 * ins + outs + (size_t)u.ys * (size_t)u.count + 1, sizeof *u.in);
    if (!u.in) {
        *error = mf_error_out_of_memory();
        return NULL;
    }
    u.given = u.in + ins;
    u.out = u.given + ins;
    u.rows = u.out + outs;
    mf_builder b;
    mf_builder_init(&b, mf_trace_env());
    for (int i = 0; i < body->in_count; i++)
        u.in[i] = mf_builder_input(&b, i < u.fixed ? body->in[i]->type : block_type(body->in[i]->type, unroll));
    append_rounds(&b, &u);
    mf_program *p = mf_builder_finish(&b, u.out, body->out_count, error);
    mf_free(u.in);
    return p;
}

/* ---- operands and results, as values */

static mf_shape rows_shape(const mf_type *one, int64_t blocks, int64_t unroll)
{
    mf_shape s = { .rank = one->rank + 1 };
    s.dims[0] = blocks;
    memcpy(s.dims + 1, one->dims, (size_t)one->rank * sizeof *s.dims);
    if (unroll > 1 && !one->rank)
        s.dims[s.rank++] = unroll;
    else if (unroll > 1)
        s.dims[1] *= unroll;
    return s;
}

static mf_value rows(mf_value x, int64_t from, int64_t to, int64_t length)
{
    return from == 0 && to == length ? x : mf_slice_in_dim(x, from, to, 1, 0);
}

mf_error_object *mf_bind_unrolled_scan(const mf_scan_params *params, int64_t unroll, const mf_value *in, int in_count, mf_value *out,
                                       int out_count)
{
    mf_error_object *error = NULL;
    const mf_program *body = params->body;
    int64_t length = params->length, blocks = length / unroll, rest = length % unroll, first = params->reverse ? rest : 0;
    int fixed = params->consts + params->carry;
    mf_scan_params main = *params, tail = *params;
    main.length = blocks;
    tail.length = rest;
    mf_value *operands = mf_calloc((size_t)in_count + (size_t)out_count + 1, sizeof *operands);
    main.body = operands ? unrolled_body(params, unroll, &error) : NULL;
    if (!main.body) {
        mf_free(operands);
        return error ? error : mf_error_out_of_memory();
    }
    mf_value *last = operands + in_count; /* the results of the single rounds */
    memcpy(operands, in, (size_t)fixed * sizeof *in);
    for (int i = fixed; i < in_count; i++)
        operands[i] = mf_reshape(rows(in[i], first, first + blocks * unroll, length), rows_shape(body->in[i]->type, blocks, unroll));
    mf_bind_n(&mf_op_scan, &main, operands, in_count, out, out_count);
    for (int o = params->carry; o < out_count; o++)
        out[o] = mf_reshape(out[o], rows_shape(body->out[o]->type, blocks * unroll, 1));
    if (rest) {
        memcpy(operands + params->consts, out, (size_t)params->carry * sizeof *out);
        for (int i = fixed; i < in_count; i++)
            operands[i] = params->reverse ? rows(in[i], 0, rest, length) : rows(in[i], length - rest, length, length);
        mf_bind_n(&mf_op_scan, &tail, operands, in_count, last, out_count);
        memcpy(out, last, (size_t)params->carry * sizeof *out);
        for (int o = params->carry; o < out_count; o++)
            out[o] = mf_concatenate(params->reverse ? mf_list(last[o], out[o]) : mf_list(out[o], last[o]), 0);
    }
    mf_drop(main.body);
    mf_free(operands);
    return NULL;
}
