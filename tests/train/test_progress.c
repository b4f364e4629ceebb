/* The progress bar's output to a file, and to a terminal. */
#include "check.h"

#include <manyfold.h>

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static char text[1 << 14];

/* Runs a loop with a progress bar that prints to this descriptor as stdout. */
static void loop(int out, int in, int steps, int done, const char *said, bool silent)
{
    fflush(stdout);
    int before = dup(STDOUT_FILENO);
    dup2(out, STDOUT_FILENO);
    mf_progress *p = mf_progress_open("Epoch 1/3, batch", steps, .done = done, .unit = "images", .per_step = 4, .silent = silent);
    for (int i = done; i < steps; i++)
        mf_progress_step(p, said);
    mf_progress_close(p);
    fflush(stdout);
    dup2(before, STDOUT_FILENO);
    close(before);
    close(out);
    ssize_t n, got = 0;
    while ((n = read(in, text + got, sizeof text - 1 - (size_t)got)) > 0)
        got += n;
    text[got] = 0;
    close(in);
}

static int lines(void)
{
    int count = 0;
    for (const char *c = text; *c; c++)
        count += *c == '\n';
    return count;
}

static void loop_into_pipe(int steps, int done, const char *said, bool silent)
{
    int ends[2];
    REQUIRE(CHECK(pipe(ends) == 0));
    loop(ends[1], ends[0], steps, done, said, silent);
}

TEST(a_line_every_tenth)
{
    loop_into_pipe(200, 0, "loss 0.5", false);
    CHECK_EQ_INT(lines(), 10);
    CHECK_CONTAINS(text, "Epoch 1/3, batch 20/200: loss 0.5, ");
    CHECK_CONTAINS(text, " images/s, 0:00 left\n");
    CHECK(!strchr(text, '\r'));
    loop_into_pipe(200, 150, NULL, false);
    CHECK_EQ_INT(lines(), 3);
    CHECK(strncmp(text, "Epoch 1/3, batch 160/200: ", 26) == 0 && text[26] >= '0' && text[26] <= '9');
    loop_into_pipe(3, 0, NULL, false);
    CHECK_EQ_INT(lines(), 3);
    loop_into_pipe(200, 0, NULL, true);
    CHECK_STR(text, "");
    mf_progress_step(NULL, NULL);
    mf_progress_close(NULL);
}

TEST(a_bar_on_a_terminal)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) || unlockpt(master))
        SKIP("there are no terminals");
    int terminal = open(ptsname(master), O_RDWR | O_NOCTTY);
    REQUIRE(CHECK(terminal >= 0));
    loop(terminal, master, 30, 0, "loss 0.5", false);
    CHECK_CONTAINS(text, "\rEpoch 1/3, batch [#.............................] 1/30: loss 0.5, ");
    CHECK_CONTAINS(text, "\rEpoch 1/3, batch [##############################] 30/30: loss 0.5, ");
    CHECK_EQ_INT(lines(), 1);
}
