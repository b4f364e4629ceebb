/* Reads and compares Flax's known answers. Invariant: numbers are read exactly. */
#include "nn/flax_answers.h"

#include "check.h"

enum { LINE = 1 << 17 };

static mf_dtype dtype_named(const char *name)
{
    return strcmp(name, "i32") == 0 ? MF_I32 : strcmp(name, "bool") == 0 ? MF_BOOL : strcmp(name, "u32") == 0 ? MF_U32 : MF_F32;
}

/* "f32 2,3 v v v ..." */
static mf_value read_array(char **state)
{
    static double numbers[LINE / 2];
    char *dtype = strtok_r(NULL, " \n", state), *dims = strtok_r(NULL, " \n", state), *token, *end;
    mf_shape shape = { .rank = 0 };
    int count = 0;
    for (char *p = dims; p && *p != '-' && *p && shape.rank < MF_MAX_RANK; p = *end == ',' ? end + 1 : end)
        shape.dims[shape.rank++] = strtoll(p, &end, 10);
    while ((token = strtok_r(NULL, " \n", state)))
        numbers[count++] = strtod(token, NULL);
    return mf_array_n(dtype ? dtype_named(dtype) : MF_F32, shape, numbers, count);
}

/* The dict with v at the path "a/b"; creates the dicts on the way. */
static mf_value with(mf_value dict, const char *path, mf_value v)
{
    char name[64];
    int n = (int)strcspn(path, "/");
    snprintf(name, sizeof name, "%.*s", n, path);
    if (path[n] == '/') {
        mf_value inner = mf_dict();
        for (int i = 0; i < mf_len(dict); i++)
            inner = strcmp(mf_key(dict, i), name) == 0 ? mf_get(dict, name) : inner;
        v = with(inner, path + n + 1, v);
    }
    return mf_set(dict, v, name);
}

static void put(mf_value *dict, char **state)
{
    char path[64], *name = strtok_r(NULL, " \n", state);
    snprintf(path, sizeof path, "%s", name ? name : "");
    *dict = with(dict->handle ? *dict : mf_dict(), path, read_array(state));
}

static void read_line(flax_answers *a, char *line)
{
    char *state, *word = strtok_r(line, " \n", &state);
    if (!word)
        return;
    if (strcmp(word, "in") == 0)
        a->in[a->in_count++] = read_array(&state);
    else if (strcmp(word, "din") == 0)
        a->din[a->din_count++] = read_array(&state);
    else if (strcmp(word, "mask") == 0)
        a->mask = read_array(&state);
    else if (strcmp(word, "out") == 0)
        a->out = read_array(&state);
    else if (strcmp(word, "cotangent") == 0)
        a->cotangent = read_array(&state);
    else if (strcmp(word, "param") == 0)
        put(&a->params, &state);
    else if (strcmp(word, "stat") == 0)
        put(&a->stats, &state);
    else if (strcmp(word, "after") == 0)
        put(&a->after, &state);
    else if (strcmp(word, "grad") == 0)
        put(&a->grads, &state);
}

bool flax_read(const char *kind, const char *name, flax_answers *a)
{
    static char line[LINE];
    char head[128];
    bool inside = false;
    snprintf(head, sizeof head, "%s %s\n", kind, name);
    memset(a, 0, sizeof *a);
    FILE *f = fopen(MF_TESTS_DIR "/oracle/nn.txt", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (inside && *line == '\n')
            break;
        if (inside)
            read_line(a, line);
        inside = inside || strcmp(line, head) == 0;
    }
    if (f)
        fclose(f);
    if (!CHECK(inside))
        CHECK_NOTE("no answer of %s %s", kind, name);
    return inside;
}

static bool arrays_near(mf_value got, mf_value expected, double tolerance, double *difference)
{
    mf_shape a = mf_shape_of(got), b = mf_shape_of(expected);
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++)
        same = a.dims[i] == b.dims[i];
    if (!same || mf_size(got) == 0)
        return same;
    mf_value want = mf_astype(expected, MF_F64), off = mf_abs(mf_sub(mf_astype(got, MF_F64), want));
    double scale = mf_item_f64(mf_max(mf_abs(want)));
    *difference = mf_item_f64(mf_max(off));
    return *difference <= tolerance * (scale > 1 ? scale : 1);
}

bool flax_near(const char *name, const char *what, mf_value got, mf_value expected, double tolerance)
{
    bool all = true;
    if (mf_kind_of(expected) == MF_KIND_DICT) {
        for (int i = 0; i < mf_len(expected); i++)
            all &= flax_near(name, mf_key(expected, i), mf_get(got, mf_key(expected, i)), mf_get(expected, mf_key(expected, i)), tolerance);
        return all;
    }
    double difference = NAN;
    const char *error = mf_error(got);
    if (!CHECK(!error && arrays_near(got, expected, tolerance, &difference)))
        CHECK_NOTE("%s: %s of the shape %s differs by %g from %s: %s", name, what, error ? "-" : mf_str(mf_shape_of(got)), difference,
                   mf_str(mf_shape_of(expected)), error ? error : "");
    return !error;
}
