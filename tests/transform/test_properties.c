/* Properties that every transform must have, tested on the programs of programs.txt with the evaluator of evaluate.h. */
#include "check.h"
#include "transform/evaluate.h"
#include "transform/rules/sweep.h"
#include "transform/transform.h"

#define MOST 24

typedef struct subject {
    char name[80], properties[80];
    const mf_axis_env *env;
    mf_program *p;
    int64_t replicas;
    value in[MOST], out[MOST];
} subject;

static void complain(const subject *s, const char *what, mf_error_object *error)
{
    CHECK(false);
    CHECK_NOTE("%s: %s: %s", s->name, what, error ? error->message : "failed");
    if (error) {
        mf_error_handle(error);
        mf_drop(error);
    }
}

static bool verified(const subject *s, const char *what, const mf_program *p, const mf_axis_env *env)
{
    mf_error_object *error = mf_program_verify(p, env);
    if (!error)
        return true;
    complain(s, what, error);
    mf_text t = { 0 };
    mf_program_print(&t, p);
    CHECK_NOTE("%s", t.at);
    mf_text_free(&t);
    return false;
}

static bool close_to(const subject *s, const char *what, const value *a, const value *b, int64_t replicas, double tolerance)
{
    for (int64_t i = 0; i < a->type->size * replicas; i++) {
        double x = value_at(a, 0, i), y = value_at(b, 0, i);
        if (!(fabs(x - y) <= tolerance * (1 + fabs(y)))) {
            CHECK(false);
            CHECK_NOTE("%s: %s: element %d is %.9g, expected %.9g", s->name, what, (int)i, x, y);
            return false;
        }
    }
    return CHECK(a->type->size == b->type->size);
}

/* ------------------------------------------------------------------ partial evaluation and pruning */

static void try_split(const subject *s, const mf_program *p, const value *in, const value *want, const bool *known)
{
    bool known_out[2 * MOST];
    mf_partial_result r;
    mf_error_object *error = NULL;
    value k_in[2 * MOST], u_in[4 * MOST], k_out[4 * MOST], u_out[2 * MOST];
    int k = 0, u = 0, known_count = 0;
    if (!mf_partial_eval_program(p, s->env, known, NULL, known_out, &r, &error)) {
        complain(s, "partial", error);
        return;
    }
    bool good = verified(s, "known", r.known, s->env) && verified(s, "unknown", r.unknown, s->env);
    for (int i = 0; i < p->in_count; i++)
        if (known[i])
            k_in[k++] = in[i];
    good = good && CHECK(k == r.known->in_count) && evaluate(r.known, s->env, k_in, k_out);
    for (int o = 0; o < p->out_count; o++)
        known_count += known_out[o];
    good = good && CHECK(known_count + r.residual_count == r.known->out_count);
    for (int i = 0; good && i < r.residual_count; i++)
        u_in[u++] = k_out[known_count + i];
    for (int i = 0; good && i < p->in_count; i++)
        if (!known[i])
            u_in[u++] = in[i];
    if (good && CHECK(u == r.unknown->in_count) && CHECK(evaluate(r.unknown, s->env, u_in, u_out))) {
        for (int o = 0, a = 0, b = 0; o < p->out_count; o++)
            close_to(s, "partial", known_out[o] ? &k_out[a++] : &u_out[b++], &want[o], s->replicas, 1e-12);
        value_free(u_out, r.unknown->out_count);
    }
    if (good)
        value_free(k_out, r.known->out_count);
    mf_drop(r.known);
    mf_drop(r.unknown);
}

static void try_splits(const subject *s, const mf_program *p, const value *in, const value *want)
{
    for (int mask = 0; mask < 1 << (p->in_count < 6 ? p->in_count : 6); mask++) {
        bool known[2 * MOST];
        for (int i = 0; i < p->in_count; i++)
            known[i] = mask >> (i % 6) & 1;
        try_split(s, p, in, want, known);
    }
}

