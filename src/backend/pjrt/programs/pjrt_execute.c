/* Running a program on a plugin's devices. Invariants: before the plugin is called, every argument is on its device, has the program's
 * dtype and shape, and is not deleted, since the plugin itself checks little; a call that fails has consumed nothing, unless the plugin
 * had begun it. */
#include "backend/pjrt/pjrt.h"

#include "array/literal.h"
#include "base/memory/alloc.h"

#include <string.h>

/* An argument on one device. */
typedef struct argument {
    void *buffer;  /* the plugin's */
    mf_buffer *of; /* the memory whose form it is; NULL: made only for this call */
} argument;

typedef struct call {
    pjrt_executable *executable;
    pjrt_client *client;
    mf_array *const *in;
    void *lists;                    /* storage of the lists below */
    int in_count, out_count, gives; /* per replica: results, and the report if there is one */
    argument *arguments;            /* by replica, by input */
    void **given;                   /* their buffers: what the plugin sees */
    void **results;                 /* by replica, by output; then the report, if there is one */
    void ***rows, **events;
    int64_t *kept; /* inputs whose memory must not be taken */
    size_t kept_count;
    uint64_t *found; /* the reports, by replica; NULL: there are none */
    int device;      /* of a portable program */
    bool placed;     /* `device` was chosen by the caller */
} call;

static bool is_donated(const pjrt_executable *x, int i) { return x->base.donated && x->base.donated[i]; }
static int device_of(const call *c, int replica) { return c->executable->replicas == 1 ? c->device : c->executable->devices[replica]; }

/* ---- beginning: a failure leaves everything as it was */

static void leave(const call *c, int count)
{
    for (int i = 0; i < count; i++)
        if (is_donated(c->executable, i))
            atomic_store(&c->in[i]->deleted, NULL);
        else
            mf_array_end_read(c->in[i]);
}

static mf_error_object *begin_one(const call *c, int i)
{
    mf_array *a = c->in[i];
    const mf_type *wanted = c->executable->base.program->in[i]->type;
    const char *before = NULL;
    if (mf_array_client(a) != c->executable->base.client || a->type->dtype != wanted->dtype || !mf_type_same_shape(a->type, wanted))
        return mf_error_new(MF_ERROR_ARGUMENT, "input %d is %s of %s, and the program wants %s of %s", i, mf_type_name(a->type),
                            mf_array_client(a)->platform, mf_type_name(wanted), c->executable->base.client->platform);
    if (a->future && atomic_load_explicit(&a->future->state, memory_order_acquire) == 2)
        return mf_retain(a->future->error);
    if (!is_donated(c->executable, i))
        return mf_array_begin(a);
    return atomic_compare_exchange_strong(&a->deleted, &before, "donated") ? NULL : mf_array_wait(a);
}

static mf_error_object *begin(const call *c)
{
    for (int i = 0; i < c->in_count; i++) {
        mf_error_object *error = begin_one(c, i);
        if (error) {
            leave(c, i);
            return error;
        }
    }
    return NULL;
}

/* ---- arguments */

static bool parts_are_alone(const mf_buffer *b)
{
    bool alone = atomic_load_explicit(&b->object.count, memory_order_acquire) == 1;
    for (int k = 0; k < b->part_count; k++)
        alone = alone && atomic_load_explicit(&b->parts[k]->object.count, memory_order_acquire) == 1;
    return alone;
}

static bool is_kept(const call *c, int i)
{
    for (size_t k = 0; k < c->kept_count; k++)
        if (c->kept[k] == i)
            return true;
    return false;
}

/* A donated array's memory is kept if somebody else holds it too. */
static void keep_shared(call *c)
{
    for (int i = 0; c->executable->base.donated && i < c->in_count; i++) {
        const mf_array *a = c->in[i];
        if (is_donated(c->executable, i) && (!a->buffer || atomic_load(&a->readers) || !parts_are_alone(a->buffer)))
            c->kept[c->kept_count++] = i;
    }
}

