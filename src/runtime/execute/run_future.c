/* Runs as futures: a run whose inputs are pending, or that is not small, is the future of its results, and the pool steps it.
 * Invariant: a run holds its result arrays until it has filled them, and they hold the run, so neither is freed early. The number of
 * runs in flight, and their bytes, are limited: callers beyond the limit wait. */
#include "runtime/execute/cpu_executable.h"

#include "trace/state/state.h"

#define MOST_RUNS  64
#define MOST_BYTES ((int64_t)1 << 30)

typedef struct callback {
    struct callback *next;
    void (*fn)(void *);
    void *context;
} callback;

typedef struct input_wait { /* an input that was pending at the call */
    struct mf_run *run;
    int index;
    mf_array *array;
} input_wait;

struct mf_run {
    mf_future future;
    mf_cpu_executable *executable;
    mf_run_state *state; /* NULL once over; guarded by the pool's lock, like the callbacks */
    callback *callbacks, **callbacks_end;
    int out_count;
    mf_array **out;
    input_wait *waits;
    _Atomic int pending; /* pending inputs, plus one until the call has set up the run */
    int64_t bytes;
    mf_comm *comm; /* the communicator of the caller, in whose `runs` it counts */
};

static _Atomic int runs_in_flight;
static _Atomic int64_t bytes_in_flight;

static void run_destroy(mf_object *o)
{
    mf_run *r = (mf_run *)o;
    mf_drop(r->future.error);
    mf_free(r->out);
    mf_free(r->waits);
    mf_drop(r->executable);
}
static const mf_class run_class = { "run", run_destroy };

static void *run_state_of(void *run) { return ((mf_run *)run)->state; }

static mf_run_state *help_run_state(void *run) { return run_state_of(run); }

static bool run_over(void *run) { return atomic_load_explicit(&((mf_run *)run)->future.state, memory_order_acquire) != 0; }

static void run_wait(mf_future *f)
{
    int64_t start = mf_profile_begin();
    mf_tasks_help(help_run_state, run_over, f);
    if (start)
        mf_profile_words(start, MF_TRACK_HOST, "wait", NULL);
}

static void run_then(mf_future *f, void (*fn)(void *), void *context)
{
    mf_run *r = (mf_run *)f;
    callback *c = mf_alloc(sizeof *c);
    mf_tasks_lock();
    bool later = c && !run_over(r);
    if (later) {
        *c = (callback){ NULL, fn, context };
        *r->callbacks_end = c;
        r->callbacks_end = &c->next;
    }
    mf_tasks_unlock(false);
    if (later)
        return;
    if (!c)
        run_wait(f);
    mf_free(c);
    fn(context);
}

static void finish_run(mf_run *r)
{
    mf_run_state *s = r->state;
    mf_error_object *error = mf_cpu_outcome(s);
    if (s->comm && error && !s->error)
        mf_comm_abort(s->comm, s->call, error);
    if (s->comm)
        s->comm->end(s->comm, s->call);
    for (int o = 0; o < r->out_count && !error; o++)
        error = mf_cpu_fill_result(r->out[o], &s->out[o], &r->executable->block->out_layouts[o]) ? NULL : mf_error_out_of_memory();
    r->future.error = error;
    for (int o = 0; o < r->out_count; o++) /* now, so that a caller that waited for the results may find that it alone holds them */
        mf_drop(r->out[o]);
    atomic_fetch_sub(&bytes_in_flight, r->bytes);
    if (r->comm)
        atomic_fetch_sub(&r->comm->runs, 1);
    mf_tasks_lock();
    callback *list = r->callbacks;
    r->callbacks = NULL;
    r->state = NULL;
    atomic_fetch_sub(&runs_in_flight, 1);
    atomic_store_explicit(&r->future.state, error ? 2 : 1, memory_order_release);
    mf_tasks_unlock(true);
    for (callback *c = list, *next; c; c = next) {
        next = c->next;
        c->fn(c->context);
        mf_free(c);
    }
    mf_cpu_give_run_state(r->executable, s);
    mf_drop(r);
}

void mf_run_state_over(mf_run_state *s)
{
    if (s->run)
        finish_run(s->run);
}

