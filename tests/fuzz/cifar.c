/* Arbitrary bytes as a CIFAR-10 file, padded with zeros to the size of a whole file if the second byte is below 2. */
#include "fuzz/targets.h"

#include <manyfold.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WHOLE = 3073 * 10000 };

static char folder[] = "/tmp/manyfold_cifar_XXXXXX", path[64];

static void forget(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

static bool write_file(const uint8_t *data, size_t size)
{
    if (!*path) {
        if (!mkdtemp(folder))
            return false;
        snprintf(path, sizeof path, "%s/test_batch.bin", folder);
        atexit(forget);
    }
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(data, 1, size, f) == size;
    good = f && fflush(f) == 0 && good;
    if (good && size && size < WHOLE && size >= 4 && data[1] < 2)
        good = ftruncate(fileno(f), WHOLE) == 0; /* zeros: label 0 */
    return f && fclose(f) == 0 && good;
}

void fuzz_cifar(const uint8_t *data, size_t size)
{
    MF_SCOPE;
    if (!write_file(data, size))
        return;
    mf_value v = mf_load_cifar10(folder, "test");
    if (mf_is_error(v))
        fuzz_must(mf_error(v) && (mf_error_status(v) == MF_ERROR_IO || mf_error_status(v) == MF_ERROR_MEMORY));
    else
        fuzz_must(mf_dim(mf_get(v, "image"), 0) == 10000 && mf_item_i64(mf_max(mf_get(v, "label"))) < 10);
}
