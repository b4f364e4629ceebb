/* Processes that do different things: each of them gets an error, and the next call works again.
 * Jobs: 4+4 3+5 2+2+2+2 */
#include "check.h"

#include "runtime/comm.h"

#include <manyfold.h>
#include <time.h>

static mf_value sum(mf_value x) { return mf_psum(x, "i"); }
static mf_value doubled_sum(mf_value x) { return mf_mul(2, mf_psum(x, "i")); }
static mf_value maximum(mf_value x) { return mf_pmax(x, "i"); }
static mf_value both(mf_value x) { return mf_add(mf_psum(x, "i"), mf_pmax(mf_sin(x), "i")); }
static mf_value both_otherwise(mf_value x)
{
    mf_value m = mf_pmax(mf_sin(x), "i");
    return mf_add(mf_psum(mf_add(x, mf_mul(0.0, m)), "i"), m);
}
static mf_value nothing(mf_value x) { return mf_neg(x); }
static mf_value wider(mf_value x) { return mf_psum(mf_concatenate(mf_list(x, x)), "i"); }
static mf_value in_pieces(mf_value x) { return mf_psum(mf_broadcast_to(mf_sum(x), MF_SHAPE(20000)), "i"); }
static mf_value narrower(mf_value x) { return mf_psum(mf_astype(x, MF_BF16), "i"); }
static mf_value round_of(mf_value i, mf_value c)
{
    (void)i;
    return mf_tanh(mf_psum(c, "i"));
}
static mf_value three_rounds(mf_value x) { return mf_fori_loop(0, 3, round_of, x); }
static mf_value as_many_rounds(mf_value x) { return mf_fori_loop(0, mf_process_index() == 1 ? 2 : 3, round_of, x); }
static mf_value loop_first(mf_value x) { return mf_psum(three_rounds(x), "i"); }
static mf_value loop_last(mf_value x) { return three_rounds(mf_psum(x, "i")); }
static bool pauses = true;
static mf_value pause_a_while(mf_value x)
{
    if (pauses)
        nanosleep(&(struct timespec){ 0, 300000000 }, NULL);
    return x;
}
static mf_value slow_sum(mf_value x) { return mf_psum(mf_pure_callback(pause_a_while, x, x), "i"); }
static mf_value refuse(mf_value x)
{
    (void)x;
    return mf_make_error(MF_ERROR_IO, "the disk of this process is full");
}
static mf_value widened(mf_value x) { return mf_psum(mf_broadcast_to(mf_sum(x), MF_SHAPE(1 << 18)), "i"); }
static mf_value slow_and_wide(mf_value x) { return widened(mf_pure_callback(pause_a_while, x, x)); }
static mf_value fails_and_is_wide(mf_value x) { return widened(mf_pure_callback(refuse, x, x)); }
static mf_value fails(mf_value x) { return mf_psum(mf_pure_callback(refuse, x, x), "i"); }
static mf_value some(mf_value x) { return mf_cond(mf_equal(mf_axis_index("i"), 0), sum, nothing, x); }

/* What process 1 does, and what the others do; the errors that each gets, "" if there may be none. If two operations differ, the error
 * names both, but which of them is "here" depends on who detected it first: a notice from a third process may arrive before the message
 * itself. */
static const struct {
    const char *name;
    mf_value (*odd)(mf_value), (*even)(mf_value);
    const char *odd_words, *even_words;
} disagreements[] = {
    { "another op", maximum, sum, "computes something else here: p", "computes something else here: p" },
    { "another shape", wider, sum, "computes something else here", "computes something else here" },
    { "a shape that goes in pieces", in_pieces, sum, "computes something else here", "computes something else here" },
    { "another dtype", narrower, sum, "computes something else here", "computes something else here" },
    { "another order", both_otherwise, both, "process ", "process " },
    { "a loop around it", three_rounds, sum, "wait for each other", "wait for each other" },
    { "a loop before and after", loop_first, loop_last, "wait for each other", "wait for each other" },
    { "a loop beside another op", three_rounds, maximum, "wait for each other", "wait for each other" },
    { "nothing", nothing, sum, "", "ended its call" },
    { "fewer rounds", as_many_rounds, as_many_rounds, "", "ended its call" },
    { "another function with such a collective", sum, doubled_sum, "computes something else here: psum",
      "computes something else here: psum" },
    { "an error", fails, sum, "the disk of this process is full", "process 1: " },
    { "an error while others lend each other operands", fails_and_is_wide, widened, "the disk of this process is full", "process 1: " },
    { "devices that disagree", sum, some, "process ", "" },
};

static mf_value rows(int64_t width) { return mf_ones(MF_SHAPE(mf_local_device_count(), width), MF_F32); }

