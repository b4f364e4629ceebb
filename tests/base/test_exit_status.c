/* The exit status: the first error that was not handled, or none; and the warning about values that accumulate. */
#include "base/handles/handle.h"
#include "check.h"

#include <unistd.h>

/* Runs fn with stderr redirected to a file; returns what it wrote. */
static const char *said_by(void (*fn)(void))
{
    static char text[4096];
    fflush(stderr);
    FILE *f = tmpfile();
    int before = dup(STDERR_FILENO);
    if (!f || before < 0)
        return "(no temporary file)";
    dup2(fileno(f), STDERR_FILENO);
    fn();
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static int status;
static void end(void) { status = mf_exit_status(); }

/* The order of these tests matters: a reported error is never forgotten. */
TEST(nothing_wrong)
{
    CHECK_STR(said_by(end), "");
    CHECK_EQ_INT(status, EXIT_SUCCESS);
}

TEST(handled_errors_do_not_count)
{
    MF_SCOPE;
    CHECK(mf_error(mf_make_error(MF_ERROR_IO, "handled")));
    mf_error_ignore(mf_error_new(MF_ERROR_IO, "tried in vain"));
    CHECK_STR(said_by(end), "");
    CHECK_EQ_INT(status, EXIT_SUCCESS);
}

TEST(the_first_unhandled_error_is_printed_once)
{
    MF_SCOPE;
    mf_make_error(MF_ERROR_SHAPE, "the cause");
    mf_make_error(MF_ERROR_SHAPE, "a consequence");
    const char *said = said_by(end);
    CHECK_CONTAINS(said, "manyfold: error: the cause (");
    CHECK(!strstr(said, "consequence"));
    CHECK_EQ_INT(status, EXIT_FAILURE);
    CHECK_STR(said_by(end), "");
}

static void drop_unseen(void)
{
    MF_SCOPE;
    mf_make_error(MF_ERROR_PEER, "unseen");
}

TEST(an_error_that_was_reported_still_counts)
{
    CHECK_CONTAINS(said_by(drop_unseen), "manyfold: error: unseen (");
    CHECK_STR(said_by(end), "");
    CHECK_EQ_INT(status, EXIT_FAILURE);
}

static void pile_up(void)
{
    static const mf_class thing = { "thing", NULL };
    mf_object *o = mf_object_new(&thing, sizeof *o);
    MF_SCOPE;
    for (int i = 0; i < 101000; i++)
        mf_value_of(o);
    mf_drop(o);
}

TEST(piling_up_is_warned_about_once)
{
    const char *said = said_by(pile_up);
    CHECK_CONTAINS(said, "manyfold: warning: more than 100000 values have piled up in a scope");
    CHECK_CONTAINS(said, "MF_SCOPE");
    CHECK_STR(said_by(pile_up), "");
}
