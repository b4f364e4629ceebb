/* Running a program in steps (pjrt_cut.c): the plugin's steps are queued; before a step on the CPU, its operands are brought to the host.
 * Invariants: a call returns when its last step on the host has ended; an error of any step is the call's, and no step that calls the
 * host runs after it. A step may overwrite a value after its last use, if the caller donated it or a step made it. Donated arguments are
 * gone when all steps have run, or when the step that may overwrite them has. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "runtime/executable.h"

typedef struct stepped {
    mf_executable base;
    pjrt_steps steps;
    bool is_map;
    int *last;          /* by value: the last step that takes it; -1: none; the number of steps: it is an output of the call */
    int *dead, *behind; /* values that die after each step, and where those of each step begin in the list */
} stepped;

static void steps_end(pjrt_steps *s)
{
    for (int k = 0; k < s->list.count; k++) {
        mf_drop(s->list.at[k].executable);
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
    mf_free(x->dead);
    mf_free(x->behind);
    mf_executable_end(&x->base);
}
static const mf_class stepped_class = { "plugin's executable in steps", stepped_destroy };

/* ---- loading */

static void find_last_steps(stepped *x)
{
    const pjrt_steps *s = &x->steps;
    for (int v = 0; v < s->value_count; v++)
        x->last[v] = -1;
    for (int k = 0; k < s->list.count; k++)
        for (int i = 0; i < s->list.at[k].program->in_count; i++)
            x->last[s->list.at[k].in[i]] = k;
    for (int o = 0; o < x->base.program->out_count; o++)
        x->last[s->out[o]] = s->list.count;
}

static void list_dead(stepped *x)
{
    const pjrt_steps *s = &x->steps;
    for (int v = 0; v < s->value_count; v++)
        if (x->last[v] >= 0 && x->last[v] < s->list.count)
            x->behind[x->last[v] + 2]++;
    for (int k = 1; k < s->list.count + 2; k++)
        x->behind[k] += x->behind[k - 1];
    for (int v = 0; v < s->value_count; v++)
        if (x->last[v] >= 0 && x->last[v] < s->list.count)
            x->dead[x->behind[x->last[v] + 1]++] = v;
}

/* False: out of memory. */
static bool find_lives(stepped *x)
{
    x->last = mf_calloc((size_t)x->steps.value_count + 1, sizeof *x->last);
    x->dead = mf_calloc((size_t)x->steps.value_count + 1, sizeof *x->dead);
    x->behind = mf_calloc((size_t)x->steps.list.count + 2, sizeof *x->behind);
    if (!x->last || !x->dead || !x->behind)
        return false;
    find_last_steps(x);
    list_dead(x);
    return true;
}

/* The index of the input with this value; -1: a step makes it. */
static int input_of(const stepped *x, int value)
{
    for (int i = 0; i < x->base.program->in_count; i++)
        if (x->steps.in[i] == value)
            return i;
    return -1;
}

static bool is_donated(const stepped *x, int input) { return x->base.donated && x->base.donated[input]; }

/* Whether input i of step k may be donated to the step. */
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
    mf_error_object *error = load.client->backend->load(&load, &s->executable);
    mf_free(donated);
    return error;
}

/* ---- running */

typedef struct call_state { /* the state of one call */
    const stepped *executable;
    mf_array *const *in;
    mf_array **values;
    mf_future **ends; /* by step that has begun: the end of all its results; NULL: it has ended */
    int device;       /* of the first committed input, if the program is not a map; else -1 */
} call_state;

/* The value as an operand of a step on the client; waits if it has to be copied. */
static mf_array *value_on(const call_state *c, const mf_client *client, mf_array *a, mf_error_object **error)
{
    if (mf_array_client(a) == client)
        return mf_retain(a);
    if (client == &mf_client_cpu || c->device < 0)
        return mf_array_on(client, a, error);
    const mf_sharding *p = mf_sharding_single(client, c->device);
    if (!p)
        *error = mf_error_out_of_memory();
    return p ? mf_array_copy_to(p, a, error) : NULL;
}

static mf_error_object *wait_for(mf_future *const *ends, int count)
{
    for (int k = 0; k < count; k++) {
        if (ends[k])
            ends[k]->wait(ends[k]);
        if (ends[k] && atomic_load_explicit(&ends[k]->state, memory_order_acquire) == 2)
            return mf_retain(ends[k]->error);
    }
    return NULL;
}

static mf_error_object *run_loaded(const call_state *c, const pjrt_step *s, mf_array *const *in, mf_array **out)
{
    bool placed = c->device >= 0 && s->executable->backend->execute == pjrt_run;
    return placed ? pjrt_run_on(s->executable, in, c->device, out) : mf_executable_run(s->executable, in, NULL, out);
}