static void try_prune(const subject *s, const mf_program *p, const value *in, const value *want)
{
    for (int o = 0; o < p->out_count; o++) {
        mf_error_object *error = NULL;
        value out;
        mf_program *q = mf_program_select(p, NULL, p->in_count, &o, 1, &error);
        if (!q)
            complain(s, "select", error);
        else if (verified(s, "select", q, s->env) && CHECK(evaluate(q, s->env, in, &out))) {
            close_to(s, "select", &out, &want[o], s->replicas, 0);
            value_free(&out, 1);
        }
        mf_drop(q);
    }
}

/* ------------------------------------------------------------------ derivatives */

static void moved(const subject *s, const value *t, double step, value *in)
{
    for (int i = 0; i < s->p->in_count; i++) {
        in[i] = value_new(s->in[i].type, s->replicas);
        for (int64_t k = 0; k < s->in[i].type->size * s->replicas; k++)
            value_set(&in[i], 0, k, value_at(&s->in[i], 0, k) + (t[i].type ? step * value_at(&t[i], 0, k) : 0));
    }
}

/* (f(x + ht) - f(x - ht)) / 2h */
static bool difference(const subject *s, const value *t, value *out)
{
    const double h = 1e-6;
    value in[MOST], low[MOST], high[MOST];
    moved(s, t, h, in);
    bool good = evaluate(s->p, s->env, in, high);
    value_free(in, s->p->in_count);
    moved(s, t, -h, in);
    good = good && evaluate(s->p, s->env, in, low);
    value_free(in, s->p->in_count);
    for (int o = 0; good && o < s->p->out_count; o++) {
        out[o] = value_new(high[o].type, s->replicas);
        for (int64_t k = 0; k < out[o].type->size * s->replicas; k++)
            value_set(&out[o], 0, k, (value_at(&high[o], 0, k) - value_at(&low[o], 0, k)) / (2 * h));
    }
    if (good) {
        value_free(low, s->p->out_count);
        value_free(high, s->p->out_count);
    }
    return good;
}

/* Tangents for all inexact inputs; both[]: the inputs, then the tangents. */
static int tangents(const subject *s, bool *has, value *t, value *both)
{
    unsigned seed = 7;
    int count = s->p->in_count;
    for (int i = 0; i < s->p->in_count; i++) {
        both[i] = s->in[i];
        has[i] = mf_tangent_type(s->in[i].type) != NULL;
        t[i] = has[i] ? value_random(s->in[i].type, s->replicas, &seed) : (value){ 0 };
        if (has[i])
            both[count++] = t[i];
    }
    return count;
}

static void try_jvp(const subject *s)
{
    bool has[MOST], gives[MOST] = { false };
    value t[MOST], both[2 * MOST], out[2 * MOST], want[MOST];
    mf_error_object *error = NULL;
    tangents(s, has, t, both);
    mf_program *j = mf_jvp_program(s->p, s->env, has, gives, &error);
    if (!j)
        complain(s, "jvp", error);
    else if (verified(s, "jvp", j, s->env) && CHECK(difference(s, t, want))) {
        if (CHECK(evaluate(j, s->env, both, out))) {
            for (int o = 0, at = s->p->out_count; o < s->p->out_count; o++) {
                close_to(s, "jvp's primal", &out[o], &s->out[o], s->replicas, 0);
                if (gives[o])
                    close_to(s, "tangent", &out[at++], &want[o], s->replicas, 1e-6);
            }
            try_splits(s, j, both, out);
            value_free(out, j->out_count);
        }
        value_free(want, s->p->out_count);
    }
    mf_drop(j);
    value_free(t, s->p->in_count);
}

static double dot(const value *a, const value *b, int64_t replicas)
{
    double sum = 0;
    for (int64_t k = 0; k < a->type->size * replicas; k++)
        sum += value_at(a, 0, k) * value_at(b, 0, k);
    return sum;
}

