/* What a plugin is told where several processes run as one: the number of nodes, which one this is, and a key-value store shared by all,
 * which is the communicator's.
 * Invariants: keys are prefixed with the plugin's name, so plugins do not share keys; callbacks do not block one another, and return
 * errors made by the plugin's own function. If the user's options set the nodes, nothing is added. */
#include "backend/pjrt/pjrt.h"

#include "base/memory/alloc.h"
#include "runtime/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- called by the plugin */

static void *fail(pjrt_make_error *const *make, int code, const char *words) { return (*make)(code, words, strlen(words)); }

/* Takes the error. */
static void *give_error(pjrt_make_error *const *make, mf_error_object *error)
{
    int code = error->status == MF_ERROR_MEMORY     ? PJRT_RESOURCE_EXHAUSTED
               : error->status == MF_ERROR_ARGUMENT ? PJRT_INVALID_ARGUMENT
                                                    : PJRT_UNAVAILABLE;
    void *given = fail(make, code, error->message);
    mf_error_ignore(error);
    return given;
}

/* The name, a zero and the plugin's key, to be freed with mf_free. NULL: out of memory. */
static char *own_key(const pjrt_client *c, const char *key, size_t size, size_t *count)
{
    size_t name = strlen(c->base.platform) + 1;
    char *own = mf_alloc(name + size);
    *count = name + size;
    if (own) {
        memcpy(own, c->base.platform, name);
        memcpy(own + name, key, size);
    }
    return own;
}

static void free_value(char *value) { mf_free(value); }

/* seconds 0: does not wait. */
static void *get_value(const pjrt_client *c, const char *key, size_t size, double seconds, pjrt_make_error *const *make, char **value,
                       size_t *count)
{
    char words[256];
    size_t own_size;
    char *own = own_key(c, key, size, &own_size);
    void *found = NULL;
    mf_error_object *error = own ? c->nodes->get(c->nodes, own, own_size, seconds, &found, count) : mf_error_out_of_memory();
    mf_free(own);
    if (error)
        return give_error(make, error);
    *value = found;
    if (found)
        return NULL;
    if (seconds > 0)
        snprintf(words, sizeof words, "no process has put the key '%.*s' within %g s", size < 128 ? (int)size : 128, key, seconds);
    else
        snprintf(words, sizeof words, "no process has put the key '%.*s'", size < 128 ? (int)size : 128, key);
    return fail(make, seconds > 0 ? PJRT_DEADLINE_EXCEEDED : PJRT_NOT_FOUND, words);
}

static void *get(pjrt_key_get *a)
{
    double seconds = a->milliseconds > 0 ? a->milliseconds / 1e3 : 0;
    a->free_value_out = free_value;
    return get_value(a->context, a->key, a->key_size, seconds, a->make_error, &a->value_out, &a->count_out);
}

static void *try_get(pjrt_key_try_get *a)
{
    a->free_value_out = free_value;
    return get_value(a->context, a->key, a->key_size, 0, a->make_error, &a->value_out, &a->count_out);
}

static void *put(pjrt_key_put *a)
{
    const pjrt_client *c = a->context;
    size_t size;
    char *key = own_key(c, a->key, a->key_size, &size);
    mf_error_object *error = key ? c->nodes->put(c->nodes, key, size, a->value, a->count) : mf_error_out_of_memory();
    mf_free(key);
    return error ? give_error(a->make_error, error) : NULL;
}

/* ---- creating */

static bool is_named(const pjrt_named_value *v, const char *name)
{
    return strlen(name) == v->name_size && !memcmp(v->name, name, v->name_size);
}

static pjrt_named_value number(const char *name, int64_t n)
{
    return (pjrt_named_value){ PJRT_HEAD(pjrt_named_value), name, strlen(name), PJRT_INT64, { .integer = n }, 1 };
}

bool pjrt_add_nodes(pjrt_client *c, pjrt_client_create *args, pjrt_named_value *options)
{
    mf_comm *comm = mf_comm_current();
    for (size_t i = 0; i < args->option_count; i++)
        if (is_named(&options[i], "node_id") || is_named(&options[i], "num_nodes"))
            return false;
    if (!comm || comm->size < 2 || !comm->put)
        return false;
    c->nodes = comm;
    options[args->option_count++] = number("node_id", comm->rank);
    options[args->option_count++] = number("num_nodes", comm->size);
    args->get = get;
    args->put = put;
    args->try_get = try_get;
    args->get_context = args->put_context = args->try_get_context = c;
    return true;
}

bool pjrt_refuses_nodes(const mf_error_object *error) { return strstr(error->message, "num_nodes") || strstr(error->message, "node_id"); }

void pjrt_take_nodes_back(pjrt_client *c, pjrt_client_create *args)
{
    c->nodes = NULL;
    args->option_count -= PJRT_NODE_OPTIONS;
    args->get = NULL;
    args->put = NULL;
    args->try_get = NULL;
    args->get_context = args->put_context = args->try_get_context = NULL;
}
