/* Files in memory, for readers that need a path. */
#include "fuzz/targets.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

fuzz_file fuzz_file_open(const uint8_t *data, size_t size)
{
    fuzz_file f = { .descriptor = memfd_create("fuzz", MFD_CLOEXEC) };
    bool whole = f.descriptor >= 0 && write(f.descriptor, data, size) == (ssize_t)size && lseek(f.descriptor, 0, SEEK_SET) == 0;
    if (whole)
        snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.descriptor);
    return f;
}

void fuzz_file_close(fuzz_file *f)
{
    if (f->descriptor >= 0)
        close(f->descriptor);
}
