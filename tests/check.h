/* The test harness: one header, no library.
 *
 *     #include "check.h"
 *     TEST(addition) { CHECK_EQ_INT(1 + 1, 2); }
 *
 * A TEST registers itself; main is defined here. A failed CHECK prints file and line, and the test continues; a failed REQUIRE leaves the
 * test. The program's arguments select tests by a part of their name; with a leading - they exclude tests. The last line is "N passed, M
 * failed"; the exit status is 1 after a failure. All definitions are weak, so several files of a test program may include this header.
 * Checks may fail on any thread. */
#ifndef MF_CHECK_H
#define MF_CHECK_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct check_test {
    const char *name;
    void (*run)(void);
    struct check_test *next;
} check_test;

__attribute__((weak)) check_test *check_first, **check_end = &check_first;
__attribute__((weak)) int check_failures; /* in the running test */
__attribute__((weak)) int check_skipped;

#define TEST(name)                                                       \
    static void test_##name(void);                                       \
    __attribute__((constructor)) static void check_register_##name(void) \
    {                                                                    \
        static check_test test = { #name, test_##name, NULL };           \
        *check_end = &test;                                              \
        check_end = &test.next;                                          \
    }                                                                    \
    static void test_##name(void)

#define CHECK(condition) check_true_(!!(condition), __FILE__, __LINE__, #condition)
#define REQUIRE(condition)       \
    do {                         \
        if (!CHECK(condition)) { \
            return;              \
        }                        \
    } while (0)
#define CHECK_EQ_INT(actual, expected)  check_int_((int64_t)(actual), (int64_t)(expected), __FILE__, __LINE__, #actual)
#define CHECK_EQ_UINT(actual, expected) check_uint_((uint64_t)(actual), (uint64_t)(expected), __FILE__, __LINE__, #actual)
/* |actual - expected| <= tolerance * max(1, |expected|); NaN is near NaN, an infinity is near itself */
#define CHECK_NEAR(actual, expected, tolerance) check_near_((actual), (expected), (tolerance), __FILE__, __LINE__, #actual)
#define CHECK_STR(actual, expected)             check_str_((actual), (expected), __FILE__, __LINE__, #actual)
#define CHECK_CONTAINS(actual, part)            check_contains_((actual), (part), __FILE__, __LINE__, #actual)
/* Whole arrays have the same bits; a failure prints the position of the first difference */
#define CHECK_BYTES(actual, expected, size) check_bytes_((actual), (expected), (size), __FILE__, __LINE__, #actual)
/* In a loop over cases, prints the case of a failure: if (!CHECK(...)) CHECK_NOTE("n = %d", n); */
#define CHECK_NOTE(...) check_note_(__VA_ARGS__)
/* Skips a test that this machine cannot run; prints the reason, and skipped tests are counted separately */
#define SKIP(reason)                      \
    do {                                  \
        printf("(skipped: %s) ", reason); \
        check_skipped++;                  \
        return;                           \
    } while (0)

/* C leaves the order in which a call's arguments are computed to the compiler, and with it the order of the equations that they trace. The
 * texts and counts that a test compares are those of gcc. */
#ifdef __clang__
#define SKIP_UNLESS_GCC() SKIP("the order of equations is gcc's")
#else
#define SKIP_UNLESS_GCC() (void)0
#endif

__attribute__((weak, format(printf, 1, 2))) bool check_note_(const char *format, ...);
__attribute__((weak)) bool check_true_(bool ok, const char *file, int line, const char *what);

bool check_note_(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("      ");
    vprintf(format, list);
    printf("\n");
    va_end(list);
    return false;
}

__attribute__((weak)) bool check_fail_(const char *file, int line)
{
    if (__atomic_fetch_add(&check_failures, 1, __ATOMIC_RELAXED) == 0) {
        printf("\n");
    }
    printf("    %s:%d: ", file, line);
    return false;
}

bool check_true_(bool ok, const char *file, int line, const char *what)
{
    return ok || (check_fail_(file, line), printf("%s does not hold\n", what), false);
}

__attribute__((weak)) bool check_int_(int64_t actual, int64_t expected, const char *file, int line, const char *what)
{
    return actual == expected ||
           (check_fail_(file, line), printf("%s is %" PRId64 ", expected %" PRId64 "\n", what, actual, expected), false);
}

__attribute__((weak)) bool check_uint_(uint64_t actual, uint64_t expected, const char *file, int line, const char *what)
{
    return actual == expected ||
           (check_fail_(file, line),
            printf("%s is %" PRIu64 " (0x%" PRIx64 "), expected %" PRIu64 " (0x%" PRIx64 ")\n", what, actual, actual, expected, expected),
            false);
}

__attribute__((weak)) bool check_near_(double actual, double expected, double tolerance, const char *file, int line, const char *what)
{
    if (actual == expected || (isnan(actual) && isnan(expected)) || fabs(actual - expected) <= tolerance * fmax(1, fabs(expected))) {
        return true;
    }
    check_fail_(file, line);
    printf("%s is %.17g, expected %.17g within %g\n", what, actual, expected, tolerance);
    return false;
}

__attribute__((weak)) bool check_str_(const char *actual, const char *expected, const char *file, int line, const char *what)
{
    if (actual == expected || (actual && expected && strcmp(actual, expected) == 0)) {
        return true;
    }
    check_fail_(file, line);
    printf("%s is\n<<%s>>\n    expected\n<<%s>>\n", what, actual ? actual : "(null)", expected ? expected : "(null)");
    return false;
}

__attribute__((weak)) bool check_contains_(const char *actual, const char *part, const char *file, int line, const char *what)
{
    if (actual && strstr(actual, part)) {
        return true;
    }
    check_fail_(file, line);
    printf("%s is\n<<%s>>\n    which does not contain\n<<%s>>\n", what, actual ? actual : "(null)", part);
    return false;
}

__attribute__((weak)) bool check_bytes_(const void *actual, const void *expected, size_t size, const char *file, int line, const char *what)
{
    const unsigned char *a = actual, *e = expected;
    for (size_t i = 0; i < size; i++) {
        if (a[i] != e[i]) {
            check_fail_(file, line);
            printf("%s differs at byte %zu of %zu: 0x%02x, expected 0x%02x\n", what, i, size, a[i], e[i]);
            return false;
        }
    }
    return true;
}

__attribute__((weak)) int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (check_test *test = check_first; test; test = test->next) {
        bool wanted = argc < 2 || *argv[1] == '-';
        for (int i = 1; i < argc; i++) {
            wanted = *argv[i] == '-' ? wanted && strcmp(test->name, argv[i] + 1) != 0 : wanted || strstr(test->name, argv[i]);
        }
        if (!wanted) {
            continue;
        }
        printf("  %s ", test->name); /* before it runs, so that a crash shows which test it was */
        fflush(stdout);
        check_failures = 0;
        test->run();
        if (check_failures) {
            printf("  %s FAILED\n", test->name);
        } else {
            printf("ok\n");
        }
        passed += check_failures == 0;
        failed += check_failures != 0;
    }
    if (check_skipped) {
        printf("%d skipped\n", check_skipped);
    }
    printf("%d passed, %d failed\n", passed - check_skipped, failed);
    return failed != 0 || (passed == 0 && argc > 1);
}

#endif
