/* Memory of a plugin's devices. Invariants: the bytes of a memory never change; they are on the host (before a program needs them, or
 * since part of them was read), in a form of the whole, in the rows that a map's devices gave, or in several of these; a large one's
 * host copy is freed once it has a whole form, unless the plugin's devices share the host's memory. Host bytes that a plugin may read
 * are reference-counted, and released when the plugin says so. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "runtime/compile/segment_compiler.h"

#include <string.h>

enum { KEPT_ON_HOST = 1 << 16, COPIED_HERE = 1 << 20, PIECE = 1 << 19 }; /* bytes */

/* A plugin's buffer that several memories share as a form. */
typedef struct constant {
    mf_object object;
    pjrt_client *client;
    void *buffer;
} constant;

typedef struct form {
    struct form *next;
    pjrt_view view;
    int device;
    void *buffer; /* NULL: none */
    constant *of; /* the owner of `buffer`; NULL: this form */
} form;

typedef struct memory {
    pthread_mutex_t lock;
    pjrt_bytes *host; /* NULL: not there */
    form *forms;
    form first; /* storage for the first form: most results have only one */
} memory;

static const int types[] = {
    [MF_BOOL] = 1, [MF_I8] = 2,   [MF_I16] = 3,   [MF_I32] = 4,  [MF_I64] = 5,  [MF_U8] = 6,   [MF_U16] = 7,   [MF_U32] = 8,
    [MF_U64] = 9,  [MF_F16] = 10, [MF_BF16] = 13, [MF_F32] = 11, [MF_F64] = 12, [MF_C64] = 14, [MF_C128] = 15, [MF_KEY] = 8,
};

static void bytes_destroy(mf_object *o) { mf_memory_put(((pjrt_bytes *)o)->at, ((pjrt_bytes *)o)->size + 1); }
static const mf_class bytes_class = { "bytes for a plugin", bytes_destroy };

pjrt_bytes *pjrt_bytes_new(size_t size)
{
    unsigned char *at = mf_memory_get(size + 1);
    pjrt_bytes *b = at ? mf_object_new(&bytes_class, sizeof *b) : NULL;
    if (b) {
        b->size = size;
        b->at = at;
    } else if (at) {
        mf_memory_put(at, size + 1);
    }
    return b;
}

static void constant_destroy(mf_object *o) { pjrt_destroy(((constant *)o)->client, PJRT_BUFFER_DESTROY, ((constant *)o)->buffer); }
static const mf_class constant_class = { "constant of a plugin", constant_destroy };

bool pjrt_allocate(mf_buffer *b)
{
    memory *m = mf_calloc(1, sizeof *m);
    if (m)
        pthread_mutex_init(&m->lock, NULL);
    b->data = m;
    return m;
}

static void form_end(const mf_buffer *b, form *f)
{
    if (f->of)
        mf_drop(f->of);
    else
        pjrt_destroy(pjrt_client_of(b->client), PJRT_BUFFER_DESTROY, f->buffer);
    f->buffer = NULL;
    if (f != &((memory *)b->data)->first)
        mf_free(f);
}

void pjrt_release(mf_buffer *b)
{
    memory *m = b->data;
    for (form *f = m->forms, *next; f; f = next) {
        next = f->next;
        form_end(b, f);
    }
    pthread_mutex_destroy(&m->lock);
    mf_drop(m->host);
    mf_free(m);
}

bool pjrt_from_host(mf_buffer *b, const void *bytes)
{
    memory *m = b->data;
    m->host = pjrt_bytes_new(b->bytes);
    if (m->host)
        memcpy(m->host->at, bytes, b->bytes);
    return m->host;
}

/* ---- views */

bool pjrt_view_is_whole(const pjrt_view *v, size_t bytes)
{
    int64_t step = mf_dtype_size(v->dtype);
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->strides[i] != step && v->dims[i] > 1)
            return false;
        step *= v->dims[i];
    }
    return v->offset == 0 && step == (int64_t)bytes;
}

static bool is_same(const pjrt_view *a, const pjrt_view *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank || a->offset != b->offset)
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] || (a->strides[i] != b->strides[i] && a->dims[i] > 1))
            return false;
    return true;
}

/* The plugin's dimensions: a key is two words. */
static int dims_of(const pjrt_view *v, int64_t *dims)
{
    memcpy(dims, v->dims, (size_t)v->rank * sizeof *dims);
    dims[v->rank] = 2;
    return v->rank + (v->dtype == MF_KEY);
}

/* ---- to the host */

