/* Memory of a plugin's devices. Invariant: the bytes of a memory never change; they are on the host (before a program wants them, or since
 * somebody read them in part), or in a form that is whole, or in both; large ones leave the host once they have such a form. */
#include "backend/pjrt/pjrt.h"

#include "base/alloc.h"

#include <string.h>

enum { KEPT_ON_HOST = 1 << 16 }; /* bytes */

typedef struct form {
    struct form *next;
    pjrt_view view;
    int device;
    void *buffer;
} form;

typedef struct memory {
    pthread_mutex_t lock;
    unsigned char *host; /* NULL: not there */
    form *forms;
} memory;

static const int types[] = {
    [MF_BOOL] = 1, [MF_I8] = 2,   [MF_I16] = 3,   [MF_I32] = 4,  [MF_I64] = 5,  [MF_U8] = 6,   [MF_U16] = 7,   [MF_U32] = 8,
    [MF_U64] = 9,  [MF_F16] = 10, [MF_BF16] = 13, [MF_F32] = 11, [MF_F64] = 12, [MF_C64] = 14, [MF_C128] = 15, [MF_KEY] = 8,
};

bool pjrt_allocate(mf_buffer *b)
{
    memory *m = mf_calloc(1, sizeof *m);
    if (m)
        pthread_mutex_init(&m->lock, NULL);
    b->data = m;
    return m;
}

void pjrt_release(mf_buffer *b)
{
    memory *m = b->data;
    for (form *f = m->forms, *next; f; f = next) {
        next = f->next;
        pjrt_destroy(pjrt_client_of(b->client), PJRT_BUFFER_DESTROY, f->buffer);
        mf_free(f);
    }
    pthread_mutex_destroy(&m->lock);
    mf_free(m->host);
    mf_free(m);
}

