/* Prints arrays as NumPy 2.4's str() does with its default options: precision 8, lines of 75 columns, three elements at each edge beyond a
 * thousand. Invariant: the format is chosen in a first pass over exactly the elements that will be shown. Digits are the shortest that
 * identify the value in its own dtype; if more or fewer are shown they are those of the exact value, rounded to nearest even. bfloat16 is
 * printed as its Python type does it: six digits, unaligned. */
#include "array/array.h"

#include "base/memory/alloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PRECISION = 8, WIDTH = 75, EDGE = 3, THRESHOLD = 1000, WORD = 512 /* characters of an element; a complex one takes two */ };

typedef struct float_format {
    bool any, any_finite, any_special, negative_infinity;
    bool scientific, plus;    /* plus: positive numbers get a sign too */
    double largest, smallest; /* absolute values; of the finite nonzero elements */
    int left, right;          /* columns before and after the point */
    int digits, exponent;     /* in scientific notation: digits after the point, and of the exponent */
} float_format;

typedef struct array_printer {
    mf_text *out, line;
    const mf_array *array;
    const unsigned char *base;
    mf_dtype dtype;
    bool summarised;
    int width; /* of integers and bools */
    float_format real, imaginary;
} array_printer;

/* ---- digits of one number */

/* The decimal, rounded to the dtype. */
static double rounded(mf_dtype dtype, const char *decimal)
{
    if (dtype == MF_F64 || dtype == MF_C128)
        return strtod(decimal, NULL);
    float x = strtof(decimal, NULL);
    return dtype == MF_F16 ? (double)mf_f16_to_f32(mf_f32_to_f16(x)) : (double)x;
}

/* The number of digits after the first in the shortest decimal that identifies |x|; text receives it in %e form. */
static int shortest(mf_dtype dtype, double x, char *text)
{
    for (int n = 0;; n++) {
        snprintf(text, 64, "%.*e", n, fabs(x));
        if (n == 17 || rounded(dtype, text) == fabs(x))
            return n;
    }
}

static int trimmed(const char *s, int length)
{
    while (length > 0 && s[length - 1] == '0')
        length--;
    return length;
}

/* "12." or "0.5": the shortest digits, at most `most` of them after the point (negative: no limit), without trailing zeros. */
static void positional(mf_dtype dtype, double x, int most, bool plus, char *word)
{
    char e[64];
    int n = shortest(dtype, x, e), exponent = atoi(strchr(e, 'e') + 1), behind = n > exponent ? n - exponent : 0;
    const char *sign = signbit(x) ? "-" : plus ? "+" : "";
    if (most >= 0 && behind > most) { /* too many digits: print the exact value, rounded */
        int length = snprintf(word, WORD, "%s%.*f", sign, most, fabs(x));
        word[trimmed(word, length)] = 0;
        return;
    }
    word += sprintf(word, "%s", sign);
    char digits[64];
    digits[0] = e[0];
    memcpy(digits + 1, e + 2, (size_t)n);
    int at = 0;
    if (exponent < 0)
        *word++ = '0';
    for (int place = exponent; place >= 0; place--)
        *word++ = at <= n ? digits[at++] : '0';
    *word++ = '.';
    for (int place = -1; place > exponent && at <= n; place--)
        *word++ = '0';
    while (at <= n)
        *word++ = digits[at++];
    *word = 0;
}

/* "1.5e+10" with `least` to `most` digits after the point (negative `most`: no limit) and at least `size` exponent digits. */
static void scientific(mf_dtype dtype, double x, int least, int most, int size, bool plus, char *word)
{
    char e[64];
    int n = shortest(dtype, x, e);
    if (most >= 0 && n > most)
        n = most;
    if (n < least)
        n = least;
    snprintf(e, sizeof e, "%.*e", n, fabs(x));
    char *mark = strchr(e, 'e');
    int kept = least > 0 || n == 0 ? (int)(mark - e) : trimmed(e, (int)(mark - e));
    if (n > 0 && kept < 2 + least)
        kept = 2 + least; /* keep the point */
    sprintf(word, "%s%.*s%se%c%0*d", signbit(x) ? "-" : plus ? "+" : "", kept, e, n == 0 ? "." : "", mark[1], size, abs(atoi(mark + 1)));
}