/* The address at which the host sees the buffer, once it is ready. NULL: it is not visible, or the plugin reports a failure. */
static const unsigned char *host_address(pjrt_client *c, void *buffer)
{
    if (!c->is_cpu || !c->api->functions[PJRT_BUFFER_READY_EVENT] || !c->api->functions[PJRT_BUFFER_UNSAFE_POINTER])
        return NULL;
    pjrt_one_more ready = { PJRT_HEAD(pjrt_one_more), buffer, NULL };
    pjrt_number_of at = { PJRT_HEAD(pjrt_number_of), buffer, 0 };
    mf_error_object *error = pjrt_call(c, PJRT_BUFFER_READY_EVENT, NULL, &ready);
    error = error ? error : pjrt_await(c, ready.out, NULL);
    error = error ? error : pjrt_call(c, PJRT_BUFFER_UNSAFE_POINTER, NULL, &at);
    mf_error_ignore(error);
    return error ? NULL : (const unsigned char *)(uintptr_t)at.out;
}

typedef struct copying {
    const unsigned char *from;
    unsigned char *to;
    size_t bytes;
} copying;

static void copy_piece(void *context, int64_t index)
{
    const copying *k = context;
    size_t at = (size_t)index * PIECE, left = k->bytes - at;
    memcpy(k->to + at, k->from + at, left < PIECE ? left : PIECE);
}

/* Large buffers visible to the host are copied by our threads; XLA's CPU client copies with one. */
static bool copy_here(pjrt_client *c, const form *f, void *out, size_t bytes)
{
    const unsigned char *from = bytes < COPIED_HERE ? NULL : host_address(c, f->buffer);
    copying k = { from, out, bytes };
    if (from)
        mf_parallel_for((int64_t)((bytes + PIECE - 1) / PIECE), copy_piece, &k);
    return from;
}

static mf_error_object *read_form(pjrt_client *c, const form *f, void *out, size_t bytes)
{
    if (copy_here(c, f, out, bytes))
        return NULL;
    int64_t dims[MF_RANK + 1], order[MF_RANK + 1];
    int rank = dims_of(&f->view, dims);
    for (int i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    pjrt_layout rows = { PJRT_HEAD(pjrt_layout), { PJRT_HEAD(pjrt_layout), order, (size_t)rank, NULL, NULL, 0 }, 0 };
    pjrt_buffer_to_host args = { PJRT_HEAD(pjrt_buffer_to_host), f->buffer, &rows, out, bytes, NULL };
    mf_error_object *error = pjrt_call(c, PJRT_BUFFER_TO_HOST, NULL, &args);
    return error ? error : pjrt_await(c, args.event_out, NULL);
}

static const form *whole_form(const mf_buffer *b)
{
    for (const form *f = ((memory *)b->data)->forms; f; f = f->next)
        if (pjrt_view_is_whole(&f->view, b->bytes))
            return f;
    return NULL;
}

/* The size of a view in bytes; *packed: whether its elements are contiguous. */
static int64_t view_bytes(const pjrt_view *v, bool *packed)
{
    int64_t step = mf_dtype_size(v->dtype);
    *packed = true;
    for (int i = v->rank - 1; i >= 0; i--) {
        *packed = *packed && (v->strides[i] == step || v->dims[i] == 1);
        step *= v->dims[i];
    }
    return step;
}

/* The strides of the view's elements in row-major order. */
static void rows_strides(const pjrt_view *v, int64_t *strides)
{
    int64_t step = mf_dtype_size(v->dtype);
    for (int i = v->rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= v->dims[i];
    }
}

/* Copies the form to its place in the whole memory, which begins at out. */
static mf_error_object *read_in_place(pjrt_client *c, const form *f, unsigned char *out)
{
    int64_t strides[MF_RANK];
    bool packed;
    int64_t bytes = view_bytes(&f->view, &packed);
    if (packed)
        return read_form(c, f, out + f->view.offset, (size_t)bytes);
    void *rows = mf_alloc((size_t)bytes);
    mf_error_object *error = rows ? read_form(c, f, rows, (size_t)bytes) : mf_error_out_of_memory();
    rows_strides(&f->view, strides);
    if (!error)
        mf_copy_strided(f->view.rank, f->view.dims, mf_dtype_size(f->view.dtype), out + f->view.offset, f->view.strides, rows, strides);
    mf_free(rows);
    return error;
}

static bool came_before(const memory *m, const form *f)
{
    for (const form *g = m->forms; g != f; g = g->next)
        if (is_same(&g->view, &f->view))
            return true;
    return false;
}

/* Reads the rows that a map's devices gave: together they are all of the memory, unless a failed call took one. */
static mf_error_object *read_rows(const mf_buffer *b, unsigned char *out)
{
    memory *m = b->data;
    mf_error_object *error = NULL;
    int64_t bytes = 0;
    for (const form *f = m->forms; f && !error; f = f->next) {
        bool packed;
        if (came_before(m, f))
            continue;
        bytes += view_bytes(&f->view, &packed);
        error = read_in_place(pjrt_client_of(b->client), f, out);
    }
    if (!error && bytes != (int64_t)b->bytes)
        error = mf_error_new(MF_ERROR_DEVICE, "%s: what an array held was taken by a call that failed", b->client->platform);
    return error;
}

/* The lock is held. */
static mf_error_object *read_whole(const mf_buffer *b, void *out)
{
    const form *f = b->bytes ? whole_form(b) : NULL;
    if (f)
        return read_form(pjrt_client_of(b->client), f, out, b->bytes);
    return b->bytes ? read_rows(b, out) : NULL;
}

/* A form of exactly these bytes. */
static const form *form_of_bytes(const memory *m, int64_t from, int64_t count)
{
    for (const form *f = m->forms; f; f = f->next) {
        bool packed;
        int64_t bytes = view_bytes(&f->view, &packed);
        if (packed && f->view.offset == from && bytes == count)
            return f;
    }
    return NULL;
}

/* Brings the bytes to the host; the lock is held. */
static mf_error_object *fetch_from_plugin(const mf_buffer *b)
{
    memory *m = b->data;
    if (m->host)
        return NULL;
    pjrt_bytes *host = pjrt_bytes_new(b->bytes);
    mf_error_object *error = host ? read_whole(b, host->at) : mf_error_out_of_memory();
    if (error)
        mf_drop(host);
    else
        m->host = host;
    return error;
}

mf_error_object *pjrt_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    memory *m = b->data;
    pthread_mutex_lock(&m->lock);
    bool all = from == 0 && count == (int64_t)b->bytes;
    const form *row = all || m->host || !count ? NULL : form_of_bytes(m, from, count);
    mf_error_object *error = row               ? read_form(pjrt_client_of(b->client), row, out, (size_t)count)
                             : all && !m->host ? read_whole(b, out)
                                               : fetch_from_plugin(b);
    if (!error && m->host)
        memcpy(out, m->host->at + from, (size_t)count);
    pthread_mutex_unlock(&m->lock);
    return error;
}

