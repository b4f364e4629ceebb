/* Host calls: callbacks and prints of a program on a plugin whose devices compute in the host's memory, such as XLA's CPU client. Each
 * becomes a custom call to one handler of ours, registered through the plugin's FFI extension; attributes name the program and the call.
 * Invariants: calls keep the program's order, since each takes the report so far and returns its own (stablehlo/hlo_findings.c); the
 * error of a failed call is kept here and its number reported, so the program runs to its end and no device waits in vain; after a
 * failure no further host call is made. Callbacks compute on the CPU, whatever the default backend is, since they run on the plugin's
 * threads. */
#include "backend/pjrt/pjrt.h"

#include "array/literal.h"
#include "base/memory/alloc.h"
#include "ir/op.h"

#include <stdio.h>
#include <string.h>

#define PLACE (((uint64_t)1 << MF_HLO_PLACE_BITS) - 1)

typedef struct failed_call {
    uint64_t number;
    mf_error_object *error;
} failed_call;

struct pjrt_host_calls {
    mf_object object;
    int64_t name;
    mf_program *program;            /* whose equations they are */
    MF_VECTOR(const mf_eqn *) eqns; /* by number, from 1; NULL for findings that are no host calls. Complete before the program runs */
    pthread_mutex_t lock;
    uint64_t failures;
    MF_VECTOR(failed_call) failed;
};

/* ---- by name */

static struct {
    pthread_mutex_t lock;
    int64_t names;
    MF_VECTOR(pjrt_host_calls *) at;     /* weak references */
    MF_VECTOR(const pjrt_api *) offered; /* tables to which the handler was given */
} known = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void host_calls_destroy(mf_object *o)
{
    pjrt_host_calls *s = (pjrt_host_calls *)o;
    pthread_mutex_lock(&known.lock);
    for (int i = 0; i < known.at.count; i++)
        if (known.at.at[i] == s)
            known.at.at[i--] = known.at.at[--known.at.count];
    pthread_mutex_unlock(&known.lock);
    for (int i = 0; i < s->failed.count; i++)
        mf_error_ignore(s->failed.at[i].error);
    mf_free(s->failed.at);
    mf_free(s->eqns.at);
    mf_drop(s->program);
    pthread_mutex_destroy(&s->lock);
}
static const mf_class host_calls_class = { "calls of the host", host_calls_destroy };

pjrt_host_calls *pjrt_host_calls_new(mf_program *program)
{
    pjrt_host_calls *s = mf_object_new(&host_calls_class, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->program = mf_retain(program);
    pthread_mutex_lock(&known.lock);
    s->name = ++known.names;
    bool good = mf_vector_push(&known.at, s);
    pthread_mutex_unlock(&known.lock);
    if (good)
        return s;
    mf_drop(s);
    return NULL;
}

int64_t pjrt_host_calls_name(const pjrt_host_calls *s) { return s->name; }

bool pjrt_host_calls_list(pjrt_host_calls *s, const mf_hlo_findings *list)
{
    bool good = true;
    for (int i = 0; i < list->made.count && good; i++)
        good = mf_vector_push(&s->eqns, list->made.at[i].eqn);
    return good;
}

static pjrt_host_calls *find_calls(int64_t name)
{
    pjrt_host_calls *found = NULL;
    pthread_mutex_lock(&known.lock);
    for (int i = 0; i < known.at.count && !found; i++)
        if (known.at.at[i]->name == name)
            found = mf_retain_if_alive(known.at.at[i]);
    pthread_mutex_unlock(&known.lock);
    return found;
}

/* ---- errors */

/* Keeps the error, which it takes, under a number that is never reused; 0: out of memory. */
static uint64_t keep_error(pjrt_host_calls *s, mf_error_object *error)
{
    pthread_mutex_lock(&s->lock);
    uint64_t number = ++s->failures & PLACE;
    if (!mf_vector_push(&s->failed, ((failed_call){ number, error }))) {
        mf_error_ignore(error);
        number = 0;
    }
    pthread_mutex_unlock(&s->lock);
    return number;
}

mf_error_object *pjrt_host_calls_error(pjrt_host_calls *s, uint64_t found)
{
    mf_error_object *error = NULL;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->failed.count && !error; i++)
        if (s->failed.at[i].number == (found & PLACE)) {
            error = s->failed.at[i].error;
            s->failed.at[i] = s->failed.at[--s->failed.count];
        }
    pthread_mutex_unlock(&s->lock);
    return error ? error : mf_error_out_of_memory();
}

/* ---- the handler */

/* Evaluates on the CPU client, as if outside of any call of the library. */
static mf_error_object *evaluate(const mf_eqn *e, const void *const *in, void *const *out)
{
    const mf_client *before = mf_client_of_thread;
    mf_client_of_thread = &mf_client_cpu;
    mf_error_object *error = e->op->evaluate(e, in, out);
    mf_client_of_thread = before;
    if (error && e->address)
        mf_error_set_address(error, e->address);
    return error;
}

