/* Arbitrary bytes as environment variables: which steps are dumped (MF_DUMP), the number of threads (MF_NUM_THREADS). */
#include "fuzz/targets.h"

#include "passes/passes.h"
#include "runtime/device.h"
#include "runtime/executable.h"

#include <stdlib.h>
#include <string.h>

/* Whether a comma-separated list has the word, or "all". */
static bool has(const char *list, const char *word)
{
    char *copy = strdup(list), *rest = copy, *item;
    bool found = false;
    while ((item = strsep(&rest, ",")))
        found = found || !strcmp(item, word) || !strcmp(item, "all");
    free(copy);
    return found;
}

void fuzz_settings(const uint8_t *data, size_t size)
{
    char *text = calloc(size + 1, 1);
    if (!text)
        return;
    memcpy(text, data, size);
    setenv("MF_DUMP", text, 1);
    fuzz_must(mf_dump_wants("fuse") == has(text, "fuse") && mf_dump_wants("dce") == has(text, "dce"));
    unsetenv("MF_DUMP");
    setenv("MF_NUM_THREADS", text, 1);
    int workers = mf_worker_count();
    fuzz_must(workers >= 1 && workers <= 65536);
    unsetenv("MF_NUM_THREADS");
    free(text);
}