/* ---- to devices */

typedef struct transfer {
    pjrt_client *client;
    void *event;
    pjrt_bytes *rows;
} transfer;

/* The plugin no longer reads the rows. An error of the transfer is the buffer's too, and is reported when that is read. */
static void transferred(void *error, void *context)
{
    transfer *t = context;
    pjrt_destroy(t->client, PJRT_ERROR_DESTROY, error);
    pjrt_destroy(t->client, PJRT_EVENT_DESTROY, t->event);
    mf_drop(t->rows);
    mf_free(t);
}

/* Keeps the rows alive until the event, which it takes. On failure it also takes the buffer, and destroys it before waiting for the
 * event, which may not complete earlier. */
static mf_error_object *keep_until(pjrt_client *c, pjrt_bytes *rows, void *event, void *buffer)
{
    transfer *t = event ? mf_alloc(sizeof *t) : NULL;
    mf_error_object *error = t || !event ? NULL : mf_error_out_of_memory();
    if (t) {
        *t = (transfer){ c, event, mf_retain(rows) };
        pjrt_on_ready args = { PJRT_HEAD(pjrt_on_ready), event, transferred, t };
        error = pjrt_call(c, PJRT_EVENT_ON_READY, NULL, &args);
    }
    if (!error)
        return NULL;
    pjrt_destroy(c, PJRT_BUFFER_DESTROY, buffer);
    mf_error_ignore(pjrt_await(c, event, NULL));
    if (t)
        mf_drop(t->rows);
    mf_free(t);
    return error;
}

void *pjrt_upload(pjrt_client *c, const pjrt_view *v, pjrt_bytes *rows, int device, mf_error_object **error)
{
    int64_t dims[MF_RANK + 1];
    int rank = dims_of(v, dims);
    pjrt_buffer_from_host args = {
        .head = PJRT_HEAD(pjrt_buffer_from_host),
        .client = c->client,
        .data = rows->at,
        .type = types[v->dtype],
        .dims = dims,
        .rank = (size_t)rank,
        .semantics = PJRT_ZERO_COPY,
        .device = c->devices[device],
    };
    *error = pjrt_call(c, PJRT_CLIENT_BUFFER_FROM_HOST, NULL, &args);
    *error = *error ? *error : keep_until(c, rows, args.done_out, args.buffer_out);
    return *error ? NULL : args.buffer_out;
}

