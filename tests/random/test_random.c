/* Random numbers against JAX's own (tests/oracle/random.txt; its format is in tests/oracle/README.md): integers and bits agree to the last
 * one, floats to the tolerance that a case gives. */
#include <manyfold.h>

#include "check.h"
#include "hash.h"

/* ---- the file: `op`, then its `in`s, then `out` or `digest` */

typedef struct array_line {
    mf_dtype dtype;
    mf_shape shape;
    int64_t count;
    char *values; /* the rest of the line */
} array_line;

typedef struct known {
    char name[32], attributes[256];
    array_line in[2], out;
    int in_count;
    bool digest;
} known;

static mf_dtype dtype_of(const char *name)
{
    static const struct {
        const char *name;
        mf_dtype dtype;
    } names[] = { { "bool", MF_BOOL }, { "i8", MF_I8 },   { "i16", MF_I16 }, { "i32", MF_I32 }, { "i64", MF_I64 },
                  { "u8", MF_U8 },     { "u16", MF_U16 }, { "u32", MF_U32 }, { "u64", MF_U64 }, { "f16", MF_F16 },
                  { "bf16", MF_BF16 }, { "f32", MF_F32 }, { "f64", MF_F64 } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].dtype;
    return MF_DTYPE_DEFAULT;
}

static size_t width_of(mf_dtype d)
{
    switch (d) {
    case MF_BOOL:
    case MF_I8:
    case MF_U8: return 1;
    case MF_I16:
    case MF_U16:
    case MF_F16:
    case MF_BF16: return 2;
    case MF_I32:
    case MF_U32:
    case MF_F32: return 4;
    default: return 8;
    }
}

static bool is_float(mf_dtype d) { return d == MF_F16 || d == MF_BF16 || d == MF_F32 || d == MF_F64; }

static mf_shape shape_of(const char *dims)
{
    mf_shape s = MF_SHAPE0;
    char *end;
    for (const char *at = dims; *at != '-' && s.rank < MF_MAX_RANK; at = end + 1) {
        s.dims[s.rank++] = strtoll(at, &end, 10);
        if (*end != ',')
            break;
    }
    return s;
}

static int64_t count_of(mf_shape s)
{
    int64_t n = 1;
    for (int i = 0; i < s.rank; i++)
        n *= s.dims[i];
    return n;
}

static array_line read_array(char *text)
{
    char dtype[8] = "", dims[64] = "";
    int used = 0;
    array_line a = { 0 };
    if (sscanf(text, "%7s %63s %n", dtype, dims, &used) == 2) {
        a.dtype = dtype_of(dtype);
        a.shape = shape_of(dims);
        a.count = count_of(a.shape);
        a.values = strdup(text + used);
    }
    return a;
}

/* The next case, or false at the end of the file. */
static bool next_case(FILE *f, known *k)
{
    static char line[1 << 16];
    memset(k, 0, sizeof *k);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "op ", 3) == 0)
            (void)sscanf(line, "op %31s %255[^\n]", k->name, k->attributes);
        else if (strncmp(line, "in ", 3) == 0 && k->in_count < 2)
            k->in[k->in_count++] = read_array(line + 3);
        else if (strncmp(line, "out ", 4) == 0)
            k->out = read_array(line + 4);
        else if (strncmp(line, "digest ", 7) == 0) {
            k->out = read_array(line + 7);
            k->digest = true;
        }
        if (k->out.values)
            return true;
    }
    return false;
}

static void free_case(known *k)
{
    free(k->in[0].values);
    free(k->in[1].values);
    free(k->out.values);
}

static const char *attribute(const known *k, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = k->attributes; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        if (strncmp(at, key, n) == 0 && at[n] == '=')
            return at + n + 1;
    return NULL;
}

static double number(const known *k, const char *key, double otherwise)
{
    const char *text = attribute(k, key);
    return text ? strtod(text, NULL) : otherwise;
}

