#include "known.h"
#include "check.h"

static mf_dtype dtype_named(const char *name)
{
    static const struct {
        const char *name;
        mf_dtype dtype;
    } all[] = { { "bool", MF_BOOL }, { "i8", MF_I8 },     { "i16", MF_I16 }, { "i32", MF_I32 }, { "i64", MF_I64 },
                { "u8", MF_U8 },     { "u16", MF_U16 },   { "u32", MF_U32 }, { "u64", MF_U64 }, { "f16", MF_F16 },
                { "f32", MF_F32 },   { "bf16", MF_BF16 }, { "f64", MF_F64 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(name, all[i].name))
            return all[i].dtype;
    return MF_DTYPE_DEFAULT;
}

/* "f32 2,3 0x1p0 …" */
static bool read_array(char *text, known_array *a)
{
    char *rest, *word = strtok_r(text, " \n", &rest);
    a->dtype = word ? dtype_named(word) : MF_DTYPE_DEFAULT;
    word = strtok_r(NULL, " \n", &rest);
    if (!a->dtype || !word)
        return false;
    a->shape = MF_SHAPE0;
    a->count = 1;
    for (char *p = word; *p && *p != '-'; p += *p == ',') {
        a->shape.dims[a->shape.rank++] = strtol(p, &p, 10);
        a->count *= (int)a->shape.dims[a->shape.rank - 1];
    }
    a->numbers = malloc(((size_t)a->count + 1) * sizeof *a->numbers);
    for (int i = 0; i < a->count; i++) {
        if (!(word = strtok_r(NULL, " \n", &rest)))
            return false;
        a->numbers[i] = strtod(word, NULL);
    }
    return true;
}

static bool read_line(char *line, known_case *c)
{
    size_t n = strcspn(line, "\n");
    line[n] = 0;
    if (!strncmp(line, "# ", 2)) {
        snprintf(c->source, sizeof c->source, "%s", line + 2);
        return true;
    }
    if (!strncmp(line, "print |", 7)) {
        c->print[c->print_count++] = strdup(line + 7);
        return c->print_count < 64;
    }
    if (!strncmp(line, "in ", 3) && c->in_count < KNOWN_MAX)
        return read_array(line + 3, &c->in[c->in_count++]);
    if (!strncmp(line, "out ", 4) && c->out_count < KNOWN_MAX)
        return read_array(line + 4, &c->out[c->out_count++]);
    return !n;
}

static void read_head(const char *line, known_case *c)
{
    memset(c, 0, sizeof *c);
    snprintf(c->name, sizeof c->name, "%.*s", (int)strcspn(line + 3, " \n"), line + 3);
    const char *r = strstr(line, " rtol="), *a = strstr(line, " atol=");
    c->rtol = r ? strtod(r + 6, NULL) : 0;
    c->atol = a ? strtod(a + 6, NULL) : c->rtol;
}

static void clear(known_case *c)
{
    for (int i = 0; i < c->in_count; i++)
        free(c->in[i].numbers);
    for (int i = 0; i < c->out_count; i++)
        free(c->out[i].numbers);
    for (int i = 0; i < c->print_count; i++)
        free(c->print[i]);
}

static bool same_shape(mf_shape a, mf_shape b)
{
    bool same = a.rank == b.rank;
    for (int i = 0; same && i < a.rank; i++)
        same = a.dims[i] == b.dims[i];
    return same;
}

/* Whether the result is equal bit for bit. */
static bool compare(const known_case *c, mf_value got, const known_array *want)
{
    bool exact = true;
    if (mf_is_error(got)) {
        CHECK(!"an error");
        CHECK_NOTE("%s", mf_error(got));
        return false;
    }
    if (!CHECK_EQ_INT(mf_dtype_of(got), want->dtype) || !CHECK(same_shape(mf_shape_of(got), want->shape))) {
        CHECK_NOTE("%s", mf_str(mf_shape_of(got)));
        return false;
    }
    double *numbers = malloc(((size_t)want->count + 1) * sizeof *numbers);
    CHECK_EQ_INT(mf_to_host(got, MF_F64, numbers, (size_t)want->count), MF_OK);
    for (int i = 0; i < want->count; i++) {
        double g = numbers[i], w = want->numbers[i];
        exact = exact && (g == w || (isnan(g) && isnan(w)));
        bool same = g == w || (isnan(g) && isnan(w)) || fabs(g - w) <= c->atol + c->rtol * fabs(w);
        if (!CHECK(same)) {
            CHECK_NOTE("element %d is %.9g (%a), expected %.9g (%a)", i, g, g, w, w);
            break;
        }
    }
    free(numbers);
    return exact;
}

/* compares print() of each result */
static void compare_prints(const known_case *c, mf_value leaves)
{
    int line = 0;
    for (int i = 0; i < c->out_count; i++) {
        const char *text = mf_str(mf_get(leaves, i));
        for (bool more = true; more; line++) {
            size_t n = strcspn(text, "\n");
            char buffer[1024];
            snprintf(buffer, sizeof buffer, "%.*s", (int)n, text);
            CHECK_STR(buffer, line < c->print_count ? c->print[line] : NULL);
            more = text[n] == '\n';
            text += n + more;
        }
    }
    CHECK_EQ_INT(line, c->print_count);
}

static bool run_case(const known_case *c, known_program program)
{
    MF_SCOPE;
    mf_value in[KNOWN_MAX];
    for (int i = 0; i < c->in_count; i++)
        in[i] = mf_array_n(c->in[i].dtype, c->in[i].shape, c->in[i].numbers, c->in[i].count);
    int before = check_failures;
    mf_value result = program(c->name, in);
    if (!result.handle)
        return false;
    if (mf_is_error(result)) {
        compare(c, result, NULL);
    } else {
        mf_value leaves = mf_tree_leaves(result);
        CHECK_EQ_INT(mf_len(leaves), c->out_count);
        bool exact = true;
        for (int i = 0; i < c->out_count && i < mf_len(leaves); i++)
            exact = compare(c, mf_get(leaves, i), &c->out[i]) && exact;
        if (c->print_count && exact)
            compare_prints(c, leaves);
    }
    if (check_failures != before)
        CHECK_NOTE("case %s: %s", c->name, c->source);
    return true;
}

static bool skipped(const known_skip *skips, const char *name)
{
    for (; skips && skips->name; skips++)
        if (!strcmp(skips->name, name))
            return true;
    return false;
}

void known_run(const char *file, known_program program, int expected_cases, const known_skip *skips)
{
    char path[512], *line = malloc(KNOWN_LINE);
    snprintf(path, sizeof path, MF_TESTS_DIR "/oracle/%s", file);
    FILE *f = fopen(path, "r");
    known_case *c = calloc(1, sizeof *c);
    int cases = 0, missing = 0;
    for (bool more = CHECK(f); more;) {
        more = fgets(line, KNOWN_LINE, f) != NULL;
        if (!more || !strncmp(line, "op ", 3)) {
            if (c->name[0] && !skipped(skips, c->name) && !run_case(c, program)) {
                CHECK(!"no program of this name");
                CHECK_NOTE("case %s: %s", c->name, c->source);
                missing++;
            }
            cases += c->name[0] != 0;
            clear(c);
            c->name[0] = 0;
            c->in_count = c->out_count = c->print_count = 0;
            if (more)
                read_head(line, c);
        } else if (c->name[0] && !CHECK(read_line(line, c))) {
            CHECK_NOTE("case %s: %.60s", c->name, line);
        }
    }
    CHECK_EQ_INT(cases, expected_cases);
    CHECK_EQ_INT(missing, 0);
    free(c);
    free(line);
    if (f)
        fclose(f);
}