/* The part of the array as a view that begins at the part, with the strides of the whole array. */
static pjrt_view view_of(const mf_type *type, const int64_t *strides, const mf_hlo_part *part)
{
    int axes[MF_RANK];
    pjrt_view v = { .dtype = type->dtype, .rank = mf_hlo_part_axes(part, type->rank, axes) };
    for (int i = 0; i < v.rank; i++) {
        v.dims[i] = type->dims[axes[i]];
        v.strides[i] = strides[axes[i]];
    }
    return v;
}

/* Whether the array is sharded into these parts. */
static bool is_mapped_so(const mf_array *a, const mf_hlo_part *part)
{
    const mf_sharding *p = a->sharding;
    bool so = part->count && p->axis_count == part->count && p->device_count == mf_hlo_part_count(part);
    for (int i = 0; so && i < part->count; i++)
        so = p->axes[i] == part->cuts[i].axis;
    return so;
}

/* Makes an argument from the host for this call alone, if the array is sharded otherwise than the program needs. */
static mf_error_object *from_literal(const call *c, int replica, int i, argument *to)
{
    mf_error_object *error = NULL;
    const mf_hlo_part *part = pjrt_part_of_replica(c->executable, &c->executable->in_parts[i]);
    int64_t strides[MF_RANK];
    mf_literal *l = mf_literal_of(c->in[i], &error);
    if (!l && is_donated(c->executable, i)) { /* already marked as deleted: read its contents nevertheless */
        mf_error_ignore(error);
        atomic_store(&c->in[i]->deleted, NULL);
        l = mf_literal_of(c->in[i], &error);
        atomic_store(&c->in[i]->deleted, "donated");
    }
    if (!l)
        return error;
    const mf_type *type = c->executable->in[i];
    pjrt_view v = view_of(l->type, l->strides, part);
    const unsigned char *from = l->data + mf_hlo_part_offset(part, replica, l->strides);
    pjrt_bytes *rows = pjrt_bytes_new((size_t)type->bytes);
    mf_contiguous_strides(type, strides);
    if (rows && type->size)
        mf_copy_strided(v.rank, v.dims, mf_dtype_size(v.dtype), rows->at, strides, from, v.strides);
    to->buffer = rows ? pjrt_upload(c->client, &v, rows, device_of(c, replica), &error) : NULL;
    mf_drop(rows);
    mf_drop(l);
    return to->buffer || error ? error : mf_error_out_of_memory();
}

static mf_error_object *make_argument(call *c, int replica, int i, argument *to)
{
    mf_array *a = c->in[i];
    const mf_hlo_part *part = pjrt_part_of_replica(c->executable, &c->executable->in_parts[i]);
    pjrt_view v = view_of(a->type, a->strides, part);
    mf_error_object *error = NULL;
    bool row = a->buffer && a->buffer->part_count;
    if (!a->buffer || (row && !is_mapped_so(a, part)))
        return from_literal(c, replica, i, to);
    if (row) {
        to->of = mf_array_part(a, (int)mf_hlo_part_index(part, replica), &v.offset);
    } else {
        to->of = a->buffer;
        v.offset = a->offset + mf_hlo_part_offset(part, replica, a->strides);
    }
    bool shared = !part->count;
    to->buffer = pjrt_form(to->of, &v, device_of(c, replica), &shared, &error);
    if (shared && is_donated(c->executable, i) && !is_kept(c, i))
        c->kept[c->kept_count++] = i;
    return error;
}

/* A call that failed may still have consumed donated arguments: forget such forms, so that no later call uses them. */
static void forget_taken(const call *c)
{
    for (int k = 0; c->executable->base.donated && k < c->executable->replicas * c->in_count; k++) {
        const argument *a = &c->arguments[k];
        if (!a->of || !a->buffer || !is_donated(c->executable, k % c->in_count))
            continue;
        pjrt_int_of args = { PJRT_HEAD(pjrt_int_of), a->buffer, { 0 } };
        mf_error_object *error = pjrt_call(c->client, PJRT_BUFFER_IS_DELETED, NULL, &args);
        if (error || args.out.truth)
            pjrt_forget_form(a->of, a->buffer);
        mf_error_ignore(error);
    }
}

