/* A ppermute in which each process has other partners. Two processes have more partners than one round of messages between all processes
 * has, and exchange with each other, too. */
#include "check.h"
#include "spread.h"

enum { MANY = 16, ROWS = 4 * MANY - 2 }; /* two processes with 16 devices, each followed by 15 processes with one */

__attribute__((constructor)) static void devices(void) { setenv("MF_NUM_CPU_DEVICES", "62", 1); }

/* Each device of a large process sends its row to one of the small processes that follow, and its last device to the other large process. */
static mf_value to_partners(mf_value x)
{
    mf_value pairs[2 * MANY];
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < MANY; i++) {
            int own = side * (2 * MANY - 1), other = (1 - side) * (2 * MANY - 1);
            pairs[side * MANY + i] = mf_tuple(own + i, i < MANY - 1 ? own + MANY + i : other);
        }
    return mf_ppermute(x, "i", mf_list_n(pairs, 2 * MANY));
}

static mf_value program(const spread_here *h)
{
    mf_value x = spread_rows(h, mf_reshape(mf_arange(3 * ROWS, MF_F32), MF_SHAPE(ROWS, 3)));
    return mf_dict("rows", mf_call(mf_pmap(to_partners, "i", .devices = h->devices), x));
}

TEST(each_process_has_partners_of_its_own)
{
    char owners[ROWS + 1] = "", one[ROWS + 1] = "";
    int at = 0;
    for (int p = 0; p < 2 * MANY; p++)
        for (int i = 0; i < (p % MANY ? 1 : MANY); i++)
            owners[at++] = (char)('0' + p);
    CHECK_EQ_INT(at, ROWS);
    memset(one, '0', ROWS);
    spread_check("ppermute", program, NULL, ROWS, (const char *const[]){ one, owners, NULL });
}
