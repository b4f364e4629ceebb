/* Choosing a backend: by a call, by MF_BACKEND, else the first of the table that this machine can run. wire.c fills the table. */
#include "runtime/backend.h"

#include <manyfold/device.h>
#include <manyfold/function.h>

#include <stdlib.h>
#include <string.h>

static _Atomic(const mf_backend *) chosen;

const mf_backend *mf_backend_find(const char *name)
{
    for (int i = 0; name && mf_backend_table[i]; i++)
        if (!strcmp(mf_backend_table[i]->name, name) && mf_backend_table[i]->available())
            return mf_backend_table[i];
    return NULL;
}

static const mf_backend *first_available(void)
{
    int i = 0;
    while (mf_backend_table[i + 1] && !mf_backend_table[i]->available())
        i++;
    return mf_backend_table[i]; /* the last, the reference, runs everywhere */
}

const mf_backend *mf_backend_default(void)
{
    static _Atomic bool said;
    const mf_backend *known = atomic_load_explicit(&chosen, memory_order_acquire), *none = NULL;
    if (known)
        return known;
    const char *name = getenv("MF_BACKEND");
    known = name && *name ? mf_backend_find(name) : NULL;
    if (name && *name && !known)
        mf_warn_once(&said, "MF_BACKEND=%s: there is no such backend here", name);
    if (!known)
        known = first_available();
    return atomic_compare_exchange_strong(&chosen, &none, known) ? known : none;
}

mf_status mf_set_default_backend(const char *name)
{
    MF_ENTER(MF_FORK_STATUS);
    const mf_backend *found = mf_backend_find(name);
    if (found) {
        atomic_store_explicit(&chosen, found, memory_order_release);
        return MF_OK;
    }
    mf_text present = { 0 };
    for (int i = 0; mf_backend_table[i]; i++)
        if (mf_backend_table[i]->available())
            mf_text_add(&present, "%s%s", present.count ? ", " : "", mf_backend_table[i]->name);
    mf_error_object *e = mf_error_new(MF_ERROR_ARGUMENT, "mf_set_default_backend: unknown backend %s; present are: %s",
                                      name ? name : "(NULL)", present.at && !present.failed ? present.at : "none");
    mf_text_free(&present);
    return mf_error_remember(e);
}

const char *mf_default_backend(void)
{
    MF_PARENT_ONLY(NULL);
    return mf_backend_default()->name;
}

mf_compiler_counters mf_compiler_read(void)
{
    mf_compiler_counters all = { 0 };
    MF_PARENT_ONLY(all);
    for (int i = 0; mf_backend_table[i]; i++) {
        mf_compiler_counters one = { 0 };
        if (mf_backend_table[i]->counters)
            mf_backend_table[i]->counters(&one);
        all.loops += one.loops;
        all.failures += one.failures;
        all.waiting += one.waiting;
        all.seconds += one.seconds;
    }
    return all;
}
