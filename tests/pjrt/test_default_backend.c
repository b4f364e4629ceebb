/* MF_DEFAULT_BACKEND: where arrays are created and programs run by default. It is read at the first use, so each case runs in a process of
 * its own, forked before the library is used. */
#include "check.h"

#include <manyfold.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a process with this environment prints: its default backend, the platforms of its first device and of an array, then its stderr. */
static const char *said_under(const char *backend)
{
    static char said[2000];
    char plugin[4096];
    int ends[2];
    size_t count = 0;
    if (pipe(ends))
        return "no pipe";
    snprintf(plugin, sizeof plugin, "%s/tests/fake_plugin.so,fake plugin", getenv("MF_BUILD_DIR"));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        dup2(ends[1], 2);
        unsetenv("MF_PJRT_OPTIONS");
        setenv("MF_PJRT_PLUGIN", plugin, 1);
        setenv("MF_DEFAULT_BACKEND", backend, 1);
        mf_value x = mf_arange(3, MF_F32);
        printf("%s, %s, %s, %d devices\n", mf_default_backend(), mf_device_platform(mf_devices().at[0]),
               mf_device_platform(mf_devices_of_array(x).at[0]), mf_device_count());
        fflush(stdout);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t some; count < sizeof said - 1 && (some = read(ends[0], said + count, sizeof said - 1 - count)) > 0;)
        count += (size_t)some;
    said[count] = 0;
    close(ends[0]);
    waitpid(child, NULL, 0);
    return said;
}

TEST(the_environment_names_a_plugin) { CHECK_STR(said_under("fake plugin"), "fake plugin, fake plugin, fake plugin, 4 devices\n"); }

TEST(the_environment_names_a_compiler_of_the_cpu) { CHECK_CONTAINS(said_under("reference"), "reference, cpu, cpu, "); }

TEST(a_name_that_nobody_has_is_said_and_ignored)
{
    const char *said = said_under("tpu");
    CHECK_CONTAINS(said, "MF_DEFAULT_BACKEND=tpu is ignored: unknown backend tpu; present are: 'cpu'");
    CHECK_CONTAINS(said, ", cpu, cpu, ");
}

TEST(nothing_in_the_environment_is_the_cpu) { CHECK_CONTAINS(said_under(""), ", cpu, cpu, "); }
