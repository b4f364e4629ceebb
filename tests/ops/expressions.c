/* The rows of a test and their comparison with JAX's answers. */
#include "expressions.h"

#include "check.h"
#include "hash.h"
#include "oracle.h"

static int row;

/* The values, in the order of the file. */
typedef struct answered_row {
    const char *expression;
    mf_value value;
} answered_row;

static answered_row rows[512];
static int row_count;

void expressions_add(const char *expression, mf_value value)
{
    if (CHECK(row_count < (int)(sizeof rows / sizeof *rows)))
        rows[row_count++] = (answered_row){ expression, value };
}

static void compare(const oracle_case *c)
{
    char hash[17];
    if (!CHECK(row < row_count))
        return;
    const answered_row *r = &rows[row++];
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)hash_bytes(r->expression, strlen(r->expression), HASH_START));
    if (!CHECK(oracle_is(c, "hash", hash)))
        CHECK_NOTE("the answer is to another expression than %s: run tests/oracle/expressions.py", r->expression);
    bool tree = mf_kind_of(r->value) == MF_KIND_TUPLE || mf_kind_of(r->value) == MF_KIND_LIST;
    int leaves = tree ? mf_len(r->value) : 1;
    bool same = CHECK_EQ_INT(leaves, c->out_count);
    for (int i = 0; same && i < leaves; i++)
        same = oracle_same(c, i, tree ? mf_get(r->value, i) : r->value, c->out[i], false);
    if (!same)
        CHECK_NOTE("%s", r->expression);
}

void expressions_compare(const char *file)
{
    oracle_read(file, compare);
    CHECK_EQ_INT(row, row_count);
}
