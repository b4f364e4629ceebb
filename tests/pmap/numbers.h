/* Compares all numbers of a result, leaf by leaf in tree order. */
#ifndef MF_TESTS_NUMBERS_H
#define MF_TESTS_NUMBERS_H

#include "check.h"

#include <manyfold.h>

#define F32(...) mf_array(MF_F32, MF_SHAPE((int64_t)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))), __VA_ARGS__)
#define I32(...) mf_array(MF_I32, MF_SHAPE((int64_t)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double))), __VA_ARGS__)
#define EXPECT(v, ...) \
    expect_(v, (const double[]){ __VA_ARGS__ }, (int)(sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)), __FILE__, __LINE__, #v)
#define EXPECT_ERROR(v, text)                   \
    do {                                        \
        mf_value e_ = (v);                      \
        if (CHECK(mf_is_error(e_)))             \
            CHECK_CONTAINS(mf_error(e_), text); \
        else                                    \
            CHECK_NOTE("it is %s", mf_str(e_)); \
    } while (0)

/* Equal within 1e-6 relative; results that must be exact in f32 are small integers. */
__attribute__((unused)) static bool expect_(mf_value v, const double *numbers, int count, const char *file, int line, const char *what)
{
    if (mf_is_error(v)) {
        check_fail_(file, line);
        printf("%s is an error: %s\n", what, mf_error(v));
        return false;
    }
    mf_value leaves = mf_tree_leaves(v);
    int at = 0;
    for (int i = 0; i < mf_len(leaves); i++) {
        mf_value leaf = mf_get(leaves, i);
        int n = (int)mf_size(leaf);
        double *got = malloc(((size_t)n + 1) * sizeof *got);
        if (mf_to_host(leaf, MF_F64, got, (size_t)n) != MF_OK) {
            check_fail_(file, line);
            printf("%s cannot be read: %s\n", what, mf_error(leaf) ? mf_error(leaf) : "no message");
            free(got);
            return false;
        }
        for (int k = 0; k < n; k++, at++)
            if (at >= count || !(fabs(got[k] - numbers[at]) <= 1e-6 * fmax(1, fabs(numbers[at])))) {
                check_fail_(file, line);
                printf("%s: number %d is %.9g, expected %.9g, in %s\n", what, at, got[k], at < count ? numbers[at] : NAN, mf_str(v));
                free(got);
                return false;
            }
        free(got);
    }
    return check_int_(at, count, file, line, what);
}

#endif
