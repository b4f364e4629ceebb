/* Golden files: texts of programs, the steps applied to them, and the expected results.
 *
 *     # a comment, up to the first case
 *     === name: steps [i=8, j=2]
 *     the input text
 *     ---
 *     the expected result
 *
 * Steps, separated by commas: `parse` alone, or the names of passes (inline dce fold simplify cse products optimize), in order; what comes
 * out is the printed program, or the message of the first error. The axes in brackets are in scope, the outermost first, bound by maps over
 * devices. Every program that comes out is verified, and its text must read back as an equal program.
 *
 * To update the files after an intended change: MF_GOLDEN_WRITE=1 build/tests/ir/test_golden (and passes/test_passes);
 * then review the difference. */
#ifndef MF_TESTS_GOLDEN_H
#define MF_TESTS_GOLDEN_H

#include "check.h"
#include "passes/passes.h"
#include <dirent.h>

#define GOLDEN_STEPS 160

typedef struct golden_case {
    char name[80], steps[GOLDEN_STEPS];
    const mf_axis_env *env;
} golden_case;

static char *golden_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    long size = ftell(f);
    rewind(f);
    char *text = size >= 0 ? calloc((size_t)size + 1, 1) : NULL;
    if (text && fread(text, 1, (size_t)size, f) != (size_t)size)
        text[0] = 0;
    fclose(f);
    return text;
}

static mf_pass_fn golden_pass(const char *name)
{
    static const struct {
        const char *name;
        mf_pass_fn run;
    } passes[] = { { "inline", mf_pass_inline_calls }, { "dce", mf_pass_dce }, { "fold", mf_pass_fold },
                   { "simplify", mf_pass_simplify },   { "cse", mf_pass_cse }, { "products", mf_pass_loop_products },
                   { "optimize", mf_optimize } };
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++)
        if (strcmp(passes[i].name, name) == 0)
            return passes[i].run;
    return NULL;
}

static void golden_take_error(mf_text *t, mf_error_object *e)
{
    mf_text_add(t, "%s\n", e->message);
    mf_error_handle(e);
    mf_drop(e);
}

/* Checks that the text of p reads back as an equal program, unless it shows constants as summaries. */
static void golden_check_roundtrip(const mf_program *p, const mf_axis_env *env)
{
    mf_text t = { 0 }, again = { 0 };
    mf_error_object *error = mf_program_verify(p, env);
    if (!CHECK(!error))
        golden_take_error(&again, error), CHECK_NOTE("%s", again.at);
    mf_program_print(&t, p);
    if (!strstr(t.at, "const#")) {
        error = NULL;
        mf_program *q = mf_program_parse(t.at, env, &error);
        if (!CHECK(q))
            golden_take_error(&again, error), CHECK_NOTE("%s\n%s", again.at, t.at);
        if (q) {
            CHECK(mf_program_equal(p, q));
            CHECK(mf_program_hash(p) == mf_program_hash(q));
            mf_program_print(&again, q);
            CHECK_STR(again.at, t.at);
        }
        mf_drop(q);
    }
    mf_text_free(&t);
    mf_text_free(&again);
}

static void golden_run(const golden_case *c, const char *text, mf_text *out)
{
    char steps[GOLDEN_STEPS];
    mf_error_object *error = NULL;
    mf_program *p = mf_program_parse(text, c->env, &error);
    snprintf(steps, sizeof steps, "%s", c->steps);
    for (char *at = steps, *step = strtok_r(at, ", ", &at); p && step; step = strtok_r(NULL, ", ", &at)) {
        if (strcmp(step, "parse") == 0)
            continue;
        mf_pass_fn pass = golden_pass(step);
        if (!CHECK(pass))
            CHECK_NOTE("no pass is called '%s'", step);
        golden_check_roundtrip(p, c->env);
        mf_program *made = pass ? pass(p, c->env, &error) : NULL;
        mf_drop(p);
        p = made;
    }
    if (p) {
        golden_check_roundtrip(p, c->env);
        mf_program_print(out, p);
    } else if (error)
        golden_take_error(out, error);
    mf_drop(p);
}

