/* The CPU's backend: executables made of plans, and their runs. If the inputs are ready and the estimated cost is small, the calling thread
 * steps the run at once: no queue, no lock and, from the second run on, no allocation except for the results. Any other run becomes the
 * future of its results (run_future.c).
 * Invariants: a donated array is marked before the run starts, and its memory is overwritten only if nothing else holds it; nothing is
 * stepped on a small stack, which has no room for the kernels' local arrays. */
#include "runtime/execute/cpu_executable.h"

#include "runtime/collectives/collectives.h"
#include "runtime/compile/planner.h"
#include "runtime/device.h"

#include "base/text/location.h"
#include "base/thread/stack.h"
#include "passes/passes.h"

#include <stdio.h>
#include <string.h>

static _Atomic double inline_below = 200000; /* nanoseconds */

const mf_segment_compiler *mf_executable_compiler(const mf_executable *x) { return ((const mf_cpu_executable *)x)->compiler; }

void mf_executable_inline_below(double nanoseconds) { atomic_store(&inline_below, nanoseconds); }

/* ------------------------------------------------------------------ loading */

static void executable_destroy(mf_object *o)
{
    mf_cpu_executable *x = (mf_cpu_executable *)o;
    mf_run_state_free(atomic_load(&x->spare));
    mf_plan_free(x->plan);
    mf_free(x->held);
    mf_executable_end(&x->base);
}
static const mf_class executable_class = { "executable", executable_destroy };

/* The inputs' layouts: each is like itself. */
static mf_value_layout *input_layouts(const mf_program *p, mf_array *const *in)
{
    mf_value_layout *list = mf_calloc((size_t)p->in_count + 1, sizeof *list);
    for (int i = 0; list && i < p->in_count; i++) {
        list[i].like = list[i].sharded_like = i + 1;
        list[i].held = in ? mf_array_held(in[i], (mf_axis_set)-1) : 0;
    }
    return list;
}

/* Records what the plan supposed about its inputs. */
static mf_error_object *keep_held(mf_cpu_executable *x, const mf_value_layout *in)
{
    mf_axis_set any = 0;
    for (int i = 0; i < x->base.program->in_count; i++)
        any |= x->plan->asked[i];
    x->held = any ? mf_alloc((size_t)x->base.program->in_count * sizeof *x->held) : NULL;
    x->base.supposes = x->held;
    for (int i = 0; x->held && i < x->base.program->in_count; i++)
        x->held[i] = in[i].held & x->plan->asked[i];
    return any && !x->held ? mf_error_out_of_memory() : NULL;
}

void (*mf_plan_watch)(const mf_plan *plan);

static mf_error_object *plan_is_made(const mf_plan *plan)
{
    if (mf_plan_watch)
        mf_plan_watch(plan);
    if (mf_dump_wants("plan")) {
        mf_text t = { 0 };
        mf_plan_print(&t, plan);
        fprintf(stderr, "%s", t.at && !t.failed ? t.at : "");
        mf_text_free(&t);
    }
#ifndef NDEBUG
    return mf_plan_verify(plan);
#else
    return NULL;
#endif
}

static mf_error_object *make_plan(mf_cpu_executable *x, mf_array *const *arrays)
{
    const mf_program *p = x->base.program;
    mf_error_object *error = NULL;
    mf_value_layout *in = input_layouts(p, arrays);
    x->plan = in ? mf_plan_new(x->compiler, p->in_count) : NULL;
    x->block = x->plan ? mf_plan_program(x->plan, p, NULL, in, &error) : NULL;
    if (!x->plan)
        error = mf_error_out_of_memory();
    if (!error) {
        x->plan->top = x->block;
        error = plan_is_made(x->plan);
    }
    if (!error)
        error = keep_held(x, in);
    mf_free(in);
    return error;
}

