/* Golden files: golden_compare compares a text with its file below tests/ or, if MF_GOLDEN_WRITE is set, writes the file. */
#ifndef TESTS_GOLDEN_H
#define TESTS_GOLDEN_H

#include "check.h"

#include <stdio.h>
#include <stdlib.h>

static inline void golden_compare(const char *file, const char *found)
{
    static char expected[1 << 18];
    char path[512];
    snprintf(path, sizeof path, "%s/%s", MF_TESTS_DIR, file);
    if (getenv("MF_GOLDEN_WRITE")) {
        FILE *to = fopen(path, "wb");
        REQUIRE(CHECK(to));
        fputs(found, to);
        fclose(to);
    }
    FILE *f = fopen(path, "rb");
    expected[f ? fread(expected, 1, sizeof expected - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    CHECK_STR(found, expected);
}

#endif
