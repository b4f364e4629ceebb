/* Printing against NumPy's str(): the corpus is tests/oracle/printing.txt (oracle/printing.py makes it). */
#include "array/array.h"
#include "check.h"

#include <errno.h>
#include <manyfold.h>

enum { LINE = 1 << 16, MOST = 1 << 20 };
static double numbers[MOST];
static char integers[MOST][24]; /* as written: 64-bit integers do not pass through doubles */

typedef struct corpus_case {
    mf_dtype dtype;
    int rank, count;
    int64_t dims[MF_RANK];
    char recipe[16], title[200];
} corpus_case;

static void parse_dims(corpus_case *c, const char *s)
{
    c->rank = 0;
    if (*s == '-')
        return;
    for (char *end; *s; s = *end ? end + 1 : end)
        c->dims[c->rank++] = strtoll(s, &end, 10);
}

static bool parse_case(corpus_case *c, char *line)
{
    snprintf(c->title, sizeof c->title, "%.150s", line);
    char *save, *word = strtok_r(line, " \n", &save);
    if (!word || strcmp(word, "case"))
        return false;
    strtok_r(NULL, " \n", &save);
    word = strtok_r(NULL, " \n", &save);
    c->dtype = mf_dtype_parse(word, (int)strlen(word));
    parse_dims(c, strtok_r(NULL, " \n", &save));
    snprintf(c->recipe, sizeof c->recipe, "%s", strtok_r(NULL, " \n", &save));
    for (c->count = 0; (word = strtok_r(NULL, " \n", &save)); c->count++) {
        numbers[c->count] = strtod(word, NULL);
        snprintf(integers[c->count], sizeof integers[0], "%s", word);
    }
    return true;
}

static double made(const corpus_case *c, int64_t i, int64_t size)
{
    if (!strcmp(c->recipe, "arange"))
        return numbers[0] + (double)i * numbers[1];
    if (!strcmp(c->recipe, "linspace"))
        return numbers[0] + (double)i * ((numbers[1] - numbers[0]) / (double)(size - 1));
    return fmod((double)i * numbers[0], numbers[1]) + numbers[2];
}

static mf_array *build(const corpus_case *c)
{
    const mf_type *t = mf_type_get(c->dtype, false, c->rank, c->dims);
    mf_array *a = mf_array_new(t);
    unsigned char *at = mf_array_data(a);
    for (int64_t i = 0; i < t->size; i++, at += mf_dtype_size(c->dtype)) {
        if (strcmp(c->recipe, "values"))
            mf_store_f64(c->dtype, at, made(c, i, t->size));
        else if (mf_dtype_is_int(c->dtype))
            mf_store_i64(c->dtype, at, integers[i][0] == '-' ? strtoll(integers[i], NULL, 10) : (int64_t)strtoull(integers[i], NULL, 10));
        else
            mf_store_f64(c->dtype, at, numbers[i]);
    }
    return a;
}

static void compare(const corpus_case *c, const char *expected)
{
    mf_array *a = build(c);
    mf_text t = { 0 };
    mf_array_print(&t, a);
    if (!CHECK_STR(t.at, expected))
        CHECK_NOTE("%s", c->title);
    mf_text_free(&t);
    mf_drop(a);
}

TEST(prints_like_numpy)
{
    FILE *f = fopen(MF_TESTS_DIR "/oracle/printing.txt", "r");
    REQUIRE(f);
    static char line[LINE];
    mf_text expected = { 0 };
    corpus_case c = { 0 };
    int cases = 0;
    bool open = false;
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '|') {
            line[strcspn(line, "\n")] = 0;
            mf_text_add(&expected, "%s%s", expected.count ? "\n" : "", line + 1);
            continue;
        }
        if (open)
            compare(&c, expected.at);
        mf_text_free(&expected);
        open = parse_case(&c, line);
        cases += open;
    }
    if (open)
        compare(&c, expected.at);
    mf_text_free(&expected);
    fclose(f);
    CHECK(cases > 350);
}

/* A view with strides of 0 and a transposed one print as their elements, not as their memory. */
TEST(prints_views)
{
    const int32_t one = 7;
    mf_array *full = mf_array_fill(mf_type_get(MF_I32, false, 2, (const int64_t[]){ 2, 3 }), &one);
    mf_text t = { 0 };
    mf_array_print(&t, full);
    CHECK_STR(t.at, "[[7 7 7]\n [7 7 7]]");
    mf_text_free(&t);
    mf_array *a = mf_array_new(mf_type_get(MF_I32, false, 2, (const int64_t[]){ 2, 3 }));
    for (int i = 0; i < 6; i++)
        ((int32_t *)mf_array_data(a))[i] = i;
    mf_array *turned = mf_array_view(a, mf_type_get(MF_I32, false, 2, (const int64_t[]){ 3, 2 }), 0, (const int64_t[]){ 4, 12 },
                                     a->sharding);
    mf_array_print(&t, turned);
    CHECK_STR(t.at, "[[0 3]\n [1 4]\n [2 5]]");
    mf_text_free(&t);
    mf_drop(turned);
    mf_drop(a);
    mf_drop(full);
}

TEST(prints_one_complex_number)
{
    static const struct {
        float re, im;
        const char *text;
    } cases[] = { { 4.5f, -2, "(4.5-2j)" },
                  { 0, 2, "2j" },
                  { 0, 0, "0j" },
                  { 3, 0, "(3+0j)" },
                  { 1234567, 1, "(1.234567e+06+1j)" },
                  { 12345678, -1.5e-5f, "(1.2345678e+07-1.5e-05j)" } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mf_array *a = mf_array_new(mf_type_scalar(MF_C64, false));
        memcpy(mf_array_data(a), &cases[i].re, 2 * sizeof(float));
        mf_text t = { 0 };
        mf_array_print(&t, a);
        CHECK_STR(t.at, cases[i].text);
        mf_text_free(&t);
        mf_drop(a);
    }
}

TEST(prints_complex)
{
    const float data[] = { 1, 2, -0.5f, -1 };
    mf_array *a = mf_array_new(mf_type_get(MF_C64, false, 1, (const int64_t[]){ 2 }));
    memcpy(mf_array_data(a), data, sizeof data);
    mf_text t = { 0 };
    mf_array_print(&t, a);
    CHECK_STR(t.at, "[ 1. +2.j -0.5-1.j]");
    mf_text_free(&t);
    mf_drop(a);
}

TEST(what_has_no_shape_does_not_print_as_a_scalar)
{
    MF_SCOPE;
    CHECK_STR(mf_str(MF_SHAPE()), "()");
    CHECK_STR(mf_str(MF_SHAPE(3)), "(3,)");
    CHECK_STR(mf_str(mf_shape_of(mf_tuple(1, 2))), "(rank -1)");
    CHECK_STR(mf_str((mf_shape){ .rank = 9 }), "(rank 9)");
}