/* Checks that a correct call works; its result is the number of devices. */
static void check_good(const char *after)
{
    mf_value r = mf_call(mf_pmap(sum, "i"), rows(3));
    if (!CHECK_EQ_INT(mf_item_i64(mf_sum(mf_get(r, 0))), 3 * mf_device_count()))
        CHECK_NOTE("after %s: %s", after, mf_str(r));
}

static const char *words_of(mf_value v)
{
    mf_block_until_ready(v);
    return mf_error(v);
}

static void quarrel(size_t i, int64_t width)
{
    MF_SCOPE;
    bool odd = mf_process_index() == 1;
    mf_value r = mf_call(mf_pmap(odd ? disagreements[i].odd : disagreements[i].even, "i"), rows(width));
    const char *words = odd ? disagreements[i].odd_words : disagreements[i].even_words, *said = words_of(r);
    if (*words ? !CHECK_CONTAINS(said, words) : 0)
        CHECK_NOTE("%s, in process %d", disagreements[i].name, mf_process_index());
    if (disagreements[i].odd == maximum && disagreements[i].even == sum) {
        CHECK_CONTAINS(said, "psum of float32[");
        CHECK_CONTAINS(said, "pmax of float32[");
    }
    if (said && strstr(said, "process "))
        CHECK_EQ_INT(mf_error_status(r), strstr(words, "disk") ? MF_ERROR_IO : MF_ERROR_PEER);
    check_good(disagreements[i].name);
}

TEST(every_process_gets_an_error)
{
    for (int turn = 0; turn < 3; turn++)
        for (size_t i = 0; i < sizeof disagreements / sizeof *disagreements; i++) {
            quarrel(i, 4);
            quarrel(i, 30000); /* too large to be sent with their headers */
        }
}

/* Checks operation, function and line of both sides, if addr2line is installed. */
static mf_value least(mf_value x) { return mf_pmin(x, "i"); }
enum { LEAST = __LINE__ - 1 };
static mf_value gathered(mf_value x) { return mf_all_gather(x, 0, "i"); }
enum { GATHERED = __LINE__ - 1 };

static void check_names(const char *said, const char *form, const char *theirs, int their_line, const char *own, int own_line)
{
    const char *function[2] = { theirs, own }, *at[2];
    int line[2] = { their_line, own_line };
    char words[256];
    for (int i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "(pmap(%s), ", function[i]);
        at[i] = strstr(said, words);
        CHECK_CONTAINS(said, words);
        snprintf(words, sizeof words, "job_quarrels.c:%d)", line[i]);
        if (strstr(said, "job_quarrels.c:"))
            CHECK_CONTAINS(at[i] ? at[i] : said, words);
    }
    CHECK(at[0] && at[1] && at[0] < at[1]);
    CHECK_CONTAINS(said, form);
}

TEST(both_sides_are_named)
{
    bool odd = mf_process_index() == 1;
    for (int i = 0; i < 2; i++) {
        const char *said = words_of(mf_call(mf_pmap(odd ? least : gathered, "i"), rows(i ? 30000 : 4)));
        if (odd && strstr(said, " computes ")) /* otherwise another process detected it before */
            check_names(said, "here: all_gather of float32[", "gathered", GATHERED, "least", LEAST);
        else if (strstr(said, "process 1 computes"))
            check_names(said, "here: pmin of float32[", "least", LEAST, "gathered", GATHERED);
        else
            CHECK_CONTAINS(said, " computes something else here: ");
    }
    mf_value r = mf_call(mf_pmap(odd ? nothing : least, "i"), rows(4));
    enum { CALLED = __LINE__ - 1 };
    if (odd)
        return;
    char words[64];
    CHECK_CONTAINS(words_of(r), ", pmap(nothing) (");
    CHECK_CONTAINS(words_of(r), ", without pmin of float32[4] over 'i' (pmap(least), ");
    snprintf(words, sizeof words, "job_quarrels.c:%d)", CALLED);
    if (strstr(words_of(r), "job_quarrels.c:"))
        CHECK_CONTAINS(words_of(r), words);
}

/* Functions are called in different orders: each process's first call meets the other's second. */
TEST(calls_in_another_order)
{
    mf_value (*const others[2])(mf_value) = { maximum, doubled_sum };
    bool odd = mf_process_index() == 1;
    for (int i = 0; i < 2; i++) {
        mf_function f = mf_pmap(sum, "i"), g = mf_pmap(others[i], "i");
        mf_value first = mf_call(odd ? g : f, rows(4)), second = mf_call(odd ? f : g, rows(4));
        CHECK_CONTAINS(words_of(first), "computes something else here");
        CHECK_CONTAINS(words_of(second), "computes something else here");
        check_good("calls in another order");
    }
}