/* "name: steps [i=8]" */
static golden_case golden_header(const char *line, size_t length)
{
    golden_case c = { { 0 }, { 0 }, NULL };
    char copy[256], *save = NULL;
    snprintf(copy, sizeof copy, "%.*s", (int)length, line);
    char *axes = strchr(copy, '[');
    if (axes) {
        *axes++ = 0;
        for (char *a = strtok_r(axes, "], ", &save); a; a = strtok_r(NULL, "], ", &save)) {
            char *equals = strchr(a, '=');
            if (!CHECK(equals))
                break;
            *equals = 0;
            c.env = mf_axis_env_push(c.env, mf_intern(a), strtoll(equals + 1, NULL, 10), 1);
        }
    }
    char *colon = strchr(copy, ':');
    if (!CHECK(colon))
        return c;
    *colon = 0;
    snprintf(c.name, sizeof c.name, "%.79s", copy);
    snprintf(c.steps, sizeof c.steps, "%.159s", colon + 1);
    return c;
}

/* Runs the case at *at ("=== ..."), appends it with its result to `anew`, and advances *at. */
static void golden_one(const char **at, mf_text *anew)
{
    const char *line = *at + 4, *text = strchr(line, '\n');
    const char *expected = text ? strstr(text, "\n---\n") : NULL;
    *at = line + strlen(line);
    if (!CHECK(expected))
        return;
    golden_case c = golden_header(line, (size_t)(text - line));
    text++;
    const char *next = strstr(expected, "\n=== ");
    const char *end = next ? next + 1 : expected + strlen(expected);
    char *in = strndup(text, (size_t)(expected + 1 - text)), *want = strndup(expected + 5, (size_t)(end - expected - 5));
    mf_text out = { 0 };
    golden_run(&c, in, &out);
    int before = check_failures;
    if (!getenv("MF_GOLDEN_WRITE"))
        CHECK_STR(out.at ? out.at : "", want);
    if (check_failures > before)
        CHECK_NOTE("in case %s", c.name);
    mf_text_putn(anew, line - 4, (size_t)(expected + 5 - line) + 4);
    mf_text_put(anew, out.at ? out.at : "");
    mf_text_free(&out);
    free(in);
    free(want);
    *at = end;
}

static void golden_file(const char *path)
{
    char *text = golden_read(path);
    REQUIRE(text);
    mf_text anew = { 0 };
    const char *at = strncmp(text, "=== ", 4) == 0 ? text : strstr(text, "\n=== ");
    if (!CHECK(at))
        CHECK_NOTE("%s has no case", path);
    if (at)
        at += *at == '\n';
    if (at)
        mf_text_putn(&anew, text, (size_t)(at - text));
    int before = check_failures;
    while (at && *at)
        golden_one(&at, &anew);
    if (check_failures > before)
        CHECK_NOTE("in %s", path);
    FILE *f = getenv("MF_GOLDEN_WRITE") ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(anew.at, 1, anew.count, f);
        fclose(f);
    }
    mf_text_free(&anew);
    free(text);
}

/* Runs every .txt file of a folder below tests/, in the order of their names. */
static void golden_folder(const char *folder)
{
    char path[1024];
    struct dirent **files;
    snprintf(path, sizeof path, "%s/%s", MF_TESTS_DIR, folder);
    int count = scandir(path, &files, NULL, alphasort);
    CHECK(count > 2);
    for (int i = 0; i < count; i++) {
        size_t n = strlen(files[i]->d_name);
        snprintf(path, sizeof path, "%s/%s/%s", MF_TESTS_DIR, folder, files[i]->d_name);
        if (n > 4 && strcmp(files[i]->d_name + n - 4, ".txt") == 0)
            golden_file(path);
        free(files[i]);
    }
    if (count >= 0)
        free(files);
}

#endif