static mf_error_object *make_arguments(call *c)
{
    mf_error_object *error = NULL;
    for (int r = 0; r < c->executable->replicas; r++)
        for (int i = 0; i < c->in_count && !error; i++) {
            argument *a = &c->arguments[r * c->in_count + i];
            error = make_argument(c, r, i, a);
            c->given[r * c->in_count + i] = a->buffer;
        }
    return error;
}

/* ---- results */

static bool is_committed(const call *c, int o)
{
    bool committed = c->placed || c->executable->replicas > 1 || c->executable->stacked || c->executable->out_parts[o].count;
    for (int i = 0; i < c->in_count && !committed; i++)
        committed = c->in[i]->sharding->committed;
    return committed;
}

static const mf_sharding *make_sharding(const call *c, int o, bool committed)
{
    const mf_hlo_part *part = &c->executable->out_parts[o];
    int devices[PJRT_MOST_DEVICES], axes[MF_RANK], count = (int)mf_hlo_part_count(part);
    bool portable = c->executable->replicas == 1 && !c->executable->stacked;
    if (!committed)
        return mf_sharding_default(c->executable->base.client);
    if (!part->count)
        return mf_sharding_single(c->executable->base.client, device_of(c, 0));
    for (int i = 0; i < part->count; i++)
        axes[i] = part->cuts[i].axis;
    for (int k = 0; k < count; k++)
        devices[k] = portable ? device_of(c, 0) : c->executable->devices[mf_hlo_part_first(part, k)];
    return mf_sharding_get(c->executable->base.client, part->count, axes, count, devices);
}

/* The sharding of the last call, unless a portable program runs on another device or an argument is committed now that was not then. */
static const mf_sharding *sharding_of(const call *c, int o)
{
    bool committed = is_committed(c, o);
    const mf_sharding *p = atomic_load_explicit(&c->executable->where[o], memory_order_acquire);
    if (p && p->committed == committed && (!committed || p->devices[0] == device_of(c, 0)))
        return p;
    p = make_sharding(c, o, committed);
    atomic_store_explicit(&c->executable->where[o], p, memory_order_release);
    return p;
}

static mf_array *new_result(const call *c, int o, mf_future *f)
{
    int64_t strides[MF_RANK];
    const mf_type *type = c->executable->base.program->out[o]->type;
    const mf_sharding *p = sharding_of(c, o);
    mf_contiguous_strides(type, strides);
    mf_array *a = p ? mf_array_on_devices(p, type, strides) : NULL;
    if (a)
        a->future = mf_retain(f);
    return a;
}

/* Makes a replica's result a form of the array's memory, if it is the first replica that has this part. */
static bool take_result(const call *c, mf_array *a, int o, int replica)
{
    void **at = &c->results[replica * c->gives + o];
    const mf_hlo_part *part = pjrt_part_of_replica(c->executable, &c->executable->out_parts[o]);
    int64_t k = mf_hlo_part_index(part, replica);
    pjrt_view v = view_of(a->type, a->strides, part);
    if (part->count && mf_hlo_part_first(part, k) != replica)
        return true;
    if (!a->buffer->part_count)
        v.offset = mf_hlo_part_offset(part, replica, a->strides);
    if (!pjrt_add_form(mf_buffer_at(a->buffer, (int)k), &v, device_of(c, replica), *at))
        return false;
    *at = NULL;
    return true;
}

static mf_error_object *make_results(const call *c, mf_future *f, mf_array **out)
{
    bool good = true;
    int made = 0;
    for (; made < c->out_count && good; made++) {
        out[made] = new_result(c, made, f);
        good = out[made];
        for (int r = 0; r < c->executable->replicas && good; r++)
            good = take_result(c, out[made], made, r);
    }
    if (good)
        return NULL;
    for (int o = 0; o < made; o++)
        mf_drop(out[o]);
    return mf_error_out_of_memory();
}

