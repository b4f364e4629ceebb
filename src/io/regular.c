/* Opening and mapping files for reading. Invariant: anything but a regular file is refused before it is read, so reading never blocks on
 * the writer of a FIFO. */
#include "io/regular.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int mf_open_regular(const char *path)
{
    struct stat s;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: opening a FIFO would wait for a writer */
    if (fd < 0 || fstat(fd, &s) || S_ISREG(s.st_mode))
        return fd;
    (void)close(fd);
    errno = 0;
    return -1;
}

mf_value mf_unreadable(const char *path)
{
    return mf_make_error(MF_ERROR_IO, "%s: cannot be read: %s", path, errno ? strerror(errno) : "it is no regular file");
}

mf_value mf_map_regular(const char *path, mf_mapping *m)
{
    struct stat s = { 0 };
    int fd = mf_open_regular(path);
    bool known = fd >= 0 && fstat(fd, &s) == 0;
    void *bytes = known && s.st_size > 0 ? mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    int error = errno;
    if (fd >= 0)
        (void)close(fd);
    *m = (mf_mapping){ NULL, 0 };
    if (!known || bytes == MAP_FAILED) {
        errno = error;
        return mf_unreadable(path);
    }
    if (bytes)
        *m = (mf_mapping){ bytes, (size_t)s.st_size };
    return (mf_value){ 0 };
}

void mf_unmap(mf_mapping *m)
{
    if (m->bytes)
        (void)munmap(m->bytes, m->size);
    *m = (mf_mapping){ NULL, 0 };
}