static mf_error_object *run_step(const call_state *c, int k)
{
    const pjrt_step *s = &c->executable->steps.list.at[k];
    int in_count = s->program->in_count, out_count = s->program->out_count, taken = 0;
    MF_SMALL_ARRAY(mf_array *, in, 16, in_count);
    MF_SMALL_ARRAY(mf_array *, out, 16, out_count);
    mf_error_object *error = in && out ? NULL : mf_error_out_of_memory();
    if (!error && s->on_host)
        error = wait_for(c->ends, k);
    for (; taken < in_count && !error; taken++)
        in[taken] = value_on(c, s->executable->client, c->values[s->in[taken]], &error);
    if (!error)
        error = run_loaded(c, s, in, out);
    for (int i = 0; i < taken; i++)
        mf_drop(in[i]);
    if (error)
        return error;
    c->ends[k] = out_count ? mf_retain(out[0]->future) : NULL;
    if (s->on_host)
        error = wait_for(&c->ends[k], 1);
    for (int o = 0; o < out_count; o++)
        if (o < s->out_count && !error)
            c->values[s->out[o]] = out[o];
        else
            mf_drop(out[o]);
    return error;
}

static void drop_dead(const call_state *c, int k)
{
    for (int n = c->executable->behind[k]; n < c->executable->behind[k + 1]; n++) {
        mf_drop(c->values[c->executable->dead[n]]);
        c->values[c->executable->dead[n]] = NULL;
    }
}

/* Waits for steps that may fail by themselves, apart from failures of the plugin. A step that gives all results of the call reports its
 * error there. */
static mf_error_object *wait_for_checks(const call_state *c)
{
    mf_error_object *error = NULL;
    for (int k = 0; k < c->executable->steps.list.count && !error; k++)
        if (c->executable->steps.list.at[k].executable->may_fail)
            error = wait_for(&c->ends[k], 1);
    return error;
}

static mf_error_object *run_steps(const call_state *c)
{
    mf_error_object *error = NULL;
    for (int k = 0; k < c->executable->steps.list.count && !error; k++) {
        error = run_step(c, k);
        drop_dead(c, k);
    }
    return error ? error : wait_for_checks(c);
}

/* Gives up donated inputs that no step consumed. */
static void take_donated(const call_state *c)
{
    for (int i = 0; i < c->executable->base.program->in_count; i++) {
        const char *before = NULL;
        mf_array *a = c->in[i];
        if (is_donated(c->executable, i) && atomic_compare_exchange_strong(&a->deleted, &before, "donated") && a->buffer)
            mf_drop(mf_array_give_up(a));
    }
}

static int device_of(const stepped *x, mf_array *const *in)
{
    for (int i = 0; i < x->base.program->in_count && !x->is_map; i++)
        if (in[i]->sharding->committed)
            return in[i]->sharding->devices[0];
    return -1;
}

static mf_error_object *run(mf_executable *base, mf_array *const *in, const bool *moved, mf_array **out)
{
    (void)moved;
    const stepped *x = (const stepped *)base;
    call_state c = { .executable = x, .in = in, .device = device_of(x, in) };
    c.values = mf_calloc((size_t)x->steps.value_count + 1, sizeof *c.values);
    c.ends = mf_calloc((size_t)x->steps.list.count + 1, sizeof(mf_future *));
    if (!c.values || !c.ends) {
        mf_free(c.values);
        mf_free((void *)c.ends);
        return mf_error_out_of_memory();
    }
    for (int i = 0; i < base->program->in_count; i++)
        if (x->steps.in[i] >= 0)
            c.values[x->steps.in[i]] = mf_retain(in[i]);
    mf_error_object *error = run_steps(&c);
    if (!error)
        take_donated(&c);
    for (int o = 0; o < base->program->out_count && !error; o++)
        out[o] = mf_retain(c.values[x->steps.out[o]]);
    for (int v = 0; v < x->steps.value_count; v++)
        mf_drop(c.values[v]);
    for (int k = 0; k < x->steps.list.count; k++)
        mf_drop(c.ends[k]);
    mf_free(c.values);
    mf_free((void *)c.ends);
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

static const mf_backend in_steps = { .load = pjrt_load, .execute = run, .describe = describe };

mf_error_object *pjrt_load_steps(const mf_load_request *load, mf_executable **loaded)
{
    stepped *x = mf_object_new(&stepped_class, sizeof *x);
    if (!x)
        return mf_error_out_of_memory();
    mf_error_object *error = mf_executable_init(&x->base, load) ? pjrt_cut(load->program, &x->steps) : mf_error_out_of_memory();
    x->base.backend = &in_steps;
    x->is_map = mf_hlo_sole_map(load->program);
    if (!error && !find_lives(x))
        error = mf_error_out_of_memory();
    for (int k = 0; k < x->steps.list.count && !error; k++)
        error = load_step(x, k);
    if (error)
        mf_drop(x);
    else
        *loaded = &x->base;
    return error;
}