/* ---- the call */

/* Zeroed working memory, one block that the executable keeps from call to call. */
static bool make_lists(call *c)
{
    size_t replicas = (size_t)c->executable->replicas, in = replicas * (size_t)c->in_count, out = replicas * (size_t)c->gives;
    size_t bytes = in * (sizeof *c->arguments + sizeof *c->given) + out * sizeof *c->results +
                   replicas * (2 * sizeof *c->rows + sizeof *c->events) + (size_t)c->in_count * sizeof *c->kept;
    c->lists = atomic_exchange(&c->executable->lists, NULL);
    c->lists = c->lists ? c->lists : mf_alloc(bytes + 1);
    if (!c->lists)
        return false;
    c->arguments = memset(c->lists, 0, bytes);
    c->given = (void **)(c->arguments + in);
    c->results = c->given + in;
    c->rows = (void ***)(c->results + out);
    c->events = (void **)(c->rows + 2 * replicas);
    c->kept = (int64_t *)(c->events + replicas);
    for (size_t r = 0; r < replicas; r++) {
        c->rows[r] = c->given + r * (size_t)c->in_count;
        c->rows[replicas + r] = c->results + r * (size_t)c->gives;
    }
    return true;
}

static void free_lists(const call *c)
{
    if (!c->lists)
        return;
    for (int i = 0; i < c->executable->replicas * c->gives; i++)
        pjrt_destroy(c->client, PJRT_BUFFER_DESTROY, c->results[i]);
    for (int i = 0; i < c->executable->replicas * c->in_count; i++)
        if (!c->arguments[i].of)
            pjrt_destroy(c->client, PJRT_BUFFER_DESTROY, c->arguments[i].buffer);
    mf_free(atomic_exchange(&c->executable->lists, c->lists));
}

/* Executes on `count` devices from `replica` on: all of them, or one. */
static mf_error_object *execute(const call *c, int replica, int count)
{
    pjrt_execute_options options = { .head = PJRT_HEAD(pjrt_execute_options), .kept = c->kept, .kept_count = c->kept_count };
    pjrt_execute args = {
        .head = PJRT_HEAD(pjrt_execute),
        .loaded = c->executable->loaded,
        .options = &options,
        .arguments = (void *const *const *)c->rows + replica,
        .device_count = (size_t)count,
        .argument_count = (size_t)c->in_count,
        .outputs = (void **const *)(c->rows + c->executable->replicas + replica),
        .events = c->events + replica,
        .device = c->executable->replicas == 1 || c->executable->one_replica_each ? c->client->devices[device_of(c, replica)] : NULL,
    };
    return pjrt_call(c->client, PJRT_LOADED_EXECUTE, NULL, &args);
}

static mf_error_object *execute_each_replica(const call *c)
{
    mf_error_object *error = NULL;
    for (int r = 0; r < c->executable->replicas && !error; r++)
        error = execute(c, r, 1);
    for (int r = 0; r < c->executable->replicas && error; r++) { /* nobody will wait for those that have begun */
        pjrt_destroy(c->client, PJRT_EVENT_DESTROY, c->events[r]);
        c->events[r] = NULL;
    }
    return error;
}

/* Calls the plugin. Calls without collectives may begin in any order. */
static mf_error_object *start(const call *c)
{
    bool has_collectives = c->executable->has_collectives;
    if (has_collectives)
        pthread_mutex_lock(&c->client->calls);
    pjrt_enter_flight(c->client, has_collectives);
    mf_error_object *error = c->executable->one_replica_each ? execute_each_replica(c) : execute(c, 0, c->executable->replicas);
    if (error)
        pjrt_leave_flight(c->client, has_collectives);
    if (has_collectives)
        pthread_mutex_unlock(&c->client->calls);
    return error;
}