/* ---- first pass: the columns that the shown elements need */

static void note_range(float_format *f, double x)
{
    double a = fabs(x);
    f->any = true;
    if (!isfinite(x)) {
        f->any_special = true;
        f->negative_infinity = f->negative_infinity || (isinf(x) && x < 0);
        return;
    }
    f->any_finite = true;
    if (a != 0) {
        f->largest = a > f->largest ? a : f->largest;
        f->smallest = f->smallest == 0 || a < f->smallest ? a : f->smallest;
    }
}

/* x rounded to the dtype of the elements' parts: NumPy compares in that precision. */
static double in_dtype(mf_dtype dtype, double x)
{
    if (dtype == MF_F16)
        return (double)mf_f16_to_f32(mf_f32_to_f16((float)x));
    return dtype == MF_F32 || dtype == MF_C64 ? (double)(float)x : x;
}

/* Numbers from here on are written with an exponent: ten to the number of digits of the dtype. */
static double positional_limit(mf_dtype dtype, double limit_of_wide)
{
    return dtype == MF_F16 ? 1e3 : dtype == MF_F32 || dtype == MF_C64 ? 1e6 : limit_of_wide;
}

static void choose_notation(float_format *f, mf_dtype dtype)
{
    f->scientific = f->largest != 0 && (f->largest >= positional_limit(dtype, 1e8) || f->smallest < in_dtype(dtype, 0.0001) ||
                                        in_dtype(dtype, f->largest / f->smallest) > 1000);
}

static void note_columns(float_format *f, mf_dtype dtype, double x)
{
    char word[WORD];
    if (!isfinite(x))
        return;
    if (f->scientific)
        scientific(dtype, x, 0, PRECISION, 2, f->plus, word);
    else
        positional(dtype, x, PRECISION, f->plus, word);
    const char *point = strchr(word, '.'), *mark = strchr(word, 'e');
    int left = (int)(point - word), right = (int)((mark ? mark : word + strlen(word)) - point) - 1;
    f->left = left > f->left ? left : f->left;
    if (!mark) {
        f->right = right > f->right ? right : f->right;
        return;
    }
    int exponent = (int)strlen(mark) - 2;
    f->digits = right > f->digits ? right : f->digits;
    f->exponent = exponent > f->exponent ? exponent : f->exponent;
}

static void widen_for_special(float_format *f)
{
    if (f->scientific)
        f->right = f->exponent + 2 + f->digits;
    if (!f->any_special)
        return;
    int offset = f->right + 1, nan = 3 - offset, inf = 3 + (f->plus || f->negative_infinity) - offset;
    f->left = nan > f->left ? nan : f->left;
    f->left = inf > f->left ? inf : f->left;
}

/* ---- an element as a word */

static void put_float(const float_format *f, mf_dtype dtype, double x, char *word)
{
    char plain[WORD];
    if (!isfinite(x)) {
        const char *name = isnan(x) ? (f->plus ? "+nan" : "nan") : x < 0 ? "-inf" : f->plus ? "+inf" : "inf";
        sprintf(word, "%*s", f->left + f->right + 1, name);
        return;
    }
    if (f->scientific)
        scientific(dtype, x, f->digits, f->digits, f->exponent, f->plus, plain);
    else
        positional(dtype, x, PRECISION, f->plus, plain);
    int left = (int)(strchr(plain, '.') - plain), right = (int)strlen(plain) - left - 1;
    sprintf(word, "%*s%s%*s", f->left - left, "", plain, !f->scientific && f->right > right ? f->right - right : 0, "");
}

/* bfloat16: C's %g */
static void put_brain(double x, char *word)
{
    if (isnan(x))
        strcpy(word, "nan");
    else
        snprintf(word, WORD, "%g", x);
}

static void parts_of(const array_printer *p, const unsigned char *at, double *re, double *im)
{
    mf_dtype part = p->dtype == MF_C64 ? MF_F32 : p->dtype == MF_C128 ? MF_F64 : p->dtype;
    *re = mf_load_f64(part, at);
    *im = part != p->dtype ? mf_load_f64(part, at + mf_dtype_size(part)) : 0;
}

static int print_integer(mf_dtype dtype, const unsigned char *at, char *word)
{
    int64_t x = mf_load_i64(dtype, at);
    return dtype == MF_U64 ? sprintf(word, "%llu", (unsigned long long)x) : sprintf(word, "%lld", (long long)x);
}

