/* The checks that are on, by MF_CHECK in the environment or mf_set_checks. Programs contain their checks, so mf_set_checks clears the
 * caches. */
#include "trace/checks/check_list.h"

#include "base/entry.h"

#include <manyfold/debug.h>

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[MF_CHECK_COUNT] = { "nan", "keys", "replicated" };
_Atomic unsigned mf_checks_on = MF_CHECKS_UNREAD;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int find_check(const char *name, size_t length)
{
    int i = 0;
    while (i < MF_CHECK_COUNT && (strlen(names[i]) != length || strncmp(names[i], name, length) != 0))
        i++;
    return i;
}

static mf_error_object *set_checks(const char *list)
{
    unsigned on = 0;
    for (const char *s = list ? list : ""; *s; s += *s == ',') {
        size_t n = strcspn(s, ",");
        if (n && find_check(s, n) == MF_CHECK_COUNT)
            return mf_error_new(MF_ERROR_ARGUMENT, "there is no check '%.*s': the checks are 'nan', 'keys' and 'replicated'",
                                (int)(n < 100 ? n : 100), s);
        on |= n ? 1u << find_check(s, n) : 0;
        s += n;
    }
    atomic_store(&mf_checks_on, on);
    return NULL;
}

static void read_environment(void)
{
    mf_error_object *error = set_checks(getenv("MF_CHECK"));
    if (!error)
        return;
    atomic_store(&mf_checks_on, 0);
    mf_warn("MF_CHECK: %s", mf_error_text(error));
    mf_error_ignore(error);
}

bool mf_check_read(mf_check_kind kind)
{
    pthread_once(&once, read_environment);
    return atomic_load_explicit(&mf_checks_on, memory_order_relaxed) >> kind & 1;
}

mf_status mf_set_checks(const char *list)
{
    MF_ENTER(MF_FORK_STATUS);
    pthread_once(&once, read_environment);
    mf_error_object *error = set_checks(list);
    if (!error)
        mf_clear_caches();
    return mf_error_remember(error);
}
