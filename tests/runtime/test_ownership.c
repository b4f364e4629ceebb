/* Ownership of ranks: the computed answers equal those of a loop over the ranks, and take no memory, however many ranks there are. */
#include "check.h"

#include "runtime/collectives/schedule/ownership.h"

enum { PROCESSES = 12 };

typedef struct line {
    int64_t device, step;
} line;

static int device_of(const void *context, int64_t rank)
{
    const line *l = context;
    return (int)(l->device + rank * l->step);
}

static void hold_beside(const mf_comm *c, const mf_ownership *o, int64_t device, int64_t step)
{
    int64_t run = -1;
    int last = -1;
    for (int64_t rank = 0; rank < o->count; rank++) {
        int owner = mf_comm_owner(c, (int)(device + rank * step));
        if (owner != last) {
            last = owner;
            run++;
            CHECK_EQ_INT(mf_ownership_first(o, run), rank);
            CHECK_EQ_INT(mf_ownership_process(o, run), owner);
        }
        CHECK_EQ_INT(mf_ownership_run_of(o, rank), run);
    }
    CHECK_EQ_INT(o->runs, run + 1);
    CHECK_EQ_INT(mf_ownership_first(o, o->runs), o->count);
}

TEST(a_line_is_what_a_walk_finds)
{
    int lines = 0, lists = 0;
    for (int shares = 0; shares < 4; shares++) {
        int first[PROCESSES + 1] = { 0 };
        for (int p = 0; p < PROCESSES; p++)
            first[p + 1] = first[p] + (const int[]){ 1, 4, 2 + p % 2, 1 + p * 7 % 5 }[shares];
        mf_comm c = { .size = PROCESSES, .first_device = first };
        mf_comm_count_devices(&c);
        int all = first[PROCESSES];
        for (int device = 0; device < all; device++)
            for (int step = -9; step <= 9; step++)
                for (int count = 1; step && device + (count - 1) * step >= 0 && device + (count - 1) * step < all; count++) {
                    mf_ownership line_of = { 0 }, list = { 0 };
                    REQUIRE(CHECK(mf_ownership_list(&list, &c, count, device_of, &(line){ device, step })));
                    CHECK(list.ordered);
                    hold_beside(&c, &list, device, step);
                    bool is_line = mf_ownership_line(&line_of, &c, device, step, count);
                    lists += !is_line;
                    lines += is_line;
                    if (is_line) {
                        CHECK(line_of.ordered && !mf_ownership_bytes(&line_of));
                        hold_beside(&c, &line_of, device, step);
                    }
                    mf_ownership_free(&list);
                }
    }
    CHECK(lines > 3 * lists && lists > 0);
}

/* 0 to 5 over three processes of two: 0 1 | 2 3 | 4 5. */
static const int three[] = { 0, 2, 4, 6 };

static int listed(const void *devices, int64_t rank) { return ((const int *)devices)[rank]; }

TEST(a_list_in_any_order)
{
    mf_comm c = { .size = 3, .first_device = three };
    mf_ownership o;
    REQUIRE(CHECK(mf_ownership_list(&o, &c, 6, listed, (const int[]){ 1, 0, 5, 2, 3, 4 })));
    CHECK(!o.ordered);
    static const mf_owned_run expected[] = { { 0, 0 }, { 2, 2 }, { 3, 1 }, { 5, 2 } };
    REQUIRE(CHECK_EQ_INT(o.runs, 4));
    for (int i = 0; i < 4; i++)
        CHECK(mf_ownership_first(&o, i) == expected[i].first && mf_ownership_process(&o, i) == expected[i].process);
    CHECK_EQ_INT(mf_ownership_run_of(&o, 4), 2);
    mf_ownership_free(&o);
    REQUIRE(CHECK(mf_ownership_list(&o, &c, 6, listed, (const int[]){ 5, 4, 3, 2, 0, 1 })));
    CHECK(o.ordered && o.runs == 3);
    mf_ownership_free(&o);
}

TEST(a_device_that_nobody_has)
{
    mf_comm c = { .size = 3, .first_device = three };
    mf_ownership o;
    mf_comm_count_devices(&c);
    CHECK(!mf_ownership_line(&o, &c, 0, 1, 7));
    REQUIRE(CHECK(mf_ownership_list(&o, &c, 3, listed, (const int[]){ 0, 6, 1 })));
    CHECK_EQ_INT(o.count, 0);
    mf_ownership_free(&o);
}