static mf_error_object *load_program(const mf_load_request *load, mf_executable **loaded)
{
    const mf_segment_compiler *compiler = load->compiler ? mf_segment_compiler_find(load->compiler) : mf_segment_compiler_default();
    if (!compiler)
        return mf_error_new(MF_ERROR_DEVICE, "there is no backend '%s' here", load->compiler);
    mf_cpu_executable *x = mf_object_new(&executable_class, sizeof *x);
    if (!x)
        return mf_error_out_of_memory();
    x->compiler = compiler;
    mf_error_object *error = mf_executable_init(&x->base, load) ? make_plan(x, load->in) : mf_error_out_of_memory();
    if (!error && mf_program_processes(x->base.program, mf_comm_current(), &x->processes))
        error = mf_program_check_owners(x->base.program, mf_comm_current());
    if (error)
        mf_drop(x);
    else
        *loaded = &x->base;
    return error;
}

static bool fits(const mf_executable *base, mf_array *const *in)
{
    const mf_cpu_executable *x = (const mf_cpu_executable *)base;
    for (int i = 0; i < base->program->in_count; i++)
        if ((in ? mf_array_held(in[i], x->plan->asked[i]) : 0) != x->held[i])
            return false;
    return true;
}

/* ------------------------------------------------------------------ run states */

static mf_run_state *take_run_state(mf_cpu_executable *x)
{
    mf_run_state *s = atomic_exchange_explicit(&x->spare, NULL, memory_order_acquire);
    if (!s && !(s = mf_run_state_new(&x->base)))
        return NULL;
    s->location = x->base.shares_locations && mf_profile_begin() ? mf_entry_location() : NULL;
    s->in = mf_run_state_get(s, (size_t)x->base.program->in_count * sizeof *s->in);
    s->out = mf_run_state_get(s, (size_t)x->base.program->out_count * sizeof *s->out);
    if (s->in && s->out)
        return s;
    mf_run_state_free(s);
    return NULL;
}

void mf_cpu_give_run_state(mf_cpu_executable *x, mf_run_state *s)
{
    mf_run_state_clear(s);
    mf_run_state_free(atomic_exchange_explicit(&x->spare, s, memory_order_acq_rel));
}

/* ------------------------------------------------------------------ inputs */

/* A copy of an array's strides that lives as long as the run state. */
static const int64_t *keep_strides(mf_run_state *s, const mf_array *a)
{
    size_t bytes = (size_t)a->type->rank * sizeof *a->strides;
    mf_run_state_lock(s);
    int64_t *kept = mf_run_state_get(s, bytes);
    mf_run_state_unlock(s);
    return kept ? memcpy(kept, a->strides, bytes) : NULL;
}

static void warn_shared(mf_cpu_executable *x, int i, const mf_array *a)
{
    const void *at = atomic_load(&x->called_at);
    const char *location = at ? mf_location_of(at) : NULL, *words = x->base.input_words ? x->base.input_words[i] : NULL;
    char input[32];
    snprintf(input, sizeof input, "input %d", i);
    mf_warn_once(&x->warned_shared,
                 "%s%sthe donated memory of %s, %s, is not reused but copied: a view or an unfinished call still reads it%s%s%s",
                 x->base.function ? x->base.function : "", x->base.function ? ": " : "", words ? words : input, mf_type_name(a->type),
                 location ? " (" : "", location ? location : "", location ? ")" : "");
}

/* Warns once when donated memory is copied because something else still holds it. An array that is held once gives no warning: its
 * result is held once too, so little is copied. */
static void report_shared(mf_cpu_executable *x, int i, const mf_array *a)
{
    for (int k = 0; k < a->type->rank; k++)
        if (a->strides[k] == 0 && a->type->dims[k] > 1)
            return;
    if (atomic_load_explicit(&a->buffer->object.count, memory_order_acquire) > 1)
        warn_shared(x, i, a);
}

bool mf_cpu_is_donated(const mf_cpu_executable *x, int i) { return x->base.donated && x->base.donated[i]; }

/* Donated by every call, or moved by this one. */
static bool is_given(const mf_cpu_executable *x, const bool *moved, int i) { return mf_cpu_is_donated(x, i) || (moved && moved[i]); }

