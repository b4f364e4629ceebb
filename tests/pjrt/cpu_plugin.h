/* XLA's CPU plugin with eight devices, for the tests that use it: the one that MF_PJRT_PLUGIN names, or that scripts/fetch_pjrt_plugin.sh
 * has downloaded. */
#ifndef MF_TESTS_PJRT_CPU_PLUGIN_H
#define MF_TESTS_PJRT_CPU_PLUGIN_H

#include "check.h"

#include <manyfold.h>

#include <unistd.h>

enum { N = 8 };

/* False if there is none. */
static inline bool find_cpu_plugin(char *path, size_t room)
{
    const char *named = getenv("MF_PJRT_PLUGIN"), *comma = named ? strrchr(named, ',') : NULL, *tree = getenv("MF_SOURCE_DIR");
    if (named)
        snprintf(path, room, "%.*s", (int)(comma ? comma - named : (long)strlen(named)), named);
    else
        snprintf(path, room, "%s/out/pjrt/pjrt_c_api_cpu_plugin.so", tree ? tree : ".");
    return access(path, R_OK) == 0;
}

/* Registers it under this name, if there is one; Manyfold's own CPU then has as many devices. */
static inline void register_cpu_plugin(const char *name)
{
    const char *options = getenv("MF_PJRT_OPTIONS"); /* another plugin has other options */
    char path[4096];
    if (!find_cpu_plugin(path, sizeof path))
        return;
    (void)mf_set_num_cpu_devices(N);
    CHECK_EQ_INT(mf_register_plugin(name, path, options ? options : "cpu_device_count=8"), MF_OK);
}

#define PLUGIN_OR_SKIP          \
    if (devices().count != N) { \
        SKIP("no plugin");      \
    }                           \
    MF_SCOPE

#endif