static mf_value integer(const known *k, const char *key, mf_dtype dtype)
{
    long long n = strtoll(attribute(k, key), NULL, 10);
    return dtype == MF_U32 || dtype == MF_U64 || dtype == MF_I64 ? mf_from_host(MF_I64, MF_SHAPE0, &(int64_t){ n }) : mf_i(n);
}

static mf_value input(const known *k, int which)
{
    const array_line *a = &k->in[which];
    double values[64];
    char *at = a->values;
    for (int i = 0; i < a->count && i < 64; i++)
        values[i] = strtod(at, &at);
    return mf_array_n(a->dtype, a->shape, values, (int)a->count);
}

/* ---- the library's answers */

static mf_value split_chain(mf_value key, int steps)
{
    mf_value child = key;
    for (int i = 0; i < steps; i++) {
        mf_value keys = mf_random_split(key, 2);
        key = mf_get(keys, 0);
        child = mf_get(keys, 1);
    }
    return mf_stack(mf_list(key, child), 0);
}

static mf_value normal_per_key(mf_value key, int count, mf_shape shape)
{
    mf_value rows[16], keys = mf_random_split(key, count);
    for (int i = 0; i < count; i++)
        rows[i] = mf_random_normal(mf_get(keys, i), shape, MF_F32);
    return mf_stack(mf_list_n(rows, count), 0);
}

typedef struct sampler {
    const char *name;
    mf_value (*call)(mf_value, mf_shape, mf_dtype);
} sampler;
static const sampler samplers[] = {
    { "gumbel", mf_random_gumbel },
    { "exponential", mf_random_exponential },
    { "laplace", mf_random_laplace },
    { "cauchy", mf_random_cauchy },
};

static mf_value choice(const known *k, mf_value key, mf_shape shape)
{
    mf_choice_options o = { .without_replacement = number(k, "replace", 1) == 0 };
    if (!attribute(k, "weighted"))
        return mf_random_choice_opt(key, input(k, 1), shape, &o);
    o.p = input(k, 1);
    return mf_random_choice_opt(key, mf_i(k->in[1].count), shape, &o);
}

static mf_value categorical(const known *k, mf_value key, mf_shape shape)
{
    const char *draws = attribute(k, "draws");
    return mf_random_categorical(key, input(k, 1), (int)number(k, "axis", -1), draws ? shape_of(draws) : shape);
}

static mf_value distributed(const known *k, mf_value key, mf_dtype dtype, mf_shape shape)
{
    for (size_t i = 0; i < sizeof samplers / sizeof *samplers; i++)
        if (strcmp(k->name, samplers[i].name) == 0)
            return samplers[i].call(key, shape, dtype);
    if (strcmp(k->name, "gamma") == 0)
        return mf_random_gamma(key, mf_f(number(k, "a", 0)), shape, dtype);
    if (strcmp(k->name, "choice") == 0)
        return choice(k, key, shape);
    return strcmp(k->name, "categorical") == 0 ? categorical(k, key, shape) : (mf_value){ 0 };
}

static mf_value keyed(const known *k, mf_value key, mf_dtype dtype, mf_shape shape)
{
    if (strcmp(k->name, "split") == 0)
        return mf_random_split(key, (int)number(k, "count", 0));
    if (strcmp(k->name, "fold_in") == 0)
        return mf_random_fold_in(key, mf_scalar(number(k, "data", 0), MF_U32));
    if (strcmp(k->name, "split_chain") == 0)
        return split_chain(key, (int)number(k, "steps", 0));
    if (strcmp(k->name, "bits") == 0)
        return mf_random_bits(key, shape, dtype);
    if (strcmp(k->name, "uniform") == 0)
        return mf_random_uniform_in(key, shape, dtype, mf_f(number(k, "minval", 0)), mf_f(number(k, "maxval", 1)));
    if (strcmp(k->name, "normal") == 0)
        return mf_random_normal(key, shape, dtype);
    if (strcmp(k->name, "truncated_normal") == 0)
        return mf_random_truncated_normal(key, number(k, "lower", 0), number(k, "upper", 0), shape, dtype);
    if (strcmp(k->name, "randint") == 0)
        return mf_random_randint(key, shape, integer(k, "minval", dtype), integer(k, "maxval", dtype), dtype);
    if (strcmp(k->name, "permutation") == 0)
        return mf_random_permutation(key, (int64_t)number(k, "count", 0));
    if (strcmp(k->name, "normal_per_key") == 0)
        return normal_per_key(key, (int)number(k, "count", 0), shape);
    return distributed(k, key, dtype, shape);
}