static void *refuse(const pjrt_ffi_frame *f, const char *why)
{
    pjrt_ffi_error args = { PJRT_HEAD(pjrt_ffi_error), why, PJRT_INVALID_ARGUMENT };
    return f->api->new_error(&args);
}

/* The attribute of that name; 0: it is missing. */
static int64_t attribute(const pjrt_ffi_frame *f, const char *name)
{
    for (int64_t i = 0; i < f->attributes.count; i++) {
        const pjrt_ffi_bytes *key = f->attributes.names[i];
        const pjrt_ffi_number *n = f->attributes.at[i];
        if (f->attributes.kinds[i] == PJRT_FFI_NUMBER && n->type == PJRT_FFI_INT64 && key->count == strlen(name) &&
            !memcmp(key->at, name, key->count))
            return *(const int64_t *)n->at;
    }
    return 0;
}

static bool fits(const pjrt_ffi_list *list, int count)
{
    bool good = list->count == count + 1;
    for (int64_t i = 0; i < list->count && good; i++)
        good = list->kinds[i] == PJRT_FFI_BUFFER;
    return good;
}

static void *bytes_of(const pjrt_ffi_list *list, int i) { return ((const pjrt_ffi_buffer *)list->at[i])->data; }

/* The last operand is the report so far, the last result the new one. */
static void *call_host(const pjrt_ffi_frame *f, pjrt_host_calls *s, uint64_t number, const mf_eqn *e)
{
    MF_SMALL_ARRAY(void *, at, 32, e->in_count + e->out_count);
    if (!fits(&f->arguments, e->in_count) || !fits(&f->results, e->out_count))
        return refuse(f, "a call of the host with other operands than it has");
    uint64_t *found = bytes_of(&f->results, e->out_count);
    memcpy(found, bytes_of(&f->arguments, e->in_count), sizeof *found);
    for (int i = 0; at && i < e->in_count; i++)
        at[i] = bytes_of(&f->arguments, i);
    for (int o = 0; o < e->out_count; o++) {
        void *to = bytes_of(&f->results, o);
        if (at)
            at[e->in_count + o] = to;
        if (to)
            memset(to, 0, (size_t)e->out[o]->type->bytes);
    }
    if (*found)
        return NULL;
    mf_error_object *error = at ? evaluate(e, (const void *const *)at, at + e->in_count) : mf_error_out_of_memory();
    if (error)
        *found = number << MF_HLO_PLACE_BITS | keep_error(s, error);
    return NULL;
}

static void *handle(pjrt_ffi_frame *f)
{
    if (f->head.extensions && ((pjrt_extension *)f->head.extensions)->kind == PJRT_FFI_METADATA) {
        pjrt_ffi_metadata *m = ((pjrt_ffi_metadata_extension *)f->head.extensions)->metadata;
        m->major = PJRT_FFI_MAJOR;
        m->minor = PJRT_FFI_MINOR;
        m->traits = 0;
        return NULL;
    }
    if (f->stage != PJRT_FFI_EXECUTE)
        return NULL;
    pjrt_host_calls *s = find_calls(attribute(f, "program"));
    int64_t number = attribute(f, "call");
    const mf_eqn *e = s && number >= 1 && number <= s->eqns.count ? s->eqns.at[number - 1] : NULL;
    void *error = e ? call_host(f, s, (uint64_t)number, e) : refuse(f, "a call of the host that no program of this process has");
    mf_drop(s);
    return error;
}

/* ---- registering it */

static const pjrt_ffi *find_extension(const pjrt_api *api)
{
    for (const pjrt_extension *e = api->head.extensions; e; e = e->next)
        if (e->kind == PJRT_EXTENSION_FFI && e->size >= sizeof(pjrt_ffi))
            return (const pjrt_ffi *)e;
    return NULL;
}

/* Several clients may be made from one plugin, but the handler is registered once. */
static bool is_registered(const pjrt_api *api)
{
    for (int i = 0; i < known.offered.count; i++)
        if (known.offered.at[i] == api)
            return true;
    return false;
}

bool pjrt_offer_host_calls(const pjrt_client *c)
{
    static const char target[] = MF_HLO_HOST_CALL, platform[] = "Host";
    bool known_layout = c->api->version.minor >= PJRT_FFI_OLDEST_MINOR;
    const pjrt_ffi *ffi = c->is_cpu && known_layout ? find_extension(c->api) : NULL;
    if (!ffi || !ffi->register_handler)
        return false;
    pjrt_ffi_register args = { sizeof args, target, strlen(target), handle, platform, strlen(platform), 0 };
    pthread_mutex_lock(&known.lock);
    bool offered = is_registered(c->api);
    if (!offered && mf_vector_push(&known.offered, c->api)) {
        void *error = ffi->register_handler(&args);
        offered = !error;
        known.offered.count -= error != NULL;
        pjrt_destroy(c, PJRT_ERROR_DESTROY, error);
    }
    pthread_mutex_unlock(&known.lock);
    return offered;
}