/* The view's elements, row-major, from the host's bytes; a reference. NULL: out of memory. */
static pjrt_bytes *rows_of(const mf_buffer *b, const pjrt_view *v)
{
    pjrt_bytes *host = ((memory *)b->data)->host;
    int64_t strides[MF_RANK];
    bool packed;
    if (pjrt_view_is_whole(v, b->bytes))
        return mf_retain(host);
    rows_strides(v, strides);
    int64_t bytes = view_bytes(v, &packed);
    pjrt_bytes *rows = pjrt_bytes_new((size_t)bytes);
    if (rows && bytes)
        mf_copy_strided(v->rank, v->dims, mf_dtype_size(v->dtype), rows->at, strides, host->at + v->offset, v->strides);
    return rows;
}

/* Copies a form to another device. NULL: the plugin cannot, for whatever reason. */
static void *copy_form(pjrt_client *c, const form *f, int device)
{
    if (!c->api->functions[PJRT_BUFFER_COPY_TO_DEVICE])
        return NULL;
    pjrt_copy_to_device args = { PJRT_HEAD(pjrt_copy_to_device), f->buffer, c->devices[device], NULL };
    mf_error_object *error = pjrt_call(c, PJRT_BUFFER_COPY_TO_DEVICE, NULL, &args);
    mf_error_ignore(error);
    return error ? NULL : args.buffer_out;
}

static form *find_form(const memory *m, const pjrt_view *v, int device, bool elsewhere)
{
    for (form *f = m->forms; f; f = f->next)
        if ((f->device == device) != elsewhere && is_same(&f->view, v))
            return f;
    return NULL;
}

/* Adds a form with its own buffer or a constant's. False: out of memory. */
static bool add(memory *m, const pjrt_view *v, int device, void *buffer, constant *of)
{
    form *f = m->first.buffer ? mf_alloc(sizeof *f) : &m->first;
    if (!f)
        return false;
    *f = (form){ m->forms, *v, device, buffer, of };
    m->forms = f;
    return true;
}

/* Copies the form from another device if there is one, unless the host's bytes can be used in place; else from the host. The lock is
 * held. */
static void *make_buffer(mf_buffer *b, const pjrt_view *v, int device, mf_error_object **error)
{
    memory *m = b->data;
    pjrt_client *c = pjrt_client_of(b->client);
    const form *there = c->is_cpu && m->host ? NULL : find_form(m, v, device, true);
    void *buffer = there ? copy_form(c, there, device) : NULL;
    if (buffer)
        return buffer;
    *error = fetch_from_plugin(b);
    pjrt_bytes *rows = *error ? NULL : rows_of(b, v);
    if (!rows && !*error)
        *error = mf_error_out_of_memory();
    buffer = rows ? pjrt_upload(c, v, rows, device, error) : NULL;
    mf_drop(rows);
    return buffer;
}

/* ---- constants: numbers and small arrays that calls receive again and again, each time as a new array, exist once per device. */

enum { CONSTANTS = 256, CONSTANT_BYTES = 64, CONSTANT_RANK = 4 };
typedef struct known_constant {
    constant *of;
    int device, rank;
    mf_dtype dtype;
    int64_t dims[CONSTANT_RANK];
    unsigned char bytes[CONSTANT_BYTES];
} known_constant;
static known_constant known[CONSTANTS];
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static bool may_be_constant(const mf_buffer *b, const pjrt_view *v)
{
    return ((memory *)b->data)->host && v->rank <= CONSTANT_RANK && b->bytes <= CONSTANT_BYTES && pjrt_view_is_whole(v, b->bytes);
}

static uint32_t place_of(const mf_buffer *b, const pjrt_view *v, int device)
{
    uint32_t hash = 2166136261u ^ (uint32_t)v->dtype ^ (uint32_t)device << 8 ^ (uint32_t)((uintptr_t)b->client >> 4);
    for (size_t i = 0; i < b->bytes; i++)
        hash = (hash ^ ((memory *)b->data)->host->at[i]) * 16777619u;
    return (hash ^ hash >> 15) % CONSTANTS;
}

static bool is_constant(const known_constant *k, const mf_buffer *b, const pjrt_view *v, int device)
{
    return k->of && k->of->client == pjrt_client_of(b->client) && k->device == device && k->dtype == v->dtype && k->rank == v->rank &&
           !memcmp(k->dims, v->dims, (size_t)v->rank * sizeof *k->dims) && !memcmp(k->bytes, ((memory *)b->data)->host->at, b->bytes);
}

