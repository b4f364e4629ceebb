/* XLA's CPU plugin with eight devices, for the tests that run on it: MF_PJRT_PLUGIN names one, or scripts/fetch_pjrt_plugin.sh has fetched
 * it. */
#ifndef MF_TESTS_PJRT_CPU_PLUGIN_H
#define MF_TESTS_PJRT_CPU_PLUGIN_H

#include "check.h"

#include <manyfold.h>

#include <unistd.h>

enum { N = 8 };

/* Registers it under the name, where there is one; our own CPU has as many devices then. */
static void register_cpu_plugin(const char *name)
{
    const char *named = getenv("MF_PJRT_PLUGIN"), *comma = named ? strrchr(named, ',') : NULL, *tree = getenv("MF_SOURCE_DIR");
    const char *options = getenv("MF_PJRT_OPTIONS"); /* another plugin has others */
    char path[4096];
    if (named)
        snprintf(path, sizeof path, "%.*s", (int)(comma ? comma - named : (long)strlen(named)), named);
    else
        snprintf(path, sizeof path, "%s/out/pjrt/pjrt_c_api_cpu_plugin.so", tree ? tree : ".");
    if (access(path, R_OK) != 0)
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