bool pjrt_from_host(mf_buffer *b, const void *bytes)
{
    memory *m = b->data;
    m->host = mf_alloc(b->bytes + 1);
    if (m->host)
        memcpy(m->host, bytes, b->bytes);
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

/* As the plugin counts dimensions: a key is two words. */
static int dims_of(const pjrt_view *v, int64_t *dims)
{
    memcpy(dims, v->dims, (size_t)v->rank * sizeof *dims);
    dims[v->rank] = 2;
    return v->rank + (v->dtype == MF_KEY);
}

/* ---- to the host */

static mf_error_object *read_form(pjrt_client *c, const form *f, void *out, size_t bytes)
{
    int64_t dims[MF_RANK + 1], order[MF_RANK + 1];
    int rank = dims_of(&f->view, dims);
    for (int i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    pjrt_layout rows = { PJRT_HEAD(pjrt_layout), { PJRT_HEAD(pjrt_layout), order, (size_t)rank, NULL, NULL, 0 }, 0 };
    pjrt_buffer_to_host ask = { PJRT_HEAD(pjrt_buffer_to_host), f->buffer, &rows, out, bytes, NULL };
    mf_error_object *error = pjrt_call(c, PJRT_BUFFER_TO_HOST, NULL, &ask);
    return error ? error : pjrt_await(c, ask.event_out, NULL);
}

static const form *whole_form(const mf_buffer *b)
{
    for (const form *f = ((memory *)b->data)->forms; f; f = f->next)
        if (pjrt_view_is_whole(&f->view, b->bytes))
            return f;
    return NULL;
}

/* The lock is held. */
static mf_error_object *read_whole(const mf_buffer *b, void *out)
{
    const form *f = b->bytes ? whole_form(b) : NULL;
    if (b->bytes && !f)
        return mf_error_new(MF_ERROR_DEVICE, "%s: what an array held was taken by a call that failed", b->client->platform);
    return f ? read_form(pjrt_client_of(b->client), f, out, b->bytes) : NULL;
}

/* The bytes on the host; the lock is held. */
static mf_error_object *bring(const mf_buffer *b)
{
    memory *m = b->data;
    if (m->host)
        return NULL;
    unsigned char *host = mf_alloc(b->bytes + 1);
    mf_error_object *error = host ? read_whole(b, host) : mf_error_out_of_memory();
    if (error)
        mf_free(host);
    else
        m->host = host;
    return error;
}

mf_error_object *pjrt_to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    memory *m = b->data;
    pthread_mutex_lock(&m->lock);
    bool all = from == 0 && count == (int64_t)b->bytes;
    mf_error_object *error = all && !m->host ? read_whole(b, out) : bring(b);
    if (!error && m->host)
        memcpy(out, m->host + from, (size_t)count);
    pthread_mutex_unlock(&m->lock);
    return error;
}

/* ---- to devices */

void *pjrt_upload(pjrt_client *c, const pjrt_view *v, const void *rows, int device, mf_error_object **error)
{
    int64_t dims[MF_RANK + 1];
    int rank = dims_of(v, dims);
    pjrt_buffer_from_host ask = {
        .head = PJRT_HEAD(pjrt_buffer_from_host),
        .client = c->client,
        .data = rows,
        .type = types[v->dtype],
        .dims = dims,
        .rank = (size_t)rank,
        .device = c->devices[device],
    };
    *error = pjrt_call(c, PJRT_CLIENT_BUFFER_FROM_HOST, NULL, &ask);
    if (*error)
        return NULL;
    *error = pjrt_await(c, ask.done_out, NULL);
    if (!*error)
        return ask.buffer_out;
    pjrt_destroy(c, PJRT_BUFFER_DESTROY, ask.buffer_out);
    return NULL;
}

/* The view's elements, row by row, on the host: where they lie so, themselves; else in *copy. NULL when memory is out. */
static const void *rows_of(const mf_buffer *b, const pjrt_view *v, void **copy)
{
    const unsigned char *host = ((memory *)b->data)->host;
    int64_t strides[MF_RANK], step = mf_dtype_size(v->dtype);
    if (pjrt_view_is_whole(v, b->bytes))
        return host;
    for (int i = v->rank - 1; i >= 0; i--) {
        strides[i] = step;
        step *= v->dims[i];
    }
    *copy = mf_alloc((size_t)step + 1);
    if (*copy && step)
        mf_copy_strided(v->rank, v->dims, mf_dtype_size(v->dtype), *copy, strides, host + v->offset, v->strides);
    return *copy;
}

static void add(memory *m, form *f)
{
    f->next = m->forms;
    m->forms = f;
}

/* The lock is held. */
static void *make_form(mf_buffer *b, const pjrt_view *v, int device, mf_error_object **error)
{
    memory *m = b->data;
    void *copy = NULL;
    form *f = mf_alloc(sizeof *f);
    *error = f ? bring(b) : mf_error_out_of_memory();
    const void *rows = *error ? NULL : rows_of(b, v, &copy);
    if (!rows && !*error)
        *error = mf_error_out_of_memory();
    void *buffer = rows ? pjrt_upload(pjrt_client_of(b->client), v, rows, device, error) : NULL;
    mf_free(copy);
    if (!buffer) {
        mf_free(f);
        return NULL;
    }
    *f = (form){ NULL, *v, device, buffer };
    add(m, f);
    if (b->bytes > KEPT_ON_HOST && pjrt_view_is_whole(v, b->bytes)) {
        mf_free(m->host);
        m->host = NULL;
    }
    return buffer;
}

void *pjrt_form(mf_buffer *b, const pjrt_view *v, int device, mf_error_object **error)
{
    memory *m = b->data;
    void *found = NULL;
    *error = NULL;
    pthread_mutex_lock(&m->lock);
    for (const form *f = m->forms; f && !found; f = f->next)
        if (f->device == device && is_same(&f->view, v))
            found = f->buffer;
    if (!found)
        found = make_form(b, v, device, error);
    pthread_mutex_unlock(&m->lock);
    return found;
}

bool pjrt_add_form(mf_buffer *b, const pjrt_view *v, int device, void *buffer)
{
    memory *m = b->data;
    form *f = mf_alloc(sizeof *f);
    if (!f)
        return false;
    *f = (form){ NULL, *v, device, buffer };
    pthread_mutex_lock(&m->lock);
    add(m, f);
    pthread_mutex_unlock(&m->lock);
    return true;
}

void pjrt_forget_form(mf_buffer *b, const void *buffer)
{
    memory *m = b->data;
    form *gone = NULL;
    pthread_mutex_lock(&m->lock);
    for (form **at = &m->forms; *at; at = &(*at)->next)
        if ((*at)->buffer == buffer) {
            gone = *at;
            *at = gone->next;
            break;
        }
    pthread_mutex_unlock(&m->lock);
    if (gone)
        pjrt_destroy(pjrt_client_of(b->client), PJRT_BUFFER_DESTROY, gone->buffer);
    mf_free(gone);
}
