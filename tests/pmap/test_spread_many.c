/* Maps over so many processes that none communicates with all others: the bits of one process, and errors that reach all processes. */
#include "check.h"
#include "spread.h"

enum { ROWS = 40 };

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "40", 1); }

/* Numbers whose sum depends on the order of addition. */
static mf_value numbers(mf_shape shape, mf_dtype dtype)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++)
        count *= shape.dims[i];
    mf_value flat = mf_div(mf_sin(mf_mul(mf_arange(count, MF_F32), 12.9898f)), mf_add(1e-3f, mf_abs(mf_cos(mf_arange(count, MF_F32)))));
    return mf_astype(mf_reshape(flat, shape), dtype);
}

#define BODY(name, expression) \
    static mf_value name(mf_value x) { return (expression); }
BODY(sum, mf_psum(x, "i"))
BODY(greatest, mf_tuple(mf_pmax(x, "i"), mf_pmin(x, "i")))
BODY(scatter, mf_psum_scatter(x, 0, "i", .tiled = true))
BODY(gather, mf_all_gather(x, 0, "i"))
BODY(index_of_greatest, mf_pargmax(x, "i"))
BODY(replicated, mf_check_replicated(mf_psum(x, "i"), "i"))
BODY(transposed, mf_all_to_all(x, 0, 0, "i", .tiled = true))
BODY(half, mf_astype(mf_psum(mf_astype(x, MF_BF16), "i"), MF_F32))
BODY(several_types, mf_tuple(mf_psum(x, "i"), mf_psum(mf_astype(mf_mul(x, 100), MF_I32), "i"), mf_psum(mf_astype(x, MF_F64), "i"),
                             mf_pmean(mf_astype(x, MF_F16), "i"), mf_all_gather(mf_sum(x), 0, "i")))
static mf_value shift(mf_value x)
{
    mf_value pairs[ROWS];
    for (int i = 0; i < ROWS; i++)
        pairs[i] = mf_tuple(i, (i * 7 + 3) % ROWS);
    return mf_ppermute(x, "i", mf_list_n(pairs, ROWS));
}
BODY(kinds_together, mf_tuple(mf_psum(x, "i"), mf_all_gather(x, 0, "i"), shift(x), mf_pmax(x, "i")))
/* Two groups of neighbours, of different sizes. */
static mf_value in_groups(mf_value x)
{
    mf_value small[12], large[ROWS - 12];
    for (int i = 0; i < ROWS; i++)
        *(i < 12 ? &small[i] : &large[i - 12]) = mf_i(i);
    return mf_psum(x, "i", .axis_index_groups = mf_list(mf_list_n(small, 12), mf_list_n(large, ROWS - 12)));
}
static mf_value square_sum(mf_value x) { return mf_sum(mf_psum(mf_square(x), "i")); }
BODY(gradient, mf_call(mf_grad(square_sum), x))
static mf_value plus_mean(mf_value i, mf_value c) { return mf_add(c, mf_mul(mf_pmean(mf_sin(c), "i"), mf_add(i, 1))); }
BODY(loop, mf_fori_loop(0, 4, plus_mean, x))

static const struct {
    const char *name;
    mf_value (*body)(mf_value);
    mf_shape shape;
} bodies[] = {
    { "psum of one number", sum, { 1, { ROWS } } },
    { "psum", sum, { 2, { ROWS, 37 } } },
    { "psum of a large operand", sum, { 2, { ROWS, 20011 } } },
    { "psum of nothing", sum, { 2, { ROWS, 0 } } },
    { "pmax, pmin", greatest, { 2, { ROWS, 5 } } },
    { "psum_scatter", scatter, { 2, { ROWS, 2 * ROWS } } },
    { "all_gather", gather, { 2, { ROWS, 3 } } },
    { "pargmax", index_of_greatest, { 2, { ROWS, 3 } } },
    { "check_replicated", replicated, { 2, { ROWS, 3 } } },
    { "all_to_all", transposed, { 2, { ROWS, ROWS } } },
    { "ppermute", shift, { 2, { ROWS, 5 } } },
    { "psum of bfloat16", half, { 2, { ROWS, 65 } } },
    { "several dtypes", several_types, { 2, { ROWS, 19 } } },
    { "several kinds", kinds_together, { 2, { ROWS, 4 } } },
    { "groups", in_groups, { 2, { ROWS, 9 } } },
    { "gradient", gradient, { 2, { ROWS, 6 } } },
    { "loop", loop, { 2, { ROWS, 6 } } },
};

