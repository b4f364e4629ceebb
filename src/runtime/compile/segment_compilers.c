/* Chooses a segment compiler: the one that a call or MF_BACKEND names, else the first of the table that this machine can run. wire.c
 * fills the table. To the user it is a backend, like another client. */
#include "runtime/compile/segment_compiler.h"

#include "runtime/device.h"

#include <manyfold/debug.h>

#include <stdlib.h>
#include <string.h>

static _Atomic(const mf_segment_compiler *) chosen;

const mf_segment_compiler *mf_segment_compiler_find(const char *name)
{
    for (int i = 0; name && mf_segment_compilers[i]; i++)
        if (!strcmp(mf_segment_compilers[i]->name, name) && mf_segment_compilers[i]->available())
            return mf_segment_compilers[i];
    return NULL;
}

static const mf_segment_compiler *first_available(void)
{
    int i = 0;
    while (mf_segment_compilers[i + 1] && !mf_segment_compilers[i]->available())
        i++;
    return mf_segment_compilers[i]; /* the last, the reference, runs everywhere */
}

const mf_segment_compiler *mf_segment_compiler_default(void)
{
    static _Atomic bool warned;
    const mf_segment_compiler *known = atomic_load_explicit(&chosen, memory_order_acquire), *none = NULL;
    if (known)
        return known;
    const char *name = getenv("MF_BACKEND");
    known = name && *name ? mf_segment_compiler_find(name) : NULL;
    if (name && *name && !known)
        mf_warn_once(&warned, "MF_BACKEND=%s: there is no such backend here", name);
    if (!known)
        known = first_available();
    return atomic_compare_exchange_strong(&chosen, &none, known) ? known : none;
}

/* The client that the name means; if the name is one of the CPU's compilers, that is chosen too. NULL and *error. `by` begins the
 * error's message. */
static const mf_client *choose(const char *by, const char *name, mf_error_object **error)
{
    const mf_client *client = mf_client_named(name, error);
    const mf_segment_compiler *found = mf_segment_compiler_find(name);
    if (found)
        atomic_store_explicit(&chosen, found, memory_order_release);
    if (client || *error)
        return client;
    mf_text present = { 0 };
    mf_client_names(&present);
    *error = mf_error_new(MF_ERROR_ARGUMENT, "%sunknown backend %s; present are: %s", by, name ? name : "(NULL)",
                          present.at && !present.failed ? present.at : "none");
    mf_text_free(&present);
    return NULL;
}

mf_status mf_set_default_backend(const char *name)
{
    MF_ENTER(MF_FORK_STATUS);
    mf_error_object *error;
    const mf_client *client = choose("mf_set_default_backend: ", name, &error);
    if (client)
        atomic_store_explicit(&mf_client_chosen, client, memory_order_release);
    return client ? MF_OK : mf_error_remember(error);
}

/* The caller cannot take an error, so it becomes a warning, as for MF_BACKEND. */
const mf_client *mf_client_first_default(void)
{
    static _Atomic bool warned;
    const char *name = getenv("MF_DEFAULT_BACKEND");
    mf_error_object *error = NULL;
    const mf_client *none = NULL, *client = name && *name ? choose("", name, &error) : &mf_client_cpu;
    if (error)
        mf_warn_once(&warned, "MF_DEFAULT_BACKEND=%s is ignored: %s", name, error->message);
    mf_error_ignore(error);
    client = client ? client : &mf_client_cpu;
    return atomic_compare_exchange_strong(&mf_client_chosen, &none, client) ? client : none;
}

const char *mf_default_backend(void)
{
    MF_PARENT_ONLY(NULL);
    const mf_client *client = mf_client_default();
    return client == &mf_client_cpu ? mf_segment_compiler_default()->name : client->platform;
}

mf_compiler_counters mf_compiler_read(void)
{
    mf_compiler_counters all = { 0 };
    MF_PARENT_ONLY(all);
    for (int i = 0; mf_segment_compilers[i]; i++) {
        mf_compiler_counters one = { 0 };
        if (mf_segment_compilers[i]->counters)
            mf_segment_compilers[i]->counters(&one);
        all.loops += one.loops;
        all.failures += one.failures;
        all.waiting += one.waiting;
        all.seconds += one.seconds;
    }
    return all;
}