/* The same devices are listed in different orders. */
TEST(devices_in_another_order)
{
    mf_device_list all = mf_devices();
    mf_device backwards[8];
    for (int i = 0; i < all.count; i++)
        backwards[i] = all.at[all.count - 1 - i];
    if (mf_process_index() == 1)
        all.at = backwards;
    for (int i = 0; i < 2; i++) {
        const char *said = words_of(mf_call(mf_pmap(sum, "i", .devices = all), rows(i ? 30000 : 4)));
        CHECK_CONTAINS(said, " computes something else here: psum of float32[");
        CHECK_CONTAINS(said, " too, but over other devices or groups");
    }
    check_good("devices in another order");
}

/* A function that fails before it calls a map, so the other processes know nothing of the map. */
static bool fails_now;
static mf_value early(mf_value x) { return fails_now ? mf_make_error(MF_ERROR_ARGUMENT, "no luck today") : mf_call(mf_pmap(sum, "i"), x); }
static mf_value other_early(mf_value x) { return early(mf_add(x, 1)); }

static void check_early(mf_value r, const char *name)
{
    CHECK_CONTAINS(words_of(r), mf_process_index() == 1 ? "no luck today" : "process 1: no luck today");
    if (mf_process_index() != 1)
        CHECK_CONTAINS(words_of(r), name);
}

/* Process 1 continues after the others have waited for it. */
static mf_value call_and_be_missed(mf_function f)
{
    uint64_t calls = mf_comm_current()->calls;
    mf_value r = mf_call(f, rows(2));
    while (mf_process_index() == 1 && mf_comm_current()->calls == calls)
        nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
    return r;
}

TEST(an_error_before_any_map)
{
    bool odd = mf_process_index() == 1;
    mf_function f = mf_jit(early), g = mf_jit(other_early);

    fails_now = odd;
    mf_value r = call_and_be_missed(f);
    check_early(r, "in a call of jit(early) that came to no map");
    check_good("an error of a function that nobody knows");

    r = mf_call(g, rows(2)); /* retries at once */
    fails_now = false;
    mf_value good = mf_call(g, rows(2));
    check_early(r, "in a call of jit(other_early) that came to no map");
    CHECK(words_of(good) == NULL);
    check_good("another try");

    fails_now = odd; /* a known failure: it continues with something else at once */
    r = mf_call(g, rows(5));
    check_good("an error of a function that called maps before");
    check_early(r, "in its call ");
    fails_now = false;
}

static mf_value another_early(mf_value x) { return early(mf_sub(x, 1)); }

TEST(a_function_that_was_not_compiled)
{
    fails_now = mf_process_index() == 1;
    mf_function f = mf_compile(mf_jit(another_early), rows(2));
    fails_now = false;
    for (int i = 0; i < 2; i++)
        check_early(call_and_be_missed(f), "in a call of jit(another_early) that came to no map");
    check_good("a function that was not compiled");
}

/* Processes that compute, or are between two calls, do not make the others' waits fail. */
TEST(slow_but_fine)
{
    for (int i = 0; i < 2; i++) {
        if (mf_process_index() == i)
            nanosleep(&(struct timespec){ 0, 400000000 }, NULL);
        check_good("a pause between two calls");
        pauses = mf_process_index() == i;
        mf_value r = mf_call(mf_pmap(slow_sum, "i"), rows(i % 2 ? 3 : 30000));
        CHECK_EQ_INT(mf_item_i64(mf_get(r, 0, 0)), mf_device_count());
        r = mf_call(mf_pmap(slow_and_wide, "i"), rows(3)); /* processes that arrived early hold loans of the others */
        CHECK_EQ_INT(mf_item_i64(mf_get(r, 0, (1 << 18) - 1)), 3 * mf_device_count());
    }
    pauses = true;
}

/* Calls between the first two processes only: these are numbered separately, and the end of a process is reported there, too. */
TEST(a_part_of_the_processes)
{
    mf_device_list all = mf_devices(), some_of_them = { 0, all.at };
    while (mf_device_process(all.at[some_of_them.count]) < 2 && ++some_of_them.count < all.count) {
    }
    if (mf_process_index() < 2)
        for (int i = 0; i < 3; i++) {
            mf_value r = mf_call(mf_pmap(mf_process_index() ? nothing : sum, "i", .devices = some_of_them), rows(4));
            if (mf_process_index() == 0)
                CHECK_CONTAINS(words_of(r), "ended its call");
            r = mf_call(mf_pmap(sum, "i", .devices = some_of_them), rows(1));
            CHECK_EQ_INT(mf_item_i64(mf_sum(mf_get(r, 0))), some_of_them.count);
        }
    check_good("calls of a part");
}