/* Unset if the library does not have the function. */
static mf_value answer(const known *k)
{
    const char *dtype = attribute(k, "dtype"), *shape = attribute(k, "shape");
    char name[8] = "";
    if (strcmp(k->name, "key") == 0)
        return mf_random_key(strtoull(attribute(k, "seed"), NULL, 10));
    if (dtype)
        (void)sscanf(dtype, "%7[a-z0-9]", name);
    mf_value key = input(k, 0);
    mf_shape s = shape ? shape_of(shape) : MF_SHAPE0;
    if (strcmp(k->name, "bernoulli") == 0)
        return k->in_count == 2 ? mf_random_bernoulli(key, input(k, 1), s) : mf_random_bernoulli(key, number(k, "p", 0), s);
    if (strcmp(k->name, "permutation_of") == 0)
        return mf_random_permutation(key, input(k, 1), (int)number(k, "axis", 0), number(k, "independent", 0) != 0);
    return keyed(k, key, dtype_of(name), s);
}

/* ---- comparing */

/* The last addition may have terms larger than the sum: a uniform draw is as accurate as the ends of its range. */
static double largest_term(const known *k) { return fmax(1, fmax(fabs(number(k, "minval", 0)), fabs(number(k, "maxval", 0)))); }

/* Compares elements from `first` on with text, separated by `separator`; returns the number that differ. */
static int differing(const known *k, mf_value v, const char *text, int64_t first, int64_t count, double rtol)
{
    int64_t size = mf_size(v);
    double *reals = malloc(((size_t)size + 1) * sizeof *reals);
    uint64_t *integers = malloc(((size_t)size + 1) * sizeof *integers);
    double atol = rtol * largest_term(k);
    int wrong = mf_to_host(v, MF_F64, reals, (size_t)size) != MF_OK;
    wrong += mf_to_host(v, k->out.dtype == MF_U64 ? MF_U64 : MF_I64, integers, (size_t)size) != MF_OK;
    for (int64_t i = first; i < first + count && !wrong; i++) {
        char *end;
        bool same;
        double theirs = strtod(text, &end);
        if (is_float(k->out.dtype))
            same = reals[i] == theirs || fabs(reals[i] - theirs) <= atol + rtol * fabs(theirs);
        else if (k->out.dtype == MF_U64)
            same = integers[i] == strtoull(text, &end, 10);
        else
            same = (int64_t)integers[i] == strtoll(text, &end, 10);
        if (end == text || !same) {
            wrong++;
            CHECK_NOTE("element %lld is %.9g, not %.24s", (long long)i, reals[i], text);
        }
        text = *end ? end + 1 : end;
    }
    free(reals);
    free(integers);
    return wrong;
}

static bool same_bytes(const known *k, mf_value v)
{
    size_t bytes = (size_t)k->out.count * width_of(k->out.dtype);
    unsigned char *data = malloc(bytes + 1);
    bool same = mf_to_host(v, k->out.dtype, data, (size_t)k->out.count) == MF_OK;
    same = same && hash_bytes(data, bytes, HASH_START) == strtoull(strstr(k->out.values, "fnv=") + 4, NULL, 16);
    free(data);
    return same;
}