bool mf_cpu_bind(mf_cpu_executable *x, mf_run_state *s, int i, mf_array *a, bool given)
{
    mf_register *r = &s->in[i];
    r->sharding = a->sharding;
    r->strides = NULL;
    if (!mf_array_is_contiguous(a) && !(r->strides = keep_strides(s, a)))
        return false;
    r->data = mf_array_data(a);
    if (!a->buffer) {
        memcpy(r->small, a->inline_data, sizeof r->small);
        r->data = r->small + a->offset;
    } else if (given) {
        if (mf_cpu_is_donated(x, i))
            report_shared(x, i, a);
        r->buffer = mf_array_give_up(a);
    } else {
        r->buffer = mf_retain(a->buffer);
    }
    if (!given)
        mf_array_end_read(a);
    return true;
}

static bool is_ready(const mf_array *a) { return !a->future || atomic_load_explicit(&a->future->state, memory_order_acquire) == 1; }

/* Ends the reads of inputs that begin_inputs began, except for those whose register holds the memory already. */
static void end_reads(const mf_cpu_executable *x, const mf_run_state *s, mf_array *const *in, const bool *moved, int count)
{
    for (int i = 0; i < count; i++)
        if (!is_given(x, moved, i) && !(s && s->in[i].data))
            mf_array_end_read(in[i]);
}

/* The call did not begin: gives donated arrays back to the caller. */
static void take_back(const mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, const bool *moved, int count)
{
    for (int i = 0; (x->base.donated || moved) && i < count; i++) {
        if (!is_given(x, moved, i))
            continue;
        if (s && s->in[i].buffer && !in[i]->buffer) {
            in[i]->buffer = s->in[i].buffer;
            s->in[i].buffer = NULL;
        }
        atomic_store(&in[i]->deleted, NULL);
    }
}

static mf_error_object *begin_input(mf_array *a, bool given)
{
    const char *before = NULL;
    if (a->future && atomic_load_explicit(&a->future->state, memory_order_acquire) == 2)
        return mf_retain(a->future->error);
    if (!given)
        return mf_array_begin(a);
    return atomic_compare_exchange_strong(&a->deleted, &before, "donated") ? NULL : mf_array_wait(a);
}

/* From here on the run alone owns the arrays that are given up, and nobody can take the memory of the others. On an error nothing has
 * changed. */
static mf_error_object *begin_inputs(const mf_cpu_executable *x, mf_array *const *in, const bool *moved)
{
    for (int i = 0; i < x->base.program->in_count; i++) {
        mf_error_object *error = begin_input(in[i], is_given(x, moved, i));
        if (error) {
            end_reads(x, NULL, in, moved, i);
            take_back(x, NULL, in, moved, i);
            return error;
        }
    }
    return NULL;
}

/* Binds ready inputs. Those that are not given up come first, so that memory that a donated array shares with another input of the call
 * is seen as shared. */
static mf_error_object *bind_ready(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, const bool *moved, int *pending)
{
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->base.program->in_count; i++) {
            if (is_given(x, moved, i) != pass)
                continue;
            if (!is_ready(in[i]))
                ++*pending;
            else if (!mf_cpu_bind(x, s, i, in[i], pass))
                return mf_error_out_of_memory();
        }
    return NULL;
}

/* ------------------------------------------------------------------ outputs */

/* The sharding of a result that the plan does not know: that of the first input on several devices if the shapes are the same; else the
 * device of the first committed input, or of the first input, if that is on a single device; else the first device. */
static const mf_sharding *sharding_among(const mf_cpu_executable *x, mf_array *const *in, const mf_type *type)
{
    int i = 0, first = 0, count = x->base.program->in_count;
    while (i < count && in[i]->sharding->device_count <= 1)
        i++;
    if (i < count && mf_type_same_shape(type, in[i]->type))
        return in[i]->sharding;
    while (first < count && !in[first]->sharding->committed)
        first++;
    const mf_sharding *p = !count ? mf_sharding_default(&mf_client_cpu) : in[first < count ? first : 0]->sharding;
    return p->device_count == 1 ? p : mf_sharding_single(&mf_client_cpu, 0);
}

