/* Running a program in steps (pjrt_cut.c): those of the plugin are queued, and before one of the CPU what it takes is brought to the host.
 * Invariants: a call ends when its last step on the host has, and an error of any step is the call's; what a step takes last it may have, if
 * the call donates it or another step made it; what the call donates is gone once all steps have run, or the step that it was given to. */
#include "backend/pjrt/pjrt.h"

#include "base/alloc.h"
#include "runtime/executable.h"

typedef struct stepped {
    mf_executable base;
    pjrt_steps steps;
    int *last; /* by value: the last step that takes it; -1: none does; as many as there are steps: the call gives it out */
} stepped;

static void steps_end(pjrt_steps *s)
{
    for (int k = 0; k < s->list.count; k++) {
        mf_drop(s->list.at[k].x);
        mf_drop(s->list.at[k].program);
        mf_free(s->list.at[k].in);
        mf_free(s->list.at[k].out);
    }
    mf_free(s->list.at);
    mf_free(s->in);
    mf_free(s->out);
}

static void stepped_destroy(mf_object *o)
{
    stepped *x = (stepped *)o;
    steps_end(&x->steps);
    mf_free(x->last);
    mf_executable_end(&x->base);
}
static const mf_class stepped_class = { "plugin's executable in steps", stepped_destroy };

/* ---- loading */

static bool find_last_steps(stepped *x)
{
    const pjrt_steps *s = &x->steps;
    x->last = mf_alloc(((size_t)s->value_count + 1) * sizeof *x->last);
    for (int v = 0; x->last && v < s->value_count; v++)
        x->last[v] = -1;
    for (int k = 0; x->last && k < s->list.count; k++)
        for (int i = 0; i < s->list.at[k].program->in_count; i++)
            x->last[s->list.at[k].in[i]] = k;
    for (int o = 0; x->last && o < x->base.program->out_count; o++)
        x->last[s->out[o]] = s->list.count;
    return x->last;
}

/* The input that the value is; -1: a step makes it. */
static int input_of(const stepped *x, int value)
{
    for (int i = 0; i < x->base.program->in_count; i++)
        if (x->steps.in[i] == value)
            return i;
    return -1;
}

static bool is_donated(const stepped *x, int input) { return x->base.donated && x->base.donated[input]; }

/* Input i of step k: whether the step may have it. */
static bool is_given(const stepped *x, int k, int i)
{
    int value = x->steps.list.at[k].in[i], input = input_of(x, value), times = 0;
    for (int n = 0; n < x->steps.list.at[k].program->in_count; n++)
        times += x->steps.list.at[k].in[n] == value;
    return times == 1 && x->last[value] == k && (input < 0 || is_donated(x, input));
}

static mf_error_object *load_step(stepped *x, int k)
{
    pjrt_step *s = &x->steps.list.at[k];
    bool *donated = mf_calloc((size_t)s->program->in_count + 1, sizeof *donated);
    mf_load_request load = { .client = s->on_host ? &mf_client_cpu : x->base.client, .program = s->program, .function = x->base.function };
    if (!donated)
        return mf_error_out_of_memory();
    for (int i = 0; i < s->program->in_count && !s->on_host; i++)
        donated[i] = is_given(x, k, i);
    load.donated = donated;
    mf_error_object *error = load.client->backend->load(&load, &s->x);
    mf_free(donated);
    return error;
}

/* ---- running */

typedef struct course { /* of one call */
    const stepped *x;
    mf_array *const *in;
    mf_array **values;
    const mf_sharding *there; /* where the call's inputs are, if one is committed and the program is no map */
} course;

/* What a step on the client takes; waits where the value is not there. */
static mf_array *value_on(const course *c, const mf_client *client, mf_array *a, mf_error_object **error)
{
    if (mf_array_client(a) == client)
        return mf_retain(a);
    return c->there && client != &mf_client_cpu ? mf_array_copy_to(c->there, a, error) : mf_array_on(client, a, error);
}

static mf_error_object *wait_for(mf_array *const *out, int count)
{
    mf_error_object *error = NULL;
    for (int o = 0; o < count && !error; o++)
        error = mf_array_wait(out[o]);
    return error;
}

