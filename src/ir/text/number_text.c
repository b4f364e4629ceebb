/* Numbers in program texts. Invariant: the text of a value reads back as the same bits (NaN payloads apart), in any locale. */
#include "ir/text/number_text.h"
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONGEST 64

mf_dtype mf_number_dtype(mf_dtype dtype, int *numbers)
{
    *numbers = dtype == MF_C64 || dtype == MF_C128 || dtype == MF_KEY ? 2 : 1;
    return dtype == MF_C64 ? MF_F32 : dtype == MF_C128 ? MF_F64 : dtype == MF_KEY ? MF_U32 : dtype;
}

/* The C library prints and reads the locale's decimal point; program texts always use '.'. */
static char decimal_point(void)
{
    const struct lconv *conventions = localeconv();
    return conventions && conventions->decimal_point && conventions->decimal_point[0] ? conventions->decimal_point[0] : '.';
}

static void exchange(char *s, char from, char to)
{
    for (; from != to && *s; s++)
        if (*s == from)
            *s = to;
}

static void print_float(mf_text *t, mf_dtype dtype, double x)
{
    char s[LONGEST], want[8], got[8];
    mf_store_f64(dtype, want, x);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(s, sizeof s, "%.*g", digits, x);
        mf_store_f64(dtype, got, strtod(s, NULL));
        if (memcmp(want, got, (size_t)mf_dtype_size(dtype)) == 0)
            break;
    }
    exchange(s, decimal_point(), '.');
    mf_text_put(t, s);
    if (!strpbrk(s, ".e"))
        mf_text_put(t, ".0");
}

static void print_any_float(mf_text *t, mf_dtype dtype, double x)
{
    if (isnan(x))
        mf_text_put(t, "nan");
    else if (isinf(x))
        mf_text_put(t, x < 0 ? "-inf" : "inf");
    else
        print_float(t, dtype, x);
}

void mf_number_print_double(mf_text *t, double x) { print_any_float(t, MF_F64, x); }

void mf_number_print(mf_text *t, mf_dtype dtype, const void *p)
{
    if (mf_dtype_is_float(dtype))
        print_any_float(t, dtype, mf_load_f64(dtype, p));
    else if (dtype == MF_BOOL)
        mf_text_put(t, mf_load_i64(dtype, p) ? "true" : "false");
    else if (dtype == MF_U64)
        mf_text_add(t, "%" PRIu64, (uint64_t)mf_load_i64(dtype, p));
    else
        mf_text_add(t, "%" PRId64, mf_load_i64(dtype, p));
}

static bool read_float(mf_dtype dtype, char *s, void *out)
{
    char *end;
    exchange(s, '.', decimal_point());
    double x = strtod(s, &end);
    mf_store_f64(dtype, out, x);
    return *s && !*end;
}

static bool read_int(mf_dtype dtype, const char *s, void *out)
{
    char *end;
    errno = 0;
    int64_t x = s[0] == '-' ? (int64_t)strtoll(s, &end, 10) : (int64_t)strtoull(s, &end, 10);
    if (errno || *end || (s[0] != '-' && dtype != MF_U64 && x < 0))
        return false;
    mf_store_i64(dtype, out, x);
    return (s[0] != '-' || !mf_dtype_is_unsigned(dtype)) && mf_load_i64(dtype, out) == x;
}

bool mf_number_read(mf_dtype dtype, const char *s, int length, void *out)
{
    char copy[LONGEST];
    if (length < 1 || length >= LONGEST)
        return false;
    memcpy(copy, s, (size_t)length);
    copy[length] = 0;
    bool yes = strcmp(copy, "true") == 0, no = strcmp(copy, "false") == 0;
    if (yes || no) {
        if (dtype == MF_BOOL)
            mf_store_i64(dtype, out, yes);
        return dtype == MF_BOOL;
    }
    if (mf_dtype_is_float(dtype))
        return read_float(dtype, copy, out);
    return mf_dtype_is_int(dtype) && read_int(dtype, copy, out);
}