/* An array for result o with its final layout, so that the caller can ask for the layout before the result is ready. */
static mf_array *new_result(const mf_cpu_executable *x, mf_array *const *in, int o)
{
    const mf_value_layout *l = &x->block->out_layouts[o];
    const mf_type *type = x->base.program->out[o]->type;
    const int64_t *strides = l->like ? in[l->like - 1]->strides : l->strides;
    const mf_sharding *p = l->sharding ? l->sharding : l->sharded_like ? in[l->sharded_like - 1]->sharding : NULL;
    return mf_array_wrap(type, NULL, 0, strides, p ? p : sharding_among(x, in, type));
}

bool mf_cpu_make_results(const mf_cpu_executable *x, mf_array *const *in, mf_future *future, mf_array **out)
{
    for (int o = 0; o < x->base.program->out_count; o++) {
        out[o] = new_result(x, in, o);
        if (!out[o]) {
            while (o)
                mf_drop(out[--o]);
            return false;
        }
        out[o]->future = mf_retain(future);
    }
    return true;
}

bool mf_cpu_fill_result(mf_array *a, mf_register *r, const mf_value_layout *l)
{
    if ((r->strides || l->strides || l->like) && !mf_register_lay(r, a->type, a->strides))
        return false;
    if (r->buffer) {
        a->offset = r->data - (unsigned char *)r->buffer->data;
    } else {
        a->offset = r->data - r->small;
        memcpy(a->inline_data, r->small, sizeof r->small);
    }
    a->buffer = r->buffer;
    r->buffer = NULL;
    r->data = NULL;
    return true;
}

/* ------------------------------------------------------------------ beginning */

bool mf_cpu_begin(mf_cpu_executable *x, mf_run_state *s)
{
    mf_run_state_lock(s);
    mf_fiber *f = mf_run_state_get(s, sizeof *f);
    mf_frame *frame = f ? mf_frame_new(s, x->block, false) : NULL;
    mf_run_state_unlock(s);
    if (!frame)
        return false;
    *f = (mf_fiber){ .run_state = s, .top = frame };
    for (int i = 0; i < x->base.program->in_count; i++) {
        if (i == 0 && s->in[i].sharding && s->in[i].sharding->device_count == 1)
            s->device = s->in[i].sharding->devices[0];
        if (x->block->in[i] >= 0)
            mf_register_move(&frame->registers[x->block->in[i]], &s->in[i]);
        else
            mf_register_release(&s->in[i]);
    }
    f->device = s->device;
    s->live = f;
    s->active = 1;
    mf_ready(s, f);
    return true;
}

mf_error_object *mf_cpu_outcome(mf_run_state *s)
{
    if (s->error)
        return mf_retain(s->error);
    return s->done ? NULL : mf_disagreement(s);
}

/* ------------------------------------------------------------------ inline runs */

static mf_error_object *run_inline(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, mf_array **out)
{
    if (!mf_cpu_begin(x, s))
        return mf_error_out_of_memory();
    for (mf_fiber *f; (f = s->ready_first);) {
        s->ready_first = f->next;
        if (!s->ready_first)
            s->ready_last = NULL;
        f->next = NULL;
        mf_fiber_step(f);
    }
    mf_error_object *error = mf_cpu_outcome(s);
    if (error || !mf_cpu_make_results(x, in, NULL, out))
        return error ? error : mf_error_out_of_memory();
    for (int o = 0; o < x->base.program->out_count && !error; o++)
        error = mf_cpu_fill_result(out[o], &s->out[o], &x->block->out_layouts[o]) ? NULL : mf_error_out_of_memory();
    for (int o = 0; o < x->base.program->out_count && error; o++)
        mf_drop(out[o]);
    return error;
}