static mf_error_object *run_step(const course *c, const pjrt_step *s)
{
    int in_count = s->program->in_count, out_count = s->program->out_count;
    MF_SMALL_ARRAY(mf_array *, in, 16, in_count);
    MF_SMALL_ARRAY(mf_array *, out, 16, out_count);
    mf_error_object *error = in && out ? NULL : mf_error_out_of_memory();
    int taken = 0;
    for (; taken < in_count && !error; taken++)
        if (!(in[taken] = value_on(c, s->x->client, c->values[s->in[taken]], &error)))
            break;
    if (!error)
        error = mf_executable_run(s->x, in, NULL, out);
    for (int i = 0; i < taken; i++)
        mf_drop(in[i]);
    if (error)
        return error;
    if (s->on_host)
        error = wait_for(out, out_count);
    for (int o = 0; o < out_count; o++)
        if (o < s->out_count && !error)
            c->values[s->out[o]] = out[o];
        else
            mf_drop(out[o]);
    return error;
}

/* What no later step takes. */
static void forget(const course *c, int k)
{
    for (int v = 0; v < c->x->steps.value_count; v++)
        if (c->values[v] && c->x->last[v] <= k) {
            mf_drop(c->values[v]);
            c->values[v] = NULL;
        }
}

/* Donated inputs that no step was given. */
static void take_donated(const course *c)
{
    for (int i = 0; i < c->x->base.program->in_count; i++) {
        const char *before = NULL;
        mf_array *a = c->in[i];
        if (is_donated(c->x, i) && atomic_compare_exchange_strong(&a->deleted, &before, "donated") && a->buffer)
            mf_drop(mf_array_give_up(a));
    }
}

/* What a step computed from nothing that is committed goes to the call's device. */
static mf_error_object *give_out(const course *c, mf_array **out)
{
    mf_error_object *error = NULL;
    int count = c->x->base.program->out_count, given = 0;
    for (; given < count && !error; given++) {
        mf_array *a = c->values[c->x->steps.out[given]];
        out[given] = c->there && !a->sharding->committed ? mf_array_copy_to(c->there, a, &error) : mf_retain(a);
    }
    while (error && given)
        mf_drop(out[--given]);
    return error;
}

/* Where the first committed input is. */
static const mf_sharding *device_of(const stepped *x, mf_array *const *in)
{
    for (int i = 0; i < x->base.program->in_count; i++)
        if (in[i]->sharding->committed)
            return mf_sharding_single(x->base.client, in[i]->sharding->devices[0]);
    return NULL;
}

static mf_error_object *run(mf_executable *base, mf_array *const *in, const bool *moved, mf_array **out)
{
    (void)moved;
    const stepped *x = (const stepped *)base;
    mf_error_object *error = NULL;
    course c = { x, in, mf_calloc((size_t)x->steps.value_count + 1, sizeof *c.values), NULL };
    if (!c.values)
        return mf_error_out_of_memory();
    c.there = mf_hlo_sole_map(base->program) ? NULL : device_of(x, in);
    for (int i = 0; i < base->program->in_count; i++)
        if (x->steps.in[i] >= 0)
            c.values[x->steps.in[i]] = mf_retain(in[i]);
    for (int k = 0; k < x->steps.list.count && !error; k++) {
        error = run_step(&c, &x->steps.list.at[k]);
        forget(&c, k);
    }
    if (!error)
        error = give_out(&c, out);
    if (!error)
        take_donated(&c);
    for (int v = 0; v < x->steps.value_count; v++)
        mf_drop(c.values[v]);
    mf_free(c.values);
    return error;
}

/* ---- the executable */

static void describe(mf_text *t, const mf_executable *base)
{
    const pjrt_steps *s = &((const stepped *)base)->steps;
    int on_host = 0;
    for (int k = 0; k < s->list.count; k++)
        on_host += s->list.at[k].on_host;
    mf_text_add(t, "executable of %s: %d steps, %d of them on the host\n", base->client->platform, s->list.count, on_host);
}

static int64_t temporary_bytes(const mf_executable *x)
{
    (void)x;
    return 0;
}

static const mf_backend in_steps = { pjrt_load, NULL, run, describe, temporary_bytes };

mf_error_object *pjrt_load_steps(const mf_load_request *load, mf_executable **loaded)
{
    stepped *x = mf_object_new(&stepped_class, sizeof *x);
    if (!x)
        return mf_error_out_of_memory();
    mf_error_object *error = mf_executable_init(&x->base, load) ? pjrt_cut(load->program, &x->steps) : mf_error_out_of_memory();
    x->base.backend = &in_steps;
    if (!error && !find_last_steps(x))
        error = mf_error_out_of_memory();
    for (int k = 0; k < x->steps.list.count && !error; k++)
        error = load_step(x, k);
    if (error)
        mf_drop(x);
    else
        *loaded = &x->base;
    return error;
}
