/* When an error counts as handled, and the result of a call whose function reads traced values. */
#include "check.h"

#include <manyfold.h>

static mf_value bad(void) { return mf_add(mf_ones(MF_SHAPE(2), MF_F32), mf_ones(MF_SHAPE(3), MF_F32)); }

/* ---- reading a value does not handle its error */

static void read_f64(mf_value v) { CHECK(isnan(mf_item_f64(v))); }
static void read_i64(mf_value v) { CHECK_EQ_INT(mf_item_i64(v), 0); }
static void read_bool(mf_value v) { CHECK(!mf_item_bool(v)); }
static void read_bytes(mf_value v) { CHECK(mf_to_host(v, MF_F32, &(float){ 0 }, 1) != MF_OK); }
static void read_pointer(mf_value v) { CHECK(!mf_unsafe_buffer_pointer(v)); }
static void wait_for(mf_value v) { CHECK(mf_block_until_ready(v) != MF_OK); }
static void end_memory(mf_value v) { CHECK(mf_delete(v) != MF_OK); }
static void print_devices(mf_value v) { CHECK_EQ_INT(mf_devices_of_array(v).count, 0); }
static void ask_whether(mf_value v) { CHECK(mf_is_error(v)); }
static void load(mf_value v)
{
    mf_value batch;
    mf_loader *l = mf_loader_open(mf_tuple(v, v), .batch_size = 1);
    CHECK(mf_loader_next(l, &batch));
    mf_loader_close(l);
}

static const struct reader {
    const char *name;
    void (*read)(mf_value v);
} readers[] = { { "item_f64", read_f64 },    { "item_i64", read_i64 }, { "item_bool", read_bool }, { "to_host", read_bytes },
                { "pointer", read_pointer }, { "wait", wait_for },     { "delete", end_memory },   { "devices", print_devices },
                { "is_error", ask_whether }, { "loader", load } };
enum { READERS = sizeof readers / sizeof *readers };

static void forget_all(void)
{
    while (mf_first_error(NULL) != MF_OK)
        continue;
}

TEST(an_error_that_is_read_is_not_forgotten)
{
    for (int i = 0; i < READERS; i++) {
        MF_SCOPE;
        mf_value e = bad(), other = bad();
        for (int times = 0; times < 3; times++)
            readers[i].read(e);
        readers[i].read(other);
        int unhandled = 0;
        while (mf_first_error(NULL) != MF_OK)
            unhandled++;
        if (!CHECK(unhandled >= 2))
            CHECK_NOTE("%s: %d", readers[i].name, unhandled);
    }
}

TEST(an_error_that_is_asked_for_is_handled_however_often_it_was_read)
{
    for (int i = 0; i < READERS - 1; i++) { /* the loader makes an error of its own */
        MF_SCOPE;
        mf_value e = bad();
        readers[i].read(e);
        readers[i].read(e);
        CHECK(mf_error(e));
        readers[i].read(e);
        const char *message;
        CHECK_EQ_INT(mf_first_error(&message), MF_OK);
        forget_all();
    }
}

TEST(a_stale_value_that_is_read_is_not_forgotten)
{
    mf_value stale;
    {
        MF_SCOPE;
        stale = mf_ones(MF_SHAPE(1), MF_F32);
    }
    CHECK(isnan(mf_item_f64(stale)));
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_SCOPE);
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
}

/* ---- errors caused by a handled error are handled */

static mf_value two_bad(mf_value x)
{
    mf_value one = mf_add(x, mf_ones(MF_SHAPE(7), MF_F32)), two = mf_dot(x, mf_ones(MF_SHAPE(9, 9), MF_F32));
    return mf_tuple(one, two);
}