/* Waits for pending inputs here, where no thread could start the run later. */
static mf_error_object *bind_pending(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, const bool *moved)
{
    for (int i = 0; i < x->base.program->in_count; i++) {
        mf_future *f = s->in[i].data ? NULL : in[i]->future;
        if (!f)
            continue;
        f->wait(f);
        if (atomic_load_explicit(&f->state, memory_order_acquire) == 2)
            return mf_retain(f->error);
        if (!mf_cpu_bind(x, s, i, in[i], is_given(x, moved, i)))
            return mf_error_out_of_memory();
    }
    return NULL;
}

/* Takes s over. *out are the results, finished or pending. */
static mf_error_object *run_on(mf_cpu_executable *x, mf_run_state *s, mf_array *const *in, const bool *moved, mf_array **out)
{
    int pending = 0;
    mf_error_object *error = bind_ready(x, s, in, moved, &pending);
    if (!error && pending && !mf_tasks_start()) {
        error = bind_pending(x, s, in, moved);
        pending = 0;
    }
    bool enough_stack = mf_stack_has_room(), spread = x->plan->spread,
         small = enough_stack && x->block->cost < atomic_load_explicit(&inline_below, memory_order_relaxed);
    bool here = !error && !pending && ((small && !spread) || !mf_tasks_start());
    if (here && !enough_stack) {
        error = mf_error_new(MF_ERROR_MEMORY, "this thread has less than 1 MiB of stack left, and the system refuses one that has more");
    } else if (here && spread) {
        error = mf_error_new(MF_ERROR_MEMORY, "a map that spans processes needs a thread, which the system refuses");
    } else if (here) {
        error = run_inline(x, s, in, out);
        mf_cpu_give_run_state(x, s);
        return error;
    }
    mf_run *r = error ? NULL : mf_run_new(x, s, in, pending);
    if (r) {
        mf_run_enqueue(r, in, out, small && !mf_tasks_is_worker());
        return NULL;
    }
    end_reads(x, s, in, moved, x->base.program->in_count);
    take_back(x, s, in, moved, x->base.program->in_count);
    mf_cpu_give_run_state(x, s);
    return error ? error : mf_error_out_of_memory();
}

/* If maps span processes, tells the others why the run did not begin. */
static mf_error_object *report_missed_call(const mf_cpu_executable *x, mf_error_object *error)
{
    if (error && x->plan->spread)
        mf_comm_fail_unbegun(x->processes, error);
    return error;
}

static mf_error_object *execute(mf_executable *base, mf_array *const *in, const bool *moved, mf_array **out)
{
    MF_PARENT_ONLY(mf_retain(&mf_error_fork_object));
    mf_cpu_executable *x = (mf_cpu_executable *)base;
    if (base->donated)
        atomic_store_explicit(&x->called_at, mf_entry_location(), memory_order_relaxed);
    mf_error_object *error = begin_inputs(x, in, moved);
    mf_run_state *s = error ? NULL : take_run_state(x);
    if (s)
        return report_missed_call(x, run_on(x, s, in, moved, out));
    if (error)
        return report_missed_call(x, error);
    end_reads(x, NULL, in, moved, base->program->in_count);
    take_back(x, NULL, in, moved, base->program->in_count);
    return report_missed_call(x, mf_error_out_of_memory());
}

/* ------------------------------------------------------------------ for the user */

static int64_t temporary_bytes(const mf_executable *base)
{
    return mf_plan_temporary_bytes(((const mf_cpu_executable *)base)->plan, mf_worker_count());
}

static void describe(mf_text *t, const mf_executable *base)
{
    const mf_cpu_executable *x = (const mf_cpu_executable *)base;
    mf_text_add(t, "backend %s\n", x->compiler->name);
    mf_plan_print(t, x->plan);
    mf_text_add(t, "%lld bytes of temporaries a worker\n", (long long)x->plan->scratch_bytes);
}

const mf_backend mf_backend_cpu = { load_program, fits, execute, describe, temporary_bytes };