/* A reference to the constant with this memory's value, created if need be. The memory's lock is held; NULL and *error on failure. */
static constant *constant_of(mf_buffer *b, const pjrt_view *v, int device, mf_error_object **error)
{
    known_constant *k = &known[place_of(b, v, device)];
    pthread_mutex_lock(&known_lock);
    constant *of = is_constant(k, b, v, device) ? mf_retain(k->of) : NULL;
    pthread_mutex_unlock(&known_lock);
    if (of)
        return of;
    void *buffer = make_buffer(b, v, device, error);
    of = buffer ? mf_object_new(&constant_class, sizeof *of) : NULL;
    if (buffer && !of) {
        pjrt_destroy(pjrt_client_of(b->client), PJRT_BUFFER_DESTROY, buffer);
        *error = mf_error_out_of_memory();
    }
    if (!of)
        return NULL;
    of->client = pjrt_client_of(b->client);
    of->buffer = buffer;
    pthread_mutex_lock(&known_lock);
    constant *before = k->of;
    *k = (known_constant){ mf_retain(of), device, v->rank, v->dtype, { 0 }, { 0 } };
    memcpy(k->dims, v->dims, (size_t)v->rank * sizeof *k->dims);
    memcpy(k->bytes, ((memory *)b->data)->host->at, b->bytes);
    pthread_mutex_unlock(&known_lock);
    mf_drop(before);
    return of;
}

/* ---- forms */

/* The lock is held. */
static const form *make_form(mf_buffer *b, const pjrt_view *v, int device, bool shared, mf_error_object **error)
{
    memory *m = b->data;
    constant *of = shared && may_be_constant(b, v) ? constant_of(b, v, device, error) : NULL;
    void *buffer = of ? of->buffer : *error ? NULL : make_buffer(b, v, device, error);
    if (!buffer)
        return NULL;
    if (!add(m, v, device, buffer, of)) {
        if (of)
            mf_drop(of);
        else
            pjrt_destroy(pjrt_client_of(b->client), PJRT_BUFFER_DESTROY, buffer);
        *error = mf_error_out_of_memory();
        return NULL;
    }
    if (b->bytes > KEPT_ON_HOST && !pjrt_client_of(b->client)->is_cpu && pjrt_view_is_whole(v, b->bytes)) {
        mf_drop(m->host);
        m->host = NULL;
    }
    return m->forms;
}

void *pjrt_form(mf_buffer *b, const pjrt_view *v, int device, bool *shared, mf_error_object **error)
{
    memory *m = b->data;
    *error = NULL;
    pthread_mutex_lock(&m->lock);
    const form *found = find_form(m, v, device, false);
    if (!found)
        found = make_form(b, v, device, *shared, error);
    *shared = found && found->of;
    void *buffer = found ? found->buffer : NULL;
    pthread_mutex_unlock(&m->lock);
    return buffer;
}

bool pjrt_add_form(mf_buffer *b, const pjrt_view *v, int device, void *buffer)
{
    memory *m = b->data;
    pthread_mutex_lock(&m->lock);
    bool added = add(m, v, device, buffer, NULL);
    pthread_mutex_unlock(&m->lock);
    return added;
}

void pjrt_forget_form(mf_buffer *b, const void *buffer)
{
    memory *m = b->data;
    form *gone = NULL;
    pthread_mutex_lock(&m->lock);
    for (form **at = &m->forms; *at && !gone; at = &(*at)->next)
        if ((*at)->buffer == buffer) {
            gone = *at;
            *at = gone->next;
            break;
        }
    if (gone)
        form_end(b, gone);
    pthread_mutex_unlock(&m->lock);
}

/* ---- from device to device */

mf_buffer *pjrt_to_device(const mf_buffer *b, int device)
{
    memory *m = b->data;
    pjrt_client *c = pjrt_client_of(b->client);
    mf_buffer *there = mf_client_buffer(b->client, device, b->bytes);
    if (!there)
        return NULL;
    pthread_mutex_lock(&m->lock);
    const form *f = c->is_cpu && m->host ? NULL : whole_form(b);
    void *buffer = f ? copy_form(c, f, device) : NULL;
    bool done = buffer && add(there->data, &f->view, device, buffer, NULL); /* its first form, which needs no allocation */
    if (!done && m->host)
        ((memory *)there->data)->host = mf_retain(m->host);
    done = done || m->host;
    pthread_mutex_unlock(&m->lock);
    if (done)
        return there;
    mf_drop(there);
    return NULL;
}