TEST(siblings_are_handled_together)
{
    MF_SCOPE;
    mf_value x = mf_ones(MF_SHAPE(2, 2), MF_F32), params = mf_dict("w", mf_ones(MF_SHAPE(3), MF_F32));
    mf_value state = mf_optim_init(mf_sgd(.learning_rate = 0.1), params), mixed = mf_dict("count", bad(), "mu", bad(), "nu", bad());
    mf_value results[] = {
        mf_add(bad(), bad()),
        mf_where(bad(), bad(), bad()),
        mf_concatenate(mf_tuple(bad(), bad()), 0),
        mf_tuple(bad(), x, bad()),
        mf_call(mf_jit(two_bad), x),
        mf_call(mf_jit(mf_add), bad(), bad()),
        mf_tree_map(mf_add, bad(), bad()),
        mf_call(mf_nn_linear(mf_random_state(0), 3, 2), mf_ones(MF_SHAPE(4, 4), MF_F32)),
        mf_optim_update(mf_adam(), params, &state, params),
        mf_optim_update(mf_adam(), params, &mixed, params),
        mf_softmax_cross_entropy(bad(), bad()),
    };
    for (int i = 0; i < (int)(sizeof results / sizeof *results); i++)
        if (!CHECK(mf_error(results[i])))
            CHECK_NOTE("result %d", i);
    CHECK(mf_error(mixed)); /* its count is not in any result */
    const char *message;
    CHECK_EQ_INT(mf_first_error(&message), MF_OK);
    if (message)
        CHECK_NOTE("%s", message);
    CHECK(!mf_is_error(state)); /* another optimizer's state is unchanged */
    forget_all();
}

TEST(a_handled_error_hides_no_new_one)
{
    MF_SCOPE;
    mf_value old = bad();
    CHECK(mf_error(old));
    mf_value sum = mf_add(old, mf_make_error(MF_ERROR_IO, "new"));
    CHECK(mf_error(sum));
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_IO);
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
}

static mf_state kept, also_kept;
static mf_value keeps_one_bad(mf_value x)
{
    mf_value other = bad();
    mf_state_set_value(kept, bad());
    return mf_tuple(x, other);
}
static mf_value keeps_two_bad(mf_value x)
{
    mf_state_set_value(kept, bad());
    mf_state_set_value(also_kept, bad());
    return mf_dict("x", x);
}

TEST(what_a_call_gives_and_what_it_writes_to_states_are_handled_together)
{
    MF_SCOPE;
    kept = mf_param_state(1.0);
    also_kept = mf_param_state(2.0);
    mf_value x = mf_ones(MF_SHAPE(2), MF_F32);
    mf_value results[] = { mf_call(mf_jit(keeps_one_bad), x), mf_call(mf_jit(keeps_two_bad), x), mf_call(mf_vmap(keeps_one_bad), x),
                           mf_call(mf_vmap(keeps_two_bad), x) };
    for (int i = 0; i < (int)(sizeof results / sizeof *results); i++)
        CHECK(mf_error(results[i]));
    const char *message;
    if (!CHECK_EQ_INT(mf_first_error(&message), MF_OK))
        CHECK_NOTE("%s", message);
    forget_all();
}

/* ---- C cannot branch on traced values */

static mf_value by_item(mf_value x) { return mf_item_bool(mf_greater(mf_sum(x), 1)) ? mf_mul(x, 100) : x; }
static mf_value by_number(mf_value x) { return mf_item_f64(mf_sum(x)) > 1 ? mf_mul(x, 100) : x; }
static mf_value by_count(mf_value x) { return mf_item_i64(mf_sum(x)) > 1 ? mf_mul(x, 100) : x; }
static mf_value by_bytes(mf_value x)
{
    float first = 0;
    (void)mf_to_host(mf_sum(x), MF_F32, &first, 1);
    return first > 1 ? mf_mul(x, 100) : x;
}
static mf_value by_pointer(mf_value x) { return mf_unsafe_buffer_pointer(x) ? mf_mul(x, 100) : x; }
static mf_value by_loader(mf_value x)
{
    mf_value batch = x;
    mf_loader *l = mf_loader_open(mf_add(mf_zeros(MF_SHAPE(4), MF_F32), x), .batch_size = 1);
    if (mf_loader_next(l, &batch))
        x = mf_add(x, 1);
    mf_loader_close(l);
    return x;
}
static mf_value by_loops(mf_value x)
{
    mf_value sum = mf_sum(x);
    while (!mf_item_bool(mf_less(sum, 1)))
        sum = mf_mul(sum, 0.5);
    while (!(mf_item_f64(sum) < 1))
        sum = mf_mul(sum, 0.5);
    while (mf_item_i64(sum) < 5)
        sum = mf_add(sum, 1);
    return mf_add(x, sum);
}
static mf_value then_wrong(mf_value x)
{
    (void)mf_item_bool(mf_sum(x));
    return mf_add(x, mf_ones(MF_SHAPE(77), MF_F32));
}
static mf_value (*const branches[])(mf_value) = { by_item, by_number, by_count, by_bytes, by_pointer, by_loader, by_loops, then_wrong };
enum { BRANCHES = sizeof branches / sizeof *branches };

