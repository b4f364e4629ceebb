/* Transforms on text: tests/transform/golden.
 *
 *     === name: step [i=8]
 *     the program
 *     ---
 *     what comes out: a program, two for split, or the message of an error
 *
 * Steps take one character an input: jvp:10 (1 = has a tangent), grad:10 (1 = differentiate), vjp, split:10 (1 = known), transpose:01
 * (1 = linear; every output has a cotangent), vmap:0-1 (the mapped axis, - = none) or vmap/n=4:00 (axis n of size 4; otherwise no
 * name, size 2). Several steps: separated by blanks. After a change that is meant: MF_GOLDEN_WRITE=1, then read the difference. */
#include "check.h"
#include "transform/transform.h"

#include <dirent.h>

#define MOST 64

static void add_error(mf_text *t, mf_error_object *e)
{
    mf_text_add(t, "%s\n", e->message);
    mf_error_handle(e);
    mf_drop(e);
}

static void add_program(mf_text *t, const mf_program *p, const mf_axis_env *env)
{
    mf_error_object *error = mf_program_verify(p, env);
    mf_program_print(t, p);
    if (!CHECK(!error))
        add_error(t, error);
}

static mf_program *run_vmap(const mf_program *p, const mf_axis_env *env, char *step, const char *axes, mf_error_object **error)
{
    int in_axis[MOST], out_axis[MOST];
    char *name = strchr(step, '/'), *equals = strchr(step, '=');
    for (int i = 0; i < p->in_count; i++)
        in_axis[i] = axes[i] == '-' ? -1 : axes[i] - '0';
    for (int o = 0; o < p->out_count; o++)
        out_axis[o] = -2;
    if (equals)
        *equals = 0;
    return mf_batch_program(p, env, name && equals ? mf_intern(name + 1) : NULL, equals ? atoi(equals + 1) : 2, in_axis, out_axis, error);
}

/* The next program, or NULL when the step printed itself or failed. */
static mf_program *run_step(const mf_program *p, const mf_axis_env *env, char *step, mf_text *out, mf_error_object **error)
{
    bool in[MOST] = { false }, result[MOST] = { false }, all[MOST];
    char *flags = strchr(step, ':');
    for (int i = 0; flags && flags[i + 1]; i++)
        in[i] = flags[i + 1] == '1';
    memset(all, true, sizeof all);
    if (flags)
        *flags++ = 0;
    if (!strcmp(step, "jvp"))
        return mf_jvp_program(p, env, in, result, error);
    if (!strcmp(step, "grad"))
        return mf_grad_program(p, env, in, error);
    if (!strcmp(step, "transpose"))
        return mf_transpose_program(p, env, in, all, result, error);
    if (!strncmp(step, "vmap", 4))
        return run_vmap(p, env, step, flags, error);
    mf_partial_result r = { 0 };
    bool good = strcmp(step, "vjp") ? mf_partial_eval_program(p, env, in, NULL, result, &r, error)
                                    : mf_vjp_program(p, env, p->in_count, NULL, &r.known, &r.unknown, &r.residual_count, error);
    if (good) {
        add_program(out, r.known, env);
        add_program(out, r.unknown, env);
    }
    mf_drop(r.known);
    mf_drop(r.unknown);
    return NULL;
}

static void run_case(const char *text, char *steps, const mf_axis_env *env, mf_text *out)
{
    mf_error_object *error = NULL;
    char *save = NULL;
    mf_program *p = mf_program_parse(text, env, &error);
    for (char *step = strtok_r(steps, " ", &save); p && step; step = strtok_r(NULL, " ", &save)) {
        mf_program *next = run_step(p, env, step, out, &error);
        mf_drop(p);
        p = next;
    }
    if (p)
        add_program(out, p, env);
    if (error)
        add_error(out, error);
    mf_drop(p);
}

/* Cuts the axes off the header and gives them as an environment. */
static const mf_axis_env *read_axes(char *header)
{
    const mf_axis_env *env = NULL;
    char *save = NULL, *axes = strchr(header, '[');
    if (axes)
        *axes++ = 0;
    for (char *a = axes ? strtok_r(axes, "], ", &save) : NULL; a; a = strtok_r(NULL, "], ", &save)) {
        char *equals = strchr(a, '=');
        *equals = 0;
        env = mf_axis_env_push(env, mf_intern(a), atoi(equals + 1), 1);
    }
    return env;
}

/* One case, from behind its "=== ". */
static void check_case(const char *text, size_t length, mf_text *anew)
{
    char *copy = strndup(text, length), *body = strchr(copy, '\n'), *expected = strstr(copy, "\n---\n");
    mf_text out = { 0 };
    if (!CHECK(body && expected))
        return;
    mf_text_add(anew, "=== %.*s", (int)(expected + 5 - copy), copy);
    *body++ = expected[0] = 0;
    expected = expected < body ? expected : expected + 5;
    const mf_axis_env *env = read_axes(copy);
    char *colon = strchr(copy, ':');
    if (CHECK(colon)) {
        run_case(body, colon + 1, env, &out);
        mf_text_put(anew, out.at ? out.at : "");
        if (!getenv("MF_GOLDEN_WRITE") && strcmp(out.at ? out.at : "", expected)) {
            CHECK_STR(out.at ? out.at : "", expected);
            CHECK_NOTE("in case %s", copy);
        }
    }
    mf_text_free(&out);
    free(copy);
}

static void check_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    REQUIRE(f);
    char *text = calloc(1 << 20, 1);
    size_t size = fread(text, 1, (1 << 20) - 1, f);
    fclose(f);
    mf_text anew = { 0 };
    const char *at = strstr(text, "=== ");
    CHECK(size && at);
    mf_text_putn(&anew, text, at ? (size_t)(at - text) : 0);
    while (at) {
        const char *next = strstr(at + 4, "\n=== ");
        check_case(at + 4, next ? (size_t)(next + 1 - at - 4) : strlen(at + 4), &anew);
        at = next ? next + 1 : NULL;
    }
    f = getenv("MF_GOLDEN_WRITE") ? fopen(path, "wb") : NULL;
    if (f) {
        fwrite(anew.at, 1, anew.count, f);
        fclose(f);
    }
    mf_text_free(&anew);
    free(text);
}

TEST(golden_texts)
{
    struct dirent **files;
    int count = scandir(MF_TESTS_DIR "/transform/golden", &files, NULL, alphasort);
    CHECK(count > 2);
    for (int i = 0; i < count; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/transform/golden/%s", MF_TESTS_DIR, files[i]->d_name);
        if (strstr(path, ".txt"))
            check_file(path);
        free(files[i]);
    }
    free(files);
}
