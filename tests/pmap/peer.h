/* Helpers for the counterparts of JAX's own tests (the "peer"): one-line functions, arrays of eight rows, comparisons of whole values.
 * CONFORMANCE.md tells which test corresponds to which of JAX's. Every program here has eight devices. */
#ifndef MF_TESTS_PEER_H
#define MF_TESTS_PEER_H

#include "numbers.h"

#define FN(name, expression) \
    static mf_value name(mf_value v) { return (expression); }
#define FN2(name, a, b, expression) \
    static mf_value name(mf_value a, mf_value b) { return (expression); }
#define FN3(name, a, b, c, expression) \
    static mf_value name(mf_value a, mf_value b, mf_value c) { return (expression); }
/* A closure over one outer value w. */
#define OVER(name, argument, expression)              \
    static mf_value name(void *w_, mf_value argument) \
    {                                                 \
        mf_value w = *(mf_value *)w_;                 \
        return (expression);                          \
    }

__attribute__((constructor)) static void eight_devices(void) { setenv("MF_NUM_CPU_DEVICES", "8", 1); }

__attribute__((unused)) static mf_value filled_in_order(mf_dtype dtype, mf_shape shape)
{
    int64_t size = 1;
    for (int i = 0; i < shape.rank; i++)
        size *= shape.dims[i];
    return mf_reshape(mf_arange(size, dtype), shape);
}

#define FLOATS(...) filled_in_order(MF_F32, MF_SHAPE(__VA_ARGS__)) /* 0, 1, 2, ... of that shape */
#define INTS(...)   filled_in_order(MF_I32, MF_SHAPE(__VA_ARGS__))
#define WAVES(...)  mf_sin(mf_mul(1.7, FLOATS(__VA_ARGS__))) /* no structure that could hide a mistake */

/* Equal trees, equal shapes and, within a tolerance, equal numbers. */
#define EXPECT_SAME(a, b)        expect_same_(a, b, 1e-6, __FILE__, __LINE__, #a)
#define EXPECT_CLOSE(a, b, near) expect_same_(a, b, near, __FILE__, __LINE__, #a)

__attribute__((unused)) static bool same_leaf_(mf_value a, mf_value b, double tolerance, const char *file, int line, const char *what)
{
    mf_shape s = mf_shape_of(a), t = mf_shape_of(b);
    size_t n = (size_t)(mf_size(a) < 0 ? 0 : mf_size(a));
    if (mf_is_error(a) || mf_is_error(b)) {
        check_fail_(file, line);
        printf("%s is an error: %s\n", what, mf_is_error(a) ? mf_error(a) : mf_error(b));
        return false;
    }
    if (!check_str_(mf_str(s), mf_str(t), file, line, what))
        return false;
    double *x = malloc((2 * n + 1) * sizeof *x), *y = x + n;
    bool good = mf_to_host(a, MF_F64, x, n) == MF_OK && mf_to_host(b, MF_F64, y, n) == MF_OK;
    for (size_t i = 0; good && i < n; i++)
        good = check_near_(x[i], y[i], tolerance, file, line, what) || check_note_("at element %zu of %zu", i, n);
    if (mf_is_error(a) || mf_is_error(b))
        check_note_("%s", mf_is_error(a) ? mf_error(a) : mf_error(b));
    free(x);
    return good;
}

__attribute__((unused)) static bool expect_same_(mf_value a, mf_value b, double tolerance, const char *file, int line, const char *what)
{
    if (mf_is_error(a) || mf_is_error(b))
        return same_leaf_(a, b, tolerance, file, line, what);
    mf_value x = mf_tree_leaves(a), y = mf_tree_leaves(b);
    bool good = check_int_(mf_len(x), mf_len(y), file, line, what);
    for (int i = 0; good && i < mf_len(x); i++)
        good = same_leaf_(mf_get(x, i), mf_get(y, i), tolerance, file, line, what);
    return good;
}

/* Eight equal rows. */
__attribute__((unused)) static mf_value eight_times(mf_value x)
{
    mf_shape s = mf_shape_of(x), t = { .rank = s.rank + 1, .dims = { 8 } };
    memcpy(t.dims + 1, s.dims, (size_t)s.rank * sizeof *s.dims);
    return mf_broadcast_to(x, t);
}

/* The rotation of 0 ... n-1 by `by`, as (source, target) pairs. */
__attribute__((unused)) static mf_value rotation(int n, int by)
{
    mf_value pairs[64];
    for (int i = 0; i < n; i++)
        pairs[i] = mf_tuple(i, (i + by + n) % n);
    return mf_list_n(pairs, n);
}

#endif