/* All inputs are ready, or one has failed. */
static void start_run(mf_run *r)
{
    mf_run_state *s = r->state;
    if (!atomic_load(&s->failed) && mf_cpu_begin(r->executable, s))
        return;
    if (!s->error)
        mf_run_state_fail(s, mf_error_out_of_memory());
    finish_run(r);
}

static void on_input_ready(void *context)
{
    input_wait *w = context;
    mf_run *r = w->run;
    mf_future *f = w->array->future;
    bool failed = atomic_load_explicit(&f->state, memory_order_acquire) == 2;
    bool bound = !failed && mf_cpu_bind(r->executable, r->state, w->index, w->array, mf_cpu_is_donated(r->executable, w->index));
    if (!bound)
        mf_run_state_fail(r->state, failed ? mf_retain(f->error) : mf_error_out_of_memory());
    if (!bound && !mf_cpu_is_donated(r->executable, w->index))
        mf_array_end_read(w->array);
    mf_drop(w->array);
    w->array = NULL;
    if (atomic_fetch_sub(&r->pending, 1) == 1)
        start_run(r);
}

mf_run *mf_run_new(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, int pending)
{
    mf_run *r = mf_object_new(&run_class, sizeof *r);
    if (!r)
        return NULL;
    r->executable = mf_retain(x);
    r->out_count = x->base.program->out_count;
    r->out = mf_alloc(((size_t)r->out_count + 1) * sizeof(mf_array *));
    r->waits = mf_calloc((size_t)pending + 1, sizeof *r->waits);
    r->callbacks_end = &r->callbacks;
    r->future.wait = run_wait;
    r->future.then = run_then;
    if (!r->out || !r->waits || !mf_cpu_make_results(x, in, &r->future, r->out)) {
        mf_drop(r);
        return NULL;
    }
    for (int o = 0; o < r->out_count; o++)
        r->bytes += x->base.program->out[o]->type->bytes;
    r->state = s;
    s->run = r;
    s->shared = true;
    r->comm = mf_comm_current();
    s->comm = x->plan->spread ? r->comm : NULL;
    s->call = s->comm ? mf_comm_begin(s->comm, x->processes, x->base.function, mf_entry_location()) : 0;
    atomic_init(&r->pending, pending + 1);
    return r;
}

/* ------------------------------------------------------------------ limiting runs in flight */

/* Counts per communicator: where threads stand for processes, a run that waited here might be what another thread's runs wait for. */
static bool may_begin(void *comm)
{
    int runs = atomic_load(comm ? &((mf_comm *)comm)->runs : &runs_in_flight);
    return runs < MOST_RUNS && (!runs || atomic_load(&bytes_in_flight) < MOST_BYTES);
}

static bool nothing_runs(void *unused)
{
    (void)unused;
    return atomic_load(&runs_in_flight) == 0;
}

static void drain(void) { mf_tasks_help(NULL, nothing_runs, NULL); }

void mf_run_enqueue(mf_run *r, mf_array *const *in, mf_array **out, bool attend)
{
    const mf_cpu_executable *x = r->executable;
    if (!mf_tasks_is_worker() && !mf_cells_taken_by_thread() && !may_begin(r->comm))
        mf_tasks_help(NULL, may_begin, r->comm);
    atomic_store(&mf_drain_hook, drain);
    atomic_fetch_add(&runs_in_flight, 1);
    if (r->comm)
        atomic_fetch_add(&r->comm->runs, 1);
    atomic_fetch_add(&bytes_in_flight, r->bytes);
    for (int o = 0; o < r->out_count; o++)
        out[o] = mf_retain(r->out[o]);
    int count = 0;
    for (int i = 0; i < x->base.program->in_count; i++)
        if (!r->state->in[i].data)
            r->waits[count++] = (input_wait){ r, i, mf_retain(in[i]) };
    for (int w = 0; w < count; w++) {
        mf_future *f = r->waits[w].array->future;
        f->then(f, on_input_ready, &r->waits[w]);
    }
    mf_run_state *s = r->state;
    attend = attend && atomic_load(&r->pending) == 1 && atomic_load(&runs_in_flight) == 1;
    if (attend) {
        mf_retain(r);
        mf_tasks_keep(s);
    }
    if (atomic_fetch_sub(&r->pending, 1) == 1)
        start_run(r);
    if (attend) {
        mf_tasks_attend(s, run_over, r);
        mf_drop(r);
    }
}