/* The tangents of the outputs that t gives, as zeros where there are none. */
static bool pushed(const subject *s, value *dots, const value *ct)
{
    bool has[MOST], gives[MOST];
    value t[MOST], both[2 * MOST], out[2 * MOST];
    mf_error_object *error = NULL;
    for (int o = 0; o < s->p->out_count; o++)
        gives[o] = true;
    tangents(s, has, t, both);
    mf_program *j = mf_jvp_program(s->p, s->env, has, gives, &error);
    bool good = j && evaluate(j, s->env, both, out);
    double sum = 0;
    for (int o = 0, at = s->p->out_count; good && o < s->p->out_count; o++)
        if (gives[o])
            sum += dot(&ct[o], &out[at++], s->replicas);
    if (good)
        value_free(out, j->out_count);
    value_set(dots, 0, 0, sum);
    mf_drop(j);
    value_free(t, s->p->in_count);
    return good;
}

static void try_vjp(const subject *s)
{
    mf_program *forward, *backward;
    mf_error_object *error = NULL;
    bool has[MOST];
    int residuals = 0, n = 0;
    unsigned seed = 99;
    value out[4 * MOST], in[4 * MOST], grads[MOST], ct[MOST] = { { 0 } }, t[MOST], both[2 * MOST];
    value want = value_new(mf_type_scalar(MF_F64, false), 1), got = value_new(mf_type_scalar(MF_F64, false), 1);
    if (!mf_vjp_program(s->p, s->env, s->p->in_count, NULL, &forward, &backward, &residuals, &error)) {
        complain(s, "vjp", error);
        goto done;
    }
    if (!verified(s, "forward", forward, s->env) || !verified(s, "backward", backward, s->env) ||
        !CHECK(evaluate(forward, s->env, s->in, out)))
        goto programs;
    for (; n < residuals; n++)
        in[n] = out[s->p->out_count + n];
    for (int o = 0; o < s->p->out_count; o++) {
        close_to(s, "forward", &out[o], &s->out[o], s->replicas, 0);
        ct[o] = value_random(s->out[o].type, s->replicas, &seed);
        if (mf_tangent_type(s->out[o].type))
            in[n++] = ct[o];
    }
    tangents(s, has, t, both);
    if (CHECK(n == backward->in_count) && CHECK(evaluate(backward, s->env, in, grads)) && CHECK(pushed(s, &want, ct))) {
        double sum = 0;
        for (int i = 0, at = 0; i < s->p->in_count; i++)
            if (has[i])
                sum += dot(&t[i], &grads[at++], s->replicas);
        value_set(&got, 0, 0, sum);
        close_to(s, "vjp", &got, &want, 1, 1e-9);
        value_free(grads, backward->out_count);
    }
    value_free(t, s->p->in_count);
    value_free(ct, s->p->out_count);
    value_free(out, forward->out_count);
programs:
    mf_drop(forward);
    mf_drop(backward);
done:
    value_free(&want, 1);
    value_free(&got, 1);
}

/* ------------------------------------------------------------------ vmap */

static const int64_t size = 3;

/* Example k of a batched value. */
static value example(const value *v, const mf_type *type, int axis, int64_t replicas, int64_t k)
{
    value made = value_new(type, replicas);
    int64_t inner = 1;
    for (int i = axis < 0 ? 0 : axis; i < type->rank; i++)
        inner *= type->dims[i];
    for (int64_t r = 0; r < replicas; r++)
        for (int64_t e = 0; e < type->size; e++)
            value_set(&made, r, e, axis < 0 ? value_at(v, r, e) : value_at(v, r, (e / inner * size + k) * inner + e % inner));
    return made;
}

static void compare_examples(const subject *s, const value *in, const int *in_axis, const value *out, const int *out_axis)
{
    for (int64_t k = 0; k < size; k++) {
        value one[MOST], want[MOST];
        for (int i = 0; i < s->p->in_count; i++)
            one[i] = example(&in[i], s->in[i].type, in_axis[i], s->replicas, k);
        if (CHECK(evaluate(s->p, s->env, one, want))) {
            for (int o = 0; o < s->p->out_count; o++) {
                value got = example(&out[o], s->out[o].type, out_axis[o], s->replicas, k);
                close_to(s, "vmap", &got, &want[o], s->replicas, 1e-12);
                value_free(&got, 1);
            }
            value_free(want, s->p->out_count);
        }
        value_free(one, s->p->in_count);
    }
}

