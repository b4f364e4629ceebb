/* Captures stderr, where warnings are written, from catch_warnings to the next count_warnings, which returns how many lines contained a
 * given part. */
#ifndef TESTS_WARNINGS_H
#define TESTS_WARNINGS_H

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static FILE *caught_warnings;
static int stderr_before;

static inline void catch_warnings(void)
{
    fflush(stderr);
    caught_warnings = tmpfile();
    stderr_before = dup(STDERR_FILENO);
    dup2(fileno(caught_warnings), STDERR_FILENO);
}

static inline int count_warnings(const char *part)
{
    char line[1024];
    int count = 0;
    fflush(stderr);
    dup2(stderr_before, STDERR_FILENO);
    close(stderr_before);
    rewind(caught_warnings);
    while (fgets(line, sizeof line, caught_warnings))
        count += strstr(line, part) != NULL;
    fclose(caught_warnings);
    return count;
}

#endif
