/* Reads and compares known answers. Invariant: an input is exactly the number in the file, whatever its dtype. */
#include "ops/oracle.h"

#include "array/types/dtype.h"
#include "check.h"

enum { LINE = 65536 };

static bool complain(const oracle_case *c, const char *what, const char *more)
{
    check_fail_(c->file, c->line);
    printf("%s: %s%s\n", c->name, what, more);
    return false;
}

/* ---- attributes */
const char *oracle_text(const oracle_case *c, const char *key)
{
    for (int i = 0; i < c->attribute_count; i++)
        if (strcmp(c->key[i], key) == 0)
            return c->value[i];
    return NULL;
}

bool oracle_is(const oracle_case *c, const char *key, const char *value)
{
    const char *text = oracle_text(c, key);
    return text && strcmp(text, value) == 0;
}

double oracle_number(const oracle_case *c, const char *key, double otherwise)
{
    const char *text = oracle_text(c, key);
    return text ? strtod(text, NULL) : otherwise;
}

mf_dtype oracle_dtype(const oracle_case *c, const char *key)
{
    const char *text = oracle_text(c, key);
    return text ? mf_dtype_parse(text, (int)strlen(text)) : MF_DTYPE_DEFAULT;
}

mf_ints oracle_column(const oracle_case *c, const char *key, int column)
{
    mf_ints list = { .count = 0 };
    const char *p = oracle_text(c, key);
    while (p && *p && strcmp(p, "-") != 0 && list.count < MF_MAX_RANK) {
        const char *number = p;
        for (int i = 0; i < column; i++)
            number += strcspn(number, ":,") + 1;
        list.at[list.count++] = strtoll(number, NULL, 10);
        p += strcspn(p, ",");
        p += *p == ',';
    }
    return list;
}

mf_ints oracle_ints(const oracle_case *c, const char *key) { return oracle_column(c, key, 0); }

mf_shape oracle_shape(const oracle_case *c, const char *key)
{
    mf_ints list = oracle_ints(c, key);
    mf_shape shape = { .rank = list.count };
    memcpy(shape.dims, list.at, sizeof shape.dims);
    return shape;
}

/* ---- lines */
static void read_element(mf_dtype d, const char *text, void *out)
{
    if (mf_dtype_is_float(d))
        mf_store_f64(d, out, strtod(text, NULL));
    else
        mf_store_i64(d, out, *text == '-' ? strtoll(text, NULL, 10) : (int64_t)strtoull(text, NULL, 10));
}

/* Complex numbers are pairs of floats. */
static mf_dtype part_of(mf_dtype d) { return d == MF_C64 ? MF_F32 : d == MF_C128 ? MF_F64 : d; }

/* "f32 2,3 v v v ..." */
static mf_value read_array(oracle_case *c, char *text)
{
    char *state, *dtype = strtok_r(text, " \n", &state), *dims = strtok_r(NULL, " \n", &state), *token, *end;
    mf_dtype d = dtype ? mf_dtype_parse(dtype, (int)strlen(dtype)) : MF_DTYPE_DEFAULT;
    mf_shape shape = { .rank = 0 };
    int64_t size = 1, count = 0;
    for (char *p = dims; p && *p != '-' && *p && shape.rank < MF_MAX_RANK; p = *end == ',' ? end + 1 : end)
        size *= shape.dims[shape.rank++] = strtoll(p, &end, 10);
    char *data = calloc((size_t)size + 1, 16);
    mf_dtype part = part_of(d);
    size *= part != d ? 2 : 1;
    while (count <= size && (token = strtok_r(NULL, " \n", &state)))
        if (count++ < size)
            read_element(part, token, data + (count - 1) * mf_dtype_size(part));
    if (!d || count != size)
        complain(c, "malformed array", "");
    mf_value v = mf_from_host(d, shape, data);
    free(data);
    return v;
}

static void read_head(oracle_case *c, char *text)
{
    char *state, *token = strtok_r(text, " \n", &state);
    snprintf(c->name, sizeof c->name, "%s", token ? token : "");
    while ((token = strtok_r(NULL, " \n", &state)) && c->attribute_count < ORACLE_ATTRIBUTES) {
        int i = c->attribute_count++, key = (int)strcspn(token, "=");
        snprintf(c->key[i], sizeof c->key[i], "%.*s", key, token);
        snprintf(c->value[i], sizeof c->value[i], "%s", token[key] ? token + key + 1 : "");
    }
}