static mf_value run_body(const spread_here *h)
{
    int i = *(const int *)h->context;
    mf_value x = spread_rows(h, numbers(bodies[i].shape, MF_F32));
    return mf_dict("rows", mf_call(mf_pmap(bodies[i].body, "i", .devices = h->devices), x));
}

/* Process number p has shares[p % 4] devices. */
static void put_owners(char *owners, const int *shares, bool descending)
{
    int at = 0;
    for (int p = 0; at < ROWS; p++)
        for (int i = 0; i < shares[p % 4] && at < ROWS; i++)
            owners[at++] = (char)('0' + p);
    owners[at] = 0;
    char last = owners[at - 1];
    for (int i = 0; i < at && descending; i++)
        owners[i] = (char)(last - (owners[i] - '0'));
}

TEST(equal_bits_over_many_processes)
{
    static const struct {
        int shares[4];
        bool descending;
    } spreads[] = { { { 2, 2, 2, 2 }, false },   /* 20 of two */
                    { { 1, 1, 2, 1 }, true },    /* 32, uneven, in descending order */
                    { { 3, 3, 3, 3 }, false } }; /* 14, not along the tree */
    enum { SPREADS = sizeof spreads / sizeof *spreads };
    char owners[SPREADS][ROWS + 1], scattered[ROWS + 1] = "";
    const char *all[SPREADS + 2] = { NULL };
    for (size_t i = 0; i < SPREADS; i++) {
        put_owners(owners[i], spreads[i].shares, spreads[i].descending);
        all[i] = owners[i];
    }
    for (int i = 0; i < ROWS; i++)
        scattered[i] = (char)('0' + i * 7 % 20); /* 20, which have their devices here and there */
    all[SPREADS] = scattered;
    for (int i = 0; i < (int)(sizeof bodies / sizeof *bodies); i++)
        spread_check(bodies[i].name, run_body, &i, ROWS, all);
}

/* ------------------------------------------------------------------ errors */

static mf_value another_op(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(ROWS, 3), MF_F32));
    return mf_call(mf_pmap(h->rank == 5 ? greatest : sum, "i"), x);
}

static mf_value another_shape(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(ROWS, h->rank == 5 ? 3000 : 3), MF_F32));
    return mf_call(mf_pmap(sum, "i"), x);
}

static mf_value another_kind(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(ROWS, 3), MF_F32));
    return mf_call(mf_pmap(h->rank == 5 ? gather : sum, "i"), x);
}

static mf_value no_call(const spread_here *h)
{
    mf_value x = spread_rows(h, numbers(MF_SHAPE(ROWS, 3), MF_F32));
    return mf_call(mf_pmap(h->rank == 5 ? scatter : sum, "i"), x); /* 3 columns cannot be scattered */
}

TEST(an_error_of_one_is_an_error_of_all)
{
    static const struct {
        const char *name;
        spread_program program;
        const char *own; /* the message of process 5 */
    } cases[] = { { "another op", another_op, "computes something else here" },
                  { "another shape", another_shape, "computes something else here" },
                  { "another kind", another_kind, "process" },
                  { "no call", no_call, "psum_scatter" } };
    static spread_texts words;
    char owners[ROWS + 1];
    put_owners(owners, (const int[]){ 2, 2, 2, 2 }, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int way = 2; way < 4; way++) {
            spread_algorithm(way);
            spread_print(cases[i].program, NULL, ROWS, owners, &words);
            for (int p = 0; p < ROWS / 2; p++)
                if (!CHECK_CONTAINS(words.of[p], p == 5 ? cases[i].own : "peer: process "))
                    CHECK_NOTE("%s: process %d", cases[i].name, p);
        }
}