static bool same_sums(const known *k, mf_value v, double rtol)
{
    double sum = 0, squares = 0, *x = malloc(((size_t)k->out.count + 1) * sizeof *x);
    bool same = mf_to_host(v, MF_F64, x, (size_t)k->out.count) == MF_OK;
    for (int64_t i = 0; i < k->out.count && same; i++) {
        sum += x[i];
        squares += x[i] * x[i];
    }
    free(x);
    double known_sum = strtod(strstr(k->out.values, " sum=") + 5, NULL), known_squares = strtod(strstr(k->out.values, " sumsq=") + 7, NULL);
    return same && fabs(sum - known_sum) <= rtol * (double)k->out.count && fabs(squares - known_squares) <= 4 * rtol * known_squares;
}

static bool agrees(const known *k, mf_value v)
{
    mf_shape s = mf_shape_of(v);
    double rtol = number(k, "rtol", 0);
    if (mf_is_error(v))
        return CHECK_NOTE("%s", mf_error(v));
    if (mf_dtype_of(v) != k->out.dtype || s.rank != k->out.shape.rank ||
        memcmp(s.dims, k->out.shape.dims, (size_t)s.rank * sizeof *s.dims) != 0)
        return CHECK_NOTE("the type is %s%s", mf_str(mf_dtype_of(v)), mf_str(s));
    if (!k->digest)
        return differing(k, v, k->out.values, 0, k->out.count, rtol) == 0;
    if (rtol == 0)
        return same_bytes(k, v);
    const char *first = strstr(k->out.values, "first="), *last = strstr(k->out.values, "last=");
    return differing(k, v, first + 6, 0, 4, rtol) + differing(k, v, last + 5, k->out.count - 4, 4, rtol) == 0 && same_sums(k, v, rtol);
}

TEST(agrees_with_jax)
{
    FILE *f = fopen(MF_TESTS_DIR "/oracle/random.txt", "r");
    REQUIRE(f);
    int checked = 0, absent = 0;
    for (known k; next_case(f, &k); free_case(&k)) {
        MF_SCOPE;
        mf_value v = answer(&k);
        absent += !v.handle;
        checked += v.handle != 0;
        if (v.handle && !CHECK(agrees(&k, v)))
            CHECK_NOTE("%s %s of key %s", k.name, k.attributes, k.in_count ? k.in[0].values : "");
    }
    fclose(f);
    CHECK_EQ_INT(checked, 456);
    CHECK_EQ_INT(absent, 0);
}

/* ---- inside transforms, and refusals */

static mf_value draw(mf_value key) { return mf_random_normal(key, MF_SHAPE(3), MF_F32); }

TEST(same_numbers_when_mapped)
{
    MF_SCOPE;
    mf_value keys = mf_random_split(mf_random_key(7), 4);
    mf_value mapped = mf_call(mf_vmap(draw), keys), compiled = mf_call(mf_jit(draw), mf_get(keys, 2));
    for (int i = 0; i < 4; i++)
        CHECK(mf_item_bool(mf_array_equal(mf_get(mapped, i), draw(mf_get(keys, i)))));
    CHECK(mf_item_bool(mf_array_equal(mf_get(mapped, 2), compiled)));
}

TEST(bounds_keep_their_width)
{
    MF_SCOPE;
    mf_value key = mf_random_key(3);
    CHECK_NEAR(mf_item_f64(mf_random_uniform_in(key, MF_SHAPE0, MF_F64, mf_scalar(0.1, MF_F64), mf_scalar(0.1, MF_F64))), 0.1, 0);
    CHECK_EQ_INT(mf_item_i64(mf_random_randint(key, MF_SHAPE0, mf_i(1LL << 40), mf_i((1LL << 40) + 1), MF_I64)), 1LL << 40);
}

static mf_value gamma_sum(mf_value a) { return mf_sum(mf_random_gamma(mf_random_key(1), a, MF_SHAPE(3), MF_F32)); }