static void try_axes(const subject *s, const int *in_axis)
{
    int out_axis[MOST];
    unsigned seed = 5;
    value in[MOST], out[MOST];
    mf_error_object *error = NULL;
    for (int o = 0; o < s->p->out_count; o++)
        out_axis[o] = -2;
    mf_program *b = mf_batch_program(s->p, s->env, NULL, size, in_axis, out_axis, &error);
    if (!b) {
        complain(s, "vmap", error);
        return;
    }
    for (int i = 0; i < s->p->in_count; i++)
        in[i] = value_random(b->in[i]->type, s->replicas, &seed);
    if (verified(s, "vmap", b, s->env) && CHECK(evaluate(b, s->env, in, out))) {
        compare_examples(s, in, in_axis, out, out_axis);
        value_free(out, b->out_count);
    }
    value_free(in, s->p->in_count);
    mf_drop(b);
}

static void try_vmap(const subject *s)
{
    int ways = 1;
    for (int i = 0; i < s->p->in_count; i++)
        ways *= 3;
    for (int way = 0; way < ways; way++) {
        int in_axis[MOST];
        for (int i = 0, left = way; i < s->p->in_count; i++, left /= 3)
            in_axis[i] = left % 3 == 0 ? -1 : left % 3 == 1 ? 0 : s->in[i].type->rank;
        try_axes(s, in_axis);
    }
}

/* Compares vmap over the innermost axis of the environment with its replicas. */
static void try_named(const subject *s, bool batched)
{
    int in_axis[MOST], out_axis[MOST] = { 0 };
    int64_t n = s->env->size, outer = s->replicas / n;
    value in[MOST], alone[MOST], out[MOST], want[MOST];
    mf_error_object *error = NULL;
    for (int i = 0; i < s->p->in_count; i++)
        in_axis[i] = batched ? 0 : -1;
    mf_program *b = mf_batch_program(s->p, s->env->outer, s->env->name, n, in_axis, out_axis, &error);
    if (!b) {
        complain(s, "named vmap", error);
        return;
    }
    for (int i = 0; i < s->p->in_count; i++) { /* with the batch axis first both layouts are the same */
        in[i] = value_new(s->in[i].type, s->replicas);
        alone[i] = value_new(s->in[i].type, outer);
        memcpy(in[i].data, s->in[i].data, (size_t)(s->in[i].type->bytes * s->replicas));
        for (int64_t r = 0; r < s->replicas && !batched; r++)
            for (int64_t k = 0; k < in[i].type->size; k++) {
                value_set(&in[i], r, k, value_at(&s->in[i], r / n, k));
                value_set(&alone[i], r / n, k, value_at(&s->in[i], r / n, k));
            }
    }
    if (verified(s, "named vmap", b, s->env->outer) && CHECK(evaluate(s->p, s->env, in, want))) {
        value stacked[MOST];
        for (int i = 0; i < s->p->in_count; i++)
            stacked[i] = (value){ b->in[i]->type, batched ? in[i].data : alone[i].data };
        if (CHECK(evaluate(b, s->env->outer, stacked, out))) {
            for (int o = 0; o < s->p->out_count; o++) {
                value flat = { s->out[o].type, out[o].data };
                close_to(s, batched ? "named vmap" : "named vmap, not batched", &flat, &want[o], s->replicas, 1e-12);
            }
            value_free(out, b->out_count);
        }
        value_free(want, s->p->out_count);
    }
    value_free(in, s->p->in_count);
    value_free(alone, s->p->in_count);
    mf_drop(b);
}

/* ------------------------------------------------------------------ the programs */

static void try_all(subject *s)
{
    unsigned seed = 1;
    for (int i = 0; i < s->p->in_count; i++)
        s->in[i] = value_random(s->p->in[i]->type, s->replicas, &seed);
    if (CHECK(evaluate(s->p, s->env, s->in, s->out))) {
        try_splits(s, s->p, s->in, s->out);
        try_prune(s, s->p, s->in, s->out);
        if (strstr(s->properties, "jvp"))
            try_jvp(s);
        if (strstr(s->properties, "vjp"))
            try_vjp(s);
        if (strstr(s->properties, "vmap"))
            try_vmap(s);
        if (strstr(s->properties, "named")) {
            try_named(s, true);
            try_named(s, false);
        }
        value_free(s->out, s->p->out_count);
    }
    value_free(s->in, s->p->in_count);
}