/* Ends the reads of arguments, and gives up donated ones. */
static void give_up(const call *c)
{
    for (int i = 0; i < c->in_count; i++) {
        if (!is_donated(c->executable, i)) {
            mf_array_end_read(c->in[i]);
            continue;
        }
        bool kept = is_kept(c, i);
        for (int r = 0; r < c->executable->replicas && !kept; r++) {
            const argument *a = &c->arguments[r * c->in_count + i];
            if (a->of)
                pjrt_forget_form(a->of, a->buffer);
        }
        if (c->in[i]->buffer)
            mf_drop(mf_array_give_up(c->in[i]));
    }
}

static mf_future *new_future(call *c)
{
    int replicas = c->executable->replicas;
    mf_future *f = pjrt_future_new(c->client, c->executable->findings ? 2 * replicas : replicas, c->executable->has_collectives,
                                   mf_entry_address);
    c->found = f && c->executable->findings ? pjrt_future_findings(f, c->executable) : NULL;
    if (c->found || !c->executable->findings)
        return f;
    mf_drop(f);
    return NULL;
}

/* Does not wait: the call's future ends after these reads. */
static void read_findings(const call *c, mf_future *f)
{
    for (int r = 0; c->found && r < c->executable->replicas; r++) {
        void *from = c->results[r * c->gives + c->out_count];
        pjrt_buffer_to_host args = { PJRT_HEAD(pjrt_buffer_to_host), from, NULL, &c->found[r], sizeof *c->found, NULL };
        mf_error_object *error = pjrt_call(c->client, PJRT_BUFFER_TO_HOST, NULL, &args);
        if (error)
            pjrt_future_fail(f, error);
        else
            pjrt_future_add(f, args.event_out, -1);
    }
}

static mf_error_object *run(call *c, mf_array **out)
{
    mf_error_object *error = make_arguments(c);
    mf_future *f = error ? NULL : new_future(c);
    if (f)
        pjrt_future_record(f, c->executable->base.function, c->executable->stacked ? c->executable->devices : NULL,
                           c->executable->map_size);
    if (!error)
        error = f ? start(c) : mf_error_out_of_memory();
    if (error) {
        forget_taken(c);
        leave(c, c->in_count);
        mf_drop(f);
        return error;
    }
    error = make_results(c, f, out);
    for (int r = 0; r < c->executable->replicas; r++)
        pjrt_future_add(f, c->events[r], device_of(c, r));
    read_findings(c, f);
    give_up(c);
    if (error)
        f->wait(f);
    mf_drop(f);
    return error;
}

mf_error_object *pjrt_run(mf_executable *base, mf_array *const *in, const bool *moved, mf_array **out)
{
    (void)moved; /* only donated arguments are computed in place */
    return pjrt_run_on(base, in, -1, out);
}

mf_error_object *pjrt_run_on(mf_executable *base, mf_array *const *in, int device, mf_array **out)
{
    pjrt_executable *x = (pjrt_executable *)base;
    if (mf_client_of_thread)
        return mf_error_new(MF_ERROR_DEVICE,
                            "a callback or print of a program on a plugin cannot run programs on %s: it would wait for itself",
                            base->client->platform);
    call c = { .executable = x,
               .client = pjrt_client_of(base->client),
               .in = in,
               .in_count = base->program->in_count,
               .out_count = base->program->out_count };
    c.gives = c.out_count + (x->findings != NULL);
    for (int i = c.in_count - 1; i >= 0; i--)
        if (in[i]->sharding->committed)
            c.device = in[i]->sharding->devices[0];
    c.placed = device >= 0 && x->replicas == 1 && !x->stacked && !x->named;
    if (c.placed)
        c.device = device;
    if (x->named || x->stacked)
        c.device = x->devices[0];
    mf_error_object *error = make_lists(&c) ? begin(&c) : mf_error_out_of_memory();
    if (!error) {
        keep_shared(&c);
        error = run(&c, out);
    }
    free_lists(&c);
    return error;
}