static mf_value gamma_slope(mf_value a) { return mf_call(mf_grad(gamma_sum), a); }

/* Its values are tested in tests/ops; the second derivative is refused. */
TEST(gamma_has_first_derivatives)
{
    MF_SCOPE;
    double a[] = { 0.25, 2, 40 };
    for (int i = 0; i < 3; i++) {
        mf_value slope = mf_call(mf_vmap(mf_grad(gamma_sum)), mf_broadcast_to(mf_scalar(a[i], MF_F32), MF_SHAPE(2)));
        CHECK_NEAR(mf_item_f64(mf_get(slope, 1)), mf_item_f64(gamma_slope(mf_scalar(a[i], MF_F32))), 1e-6);
        CHECK(mf_item_f64(mf_get(slope, 0)) > 0);
    }
    mf_value g = mf_call(mf_grad(gamma_slope), mf_scalar(2, MF_F32));
    CHECK(mf_is_error(g) && strstr(mf_error(g), "Differentiation rule for 'random_gamma_grad' not implemented"));
}

static __attribute__((noinline)) void write_on_the_stack(int byte)
{
    volatile unsigned char bytes[4096];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)byte;
}

/* A draw is compiled once, whatever bytes the stack contained where its context is built. */
TEST(a_draw_is_compiled_once)
{
    int64_t first = 0;
    for (int i = 0; i < 20; i++) {
        MF_SCOPE;
        mf_value key = mf_random_key(0);
        write_on_the_stack(37 * i + 1);
        mf_random_normal(key, MF_SHAPE(3));
        mf_random_uniform(key, MF_SHAPE(3), MF_F32);
        mf_random_bernoulli(key, mf_f(0.5), MF_SHAPE(3));
        mf_random_bits(key, MF_SHAPE(3), MF_U32);
        mf_random_randint(key, MF_SHAPE(3), mf_i(0), mf_i(10), MF_I32);
        mf_random_truncated_normal(key, -1, 1, MF_SHAPE(3), MF_F32);
        mf_random_permutation(key, 5);
        mf_random_choice(key, 5, MF_SHAPE(2));
        if (!i)
            first = mf_cache_read().traces;
    }
    CHECK_EQ_INT(mf_cache_read().traces, first);
}

TEST(refuses_what_cannot_be)
{
    MF_SCOPE;
    mf_value key = mf_random_key(0);
    CHECK(mf_error(mf_random_split(key, -1)) != NULL);
    CHECK(mf_error(mf_random_fold_in(key, mf_arange(4, MF_I32))) != NULL);
    CHECK(mf_error(mf_random_bits(key, MF_SHAPE(2), MF_F32)) != NULL);
    CHECK(mf_error(mf_random_uniform(key, MF_SHAPE(2), MF_I32)) != NULL);
    CHECK(mf_error(mf_random_randint(key, MF_SHAPE(2), mf_i(0), mf_i(5), MF_F32)) != NULL);
    CHECK(mf_error(mf_random_permutation(key, -1)) != NULL);
    CHECK_EQ_INT(mf_error_status(mf_random_bernoulli(key, mf_ones(MF_SHAPE(3), MF_F32), MF_SHAPE(2))), MF_ERROR_SHAPE);
    CHECK(mf_error(mf_random_choice(key, 3, MF_SHAPE(4), .without_replacement = true)) != NULL);
    CHECK(mf_error(mf_random_choice(key, 0, MF_SHAPE(4))) != NULL);
    CHECK(mf_error(mf_random_categorical(key, mf_ones(MF_SHAPE(3), MF_F32), 1, MF_SHAPE0)) != NULL);
    CHECK(mf_error(mf_random_gamma(key, 1.0, MF_SHAPE(4), MF_I32)) != NULL);
    CHECK(mf_error(mf_random_normal(mf_ones(MF_SHAPE(3), MF_F32), MF_SHAPE(2), MF_F32)) != NULL);
}
