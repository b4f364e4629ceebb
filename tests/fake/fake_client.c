#include "fake/fake_client.h"

#include "runtime/device.h"
#include "runtime/executable.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- memory */

_Atomic int fake_buffers;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER; /* of any buffer: one that is open stays so until its opener shuts it */

static size_t pages(const mf_buffer *b)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (b->bytes / page + 1) * page;
}

static void open_buffer(const mf_buffer *b)
{
    pthread_mutex_lock(&opening);
    mprotect(b->data, pages(b), PROT_READ | PROT_WRITE);
}
static void shut_buffer(const mf_buffer *b)
{
    mprotect(b->data, pages(b), PROT_NONE);
    pthread_mutex_unlock(&opening);
}

static bool allocate(mf_buffer *b)
{
    void *at = mmap(NULL, pages(b), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return false;
    b->data = at;
    fake_buffers++;
    return true;
}
static void release(mf_buffer *b)
{
    munmap(b->data, pages(b));
    fake_buffers--;
}
static void from_host(mf_buffer *b, const void *bytes)
{
    open_buffer(b);
    memcpy(b->data, bytes, b->bytes);
    shut_buffer(b);
}
static void to_host(const mf_buffer *b, int64_t from, int64_t count, void *out)
{
    open_buffer(b);
    memcpy(out, (const char *)b->data + from, (size_t)count);
    shut_buffer(b);
}

/* ---- programs: the CPU's executable inside */

typedef struct fake_executable {
    mf_executable base;
    mf_executable *inside;
} fake_executable;

static void fake_destroy(mf_object *o)
{
    mf_drop(((fake_executable *)o)->inside);
    mf_executable_end(&((fake_executable *)o)->base);
}
static const mf_class fake_class = { "fake executable", fake_destroy };

static mf_error_object *load(const mf_load_request *what, mf_executable **loaded)
{
    mf_load_request inside = *what;
    inside.client = &mf_client_cpu;
    fake_executable *x = mf_object_new(&fake_class, sizeof *x);
    if (!x)
        return mf_error_out_of_memory();
    mf_error_object *error = mf_executable_init(&x->base, what) ? mf_backend_cpu.load(&inside, &x->inside) : mf_error_out_of_memory();
    if (error) {
        mf_drop(x);
        return error;
    }
    x->base.supposes = x->inside->supposes;
    *loaded = &x->base;
    return NULL;
}

static bool fits(const mf_executable *x, mf_array *const *in) { return mf_executable_fits(((const fake_executable *)x)->inside, in); }

/* The same devices of another client. */
static const mf_sharding *as_on(const mf_client *client, const mf_sharding *p)
{
    return p->committed ? mf_sharding_get(client, p->axis_count, p->axes, p->device_count, p->devices) : mf_sharding_default(client);
}

static mf_array *copy_to(const mf_client *client, mf_array *a, mf_error_object **error)
{
    const mf_sharding *p = as_on(client, a->sharding);
    mf_array *copy = p ? mf_array_copy_to(p, a, error) : NULL;
    if (!p)
        *error = mf_error_out_of_memory();
    return copy;
}

static void drop_all(mf_array **arrays, int count)
{
    for (int i = 0; i < count; i++)
        mf_drop(arrays[i]);
}

/* Donated arrays are the call's from here on, or an error tells whose they were. */
static mf_error_object *take_donated(const mf_executable *x, mf_array *const *in, bool take, int count)
{
    for (int i = 0; x->donated && i < count; i++) {
        const char *before = NULL;
        if (x->donated[i] && !take)
            atomic_store(&in[i]->deleted, NULL);
        else if (x->donated[i] && !atomic_compare_exchange_strong(&in[i]->deleted, &before, "donated")) {
            take_donated(x, in, false, i);
            return mf_array_wait(in[i]);
        }
    }
    return NULL;
}

/* here: the operands' copies. */
static mf_error_object *run_inside(const fake_executable *x, mf_array **here, mf_array **out)
{
    int count = x->base.program->out_count, made = 0;
    mf_array **results = mf_alloc(((size_t)count + 1) * sizeof *results);
    mf_error_object *error = results ? mf_executable_run(x->inside, here, NULL, results) : mf_error_out_of_memory();
    bool ran = !error;
    for (; ran && made < count && !error; made++)
        out[made] = copy_to(&fake_client, results[made], &error);
    if (error)
        drop_all(out, ran ? made : 0);
    if (ran)
        drop_all(results, count);
    mf_free(results);
    return error;
}

static mf_error_object *execute(mf_executable *base, mf_array *const *in, const bool *moved, mf_array **out)
{
    (void)moved; /* nothing is computed in place */
    int count = base->program->in_count, copied = 0;
    mf_array **here = mf_calloc((size_t)count + 1, sizeof *here);
    mf_error_object *error = here ? NULL : mf_error_out_of_memory();
    for (; copied < count && !error; copied++) {
        const mf_type *type = in[copied]->type, *wanted = base->program->in[copied]->type;
        if (mf_array_client(in[copied]) != &fake_client || type->dtype != wanted->dtype || !mf_type_same_shape(type, wanted))
            abort(); /* a real device would not notice */
        here[copied] = copy_to(&mf_client_cpu, in[copied], &error);
    }
    if (!error && !(error = take_donated(base, in, true, count))) {
        error = run_inside((fake_executable *)base, here, out);
        if (error)
            take_donated(base, in, false, count);
        for (int i = 0; base->donated && i < count && !error; i++)
            if (base->donated[i])
                mf_drop(mf_array_give_up(in[i]));
    }
    if (here)
        drop_all(here, copied);
    mf_free(here);
    return error;
}

static void describe(mf_text *t, const mf_executable *x) { mf_executable_describe(t, ((const fake_executable *)x)->inside); }

static void memory(const mf_executable *x, int64_t *per_worker, int64_t *per_device)
{
    mf_executable_memory(((const fake_executable *)x)->inside, per_worker, per_device);
}

static const mf_backend fake_backend = { load, fits, execute, describe, memory };

static int device_count(void) { return mf_device_total(&mf_client_cpu); }

const mf_client fake_client = {
    .platform = "fake",
    .allocate = allocate,
    .release = release,
    .from_host = from_host,
    .to_host = to_host,
    .device_count = device_count,
    .backend = &fake_backend,
};

void fake_client_register(void)
{
    if (mf_client_register(&fake_client))
        abort();
}

__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("MF_TEST_CLIENT");
    if (!name || strcmp(name, fake_client.platform) != 0)
        return;
    fake_client_register();
    atomic_store(&mf_client_chosen, &fake_client);
}