/* "name: properties [i=4, j=2]" */
static void read_header(subject *s, char *line)
{
    char *axes = strchr(line, '['), *colon = strchr(line, ':'), *save = NULL;
    s->replicas = 1;
    for (char *a = axes ? strtok_r(axes, "[], ", &save) : NULL; a; a = strtok_r(NULL, "[], ", &save)) {
        char *equals = strchr(a, '=');
        *equals = 0;
        s->env = mf_axis_env_push(s->env, mf_intern(a), atoi(equals + 1), 1);
        s->replicas *= atoi(equals + 1);
    }
    if (axes)
        *axes = 0;
    *colon = 0;
    snprintf(s->name, sizeof s->name, "%s", line);
    snprintf(s->properties, sizeof s->properties, "%s", colon + 1);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1 << 20, 1) : NULL;
    if (text && !fread(text, 1, (1 << 20) - 1, f))
        text[0] = 0;
    if (f)
        fclose(f);
    return text;
}

/* Calls visit with every program of the file. */
static void each_program(void (*visit)(subject *s))
{
    char *text = read_file(MF_TESTS_DIR "/transform/programs.txt"), *at = text ? strstr(text, "\n=== ") : NULL;
    REQUIRE(at);
    while (at) {
        subject s = { .env = NULL };
        mf_error_object *error = NULL;
        char *line = at + 5, *body = strchr(line, '\n'), *next = strstr(body, "\n=== ");
        *body++ = 0;
        if (next)
            *next = 0;
        read_header(&s, line);
        s.p = mf_program_parse(body, s.env, &error);
        if (!s.p)
            complain(&s, "parse", error);
        else
            visit(&s);
        mf_drop(s.p);
        at = next;
        if (next)
            *next = '\n';
    }
    free(text);
}

TEST(properties) { each_program(try_all); }

/* ------------------------------------------------------------------ memory that runs out */

static void forget(mf_error_object *error)
{
    CHECK(error);
    if (error)
        mf_error_handle(error);
    mf_drop(error);
}

static bool vjp_once(const subject *s)
{
    mf_program *forward, *backward;
    mf_error_object *error = NULL;
    int residuals;
    bool good = mf_vjp_program(s->p, s->env, s->p->in_count, NULL, &forward, &backward, &residuals, &error);
    mf_alloc_fail_after(0);
    mf_drop(forward);
    mf_drop(backward);
    if (!good)
        forget(error);
    return good;
}

static bool vmap_once(const subject *s)
{
    int in_axis[MOST] = { 0 }, out_axis[MOST];
    mf_error_object *error = NULL;
    for (int o = 0; o < s->p->out_count; o++)
        out_axis[o] = -2;
    mf_program *b = mf_batch_program(s->p, s->env, NULL, size, in_axis, out_axis, &error);
    mf_alloc_fail_after(0);
    if (!b)
        forget(error);
    mf_drop(b);
    return b;
}

/* Every allocation fails once: each time the result is an error, and nothing leaks or is used after it was freed (the sanitizers check). */
static void fail_each(subject *s)
{
    bool (*once[2])(const subject *) = { vjp_once, vmap_once };
    if (!vmap_once(s) || (strstr(s->properties, "vjp") && !vjp_once(s))) {
        CHECK_NOTE("%s", s->name);
        return;
    }
    for (int way = strstr(s->properties, "vjp") ? 0 : 1; way < 2; way++)
        for (int n = 1, good = 0; good < 40; n++) { /* pruning may succeed without an allocation, so a few successes do not end the loop */
            mf_alloc_fail_after(n);
            good = once[way](s) ? good + 1 : 0;
        }
}

TEST(out_of_memory) { each_program(fail_each); }