static void put_element(const array_printer *p, const unsigned char *at, char *word)
{
    double re, im;
    char plain[64];
    if (p->dtype == MF_BOOL) {
        strcpy(word, *at ? " True" : "False");
    } else if (mf_dtype_is_int(p->dtype)) {
        print_integer(p->dtype, at, plain);
        sprintf(word, "%*s", p->width, plain);
    } else if (p->dtype == MF_KEY) {
        sprintf(word, "0x%016llx", (unsigned long long)mf_load_i64(MF_U64, at));
    } else if (p->dtype == MF_BF16) {
        put_brain(mf_load_f64(MF_BF16, at), word);
    } else {
        parts_of(p, at, &re, &im);
        put_float(&p->real, p->dtype, re, word);
        if (!mf_dtype_is_complex(p->dtype))
            return;
        char second[WORD];
        put_float(&p->imaginary, p->dtype, im, second);
        int end = (int)strlen(second), padded = end;
        while (end && second[end - 1] == ' ')
            end--;
        sprintf(word + strlen(word), "%.*sj%*s", end, second, padded - end, ""); /* the j goes before the padding */
    }
}

/* ---- visiting the elements that are shown */

typedef void (*visitor)(array_printer *p, const unsigned char *at);

static void visit(array_printer *p, visitor fn, int axis, const unsigned char *at)
{
    const mf_type *t = p->array->type;
    if (axis == t->rank) {
        fn(p, at);
        return;
    }
    int64_t n = t->dims[axis];
    bool cut = p->summarised && n > 2 * EDGE;
    for (int64_t i = 0; i < n; i++) {
        if (cut && i == EDGE)
            i = n - EDGE;
        visit(p, fn, axis + 1, at + i * p->array->strides[axis]);
    }
}

static void visit_range(array_printer *p, const unsigned char *at)
{
    char word[64];
    double re, im;
    if (mf_dtype_is_int(p->dtype)) {
        int n = print_integer(p->dtype, at, word);
        p->width = n > p->width ? n : p->width;
        return;
    }
    parts_of(p, at, &re, &im);
    note_range(&p->real, re);
    note_range(&p->imaginary, im);
}

static void visit_columns(array_printer *p, const unsigned char *at)
{
    double re, im;
    parts_of(p, at, &re, &im);
    note_columns(&p->real, p->dtype, re);
    if (mf_dtype_is_complex(p->dtype))
        note_columns(&p->imaginary, p->dtype, im);
}

static void decide(array_printer *p)
{
    bool is_float = mf_dtype_is_inexact(p->dtype) && p->dtype != MF_BF16;
    if (!is_float && !mf_dtype_is_int(p->dtype))
        return;
    visit(p, visit_range, 0, p->base);
    if (!is_float)
        return;
    choose_notation(&p->real, p->dtype);
    choose_notation(&p->imaginary, p->dtype);
    visit(p, visit_columns, 0, p->base);
    widen_for_special(&p->real);
    widen_for_special(&p->imaginary);
}

/* ---- second pass: brackets and lines */

static void indent(mf_text *t, int columns)
{
    for (int i = 0; i < columns; i++)
        mf_text_putn(t, " ", 1);
}

static void flush(array_printer *p, bool strip)
{
    size_t n = p->line.count;
    while (strip && n && p->line.at[n - 1] == ' ')
        n--;
    if (n)
        mf_text_putn(p->out, p->line.at, n);
    p->line.count = 0;
}

/* Prints one row. Columns are counted from the hanging indent; on the row's first line the bracket takes its place. */
static void print_row(array_printer *p, int axis, const unsigned char *at)
{
    const mf_type *t = p->array->type;
    int64_t n = t->dims[axis];
    bool cut = p->summarised && n > 2 * EDGE;
    size_t hanging = (size_t)axis + 1, used = hanging, available = (size_t)(WIDTH - axis - 1);
    char word[2 * WORD];
    mf_text_put(p->out, "[");
    for (int64_t i = 0; i < n; i++) {
        bool dots = cut && i == EDGE;
        if (dots)
            i = n - EDGE - 1;
        if (dots)
            strcpy(word, "...");
        else
            put_element(p, at + i * p->array->strides[axis], word);
        size_t length = strlen(word);
        if (used + length > available && used > hanging) {
            flush(p, true);
            mf_text_put(p->out, "\n");
            indent(p->out, (int)hanging);
            used = hanging;
        }
        mf_text_putn(&p->line, word, length);
        used += length;
        if (i + 1 < n) {
            mf_text_put(&p->line, " ");
            used++;
        }
    }
    flush(p, false);
    mf_text_put(p->out, "]");
}