void oracle_read(const char *file, void (*visit)(const oracle_case *c))
{
    static char line[LINE];
    char path[512];
    oracle_case c = { .file = file };
    int number = 0;
    snprintf(path, sizeof path, "%s/oracle/%s", MF_TESTS_DIR, file);
    FILE *f = fopen(path, "r");
    REQUIRE(f != NULL);
    mf_scope *scope = mf_scope_open();
    for (bool more = true; more;) {
        more = fgets(line, sizeof line, f) != NULL;
        number++;
        if (!more || strncmp(line, "op ", 3) == 0) {
            if (c.name[0])
                visit(&c);
            mf_scope_close(scope);
            scope = mf_scope_open();
            c = (oracle_case){ .file = file, .line = number };
        }
        if (more && strncmp(line, "op ", 3) == 0)
            read_head(&c, line + 3);
        else if (more && strncmp(line, "in ", 3) == 0 && c.in_count < ORACLE_MAX)
            c.in[c.in_count++] = read_array(&c, line + 3);
        else if (more && strncmp(line, "out ", 4) == 0 && c.out_count < ORACLE_MAX)
            c.out[c.out_count++] = read_array(&c, line + 4);
    }
    mf_scope_close(scope);
    fclose(f);
}

/* ---- comparing */
static bool near(const oracle_case *c, mf_dtype d, const char *p, const char *q, bool signed_zeros)
{
    if (memcmp(p, q, (size_t)mf_dtype_size(d)) == 0)
        return true;
    if (part_of(d) != d) {
        int size = mf_dtype_size(part_of(d));
        return near(c, part_of(d), p, q, signed_zeros) && near(c, part_of(d), p + size, q + size, signed_zeros);
    }
    if (!mf_dtype_is_float(d))
        return false;
    double x = mf_load_f64(d, p), y = mf_load_f64(d, q);
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y);
    /* XLA multiplies by 1/n if n is a constant, so the last bit of a mean may differ */
    double last = strcmp(c->name, "mean") != 0 ? 0 : d == MF_F64 ? 0x1p-52 : 0x1p-23;
    double rtol = oracle_number(c, "rtol", last), atol = oracle_number(c, "atol", rtol);
    if (x == y)
        return !signed_zeros || rtol > 0;
    return fabs(x - y) <= atol + rtol * fabs(y);
}

bool oracle_same(const oracle_case *c, int index, mf_value got, mf_value expected, bool signed_zeros)
{
    char text[160];
    if (mf_is_error(got))
        return complain(c, "error: ", mf_error(got));
    mf_shape s = mf_shape_of(got), t = mf_shape_of(expected);
    mf_dtype d = mf_dtype_of(expected);
    if (mf_dtype_of(got) != d || s.rank != t.rank || memcmp(s.dims, t.dims, (size_t)t.rank * sizeof *t.dims) != 0) {
        snprintf(text, sizeof text, "result %d is %s%s, expected %s%s", index, mf_str(mf_dtype_of(got)), mf_str(s), mf_str(d), mf_str(t));
        return complain(c, text, "");
    }
    size_t count = (size_t)mf_size(expected), size = (size_t)mf_dtype_size(d);
    char *p = calloc(count + 1, size), *q = calloc(count + 1, size);
    bool same = mf_to_host(got, d, p, count) == MF_OK && mf_to_host(expected, d, q, count) == MF_OK;
    size_t at = 0;
    while (same && at < count && near(c, d, p + at * size, q + at * size, signed_zeros))
        at++;
    if (same && at < count) {
        snprintf(text, sizeof text, "element %zu of result %d is %.17g, expected %.17g", at, index, mf_load_f64(d, p + at * size),
                 mf_load_f64(d, q + at * size));
        same = complain(c, text, "");
    } else if (!same) {
        complain(c, "a result cannot be read", "");
    }
    free(p);
    free(q);
    return same;
}