static mf_value (*branch)(mf_value);
static mf_value inner(mf_value x) { return branch(x); }
static mf_value total(mf_value x) { return mf_sum(branch(x)); }
static mf_value rows(mf_value x) { return mf_mul(branch(mf_mul(x, mf_ones(MF_SHAPE(4), MF_F32))), 1); }
static mf_value turn(mf_value carry, mf_value x) { return mf_tuple(branch(mf_add(carry, x)), x); }
static mf_value scanned(mf_value x) { return mf_scan(turn, x, mf_arange(3, MF_F32)); }
static mf_value chosen(mf_value x) { return mf_cond(mf_less(mf_sum(x), 1), inner, inner, x); }
static mf_value nested(mf_value x) { return mf_call(mf_jit(inner), mf_add(x, 1)); }
static mf_value outer_value;
static mf_value reads_outer(mf_value x) { return mf_add(branch(outer_value), x); }
static mf_value captures(mf_value x)
{
    outer_value = x;
    return mf_call(mf_jit(reads_outer), mf_ones(MF_SHAPE(4), MF_F32));
}
static mf_value in_test(mf_value x) { return mf_less(mf_sum(branch(x)), 10); }
static mf_value grow(mf_value x) { return mf_add(x, 1); }
static mf_value whiled(mf_value x) { return mf_while(in_test, grow, x); }

TEST(a_call_that_reads_a_traced_value_is_the_error)
{
    for (int i = 0; i < BRANCHES; i++) {
        MF_SCOPE;
        branch = branches[i];
        mf_clear_caches();
        mf_value x = mf_arange(4, MF_F32), two = mf_ones(MF_SHAPE(2, 4), MF_F32);
        const struct {
            const char *name;
            mf_value result;
        } calls[] = {
            { "jit", mf_call(mf_jit(inner), x) },
            { "pmap", mf_call(mf_pmap(inner, .devices = mf_device_slice(mf_devices(), 0, 2)), two) },
            { "vmap", mf_call(mf_vmap(inner), two) },
            { "grad", mf_call(mf_grad(total), x) },
            { "scan", mf_call(mf_jit(scanned), x) },
            { "scan outside", scanned(x) },
            { "cond", mf_call(mf_jit(chosen), x) },
            { "cond outside", chosen(x) },
            { "while", whiled(x) },
            { "nested", mf_call(mf_jit(nested), x) },
            { "outer's value", mf_call(mf_jit(captures), x) },
            { "remat", mf_call(mf_remat(inner), x) },
            { "rows", mf_call(mf_vmap(rows), x) },
        };
        for (int c = 0; c < (int)(sizeof calls / sizeof *calls); c++) {
            const char *message = mf_error(calls[c].result);
            if (!CHECK(message && strstr(message, "C cannot branch on a traced value") &&
                       strstr(message, "use mf_where, mf_cond or mf_while")))
                CHECK_NOTE("%s of reader %d: %s", calls[c].name, i, message ? message : mf_str(calls[c].result));
            const char *place = mf_error_place(calls[c].result);
            if (!CHECK(place && (strstr(place, "test_handling") || strchr(place, '+'))))
                CHECK_NOTE("%s of reader %d: %s", calls[c].name, i, place ? place : "no place");
        }
        const char *left;
        if (!CHECK_EQ_INT(mf_first_error(&left), MF_OK)) /* what the functions did with their wrong numbers follows from it */
            CHECK_NOTE("reader %d: %s", i, left);
        forget_all();
    }
}

TEST(all_uses_so_far_of_a_deleted_array_are_handled_together)
{
    MF_SCOPE;
    mf_value x = mf_add(mf_ones(MF_SHAPE(2), MF_F32), 1);
    CHECK_EQ_INT(mf_delete(x), MF_OK);
    CHECK(mf_block_until_ready(x) != MF_OK);
    CHECK(mf_to_host(x, MF_F32, &(float){ 0 }, 2) != MF_OK);
    CHECK_CONTAINS(mf_error(x), "Array has been deleted");
    CHECK_EQ_INT(mf_first_error(NULL), MF_OK);
    mf_value later = mf_add(x, 1);
    CHECK_EQ_INT(mf_first_error(NULL), MF_ERROR_DONATED); /* a later error is separate */
    CHECK(mf_is_error(later));
    forget_all();
}