static void print_axis(array_printer *p, int axis, const unsigned char *at)
{
    const mf_type *t = p->array->type;
    if (axis == t->rank - 1) {
        print_row(p, axis, at);
        return;
    }
    int64_t n = t->dims[axis];
    bool cut = p->summarised && n > 2 * EDGE;
    mf_text_put(p->out, "[");
    for (int64_t i = 0; i < n; i++) {
        if (i) {
            for (int k = 1; k < t->rank - axis; k++)
                mf_text_put(p->out, "\n");
            indent(p->out, axis + 1);
        }
        if (cut && i == EDGE) {
            mf_text_put(p->out, "...");
            i = n - EDGE - 1;
            continue;
        }
        print_axis(p, axis + 1, at + i * p->array->strides[axis]);
    }
    mf_text_put(p->out, "]");
}

/* ---- a bare number, as NumPy's scalar prints */

static void print_bare_float(mf_dtype dtype, double x, char *word)
{
    double a = fabs(x);
    if (!isfinite(x)) {
        strcpy(word, isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
        return;
    }
    if (a == 0 || (a >= 1e-4 && a < positional_limit(dtype, 1e16))) {
        positional(dtype, x, -1, false, word);
        if (word[strlen(word) - 1] == '.')
            strcat(word, "0");
        return;
    }
    scientific(dtype, x, 0, -1, 2, false, word);
    char *point = strchr(word, '.');
    if (point[1] == 'e')
        memmove(point, point + 1, strlen(point));
}

/* A part of a complex number: without the point if no digits follow. */
static void print_part(mf_dtype dtype, double x, char *word)
{
    print_bare_float(dtype, x, word);
    size_t n = strlen(word);
    if (n > 2 && strcmp(word + n - 2, ".0") == 0)
        word[n - 2] = '\0';
}

static void print_bare_complex(array_printer *p, double re, double im)
{
    char word[WORD], other[WORD];
    print_part(p->dtype, re, word);
    print_part(p->dtype, im, other);
    if (re == 0 && !signbit(re))
        mf_text_add(p->out, "%sj", other);
    else
        mf_text_add(p->out, "(%s%s%sj)", word, other[0] == '-' ? "" : "+", other);
}

static void print_bare(array_printer *p)
{
    char word[WORD];
    double re, im;
    if (p->dtype == MF_BOOL) {
        strcpy(word, *p->base ? "True" : "False");
    } else if (!mf_dtype_is_inexact(p->dtype) || p->dtype == MF_BF16) {
        put_element(p, p->base, word);
    } else {
        parts_of(p, p->base, &re, &im);
        if (mf_dtype_is_complex(p->dtype)) {
            print_bare_complex(p, re, im);
            return;
        }
        print_bare_float(p->dtype, re, word);
    }
    mf_text_put(p->out, word);
}

void mf_array_print(mf_text *t, mf_array *a)
{
    mf_error_object *error = NULL;
    mf_array *here = mf_array_on(&mf_client_cpu, a, &error);
    error = here ? mf_array_begin_read(here) : error;
    if (error) {
        mf_text_put(t, error->message);
        mf_error_handle(error); /* its text was shown */
        mf_drop(error);
        mf_drop(here);
        return;
    }
    a = here;
    array_printer p = { .out = t, .array = a, .base = mf_array_data(a), .dtype = a->type->dtype, .summarised = a->type->size > THRESHOLD };
    p.imaginary.plus = true;
    if (a->type->size == 0) {
        mf_text_put(t, "[]");
    } else if (a->type->rank == 0) {
        print_bare(&p);
    } else {
        decide(&p);
        print_axis(&p, 0, p.base);
    }
    mf_array_end_read(here);
    mf_drop(here);
    t->failed = t->failed || p.line.failed;
    mf_text_free(&p.line);
}
